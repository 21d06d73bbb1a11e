"""Measure how judgements of earlier turns of a conversation change searches in later turns.

    RESIFT_DATA=… python benchmarks/carry_over.py            # searches without and in a session
    RESIFT_DATA=… python benchmarks/carry_over.py choose     # weight of the judgements, by cross-validation
    RESIFT_DATA=… python benchmarks/carry_over.py changed    # judgements from a conversation on another topic

The default command prints nDCG@5 x 100 of later turns of the conversations in MTRAG, and in brackets the same metric
without the marked documents, followed by both gains of the session with 95 % bootstrap intervals over the questions.
There are lines for adapted vectors, packaged vectors and lexical searches (an index without vectors). There are two
forms of each question: the original, and the form of MTRAG in which a language model made it independent of earlier
turns. The collection ``inscit``, with which nothing was chosen, has only the original questions. It contains the
development conversations of INSCIT (Wu et al. 2023): the documents are the passages that its answers cite, and a mark
is a passage that the given answer cites. ``inscit.py`` converts it.

``choose`` leaves out each collection in turn, and chooses a weight by the other two collections. The chosen weight has
the smallest loss in its worst case, and among equals the largest mean gain.

``changed`` prints the gain (with its standard error) when the session contains the judgements of the next conversation
of the collection. The gain should be 0.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import resift.feedback.feedback
from resift_lab.commands.served_search import ServedSearch
from resift_lab.commands.systems import SystemChoice
from resift_lab.evaluation.data import read_conversations
from resift_lab.evaluation.feedback.bench import FeedbackBench
from resift_lab.evaluation.feedback.turns import METRICS, ndcg_at_5, run_turns
from resift_lab.evaluation.significance import bootstrap_mean

COLLECTIONS = ("clapnq", "govt", "fiqa")
HELD_OUT = "inscit"
WEIGHTS = (0.15, 0.3, 0.5)
Case = tuple[str, str, bool]  # collection, kind of searches, and whether the questions are rewritten


class LexicalSearch(ServedSearch):
    """A search of an index without vectors."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.info = replace(self.info, model=None, dim=None)


def benches(
    name: str, kinds: tuple[str, ...], forms: tuple[bool, ...] = (False, True)
) -> dict[Case, tuple[FeedbackBench, Any]]:
    """Prepare the evaluation of a collection for each kind of search and each form of the questions.

    Args:
        name: Name of the collection.
        kinds: Kinds of searches: ``adapted``, ``packaged`` or ``words``.
        forms: Whether to use rewritten questions, original questions, or both.

    Returns:
        For each case a bench and the conversations.
    """
    prepared: dict[Case, tuple[FeedbackBench, Any]] = {}
    for kind, rewritten in product(kinds, forms):
        folder = Path(os.environ["RESIFT_DATA"]) / (name if name == HELD_OUT else f"mtrag-{name}")
        collection, turns = read_conversations(folder, rewritten)
        texts = [turn.text for conversation in turns for turn in conversation]
        system = SystemChoice("adapted" if kind == "adapted" else "mean", "resift-en", None, 0, True).system()
        serve = LexicalSearch if kind == "words" else ServedSearch
        prepared[name, kind, rewritten] = FeedbackBench(system, collection.documents, texts, serve), turns
    return prepared


def served() -> None:
    """Print nDCG@5 without and in a session for each case."""
    for name in (*COLLECTIONS, HELD_OUT):
        options = (("packaged", "words"), (False,)) if name == HELD_OUT else (("adapted", "packaged", "words"),)
        for (_, kind, rewritten), (bench, turns) in benches(name, *options).items():
            run = run_turns(bench, turns).values
            session, plain, residual, plain_residual = (100 * run[metric] for metric in METRICS[:4])
            case = f"{name} {kind} {'rewritten' if rewritten else 'as asked'}"
            means = f"{np.nanmean(plain):.1f} ({np.nanmean(plain_residual):.1f})"
            means += f" → {np.nanmean(session):.1f} ({np.nanmean(residual):.1f})"
            print(f"{case:28} {means}; {interval(session - plain)} ({interval(residual - plain_residual)})", flush=True)


def interval(gains: NDArray[np.float64]) -> str:
    """Return the mean of gains and its 95 % bootstrap interval over questions. Questions without a value are ignored.

    Args:
        gains: The gain of each question, shape (n,).
    """
    low, high = bootstrap_mean(gains, np.random.default_rng(0))
    return f"{np.nanmean(gains):+.1f}, {low:+.1f} to {high:+.1f}"


def choose() -> None:
    """Print the weight that two collections choose, and its gain on the third collection."""
    gains: dict[float, dict[Case, float]] = {weight: {} for weight in WEIGHTS}
    for name in COLLECTIONS:
        for case, (bench, turns) in benches(name, ("adapted", "packaged")).items():
            for weight in WEIGHTS:
                resift.feedback.feedback.SCOPE_WEIGHT = weight
                values = run_turns(bench, turns).values
                gains[weight][case] = 100 * float(np.nanmean(values[METRICS[0]] - values[METRICS[1]]))
    for name in COLLECTIONS:

        def worth(weight: float, excluded: str = name) -> tuple[float, float]:
            known_gains = [gain for case, gain in gains[weight].items() if case[0] != excluded]
            return min(0.0, round(min(known_gains), 1)), float(np.mean(known_gains))

        best = max(WEIGHTS, key=worth)
        own = {case: f"{gain:+.1f}" for case, gain in gains[best].items() if case[0] == name}
        print(
            f"without {name}: weight {best}, gains on {name} {' '.join(own.values())} (adapted, rewritten; packaged, "
            "rewritten)"
        )


def changed() -> None:
    """Print the gain of judgements from another conversation, which has another topic."""
    for name in COLLECTIONS:
        for (_, kind, _), (bench, turns) in benches(name, ("adapted", "packaged"), (False,)).items():
            gains, query = list[float](), -1
            for number, conversation in enumerate(turns):
                marked = {
                    document.judgement.document: document
                    for turn in turns[(number + 1) % len(turns)]
                    for document in bench.judged_documents(turn.text, list(turn.marks.items()))
                }
                for turn in conversation:
                    query += 1
                    if marked and any(grade > 0 for grade in turn.grades.values()):
                        in_session, plain = bench.search_scores(query, [*marked.values()]), bench.search_scores(query)
                        gains.append(100 * (ndcg_at_5(in_session, turn, ()) - ndcg_at_5(plain, turn, ())))
            error = np.std(gains) / len(gains) ** 0.5
            print(f"{name} {kind} {len(gains)} turns {np.mean(gains):+.2f} ± {error:.2f}", flush=True)


if __name__ == "__main__":
    {"choose": choose, "changed": changed}.get(" ".join(sys.argv[1:]), served)()
