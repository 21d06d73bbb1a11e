"""Tests of protection against DNS rebinding and CSRF, of CORS, and of security headers."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest
from flask.testing import FlaskClient
from service_app import config as config
from service_app import plain as plain

from resift import Model
from resift.embedded.engine import SqliteEngine
from resift.errors import BadInput
from resift.reranker import Config, create_app

KEY = "rsf_" + "k" * 43
SHOP = "https://shop.example"
BODY = {"query": "fire", "documents": ["fire"]}
MARKS = {"session": "s", "index": "docs", "relevant": ["1"]}


def client_with_settings(model: Model, tmp_path: Any, **settings: Any) -> FlaskClient:
    """Return a test client of the application with these settings."""
    config = Config(store=str(tmp_path / "sessions.db"), **settings)
    return create_app(config, engine=SqliteEngine(str(tmp_path / "plain.db")), model=model).test_client()


def status_and_code(answer: Any) -> tuple[int, str]:
    """Return the status and the code of an error response."""
    return answer.status_code, answer.get_json()["error"]["code"]


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8080", "127.0.0.1:8080", "127.1.2.3", "[::1]:8080", "LOCALHOST"]
)
def test_this_machine_is_served_without_keys(plain: FlaskClient, host: str) -> None:
    assert plain.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "0.0.0.0",
        "192.0.2.1",
        "[::2]",
        "[",
        "a@localhost:x",
    ],
)
@pytest.mark.parametrize("path", ["/", "/healthz", "/metrics", "/v1/sessions/s", "/static/search.js", "/nothing"])
def test_other_names_are_not_served_without_keys(plain: FlaskClient, host: str, path: str) -> None:
    answer = plain.get(path, headers={"Host": host})
    assert status_and_code(answer) == (403, "host_not_allowed")
    assert "RESIFT_HOSTS" in answer.get_json()["error"]["expected"]


def test_allowed_names_are_served(model: Model, tmp_path: Any) -> None:
    hosts = client_with_settings(model, tmp_path, hosts=("search.example",))
    for host, status in (
        ("search.example:80", 200),
        ("Search.Example", 200),
        ("localhost", 200),
        ("x.search.example", 403),
    ):
        assert hosts.get("/healthz", headers={"Host": host}).status_code == status
    assert (
        client_with_settings(model, tmp_path, api_key=KEY).get("/healthz", headers={"Host": "any.example"}).status_code
        == 200
    )
    both = client_with_settings(model, tmp_path, api_key=KEY, hosts=("search.example",))
    assert both.get("/healthz", headers={"Host": "any.example"}).status_code == 403


FOREIGN: list[dict[str, str]] = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost:9999"},
    {"Origin": "http://localhost.evil.example"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost"},
]


@pytest.mark.parametrize("headers", FOREIGN)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/feedback"),
        ("POST", "/v1/sessions/s/undo"),
        ("PUT", "/v1/reviews/r"),
        ("DELETE", "/v1/sessions/s"),
        ("POST", "/v1/search"),
    ],
)
def test_requests_of_other_sites_are_refused(
    plain: FlaskClient, headers: dict[str, str], method: str, path: str
) -> None:
    json = MARKS if method in ("POST", "PUT") else None
    answer = plain.open(path, method=method, json=json, headers=headers)
    assert status_and_code(answer) == (403, "origin_not_allowed")
    assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://localhost"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://behind.proxy.example"},
        {"Sec-Fetch-Site": "none"},
    ],
)
def test_requests_of_programs_and_the_services_page_are_accepted(plain: FlaskClient, headers: dict[str, str]) -> None:
    assert plain.post("/v1/rerank", json=BODY, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json", None]
)
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/feedback"), ("PUT", "/v1/reviews/r"), ("POST", "/v1/sessions/s/undo")]
)
def test_bodies_are_sent_as_json(plain: FlaskClient, kind: str | None, method: str, path: str) -> None:
    answer = plain.open(path, method=method, data=b'{"judgements": []}', content_type=kind)
    assert status_and_code(answer) == (415, "unsupported_media_type")
    assert answer.get_json()["error"]["expected"] == "Content-Type: application/json"


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_json_content_types_are_accepted(plain: FlaskClient, kind: str) -> None:
    assert plain.post("/v1/rerank", data=b'{"query": "a", "documents": []}', content_type=kind).status_code == 200


def test_requests_without_a_body_need_no_content_type(plain: FlaskClient) -> None:
    assert status_and_code(plain.post("/v1/sessions/s/undo")) == (404, "session_not_found")
    assert status_and_code(plain.delete("/v1/sessions/s")) == (404, "session_not_found")


def test_sites_on_the_list_may_use_the_api(model: Model, tmp_path: Any) -> None:
    client = client_with_settings(model, tmp_path, api_key=KEY, cors=(SHOP,))
    request_headers = {
        "Origin": SHOP,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-api-key",
    }
    preflight = client.options("/v1/rerank", headers=request_headers)
    assert preflight.status_code == 200
    assert preflight.headers["Access-Control-Allow-Origin"] == SHOP
    assert {"Content-Type", "X-Api-Key"} <= set(preflight.headers["Access-Control-Allow-Headers"].split(", "))
    assert {"PUT", "DELETE"} <= set(preflight.headers["Access-Control-Allow-Methods"].split(", "))
    for headers, status in (({"X-Api-Key": KEY}, 200), ({}, 401)):
        site = {"Origin": SHOP, "Sec-Fetch-Site": "cross-site"}
        answer = client.post("/v1/rerank", json=BODY, headers={**site, **headers})
        assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (status, SHOP)
        assert answer.headers["Vary"] == "Origin"
        assert "Access-Control-Allow-Credentials" not in answer.headers
    refused = client.options("/v1/rerank", headers={**request_headers, "Origin": "https://evil.example"})
    assert "Access-Control-Allow-Origin" not in refused.headers
    assert refused.headers["Vary"] == "Origin"
    other = client.post("/v1/rerank", json=BODY, headers={"Origin": "https://evil.example", "X-Api-Key": KEY})
    assert status_and_code(other) == (403, "origin_not_allowed")


@pytest.mark.parametrize(
    "wrong",
    [
        {"cors": ("*",)},
        {"cors": ("shop.example",)},
        {"cors": ("https://shop.example/",)},
        {"cors": ("null",)},
        {"hosts": ("https://shop.example",)},
        {"hosts": ("shop.example:80",)},
        {"hosts": ("Shop.example",)},
        {"indices": ()},
        {"indices": ("-secret",)},
    ],
)
def test_invalid_lists_of_sites_and_names_are_refused(wrong: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(BadInput, match=next(iter(wrong))):
        Config(**wrong)  # type: ignore[arg-type]


def test_settings_with_lists_are_split_at_commas() -> None:
    config = Config.from_environment(
        {"RESIFT_CORS": f"{SHOP}, http://localhost:3000,", "RESIFT_INDICES": "news-*,docs"}
    )
    assert (config.cors, config.indices) == ((SHOP, "http://localhost:3000"), ("news-*", "docs"))
    with pytest.raises(BadInput):
        Config.from_environment({"RESIFT_INDICES": ","})
    assert KEY not in repr(Config(api_key=KEY))


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 200),
        ("GET", "/v1/sessions/none", 404),
        ("POST", "/v1/search", 415),
        ("GET", "/healthz", 200),
        ("GET", "/nothing", 404),
        ("PUT", "/v1/search", 405),
    ],
)
def test_every_answer_has_the_headers(plain: FlaskClient, method: str, path: str, status: int) -> None:
    answer = plain.open(path, method=method, data=b"x" if method == "POST" else None)
    assert answer.status_code == status
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert "unsafe-inline" not in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert answer.headers["Cache-Control"] == "no-store"


def test_static_files_are_cached_and_revalidated(plain: FlaskClient) -> None:
    with plain.get("/static/search.js") as answer:
        assert answer.headers["Cache-Control"] == "no-cache"  # revalidated by its ETag
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_the_page_complies_with_its_content_security_policy(plain: FlaskClient) -> None:
    forbidden = []

    class Inline(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            given = dict(attrs)
            forbidden.extend(name for name in given if name == "style" or name.startswith("on"))
            if tag == "style" or (tag == "script" and "src" not in given):
                forbidden.append(tag)
            # A proxy may serve the page under another path.
            urls = [url for url in (given.get("src"), given.get("href")) if url]
            forbidden.extend(url for url in urls if "//" in url or url.startswith("/"))

    Inline().feed(plain.get("/").get_data(as_text=True))
    assert forbidden == []
