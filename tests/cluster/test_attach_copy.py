"""A copy with a graph takes the place of an index behind its alias, while clients write; and is detached."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attached_index import Index, assert_right, other, own, routed, run, source
from test_attach_running import COUNT, Killed, Traffic

from resift import Model
from resift.errors import EngineError
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.copying import CopyPlan, copy_documents

__all__ = ["other", "own"]

OF_ONE_INDEX = ("uuid", "creation_date", "provided_name", "version.created")  # settings


class Behind(Index):
    """What another name says of an index: an alias, which clients write through, or the name of the copy."""

    def __init__(self, index: Index, name: str) -> None:
        self.name, self.engine, self.cluster = name, index.engine, index.cluster

    def bulk(self, lines: list[str]) -> list[dict[str, Any]]:
        """Send a bulk request, as often as it takes while writes are refused for a moment."""
        while True:
            try:
                items = super().bulk(lines)
            except EngineError as error:
                if error.status != 403:
                    raise
            else:
                if items[0]["status"] != 403:
                    return items
                assert "cluster_block_exception" in items[0]["error"]["type"]
            time.sleep(0.01)


class Shops:
    """An index with an alias, and another one with the same documents; a final pipeline counts how often it runs."""

    def __init__(self, engine: OpenSearchEngine) -> None:
        self.index, self.twin = Index(engine, count=0), Index(engine, count=0)
        self.counting = f"{self.index.name}-counting"
        script = {"script": {"source": "ctx.n = (ctx.n == null ? 0L : ctx.n) + 1L"}}
        self.index.cluster.request("PUT", f"/_ingest/pipeline/{self.counting}", {"processors": [script]})
        for index in (self.index, self.twin):
            index.cluster.request("PUT", f"/{index.name}/_settings", {"index.final_pipeline": self.counting})
            index.write(range(COUNT))
        self.name, self.alias = f"{self.index.name}-copy", f"{self.index.name}-odd"
        self.clients, self.copy = Behind(self.index, self.alias), Behind(self.index, self.name)

    def close(self) -> None:
        for index in (self.copy, self.index, self.twin):
            index.close()
        self.index.cluster.request("DELETE", f"/_ingest/pipeline/{self.counting}")

    def state(self) -> tuple[Any, Any, Any]:
        """What the index is, beside its documents."""
        return self.index.mapping(), self.index.settings(), self.index.aliases()


@pytest.fixture
def shops(cluster: OpenSearchEngine) -> Iterator[Shops]:
    shops = Shops(cluster)
    yield shops
    shops.close()


def contents(index: Index) -> dict[str, Any]:
    """The routing and the fields of every document, without vectors of ours; OpenSearch may have them in any order."""
    found = {id: json.loads(text) for id, text in index.documents().items()}
    for _, fields in found.values():
        fields.pop("resift_vector", None)
        fields.pop("resift_vector_int8", None)
    return found


def attach(shops: Shops, url: str, folder: str, *flags: str, status: int | tuple[int, ...] = 0) -> str:
    flags = ("--copy-to", shops.name, "--alias", shops.alias, "--model", folder, *flags)
    return run("attach", shops.index.name, url, *flags, status=status).output


def without_own(settings: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if not name.endswith(OF_ONE_INDEX)}


def assert_alike(shops: Shops) -> None:
    """The copy has the mapping and the settings of the index, and a graph."""
    mapping, wanted = shops.copy.mapping(), shops.index.mapping()
    assert mapping["properties"].pop("resift_vector")["method"]["engine"] == "lucene"
    meta = mapping.pop("_meta")
    assert {name: meta[name] for name in ("owner", "z", "a")} == wanted.pop("_meta")
    assert mapping == wanted
    settings, before = without_own(shops.copy.settings()), without_own(shops.index.settings())
    assert settings["index.knn"] == "true"
    ours = {name for name in settings if name.startswith(("index.knn", "index.merge."))}  # what OpenSearch adds
    ours |= {name for name, value in settings.items() if value == "_none"}
    before = {name: value for name, value in before.items() if name not in ours}
    assert {name: value for name, value in settings.items() if name not in ours} == before


def test_clients_write_through_the_alias_all_the_while(
    shops: Shops, own: tuple[Model, str], opensearch_url: str
) -> None:
    model, folder = own
    before = shops.state()
    with Traffic(shops.clients, shops.twin) as traffic:
        time.sleep(0.2)
        # what clients write while vectors are may have another vector, and is told: status 3
        output = attach(shops, opensearch_url, folder, status=(0, 3))
        written = traffic.writes
        time.sleep(0.3)
    assert not traffic.failed
    assert traffic.writes > written > 0
    assert "writes were refused for" in output
    assert contents(shops.copy) == contents(shops.twin)
    assert_alike(shops)
    name, alias = shops.index.name, shops.alias
    assert shops.copy.aliases() == {shops.name: {"aliases": before[2][name]["aliases"]}}
    assert shops.index.aliases() == {name: {"aliases": {}}}
    # whoever wrote documents through the copy had them go through the same pipelines, but not through one of ours
    assert_nearest(shops.copy, model)
    with Traffic(shops.clients, shops.twin) as traffic:
        time.sleep(0.2)
        output = run("detach", alias, opensearch_url).output
        time.sleep(0.2)
    assert not traffic.failed
    assert "detached" in output
    assert contents(shops.copy) == contents(shops.twin)
    assert not any("resift_vector" in text for text in shops.copy.documents().values())
    assert shops.copy.mapping()["_meta"] == before[0]["_meta"]
    assert shops.state()[:2] == before[:2]


def assert_nearest(index: Index, model: Model) -> None:
    """A search of the whole index by a vector finds the document that has it."""
    hits = [one for one in index.engine.scan(index.name) if one.vector is not None and one.vector.any()]
    for one in hits[:: len(hits) // 5]:
        query = {"knn": {"resift_vector": {"vector": one.vector.tolist(), "k": 5}}}
        answer = index.cluster.request("POST", f"/{index.name}/_search", {"query": query, "_source": False})
        assert answer["hits"]["total"]["value"] >= 5
        assert answer["hits"]["max_score"] == pytest.approx(2, abs=1e-3)  # 1 + the inner product of unit vectors
    assert model.dim == len(hits[0].vector)


class KilledAt(Killed):
    """Commands that are killed once something is so."""

    def run_until(self, condition: Callable[[], bool], *command: str) -> int:
        assert self._starter.stdin is not None
        assert self._starter.stdout is not None
        self._starter.stdin.write(" ".join(command) + "\n")
        self._starter.stdin.flush()
        deadline = time.monotonic() + 60
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.005)
        self._starter.stdin.write("kill\n")
        self._starter.stdin.flush()
        return int(self._starter.stdout.readline())


def test_copying_goes_on_after_kills_and_leaves_no_block(
    shops: Shops, own: tuple[Model, str], opensearch_url: str
) -> None:
    _, folder = own
    index, copy = shops.index, shops.copy

    def blocked(one: Index) -> bool:
        return one.settings().get("index.blocks.write") == "true"

    def copied() -> bool:
        return bool(copy.cluster.find(f"/{copy.name}")) and copy.engine.sample(copy.name, 1).hits != []

    before, where = shops.state(), ["--engine", opensearch_url, "--yes"]
    attaching = [
        "attach",
        index.name,
        "--vectors",
        "--copy-to",
        shops.name,
        "--alias",
        shops.alias,
        "--model",
        folder,
        *where,
    ]
    with KilledAt() as killed, Traffic(shops.clients, shops.twin) as traffic:
        assert killed.run(*attaching, after=0.3) < 0
        assert killed.run_until(lambda: bool(copy.cluster.find(f"/{copy.name}")), *attaching) < 0
        ends = [killed.run_until(lambda: blocked(index), *attaching), killed.run(*attaching)]
        assert ends[1] in (0, 3)  # 3 where clients wrote beside it
        assert not blocked(index)
        assert shops.alias in copy.aliases()[copy.name]["aliases"]
    assert not traffic.failed
    assert contents(copy) == contents(shops.twin)
    assert_alike(shops)
    assert min(ends) < 0
    assert shops.state()[:2] == before[:2]


def test_nothing_is_written_while_documents_are_copied_and_what_is_written_then_is_right(
    shops: Shops, own: tuple[Model, str], opensearch_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, folder = own
    gone = [json.dumps({"delete": {"_id": "5", **routed(5)}}), json.dumps({"delete": {"_id": "8"}})]
    anew = [json.dumps({"index": {"_id": "5", **routed(5)}}), json.dumps(source(11))]
    refused = []

    def refusing(*given: Any) -> int:
        for name in (shops.index.name, shops.alias):
            refused.extend(item["status"] for item in Index.bulk(Behind(shops.index, name), gone))
        return copy_documents(*given)

    def attached(plan: CopyPlan, *given: Any) -> Any:
        for index in (shops.clients, shops.twin):
            index.bulk(gone)
            index.cluster.request("POST", f"/{index.name}/_flush", force="true")
            index.bulk(anew)
        return attach_copy(plan, *given)

    attach_copy = CopyPlan._attached
    monkeypatch.setattr("resift.plugin.operations.copying.copy_documents", refusing)
    monkeypatch.setattr(CopyPlan, "_attached", attached)
    attach(shops, opensearch_url, folder)
    assert refused == [403] * 4
    assert contents(shops.copy) == contents(shops.twin)
    assert "8" not in contents(shops.copy)
    assert "8" in contents(shops.index)
    assert_right(shops.copy, model, list(shops.copy.engine.info(shops.name).fields), "resift_vector")


def test_vectors_of_the_index_itself_come_along_as_they_were_written(
    cluster: OpenSearchEngine, own: tuple[Model, str], opensearch_url: str
) -> None:
    index = Index(cluster, count=20)
    copy, alias = Behind(index, f"{index.name}-copy"), f"{index.name}-odd"
    try:
        properties = {"v": {"type": "knn_vector", "dimension": 3}}
        index.cluster.request("PUT", f"/{index.name}/_mapping", {"properties": properties})
        index.bulk([json.dumps({"index": {"_id": "v"}}), json.dumps({"v": [0.123456789, 1, -2.5], "n": 1})])
        flags = ("--copy-to", copy.name, "--alias", alias, "--model", own[1])
        run("attach", index.name, opensearch_url, *flags)
        assert contents(copy) == contents(index)
        query = {"knn": {"v": {"vector": [0, 1, -2], "k": 1}}}
        answer = cluster.search(copy.name, {"query": query, "search_pipeline": "_none"})
        assert [hit["_id"] for hit in answer.hits] == ["v"]
    finally:
        copy.close()
        index.close()
