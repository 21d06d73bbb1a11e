"""Measure the delay until a click in a UBI log changes searches, and the cost of reading clicks.

``python benchmarks/clicks.py --engine http://127.0.0.1:9200`` needs a cluster with ML Commons. The benchmark creates an
index of the demo's passages, an installation of Resift and two UBI indices, and removes them afterwards.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flask import Flask
from werkzeug.serving import WSGIRequestHandler, make_server

import resift
from resift.cli.transcript import corpus_file, load_questions
from resift.contracts.ubi import iso_timestamp
from resift.ingest.readers import Files, Record
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.reranker import Config, create_app

FIELDS = ["title", "text"]


class Silent(WSGIRequestHandler):
    """A request handler without a request log."""

    def log_request(self, *arguments: Any) -> None:
        """Log nothing."""


def main() -> None:
    """Measure and print the delay of clicks, and the cost of a search with and without reading clicks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="http://127.0.0.1:9200", help="URL of the cluster")
    parser.add_argument("--clicks", type=int, default=30, help="number of clicks to time")
    options = parser.parse_args()
    name = f"resift-bench-{uuid.uuid4().hex[:8]}"
    with installed(options.engine, name) as (app, engine):
        # short questions such as "hello" have no hits
        questions = [question.text for question in load_questions() if len(question.text.split()) > 5]
        first, *waits = (
            seconds_until_click_counts(engine, name, questions[n % len(questions)]) for n in range(options.clicks + 1)
        )
        print(
            f"{options.clicks} clicks of different clients, seconds until the client's searches change: "
            f"median {statistics.median(waits):.2f}, maximum {max(waits):.2f}; first click in the new indices "
            f"{first:.2f}"
        )
        client, clicks = app.test_client(), app.extensions["resift"].knowledge.clicks
        body = {"index": name, "query": questions[0], "session": "nobody"}
        milliseconds: dict[bool, list[float]] = {True: [], False: []}
        for turn in range(600):
            app.extensions["resift"].knowledge.clicks = clicks if turn % 2 else None
            started = time.perf_counter()
            client.post("/v1/search", json=body)
            milliseconds[turn % 2 == 1].append(1000 * (time.perf_counter() - started))
        without, reading = (statistics.median(milliseconds[kind][50:]) for kind in (False, True))
        print(f"search of a client without events: {without:.1f} ms; {reading:.1f} ms when clicks are read")


def seconds_until_click_counts(engine: OpenSearchEngine, name: str, question: str) -> float:
    """Send a click and return the seconds until the order of the client's hits changes.

    The client repeats its search every 20 ms.
    """
    person = uuid.uuid4().hex

    def search() -> list[str]:
        ext = {"ml_inference": {"session": person}}
        body = {"query": {"multi_match": {"query": question, "fields": FIELDS}}, "ext": ext, "_source": False}
        params = {"search_pipeline": f"resift-{name}"}
        return [hit["_id"] for hit in engine.client.search(index=name, body=body, params=params)["hits"]["hits"]]

    before, now = search(), iso_timestamp(time.time())
    common = {"client_id": person, "query_id": person, "timestamp": now}
    engine.client.index(index=f"{name}-queries", body={**common, "user_query": question})
    attributes = {"object": {"object_id": before[-1]}, "position": {"ordinal": len(before)}}
    started = time.perf_counter()
    event = {**common, "action_name": "click", "event_attributes": attributes}
    engine.client.index(index=f"{name}-events", body=event)
    while search() == before:
        time.sleep(0.02)
    return time.perf_counter() - started


@contextmanager
def installed(url: str, name: str) -> Iterator[tuple[Flask, OpenSearchEngine]]:
    """Create an index with its pipelines, and yield the service and the engine. Remove everything afterwards."""
    engine, model = OpenSearchEngine(url, timeout=60), resift.load_model()
    with tempfile.TemporaryDirectory() as folder, resift.open(url, sessions=str(Path(folder) / "own.db")) as library:
        documents = [
            {"id": record.id, **record.source} for record in Files([corpus_file()]) if isinstance(record, Record)
        ]
        library.index(name, fields=FIELDS).add(documents)
        engine.refresh(name)
        store, events, queries = str(Path(folder) / "sessions.db"), f"{name}-events", f"{name}-queries"
        config = Config(engine=url, store=store, ubi_events=events, ubi_queries=queries)
        app = create_app(config, model=model)
        server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Silent)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        installer = Installer(
            engine, Installation(name, model, tuple(FIELDS), f"http://127.0.0.1:{server.server_port}")
        )
        try:
            installer.install()
            # the first requests create the UBI indices, as for users
            for path, required in (("events", "action_name"), ("queries", "query_id")):
                app.test_client().post(f"/ubi_{path}", json=[{required: "first"}])
            yield app, engine
        finally:
            installer.uninstall()
            indices = f"{name},{events},{queries}"
            engine.client.indices.delete(index=indices, params={"ignore_unavailable": "true"})
            server.shutdown()
            thread.join()
            server.server_close()


if __name__ == "__main__":
    main()
