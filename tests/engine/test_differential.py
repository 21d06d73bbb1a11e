"""Differential tests of the embedded engine and OpenSearch: equal hits, scores, order, pages and highlights.

Intended differences are listed in docs/embedded.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from differential import BOUNDED, FIELDS, QUERIES, TEXTS, WEIGHTED, Twins, documents, ranking
from hypothesis import given
from hypothesis import strategies as st

from resift import Model
from resift.plugin.opensearch.engine import OpenSearchEngine

COUNT = 400
ENGLISH = pytest.mark.parametrize("twins", ["english"], indirect=True)  # for tests that do not depend on the analyzer
BATCH = st.lists(WEIGHTED, min_size=20, max_size=20)  # one _msearch


@pytest.fixture(scope="module", params=["english", "standard", "french"])
def twins(
    request: pytest.FixtureRequest, cluster: OpenSearchEngine, model: Model, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Twins]:
    """Return an index of all documents with each analyzer, on both engines."""
    path = tmp_path_factory.mktemp("twins") / "engine.db"
    with Twins.of(path, cluster, model, request.param, documents(COUNT)) as found:
        yield found


@pytest.mark.since(3, "scores of words are 2.2 times as high")
@BOUNDED
@given(queries=BATCH)
def test_the_same_hits_in_the_same_order(twins: Twins, queries: list[dict[str, Any]]) -> None:
    bodies = [{"query": query, "size": COUNT, "_source": False} for query in queries]
    for body, ours, theirs in twins.hits(bodies):
        found, expected = ranking(ours), ranking(theirs)
        # Scores may differ in the last bit, because sums are computed in different orders. Ties must be ties on both.
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-9), body
        assert list(found) == list(expected), body
        # OpenSearch's total is wrong if a text field is empty: it is smaller than the number of hits.
        if "exists" not in str(body):
            assert ours["total"] == theirs["total"], body
            assert bool(found) == (ours["max_score"] is not None) == (theirs["max_score"] is not None), body


@ENGLISH
@BOUNDED
@given(queries=st.lists(QUERIES, min_size=2, max_size=2), size=st.integers(1, 90))
def test_pages_joined_are_the_whole_result(twins: Twins, queries: list[dict[str, Any]], size: int) -> None:
    for query in queries:
        body = {"query": query, "_source": False}
        starts = range(0, COUNT, size)
        pages = [{**body, "from": start, "size": size} for start in starts]
        for engine in (twins.embedded, twins.cluster):
            (whole,) = engine.search_all(twins.index, [{**body, "size": COUNT}])
            joined = [hit["_id"] for page in engine.search_all(twins.index, pages) for hit in page.hits]
            assert joined == [hit["_id"] for hit in whole.hits], query


@BOUNDED
@given(texts=st.lists(TEXTS, min_size=20, max_size=20), tags=st.booleans(), other=st.none() | TEXTS)
def test_the_same_words_are_highlighted(twins: Twins, texts: list[str], tags: bool, other: str | None) -> None:
    highlight: dict[str, Any] = {"fields": {"t*": {}, "meta.note": {}}, "number_of_fragments": 0}
    if other is not None:
        highlight["highlight_query"] = {"multi_match": {"query": other, "fields": FIELDS}}
    if tags:
        highlight |= {"pre_tags": ["<b>"], "post_tags": ["</b>"], "encoder": "default"}
    queries = [{"multi_match": {"query": text, "fields": FIELDS}} for text in texts]
    bodies = [{"query": query, "size": 50, "_source": False, "highlight": highlight} for query in queries]
    for body, ours, theirs in twins.hits(bodies):
        found, expected = ({hit["_id"]: hit.get("highlight") for hit in one["hits"]} for one in (ours, theirs))
        assert found == expected, body


SOURCES = [
    "year",
    "meta",
    "meta.note",
    "meta.*",
    "*.code",
    "langs",
    "langs.n",
    "*",
    "t*",
    "nothing",
    "maybe.inner",
    "me",
]


@ENGLISH
@BOUNDED
@given(patterns=st.lists(st.lists(st.sampled_from(SOURCES), max_size=3), min_size=40, max_size=40))
def test_the_same_fields_of_documents(twins: Twins, patterns: list[list[str]]) -> None:
    specs = [{"includes": one, "excludes": two} for one, two in zip(patterns[::2], patterns[1::2], strict=True)]
    bodies = [{"query": {"match_all": {}}, "size": 40, "_source": spec} for spec in [*specs, *patterns[:3]]]
    for body, ours, theirs in twins.hits(bodies):
        assert [hit["_source"] for hit in ours["hits"]] == [hit["_source"] for hit in theirs["hits"]], body["_source"]
