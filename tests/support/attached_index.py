"""An index as users make them by hand, with all that attaching must leave alone, and the commands on it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from engine_documents import CONTENT_WORDS

from resift import Model, WordVectors, build_model
from resift.cli.main import main
from resift.encoders.tables import build_table
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_pipelines import remove_ingest_pipeline
from resift.plugin.cluster.search_pipelines import find_rewriters, remove_processor
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.query.dsl import COMPACT_FIELD, document_text

COUNT = 80
SETTINGS: dict[str, Any] = {
    "number_of_shards": 2,
    "number_of_replicas": 0,
    "refresh_interval": "-1",  # nothing that is needed is visible by chance
    "analysis": {"analyzer": {"shouting": {"tokenizer": "standard", "filter": ["uppercase"]}}},
}
MAPPINGS: dict[str, Any] = {
    "dynamic": "strict",
    "_meta": {"owner": {"team": "shop", "since": [2020, 1.5]}, "z": None, "a": "ü"},
    "properties": {
        "title": {"type": "text", "analyzer": "shouting", "copy_to": "everything"},
        "text": {"type": "text", "fields": {"raw": {"type": "keyword", "ignore_above": 100}}},
        "everything": {"type": "text"},
        "comments": {"type": "nested", "properties": {"by": {"type": "keyword"}, "says": {"type": "text"}}},
        "meta": {"properties": {"note": {"type": "match_only_text"}, "code": {"type": "keyword"}}},
        "suggest": {"type": "completion"},
        "price": {"type": "double"},
        "n": {"type": "long"},
        "stamped": {"type": "boolean"},
    },
}


def source(n: int) -> dict[str, Any]:
    """A document with a bit of everything; some of them have no text, or no words that the tests' model knows."""
    rng = np.random.default_rng(n)
    words = rng.choice(CONTENT_WORDS, 12).tolist()
    if n % 50 == 7:
        return {"n": n, "price": 0.1 * n}
    return (
        {
            "z": None,
            "title": " ".join(words[:3]),
            "text": "xyzzy" if n % 50 == 9 else " ".join(words[3:]),
            "comments": [{"says": " ".join(words[i : i + 5]), "by": "bob"} for i in range(n % 3)],
            "meta": {"note": f'{words[0]} é " \\ 東京', "code": f"A-{n}"},
            "suggest": {"input": words[:2], "weight": n},
            "price": 1 / (n + 1),
            "n": 2**62 + n,
        }
        if n % 2
        else {"n": n, "text": " ".join(words), "title": ["of", " ".join(words[:2])], "meta.note": " ".join(words[3:8])}
    )


def routed(n: int) -> dict[str, str]:
    """Where a document is put; some are routed."""
    return {"routing": f"r{n % 4}"} if n % 3 == 0 else {}


class Index:
    """An index with ``COUNT`` documents, a default pipeline of its own, and an alias with a filter."""

    def __init__(self, engine: OpenSearchEngine, count: int = COUNT) -> None:
        self.name = f"shop-{uuid.uuid4().hex[:8]}"
        self.engine, self.cluster = engine, Cluster(engine)
        request = self.cluster.request
        stamp = {"set": {"field": "stamped", "value": True}}
        request("PUT", f"/_ingest/pipeline/{self.name}-own", {"processors": [stamp]})
        request(
            "PUT",
            f"/{self.name}",
            {
                "settings": {**SETTINGS, "index.default_pipeline": f"{self.name}-own"},
                "mappings": {**MAPPINGS, "properties": {**MAPPINGS["properties"], "z": {"type": "keyword"}}},
                "aliases": {f"{self.name}-odd": {"filter": {"exists": {"field": "price"}}}},
            },
        )
        self.write(range(count))

    def write(self, numbers: Any) -> None:
        """Write documents whole, as a client does."""
        numbers = list(numbers)
        for start in range(0, len(numbers), 500):
            lines = []
            for n in numbers[start : start + 500]:
                lines += [json.dumps({"index": {"_id": str(n), **routed(n)}}), json.dumps(source(n))]
            self.bulk(lines)

    def bulk(self, lines: list[str]) -> list[dict[str, Any]]:
        """Send a bulk request; return its items."""
        answer = self.cluster.request("POST", f"/{self.name}/_bulk", "\n".join(lines) + "\n")
        return [next(iter(item.values())) for item in answer["items"]]

    def documents(self) -> dict[str, str]:
        """The source of every document as it is stored, by its id."""
        self.cluster.request("POST", f"/{self.name}/_refresh")
        body = {"size": 10_000, "version": False, "query": {"match_all": {}}}
        hits = self.cluster.request("POST", f"/{self.name}/_search", body)["hits"]["hits"]
        return {hit["_id"]: json.dumps([hit.get("_routing"), hit["_source"]], ensure_ascii=False) for hit in hits}

    def mapping(self) -> dict[str, Any]:
        """The mapping."""
        mapping: dict[str, Any] = self.cluster.request("GET", f"/{self.name}/_mapping")[self.name]["mappings"]
        return mapping

    def settings(self) -> dict[str, Any]:
        """The settings by their flat names."""
        settings: dict[str, Any] = self.cluster.request("GET", f"/{self.name}/_settings", flat_settings="true")
        return dict(settings[self.name]["settings"])

    def aliases(self) -> Any:
        """The aliases."""
        return self.cluster.request("GET", f"/{self.name}/_alias")

    def close(self) -> None:
        """Delete it with its pipelines."""
        self.engine.drop_if_exists(self.name)
        for kind, name in (
            ("ingest", f"{self.name}-own"),
            ("ingest", f"resift-{self.name}"),
            ("search", f"resift-{self.name}"),
        ):
            if self.cluster.find(f"/_{kind}/pipeline/{name}"):
                self.cluster.request("DELETE", f"/_{kind}/pipeline/{name}")


def assert_right(index: Index, model: Model, fields: list[str], field: str = COMPACT_FIELD) -> None:
    """Every document has the vector of its text, as exactly as its field has them."""
    for one in index.engine.scan(index.name, field):
        assert one.vector is not None, one.id
        right = model.encode([document_text(one.source, fields)])[0]
        atol = np.abs(right).max() / 254 + 1e-5 if field.startswith(COMPACT_FIELD) else 1e-5
        np.testing.assert_allclose(one.vector, right, atol=atol)


def own_model(vectors: WordVectors, folder: Path, seed: int) -> tuple[Model, str]:
    """A model that no other test, nor another run of this one, has; and the folder that it is saved in."""
    rows = (
        vectors.rows() + np.random.default_rng([seed, uuid.uuid4().int % 2**32]).normal(size=vectors.rows().shape) / 9
    )
    model = build_model("mean", build_table(list(vectors.words), rows.astype(np.float32)))
    return model, str(model.save(folder / f"model-{seed}"))


def run(command: str, index: str, engine: str, *flags: str, status: int | tuple[int, ...] | None = 0) -> Result:
    """``resift attach --vectors`` or ``detach`` on an index, with --yes.

    Random vectors do not improve searches, so they are only written with --force, and their weight would be 0. Here
    they get the weight of the model.
    """
    vectors = ["--vectors", "--force"] if command == "attach" else []
    result = CliRunner().invoke(main, [command, index, "--engine", engine, "--yes", *vectors, *flags])
    wanted = (status,) if isinstance(status, int) else status
    assert wanted is None or result.exit_code in wanted, result.output
    if vectors and result.exit_code == 0 and "--dry-run" not in flags:
        with closing(OpenSearchEngine(engine)) as opened:
            opened.tune(index, None)
    return result


@pytest.fixture
def shop(cluster: OpenSearchEngine) -> Iterator[Index]:
    """The index, deleted at the end."""
    index = Index(cluster)
    yield index
    index.close()


@pytest.fixture(scope="module")
def own(vectors: WordVectors, tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, str]:
    """A model of this module's own."""
    return own_model(vectors, tmp_path_factory.mktemp("own"), 1)


@pytest.fixture(scope="module")
def other(vectors: WordVectors, tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, str]:
    """Another one."""
    return own_model(vectors, tmp_path_factory.mktemp("other"), 2)


def remove_pipelines(cluster: Cluster, index: str) -> None:
    """Remove the ingest pipeline of an index that Resift made, and our processor from its search pipelines."""
    for name, one in find_rewriters(cluster).items():
        if one.index == index:
            remove_processor(cluster, name)
    remove_ingest_pipeline(cluster, index)
