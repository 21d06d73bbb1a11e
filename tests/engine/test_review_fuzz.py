"""Fuzz reviews and their exports with two API keys, on the embedded engine.

No response may be an internal error. Exports must have one record for each judgement and no formulas, whatever ids and
names contain. Deleted documents must not appear. A review that is read from its log again must be the same.
RESIFT_FUZZ_REVIEWS is the number of reviews (default: 25). ``make fuzz`` runs as many as fit into SECONDS.
"""

from __future__ import annotations

import csv
import io
import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from resift import Model
from resift.contracts.documents import Document
from resift.embedded.engine import SqliteEngine
from resift.reranker import Config, create_app
from resift.reranker.access.keys import KeyFile
from resift.reviews.ranking import DocumentSet

REVIEWS = int(os.environ.get("RESIFT_FUZZ_REVIEWS", "25"))
SECONDS = float(os.environ.get("RESIFT_FUZZ_SECONDS", "0"))
FIRST = int(os.environ.get("RESIFT_FUZZ_FIRST", "0"))
REQUESTS = 15  # number of requests to a review
SLOW = 8.0  # seconds, on a busy machine
DELETED = "zyzzyva"  # a word of documents that are deleted after the review began
IDS = [
    *(
        "=1+1",
        "@x",
        "-5",
        "+5",
        "\t=1",
        "a b",
        "a\nTY  - GEN",
        "r 0 x 1\nr 0 y 1",
        "\u2028",
        "50%",
        "%0A",
        '"',
        "'",
        ",",
    ),
    *("\uff1d1", "é", "日本", "\x00", "\x1f", "x" * 500, "null", "0"),
]
NAMES = ["", "anna", "ben", "=1+1", "a\nb", "\ud800", "x" * 128, "x" * 129, "\u202e"]
STRANGE = [None, True, 0, -1, 1e308, 2**70, "", "x" * 20_000, [], {}, [[]], {"a": {"b": []}}, ["a"] * 60, "*", "\udfff"]
CLAUSES: list[Any] = [
    *({"match_all": {}}, {"match": {"text": "fire"}}, {"ids": {"values": IDS[:9]}}, {"bool": {"must_not": []}}),
    *({"match": {"text": []}}, {"nonsense": {}}, {"terms": {"_id": {"index": "x"}}}, {"script": {}}, {"bool": 1}),
]


@dataclass
class Caller:
    """A caller of the service.

    Attributes:
        app: The application.
        keys: The API keys: two reviewers and an administrator.
    """

    app: Flask
    keys: list[str]

    def send(self, key: int, method: str, path: str, body: Any = None) -> TestResponse:
        """Send a request with a key."""
        data = None if body is None else json.dumps(body)
        headers = {"X-Api-Key": self.keys[key], "Content-Type": "application/json"}
        return self.app.test_client().open(f"/v1/reviews{path}", method=method, data=data, headers=headers)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, model: Model) -> Iterator[SqliteEngine]:
    """Return an embedded engine."""
    engine = SqliteEngine(str(tmp_path_factory.mktemp("fuzz") / "docs.db"))
    engine.create("docs", ["title", "text"], model)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def caller(engine: SqliteEngine, model: Model) -> Caller:
    """Return a caller with three keys."""
    labels = dict(zip("abcd", (True, True, False, False), strict=True))
    DocumentSet("abcde", ["fire"] * 5).ranked(labels)  # imports scikit-learn, which takes seconds on a busy machine
    folder = Path(engine.path).parent
    keys = KeyFile(str(folder / "keys.jsonl"))
    scopes = {"one": ["review"], "two": ["review"], "root": ["review", "admin"]}
    created = [keys.create(name, names) for name, names in scopes.items()]
    config = Config(store=str(folder / "sessions.db"), keys=str(keys.path), max_bytes_per_day=0)
    return Caller(create_app(config, engine=engine, model=model), created)


def fill(engine: SqliteEngine) -> None:
    """Index all documents, including those that are deleted later."""
    sources = {id: {"title": f"=fire {id}", "text": f"smoke\n{number} TY  - GEN"} for number, id in enumerate(IDS)}
    sources |= {f"gone-{number}": {"title": DELETED, "text": f"fire {DELETED} {number}"} for number in range(9)}
    assert engine.bulk("docs", [Document(id, source, None) for id, source in sources.items()]) == []


def some(chance: random.Random, *values: Any) -> Any:
    """Return one of the values, or now and then something strange."""
    return chance.choice(STRANGE) if chance.random() < 0.05 else chance.choice(values)


def documents(chance: random.Random) -> Any:
    """Return ids of documents. Most of them exist."""
    ids = chance.sample([*IDS, *(f"gone-{number}" for number in range(9))], chance.randint(0, 6))
    return some(chance, ids, ids, ids, [*ids, "unknown"], [*ids, *ids[:1]])


def requested(chance: random.Random) -> tuple[str, str, Any]:
    """Return the method, the path and the body of a random request to a review."""
    by = {"by": some(chance, *NAMES[:5])} if chance.random() < 0.8 else {}
    kind = chance.choice(["next", "next", "judgements", "judgements", "judgements", "undo", "release", "get", "export"])
    if kind == "get":
        return "GET", "", None
    if kind == "export":
        return "GET", f"/export?format={some(chance, 'csv', 'ris', 'qrels', 'json', 'bib')}", None
    body: dict[str, Any] = {**by}
    if kind == "next":
        body |= {"size": some(chance, 1, 5, 50, 1000), "sample": some(chance, True, False, False)}
    if kind == "judgements":
        body |= {"relevant": documents(chance), "irrelevant": some(chance, [], documents(chance))}
    if kind != "undo" and kind != "release" and chance.random() < 0.2:
        body["model"] = some(chance, True, False)
    if chance.random() < 0.03:
        body[chance.choice(["more", "by", "size"])] = chance.choice([*STRANGE, *NAMES])
    return "POST", f"/{kind}", body


def settings(chance: random.Random) -> dict[str, Any]:
    """Return the body of a request that starts a review."""
    body: dict[str, Any] = {"index": some(chance, "docs", "docs", "docs", "missing")}
    if chance.random() < 0.4:
        body["query"] = some(chance, *CLAUSES)
    if chance.random() < 0.4:
        body["fields"] = some(chance, ["title"], ["text", "title"], ["t*"], ["text"] * 40, ["nothing"])
    if chance.random() < 0.4:
        body["topic"] = some(chance, "fire", "fire " * 1500, "=1", "", DELETED)
    if chance.random() < 0.2:
        body["target"] = some(chance, 0.5, 0.99, 1, 0)
    return body


def check_exports(caller: Caller, review: str, case: str) -> None:
    """Check the exports of a review against its log."""
    texts = {}
    for format in ("csv", "ris", "qrels", "json"):
        answer = caller.send(0, "GET", f"/{review}/export?format={format}")
        assert answer.status_code == 200, case
        texts[format] = answer.get_data(as_text=True)
    progress = caller.send(0, "GET", f"/{review}").get_json()["progress"]
    assert len(texts["qrels"].splitlines()) == progress["read"], case
    assert all(line.split(" ")[::3] in ([review, "0"], [review, "1"]) for line in texts["qrels"].splitlines()), case
    records = texts["ris"].split("\n\n")[:-1]
    assert len(records) == progress["relevant"], case
    for record in records:
        assert [line[:6] for line in record.splitlines()] == ["TY  - ", "ID  - ", "TI  - ", "AB  - ", "ER  - "], case
    rows = list(csv.reader(io.StringIO(texts["csv"], newline="")))
    assert {len(row) for row in rows} == {7}, case
    cells = [cell.lstrip(" ") for row in rows for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d"))], case
    assert not any(DELETED in text for text in (texts["csv"], texts["ris"])), case
    events = [json.loads(line) for line in texts["json"].strip("\n").split("\n")]
    assert {event["key"] for event in events} <= {"one", "two", "root"}, case


def test_reviews_survive_whatever_is_sent(caller: Caller, engine: SqliteEngine) -> None:
    end, seen = time.monotonic() + SECONDS, Counter[tuple[str, int]]()
    for number in count(FIRST):
        if number >= FIRST + REVIEWS and time.monotonic() >= end:
            break
        fill(engine)
        chance, review = random.Random(number), f"r{number}"
        case = f"RESIFT_FUZZ_FIRST={number}"
        requests = [("PUT", "", settings(chance)), *(requested(chance) for _ in range(REQUESTS))]
        for position, (method, path, body) in enumerate(requests):
            if position == REQUESTS // 2:
                engine.delete("docs", [f"gone-{n}" for n in range(9)])
            started = time.monotonic()
            answer = caller.send(chance.choice([0, 0, 1, 2]), method, f"/{review}{path}", body)
            case += f"\n{method} {path} {json.dumps(body)[:500]} → {answer.status_code} {answer.text[:300]}"
            assert answer.status_code < 500, case
            assert time.monotonic() - started < SLOW, case
            if position > REQUESTS // 2 and path == "/next" and answer.status_code == 200:
                assert not any(DELETED in json.dumps(given["fields"]) for given in answer.get_json()["documents"]), case
            seen[path.partition("?")[0], answer.status_code] += 1
        if caller.send(0, "GET", f"/{review}").status_code == 200:
            check_exports(caller, review, case)
            before = caller.send(0, "GET", f"/{review}").get_json()
            caller.app.extensions["resift"].reviews._open.clear()
            after = caller.send(0, "GET", f"/{review}").get_json()
            assert {**after, "progress": 0} == {**before, "progress": 0}, case
            assert after["progress"]["read"] == before["progress"]["read"], case
        assert caller.send(2, "DELETE", f"/{review}").status_code in (200, 404), case
    assert caller.send(0, "GET", "").get_json() == {"reviews": []}
    for path in ("", "/next", "/judgements", "/undo", "/release", "/export"):
        assert seen[path, 200], seen
