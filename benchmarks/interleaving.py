"""How often `resift prove --live` finds a preference that simulated clients have, and how often one that they have not.

``python benchmarks/interleaving.py`` prints, of 100 trials each, how many find that sessions are better or worse, and
after how many clients (median). A client has one to four visits of one to three searches with ten hits, looks at the
nth of them with a probability of n^-½, and clicks what it likes. It likes each hit of its own taste with .6 and others
with .1; tastes of two searches of a client are alike, as those of people are. *Plain* results are a random order. Where
sessions are worth something, so large a share of the clients has one whose first hits are of their taste; in the first
A/A test nobody has, and in the second the two rankings are different random orders. A trial is looked at after every
hundred clients, and ends when it is decided, or after 5,000.
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
    client_outcomes,
    preference,
    team_draft,
)

SIZE, EACH, MOST = 10, 100, 2000
Click = tuple[str, str, float]


def client(
    name: str, at: float, kind: str, worth: float, rng: random.Random
) -> Iterator[tuple[ShownPage, list[Click]]]:
    """The pages that a client is shown, each with its clicks."""
    taste = rng.sample(range(SIZE), 3)
    gains = rng.random() < worth
    for visit in range(rng.randint(1, 4)):
        for search in range(rng.randint(1, 3)):
            plain = rng.sample(range(SIZE), SIZE)
            liked = [one if rng.random() < 0.8 else rng.randrange(SIZE) for one in taste]
            if gains:
                session = sorted(plain, key=lambda one: one not in liked)
            elif kind == "swapped":
                place = rng.randrange(SIZE - 1)
                session = [*plain[:place], plain[place + 1], plain[place], *plain[place + 2 :]]
            else:
                session = rng.sample(plain, SIZE)
            when = at + 2 * VISIT_SECONDS * visit + 60 * search
            teams = team_draft([f"d{n}" for n in plain], [f"d{n}" for n in session], f"{name} {visit} {search}")
            clicks = [
                (name, document, when + 5)
                for place, document in enumerate(teams, 1)
                if rng.random() < place**-0.5 * (0.6 if int(document[1:]) in liked else 0.1)
            ]
            yield ShownPage(name, when, teams), clicks


def trial(kind: str, worth: float, seed: int) -> tuple[str, int]:
    """What is found, and of how many deciding clients."""
    rng, outcomes = random.Random(seed), list[float]()
    for start in range(0, MOST, EACH):
        pages = [page for n in range(start, start + EACH) for page in client(f"{seed}-{n}", 10.0 * n, kind, worth, rng)]
        outcomes += client_outcomes([page for page, _ in pages], [one for _, clicks in pages for one in clicks], 1e9)
        found = preference(outcomes)
        if found.low > 0 or found.high < 0:
            return ("better" if found.low > 0 else "worse"), start + EACH
        if found.low > -NEGLIGIBLE and found.high < NEGLIGIBLE:
            return "no difference", start + EACH
    return "undecided", MOST


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=100)
    options = parser.parse_args()
    print(f"error {ERROR_RATE:g}; of {options.trials} trials:")
    rows = [("A/A, two neighbours swapped", "swapped", 0.0), ("A/A, two random orders", "other", 0.0)]
    rows += [(f"worth it to {share:.0%} of the clients", "other", share) for share in (0.1, 0.2, 0.4)]
    for name, kind, worth in rows:
        found = [trial(kind, worth, seed) for seed in range(options.trials)]
        counts = {what: sum(one == what for one, _ in found) for what in ("better", "worse", "no difference")}
        decided = [looked for what, looked in found if what != "undecided"]
        middle = f"after {statistics.median(decided):.0f} clients (median)" if decided else ""
        print(f"  {name:32}", "  ".join(f"{what} {count}" for what, count in counts.items()), middle, flush=True)


if __name__ == "__main__":
    main()
