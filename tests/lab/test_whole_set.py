"""A whole set ranked by a classifier that teaches itself from few marks."""

from __future__ import annotations

import numpy as np
import pytest

import resift_lab.evaluation.feedback.whole_set as module
from resift_lab.evaluation.feedback.whole_set import SelfTrainingClassifier
from resift_lab.evaluation.metrics import map11

_WORDS = 60  # of a subject, each of which is in few of its documents


def texts(subject: str, count: int, rng: np.random.Generator) -> list[str]:
    """Documents of a subject: a window of its words each, so that distant ones have none in common."""
    places = rng.integers(0, _WORDS - 12, count)
    rows = [[f"{subject}{word}" for word in place + rng.choice(12, 6, replace=False)] for place in places]
    common = [[f"common{word}" for word in rng.integers(0, 40, 6)] for _ in rows]
    return [" ".join(own + shared) for own, shared in zip(rows, common, strict=True)]


def ranked(large: int, others: int) -> tuple[float, float]:
    """The mean precision of a subject's documents before and after, by a mark on one document of it."""
    rng = np.random.default_rng(0)
    documents = texts("sea", large, rng) + texts("hill", others, rng)
    relevant, query = np.arange(len(documents)) < large, documents[0]
    asked = set(query.split())
    first = np.array([len(asked & set(text.split())) for text in documents], float)
    found = SelfTrainingClassifier(documents).scores(query, [(0, 1.0), (large, -1.0)], first)
    return float(map11(first, relevant)[0]), float(map11(found, relevant)[0])


def test_documents_similar_to_relevant_documents_come_first() -> None:
    before, after = ranked(150, 850)
    assert after > before + 0.1


def test_a_large_class_is_learned_from_more_of_its_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    _, grown = ranked(900, 900)
    monkeypatch.setattr(module, "_LARGE_CLASS_ROUNDS", 0)
    _, few = ranked(900, 900)
    assert grown > few + 0.02


def test_a_very_small_collection_keeps_its_ranking() -> None:
    first = np.array([3.0, 2.0, 1.0])
    scores = SelfTrainingClassifier(["sea hill", "sea hill", "sea hill"]).scores("sea", [(0, 1.0)], first)
    assert scores.tolist() == first.tolist()
