"""Measure the memory of a service over many searches, and two services with the same session index."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from served_reranker import ServiceProcess
from speed_cluster import Client, hits_body
from speed_data import messages
from speed_timing import seconds

from resift import load_model
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Record
from resift.plugin.opensearch.engine import OpenSearchEngine

INDEX = "scale-sessions"
MIB = 2**20


def filled(engine: OpenSearchEngine, folder: Path, count: int = 3000) -> list[tuple[str, str]]:
    """Index messages as INDEX, and return the messages."""
    rows = messages(count)
    records = (Record("m", n, str(n), {"title": title, "text": text}) for n, (title, text) in enumerate(rows))
    Indexer(engine, load_model(), INDEX, DeadLetters(folder / "dead.jsonl")).run(records, ["title", "text"])
    return rows


def memory(reranker: ServiceProcess, rows: list[tuple[str, str]], searches: int) -> Iterator[dict[str, Any]]:
    """Yield the private memory of each worker in MiB after increasing numbers of searches.

    Each search has other words. A tenth of the searches has a new session with two marks.
    """
    client = Client(reranker.url)
    words = [title for title, _ in rows if len(title.split()) > 1]
    done = 0
    for until in (0, *(round(searches * share) for share in (0.01, 0.1, 0.25, 0.5, 0.75, 1))):
        for number in range(done, until):
            request: dict[str, Any] = {"index": INDEX, "query": words[number % len(words)]}
            if number % 10 == 0:
                session = f"m-{number}"
                marks = {"relevant": [str(number % len(rows))], "irrelevant": [str((number + 7) % len(rows))]}
                client.post("/v1/feedback", {"session": session, "index": INDEX, "query": request["query"], **marks})
                request["session"] = session
            client.post("/v1/search", request)
        done = until
        yield {"searches": done, "MiB of a worker": [round(private(process)) for process in reranker.processes()]}


def private(process: int) -> float:
    """Return the private memory of a process in MiB."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def replicas(two: list[ServiceProcess], rounds: int = 100) -> dict[str, Any]:
    """Measure two services: searches at a service right after marks at the other, and concurrent marks in a session."""
    clients = [Client(service.url) for service in two]
    unknown, marked, searched = 0, [], []
    for number in range(rounds):
        session, there = f"r-{uuid.uuid4().hex[:8]}", number % 2
        grades = {"relevant": [str(2 * number)], "irrelevant": [str(2 * number + 1)]}
        marks = {"session": session, "index": INDEX, "query": "space shuttle launch", **grades}
        marked.append(seconds(clients[there].post, "/v1/feedback", marks) * 1000)
        answer: dict[str, Any] = {}
        request = {"index": INDEX, "query": hits_body("space shuttle launch"), "session": session}
        searched.append(seconds(lambda: answer.update(clients[1 - there].post("/v1/search", request))) * 1000)  # noqa: B023
        unknown += answer["resift"].get("session") != session
    one_session = f"r-{uuid.uuid4().hex[:8]}"

    def mark(number: int) -> int:
        marks = {"session": one_session, "index": INDEX, "relevant": [str(number)]}
        return two[number % 2].ask("/v1/feedback", marks)[0]

    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(mark, range(48)))
    stored = {judgement["document"] for judgement in two[0].ask(f"/v1/sessions/{one_session}")[1]["judgements"]}
    taken = {str(number) for number, status in enumerate(statuses) if status == 200}
    return {
        "searches that did not know the mark made at the other replica": unknown,
        "of": rounds,
        "mark, p50 ms": round(float(np.median(marked)), 1),
        "search in the session, p50 ms": round(float(np.median(searched)), 1),
        "marks at the same time, acknowledged": len(taken),
        "refused as busy": sum(status == 409 for status in statuses),
        "lost": len(taken - stored),
    }
