"""Conformance tests for implementations of engines and session stores.

Subclass a test class and provide its fixtures:

    import pytest

    pytest.register_assert_rewrite("resift.contracts.testing")  # in conftest.py: shows both sides of failed asserts
    from resift.contracts.testing import SessionStoreContract

    class TestMyStore(SessionStoreContract):
        @pytest.fixture
        def open_stores(self, tmp_path):
            return lambda: MyStore(tmp_path / "sessions")

This module is the only part of Resift that requires pytest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from resift.arrays import Floats
from resift.contracts.documents import Document, check_name
from resift.contracts.engine import Engine
from resift.contracts.session_store import SessionRecord, SessionStore
from resift.contracts.tuning import Tuning
from resift.encoders.model import Model
from resift.errors import BadInput, EngineError, IndexNotFound, ResiftError
from resift.query.dsl import VECTOR_FIELD, Body, document_text

TEXTS = [
    "Bush fires in the forest",
    "Army guns fire at soldiers",
    "Ceasefire after the war",
    "Rain fills the river with water",
    "The of a",
]
STORED = SessionRecord({"at": 1.5, "q": ["fire é"], "j": [[1, 0, 0, 0, "d", 0.5]]}, 100.25, ["docs", "other"])


def documents(model: Model) -> list[Document]:
    """Return five example documents with a title, a text, a year, tags and a vector.

    Args:
        model: The embedding model that encodes the documents.
    """
    return [
        Document(
            str(i),
            {
                "title": f"title {i}",
                "text": text,
                "year": 2000 + i,
                "tags": ["odd"] if i % 2 else ["even", "none"],
            },
            model.encode([f"title {i}\n{text}"])[0],
        )
        for i, text in enumerate(TEXTS)
    ]


def knn_body(vector: Floats, size: int, filter: Body | None = None, source: Any = True) -> Body:
    """Return an OpenSearch search body for a k-NN search.

    Args:
        vector: The query vector, of shape (n_dimensions,).
        size: The number of nearest documents to return.
        filter: A query clause that the documents must match, or None for all documents.
        source: The ``_source`` option of the search body.
    """
    clause: Body = {"vector": vector.tolist(), "k": size, **({"filter": filter} if filter else {})}
    return {"query": {"knn": {VECTOR_FIELD: clause}}, "size": size, "_source": source}


def ids(engine: Engine, index: str, query: dict[str, Any], **body: Any) -> list[str]:
    """Run a query on an index, and return the ids of the hits, best first.

    Args:
        engine: The search engine.
        index: The name of the index.
        query: The query clause.
        **body: Further keys of the search body, for example ``size``.
    """
    return [hit["_id"] for hit in engine.search(index, {"query": query, **body}).hits]


class SessionStoreContract:
    """Tests that every implementation of a session store must pass.

    A subclass provides the fixture ``open_stores``: a function that opens the same store once more, as another process
    would do. The store must be empty at first.
    """

    @pytest.fixture
    def store(self, open_stores: Callable[[], SessionStore]) -> SessionStore:
        """Return an empty store."""
        return open_stores()

    def test_written_session_is_visible_to_all_connections(
        self, store: SessionStore, open_stores: Callable[[], SessionStore]
    ) -> None:
        """A session that was written through one connection is visible through all connections to the store."""
        assert store.read("a") is None
        assert store.write("a", STORED)
        for reader in (store, open_stores()):
            stored = reader.read("a")
            assert stored is not None
            assert replace(stored, version=None) == STORED
        assert store.read("b") is None

    @pytest.mark.parametrize("name", [".", "..", "a:b", "_search", "x" * 128])
    def test_special_session_ids_are_stored(self, store: SessionStore, name: str) -> None:
        """A session id may contain dots, colons and underscores, and may have 128 characters."""
        assert store.write(name, STORED)
        assert store.read(name) is not None
        assert len([*store.scan()]) == 1
        assert store.delete(name)
        assert store.read(name) is None

    def test_conflicting_writes_fail(self, store: SessionStore, open_stores: Callable[[], SessionStore]) -> None:
        """A write fails if another process has changed or deleted the session since it was read."""
        other = open_stores()
        assert store.write("a", STORED)
        assert not other.write("a", STORED)
        first = store.read("a")
        second = other.read("a")
        assert first is not None
        assert second is not None
        assert other.write("a", replace(second, expires=200.0))
        assert not store.write("a", replace(first, expires=300.0))
        again = store.read("a")
        assert again is not None
        assert again.expires == 200
        assert store.delete("a")
        assert not store.write("a", again)
        assert store.read("a") is None
        assert store.write("a", STORED)

    def test_delete_reports_what_existed(self, store: SessionStore) -> None:
        """Deleting a session returns whether it existed, and deleting by index returns the number of sessions."""
        assert not store.delete("a")
        for name, indices in (("a", ["docs"]), ("b", ["docs", "other"]), ("c", ["doc"])):
            assert store.write(name, replace(STORED, indices=indices))
        assert store.delete("a")
        assert not store.delete("a")
        assert store.delete_index("docs") == 1
        assert store.delete_index("docs") == 0
        assert (store.read("b"), len([*store.scan()])) == (None, 1)
        assert store.read("c") is not None

    def test_purge_deletes_only_expired_sessions(self, store: SessionStore) -> None:
        """Purging a store deletes all sessions that expired before a given time, and no other sessions."""
        for number in range(4):
            assert store.write(f"s{number}", replace(STORED, expires=float(number)))
        assert (store.purge(2), len([*store.scan()])) == (2, 2)
        assert [store.read(f"s{number}") is None for number in range(4)] == [True, True, False, False]

    def test_concurrent_increments_are_all_counted(self, open_stores: Callable[[], SessionStore]) -> None:
        """If several threads increment a number in a session, and retry refused writes, no increment is lost."""
        refused, together = [], threading.Barrier(6)

        def count(store: SessionStore, times: int) -> None:
            stored = store.read("a")
            together.wait()  # All threads have read before any writes, so five of the six writes must be refused.
            while times:
                body = {"n": stored.body["n"] + 1 if stored else 1}
                if store.write("a", SessionRecord(body, 1.0, [], stored.version if stored else None)):
                    times -= 1
                else:
                    refused.append(1)
                stored = store.read("a")

        threads = [threading.Thread(target=count, args=(store, 10)) for store in (open_stores(), open_stores()) * 3]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stored = open_stores().read("a")
        assert stored is not None
        assert stored.body == {"n": 60}
        assert len(refused) >= 5

    def test_scan_of_an_index_finds_its_sessions(self, store: SessionStore) -> None:
        """A scan of an index returns exactly the sessions with judgements of documents in this index."""
        other = replace(STORED, indices=["elsewhere"])
        assert list(store.scan(STORED.indices[0])) == []
        for id, session in (("a", STORED), ("b", other), ("c", STORED)):
            assert store.write(id, session)
        assert sorted(store.scan(STORED.indices[0])) == [("a", STORED), ("c", STORED)]
        assert list(store.scan("elsewhere")) == [("b", other)]
        assert list(store.scan("nowhere")) == []
        assert sorted(store.scan()) == [("a", STORED), ("b", other), ("c", STORED)]
        assert sorted(store.scan_indices()) == [("a", STORED.indices), ("b", other.indices), ("c", STORED.indices)]


class EngineContract:
    """Tests that every implementation of a search engine must pass.

    A subclass provides three fixtures: ``engine``, the engine; ``index``, the name of an index that does not exist and
    is dropped at the end; and ``model``, a :class:`resift.Model` that knows the words of TEXTS.
    """

    @pytest.fixture
    def indexed(self, engine: Engine, index: str, model: Model) -> str:
        """Return the name of an index with :func:`documents`."""
        engine.create(index, ["title", "text"], model)
        assert engine.bulk(index, documents(model)) == []
        engine.refresh(index)
        return index

    def test_ping_names_the_version(self, engine: Engine) -> None:
        """The answer to a ping contains the engine's version."""
        assert engine.ping().split()[1][0].isdigit()

    def test_index_is_created_described_tuned_and_dropped(self, engine: Engine, index: str, model: Model) -> None:
        """An index can be created, described, tuned, created again with the same arguments, and dropped."""
        engine.create(index, ["title", "text"], model)
        info = engine.info(index)
        assert (info.fields, info.model, info.dim) == (("title", "text"), model.hash, model.dim)
        assert engine.resolve(index) == [index]
        engine.tune(index, Tuning(0.25, model.hash, words=2, why={"alpha": "a test"}))
        assert engine.info(index).for_search(model).tuning == Tuning(0.25, model.hash, 2, why={"alpha": "a test"})
        engine.create(index, ["title", "text"], model)  # allowed, since two indexers may start at the same time
        engine.tune(index, None)
        assert engine.info(index).tuning == Tuning()
        for fields in (["title"], ["text", "title"]):
            with pytest.raises(EngineError) as caught:
                engine.create(index, fields, model)
            assert caught.value.status == 400
        engine.drop(index)
        for call in (engine.info, engine.resolve, engine.drop, engine.refresh):
            with pytest.raises(IndexNotFound):
                call(index)
        with pytest.raises(IndexNotFound):
            engine.search(index, {})

    def test_indices_are_sorted_and_described_as_by_info(self, engine: Engine, index: str, model: Model) -> None:
        """The list of indices is sorted by name, and describes each index in the same way as the method ``info``."""
        assert index not in {info.name for info in engine.indices()}
        for name, fields in ((index, ["title", "text"]), (f"{index}-2", ["body"])):
            engine.create(name, fields, model)
        try:
            infos = {info.name: info for info in engine.indices()}
            assert infos[index] == engine.info(index)
            assert infos[f"{index}-2"].fields == ("body",)
            assert list(infos) == sorted(infos)
        finally:
            engine.drop(f"{index}-2")

    @pytest.mark.parametrize("name", ["", "Upper", "a b", "-x", "a/b", "é" * 200])
    def test_bad_index_names_are_refused(self, engine: Engine, model: Model, name: str) -> None:
        """Invalid index names are refused."""
        with pytest.raises(BadInput):
            engine.create(name, ["text"], model)
        with pytest.raises(BadInput):
            check_name(name)

    def test_bad_analyzer_and_missing_fields_are_refused(self, engine: Engine, index: str, model: Model) -> None:
        """An unknown analyzer and an empty list of fields are rejected."""
        with pytest.raises(BadInput, match="analyzer"):
            engine.create(index, ["text"], model, analyzer="klingon")
        with pytest.raises(BadInput, match="fields"):
            engine.create(index, [], model)

    def test_lexical_search_stems_ranks_and_counts(self, engine: Engine, indexed: str) -> None:
        """Lexical searches stem words, rank by score and count the hits."""
        assert ids(engine, indexed, {"match": {"text": "forest fire"}})[0] == "0"
        assert set(ids(engine, indexed, {"match": {"text": "fires"}})) == {"0", "1"}
        result = engine.search(indexed, {"query": {"multi_match": {"query": "fire", "fields": ["title", "text"]}}})
        scores = [hit["_score"] for hit in result.hits]
        assert scores == sorted(scores, reverse=True)
        assert result.response["hits"]["total"]["value"] == 2
        assert result.response["hits"]["max_score"] == scores[0]
        assert ids(engine, indexed, {"match": {"text": {"query": "forest fire", "operator": "and"}}}) == ["0"]
        assert ids(engine, indexed, {"match": {"text": "..."}}) == []
        assert len(ids(engine, indexed, {"match_all": {}})) == 5

    def test_word_counts_are_document_frequencies(self, engine: Engine, indexed: str) -> None:
        """Word counts are the number of all documents, and the number of documents that contain each word."""
        info, words = engine.info(indexed), ["fires", "forest", "title", "fire forest", "nothing", "..."]
        searches = [{"multi_match": {"query": word, "fields": ["title", "text"]}} for word in words]
        expected = [len(ids(engine, indexed, search)) for search in searches]
        assert expected[0] == 2
        assert engine.word_counts(info, info.fields, words) == (5, expected)
        assert engine.word_counts(info, info.fields, []) == (5, [])
        assert engine.word_counts(info, info.fields, [*words, *["nothing"] * 600]) == (5, [*expected, *[0] * 600])

    def test_filters_match_as_in_opensearch(self, engine: Engine, indexed: str) -> None:
        """Filter clauses match the same documents as in OpenSearch."""

        def matching(clause: dict[str, Any]) -> set[str]:
            return set(ids(engine, indexed, {"bool": {"filter": [clause]}}))

        assert matching({"term": {"tags": "odd"}}) == {"1", "3"}
        assert matching({"terms": {"tags": ["odd", "none"]}}) == {"0", "1", "2", "3", "4"}
        assert matching({"term": {"year": 2002}}) == {"2"}
        assert matching({"range": {"year": {"gt": 2001, "lte": 2003}}}) == {"2", "3"}
        assert matching({"exists": {"field": "nothing"}}) == set()
        assert matching({"ids": {"values": ["4", "none"]}}) == {"4"}
        assert matching({"bool": {"must_not": [{"term": {"tags": "odd"}}]}}) == {"0", "2", "4"}
        assert matching({"bool": {"should": [{"term": {"year": 2000}}, {"term": {"year": 2001}}]}}) == {"0", "1"}
        some = [{"term": {"tags": "odd"}}, {"range": {"year": {"gte": 2003}}}]
        for least, expected in [(1, {"1", "3", "4"}), (2, {"3"}), (3, set())]:
            assert matching({"bool": {"should": some, "minimum_should_match": least}}) == expected
        text = {"bool": {"must": [{"match": {"text": "fire"}}], "filter": [{"term": {"tags": "even"}}]}}
        assert ids(engine, indexed, text) == ["0"]

    def test_pages_together_are_the_whole_list(self, engine: Engine, indexed: str) -> None:
        """The pages of a search, put together, are equal to the whole list of hits."""
        query = {"match": {"text": "fire forest army rain ceasefire"}}
        whole = ids(engine, indexed, query, size=10)
        paged = [id for start in range(0, 6, 2) for id in ids(engine, indexed, query, size=2, **{"from": start})]
        assert paged == whole
        assert len(set(whole)) == len(whole) == 4
        result = engine.search(indexed, {"query": query, "size": 0})
        assert (result.hits, result.response["hits"]["total"]["value"]) == ([], 4)

    def test_hits_have_requested_source_and_vectors(self, engine: Engine, indexed: str, model: Model) -> None:
        """Hits contain the requested parts of their ``_source``, and their vectors."""
        expected = {document.id: document for document in documents(model)}
        every = {"title", "text", "year", "tags"}
        shown: list[tuple[Any, set[str]]] = [
            (None, every),
            (True, every),
            (["year"], {"year"}),
            ({"excludes": ["text"]}, every - {"text"}),
            ({"includes": ["t*"]}, every - {"year"}),
            ([VECTOR_FIELD], {VECTOR_FIELD}),
            (False, set()),
        ]
        for source, names in shown:
            body: Body = {"query": {"match_all": {}}} | ({} if source is None else {"_source": source})
            result = engine.search(indexed, body, vectors=VECTOR_FIELD)
            for hit, vector in zip(result.hits, result.vectors, strict=True):
                document = expected[hit["_id"]]
                assert document.vector is not None
                tolerance = 1e-4 * float(np.abs(document.vector).max())
                expected_source = {**document.source, VECTOR_FIELD: pytest.approx(document.vector, rel=1e-6)}
                assert vector == pytest.approx(document.vector, abs=tolerance)
                assert hit.get("_source", {}) == {name: expected_source[name] for name in names}
                assert ("_source" in hit) == (source is not False)
        (hit, *_) = engine.search(indexed, {"query": {"match_all": {}}}).hits
        assert hit["_source"].keys() == every

    def test_multi_search_equals_single_searches(self, engine: Engine, indexed: str, model: Model) -> None:
        """A multi-search returns the same results as single searches."""
        bodies = [
            {"query": {"match": {"text": "fire"}}, "size": 2, "_source": ["year"]},
            knn_body(model.encode(["soldier"])[0], 3, {"term": {"tags": "even"}}, False),
            {"query": {"match": {"text": "nothing"}}, "_source": [VECTOR_FIELD]},
        ]
        for vectors in (VECTOR_FIELD, None):
            together = engine.search_all(indexed, bodies, vectors)
            for number, (body, result) in enumerate(zip(bodies, together, strict=True)):
                alone = engine.search(indexed, body, None if number else vectors)
                assert result.hits == alone.hits
                assert result.response["hits"] == alone.response["hits"]
                assert len(result.vectors) == len(result.hits)
                for vector, expected_vector in zip(result.vectors, alone.vectors, strict=True):
                    np.testing.assert_array_equal(vector, expected_vector)
        with pytest.raises(ResiftError) as caught:
            engine.search_all(indexed, [bodies[0], {"query": {"nonsense": {}}}])
        assert caught.value.status == 400
        with pytest.raises(IndexNotFound):
            engine.search_all("missing", bodies)

    def test_bulk_indexes_valid_and_rejects_other_documents(self, engine: Engine, index: str, model: Model) -> None:
        """A bulk request indexes the valid documents and rejects the others."""
        engine.create(index, ["text"], model)
        good = model.encode(["fire"])[0]
        batch = [
            Document("a", {"text": "fire one"}, good),
            Document("b", {"text": {"no": "text"}}, good),
            Document("c" * 600, {"text": "fire"}, good),
            Document("d", {"text": "fire"}, np.full(model.dim, np.nan, np.float32)),
            Document("e", {"text": "fire"}, np.ones(3, np.float32)),
            Document("f", {"text": "fire two", "year": float("nan")}, good),
            Document("g", {"text": "fire three"}, good),
        ]
        rejected = engine.bulk(index, batch)
        engine.refresh(index)
        assert [rejection.position for rejection in rejected] == [1, 2, 3, 4, 5]
        assert {rejection.status for rejection in rejected} == {400}
        assert all(rejection.reason for rejection in rejected)
        assert set(ids(engine, index, {"match": {"text": "fire"}})) == {"a", "g"}

    def test_bulk_replaces_existing_documents(self, engine: Engine, indexed: str, model: Model) -> None:
        """Indexing a document again replaces it."""
        assert engine.bulk(indexed, documents(model)) == []
        assert engine.bulk(indexed, [Document("0", {"text": "peace"}, model.encode(["peace"])[0])]) == []
        engine.refresh(indexed)
        assert len(ids(engine, indexed, {"match_all": {}})) == 5
        assert ids(engine, indexed, {"match": {"text": "peace"}}) == ["0"]
        assert "0" not in ids(engine, indexed, {"match": {"text": "forest"}})

    def test_delete_counts_existing_documents(self, engine: Engine, indexed: str) -> None:
        """Deleting documents returns the number of documents that existed."""
        assert engine.delete(indexed, ["0", "nothing"]) == 1
        assert engine.delete(indexed, []) == 0
        engine.refresh(indexed)
        assert "0" not in ids(engine, indexed, {"match": {"text": "forest fire"}})
        assert len(ids(engine, indexed, {"match_all": {}})) == 4

    def test_scan_yields_versions_vectors_and_ranked_matches(self, engine: Engine, indexed: str, model: Model) -> None:
        """A scan returns all documents with versions and vectors. With a query, it returns ranked matches."""
        expected = {document.id: document for document in documents(model)}
        scanned = list(engine.scan(indexed))
        assert len(scanned) == len(expected)
        for document in scanned:
            assert document.source == expected[document.id].source
            assert document.version == engine.get(indexed, document.id)[1]
            assert document.vector == pytest.approx(expected[document.id].vector, rel=1e-6)
        with pytest.raises(IndexNotFound):
            next(engine.scan("missing"))
        query = {"match": {"text": "fire soldiers"}}
        ranked = ids(engine, indexed, query)
        assert [document.id for document in engine.scan(indexed, fields=["year"], query=query)] == ranked
        assert {hit["_id"] for hit in engine.sample_matches(indexed, query, 9, seed=1).hits} == {*ranked}

    def test_highlights_tag_words_with_the_stem_of_a_query_word(self, engine: Engine, indexed: str) -> None:
        """Highlights put the requested tags around words that have the same stem as a word of the query."""
        body = {
            "query": {"match": {"text": "fire"}},
            "highlight": {"fields": {"text": {}}, "pre_tags": ["<b>"], "post_tags": ["</b>"]},
        }
        highlights = {hit["_id"]: hit["highlight"]["text"] for hit in engine.search(indexed, body).hits}
        assert highlights == {"0": ["Bush <b>fires</b> in the forest"], "1": ["Army guns <b>fire</b> at soldiers"]}

    @pytest.mark.parametrize(
        "query", [{"nonsense": {}}, {}, {"match": {}}, {"bool": {"wrong": []}}, {"range": {"year": 3}}]
    )
    def test_malformed_query_has_status_400(self, engine: Engine, indexed: str, query: dict[str, Any]) -> None:
        """A malformed query raises an error with status 400, and later searches work."""
        with pytest.raises(ResiftError) as caught:
            engine.search(indexed, {"query": query})
        assert caught.value.status == 400
        assert ids(engine, indexed, {"match": {"text": "forest"}}) == ["0"]

    def test_inner_text_fields_and_lists_are_searched(self, engine: Engine, index: str, model: Model) -> None:
        """Text fields may be inner fields, and may contain lists."""
        engine.create(index, ["meta.title", "text"], model)
        source = {"meta": {"title": "forest"}, "text": ["army", "gun"]}
        vector = model.encode([document_text(source, ["meta.title", "text"])])[0]
        assert engine.bulk(index, [Document("1", source, vector)]) == []
        engine.refresh(index)
        assert ids(engine, index, {"match": {"meta.title": "forest"}}) == ["1"]
        assert ids(engine, index, {"match": {"text": "gun"}}) == ["1"]
