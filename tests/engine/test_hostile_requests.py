"""Tests of malicious and malformed requests: each gets a documented response, on both engines."""

from __future__ import annotations

import gzip
import json
import uuid
from base64 import b64encode
from contextlib import closing
from typing import Any

import pytest
from flask.testing import FlaskClient
from odd_bodies import nested
from openapi_document import ERROR, check
from service_app import config as config
from service_app import known as known
from service_app import lasting as lasting
from service_app import plain as plain
from service_app import post

from resift import Model
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.reranker import Config, create_app

JSON = {"Content-Type": "application/json"}
SEARCH = {"index": "INDEX", "query": "fire"}
GOOD = json.dumps({"query": "fire", "documents": ["bush", "army"]}).encode()


@pytest.fixture
def filled(lasting: tuple[FlaskClient, str]) -> str:
    """Return the index of seven documents."""
    return lasting[1]


def body_of(query: Any) -> dict[str, Any]:
    """Return the body of a ``/v1/search`` request in a session."""
    return {**SEARCH, "query": query, "session": "anna"}


def full(**parts: Any) -> dict[str, Any]:
    """Return the body of a request with a whole search body."""
    return body_of({"query": {"match": {"text": "fire"}}, **parts})


def counted(kind: str, **settings: Any) -> dict[str, Any]:
    """Return the body of a request with an aggregation."""
    return full(size=0, aggs={"a": {kind: settings}})


MATCH = {"match": {"text": "fire"}}
DEEP_QUERY = b'{"bool": {"must": ' * 90 + b'{"match_all": {}}' + b"}}" * 90
WORDS, OTHERS = (" ".join(f"{letter}{number}" for number in range(600)) for letter in "ab")
# Most of these caused a status of 500, or blocked a thread for seconds. Status 0 stands for any status below 500.
SEARCHES: dict[str, tuple[dict[str, Any], int]] = {
    "no fields": (body_of({"multi_match": {"query": "fire", "fields": []}}), 0),
    "fields that are none": (body_of({"multi_match": {"query": "fire", "fields": [None, 1, {}]}}), 400),
    "no tags": (full(highlight={"fields": {"text": {}}, "pre_tags": [], "post_tags": []}), 400),
    "no tags behind": (full(highlight={"fields": {"text": {}}, "post_tags": []}), 400),
    "many words twice": (
        body_of({"bool": {"must": {"match": {"text": WORDS}}, "should": {"match": {"text": OTHERS}}}}),
        400,
    ),
    "a vector's order": (full(sort="resift_vector"), 400),
    "a vector's values": (full(docvalue_fields=["resift_vector"]), 400),
    "after nothing": (full(sort="n", search_after=[None]), 400),
    "after and from": (full(sort="n", search_after=[1], **{"from": 3}), 400),
    "slice of nothing": (full(slice={"id": 0, "max": 2}), 400),
    "source of null": (full(_source=[None]), 400),
    "pattern of many stars": (full(_source={"includes": ["*a" * 200]}), 0),
    "pattern of nothing but stars": (full(_source={"includes": ["*" * 3000, "resift_vector"]}), 200),
    "rescored window of less": (full(rescore={"window_size": -1, "query": {"rescore_query": MATCH}}), 400),
    "no shape": (body_of({"geo_shape": {"text": {"shape": {"type": "polygon", "coordinates": [[" "]]}}}}), 400),
    "many buckets": (counted("histogram", field="n", interval=1e-5, min_doc_count=0), 400),
    "negative values": (counted("percentiles", field="n", script="-1", hdr={}), 400),
    "order of what is not there": (counted("terms", field="n", order={"nope": "asc"}), 400),
    "pattern of numbers": (counted("terms", field="n", include="a.*"), 400),
    "sample of nothing": (counted("sampler"), 400),
    "model that is not there": (
        full(highlight={"fields": {"text": {"type": "semantic"}}, "options": {"model_id": "x"}}),
        0,
    ),
    "brackets in a query string": (body_of({"query_string": {"query": "(" * 5000}}), 400),
    "brackets in an expression": (body_of({"regexp": {"text": "(" * 990}}), 400),
    "brackets in a shape": (
        body_of({"geo_shape": {"text": {"shape": "GEOMETRYCOLLECTION (" * 200 + "POINT (1 1)" + ")" * 200}}}),
        400,
    ),
    "brackets in a script": (full(sort={"_script": {"type": "number", "script": "[" * 900 + "]" * 900}}), 400),
    "signs in an expression": (
        full(sort={"_script": {"type": "number", "script": {"lang": "expression", "source": "-" * 30_000 + "1"}}}),
        413,
    ),
    "brackets in base64": (body_of({"wrapper": {"query": b64encode(DEEP_QUERY).decode()}}), 400),
    "suggestions of long expressions": (
        full(suggest={"a": {"regex": "a|" * 4000 + "b", "completion": {"field": "text"}}}),
        413,
    ),
    "brackets side by side": (body_of({"match": {"text": ":-) " * 500 + "fire (bush) [tree] " * 60}}), 200),
    "NUL in a field": (body_of({"match": {"te\0xt": "fire"}}), 0),
    "NUL in a text": (body_of("fi\0re"), 200),
    "lone surrogate in a query": (body_of("fire \ud800"), 400),
    "lone surrogate in a field": (body_of({"match": {"te\ud800xt": "fire"}}), 400),
    "lone surrogate in an id": (body_of({"ids": {"values": ["\ud800"]}}), 400),
    "bool in bool, 60 deep": (body_of(nested(60, {"must": [MATCH]})), 0),
    "bool in bool, 300 deep": (body_of({"bool": {"must": [nested(300, MATCH)]}}), 400),
    "1,100 filters": (body_of({"bool": {"must": MATCH, "filter": [{"term": {"n": 1}}] * 1100}}), 0),
    "10,000 ids": (body_of({"ids": {"values": [str(number) for number in range(10_000)]}}), 200),
    "many words": (body_of(" ".join(f"w{number}" for number in range(1500))), 0),
    "one long word": (body_of("x" * 9999), 200),
    "nothing but punctuation": (body_of("!?()[]{}^~*:\\/\"'"), 200),
    "a query in a query in a query": (full(query={"query": {"query": MATCH}}), 400),
    "two clauses in one": (body_of({"match": {"text": "a"}, "term": {"n": 1}}), 400),
    "an empty clause": (body_of({}), 200),
    "hybrid and neural": (body_of({"hybrid": {"queries": [MATCH, {"neural": {"v": {"query_text": "x", "k": 3}}}]}}), 0),
    "endless from": (full(**{"from": 10**30}), 400),
    "size of a truth": (full(size=True), 400),
    "negative size": (full(size=-1), 400),
    "size and from beyond the window": ({**SEARCH, "size": 10_000, "from": 10_000}, 0),
    "sort by what is not there": (full(sort=[{"nothing": "up"}]), 400),
    "stored fields of none": (full(stored_fields="_none_"), 0),
    "stored fields of a number": (full(stored_fields=1), 0),
    "filter of everything": ({**SEARCH, "filter": {"match_all": {}}}, 200),
    "filter of nothing": ({**SEARCH, "filter": {}}, 200),
    "range of words": ({**SEARCH, "filter": {"range": {"n": {"gte": "x", "lt": []}}}}, 400),
    "range of all numbers": ({**SEARCH, "filter": {"range": {"n": {"gte": -1e308, "lt": 1e308}}}}, 0),
    "script": (body_of({"script_score": {"query": MATCH, "script": {"source": "while (true) {}"}}}), 0),
    "slow regular expression": (body_of({"regexp": {"text": "(.*a){25}"}}), 0),
    "index of a path": ({**SEARCH, "index": "../_cluster/settings"}, 0),
    "index with a NUL": ({**SEARCH, "index": "a\0b"}, 0),
    "index with a surrogate": ({**SEARCH, "index": "\ud800"}, 400),
    "no index": ({**SEARCH, "index": ""}, 400),
    "long index": ({**SEARCH, "index": "i" * 5000}, 0),
    "session with a slash": ({**SEARCH, "session": "a/b"}, 400),
    "alpha beyond": ({**SEARCH, "alpha": 1e308}, 400),
    "window of a text": ({**SEARCH, "window": "100"}, 400),
    "knn of a list": ({**SEARCH, "knn": [1]}, 400),
}


# Python's json module parses these as other values. They used to run another search without an error.
TWISTED = {
    "a number that is null to the engine": '"query": {"range": {"n": {"gte": 1e400}}}',
    "the other end": '"query": "fire", "filter": {"range": {"n": {"lt": -1e400}}}',
    "a clause twice": '"query": {"bool": {"must_not": {"term": {"n": 1}}, "must_not": {"term": {"n": 2}}}}',
    "a query twice": '"query": "fire", "query": "rain"',
    "NaN": '"query": {"term": {"n": NaN}}',
}


@pytest.mark.parametrize("part", TWISTED.values(), ids=TWISTED)
def test_malformed_json_is_refused_and_never_searched(known: FlaskClient, filled: str, part: str) -> None:
    answer = known.post("/v1/search", data=f'{{"index": "{filled}", {part}}}', headers=JSON)
    held(answer, 400)
    assert answer.get_json()["error"]["code"] == "malformed_json"


def with_index(value: Any, index: str) -> Any:
    """Return a request for the index."""
    return {**value, "index": index} if value.get("index") == "INDEX" else value


def marked(name: str) -> Any:
    """Mark hits of a query that OpenSearch 2 answers with no hits, and later versions refuse."""
    return pytest.mark.since(3, "it is taken there") if name.startswith("lone surrogate in") else ()


@pytest.mark.parametrize(
    ("body", "status"), [pytest.param(*row, id=name, marks=marked(name)) for name, row in SEARCHES.items()]
)
def test_searches(known: FlaskClient, filled: str, body: dict[str, Any], status: int) -> None:
    answer = known.post("/v1/search", json=with_index(body, filled))
    held(answer, status)
    assert known.post("/v1/search", json={"index": filled, "query": "fire"}).status_code == 200


def held(answer: Any, status: int) -> None:
    """Assert that a response has a status (if any is expected), and is not an internal error."""
    assert answer.status_code < 500, answer.text
    assert status in (0, answer.status_code), answer.text
    if answer.status_code >= 400 and answer.request.method != "HEAD":
        check(ERROR, answer.get_json())


def test_cluster_errors_are_not_reported_as_errors_of_the_search(
    opensearch_url: str, model: Model, config: Config
) -> None:
    index = f"resift-test-{uuid.uuid4().hex[:12]}"
    with closing(OpenSearchEngine(opensearch_url)) as engine:
        nowhere = {"index.routing.allocation.require._name": "nowhere"}
        engine.client.indices.create(index=index, body={"settings": nowhere}, params={"wait_for_active_shards": "0"})
        try:
            client = create_app(config, engine=engine, model=model).test_client()
            error = post(client, "/v1/search", 503, index=index, query=MATCH)["error"]
            assert error["code"] == "engine_error"
            assert "shard" in error["message"]
        finally:
            engine.drop(index)


DEEP = b'{"query": ' + b"[" * 90_000 + b"]" * 90_000 + b"}"
RERANKS: dict[str, tuple[bytes, dict[str, str], int]] = {
    "nothing": (b"", JSON, 400),
    "white space": (b" \n", JSON, 400),
    "no object": (b"[]", JSON, 400),
    "null": (b"null", JSON, 400),
    "half": (GOOD[:-1], JSON, 400),
    "two": (GOOD + GOOD, JSON, 400),
    "deep": (DEEP, JSON, 400),
    "deep and open": (b"[" * 190_000, JSON, 413),
    "NaN": (b'{"query": NaN, "documents": []}', JSON, 400),
    "Infinity": (b'{"query": "x", "documents": [], "top_n": Infinity}', JSON, 400),
    "a number of 5,000 digits": (b'{"query": "x", "documents": [], "top_n": ' + b"9" * 5000 + b"}", JSON, 400),
    "a number of many zeros": (b'{"query": "x", "documents": [], "top_n": 1e400}', JSON, 400),
    "the same key twice": (b'{"query": 1, "query": "fire", "documents": ["bush"]}', JSON, 200),
    "surrogate": (rb'{"query": "\ud800", "documents": ["a"]}', JSON, 400),
    "broken UTF-8": (b'{"query": "\xff\xfe", "documents": ["a"]}', JSON, 400),
    "overlong UTF-8": (b'{"query": "\xc0\x80", "documents": ["a"]}', JSON, 400),
    "BOM": (b"\xef\xbb\xbf" + GOOD, JSON, 0),
    "UTF-16": (GOOD.decode().encode("utf-16"), JSON, 0),
    "UTF-32": (GOOD.decode().encode("utf-32"), JSON, 0),
    "latin-1": ('{"query": "é", "documents": ["a"]}'.encode("latin-1"), JSON, 400),
    "gzip": (gzip.compress(GOOD), {**JSON, "Content-Encoding": "gzip"}, 415),
    "bomb": (gzip.compress(b" " * 10**8), {**JSON, "Content-Encoding": "gzip"}, 415),
    "gzip that is not said to be one": (gzip.compress(GOOD), JSON, 400),
    "a coding of nonsense": (GOOD, {**JSON, "Content-Encoding": "x" * 5000}, 415),
    "no coding": (GOOD, {**JSON, "Content-Encoding": "Identity"}, 200),
    "another charset": (GOOD, {"Content-Type": "application/json; charset=utf-7"}, 200),
    "form": (b"query=fire", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
    "multipart": (b"--x\r\n\r\n--x--", {"Content-Type": "multipart/form-data; boundary=x"}, 415),
    "text": (GOOD, {"Content-Type": "text/plain"}, 415),
    "no type": (GOOD, {}, 415),
    "a type of nonsense": (GOOD, {"Content-Type": "\x7f;;;=/"}, 415),
    "too large": (b" " * 200_001, JSON, 413),
    "unknown fields": (b'{"query": "x", "documents": [], "sise": 1}', JSON, 400),
    "other hosts": (GOOD, {**JSON, "Host": "evil.example"}, 403),
    "host of nonsense": (GOOD, {**JSON, "Host": "a b[::"}, 0),
    "another origin": (GOOD, {**JSON, "Origin": "https://evil.example"}, 403),
    "authorization of nonsense": (GOOD, {**JSON, "Authorization": "Basic \x80\x81"}, 200),
    "long authorization": (GOOD, {**JSON, "Authorization": "Bearer " + "x" * 60_000}, 200),
    "cookies": (GOOD, {**JSON, "Cookie": "=;;;a" * 5000}, 200),
    "ranges": (GOOD, {**JSON, "Range": "bytes=0-1,2-", "If-Match": '"x', "If-Modified-Since": "yesterday"}, 200),
}


@pytest.mark.parametrize(("body", "headers", "status"), RERANKS.values(), ids=RERANKS)
def test_bodies_and_headers(plain: FlaskClient, body: bytes, headers: dict[str, str], status: int) -> None:
    held(plain.post("/v1/rerank", data=body, headers=headers), status)


FIELDS: dict[str, dict[str, Any]] = {
    "embeddings": {"input": ["fire"], "encoding_format": "float", "model": None, "truncate": False},
    "rerank": {"query": "fire", "documents": ["a"], "top_n": 1, "method": "vectors", "session": "anna"},
    "score": {"query": "fire", "documents": ["a"], "engine_scores": [1], "alpha": 0},
    "feedback": {"session": "anna", "index": "none", "query": "fire", "relevant": ["1"], "clicked": ["2"]},
    "search": {**SEARCH, "size": 1, "from": 0, "window": 5, "knn": 1, "filter": MATCH, "highlight": True},
}
WRONG = [True, 1, 1.5, -(10**30), "\ud800", "", [], [[]], {}, {"": None}, ["x", None, 1], nested(99, 1)]


@pytest.mark.parametrize(
    ("index", "credentials"), [("INDEX", "x" * 60_000), ("x" * 10_000, "x")], ids=["long credentials", "long index"]
)
def test_a_request_that_opensearch_cannot_read_does_not_delay_the_next_request(
    opensearch_url: str, model: Model, config: Config, index: str, credentials: str
) -> None:
    name = f"resift-test-{uuid.uuid4().hex}"
    with closing(OpenSearchEngine(opensearch_url, timeout=10)) as cluster:
        cluster.create(name, ["text"], model)
        client = create_app(config, engine=cluster, model=model).test_client()
        body = {"index": index.replace("INDEX", name), "query": "fire"}
        refused = client.post("/v1/search", json=body, headers={"Authorization": f"Basic {credentials}"})
        assert refused.status_code == 400, refused.text
        assert "too_long" in refused.get_json()["error"]["message"]
        assert post(client, "/v1/search", index=name, query="fire")["hits"]["hits"] == []
        cluster.drop(name)


@pytest.mark.parametrize("name", FIELDS)
def test_values_of_any_type_anywhere(plain: FlaskClient, name: str) -> None:
    for field in FIELDS[name]:
        for value in WRONG:
            held(plain.post(f"/v1/{name}", json={**FIELDS[name], field: value}), 0)


PATHS: dict[str, tuple[str, str, int]] = {
    "NUL": ("GET", "/v1/sessions/%00", 0),
    "NUL behind a name": ("DELETE", "/v1/sessions/a%00b", 0),
    "surrogate": ("GET", "/v1/sessions/%ED%A0%80", 0),
    "broken UTF-8": ("GET", "/v1/sessions/%FF%FE", 0),
    "dots": ("GET", "/v1/sessions/../../etc/passwd", 404),
    "dots in disguise": ("GET", "/static/%2e%2e/%2e%2e/app.py", 404),
    "slashes in disguise": ("GET", "/static/..%2f..%2fapp.py", 404),
    "backslashes": ("GET", "/static/..\\..\\app.py", 404),
    "long": ("GET", "/v1/sessions/" + "x" * 50_000, 0),
    "a long query string": ("GET", "/?index=" + "x" * 50_000, 200),
    "many parameters": ("GET", "/?" + "a=b&" * 20_000, 0),
    "script on the page": ("GET", "/?index=<script>alert(1)</script>", 200),
    "no such percent": ("GET", "/%zz%", 404),
    "another version": ("POST", "/v2/search", 404),
    "slash at the end": ("POST", "/v1/search/", 404),
    "slashes between": ("POST", "/v1//search", 404),
    "slashes everywhere": ("GET", "/static//search.js", 404),
    "capitals": ("POST", "/V1/SEARCH", 404),
    "HEAD": ("HEAD", "/healthz", 200),
    "HEAD of a search": ("HEAD", "/v1/search", 405),
    "OPTIONS": ("OPTIONS", "/v1/search", 200),
    "TRACE": ("TRACE", "/", 405),
    "CONNECT": ("CONNECT", "/", 405),
    "a method of its own": ("BREW", "/v1/search", 405),
    "PATCH": ("PATCH", "/v1/sessions/anna", 405),
}


@pytest.mark.parametrize(("method", "path", "status"), PATHS.values(), ids=PATHS)
def test_paths_and_methods(plain: FlaskClient, method: str, path: str, status: int) -> None:
    held(plain.open(path, method=method), status)
    assert "<script>alert" not in plain.open(path, method=method).text
