"""Measure time and memory of `resift prove` on a log of a million events.

``python benchmarks/prove.py`` writes searches for the questions of the demo to a CSV file, and replays them in another
process. With ``--engine http://127.0.0.1:9200`` it writes to UBI indices of this cluster. The index and the log are
removed afterwards.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import resift
import resift_lab
from resift.cli.transcript import corpus_file, load_questions
from resift.contracts.ubi import EVENTS, QUERIES, iso_timestamp
from resift.ingest.readers import Files, Record
from resift.plugin.addresses import is_cluster
from resift.service.connect import open_engine, open_ubi_log

FIELDS, SHOWN, BATCH = ["title", "text"], 10, 500
Row = tuple[str, list[str], str, str, float]


def main() -> None:
    """Create the index and the log, and run the replay."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="", help="URL of a cluster (default: the embedded engine and a CSV file)")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        replay(*options.child)
        return
    name = f"resift-bench-{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryDirectory() as folder:
        url = options.engine or str(Path(folder) / "news.db")
        events, queries = f"{name}-events", f"{name}-queries"
        try:
            rows = searches(url, name, options.events)
            log = "ubi" if is_cluster(url) else str(Path(folder) / "log.csv")
            write_ubi(url, events, queries, rows) if log == "ubi" else write_csv(log, rows)
            names = {"RESIFT_UBI_EVENTS": events, "RESIFT_UBI_QUERIES": queries}
            child = [sys.executable, __file__, "--child", name, log, url]
            subprocess.run(child, check=True, env={**os.environ, **names})
        finally:
            with_engine = open_engine(url)
            for index in (name, events, queries):
                with_engine.drop_if_exists(index)
            with_engine.close()


def replay(index: str, log: str, url: str) -> None:
    """Replay the log, and print the time and the memory."""
    started = time.perf_counter()
    report = resift_lab.prove(index, log, url)
    seconds = time.perf_counter() - started
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{report.events} events: {seconds:.0f} s, {megabytes:.0f} MB at most; {report.rows['all'].clicks} clicks")
    print(report)


def searches(url: str, index: str, events: int) -> Iterator[Row]:
    """Yield searches with a click each. Clients make four searches, and some clients are robots."""
    with resift.open(url) as library:
        news = library.index(index, fields=FIELDS)
        records = (row for row in Files([corpus_file()]) if isinstance(row, Record))
        news.add({"_id": record.id, **record.source} for record in records)
        questions = [question.text for question in load_questions()]
        hits = {text: [hit.id for hit in news.search(text, size=SHOWN)] for text in questions}
    rng = random.Random(0)
    for number in range(events // (SHOWN + 1)):
        text = rng.choice(questions)
        client = "robot" if rng.random() < 0.05 else f"c{number // 4}"
        if hits[text]:
            yield text, hits[text], rng.choice(hits[text]), client, 1.7e9 + number


def write_csv(path: str, rows: Iterator[Row]) -> None:
    """Write the log as a CSV file."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["query", "shown", "clicked", "client", "time"])
        writer.writerows((text, " ".join(shown), clicked, client, at) for text, shown, clicked, client, at in rows)


def write_ubi(url: str, events: str, queries: str, rows: Iterator[Row]) -> None:
    """Write the log to UBI's two indices."""
    log = open_ubi_log(url, events, queries)
    number = 0
    while batch := list(islice(rows, BATCH)):
        searched, done = [], []
        for text, shown, clicked, client, at in batch:
            number += 1
            common = {"query_id": f"q{number}", "client_id": client, "timestamp": iso_timestamp(at)}
            searched.append({**common, "user_query": text})
            actions = [("impression", id, n) for n, id in enumerate(shown, 1)]
            for action, id, place in [*actions, ("click", clicked, shown.index(clicked) + 1)]:
                about = {"object": {"object_id": id}, "position": {"ordinal": place}}
                done.append({**common, "action_name": action, "event_attributes": about})
        log.add(QUERIES, searched)
        log.add(EVENTS, done)
    log.close()


if __name__ == "__main__":
    main()
