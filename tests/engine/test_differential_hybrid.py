"""Differential tests of the embedded engine and OpenSearch: k-NN, hybrid queries and collapsed hits.

OpenSearch returns hits of a hybrid query with equal scores in an arbitrary order (that of a hash table), so each group
of equal scores is compared as a set.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from differential import (
    BOUNDED,
    DIM,
    KNN,
    WEIGHTED,
    Twins,
    documents_with_vectors,
    hybrids,
    ranking,
    text_clauses,
    vectors,
)
from hypothesis import given
from hypothesis import strategies as st

from resift.errors import ResiftError
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.query.dsl import VECTOR_FIELD

COUNT = 300
L2 = pytest.mark.parametrize("twins", ["l2"], indirect=True)  # for tests that do not depend on the space
pytestmark = pytest.mark.since(3, "scores of words are 2.2 times as high")


@pytest.fixture(scope="module", params=["innerproduct", "l2"])
def twins(
    request: pytest.FixtureRequest, cluster: OpenSearchEngine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Twins]:
    """Return an index of all documents in each k-NN space, on both engines."""
    path = tmp_path_factory.mktemp("twins") / "engine.db"
    with Twins.of(path, cluster, vectors(request.param), "english", documents_with_vectors(COUNT)) as found:
        yield found


def tied(hits: dict[str, Any], body: dict[str, Any], off: float) -> list[tuple[float, set[Any]]]:
    """Return the scores, highest first, each with the set of its hits, or of the values by which hits are collapsed."""
    groups: list[tuple[float, set[Any]]] = []
    for hit in hits["hits"]:
        if not groups or groups[-1][0] != pytest.approx(hit["_score"], rel=1e-5, abs=off):
            groups.append((hit["_score"], set()))
        groups[-1][1].add(str(hit.get("fields")) if "collapse" in body else hit["_id"])
    return groups


def assert_same_up_to_ties(ours: dict[str, Any], theirs: dict[str, Any], body: dict[str, Any]) -> None:
    # Scores differ in the last bits, and normalization divides them by their small range.
    off = 1e-5 if "normalization-processor" in str(body) else 1e-9
    found, expected = (tied(hits, body, off) for hits in (ours, theirs))
    assert [score for score, _ in found] == pytest.approx([score for score, _ in expected], rel=1e-5, abs=off), body
    assert [those for _, those in found] == [those for _, those in expected], body


@BOUNDED
@given(queries=st.lists(KNN, min_size=20, max_size=20))
def test_the_same_neighbours(twins: Twins, queries: list[dict[str, Any]]) -> None:
    bodies = [{"query": query, "size": 60, "_source": False} for query in queries]
    for body, ours, theirs in twins.hits(bodies):
        assert_same_up_to_ties(ours, theirs, body)
        assert ours["total"] == theirs["total"], body


@BOUNDED
@given(bodies=st.lists(hybrids(), min_size=20, max_size=20))
def test_the_same_hits_of_hybrid_queries(twins: Twins, bodies: list[dict[str, Any]]) -> None:
    asked = [{**body, "size": COUNT, "_source": False} for body in bodies]
    for body, ours, theirs in twins.hits(asked):
        assert_same_up_to_ties(ours, theirs, body)
        assert ours["total"] == theirs["total"], body


@BOUNDED
@given(bodies=st.lists(hybrids(), min_size=10, max_size=10))
def test_the_same_hits_of_hybrid_queries_are_collapsed(twins: Twins, bodies: list[dict[str, Any]]) -> None:
    more: dict[str, Any] = {"size": COUNT, "_source": False, "collapse": {"field": "place"}}
    for body, ours, theirs in twins.hits([{**body, **more} for body in bodies]):
        assert_same_up_to_ties(ours, theirs, body)
        assert ours["total"] == theirs["total"], body


@L2
@BOUNDED
@given(bodies=st.lists(hybrids(), min_size=3, max_size=3), size=st.integers(1, 40))
def test_pages_of_a_hybrid_query_joined_are_the_whole_result(
    twins: Twins, bodies: list[dict[str, Any]], size: int
) -> None:
    for body in bodies:
        for engine in (twins.embedded, twins.cluster):
            (whole,) = engine.search_all(twins.index, [{**body, "size": COUNT}])
            pages = [{**body, "from": start, "size": size} for start in range(0, len(whole.hits) + 1, size)]
            joined = [hit["_id"] for page in engine.search_all(twins.index, pages) for hit in page.hits]
            assert joined == [hit["_id"] for hit in whole.hits], body


@L2
@BOUNDED
@given(bodies=st.lists(hybrids(), min_size=10, max_size=10), rescored=text_clauses(), window=st.integers(1, 50))
def test_sub_queries_are_rescored_before_they_are_combined(
    twins: Twins, bodies: list[dict[str, Any]], rescored: dict[str, Any], window: int
) -> None:
    rescore = {"window_size": window, "query": {"rescore_query": rescored}}
    for body, ours, theirs in twins.hits([{**body, "rescore": rescore, "size": COUNT} for body in bodies]):
        assert_same_up_to_ties(ours, theirs, body)


@L2
@BOUNDED
@given(
    queries=st.lists(WEIGHTED, min_size=20, max_size=20),
    field=st.sampled_from(["place", "year", "rating"]),
    start=st.integers(0, 6),
    size=st.integers(0, 15),
)
def test_the_same_hits_are_collapsed(
    twins: Twins, queries: list[dict[str, Any]], field: str, start: int, size: int
) -> None:
    more = {"collapse": {"field": field}, "from": start, "size": size, "_source": False}
    for body, ours, theirs in twins.hits([{"query": query, **more} for query in queries]):
        assert ranking(ours) == pytest.approx(ranking(theirs), rel=1e-5, abs=1e-9), body
        assert [(hit["_id"], hit.get("fields")) for hit in ours["hits"]] == [
            (hit["_id"], hit.get("fields")) for hit in theirs["hits"]
        ], body
        if "exists" not in str(body):
            assert ours["total"] == theirs["total"], body


WORDS = {"match": {"text": {"query": "storm fire", "_name": "words"}}}
NEAR = {"knn": {VECTOR_FIELD: {"vector": [0.1] * DIM, "k": 5}}}


def hybrid(*queries: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"hybrid": {"queries": list(queries), **more}}


def combined(config: dict[str, Any], kind: str = "normalization-processor", **more: Any) -> dict[str, Any]:
    """Return a body with a hybrid query whose scores a processor combines."""
    return {"query": hybrid(WORDS, **more), "search_pipeline": {"phase_results_processors": [{kind: config}]}}


def test_highlights_and_names_of_a_hybrid_query(twins: Twins) -> None:
    query = hybrid(WORDS, NEAR, _name="whole")
    body = {"query": query, "highlight": {"fields": {"text": {}}, "number_of_fragments": 0}, "size": COUNT}
    ((_, ours, theirs),) = twins.hits([{**combined({}), **body}])
    shown = [
        {hit["_id"]: (hit.get("highlight"), sorted(hit["matched_queries"]), hit["_source"]) for hit in one["hits"]}
        for one in (ours, theirs)
    ]
    assert shown[0] == shown[1]
    # Without a pipeline, OpenSearch returns scores of -9.5e9 and duplicate hits.
    assert twins.embedded.search(twins.index, body).response["hits"] == ours


@pytest.mark.parametrize(
    "body",
    [
        {"query": hybrid()},
        {"query": hybrid(*[WORDS] * 6)},
        {"query": hybrid(WORDS, boost=2)},
        {"query": hybrid(WORDS, other=1)},
        {"query": hybrid(hybrid(WORDS))},
        {"query": {"bool": {"must": [hybrid(WORDS)], "should": [WORDS]}}},
        {"query": hybrid(WORDS, pagination_depth=0)},
        {"query": hybrid(WORDS, pagination_depth=10_001)},
        {"query": hybrid(WORDS), "from": 1},
        combined({}, pagination_depth=3) | {"from": 4},
        combined({"combination": {"parameters": {"weights": [0.3, 0.3, 0.4]}}}),
        combined({"combination": {"parameters": {"weights": [0.5]}}}),
        combined({"combination": {"parameters": {"weights": "1"}}}),
        combined({"combination": {"technique": "median"}}),
        combined({"normalization": {"technique": "softmax"}}),
        combined({"normalization": {"technique": "z_score"}, "combination": {"technique": "geometric_mean"}}),
        combined({"combination": {"technique": "rrf", "rank_constant": 0}}, "score-ranker-processor"),
        combined({}, "other-processor"),
        {"query": WORDS, "search_pipeline": "nowhere"},
        {"query": WORDS, "collapse": {"field": "text"}},
        {"query": WORDS, "collapse": {"field": "langs.code"}},
        {"query": WORDS, "collapse": {"field": "flag"}},
        {"query": WORDS, "collapse": {"field": VECTOR_FIELD}},
        {"query": WORDS, "collapse": {}},
        {"query": WORDS, "collapse": "place"},
        {"query": WORDS, "collapse": {"field": "place"}, "rescore": {"query": {"rescore_query": WORDS}}},
        {"query": {"knn": {VECTOR_FIELD: {"vector": [0.1] * DIM}}}},
        {"query": {"knn": {VECTOR_FIELD: {"vector": [0.1] * DIM, "k": 2, "min_score": 1}}}},
    ],
    ids=str,
)
def test_what_opensearch_refuses(twins: Twins, body: dict[str, Any]) -> None:
    for engine in (twins.embedded, twins.cluster):
        with pytest.raises(ResiftError) as caught:
            engine.search(twins.index, body)
        assert caught.value.status == 400, caught.value
