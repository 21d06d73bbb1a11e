"""What is carried over to the next question of a conversation, and what that is worth.

    RESIFT_DATA=… python benchmarks/carry_over.py            # without a session and in one, as it is served
    RESIFT_DATA=… python benchmarks/carry_over.py choose     # the constants by the other two collections; half an hour

nDCG@5 · 100 of later turns of MTRAG's conversations, all documents, in brackets without the marked ones; by adapted and
packaged vectors and by words alone (an index without vectors of ours); as people asked, and as a language model rewrote
each question to stand by itself, where nothing needs to be carried over. ``choose`` leaves each collection out in turn:
of a grid of constants those are taken that lose least where they lose most on the other two, and then gain most.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import resift.ranking.feedback
import resift.text
from resift.cli.lab.served_search import ServedSearch
from resift.cli.lab.systems import SystemChoice
from resift.lab.evaluation.data import read_conversations
from resift.lab.evaluation.feedback.bench import FeedbackBench
from resift.lab.evaluation.feedback.turns import METRICS, run_turns

COLLECTIONS = ("clapnq", "govt", "fiqa")
GRID = tuple(product((0.05, 0.15, 0.3), (8, 60), ((1, 3), (2, 5), (98, 99))))  # weight, words, what leans
Constants = tuple[float, int, tuple[int, int]]
Case = tuple[str, str, bool]


class WordsAlone(ServedSearch):
    """An index without vectors of ours."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.info = replace(self.info, model=None, dim=None)


def benches(name: str, kinds: tuple[str, ...]) -> dict[Case, tuple[FeedbackBench, Any]]:
    """The benches of a collection, and the conversations that each is asked."""
    found: dict[Case, tuple[FeedbackBench, Any]] = {}
    for kind, rewritten in product(kinds, (False, True)):
        collection, turns = read_conversations(Path(os.environ["RESIFT_DATA"]) / f"mtrag-{name}", rewritten)
        texts = [turn.text for conversation in turns for turn in conversation]
        system = SystemChoice("adapted" if kind == "adapted" else "mean", "resift-en", None, 0, True).system()
        serve = WordsAlone if kind == "words" else ServedSearch
        found[name, kind, rewritten] = FeedbackBench(system, collection.documents, texts, serve), turns
    return found


def set_constants(constants: Constants) -> None:
    """Have sessions carry over by these."""
    weight, words, leaning = constants
    resift.ranking.feedback.SCOPE_WEIGHT, resift.ranking.feedback.SCOPE_TERMS = weight, words
    resift.text.LEANING_WORDS = leaning


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
    gains: dict[Constants, dict[Case, float]] = {constants: {} for constants in GRID}
    for name in COLLECTIONS:
        for case, (bench, turns) in benches(name, ("adapted", "packaged")).items():
            for constants in GRID:
                set_constants(constants)
                values = run_turns(bench, turns).values
                gains[constants][case] = 100 * float(np.nanmean(values[METRICS[0]] - values[METRICS[1]]))
    for name in COLLECTIONS:

        def worth(constants: Constants, left_out: str = name) -> tuple[float, float]:
            others = [gain for case, gain in gains[constants].items() if case[0] != left_out]
            return min(0.0, round(min(others), 1)), float(np.mean(others))

        best = max(GRID, key=worth)
        own = {case: f"{gain:+.1f}" for case, gain in gains[best].items() if case[0] == name}
        print(f"without {name}: {best}, on it {' '.join(own.values())} (adapted, rewritten; packaged, rewritten)")


if __name__ == "__main__":
    choose() if sys.argv[1:] == ["choose"] else served()
