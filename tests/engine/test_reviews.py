"""Tests of reviews: several readers, processes that are killed, HTTP and the terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from flask.testing import FlaskClient
from msgspec.structs import replace
from service_app import app as app
from service_app import client as client
from service_app import config as config
from service_app import filled as filled
from werkzeug.test import TestResponse

from resift import Model
from resift.cli.main import main
from resift.contracts.documents import Document
from resift.contracts.engine import Engine
from resift.contracts.session_store import SessionStore
from resift.embedded.engine import SqliteEngine
from resift.errors import AmbiguousDocument, BadInput, DeadlineExceeded, NotFound
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.reranker import create_app
from resift.reranker.access.keys import KeyFile
from resift.reviews import large, loading
from resift.reviews import log as log_module
from resift.reviews import reviews as reviews_module
from resift.reviews.reviews import Reviews, ReviewSettings
from resift.service.connect import open_review_store


@pytest.fixture
def many(tmp_path: Path, model: Model) -> Iterator[SqliteEngine]:
    """Return an index of 200 documents, of which every tenth is about fires."""
    engine = SqliteEngine(str(tmp_path / "docs.db"))
    engine.create("docs", ["text"], model)
    texts = [f"fire in the forest, number {n}" if n % 10 == 0 else f"war and soldiers, day {n}" for n in range(200)]
    vectors = model.encode(texts)
    documents = [Document(str(n), {"text": text}, vectors[n]) for n, text in enumerate(texts)]
    assert engine.bulk("docs", documents) == []
    yield engine
    engine.close()


def test_ten_people_share_a_review(
    many: SqliteEngine, open_stores: Callable[[], SessionStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "_CHUNK", 40)  # small chunks, so that some are filled during the test
    reviews = [Reviews(many, open_stores) for _ in range(3)]
    reviews[0].begin("r", "docs", ReviewSettings("fire"))

    def read(person: int) -> list[str]:
        review, judged = reviews[person % 3].open("r"), list[str]()
        for _ in range(4):
            given = review.next(2, f"p{person}")
            fires = [id for id in given if int(id) % 10 == 0]
            review.judge(fires, [id for id in given if id not in fires], f"p{person}")
            judged += given
        return judged

    with ThreadPoolExecutor(10) as people:
        judged = [id for found in people.map(read, range(10)) for id in found]
    assert len(judged) == len(set(judged)) == 80
    found = Reviews(many, open_stores).open("r")
    assert found.progress().read == 80
    assert found.progress().relevant == 20  # all documents that were undone: they come first
    assert {event["document"] for event in found.audit() if event["kind"] == "judge"} == set(judged)


def test_a_review_is_of_an_index_or_of_what_a_query_finds(
    engine: Engine, indexed: str, open_stores: Callable[[], SessionStore]
) -> None:
    reviews = Reviews(engine, open_stores)
    assert reviews.begin("all", indexed, ReviewSettings("fire")).documents.total == 5
    some = reviews.begin("some", indexed, ReviewSettings(query={"match": {"text": "fire"}}))
    assert 0 < some.documents.total < 5
    assert some.documents.text(some.next(1)[0])
    assert reviews.list() == [("all", indexed), ("some", indexed)]
    assert reviews.begin("all", indexed) is reviews.open("all")
    for id, query in (("none", {"match": {"text": "qqqq"}}), ("odd", {"nonsense": {}}), ("a b", None)):
        with pytest.raises(BadInput):
            reviews.begin(id, indexed, ReviewSettings(query=query))
    reviews.delete("all")
    with pytest.raises(NotFound):
        reviews.open("all")
    assert reviews.list() == [("some", indexed)]


def test_a_document_set_larger_than_memory(
    engine: Engine, index: str, model: Model, open_stores: Callable[[], SessionStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"fire in the forest, number {n}" if n % 10 == 0 else f"war and soldiers, day {n}" for n in range(200)]
    vectors = model.encode(texts)
    engine.create(index, ["text"], model)
    assert engine.bulk(index, [Document(str(n), {"text": text}, vectors[n]) for n, text in enumerate(texts)]) == []
    engine.refresh(index)
    monkeypatch.setattr(loading, "MAX_SET_SIZE", 5000)
    monkeypatch.setattr(large, "MAX_LOADED", 30)
    even = {"bool": {"must_not": [{"ids": {"values": ["190"]}}]}}
    reviews = Reviews(engine, open_stores)
    review = reviews.begin("r", index, ReviewSettings("fire", even))
    assert isinstance(review.documents.load(), large.LargeSet)
    assert review.progress().total == 199
    assert {int(id) % 10 for id in review.next(10, "anna")} == {0}
    with pytest.raises(NotFound, match="no document '190'"):
        review.judge(["190"])
    review.judge(["180"], ["7"], by="anna")  # at any position
    judged = set(review.next(18, "anna"))
    assert len(judged) == 18
    assert {int(id) % 10 for id in judged} == {0}
    review.judge(judged, by="anna")
    assert review.reasons(["0"])["0"]
    assigned = set(review.next(5, "carl"))
    sample = review.sample(20, "ben")
    assert len(set(sample) - judged - assigned - {"180", "7"}) == 20
    assert review.documents.text(sample[0]) == texts[int(sample[0])]
    assert review.controls()[0]["unread"] == 174
    review.release("carl")
    while given := review.next(50, "ben"):
        review.judge([], given, by="ben")
    assert (review.progress().read, review.progress().relevant) == (199, 19)


_JUDGE = """
import sys
from resift.service.connect import open_engine, open_review_store
from resift.reviews import reviews as reviews_module
from resift.reviews.reviews import Reviews, ReviewSettings

review = Reviews(open_engine(sys.argv[1]), lambda: open_review_store(sys.argv[2], "s")).open("r")
while given := review.next(1, "anna"):
    review.judge(given, by="anna")
    print(given[0], flush=True)
"""


def test_what_was_acknowledged_survives_kill_9(many: SqliteEngine, tmp_path: Path) -> None:
    store = str(tmp_path / "sessions.db")
    Reviews(many, lambda: open_review_store(store, "s")).begin("r", "docs")
    with subprocess.Popen([sys.executable, "-c", _JUDGE, many.path, store], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        acknowledged = [child.stdout.readline().strip() for _ in range(12)]
        child.send_signal(signal.SIGKILL)
        acknowledged += [line.strip() for line in child.stdout if line.endswith("\n")]
    found = Reviews(many, lambda: open_review_store(store, "s")).open("r")
    judged = [event["document"] for event in found.audit() if event["kind"] == "judge"]
    assert judged[: len(acknowledged)] == acknowledged
    assert len(judged) <= len(acknowledged) + 1  # the judgement that was stored but not acknowledged


def test_over_http(client: FlaskClient, filled: str) -> None:
    begun = client.put("/v1/reviews/r", json={"index": filled, "topic": "fire", "by": "anna"})
    assert (begun.status_code, begun.json["progress"]["total"]) == (200, 7)
    batch = client.post("/v1/reviews/r/next", json={"size": 3, "by": "anna"}).json
    ids = [one["id"] for one in batch["documents"]]
    assert batch["documents"][0]["fields"]["text"].startswith("fire")
    judged = client.post("/v1/reviews/r/judgements", json={"relevant": ids[:1], "irrelevant": ids[1:], "by": "anna"})
    assert (judged.json["progress"]["read"], judged.json["progress"]["relevant"]) == (3, 1)
    assert client.post("/v1/reviews/r/undo", json={"by": "anna"}).json["progress"]["read"] == 2
    sample = client.post("/v1/reviews/r/next", json={"size": 2, "by": "ben", "sample": True}).json
    assert len(sample["documents"]) == 2
    described = client.get("/v1/reviews/r").json
    assert (described["index"], described["found_at"]) == (filled, [1])
    assert described["samples"][0]["drawn"] == 2
    assert client.get("/v1/reviews").json == {"reviews": [{"review": "r", "index": filled}]}
    assert client.get("/v1/reviews/r/export?format=qrels").text == f"r 0 {ids[0]} 1\nr 0 {ids[1]} 0\n"
    assert client.get("/v1/reviews/r/export?format=json").text.count("\n") == 7
    assert "data-review" in client.get("/reviews/r").text
    assert client.put("/v1/reviews/r", json={"index": filled}).json["progress"]["read"] == 2
    assert client.post("/v1/reviews/r/judgements", json={"relevant": ["gone"]}).status_code == 404
    for wrong in ({"size": 0}, {"size": 0, "sample": True}, {"size": 1001}):
        assert client.post("/v1/reviews/r/next", json=wrong).status_code == 400
    assert len(client.post("/v1/reviews/r/next", json={"by": "anna"}).json["documents"]) == 3
    wrong = client.put("/v1/reviews/s", json={"index": filled, "target": 1.5}).json["error"]
    assert wrong["expected"] == "a number above 0 and below 1"
    assert client.delete("/v1/reviews/r").json == {"review": "r", "deleted": True}
    assert client.get("/v1/reviews/r").status_code == 404


def test_a_review_goes_on_where_documents_were_deleted(client: FlaskClient, filled: str) -> None:
    engine = client.application.extensions["resift"].engine
    client.put("/v1/reviews/r", json={"index": filled})
    batch = client.post("/v1/reviews/r/next", json={"size": 3}).json
    judged, gone = batch["documents"][0]["id"], [one["id"] for one in batch["documents"][1:]]
    client.post("/v1/reviews/r/judgements", json={"relevant": [judged]})
    assert engine.delete(filled, [judged, *gone]) == 3
    engine.refresh(filled)
    rest = client.post("/v1/reviews/r/next", json={"size": 7}).json
    assert (len(rest["documents"]), rest["progress"]["total"], rest["progress"]["read"]) == (4, 5, 1)
    others = [one["id"] for one in rest["documents"]]
    end = client.post("/v1/reviews/r/judgements", json={"irrelevant": others}).json["progress"]
    assert (end["read"], end["may_stop"]) == (5, True)


def test_tags_are_no_words_of_a_document(engine: Engine, index: str, model: Model, tmp_path: Path) -> None:
    engine.create(index, ["title", "text"], model)
    sources = [{"title": "<i>Fire</i> &amp; smoke", "text": f"<p>The <b>forest</b> burns<br>{n} < 5</p>"} for n in "12"]
    vectors = model.encode(["fire", "fire"])
    documents = [Document(str(n), source, vectors[n]) for n, source in enumerate(sources)]
    assert engine.bulk(index, documents) == []
    engine.refresh(index)
    reviews = Reviews(engine, lambda: open_review_store(str(tmp_path / "s.db"), "s"))
    review = reviews.begin("r", index, ReviewSettings(fields=["title", "text"]))
    assert review.documents.text("0") == "Fire & smoke\nThe forest burns 1 < 5"
    review.judge(["0"])
    assert "AB  - The forest burns 1 < 5\n" in review.export("ris")
    with pytest.raises(BadInput, match="no document with text to review"):
        reviews.begin("none", index, ReviewSettings(query={"match": {"text": "rain"}}))


def test_without_keys_other_machines_get_no_review(client: FlaskClient, filled: str) -> None:
    client.put("/v1/reviews/r", json={"index": filled})
    answer = client.get("/v1/reviews/r", environ_base={"REMOTE_ADDR": "10.0.0.7"})
    assert (answer.status_code, answer.json["error"]["code"]) == (403, "forbidden")


def test_a_review_of_an_index_that_is_not_served_is_refused(client: FlaskClient, filled: str) -> None:
    service = client.application.extensions["resift"]
    client.put("/v1/reviews/r", json={"index": filled})
    closed = replace(service.config, indices=("other",))
    other = create_app(closed, engine=service.engine, model=service.model).test_client()
    assert other.get("/v1/reviews/r").status_code == 403
    assert other.put("/v1/reviews/s", json={"index": filled}).status_code == 403
    assert other.get("/v1/reviews").json == {"reviews": []}
    assert other.delete("/v1/reviews/r").status_code == 403


def test_a_review_of_an_index_that_is_gone_can_be_deleted(client: FlaskClient, filled: str) -> None:
    service = client.application.extensions["resift"]
    client.put("/v1/reviews/r", json={"index": filled})
    service.engine.drop(filled)
    service.infos._cache.clear()
    assert client.get("/v1/reviews").json == {"reviews": [{"review": "r", "index": filled}]}
    assert client.get("/v1/reviews/r").status_code == 404
    assert client.delete("/v1/reviews/r").status_code == 200
    assert client.get("/v1/reviews").json == {"reviews": []}


def test_a_key_asks_for_no_more_than_in_a_search(client: FlaskClient, filled: str, tmp_path: Path) -> None:
    service, keys = client.application.extensions["resift"], KeyFile(str(tmp_path / "keys.jsonl"))
    key = keys.create("anna", ["review"])
    config = replace(service.config, keys=str(keys.path))
    client = create_app(config, engine=service.engine, model=service.model).test_client()
    elsewhere = {"terms": {"_id": {"index": "secret", "id": "1", "path": "ids"}}}
    deep: dict[str, Any] = {"match_all": {}}
    for _ in range(300):
        deep = {"bool": {"must": [deep]}}
    for query, status in ((elsewhere, 400), ({"script": {"script": "true"}}, 403), (deep, 413)):
        asked = {"index": filled, "query": query}
        answer = client.put("/v1/reviews/r", json=asked, headers={"X-Api-Key": key})
        assert answer.status_code == status, answer.json
    assert client.get("/v1/reviews", headers={"X-Api-Key": key}).json == {"reviews": []}


@pytest.mark.parametrize(
    ("settings", "value"),
    [
        ({"fields": ["text"] * 51}, 51),
        ({"fields": ["te*"]}, "te*"),
        ({"fields": ["text", "resift_vector"]}, "resift_vector"),
        ({"fields": ["nothing"]}, "nothing"),
        ({"topic": "fire " * 2001}, 10_005),
    ],
)
def test_reviews_have_bounds(client: FlaskClient, filled: str, settings: dict[str, Any], value: Any) -> None:
    answer = client.put("/v1/reviews/r", json={"index": filled, **settings})
    assert answer.status_code in (400, 413), answer.json
    assert str(value) in str(answer.json["error"]["value"])
    assert client.get("/v1/reviews").json == {"reviews": []}
    assert client.put("/v1/reviews/r", json={"index": filled, "fields": ["text", "n"]}).status_code == 200


def test_the_number_of_fields_is_bounded_in_the_library(many: SqliteEngine, tmp_path: Path) -> None:
    reviews = Reviews(many, lambda: open_review_store(str(tmp_path / "s.db"), "s"))
    with pytest.raises(BadInput, match="51 fields"):
        reviews.begin("r", "docs", ReviewSettings(fields=["text"] * 51))


class Slow(SqliteEngine):
    """An engine that reads documents slowly, and counts how often it reads all."""

    scans = 0
    pause = 0.0

    def scan(self, *args: Any, **kwargs: Any) -> Iterator[Document]:
        """Yield the documents with pauses."""
        self.scans += 1
        for document in super().scan(*args, **kwargs):
            time.sleep(self.pause)
            yield document


def test_reading_documents_ends_at_the_deadline(many: SqliteEngine, tmp_path: Path) -> None:
    engine = Slow(many.path)
    engine.pause = 0.02
    reviews = Reviews(engine, lambda: open_review_store(str(tmp_path / "s.db"), "s"))
    reviews.max_seconds = 0.1
    with pytest.raises(DeadlineExceeded, match=r"'docs' were not read within 0\.1 s"):
        reviews.begin("r", "docs")
    engine.close()


def test_progress_needs_no_texts(many: SqliteEngine, tmp_path: Path) -> None:
    Reviews(many, lambda: open_review_store(str(tmp_path / "s.db"), "s")).begin("r", "docs").judge(["10"], ["11"])
    engine = Slow(many.path)
    review = Reviews(engine, lambda: open_review_store(str(tmp_path / "s.db"), "s")).open("r")
    assert review.judge(["20"], ["21"]).read == 4
    assert engine.delete("docs", ["10"]) == 1
    assert (review.progress().total, review.sample(5), review.undo().read)[::2] == (200, 3)
    assert engine.scans == 0
    assert review.next(5)
    assert engine.scans > 0
    engine.close()


def test_loading_a_review_keeps_no_other_waiting(many: SqliteEngine, tmp_path: Path) -> None:
    may_load, loading_now = threading.Event(), threading.Event()

    class Waiting(SqliteEngine):
        def scan(self, *args: Any, **kwargs: Any) -> Iterator[Document]:
            if kwargs.get("query") is not None:
                loading_now.set()
                assert may_load.wait(60)
            yield from super().scan(*args, **kwargs)

    store = str(tmp_path / "s.db")
    first = Reviews(many, lambda: open_review_store(store, "s"))
    first.begin("all", "docs")
    first.begin("fires", "docs", ReviewSettings(query={"match": {"text": "fire"}}))
    engine = Waiting(many.path)
    reviews = Reviews(engine, lambda: open_review_store(store, "s"))
    with ThreadPoolExecutor(1) as other:
        batch = other.submit(lambda: reviews.open("fires").next(5))
        assert loading_now.wait(60)
        assert len(reviews.open("all").next(5)) == 5
        assert len(reviews.list()) == 2
        may_load.set()
        assert len(batch.result()) == 5
    engine.close()


def test_reviews_that_need_too_much_memory_are_closed(
    many: SqliteEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Slow(many.path)
    reviews = Reviews(engine, lambda: open_review_store(str(tmp_path / "s.db"), "s"))
    first = reviews.begin("0", "docs")
    monkeypatch.setattr(reviews_module, "MAX_MEMORY", 2.5 * first.memory_in_bytes)
    for id in "123":
        reviews.begin(id, "docs").next(1)
    before = engine.scans
    assert reviews.open("3").next(2)
    assert reviews.open("2").next(2)
    assert engine.scans == before
    assert reviews.open("0").next(2)
    assert engine.scans > before
    engine.close()


@pytest.fixture
def keyed(client: FlaskClient, tmp_path: Path) -> Callable[..., Callable[..., TestResponse]]:
    """Return a function that creates an API key, and returns a function that sends requests with it."""
    service, keys = client.application.extensions["resift"], KeyFile(str(tmp_path / "keys.jsonl"))
    keys.create("first", ["admin"])

    def create(name: str, *scopes: str, **settings: Any) -> Callable[..., TestResponse]:
        config, key = replace(service.config, keys=str(keys.path), **settings), keys.create(name, scopes)
        app = create_app(config, engine=service.engine, model=service.model)
        app.extensions["resift"].sessions.quotas.clock = lambda: 0.5 * 86_400  # no quota begins anew during a test

        def send(method: str, path: str = "", body: Any = None) -> TestResponse:
            headers = {"X-Api-Key": key}
            return app.test_client().open(f"/v1/reviews{path}", method=method, json=body, headers=headers)

        return send

    return create


def test_a_key_changes_nothing_in_the_name_of_another(
    keyed: Callable[..., Callable[..., TestResponse]], filled: str
) -> None:
    one, two, root = keyed("one", "review"), keyed("two", "review"), keyed("root", "review", "admin")
    one("PUT", "/r", {"index": filled, "by": "anna"})
    mine = [given["id"] for given in one("POST", "/r/next", {"size": 3, "by": "anna"}).json["documents"]]
    one("POST", "/r/judgements", {"relevant": mine[:1], "by": "anna"})
    refused = two("POST", "/r/undo", {"by": "anna"})
    assert (refused.status_code, refused.json["error"]["message"]) == (400, "'anna' has no judgement to undo")
    assert two("POST", "/r/release", {"by": "anna"}).json == {"review": "r", "released": 0}
    two("POST", "/r/judgements", {"irrelevant": mine[:1], "by": "anna"})
    assert "anna (two)" in two("GET", "/r").json["conflicts"][0]["votes"]
    assert two("POST", "/r/undo", {"by": "anna"}).json["progress"]["relevant"] == 1
    assert root("POST", "/r/undo", {"by": "anna"}).json["progress"]["read"] == 0
    assert root("POST", "/r/release", {"by": "anna"}).json == {"review": "r", "released": 3}
    events = [json.loads(line) for line in one("GET", "/r/export?format=json").text.splitlines()]
    assert [event["key"] for event in events] == ["one", "one", "one", "two", "two", "root", "root"]


def test_reviews_count_in_the_quotas(keyed: Callable[..., Callable[..., TestResponse]], filled: str) -> None:
    shop = keyed("shop", "review", max_bytes_per_day=20_000, max_marks_per_day=3)
    statuses = [
        shop("PUT", f"/r{number}", {"index": filled, "topic": "fire " * 1999}).status_code for number in range(4)
    ]
    assert statuses == [200, 200, 429, 429]
    few = keyed("few", "review", max_marks_per_day=2)
    few("PUT", "/few", {"index": filled})
    assert few("POST", "/few/judgements", {"relevant": ["bush", "wood"]}).status_code == 200
    answer = few("POST", "/few/judgements", {"relevant": ["tree"]})
    assert (answer.status_code, answer.json["error"]["code"]) == (429, "quota_exceeded")
    assert few("POST", "/few/undo", {}).status_code == 200
    assert few("GET", "/few").json["progress"]["read"] == 1


def test_exports_contain_no_text_that_is_gone(client: FlaskClient, filled: str) -> None:
    engine = client.application.extensions["resift"].engine
    client.put("/v1/reviews/r", json={"index": filled})
    client.post("/v1/reviews/r/judgements", json={"relevant": ["bush", "army"]})
    engine.delete(filled, ["army"])
    engine.refresh(filled)
    for format in ("csv", "ris"):
        exported = client.get(f"/v1/reviews/r/export?format={format}").text
        assert "fire in the bush" in exported
        assert "gun" not in exported
        assert "army" in exported  # the judgement itself


def test_exports_contain_no_text_that_an_alias_hides(
    cluster: OpenSearchEngine, tmp_path: Path, index: str, model: Model
) -> None:
    body = {"mappings": {"properties": {"text": {"type": "text"}, "open": {"type": "boolean"}}}}
    cluster.client.indices.create(index=index, body=body)
    for id in ("a", "b"):
        cluster.client.index(index=index, id=id, body={"text": f"fire {id}", "open": True}, params={"refresh": "true"})
    alias = {"filter": {"term": {"open": True}}}
    cluster.client.indices.put_alias(index=index, name=f"{index}-open", body=alias)
    review = Reviews(cluster, lambda: open_review_store(str(tmp_path / "s.db"), "s")).begin("r", f"{index}-open")
    review.judge(["a", "b"])
    cluster.client.index(index=index, id="b", body={"text": "fire b", "open": False}, params={"refresh": "true"})
    assert "fire a" in review.export("csv")
    assert "fire b" not in review.export("csv") + review.export("ris")


def test_ids_that_come_twice_are_refused_and_long_topics_are_not(many: SqliteEngine, tmp_path: Path) -> None:
    class Joined(SqliteEngine):
        def scan(self, *args: Any, **kwargs: Any) -> Iterator[Document]:
            yield from super().scan(*args, **kwargs)
            yield from super().scan(*args, **kwargs)

    engine = Joined(many.path)
    with pytest.raises(AmbiguousDocument, match="'0' is in 'docs' more than once"):
        Reviews(engine, lambda: open_review_store(str(tmp_path / "s.db"), "s")).begin("r", "docs")
    engine.close()
    reviews = Reviews(many, lambda: open_review_store(str(tmp_path / "s.db"), "s"))
    topic = "fire " + " ".join(f"word{n}" for n in range(2000))
    assert int(reviews.begin("r", "docs", ReviewSettings(topic)).next(1)[0]) % 10 == 0


def _by_keys(keys: str, *args: str) -> bytes:
    """Run a command in a terminal, press keys without Enter when it waits for input, and return its output."""
    import termios  # pty does not exist on Windows

    screen, inside = os.openpty()
    process = subprocess.Popen([sys.executable, "-m", "resift", *args], stdin=inside, stdout=inside, stderr=inside)
    shown = b""
    for pressed, key in enumerate(keys, 1):
        while shown.count(b" > ") < pressed:
            shown += os.read(screen, 1000)
        while termios.tcgetattr(inside)[3] & termios.ICANON and process.poll() is None:
            time.sleep(0.01)
        os.write(screen, key.encode())
    assert process.wait(60) == 0
    os.close(inside)
    with suppress(OSError):  # raised when all output of a closed terminal was read
        while part := os.read(screen, 1000):
            shown += part
    os.close(screen)
    return shown


def test_in_a_terminal(many: SqliteEngine, tmp_path: Path) -> None:
    where = ["--engine", many.path, "--store", str(tmp_path / "sessions.db")]
    begun = CliRunner().invoke(
        main, ["review", "r", "--index", "docs", "--topic", "fire", *where], input="x\ny\nn\nu\nq\n"
    )
    assert begun.exit_code == 0, begun.output
    assert "fire in the forest" in begun.output
    assert "2 of 200 read, 1 relevant" in begun.output
    shown = _by_keys("yxnuq", "review", "r", *where)
    assert b"2 of 200 read, 2 relevant" in shown
    assert b"3 of 200 read, 2 relevant" in shown
    printed = CliRunner().invoke(main, ["review", "r", "--export", "qrels", *where])
    assert printed.output.count("\n") == 2
    fires = ReviewSettings(query={"match": {"text": "fire"}})
    small = Reviews(many, lambda: open_review_store(where[3], "s")).begin("s", "docs", fires)
    nothing = CliRunner().invoke(main, ["review", "s", "--index", "docs", *where], input="u\nn\nq\n")
    assert (nothing.exit_code, "no judgement to undo" in nothing.output) == (0, True)
    assert "1 of 20 read" in nothing.output
    small.next(1000, "anna")
    others = CliRunner().invoke(main, ["review", "s", *where], input="n\n")
    assert "The remaining documents are assigned to others." in others.output
    missing = CliRunner().invoke(main, ["review", "other", *where])
    assert (missing.exit_code, "no review 'other'" in missing.output) == (2, True)
