"""Searches of every kind, sent plainly, without a session and in a session, with and without Resift's vectors.

``docs/rewriting.md`` contains a table of what a session does to each kind. These tests compare the table with what
happens. ``pytest tests/conformance/test_search_kinds.py --write-kinds`` writes it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from answers import Difference
from documented_kinds import documented_effects
from known_differences import KnownDifferences
from search_kinds import COUNT, KINDS, MAPPING, Kind, documents
from three_ways import WITHOUT_SESSION, OpenSearchClient, Search, ThreeWays

from resift import Model
from resift.plugin.opensearch.mappings import SETTINGS, mappings

pytestmark = pytest.mark.filterwarnings("ignore::opensearchpy.exceptions.OpenSearchWarning")

PLAIN, WITH_VECTORS = "without our vectors", "with our vectors"
# The newest release of OpenSearch that every test runs on. The table describes it.
DOCUMENTED = "3."
WITHOUT_HITS = ("match_none", "size 0", "request_cache", "completion suggester alone", "routing")


@dataclass(frozen=True)
class Indices:
    """Two indices of the same documents. Only one has vectors of Resift."""

    plain: str
    with_vectors: str

    def name(self, variant: str) -> str:
        """Return the name of the index without or with vectors."""
        return self.plain if variant == PLAIN else self.with_vectors


@pytest.fixture(scope="module")
def version(opensearch_version: str) -> tuple[int, int]:
    """The major and the minor version of the cluster."""
    major, minor, *_ = opensearch_version.split(".")
    return int(major), int(minor)


@pytest.fixture(scope="module")
def indices(opensearch_client: OpenSearchClient, packaged: Model) -> Iterator[Indices]:
    """The filled indices."""
    name = f"resift-test-{uuid.uuid4().hex[:12]}"
    made = Indices(name, f"{name}-vectors")
    settings = {"number_of_shards": 2, "number_of_replicas": 0}
    ours = mappings(["title", "text"], packaged)
    ours["properties"] = {**MAPPING, **{key: ours["properties"][key] for key in ours["properties"].keys() - MAPPING}}
    _create(opensearch_client, made.plain, settings, {"properties": MAPPING})
    _create(opensearch_client, made.with_vectors, {**SETTINGS, **settings}, ours)
    sources = dict(documents())
    _fill(opensearch_client, made.plain, sources)
    vectors = packaged.encode([f"{source['title']}\n{source['text']}" for source in sources.values()])
    with_vectors = {
        id: {**source, "resift_vector": vector.tolist()}
        for (id, source), vector in zip(sources.items(), vectors, strict=True)
    }
    _fill(opensearch_client, made.with_vectors, with_vectors)
    yield made
    opensearch_client.request("DELETE", f"{name}*")


def _create(client: OpenSearchClient, index: str, settings: Mapping[str, Any], mapping: Mapping[str, Any]) -> None:
    answer = client.request("PUT", index, {"settings": settings, "mappings": mapping})
    assert answer.status == 200, answer.body


def _fill(client: OpenSearchClient, index: str, sources: Mapping[str, Mapping[str, Any]]) -> None:
    """Write documents. A child is on the shard of its parent."""
    lines: list[Any] = []
    for id, source in sources.items():
        lines += [{"index": {"_id": id, "routing": source["family"].get("parent", id)}}, source]
    answer = client.request("POST", f"{index}/_bulk", lines, refresh=True)
    assert not answer.body["errors"], str(answer.body)[:1000]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("variant", [PLAIN, WITH_VECTORS])
def test_a_session_changes_only_scores(
    name: str,
    variant: str,
    indices: Indices,
    version: tuple[int, int],
    opensearch_client: OpenSearchClient,
    three_ways: ThreeWays,
    known_differences: KnownDifferences,
    write_effect: Any,
) -> None:
    kind = KINDS[name]
    if version < kind.since:
        pytest.skip(f"OpenSearch {version[0]}.{version[1]} does not have it")
    search = _search(kind, indices.name(variant), opensearch_client)
    plain = three_ways.send(search)
    assert (plain.status, plain.failed_shards) == (200, 0), plain.body
    assert plain.hits or name in WITHOUT_HITS
    label = f"kinds: {name}, {variant}"
    found = [(label, way, one) for way, one in three_ways.compare(search) if not _is_score(variant, way, one)]
    known_differences.check([label], found)
    if write_effect is not None:
        write_effect(name, variant, three_ways.effect)
    elif f"{version[0]}." == DOCUMENTED:
        assert documented_effects()[name][variant] == three_ways.effect


def _is_score(variant: str, way: str, difference: Difference) -> bool:
    """Return whether a difference can only be about scores: vectors of Resift rank texts without a session, too."""
    is_scored = difference.comparison in ("hits", "aggregations")  # hits of an aggregation have scores, too
    return variant == WITH_VECTORS and way == WITHOUT_SESSION and is_scored


def _search(kind: Kind, index: str, client: OpenSearchClient) -> Search:
    """Return the search of a kind in an index."""
    body, params = _named(kind.body, index), dict(kind.params)
    if not params.pop("PIT", False):
        return Search(index, body, {"search_pipeline": "_none", **params})
    point = client.request("POST", f"{index}/_search/point_in_time", keep_alive="5m")
    body = {**body, "pit": {"id": point.body["pit_id"], "keep_alive": "5m"}}
    return Search("", body, {"search_pipeline": "_none"}, rewrite_index=index)


def _named(value: Any, index: str) -> Any:
    """Return a JSON value in which INDEX is the name of the searched index."""
    if isinstance(value, dict):
        return {_named(name, index): _named(inner, index) for name, inner in value.items()}
    if isinstance(value, list):
        return [_named(inner, index) for inner in value]
    return index if value == "INDEX" else value


@pytest.mark.parametrize("variant", [PLAIN, WITH_VECTORS])
@pytest.mark.parametrize(
    ("text", "is_widened"),
    [({"query": "fire"}, False), ({"query": "fire smoke", "operator": "and"}, True)],
    ids=["seventeen hits", "fewer than ten hits"],
)
def test_only_requested_widening_of_a_query_with_few_hits_changes_totals(
    variant: str,
    text: dict[str, Any],
    is_widened: bool,
    indices: Indices,
    opensearch_client: OpenSearchClient,
    three_ways: ThreeWays,
) -> None:
    index = indices.name(variant)
    marks = {"session": f"totals-{uuid.uuid4().hex}", "index": index, "query": text["query"], "relevant": ["d1", "d2"]}
    assert three_ways.service.post("/v1/feedback", json=marks).status_code == 200
    body = {"query": {"match": {"text": text}}, "aggs": {"tags": {"terms": {"field": "tag"}}}, "size": COUNT}
    totals = []
    for options in ({"session": marks["session"]}, {"session": marks["session"], "widen": True}):
        sent = {"index": index, "body": {**body, "ext": {"ml_inference": options}}}
        rewritten = three_ways.service.post("/v1/rewrite", json=sent).get_json()["body"]
        answer = three_ways.send(Search(index, {**rewritten, "ext": {}}, {"search_pipeline": "_none"}))
        totals.append((answer.total["value"], answer.body["aggregations"]))
    plain = three_ways.send(Search(index, body, {"search_pipeline": "_none"}))
    assert totals[0] == (plain.total["value"], plain.body["aggregations"])
    assert (totals[1][0] > plain.total["value"]) is is_widened
    assert (plain.total["value"] < 10) is is_widened
