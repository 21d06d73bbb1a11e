"""Tests of the engine contract, and of behaviour that both engines share beyond it."""

from __future__ import annotations

from typing import Any

import pytest
from engine_documents import ids

from resift import Model, WordVectors, build_model
from resift.contracts.documents import Document
from resift.contracts.engine import Engine
from resift.contracts.testing import EngineContract
from resift.errors import ModelMismatch
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.service.connect import is_opensearch


class TestEngine(EngineContract):
    """Both engines fulfil the contract."""


def test_engines_of_clusters_are_recognised(engine: Engine) -> None:
    assert is_opensearch(engine) is isinstance(engine, OpenSearchEngine)


def test_an_index_of_another_model_is_refused_by_name(
    engine: Engine, index: str, model: Model, vectors: WordVectors
) -> None:
    engine.create(index, ["text"], model)
    engine.info(index).require_model(model)
    with pytest.raises(ModelMismatch, match=model.hash) as caught:
        engine.info(index).require_model(build_model("boew:4", vectors))
    assert "index the documents again" in str(caught.value.expected)


@pytest.mark.parametrize(
    ("analyzer", "text", "query"),
    [
        ("french", "l'école des enfants", "écoles"),
        ("german", "die Häuser der Stadt", "Haus"),
        ("finnish", "EU:n kouluissa", "koulu EU"),
    ],
)
def test_words_match_other_inflections_in_the_language_of_the_index(
    engine: Engine, index: str, model: Model, analyzer: str, text: str, query: str
) -> None:
    engine.create(index, ["text"], model, analyzer)
    engine.create(index, ["text"], model, analyzer)  # allowed, because two indexers may start at the same time
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


def test_boosts_multiply_the_score_of_words(engine: Engine, indexed: str) -> None:
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


def test_a_number_and_its_text_are_the_same_value(engine: Engine, index: str, model: Model) -> None:
    """OpenSearch counts them as the same value in a keyword field, and so does the embedded engine."""
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
