"""Simulate interleaving trials (`resift prove --live`) to measure their error rates and their power.

``python benchmarks/interleaving.py`` prints how many of 100 trials find that sessions are better or worse, and the
median number of clients until a decision.

A simulated client makes one to four visits with one to three searches of ten hits each. It looks at the hit at rank n
with a probability of n^-½. If it looks at a hit, it clicks with a probability of 0.6 if the hit is of its taste, and
0.1 otherwise. The tastes of a client's searches are similar. Results without a session are in random order. In trials
with an effect, sessions put hits of the client's taste first for the given share of the clients. In the first A/A test,
the ranking of the session differs by two swapped neighbours. In the second A/A test, both rankings are different random
orders. A trial is evaluated after every hundred clients, and ends with a decision or after 2,000 clients.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Iterator

from resift.sessions.trials import (
    ERROR_RATE,
    NEGLIGIBLE,
    VISIT_SECONDS,
    ShownPage,
    client_preferences,
    interleave_by_team_draft,
    mean_preference,
)

SIZE, EACH, MOST = 10, 100, 2000
Click = tuple[str, str, float]


def client(
    name: str, at: float, kind: str, worth: float, rng: random.Random
) -> Iterator[tuple[ShownPage, list[Click]]]:
    """Yield the result pages of a client with the clicks on each page."""
    taste = rng.sample(range(SIZE), 3)
    gains = rng.random() < worth
    for visit in range(rng.randint(1, 4)):
        for search in range(rng.randint(1, 3)):
            plain = rng.sample(range(SIZE), SIZE)
            liked = [hit if rng.random() < 0.8 else rng.randrange(SIZE) for hit in taste]
            if gains:
                session = sorted(plain, key=lambda hit: hit not in liked)
            elif kind == "swapped":
                place = rng.randrange(SIZE - 1)
                session = [*plain[:place], plain[place + 1], plain[place], *plain[place + 2 :]]
            else:
                session = rng.sample(plain, SIZE)
            when = at + 2 * VISIT_SECONDS * visit + 60 * search
            teams = interleave_by_team_draft(
                [f"d{n}" for n in plain], [f"d{n}" for n in session], f"{name} {visit} {search}"
            )
            clicks = [
                (name, document, when + 5)
                for place, document in enumerate(teams, 1)
                if rng.random() < place**-0.5 * (0.6 if int(document[1:]) in liked else 0.1)
            ]
            yield ShownPage(name, when, teams), clicks


def trial(kind: str, worth: float, seed: int) -> tuple[str, int]:
    """Return the result of a trial, and the number of clients until the decision."""
    rng, outcomes = random.Random(seed), list[float]()
    for start in range(0, MOST, EACH):
        pages = [page for n in range(start, start + EACH) for page in client(f"{seed}-{n}", 10.0 * n, kind, worth, rng)]
        clicks = [click for _, page_clicks in pages for click in page_clicks]
        outcomes += client_preferences([page for page, _ in pages], clicks, 1e9)
        interval = mean_preference(outcomes)
        if interval.low > 0 or interval.high < 0:
            return ("better" if interval.low > 0 else "worse"), start + EACH
        if interval.low > -NEGLIGIBLE and interval.high < NEGLIGIBLE:
            return "no difference", start + EACH
    return "undecided", MOST


def main() -> None:
    """Simulate trials and print the numbers of results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=100)
    options = parser.parse_args()
    print(f"error rate {ERROR_RATE:g}; results of {options.trials} trials:")
    rows = [("A/A, two neighbours swapped", "swapped", 0.0), ("A/A, two random orders", "other", 0.0)]
    rows += [(f"better for {share:.0%} of the clients", "other", share) for share in (0.1, 0.2, 0.4)]
    for name, kind, worth in rows:
        trials = [trial(kind, worth, seed) for seed in range(options.trials)]
        counts = {
            result: sum(outcome == result for outcome, _ in trials) for result in ("better", "worse", "no difference")
        }
        clients = [count for result, count in trials if result != "undecided"]
        median = f"after {statistics.median(clients):.0f} clients (median)" if clients else ""
        print(f"  {name:32}", "  ".join(f"{result} {count}" for result, count in counts.items()), median, flush=True)


if __name__ == "__main__":
    main()
