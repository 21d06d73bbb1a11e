"""In an index without vectors, the text fields of the mapping are read, also inside objects.

Sessions learn from the text fields that queries search.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from flask.testing import FlaskClient
from kept_memory import keeps_less_than
from service_app import post, wait_for_sample

from resift import Model
from resift.cli.main import main
from resift.encoders.dynamax import DynaMax
from resift.integrations.passages import retrieve
from resift.library import Library
from resift.plugin.cluster.client import Cluster
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.reranker import Config, create_app

TEXT, KEYWORD = {"type": "text", "analyzer": "english"}, {"type": "keyword"}
PACKAGES: dict[str, Any] = {
    "name": {**KEYWORD, "fields": {"text": TEXT}},
    "pkg": {"properties": {"description": TEXT}},
    "reviews": {"type": "nested", "properties": {"comment": TEXT}},
    "tags": TEXT,
    "section": KEYWORD,
    "homepage": {**KEYWORD, "index": False},
    "maintainer": TEXT,
    "maintainer_email": TEXT,
}
DOCUMENTS: dict[str, dict[str, Any]] = {
    "feh": {
        "name": "feh",
        "pkg": {"description": "viewer of pictures"},
        "reviews": [{"comment": "fast"}, {"comment": ["photographs"]}],
        "tags": ["slideshow", "wallpaper"],
        "section": "graphics",
        "homepage": "https://www.example.org/linux",
        "maintainer": "Ann Example",
        "maintainer_email": "ann@example.org",
    },
    "eog": {"name": "eog", "pkg": {"description": "pictures of the desktop"}, "section": "graphics"},
    "mpv": {"name": "mpv", "pkg": {"description": "viewer of films"}, "section": "video", "maintainer": "Ann Example"},
}


def filled(cluster: OpenSearchEngine, mappings: dict[str, Any], documents: dict[str, dict[str, Any]]) -> str:
    """Return the name of a new index that contains some documents."""
    name, request = f"learned-{uuid.uuid4().hex[:8]}", Cluster(cluster).request
    settings = {"number_of_shards": 1, "number_of_replicas": 0}
    request("PUT", f"/{name}", {"settings": settings, "mappings": mappings})
    lines = [line for id in documents for line in (json.dumps({"index": {"_id": id}}), json.dumps(documents[id]))]
    request("POST", f"/{name}/_bulk", "\n".join(lines) + "\n", refresh="true")
    return name


def only(id: str) -> dict[str, dict[str, Any]]:
    return {id: DOCUMENTS[id]}


@pytest.fixture(scope="module")
def packages(cluster: OpenSearchEngine) -> Iterator[str]:
    name = filled(cluster, {"properties": PACKAGES}, DOCUMENTS)
    yield name
    cluster.drop_if_exists(name)


@pytest.fixture
def client(cluster: OpenSearchEngine, model: Model, tmp_path: Path) -> FlaskClient:
    return create_app(Config(store=str(tmp_path / "sessions.db")), engine=cluster, model=model).test_client()


def explained(client: FlaskClient, index: str, *ids: str) -> set[str]:
    """Return the words that a new session learns from marked documents."""
    session = uuid.uuid4().hex
    answer = post(client, "/v1/feedback", session=session, index=index, query="xyz", relevant=list(ids), explain=True)
    return set(answer["learned"]["asked"])


def added(client: FlaskClient, index: str, query: dict[str, Any]) -> set[str]:
    """Return the words that a session adds to a query after the document feh was marked."""
    session = uuid.uuid4().hex
    post(client, "/v1/feedback", session=session, index=index, query="xyz", relevant=["feh"])
    options = {"query": "xyz", "session": session}
    answer = post(client, "/v1/rewrite", index=index, body={"query": query, "ext": {"resift": options}})
    return set(re.findall(r'"query": "(\w+)"', json.dumps(answer["body"]))) - {"xyz"}


def test_only_words_of_text_fields_are_learned(client: FlaskClient, packages: str) -> None:
    words = {"feh", "viewer", "pictures", "fast", "photographs", "slideshow", "wallpaper"}
    assert explained(client, packages, "feh") == words
    assert explained(client, packages, "eog") == {"eog", "pictures", "desktop"}


def test_hits_show_texts_of_the_text_fields(
    cluster: OpenSearchEngine,
    client: FlaskClient,
    opensearch_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = {"type": "text"}
    properties = {
        "code": KEYWORD,
        "note": {**text, "index": False},
        "about": {"properties": {"heading": text}},
        "body": text,
    }
    document = {
        "code": "Kodex 17 der Karten",
        "note": "an internal note that nobody searches, but which is the longest text of the document",
        "body": "Brass lamps burn for hours",
        "about": {"heading": "Lamps of brass"},
    }
    other = {
        **document,
        "body": "Glass lamps break",
        "about": {"heading": "Lamps of glass"},
        "code": "Kodex 18 der Karten",
    }
    name = filled(cluster, {"properties": properties}, {"1": document, "2": other})
    try:
        answer = post(client, "/v1/search", index=name, query="burn", documents="card")
        card = answer["hits"]["hits"][0]["resift"]["card"]
        assert (card["title"], card["text"]) == ("Lamps of brass", "Brass lamps burn for hours")
        opened = Library(client.application.extensions["resift"]).index(name)
        assert repr(opened.search("burn")).endswith("1: Lamps of brass")
        monkeypatch.chdir(tmp_path)
        shown = CliRunner().invoke(main, ["search", name, "burn", "--engine", opensearch_url])
        assert shown.output.splitlines()[0].endswith("1  Lamps of brass | Brass lamps burn for hours")
    finally:
        cluster.drop_if_exists(name)


def test_a_query_learns_from_the_fields_that_it_searches(client: FlaskClient, packages: str) -> None:
    boosted = {"multi_match": {"query": "xyz", "fields": ["name.text^3", "tags"]}}
    assert added(client, packages, boosted) == {"feh", "slideshow", "wallpaper"}
    comments = {"nested": {"path": "reviews", "query": {"match": {"reviews.comment": "xyz"}}}}
    assert added(client, packages, {"bool": {"should": [comments, {"term": {"section": "graphics"}}]}}) == {
        "fast",
        "photographs",
    }
    everything = {"feh", "viewer", "pictures", "fast", "photographs", "slideshow", "wallpaper"}
    assert added(client, packages, {"multi_match": {"query": "xyz"}}) == everything
    assert added(client, packages, {"match": {"maintainer": "xyz"}}) == everything


@pytest.mark.parametrize("nested", [False, True])
def test_words_are_counted_in_the_fields_that_the_query_searches(
    cluster: OpenSearchEngine, client: FlaskClient, nested: bool
) -> None:
    # The German analyzer drops the stop words "und" and "die". In the other field, they are rare words.
    texts = {"properties": {"de": {"type": "text", "analyzer": "german"}, "en": {"type": "text"}}}
    name, request = f"learned-{uuid.uuid4().hex[:8]}", Cluster(cluster).request
    mappings = {"properties": {"texts": {**texts, "type": "nested"} if nested else texts}}
    request("PUT", f"/{name}", {"settings": {"number_of_shards": 1}, "mappings": mappings})
    documents = [{"de": "Bilder und die Farben", "en": "pictures"}] * 2
    documents += [{"de": "Karten", "en": "und die"}] * 3 + [{"de": "Spiel"}] * 100
    lines = [
        line
        for id, document in zip(["feh", *map(str, range(200))], documents, strict=False)
        for line in (json.dumps({"index": {"_id": id}}), json.dumps({"texts": document}))
    ]
    try:
        request("POST", f"/{name}/_bulk", "\n".join(lines) + "\n", refresh="true")
        query: dict[str, Any] = {"match": {"texts.de": "xyz"}}
        assert added(client, name, {"nested": {"path": "texts", "query": query}} if nested else query) == {
            "bilder",
            "farben",
        }
    finally:
        cluster.drop_if_exists(name)


def test_a_session_is_explained_by_the_fields_that_its_search_searched(
    cluster: OpenSearchEngine, client: FlaskClient
) -> None:
    german = {"type": "text", "analyzer": "german"}
    marked = {"title": "Pictures of fire", "body": "Bilder und die Farben"}
    documents = {"marked": marked, "similar": {"title": "und fire", "body": marked["body"]}}
    documents |= {str(n): {"title": "fire and pictures", "body": "Spiel und die Karten"} for n in range(100)}
    name = filled(cluster, {"properties": {"title": {"type": "text"}, "body": german}}, documents)
    try:
        mark = {"session": "a", "index": name, "query": "xyz", "relevant": ["marked"], "explain": True}
        assert "pictures" in post(client, "/v1/feedback", **mark)["learned"]["asked"]
        body = {"query": {"match": {"body": "xyz"}}, "ext": {"resift": {"session": "a"}}}
        post(client, "/v1/rewrite", index=name, body=body)
        learned = client.get("/v1/sessions/a").get_json()["learned"]
        assert set(learned["asked"]) == {"bilder", "farben"}
        assert learned["because"][0]["title"] == "Pictures of fire"
        # The word of the title is in the model, but not in the field.
        assert "fire" not in learned["because"][0]["words"]
    finally:
        cluster.drop_if_exists(name)


def test_japanese_words_are_searched_rather_than_single_characters(
    cluster: OpenSearchEngine, client: FlaskClient
) -> None:
    name = f"learned-{uuid.uuid4().hex[:8]}"
    mappings = {"properties": {"text": {"type": "text", "analyzer": "cjk"}}}
    texts = {"marked": "高速な画像ビューアです", "game": "ゲームです", "viewer": "軽量で小さな画像ビューアです"}
    cluster.client.indices.create(index=name, body={"settings": {"number_of_shards": 1}, "mappings": mappings})
    for id, text in texts.items():
        cluster.client.index(index=name, id=id, body={"text": text}, refresh=True)
    body: dict[str, Any] = {"query": {"match": {"text": "です"}}}
    try:
        plain = cluster.client.search(index=name, body=body)
        assert [hit["_id"] for hit in plain["hits"]["hits"]] == ["game", "marked", "viewer"]
        post(client, "/v1/feedback", session="ja", index=name, query="です", relevant=["marked"])
        options = {"ext": {"resift": {"session": "ja"}}}
        rewritten = post(client, "/v1/rewrite", index=name, body=body | options)["body"]
        assert set(re.findall(r'"query": "(\w+)"', json.dumps(rewritten["rescore"], ensure_ascii=False))) == {
            "高速",
            "画像",
            "ビューア",
        }
        hits = cluster.client.search(index=name, body=rewritten)["hits"]["hits"]
        assert [hit["_id"] for hit in hits] == ["marked", "viewer", "game"]
    finally:
        cluster.drop_if_exists(name)


def test_an_alias_of_indices_with_different_mappings(
    cluster: OpenSearchEngine, client: FlaskClient, packages: str
) -> None:
    text = {"properties": {"name": KEYWORD, "section": KEYWORD, "pkg": {"properties": {"description": KEYWORD}}}}
    other = filled(cluster, {"dynamic": False, **text}, only("mpv"))
    try:
        assert explained(client, other, "mpv") == {"mpv", "video", "viewer", "films"}  # there is no text field
        alias = f"learned-{uuid.uuid4().hex[:8]}"
        actions = [{"add": {"index": name, "alias": alias}} for name in (packages, other)]
        Cluster(cluster).request("POST", "/_aliases", {"actions": actions})
        assert "graphics" not in added(client, alias, {"match": {"pkg.description": "xyz"}})
    finally:
        cluster.drop_if_exists(other)


def test_a_source_without_some_fields(cluster: OpenSearchEngine, client: FlaskClient) -> None:
    filtered = filled(cluster, {"_source": {"excludes": ["tags", "reviews"]}, "properties": PACKAGES}, only("feh"))
    stored = {"name": {**KEYWORD, "fields": {"text": {**TEXT, "store": True}}}, "section": {**KEYWORD, "store": True}}
    hidden = filled(cluster, {"_source": {"enabled": False}, "properties": stored}, only("feh"))
    try:
        assert explained(client, filtered, "feh") == {"feh", "viewer", "pictures"}
        assert explained(client, hidden, "feh") == {"feh"}
    finally:
        cluster.drop_if_exists(filtered)
        cluster.drop_if_exists(hidden)


@pytest.fixture(scope="module")
def fires(cluster: OpenSearchEngine) -> Iterator[str]:
    """Return an index of two documents, whose texts are in objects, and whose other fields are strings, too."""
    kept = {"pkg": {"properties": {"description": TEXT}}, "reviews": PACKAGES["reviews"], "tags": TEXT}
    documents: dict[str, dict[str, Any]] = {
        "bush": {"pkg": {"description": "fire in the bush"}, "reviews": [{"comment": "smoke"}], "section": "army"},
        "army": {"pkg": {"description": "army fire"}, "tags": ["https://smoke.example"], "section": "smoke forest"},
    }
    name = filled(cluster, {"properties": {**kept, "section": KEYWORD}}, documents)
    yield name
    cluster.drop_if_exists(name)


def suggestion(client: FlaskClient, index: str, text: str) -> str | None:
    """Return the corrected query of a search that is repeated after the words of the index were sampled."""
    post(client, "/v1/search", index=index, query=text)
    wait_for_sample()
    corrected: str | None = post(client, "/v1/search", index=index, query=text)["resift"].get("did_you_mean")
    return corrected


def test_spelling_titles_and_related_words_come_from_text_fields(
    client: FlaskClient, packages: str, fires: str
) -> None:
    misspelt, corrected = "photografs slidshow linxu grafics exmple", "photographs slideshow linxu grafics example"
    assert suggestion(client, packages, misspelt) == corrected
    assert suggestion(client, fires, "smoek bsuh forrest") == "smoke bush forrest"
    service = client.application.extensions["resift"]
    assert set(service.words.get(service.infos.get(packages)).titles) == {"feh", "eog", "mpv"}
    assert set(service.words.get(service.infos.get(fires)).vocabulary.words) == {"fire", "bush", "smoke", "army"}


def test_retrievers_and_scorers_get_the_text_fields(client: FlaskClient, fires: str) -> None:
    index = Library(client.application.extensions["resift"]).index(fires)
    session, texts = index.session(uuid.uuid4().hex), list[str]()
    hits = session.search("fire")
    expected = {"bush": "fire in the bush\nsmoke", "army": "army fire"}
    assert {passage.id: passage.text for passage in retrieve(session, "fire", 10, None, {})} == expected
    session.judge(hits, lambda _, scored: texts.extend(scored) or [0.0] * len(scored))  # type: ignore[func-returns-value]
    assert texts == [expected[hit.id] for hit in hits]


@pytest.mark.parametrize("body", [{}, {"_source": ["section"]}], ids=["documents", "some of their fields"])
def test_hits_are_reranked_by_their_text_fields(
    client: FlaskClient, fires: str, model: Model, body: dict[str, Any]
) -> None:
    text = "smoke and fire"
    search = {"query": {"match": {"pkg.description": text}}, **body}
    answer = post(client, "/v1/search", index=fires, query=search, method="dynamax")
    texts = {"bush": "fire in the bush\nsmoke", "army": "army fire"}
    expected = dict(zip(texts, DynaMax(model.table).scores(text, list(texts.values())).tolist(), strict=True))
    similarities = {hit["_id"]: hit["resift"]["similarity"] for hit in answer["hits"]["hits"]}
    assert similarities == pytest.approx(expected, abs=1e-4)


ALARM_FIELDS = {"properties": {"text": {"type": "text"}, "name": {"type": "keyword"}}}
ALARMS = {
    id: {"text": text, "name": id}
    for id, text in {
        "a": "fire fire",
        "b": "fire and a smoke alarm in the tree",
        "c": "a tree and a fire in rainy weather",
        "d": "fire in snow",
    }.items()
}


@pytest.mark.parametrize(
    "body",
    [{}, {"_source": False}, {"collapse": {"field": "name"}}],
    ids=["documents", "without documents", "collapsed"],
)
def test_marked_documents_and_common_words_explain_hits_without_vectors(
    cluster: OpenSearchEngine, client: FlaskClient, body: dict[str, Any]
) -> None:
    index = filled(cluster, ALARM_FIELDS, ALARMS)
    try:
        post(client, "/v1/feedback", session="anna", index=index, query="fire", relevant=["b"])
        search = {"index": index, "query": {"query": {"match": {"text": "fire"}}, **body}, "reasons": True}
        before = [hit["_id"] for hit in post(client, "/v1/search", **search)["hits"]["hits"]]
        answer = post(client, "/v1/search", session="anna", **search)
        hits, details = answer["hits"]["hits"], answer["resift"]
        assert details.get("method", "lexical") == "lexical"
        assert details.get("alpha", 0) == 0
        reasons = {hit["_id"]: hit["resift"]["because"] for hit in hits}
        moved = {hit["_id"]: before.index(hit["_id"]) - rank for rank, hit in enumerate(hits)}
        assert list(reasons)[:2] == ["b", "c"]
        assert {id: reason["moved"] for id, reason in reasons.items() if reason} == {id: moved[id] for id in "bc"}
        assert all(reason["document"] == "b" for reason in reasons.values() if reason)
        assert reasons["c"]["words"] == ["tree"]
        assert set(reasons["b"]["words"]) == {"smoke", "alarm", "tree"}
    finally:
        cluster.drop_if_exists(index)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda text: {"function_score": {"query": text, "boost": 1000}},
        lambda text: {"function_score": {"query": text, "functions": [{"weight": 0.001}]}},
        lambda text: {"bool": {"must": [text], "boost": 1000}},
        lambda text: {"dis_max": {"queries": [{"multi_match": {**text["multi_match"], "boost": 1000}}]}},
    ],
    ids=["boost", "weight", "bool", "multi_match"],
)
def test_constant_factors_of_scores_do_not_change_what_a_session_does(
    cluster: OpenSearchEngine, client: FlaskClient, wrap: Any
) -> None:
    index = filled(cluster, ALARM_FIELDS, ALARMS)
    try:
        post(client, "/v1/feedback", session="anna", index=index, query="fire", relevant=["b"])

        def scores(query: dict[str, Any], session: str | None) -> dict[str, float]:
            answer = post(client, "/v1/search", session=session, index=index, query={"query": query})
            return {hit["_id"]: hit["_score"] for hit in answer["hits"]["hits"]}

        text = {"multi_match": {"query": "fire", "fields": ["text"]}}
        before, after = scores(text, None), scores(text, "anna")
        factor = next(iter(scores(wrap(text), None).values())) / next(iter(before.values()))
        assert not 0.5 < factor < 2
        wrapped = scores(wrap(text), "anna")
        assert list(wrapped) == list(after) != list(before)
        assert wrapped == pytest.approx({id: score * factor for id, score in after.items()}, rel=1e-3)
        newest = {"random_score": {"seed": 7, "field": "_seq_no"}, "boost_mode": "replace"}
        replaced = {"function_score": {"query": wrap(text), **newest}}
        assert scores(replaced, "anna") == scores(replaced, None)
    finally:
        cluster.drop_if_exists(index)


@pytest.mark.parametrize(
    ("field", "session"), [("title{long}", "anna{number}"), ("title", "anna {number}{long}")], ids=["field", "session"]
)
def test_searches_with_long_names_do_not_fill_the_memory(
    client: FlaskClient, packages: str, field: str, session: str
) -> None:
    def search(number: int) -> None:
        values = {"number": number, "long": "x" * 900_000}
        query = {"match": {field.format(**values): f"viewer {number}"}}
        body = {"query": query, "ext": {"resift": {"session": session.format(**values)}}}
        post(client, "/v1/rewrite", index=packages, body=body)

    search(0)
    with keeps_less_than(10_000_000):
        for number in range(1, 31):
            search(number)


def test_the_words_of_a_session_are_not_counted_in_thousands_of_fields(
    client: FlaskClient, packages: str, cluster: OpenSearchEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    post(client, "/v1/feedback", session="wide", index=packages, query="viewer", relevant=["feh"])
    counted: list[int] = []
    count = cluster.word_counts

    def record(info: Any, fields: Any, *arguments: Any, **options: Any) -> Any:
        counted.append(len(fields))
        return count(info, fields, *arguments, **options)

    monkeypatch.setattr(cluster, "word_counts", record)
    for size in (3, 20_000):
        query = {"multi_match": {"query": "viewer", "fields": [f"name{number}*" for number in range(size)]}}
        body = {"query": query, "ext": {"resift": {"session": "wide"}}}
        assert post(client, "/v1/rewrite", index=packages, body=body)["resift"]["rewritten"]
    assert counted == [3, 0]
