"""What sessions cost: bytes kept, a million of them in a file, and searches in a session against plain ones.

    OPENSEARCH_URL=http://127.0.0.1:9200 RESIFT_DATA=… python benchmarks/sessions.py [bytes] [million] [searches]

Indexes the training part of 20 Newsgroups ($RESIFT_DATA/20ng.train.jsonl.gz) as resift-benchmark-20ng unless it is
there. Prints one JSON object a line; times are milliseconds in one thread, and only their ratios hold elsewhere.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from resift.encoders.model import Model
from resift.encoders.registry import load_model
from resift.plugin.documents import Document
from resift.plugin.engine import OVERSAMPLING
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.sessions import OpenSearchSessionStore
from resift.plugin.sqlite.sessions import SqliteSessionStore
from resift.ranking.feedback import Feedback
from resift.ranking.judgements import Judgement
from resift.reranker import Config, create_app
from resift.reranker.sessions import Sessions

INDEX = "resift-benchmark-20ng"
QUERIES = 200
SEED = 0


def tell(what: str, **values: Any) -> None:
    """One line of JSON."""
    print(json.dumps({"what": what, **values}), flush=True)


def milliseconds(work: Callable[[int], Any], times: int) -> dict[str, float]:
    """Median and 95th percentile of so many calls."""
    taken = []
    for i in range(times):
        started = time.perf_counter()
        work(i)
        taken.append((time.perf_counter() - started) * 1000)
    return {"p50": round(float(np.percentile(taken, 50)), 2), "p95": round(float(np.percentile(taken, 95)), 2)}


def ten(number: int) -> list[Judgement]:
    """Ten judgements of documents whose ids look like those of 20 Newsgroups."""
    chance = np.random.default_rng(number)
    groups = ("comp.sys.mac.hardware", "rec.sport.hockey", "sci.space", "talk.politics.mideast", "alt.atheism")
    names = [f"{groups[chance.integers(5)]}/{chance.integers(10_000, 200_000)}" for _ in range(10)]
    return [Judgement("news", name, int(chance.choice([1, -1]))) for name in names]


def bytes_kept(url: str, count: int = 20_000) -> None:
    """Bytes a session of ten judgements, five steps of two, takes in each store, indexes included."""
    with tempfile.TemporaryDirectory() as folder:
        index = f"resift_sessions_{uuid.uuid4().hex[:8]}"
        for store in (SqliteSessionStore(f"{folder}/sessions.db"), OpenSearchSessionStore(url, index)):
            sessions = Sessions(store)
            some = count if isinstance(store, SqliteSessionStore) else count // 10
            for i in range(some):
                now = time.time()
                marks = [
                    replace(one, query=f"{one.document[-5:]} query {k // 2}", at=now, step=k // 2)
                    for k, one in enumerate(ten(i))
                ]
                sessions.put(uuid.uuid4().hex, marks)
            sessions.put("last", marks)
            kept = store.read("last")
            if isinstance(store, OpenSearchSessionStore):
                store.client.indices.forcemerge(index=index, max_num_segments=1)
                store.client.indices.refresh(index=index)
                size = store.client.indices.stats(index=index)["_all"]["primaries"]["store"]["size_in_bytes"]
                store.client.indices.delete(index=index)
            else:
                with store._open() as db:
                    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                size = Path(store.path).stat().st_size
            assert kept is not None
            name = type(store).__name__
            tell(
                "bytes of a session with 10 judgements",
                store=name,
                json=len(json.dumps(kept.body, separators=(",", ":"))),
                all=size // some,
            )
            store.close()


def a_million() -> None:
    """Times of a file of a million sessions, half of them expired."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteSessionStore(f"{folder}/sessions.db")
        sessions = Sessions(store)
        sessions.add("first", "query", ten(0))
        kept = store.read("first")
        assert kept is not None
        body, now = json.dumps(kept.body), time.time()
        rows = ((f"s{i:07}", 1, now + (86400 if i % 2 else -1 - i % 1000), '["news"]', body) for i in range(10**6))
        with store._open() as db:
            db.execute("BEGIN")
            db.executemany("INSERT INTO session_log VALUES (?, ?, ?, ?, ?)", rows)
            db.execute("COMMIT")
        pick = np.random.default_rng(SEED).integers(0, 5 * 10**5, 2000) * 2 + 1
        read = milliseconds(lambda i: sessions.find(f"s{pick[i]:07}"), 1000)
        write = milliseconds(lambda i: sessions.add(f"s{pick[i]:07}", "q", ten(1)[:1]), 1000)
        started = time.perf_counter()
        purged = sessions.purge()
        seconds = round(time.perf_counter() - started, 1)
        tell("a million sessions in a file", find=read, add=write, purged=purged, purge_seconds=seconds)


def filled(engine: OpenSearchEngine, model: Model) -> list[dict[str, Any]]:
    """The documents, after they are in the index."""
    path = Path(os.environ["RESIFT_DATA"]) / "20ng.train.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    if not engine.client.indices.exists(index=INDEX):
        engine.create(INDEX, ["text"], model)
        for start in range(0, len(rows), 200):
            part = rows[start : start + 200]
            vectors = model.encode([row["text"] for row in part])
            documents = zip(part, vectors, strict=True)
            engine.bulk(INDEX, [Document(row["id"], {"text": row["text"]}, vector) for row, vector in documents])
        engine.client.indices.forcemerge(index=INDEX, max_num_segments=1)
        engine.refresh(INDEX)
    return rows


def searches(url: str) -> None:
    """Times of plain searches and of searches in a session, requests to the cluster, and the masked top's recall."""
    engine, model = OpenSearchEngine(url), load_model()
    rows = filled(engine, model)
    vectors = model.encode([row["text"] for row in rows])
    labels, places = np.array([row["label"] for row in rows]), {row["id"]: i for i, row in enumerate(rows)}
    chance = np.random.default_rng(SEED)
    asked = 0
    perform = engine.client.transport.perform_request

    def counted(*arguments: Any, **named: Any) -> Any:
        nonlocal asked
        asked += 1
        return perform(*arguments, **named)

    engine.client.transport.perform_request = counted
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(Config(store=f"{folder}/sessions.db", index=INDEX), engine=engine, model=model)
        client, service = app.test_client(), app.extensions["resift"]
        picked = chance.integers(0, len(rows), QUERIES)
        queries = [" ".join(rows[i]["text"].split("\n\n", 1)[-1].split()[:8]) or "the" for i in picked]

        def search(i: int, **more: Any) -> dict[str, Any]:
            body = {"index": INDEX, "query": queries[i], "size": 10, **more}
            answer: dict[str, Any] = client.post("/v1/search", json=body).get_json()
            return answer

        for i, row in enumerate(picked):
            hits = [hit["_id"] for hit in search(i)["hits"]["hits"]]
            right = [id for id in hits if labels[places[id]] == labels[row]]
            marks = {"relevant": right[:5], "irrelevant": [id for id in hits if id not in right][:5]}
            client.post("/v1/feedback", json={"session": f"s{i}", "index": INDEX, "query": queries[i], **marks})
        ways: dict[str, dict[str, Any]] = {
            "plain": {},
            "plain, knn 25": {"knn": 25},
            "in a session, knn 0": {"session": True, "knn": 0},
            "in a session": {"session": True},
        }
        taken: dict[str, list[float]] = {name: [] for name in ways}
        requests: dict[str, list[int]] = {name: [] for name in ways}
        for _ in range(2):  # the first round warms up
            for i in range(QUERIES):
                for name, more in ways.items():
                    asked = 0
                    started = time.perf_counter()
                    search(i, **{**more, **({"session": f"s{i}"} if "session" in more else {})})
                    taken[name].append((time.perf_counter() - started) * 1000)
                    requests[name].append(asked)
        for name, times in taken.items():
            half = np.percentile(times[QUERIES:], [50, 95]).round(1).tolist()
            tell(
                "search of 11,314 documents",
                how=name,
                p50=half[0],
                p95=half[1],
                requests=int(np.median(requests[name])),
            )
        recall = []
        for i in range(QUERIES):
            judged = service.judged_documents(service.sessions.get(f"s{i}"))
            feedback, query = Feedback.from_judged(judged, model.dim), model.encode([queries[i]])[0]
            truth = model.score(feedback.transform_query(query), vectors, feedback.mask)
            best = set(np.argsort(-truth, kind="stable")[:25].tolist())
            body = engine.masked_body(
                feedback.transform_query(query), feedback.mask, model.similarity, 25, source=False
            )
            recall.append(len(best & {places[hit["_id"]] for hit in engine.search(INDEX, body).hits}) / 25)
        tell("recall of the masked top 25", oversampling=OVERSAMPLING, mean=round(float(np.mean(recall)), 4))
    engine.close()


if __name__ == "__main__":
    address = os.environ["OPENSEARCH_URL"]
    parts = {"bytes": lambda: bytes_kept(address), "million": a_million, "searches": lambda: searches(address)}
    for part in sys.argv[1:] or parts:
        parts[part]()
