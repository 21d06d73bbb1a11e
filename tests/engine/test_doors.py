"""Tests that the pipeline, the service and the library return the same ranking, on both engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rewritten_node import COUNT, FIELDS, SESSION, WORDS, Node, sources

from resift import Model
from resift.contracts.documents import Document
from resift.embedded.engine import SqliteEngine
from resift.feedback.judgements import Mark
from resift.library import Library
from resift.reranker import Config
from resift.service.connect import open_session_store
from resift.service.search_service import SearchService
from resift.sessions.sessions import Sessions

Body = dict[str, Any]
INDEX = "docs"
BOUNDED = settings(deadline=None, max_examples=10, derandomize=True, suppress_health_check=list(HealthCheck))

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True).map(" ".join)
scoring = st.one_of(
    st.builds(lambda text: {"match": {"text": text}}, texts),
    st.builds(lambda text: {"multi_match": {"query": text, "fields": ["title^2", "text"]}}, texts),
    st.builds(lambda text: {"match": {"text": {"query": text, "operator": "and"}}}, texts),
)
filters = st.one_of(
    st.builds(lambda low: {"range": {"n": {"gte": low}}}, st.integers(0, 40)),
    st.builds(lambda n: {"term": {"tag": f"t{n}"}}, st.integers(0, 4)),
)
queries = st.one_of(
    scoring,
    st.builds(lambda must, filter: {"bool": {"must": [must], "filter": [filter]}}, scoring, filters),
    st.builds(lambda one, other: {"bool": {"should": [one, other]}}, scoring, scoring),
    st.builds(lambda must, never: {"bool": {"must": [must], "must_not": [never]}}, scoring, filters),
)
options = st.fixed_dictionaries(
    {},
    optional={
        "session": st.just(SESSION),
        "alpha": st.sampled_from([0.0, 0.3, 0.8]),
        "window": st.sampled_from([1, 5, 40]),
        "widen": st.booleans(),
        "judged": st.sampled_from(["keep", "demote", "hide"]),
    },
)


@pytest.fixture(scope="module")
def embedded(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """Return a library over the embedded engine, with the documents and the session of the node."""
    folder: Path = tmp_path_factory.mktemp("doors")
    engine = SqliteEngine(str(folder / "engine.db"))
    engine.create(INDEX, FIELDS, model)
    fields = [{name: value for name, value in one.items() if name != "comments"} for one in sources()]
    vectors = model.encode([f"{one['title']}\n{one['text']}" for one in fields])
    held = [Document(str(n), one, vectors[n] if n < COUNT - 2 else None) for n, one in enumerate(fields)]
    assert engine.bulk(INDEX, held) == []
    config = Config(store=str(folder / "sessions.db"))
    library = Library(
        SearchService(engine, model, Sessions(open_session_store(config.store, config.session_index)), config)
    )
    library.service.marks.add(SESSION, INDEX, "fire", {"3": Mark(1.0), "8": Mark(-1.0)})
    yield library
    library.close()


def ranked(response: Body) -> list[tuple[str, float]]:
    """Return the ids and rounded scores of hits."""
    return [(hit["_id"], float(f"{hit['_score']:.4g}")) for hit in response["hits"]["hits"]]


def of_library(library: Library, index: str, body: Body, asked: Body) -> list[tuple[str, float]]:
    """Return the library's hits."""
    given = {name: value for name, value in asked.items() if name != "session"}
    searched = library.index(index)
    searching = searched.session(asked["session"]) if "session" in asked else searched
    return ranked(searching.search(body, **given).response)


@BOUNDED
@given(query=queries, asked=options, size=st.integers(1, COUNT), start=st.integers(0, 9))
def test_one_order_on_opensearch(rewritten_node: Node, query: Body, asked: Body, size: int, start: int) -> None:
    node, body = rewritten_node, {"query": query, "size": size, "from": start}
    through = ranked(node.search({**body, "ext": {"ml_inference": asked}}))
    assert ranked(node.post("/v1/search", query=body, **asked)) == through
    assert ranked(node.post("/v1/search", query={**body, "ext": {"ml_inference": asked}})) == through
    assert of_library(Library(node.app.extensions["resift"]), node.index, body, asked) == through


@pytest.mark.since(3, "scores of words are 2.2 times as high")
@BOUNDED
@given(query=queries, asked=options)
def test_one_order_on_both_engines(rewritten_node: Node, embedded: Library, query: Body, asked: Body) -> None:
    body, asked = {"query": query, "size": COUNT}, {**asked, "window": COUNT}
    # term statistics of all documents, as in the embedded engine, and not of each shard
    dfs = {"search_type": "dfs_query_then_fetch"}
    wanted = ranked(rewritten_node.search({**body, "ext": {"ml_inference": asked}}, **dfs))
    found = of_library(embedded, INDEX, body, asked)
    # Each shard has its own rescore window, and engines order equal scores differently.
    assert dict(found) == pytest.approx(dict(wanted), rel=2e-3)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
