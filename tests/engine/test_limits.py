"""Tests of limits on requests: the error code and value of each."""

from __future__ import annotations

import json
import tracemalloc
from itertools import product
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient
from service_app import app as app
from service_app import client as client
from service_app import config as config
from service_app import filled as filled
from service_app import ids, post
from service_app import plain as plain
from werkzeug.test import EnvironBuilder, run_wsgi_app

from resift import Model, WordVectors
from resift.contracts.engine import Engine
from resift.encoders import late_interaction
from resift.encoders.late_interaction import LateInteraction, ScoringParameters
from resift.errors import TextTooLong
from resift.reranker import Config, create_app
from resift.strict_json import MAX_CONTAINERS, MAX_VALUES, check_json_size

FIELDS = {
    "embeddings": {"input": "fire"},
    "rerank": {"query": "fire", "documents": ["bush"]},
    "search": {"index": "docs", "query": "fire"},
    "feedback": {"session": "a", "index": "docs", "relevant": ["1"]},
}


@pytest.fixture
def roomy(engine: Engine, model: Model, config: Config) -> FlaskClient:
    """Return an application with the default limits."""
    return create_app(Config(store=config.store), engine=engine, model=model).test_client()


@pytest.mark.parametrize("name", FIELDS)
def test_a_misspelt_field_is_refused_and_the_known_ones_are_named(plain: FlaskClient, name: str) -> None:
    error = post(plain, f"/v1/{name}", 400, **FIELDS[name], sise=3)["error"]
    assert (error["code"], error["value"]) == ("bad_input", "sise")
    assert set(FIELDS[name]) <= set(error["expected"].split(" | "))


def test_texts_are_counted_whatever_their_length(plain: FlaskClient) -> None:
    plain.application.config["RESIFT"] = Config()
    for path, body, most in (
        ("embeddings", {"input": [""]}, 2048),
        ("rerank", {"query": "fire", "documents": [""]}, 10_000),
    ):
        field = list(body)[-1]
        error = post(plain, f"/v1/{path}", 413, **{**body, field: body[field] * 200_000})["error"]
        assert (error["code"], error["value"], error["expected"]) == ("too_large", 200_000, f"at most {most}")
    assert len(post(plain, "/v1/embeddings", input=[""] * 2048)["data"]) == 2048


def test_the_number_of_marks_is_checked_before_any_request(plain: FlaskClient) -> None:
    plain.application.config["RESIFT"] = Config()
    many = [str(number) for number in range(300_000)]
    error = post(plain, "/v1/feedback", 413, session="a", index="no-such-index", relevant=many)["error"]
    assert (error["code"], error["value"]) == ("too_large", 300_000)


@pytest.mark.parametrize("piece", [b"[]", b"{}", b"[[]]", b'{"a":0}', b"0", b'"ab"', b"1e1"])
def test_a_body_of_many_values_is_refused_before_it_is_parsed(plain: FlaskClient, piece: bytes) -> None:
    plain.application.config["RESIFT"] = Config()
    raw = b'{"input":[' + b",".join([piece] * (7_000_000 // (len(piece) + 1))) + b"]}"
    tracemalloc.start()
    answer = plain.post("/v1/embeddings", data=raw, content_type="application/json")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (answer.status_code, answer.get_json()["error"]["code"]) == (413, "too_large")
    assert peak < 5 * len(raw)


def test_only_what_stands_outside_of_texts_is_counted() -> None:
    check_json_size("body", json.dumps(["[{," * MAX_VALUES, 'a "quoted" , \\" [' * MAX_CONTAINERS]).encode())
    check_json_size("body", b"[" + b"0," * (MAX_VALUES - 2) + b"0]")
    for raw in (b"[" + b"0," * MAX_VALUES + b"0]", b"[" + b"[]," * MAX_CONTAINERS + b"0]", b'["\\"",' + b"{" * 10**6):
        with pytest.raises(TextTooLong, match="values, including"):
            check_json_size("body", raw)


def nested(depth: int, kind: str) -> dict[str, Any]:
    clause: dict[str, Any] = {"match": {"text": "fire"}}
    for _ in range(depth):
        clause = {"bool": {kind: [clause]}}
    return clause


MATCH: dict[str, Any] = {"match": {"text": "fire"}}


TOO_MUCH: list[tuple[dict[str, Any], str]] = [
    ({"query": nested(300, "must")}, "nested"),
    ({"query": "fire", "filter": nested(300, "filter")}, "nested"),
    ({"query": {"bool": {"must": MATCH, "filter": {"ids": {"values": ["1"] * 300_000}}}}}, "values"),
    ({"query": {"terms": {"n": list(range(70_000))}}}, "terms"),
    ({"query": {"bool": {"must": MATCH, "filter": [{"range": {"n": {"gte": 0}}}] * 1100}}}, "lause"),
    ({"query": {"match": {"text": " ".join(f"w{number}" for number in range(20_000))}}}, "lause"),
    ({"query": {"query": MATCH, "highlight": {"pre_tags": [], "fields": {"text": {}}}}}, "tags"),
    ({"query": {"query": MATCH, "size": -1}}, "size is -1"),
    ({"query": {"query": MATCH, "from": "ten"}}, "from is 'ten'"),
    ({"query": {"query": MATCH, "size": True}}, "size is True"),
    ({"query": {"query": MATCH, "size": 10_001}}, ""),
    ({"query": "fire", "window": 1001}, "window"),
    ({"query": "fire", "knn": 1001}, "knn"),
]


def test_searches_of_too_much_work_are_refused(roomy: FlaskClient, filled: str) -> None:
    for body, named in TOO_MUCH:
        error = post(roomy, "/v1/search", 400, index=filled, **body)["error"]
        assert error["code"] in ("bad_input", "engine_error")
        assert named in error["message"]
        assert len(json.dumps(error)) < 1500


def test_a_text_of_too_many_words_is_searched_by_a_hundred(roomy: FlaskClient, filled: str) -> None:
    text = " ".join(f"w{number}" for number in range(20_000))
    answer = post(roomy, "/v1/search", index=filled, query=text)
    assert "only its 100 most distinctive words count" in answer["resift"]["reason"]


ODD: list[dict[str, Any]] = [
    {"multi_match": {"query": "fire", "fields": []}},
    {"match": {"te\0xt": "fire"}},
    {"bool": {"must": [MATCH], "filter": [{"term": {"n\0": 1}}]}},
    {"query": MATCH, "fields": []},
    {"query": MATCH, "highlight": {}},
    {"query": MATCH, "highlight": {"fields": {"te\0xt": {}}}},
    {"query": MATCH, "_source": []},
    {"query": MATCH, "stored_fields": "_none_"},
    {"query": MATCH, "stored_fields": ["_none_"]},
    {"query": MATCH, "stored_fields": []},
    {"query": MATCH, "stored_fields": None},
    {"query": {}},
    {"query": None},
    {"query": []},
    {"bool": {"must": []}},
    {"bool": []},
    {"query": MATCH, "sise": 3},
]


def test_odd_bodies_are_answered_or_refused_by_the_engine(roomy: FlaskClient, filled: str) -> None:
    post(roomy, "/v1/feedback", session="a", index=filled, query="fire", relevant=["bush"])
    for query, session in product(ODD, (None, "a")):
        answer = roomy.post("/v1/search", json={"index": filled, "query": query, "session": session})
        assert answer.status_code in (200, 400), query
        if answer.status_code == 400:
            assert answer.get_json()["error"]["code"] in ("bad_input", "unsupported_query", "engine_error")


def test_filters_up_to_the_engines_limit_are_taken(roomy: FlaskClient, filled: str) -> None:
    query = {"bool": {"must": [MATCH], "filter": [{"range": {"n": {"gte": 1}}}] * 900}}
    assert set(ids(post(roomy, "/v1/search", index=filled, query=query))) == {"wood", "tree", "army", "war"}
    query = {"bool": {"must": [MATCH], "filter": [{"ids": {"values": ["bush", *map(str, range(90_000))]}}]}}
    assert ids(post(roomy, "/v1/search", index=filled, query=query)) == ["bush"]
    deep = nested(18, "must")
    assert len(ids(post(roomy, "/v1/search", index=filled, query=deep))) == 5


def chunked(client: FlaskClient, stream: Any) -> tuple[str, dict[str, Any]]:
    """Return the status and response for a body without a length."""
    environ = EnvironBuilder("/v1/rerank", method="POST", content_type="application/json").get_environ()
    environ.update({"wsgi.input": stream, "wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"})
    environ.pop("CONTENT_LENGTH", None)
    answer, status, _ = run_wsgi_app(client.application.wsgi_app, environ)
    return status[:3], json.loads(b"".join(answer))


class Pieces:
    """A body that arrives in pieces. An exception among the pieces is raised."""

    def __init__(self, *pieces: bytes | Exception) -> None:
        self.pieces = list(pieces)

    def read(self, size: int = -1) -> bytes:
        piece = self.pieces.pop(0) if self.pieces else b""
        if isinstance(piece, Exception):
            raise piece
        if 0 <= size < len(piece):
            self.pieces.insert(0, piece[size:])
            piece = piece[:size]
        return piece


def test_bodies_in_chunks_are_whole_or_refused(plain: FlaskClient) -> None:
    body = json.dumps({"query": "fire", "documents": ["bush"]}).encode()
    limit = plain.application.config["RESIFT"].max_body
    assert chunked(plain, Pieces(body[:9], body[9:]))[0] == "200"
    # padded with blanks, so that the body would still be valid JSON if it was cut at the limit
    assert chunked(plain, Pieces(body, b" " * (limit - len(body))))[0] == "200"
    for over in (1, 1000, limit):
        status, answer = chunked(plain, Pieces(body, b" " * (limit - len(body) + over)))
        assert (status, answer["error"]["code"]) == ("413", "too_large")
    for error in (OSError("Invalid chunk size: zz"), ValueError("bad"), RuntimeError("no more data")):
        status, answer = chunked(plain, Pieces(body[:9], error))
        assert (status, answer["error"]["code"]) == ("400", "bad_input")


def test_late_interaction_holds_a_part_of_the_pairs_at_a_time(
    vectors: WordVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    reranker = LateInteraction("late", vectors, parameters=ScoringParameters(mean_length=5))
    unknown = [f"w{number}" for number in range(40)]
    texts = [" ".join(rng.choice([*vectors.words, *unknown], 30)) for _ in range(60)] + ["", "fire"]
    query = " ".join(rng.choice([*vectors.words, *unknown], 20))
    whole = reranker.scores(query, reranker.prepare(texts))
    monkeypatch.setattr(late_interaction, "_MAX_CHARACTERS", 300)
    monkeypatch.setattr(late_interaction, "_MAX_SIMILARITIES", 500)
    np.testing.assert_allclose(reranker.scores(query, texts), whole, rtol=1e-6)
    assert reranker.scores(query, []).shape == (0,)
