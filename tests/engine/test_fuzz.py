"""Fuzz searches with a public API key, on a real OpenSearch node.

The node must survive, no response may be an internal error, and documents that a filtered alias hides must not appear.
RESIFT_FUZZ_CASES is the number of searches (default: 300). ``make fuzz`` runs as many as fit into SECONDS.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient
from fuzzed_searches import HIDDEN, MAPPING, fuzzed, places_of, unlisted_clauses, unlisted_parts

from resift import Model
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.reranker import Config, create_app
from resift.reranker.access.keys import KeyFile

CASES = int(os.environ.get("RESIFT_FUZZ_CASES", "300"))
SECONDS = float(os.environ.get("RESIFT_FUZZ_SECONDS", "0"))
FIRST = int(os.environ.get("RESIFT_FUZZ_FIRST", "0"))
SLOW = 8.0  # seconds, on a busy machine
pytestmark = pytest.mark.filterwarnings("ignore::opensearchpy.exceptions.OpenSearchWarning")


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    """Create 24 documents that the alias shows, and 24 that it hides."""
    random = np.random.default_rng(3)
    for number in range(48):
        is_open = number % 2 == 0
        words = ["fire", "bush", "army", "gun", "forest"]
        text = f"{random.choice(words)} {random.choice(words)} of the {random.choice(words)}"
        word = str(random.choice(words)) if is_open else HIDDEN
        yield (
            f"{'open' if is_open else 'hidden'}-{number}",
            {
                "text": text if is_open else f"{HIDDEN} {text}",
                "tag": word,
                "n": number,
                "price": float(random.normal()) + 10,
                "day": f"2025-01-{number % 28 + 1:02}",
                "place": {"lat": float(random.uniform(40, 60)), "lon": float(random.uniform(-5, 20))},
                "parts": [{"word": word, "text": text if is_open else HIDDEN}],
                "rank": number + 1,
                "flag": is_open,
                "v": random.normal(size=4).tolist(),
            },
        )


@pytest.fixture(scope="module")
def alias(cluster: OpenSearchEngine) -> Iterator[str]:
    """Create an alias with a filter. It is the only served name."""
    index = f"resift-test-{uuid.uuid4().hex[:12]}"
    body = {"settings": {"index.knn": True, "number_of_shards": 2}, "mappings": {"properties": MAPPING}}
    cluster.client.indices.create(index=index, body=body)
    lines = [line for id, source in documents() for line in ({"index": {"_id": id}}, source)]
    assert not cluster.client.bulk(index=index, body=lines, params={"refresh": "true"})["errors"]
    cluster.client.indices.put_alias(index=index, name=f"{index}-open", body={"filter": {"term": {"flag": True}}})
    yield f"{index}-open"
    cluster.client.indices.delete(index=index)


@pytest.fixture(scope="module")
def client(
    cluster: OpenSearchEngine, alias: str, model: Model, tmp_path_factory: pytest.TempPathFactory
) -> FlaskClient:
    """Return a client with an API key of the scope ``search``."""
    folder: Path = tmp_path_factory.mktemp("fuzz")
    key = KeyFile(str(folder / "keys.jsonl")).create("page", ["search"])
    config = Config(store=str(folder / "sessions.db"), keys=str(folder / "keys.jsonl"), indices=(alias,))
    client = create_app(config, engine=cluster, model=model).test_client()
    client.environ_base["HTTP_X_API_KEY"] = key
    return client


def test_searches_that_nobody_would_think_of(client: FlaskClient, cluster: OpenSearchEngine, alias: str) -> None:
    index, end, seen = alias.removesuffix("-open"), time.monotonic() + SECONDS, Counter[tuple[str, int]]()
    for number in count(FIRST):
        if number >= FIRST + CASES and time.monotonic() >= end:
            break
        kind, search = fuzzed(number, index)
        started = time.monotonic()
        answer = client.post("/v1/search", json={"index": alias, "query": search})
        case = f"RESIFT_FUZZ_FIRST={number}: {json.dumps(search)[:3000]}\n{answer.status_code} {answer.text[:600]}"
        assert answer.status_code < 500, case
        assert time.monotonic() - started < SLOW, case
        assert cluster.client.ping(), case
        if answer.status_code == 200:
            shown = {name: part for name, part in answer.get_json().items() if name != "took"}
            assert not any(word in json.dumps(shown) for word in (HIDDEN, "hidden-")), case
        seen[kind, answer.status_code] += 1
    # OpenSearch runs or refuses most searches that are generated from the allow-list.
    assert sum(seen[kind, 403] for kind in ("listed", "listed clause")) == 0
    assert seen["listed", 200] + seen["listed clause", 200] > CASES / 20
    assert seen["hidden", 403] > CASES / 40


@pytest.mark.parametrize("at", range(len(unlisted_clauses())))
def test_clauses_that_nobody_may_send_are_refused_wherever_they_stand(
    client: FlaskClient, cluster: OpenSearchEngine, alias: str, at: int
) -> None:
    clause = json.loads(json.dumps(unlisted_clauses()[at]).replace("INDEX", alias.removesuffix("-open")))
    requests = {name: {"query": body} for name, body in places_of(clause).items()}
    requests |= {"as the query": {"query": clause}, "as the filter": {"query": "fire", "filter": clause}}
    for name, request in requests.items():
        started = time.monotonic()
        answer = client.post("/v1/search", json={"index": alias, **request})
        assert answer.status_code in (400, 403, 413), (name, answer.text)
        assert "OpenSearch" not in answer.text, (name, answer.text)  # this index is not searched
        assert time.monotonic() - started < SLOW
    assert cluster.client.ping()


@pytest.mark.parametrize("at", range(len(unlisted_parts())))
def test_parts_that_nobody_may_send_are_refused(client: FlaskClient, alias: str, at: int) -> None:
    part = unlisted_parts()[at]
    answer = client.post("/v1/search", json={"index": alias, "query": {"query": {"match_all": {}}, **part}})
    assert answer.status_code in (400, 403), answer.text
    assert "OpenSearch" not in answer.text


def test_no_mark_reaches_a_document_outside_of_the_alias(
    cluster: OpenSearchEngine, alias: str, model: Model, tmp_path: Path
) -> None:
    config = Config(store=str(tmp_path / "sessions.db"), indices=(alias,))
    client = create_app(config, engine=cluster, model=model).test_client()
    marks = {"index": alias, "session": "a", "query": "fire", "relevant": ["hidden-1", "hidden-3"]}
    answers = [client.post("/v1/feedback", json=marks), client.get("/v1/sessions/a")]
    answers += [
        client.post("/v1/search", json={"index": alias, "query": q, "session": "a"}) for q in ("fire", HIDDEN[:-1])
    ]
    for answer in answers:
        assert HIDDEN not in answer.text


def test_whole_bodies_are_held_to_the_list_through_an_alias_alone(
    cluster: OpenSearchEngine, alias: str, model: Model, tmp_path: Path
) -> None:
    index = alias.removesuffix("-open")
    for served, status in ((alias, 403), (index, 200), (f"{index}*", 200)):
        config = Config(store=str(tmp_path / "sessions.db"), indices=(served,))
        client = create_app(config, engine=cluster, model=model).test_client()
        body = {"query": {"match_all": {}}, "explain": True}
        answer = client.post("/v1/search", json={"index": alias, "query": body})
        assert answer.status_code == status, answer.text
