"""Tests of the retrievers on an index of OpenSearch with vectors of another program, and of their search bodies."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import resift
from resift import Model
from resift.contracts.documents import IndexInfo
from resift.errors import BadInput
from resift.integrations import langchain
from resift.integrations.passages import metadata_of
from resift.library import Index, Session
from resift.plugin.opensearch.engine import OpenSearchEngine

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # read when LlamaIndex is imported

Body = dict[str, Any]
HNSW = {"name": "hnsw", "engine": "lucene", "space_type": "l2"}
PROPERTIES = {
    "title": {"type": "text"},
    "text": {"type": "text"},
    "link": {"type": "text"},
    "source": {"type": "text", "fields": {"keyword": {"type": "keyword"}}},
    "embedding": {"type": "knn_vector", "dimension": 2, "method": HNSW},
    "tokens": {"type": "rank_features"},
    "about": {
        "properties": {"year": {"type": "integer"}, "vector": {"type": "knn_vector", "dimension": 2, "method": HNSW}}
    },
}
TEXTS = {"bush": "fire in the bush", "wood": "fire in the wood", "army": "army of a war", "rain": "rain on a river"}
VECTORS = {"bush": [1.0, 0.0], "wood": [0.9, 0.1], "army": [0.0, 1.0], "rain": [0.1, 0.9]}


def knn_body(query: str) -> Body:
    """Return a k-NN search whose vector depends on the query. ``size`` is larger than what the tests ask for."""
    vector = [1.0, 0.0] if query == "fire" else [0.0, 1.0]
    return {"size": 4, "query": {"knn": {"embedding": {"vector": vector, "k": 4}}}}


def knn_clause(query: str) -> Body:
    """Return the clause of :func:`knn_body`."""
    clause: Body = knn_body(query)["query"]
    return clause


def no_source(query: str) -> Body:
    """Return a search whose hits contain no documents."""
    return {"query": {"match": {"text": query}}, "_source": False}


class Retrieved(NamedTuple):
    """A retrieved document of any framework."""

    id: str
    text: str
    metadata: Body


class Retriever(NamedTuple):
    """A retriever of any framework.

    Attributes:
        find: Retrieves at most two documents for a query.
        find_async: The same, asynchronously.
        mark: Marks documents as relevant for a query.
        mark_async: The same, asynchronously.
    """

    find: Callable[[str], list[Retrieved]]
    find_async: Callable[[str], list[Retrieved]]
    mark: Callable[..., Any]
    mark_async: Callable[..., Any]


@pytest.fixture
def passages(cluster: OpenSearchEngine, opensearch_url: str, tmp_path: Path, model: Model) -> Iterator[Index]:
    """Return an index with vectors that Resift did not write."""
    name = f"passages-{uuid.uuid4().hex[:8]}"
    cluster.client.indices.create(
        index=name, body={"settings": {"index.knn": True}, "mappings": {"properties": PROPERTIES}}
    )
    lines: list[Body] = []
    for id, text in TEXTS.items():
        source = {"title": id.title(), "text": text, "link": f"https://news.example/{id}", "source": f"{id}.pdf"}
        about = {"year": 2001, "vector": VECTORS[id]}
        vectors = {"embedding": VECTORS[id], "tokens": {"fire": 1.5}, "about": about}
        lines += [{"index": {"_index": name, "_id": id}}, {**source, **vectors}]
    assert not cluster.client.bulk(body=lines, params={"refresh": "true"})["errors"]
    model.save(tmp_path / "model")
    with resift.open(opensearch_url, model, sessions=tmp_path / "sessions.db") as library:
        yield library.index(name)
    cluster.drop(name)


def open_retriever(framework: str, index: Index, folder: Path, **arguments: Any) -> Retriever:
    """Return the retriever of a framework, in the session ``anna``."""
    retriever: Any
    session = index.session("anna")
    if framework == "langchain":
        retriever = langchain.ResiftRetriever(session=session, k=2, **arguments)
        find, find_async = retriever.invoke, retriever.ainvoke
        mark, mark_async = retriever.mark, retriever.amark
    elif framework == "llamaindex":
        from resift.integrations import llamaindex

        retriever = llamaindex.ResiftRetriever(session, similarity_top_k=2, **arguments)
        find, find_async = retriever.retrieve, retriever.aretrieve
        mark, mark_async = retriever.mark, retriever.amark
    else:
        from resift.integrations import haystack

        where = {"url": index.library.service.config.engine, "model": str(folder / "model")}
        retriever = haystack.ResiftRetriever(
            index.name, "anna", sessions=str(folder / "sessions.db"), top_k=2, **where, **arguments
        )
        find, find_async, mark, mark_async = retriever.run, retriever.run_async, retriever.mark, retriever.mark_async

    def convert(result: Any) -> list[Retrieved]:
        documents = result["documents"] if isinstance(result, dict) else result
        return [_retrieved(document) for document in documents]

    return Retriever(
        lambda query: convert(find(query)),
        lambda query: convert(asyncio.run(find_async(query))),
        lambda query, ids: mark(query=query, relevant=ids),
        lambda query, ids: asyncio.run(mark_async(query=query, relevant=ids)),
    )


def _retrieved(document: Any) -> Retrieved:
    """Convert a document of a framework."""
    if hasattr(document, "page_content"):
        metadata = {name: value for name, value in document.metadata.items() if name != "relevance_score"}
        return Retrieved(document.id, document.page_content, metadata)
    if hasattr(document, "node"):
        return Retrieved(document.node_id, document.text, document.metadata)
    return Retrieved(document.id, document.content, document.meta)


frameworks = pytest.mark.parametrize("framework", ["langchain", "llamaindex", "haystack"])


@frameworks
def test_metadata_contains_neither_texts_nor_vectors(framework: str, passages: Index, tmp_path: Path) -> None:
    first, _ = open_retriever(framework, passages, tmp_path).find("fire bush")
    # OpenSearch also indexes the source as a keyword, and texts leave out addresses.
    expected = {"link": "https://news.example/bush", "source": "bush.pdf", "about": {"year": 2001}}
    assert first == ("bush", "Bush\nbush.pdf\nfire in the bush", expected)


@frameworks
@pytest.mark.parametrize("body", [knn_body, knn_clause])
def test_a_function_makes_the_search_body(
    framework: str, passages: Index, tmp_path: Path, body: Callable[[str], Body]
) -> None:
    retriever = open_retriever(framework, passages, tmp_path, body=body)
    assert [found.id for found in retriever.find("fire")] == ["bush", "wood"]
    assert [found.id for found in retriever.find("peace")] == ["army", "rain"]
    retriever.mark("fire", ["army"])
    # The mark counts for its query, although the body contains no text. The vector moves towards that of the document.
    assert [found.id for found in retriever.find("fire")] == ["wood", "bush"]
    assert [found.id for found in retriever.find_async("peace")] == ["army", "rain"]


@frameworks
def test_searches_and_marks_are_asynchronous(framework: str, passages: Index, tmp_path: Path) -> None:
    retriever = open_retriever(framework, passages, tmp_path)
    before = retriever.find_async("fire")
    assert before == retriever.find("fire")
    assert retriever.mark_async("fire", ["wood"])["steps"] == 1
    assert retriever.find("fire")[0].id == "wood"


@frameworks
def test_searches_without_documents_are_refused(framework: str, passages: Index, tmp_path: Path) -> None:
    # The options of the three frameworks have different names.
    for documents in ("card", "none"):
        options = {"documents": documents}
        arguments = options if framework == "llamaindex" else {"options": options}
        with pytest.raises(BadInput, match=rf"documents is '{documents}'.*expected source"):
            open_retriever(framework, passages, tmp_path, **arguments).find("fire")
    with pytest.raises(BadInput, match="_source is false"):
        open_retriever(framework, passages, tmp_path, body=no_source).find("fire")
    with pytest.raises(BadInput, match="body returned no search body"):
        open_retriever(framework, passages, tmp_path, body=str.upper).find("fire")


def test_langchain_accepts_a_search_body(passages: Index) -> None:
    retriever = langchain.ResiftRetriever(session=passages.session("anna"), k=3)
    assert [one.id for one in retriever.invoke(knn_body("fire"))] == ["bush", "wood", "rain"]  # type: ignore[arg-type]
    (one,) = retriever.invoke(knn_body("peace"), k=1)  # type: ignore[arg-type]
    assert one.id == "army"


def test_a_mark_needs_the_query_of_a_search(passages: Index) -> None:
    def mark(session: Session) -> Any:
        return langchain.ResiftRetriever(session=session).mark(relevant=["wood"], explain=True)

    with pytest.raises(BadInput, match=r"query is missing, and this retriever has not searched.*expected the query"):
        mark(passages.session("anna"))
    session = passages.session("anna")
    retriever = langchain.ResiftRetriever(session=session, body=knn_body)
    retriever.invoke("fire")
    (judgement,) = mark(session)["judgements"]
    assert (judgement["query"], session.last_query) == ("fire", "fire")


def test_haystack_saves_the_function_of_a_module(passages: Index, tmp_path: Path) -> None:
    from haystack import Pipeline

    from resift.integrations import haystack

    url, model = passages.library.service.config.engine, str(tmp_path / "model")
    pipeline = Pipeline()
    component = haystack.ResiftRetriever(passages.name, "anna", url, model, top_k=2, body=knn_body)
    pipeline.add_component("retriever", component)
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=["resift.integrations.haystack", __name__])
    documents = again.run({"retriever": {"query": "peace"}})["retriever"]["documents"]
    assert [document.id for document in documents] == ["army", "rain"]


def test_lists_of_numbers_are_vectors_if_the_mapping_is_unknown() -> None:
    source = {"text": "fire", "vector": [0.5, 1], "bag": [[0.5], [1.0]], "tags": ["a"], "flags": [True], "none": []}
    metadata = {"tags": ["a"], "flags": [True], "none": []}
    unknown = IndexInfo("news", ("text",), None, None, None)
    assert metadata_of(source, unknown) == metadata
    known = IndexInfo("news", ("text",), None, None, None, field_types=({"text": "text", "vector": "float"},))
    assert metadata_of(source, known) == {name: value for name, value in source.items() if name != "text"}


def test_long_keywords_belong_to_the_text() -> None:
    types = ({"text": "text", "text.keyword": "keyword"},)
    info = IndexInfo("news", (), None, None, None, field_types=types, text_sources={"text": ("text",)})
    assert metadata_of({"text": "fire " * 30}, info) == {}
    assert metadata_of({"text": "fire"}, info) == {"text": "fire"}
