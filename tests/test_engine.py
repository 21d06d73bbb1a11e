"""The engine contract: both engines do all of this, and in the same way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_documents import documents, ids, knn_body

from resift import Model, ResiftError, WordVectors, build_model
from resift.contracts.documents import Document, check_name
from resift.contracts.engine import Engine
from resift.contracts.query_dsl import VECTOR_FIELD, document_text
from resift.errors import BadInput, EngineError, IndexNotFound, ModelMismatch
from resift.plugin.opensearch.engine import OpenSearchEngine


def test_ping(engine: Engine) -> None:
    assert engine.ping().split()[1][0].isdigit()


def test_create_info_drop(engine: Engine, index: str, model: Model) -> None:
    engine.create(index, ["title", "text"], model)
    info = engine.info(index)
    assert (info.fields, info.model, info.dim) == (("title", "text"), model.hash, model.dim)
    assert engine.resolve(index) == [index]
    engine.create(index, ["title", "text"], model)  # two indexers may begin at the same time
    for fields, analyzer in ((["title", "text"], "standard"), (["title"], "english"), (["text", "title"], "english")):
        with pytest.raises(EngineError) as caught:
            engine.create(index, fields, model, analyzer)
        assert caught.value.status == 400
    engine.drop(index)
    for call in (engine.info, engine.resolve, engine.drop, engine.refresh):
        with pytest.raises(IndexNotFound):
            call(index)
    with pytest.raises(IndexNotFound):
        engine.search(index, {})


def test_indices(engine: Engine, index: str, model: Model) -> None:
    assert index not in {info.name for info in engine.indices()}
    for name, fields in ((index, ["title", "text"]), (f"{index}-2", ["body"])):
        engine.create(name, fields, model)
    try:
        found = {info.name: info for info in engine.indices()}
        assert found[index] == engine.info(index)
        assert found[f"{index}-2"].fields == ("body",)
        assert list(found) == sorted(found)
    finally:
        engine.drop(f"{index}-2")


def test_another_model_is_told_another_model(engine: Engine, index: str, model: Model, vectors: WordVectors) -> None:
    engine.create(index, ["text"], model)
    engine.info(index).of(model)
    with pytest.raises(ModelMismatch, match=model.hash) as caught:
        engine.info(index).of(build_model("boew:4", vectors))
    assert "index the documents again" in str(caught.value.expected)


@pytest.mark.parametrize("name", ["", "Upper", "a b", "-x", "a/b", "é" * 200])
def test_bad_index_names(engine: Engine, model: Model, name: str) -> None:
    with pytest.raises(BadInput):
        engine.create(name, ["text"], model)
    with pytest.raises(BadInput):
        check_name(name)


def test_bad_analyzer_and_fields(engine: Engine, index: str, model: Model) -> None:
    with pytest.raises(BadInput, match="analyzer"):
        engine.create(index, ["text"], model, analyzer="klingon")
    with pytest.raises(BadInput, match="fields"):
        engine.create(index, [], model)


def test_bm25_stems_and_ranks(engine: Engine, indexed: str) -> None:
    assert ids(engine, indexed, {"match": {"text": "forest fire"}})[0] == "0"
    assert set(ids(engine, indexed, {"match": {"text": "fires"}})) == {"0", "1"}
    found = engine.search(indexed, {"query": {"multi_match": {"query": "fire", "fields": ["title", "text"]}}})
    scores = [hit["_score"] for hit in found.hits]
    assert scores == sorted(scores, reverse=True)
    assert found.response["hits"]["total"]["value"] == 2
    assert found.response["hits"]["max_score"] == scores[0]
    assert ids(engine, indexed, {"match": {"text": {"query": "forest fire", "operator": "and"}}}) == ["0"]
    assert ids(engine, indexed, {"match": {"text": "..."}}) == []
    assert len(ids(engine, indexed, {"match_all": {}})) == 5


@pytest.mark.parametrize(
    ("analyzer", "text", "query"),
    [
        ("french", "l'école des enfants", "écoles"),
        ("german", "die Häuser der Stadt", "Haus"),
        ("finnish", "EU:n kouluissa", "koulu EU"),
    ],
)
def test_words_of_a_language_are_found_in_other_forms(
    engine: Engine, index: str, model: Model, analyzer: str, text: str, query: str
) -> None:
    engine.create(index, ["text"], model, analyzer)
    engine.create(index, ["text"], model, analyzer)  # the same again, as of two indexers at once
    assert engine.bulk(index, [Document("1", {"text": text}), Document("2", {"text": "os.path"})]) == []
    engine.refresh(index)
    match = {"text": {"query": query, "operator": "and"}}
    assert [hit["_id"] for hit in engine.search(index, {"query": {"match": match}}).hits] == ["1"]


def test_analyzer_standard_does_not_stem(engine: Engine, index: str, model: Model) -> None:
    engine.create(index, ["text"], model, analyzer="standard")
    engine.bulk(index, [Document("1", {"text": "fires"}, model.encode(["fires"])[0])])
    engine.refresh(index)
    assert ids(engine, index, {"match": {"text": "fire"}}) == []
    assert ids(engine, index, {"match": {"text": "FIRES"}}) == ["1"]


def test_filters(engine: Engine, indexed: str) -> None:
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


def test_paging_is_stable(engine: Engine, indexed: str) -> None:
    query = {"match": {"text": "fire forest army rain ceasefire"}}
    whole = ids(engine, indexed, query, size=10)
    paged = [id for start in range(0, 6, 2) for id in ids(engine, indexed, query, size=2, **{"from": start})]
    assert paged == whole
    assert len(set(whole)) == len(whole) == 4
    found = engine.search(indexed, {"query": query, "size": 0})
    assert (found.hits, found.response["hits"]["total"]["value"]) == ([], 4)


def test_vectors_of_hits_and_source(engine: Engine, indexed: str, model: Model) -> None:
    expected = {document.id: document for document in documents(model)}
    for source in (None, True, False, ["year"], {"excludes": ["text"]}, {"includes": ["t*"]}, [VECTOR_FIELD]):
        body = {"query": {"match_all": {}}} | ({} if source is None else {"_source": source})
        found = engine.search(indexed, body, vectors=VECTOR_FIELD)
        for hit, vector in zip(found.hits, found.vectors, strict=True):
            document = expected[hit["_id"]]
            assert vector is not None
            assert document.vector is not None
            np.testing.assert_allclose(vector, document.vector, atol=1e-4 * np.abs(document.vector).max())
            if source is False:
                assert "_source" not in hit
            elif source in (None, True):
                assert hit["_source"] == document.source
            elif source == [VECTOR_FIELD]:
                np.testing.assert_allclose(hit["_source"].pop(VECTOR_FIELD), document.vector, rtol=1e-6)
                assert hit["_source"] == {}
            else:
                names = (
                    {"year"}
                    if source == ["year"]
                    else {"title", "tags"} | ({"text"} if "includes" in source else {"year"})
                )
                assert set(hit["_source"]) == names
    assert engine.search(indexed, {"query": {"match_all": {}}}).hits[0]["_source"].keys() == {
        "title",
        "text",
        "year",
        "tags",
    }


@pytest.mark.since(3, "thousands of names in _source are too many for it")
def test_the_star_is_the_only_sign_of_source_patterns(engine: Engine, indexed: str) -> None:
    shown = {"[tx]ext": set(), "?itle": set(), "te[x]t": set(), "[t]*": set(), "t*": {"title", "text", "tags"}}
    shown |= {"*t*t**e": {"title"}, "***": {"title", "text", "tags", "year"}, "Text": set()}
    for pattern, names in shown.items():
        (hit, *_) = engine.search(indexed, {"query": {"match_all": {}}, "_source": pattern}).hits
        assert set(hit["_source"]) == names, pattern
    many = [*(f"field{number}" for number in range(20_000)), "year"]
    (hit, *_) = engine.search(indexed, {"query": {"match_all": {}}, "_source": many}).hits
    assert set(hit["_source"]) == {"year"}


def test_several_searches_at_once_are_those_searches(engine: Engine, indexed: str, model: Model) -> None:
    bodies = [
        {"query": {"match": {"text": "fire"}}, "size": 2, "_source": ["year"]},
        knn_body(model.encode(["soldier"])[0], 3, {"term": {"tags": "even"}}, False),
        {"query": {"match": {"text": "nothing"}}, "_source": [VECTOR_FIELD]},
    ]
    for vectors in (VECTOR_FIELD, None):
        together = engine.search_all(indexed, bodies, vectors)
        for body, found in zip(bodies, together, strict=True):
            alone = engine.search(indexed, body, vectors)
            assert found.hits == alone.hits
            assert found.response["hits"] == alone.response["hits"]
            assert len(found.vectors) == len(found.hits)
            for one, other in zip(found.vectors, alone.vectors, strict=True):
                np.testing.assert_array_equal(one, other)
    with pytest.raises(ResiftError) as caught:
        engine.search_all(indexed, [bodies[0], {"query": {"nonsense": {}}}])
    assert caught.value.status == 400
    with pytest.raises(IndexNotFound):
        engine.search_all("missing", bodies)


def test_words_count_as_they_are_boosted(engine: Engine, indexed: str) -> None:
    def asked(word: str, boost: float = 1.0) -> dict[str, Any]:
        return {"multi_match": {"query": word, "fields": ["title", "text"], "boost": boost}}

    for first, second, best in ((1, 5, "3"), (5, 1, "0")):
        query = {"bool": {"should": [asked("forest", first), asked("river", second)]}}
        assert ids(engine, indexed, query) == [best, "3" if best == "0" else "0"]
    plain = engine.search(indexed, {"query": asked("forest")}).hits[0]["_score"]
    assert engine.search(indexed, {"query": asked("forest", 2.5)}).hits[0]["_score"] == pytest.approx(2.5 * plain)
    both = {"bool": {"must": [asked("title 1 2 3")], "should": [asked("forest", 9), asked("river"), asked("zebra")]}}
    assert ids(engine, indexed, both)[0] == "0"
    assert set(ids(engine, indexed, both)) == {"0", "1", "2", "3", "4"}
    assert len(ids(engine, indexed, {"bool": {"must": [asked("fires")], "should": [asked("river", 9)]}})) == 2
    late = [{"range": {"year": {"gte": 2001}}}]
    filtered = {"should": [asked("forest"), asked("river"), asked("war", 3)], "filter": late, "minimum_should_match": 1}
    assert ids(engine, indexed, {"bool": filtered}) == ["2", "3"]


def test_bulk_with_partial_failures(engine: Engine, index: str, model: Model) -> None:
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


def test_bulk_again_replaces(engine: Engine, indexed: str, model: Model) -> None:
    assert engine.bulk(indexed, documents(model)) == []
    assert engine.bulk(indexed, [Document("0", {"text": "peace"}, model.encode(["peace"])[0])]) == []
    engine.refresh(indexed)
    assert len(ids(engine, indexed, {"match_all": {}})) == 5
    assert ids(engine, indexed, {"match": {"text": "peace"}}) == ["0"]
    assert "0" not in ids(engine, indexed, {"match": {"text": "forest"}})


def test_delete(engine: Engine, indexed: str) -> None:
    assert engine.delete(indexed, ["0", "nothing"]) == 1
    assert engine.delete(indexed, []) == 0
    engine.refresh(indexed)
    assert "0" not in ids(engine, indexed, {"match": {"text": "forest fire"}})
    assert len(ids(engine, indexed, {"match_all": {}})) == 4


def test_scan(engine: Engine, indexed: str, model: Model) -> None:
    expected = {document.id: document for document in documents(model)}
    scanned = list(engine.scan(indexed))
    assert len(scanned) == len(expected)
    for id, source, vector, version in scanned:
        assert source == expected[id].source
        assert version == engine.get(indexed, id)[1]
        assert vector is not None
        np.testing.assert_allclose(vector, expected[id].vector, rtol=1e-6)
    with pytest.raises(IndexNotFound):
        next(engine.scan("missing"))


def test_highlight(engine: Engine, indexed: str) -> None:
    body = {
        "query": {"match": {"text": "fire"}},
        "highlight": {"fields": {"text": {}}, "pre_tags": ["<b>"], "post_tags": ["</b>"]},
    }
    found = {hit["_id"]: hit["highlight"]["text"] for hit in engine.search(indexed, body).hits}
    assert found == {"0": ["Bush <b>fires</b> in the forest"], "1": ["Army guns <b>fire</b> at soldiers"]}


@pytest.mark.parametrize(
    "query", [{"nonsense": {}}, {}, {"match": {}}, {"bool": {"wrong": []}}, {"range": {"year": 3}}]
)
def test_malformed_queries_are_the_callers_error(engine: Engine, indexed: str, query: dict[str, Any]) -> None:
    with pytest.raises(ResiftError) as caught:
        engine.search(indexed, {"query": query})
    assert caught.value.status == 400
    assert ids(engine, indexed, {"match": {"text": "forest"}}) == ["0"]


def test_inner_fields(engine: Engine, index: str, model: Model) -> None:
    engine.create(index, ["meta.title", "text"], model)
    source = {"meta": {"title": "forest"}, "text": ["army", "gun"]}
    vector = model.encode([document_text(source, ["meta.title", "text"])])[0]
    assert engine.bulk(index, [Document("1", source, vector)]) == []
    engine.refresh(index)
    assert ids(engine, index, {"match": {"meta.title": "forest"}}) == ["1"]
    assert ids(engine, index, {"match": {"text": "gun"}}) == ["1"]


def test_a_number_and_a_text_that_is_written_like_it_are_one_value(engine: Engine, index: str, model: Model) -> None:
    """OpenSearch counts them as one where the field is mapped as keywords, and so does the embedded engine."""
    engine.create(index, ["text"], model)
    if isinstance(engine, OpenSearchEngine):
        keywords = {name: {"type": "keyword"} for name in ("year", "hot")}
        engine.client.indices.put_mapping(index=index, body={"properties": keywords})
    sources = [{"year": 2001, "hot": True}, {"year": "2001", "hot": "true"}, {"year": [2001, "2001"]}]
    sources += [{"year": 1999, "hot": False}, {"year": 2001, "hot": 1}]
    assert engine.bulk(index, [Document(str(n), source, None) for n, source in enumerate(sources)]) == []
    engine.refresh(index)
    counted = engine.value_counts(index, {"match_all": {}}, ["year", "hot"], 8)
    assert counted == {"year": [("2001", 4), ("1999", 1)], "hot": [("true", 2), ("1", 1), ("false", 1)]}
    found = engine.search(index, {"query": {"term": {"year": "2001"}}}).hits
    assert len(found) == 4, "a facet's count is that of the documents that its filter leaves"
