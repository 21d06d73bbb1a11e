"""An index that a user made without Resift, for tests of ``resift attach`` and ``detach``, and functions that run them.

The index has an ingest pipeline, an alias with a filter, routing, an analyzer of its own and metadata. Attaching must
not change any of these.
"""

from __future__ import annotations

import json
import uuid
import zlib
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
    "refresh_interval": "-1",  # without automatic refreshes, a missing explicit refresh always fails the test
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
    """Return the document with the number n.

    Every 50th document has no text, and another of each 50 has only a word without a vector in the tests' model. The
    formats of the others alternate: a field is an object or has a dotted name, and a title is a string or a list.
    """
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
    """Return the ``routing`` parameter of a document's bulk action. Only every third document is routed."""
    return {"routing": f"r{n % 4}"} if n % 3 == 0 else {}


class Index:
    """An index with ``count`` documents, an ingest pipeline of the user as its default, and an alias with a filter."""

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
        """Index documents by their numbers. Existing documents are replaced."""
        numbers = list(numbers)
        for start in range(0, len(numbers), 500):
            lines = []
            for n in numbers[start : start + 500]:
                lines += [json.dumps({"index": {"_id": str(n), **routed(n)}}), json.dumps(source(n))]
            self.bulk(lines)

    def bulk(self, lines: list[str]) -> list[dict[str, Any]]:
        """Send the lines of a bulk request, and return the items of the response."""
        answer = self.cluster.request("POST", f"/{self.name}/_bulk", "\n".join(lines) + "\n")
        return [next(iter(item.values())) for item in answer["items"]]

    def documents(self) -> dict[str, str]:
        """Return the routing and the stored source of each document as a JSON string, by id."""
        self.cluster.request("POST", f"/{self.name}/_refresh")
        body = {"size": 10_000, "version": False, "query": {"match_all": {}}}
        hits = self.cluster.request("POST", f"/{self.name}/_search", body)["hits"]["hits"]
        return {hit["_id"]: json.dumps([hit.get("_routing"), hit["_source"]], ensure_ascii=False) for hit in hits}

    def mapping(self) -> dict[str, Any]:
        """Return the mapping."""
        mapping: dict[str, Any] = self.cluster.request("GET", f"/{self.name}/_mapping")[self.name]["mappings"]
        return mapping

    def settings(self) -> dict[str, Any]:
        """Return the settings by their flat names, such as ``index.number_of_shards``."""
        settings: dict[str, Any] = self.cluster.request("GET", f"/{self.name}/_settings", flat_settings="true")
        return dict(settings[self.name]["settings"])

    def aliases(self) -> Any:
        """Return the response of the alias API."""
        return self.cluster.request("GET", f"/{self.name}/_alias")

    def close(self) -> None:
        """Delete the index, and the pipelines of the user and of Resift."""
        self.engine.drop_if_exists(self.name)
        for kind, name in (
            ("ingest", f"{self.name}-own"),
            ("ingest", f"resift-{self.name}"),
            ("search", f"resift-{self.name}"),
        ):
            if self.cluster.get_or_none(f"/_{kind}/pipeline/{name}"):
                self.cluster.request("DELETE", f"/_{kind}/pipeline/{name}")


def assert_right(index: Index, model: Model, fields: list[str], field: str = COMPACT_FIELD) -> None:
    """Assert that each document has the vector of its text, except for the rounding error of the field's type.

    Args:
        index: The index.
        model: The model that encoded the documents.
        fields: The text fields.
        field: The vector field. A name that starts with the name of the compact field means vectors of bytes.
    """
    for document in index.engine.scan(index.name, field):
        assert document.vector is not None, document.id
        right = model.encode([document_text(document.source, fields)])[0]
        atol = np.abs(right).max() / 254 + 1e-5 if field.startswith(COMPACT_FIELD) else 1e-5
        np.testing.assert_allclose(document.vector, right, atol=atol)


def own_model(vectors: WordVectors, folder: Path, seed: int, file: str) -> tuple[Model, str]:
    """Return a new model, and the folder in which it is saved. It is the same in each test run.

    Args:
        vectors: Word vectors, to which small random numbers are added.
        folder: The folder for the model's folder.
        seed: The number of the model in its test file.
        file: The name of the test file. Files share a cluster, so no other file has this model.
    """
    random = np.random.default_rng([seed, zlib.crc32(file.encode())])
    rows = vectors.rows() + random.normal(size=vectors.rows().shape) / 9
    model = build_model("mean", build_table(list(vectors.words), rows.astype(np.float32)))
    return model, str(model.save(folder / f"model-{seed}"))


def run(command: str, index: str, engine: str, *flags: str, status: int | tuple[int, ...] | None = 0) -> Result:
    """Run ``resift attach --vectors`` or ``resift detach`` on an index, with ``--yes``.

    Random vectors do not improve searches. The command therefore writes them only with ``--force``, and sets their
    weight to 0. This function sets the weight of the model instead.

    Args:
        command: ``attach`` or ``detach``.
        index: Name of the index.
        engine: URL of the cluster.
        flags: Further arguments of the command.
        status: The expected exit status, or several allowed ones. None allows any.
    """
    vectors = ["--vectors", "--force"] if command == "attach" else []
    result = CliRunner().invoke(main, [command, index, "--engine", engine, "--yes", *vectors, *flags])
    allowed = (status,) if isinstance(status, int) else status
    assert allowed is None or result.exit_code in allowed, result.output
    if vectors and result.exit_code == 0 and "--dry-run" not in flags:
        with closing(OpenSearchEngine(engine)) as opened:
            opened.tune(index, None)
    return result


@pytest.fixture
def shop(cluster: OpenSearchEngine) -> Iterator[Index]:
    """Return a new index. It is deleted at the end."""
    index = Index(cluster)
    yield index
    index.close()


@pytest.fixture(scope="module")
def own(
    vectors: WordVectors, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[Model, str]:
    """Return a model that only this module's tests have, and its folder."""
    return own_model(vectors, tmp_path_factory.mktemp("own"), 1, request.path.name)


@pytest.fixture(scope="module")
def other(
    vectors: WordVectors, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[Model, str]:
    """Return a second model like ``own``, and its folder."""
    return own_model(vectors, tmp_path_factory.mktemp("other"), 2, request.path.name)


def remove_pipelines(cluster: Cluster, index: str) -> None:
    """Remove Resift's ingest pipeline of an index, and Resift's processor from the search pipelines for the index."""
    for name, rewriter in find_rewriters(cluster).items():
        if rewriter.index == index:
            remove_processor(cluster, name)
    remove_ingest_pipeline(cluster, index)
