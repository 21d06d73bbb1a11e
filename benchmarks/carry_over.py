"""What is carried over to the next question of a conversation, and what that is worth.

    RESIFT_DATA=… python benchmarks/carry_over.py            # without a session and in one, as it is served
    RESIFT_DATA=… python benchmarks/carry_over.py choose     # a mark's weight by the other two collections
    RESIFT_DATA=… python benchmarks/carry_over.py changed    # after a conversation about something else

nDCG@5 · 100 of later turns of MTRAG's conversations, all documents, in brackets without the marked ones; by adapted and
packaged vectors and by words alone (an index without vectors of ours); as people asked, and as a language model rewrote
each question to stand by itself, where nothing needs to be carried over. ``choose`` leaves each collection out in turn:
of three weights that is taken which loses least where it loses most on the other two, and then gains most. ``changed``:
what the marks of the next conversation do to all turns of one, which should be nothing, with the standard error.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import resift.feedback.feedback
from resift_lab.commands.served_search import ServedSearch
from resift_lab.commands.systems import SystemChoice
from resift_lab.evaluation.data import read_conversations
from resift_lab.evaluation.feedback.bench import FeedbackBench
from resift_lab.evaluation.feedback.turns import METRICS, ndcg, run_turns

COLLECTIONS = ("clapnq", "govt", "fiqa")
WEIGHTS = (0.15, 0.3, 0.5)
Case = tuple[str, str, bool]


class WordsAlone(ServedSearch):
    """An index without vectors of ours."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.info = replace(self.info, model=None, dim=None)


def benches(
    name: str, kinds: tuple[str, ...], forms: tuple[bool, ...] = (False, True)
) -> dict[Case, tuple[FeedbackBench, Any]]:
    """The benches of a collection, and the conversations that each is asked; ``forms``: rewritten or not."""
    found: dict[Case, tuple[FeedbackBench, Any]] = {}
    for kind, rewritten in product(kinds, forms):
        collection, turns = read_conversations(Path(os.environ["RESIFT_DATA"]) / f"mtrag-{name}", rewritten)
        texts = [turn.text for conversation in turns for turn in conversation]
        system = SystemChoice("adapted" if kind == "adapted" else "mean", "resift-en", None, 0, True).system()
        serve = WordsAlone if kind == "words" else ServedSearch
        found[name, kind, rewritten] = FeedbackBench(system, collection.documents, texts, serve), turns
    return found


def served() -> None:
    """Print the table of what is served."""
    for name in COLLECTIONS:
        for (_, kind, rewritten), (bench, turns) in benches(name, ("adapted", "packaged", "words")).items():
            run = run_turns(bench, turns).values
            session, plain, residual, plain_residual = (100 * np.nanmean(run[metric]) for metric in METRICS[:4])
            case = f"{name} {kind} {'rewritten' if rewritten else 'as asked'}"
            print(f"{case:28} {plain:.1f} ({plain_residual:.1f}) → {session:.1f} ({residual:.1f})", flush=True)


def choose() -> None:
    """Print what is chosen by the other two collections, and what it gains on the one that was left out."""
    gains: dict[float, dict[Case, float]] = {weight: {} for weight in WEIGHTS}
    for name in COLLECTIONS:
        for case, (bench, turns) in benches(name, ("adapted", "packaged")).items():
            for weight in WEIGHTS:
                resift.feedback.feedback.SCOPE_WEIGHT = weight
                values = run_turns(bench, turns).values
                gains[weight][case] = 100 * float(np.nanmean(values[METRICS[0]] - values[METRICS[1]]))
    for name in COLLECTIONS:

        def worth(weight: float, left_out: str = name) -> tuple[float, float]:
            others = [gain for case, gain in gains[weight].items() if case[0] != left_out]
            return min(0.0, round(min(others), 1)), float(np.mean(others))

        best = max(WEIGHTS, key=worth)
        own = {case: f"{gain:+.1f}" for case, gain in gains[best].items() if case[0] == name}
        print(f"without {name}: {best}, on it {' '.join(own.values())} (adapted, rewritten; packaged, rewritten)")


def changed() -> None:
    """Print what marks of a conversation gain in another one, with another subject."""
    for name in COLLECTIONS:
        for (_, kind, _), (bench, turns) in benches(name, ("adapted", "packaged"), (False,)).items():
            gains, query = list[float](), -1
            for number, conversation in enumerate(turns):
                marked = {
                    one.judgement.document: one
                    for turn in turns[(number + 1) % len(turns)]
                    for one in bench.judged_documents(turn.text, list(turn.marks.items()))
                }
                for turn in conversation:
                    query += 1
                    if marked and any(grade > 0 for grade in turn.grades.values()):
                        found, plain = bench.served(query, [*marked.values()]), bench.served(query)
                        gains.append(100 * (ndcg(found, turn, ()) - ndcg(plain, turn, ())))
            error = np.std(gains) / len(gains) ** 0.5
            print(f"{name} {kind} {len(gains)} turns {np.mean(gains):+.2f} ± {error:.2f}", flush=True)


if __name__ == "__main__":
    {"choose": choose, "changed": changed}.get(" ".join(sys.argv[1:]), served)()
