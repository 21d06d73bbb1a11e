"""Measure ways of searching in OpenSearch, warm and cold."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from speed_cluster import Client, Setup
from speed_timing import seconds

from resift import load_model
from resift.text import tokenize

WAYS = {
    "search": "/v1/search without a session",
    "session": "/v1/search in a session",
    "widened": "/v1/search in a session, widened",
    "reasons": "/v1/search in a session, with reasons",
    "direct": "the rewritten body alone, without a session",
    "direct session": "the rewritten body alone, in a session",
    "proxy": "a proxy that does nothing",
    "direct proxy": "the same, of the rewritten body in a session",
    "untouched": "a search pipeline that rewrites nothing",
    "pipeline": "resift-INDEX without a session",
    "pipeline session": "resift-INDEX in a session",
    "rewrite": "/v1/rewrite in a session, alone",
    "hybrid": "OpenSearch's hybrid of BM25 and k-NN",
}
QUERIES = (
    "bible church",
    "windows drivers",
    "space shuttle launch",
    "encryption key government",
    "hockey game season",
    "car engine oil",
    "gun laws",
    "israel war",
    "graphics image file",
    "mac monitor price",
)
Way = Callable[[str, str], object]


def ways_of(setup: Setup) -> dict[str, Way]:
    """Return functions that search for a query in a session, by the names in WAYS."""
    plain, ours, proxy, model = Client(setup.url), Client(setup.reranker), Client(setup.proxy), load_model()

    @cache
    def rewritten(query: str, session: str | None) -> dict[str, Any]:
        body = setup.rewrite(ours, query, **({"session": session} if session else {}))["body"]
        return {name: value for name, value in body.items() if name != "ext"}

    return {
        "plain": lambda query, _: setup.plain(plain, query),
        "search": lambda query, _: setup.search(ours, query),
        "session": lambda query, session: setup.search(ours, query, session=session),
        "widened": lambda query, session: setup.search(ours, query, session=session, widen=True),
        "reasons": lambda query, session: setup.search(ours, query, session=session, reasons=True),
        "direct": lambda query, _: plain.post(f"/{setup.index}/_search", rewritten(query, None)),
        "direct session": lambda query, session: plain.post(f"/{setup.index}/_search", rewritten(query, session)),
        "proxy": lambda query, _: setup.plain(proxy, query),
        "direct proxy": lambda query, session: proxy.post(f"/{setup.index}/_search", rewritten(query, session)),
        # without a session and with the weight 0 for the similarity, a search is not rewritten
        "untouched": lambda query, _: setup.pipeline(plain, query, alpha=0),
        "pipeline": lambda query, _: setup.pipeline(plain, query),
        "pipeline session": lambda query, session: setup.pipeline(plain, query, session=session),
        "rewrite": lambda query, session: setup.rewrite(ours, query, session=session),
        "hybrid": lambda query, _: setup.hybrid(plain, query, model.encode_one(query).tolist()),
    }


def warm(setup: Setup, rounds: int, ways: Iterable[str]) -> dict[str, list[float]]:
    """Return the median time in ms of each way in each round, with the same queries in the same sessions."""
    functions, names, sessions = ways_of(setup), [*ways], marked_sessions(setup)
    medians: dict[str, list[float]] = {way: [] for way in names}
    order = random.Random(0)
    for turn in range(rounds + 2):
        taken: dict[str, list[float]] = {way: [] for way in names}
        for query in QUERIES:
            order.shuffle(names)
            for way in names:
                taken[way].append(seconds(functions[way], query, sessions[query]) * 1000)
        for way in names if turn >= 2 else ():
            medians[way].append(float(np.median(taken[way])))
    return medians


def marked_sessions(setup: Setup) -> dict[str, str]:
    """Return a session for each query, in which ten documents are marked for the query."""
    sessions = {query: f"bench-{query.replace(' ', '-')}" for query in QUERIES}
    for query, session in sessions.items():
        setup.mark(session, query)
    return sessions


def cold(setup: Setup, rounds: int, ways: Iterable[str], documents: list[tuple[str, str]]) -> dict[str, list[float]]:
    """Return the median time in ms of each way in each round, for first searches.

    Each search has new words and a new session with ten marks, and runs after the cluster's caches were cleared.
    """
    functions, names, client = ways_of(setup), [*ways], Client(setup.url)
    medians: dict[str, list[float]] = {way: [] for way in names}
    order, texts = random.Random(1), [words for document in documents if len(words := _long_words(document)) >= 3]
    for turn in range(rounds + 1):
        taken: dict[str, list[float]] = {way: [] for way in names}
        for number in range(len(QUERIES)):
            query, session = " ".join(order.sample(order.choice(texts), 3)), f"cold-{turn}-{number}"
            order.shuffle(names)
            for way in names:
                # a session for each way, because only the first search in a session is cold
                mine = f"{session}-{way}".replace(" ", "-")
                words = order.choice(texts)
                setup.mark(mine, query, " ".join(order.sample(words, min(len(words), 10))))
                client.post(f"/{setup.index}/_cache/clear", {})
                taken[way].append(seconds(functions[way], query, mine) * 1000)
        for way in names if turn else ():
            medians[way].append(float(np.median(taken[way])))
    return medians


def _long_words(document: tuple[str, str]) -> list[str]:
    """Return the distinct words of a title and a text with at least five letters."""
    return sorted({word for word in tokenize(" ".join(document)[:1000]) if len(word) > 4})


def concurrent(setup: Setup, clients: int, each: int) -> tuple[float, float, float]:
    """Return p50 and p99 in ms of ``/v1/search`` in a session with concurrent clients, and searches per second."""
    sessions = marked_sessions(setup)

    def search(number: int) -> list[float]:
        client = Client(setup.reranker)
        queries = [QUERIES[(number + i) % len(QUERIES)] for i in range(each + 1)]
        return [seconds(lambda: setup.search(client, query, session=sessions[query])) * 1000 for query in queries][1:]  # noqa: B023

    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        taken = [value for values in pool.map(search, range(clients)) for value in values]
    p50, p99 = np.percentile(taken, [50, 99])
    return float(p50), float(p99), clients * (each + 1) / (time.perf_counter() - start)
