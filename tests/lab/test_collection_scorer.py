"""Tests of late interaction over whole collections, and of fingerprints in a saved reranker."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from resift import WordVectors
from resift.encoders.late_interaction import LateInteraction, ScoringParameters
from resift.vectors.similarity import unit_rows
from resift_lab.evaluation.baselines.late_interaction import CollectionScorer, select_documents
from resift_lab.fingerprints import fingerprints, fingerprints_in, joined_fingerprints

WORDS = ["fire", "bush", "flame", "army", "the", "when", "1999"]
TEXTS = ["the fire, the FIRE", "army army bush", "", "flame in 1999", "qux fire", "?!"]


@pytest.fixture
def model() -> LateInteraction:
    """Return a reranker with seven words of four dimensions, in which "when" is shifted towards years."""
    rows = unit_rows(np.random.default_rng(1).normal(size=(7, 4)))
    weights = np.array([2, 2, 2, 2, 0.1, 0.5, 3], np.float32)
    shift = {"when": np.asarray(rows[6] - rows[5], np.float32)}
    parameters = ScoringParameters(threshold=0.1, length_penalty=0.5, mean_length=3)
    return LateInteraction("late", WordVectors(WORDS, rows, weights), shift, parameters)


def test_scoring_a_collection_gives_the_same_scores(model: LateInteraction) -> None:
    scorer = CollectionScorer(model, TEXTS)
    queries = ["fire when", "qux", "", "fire 1999 army", "unheard of"]
    expected = np.stack([model.scores(query, TEXTS) for query in queries])
    np.testing.assert_allclose(scorer.scores(queries), expected, atol=1e-6)
    np.testing.assert_allclose(scorer.scores(queries[::-1]), expected[::-1], atol=1e-6)


def test_a_selection_of_prepared_documents_has_the_same_scores(model: LateInteraction) -> None:
    prepared = model.prepare(TEXTS)
    chosen = np.array([4, 2, 1])
    expected = model.scores("qux fire bush", [TEXTS[position] for position in chosen])
    np.testing.assert_allclose(model.scores("qux fire bush", select_documents(prepared, chosen)), expected, atol=1e-6)


def test_fingerprints_are_saved_with_a_reranker(model: LateInteraction, tmp_path: Path) -> None:
    model.info = {"seen": joined_fingerprints(["a", "b", "a"])}
    model.save(tmp_path / "late")
    loaded = LateInteraction.load(tmp_path / "late")
    assert fingerprints_in(loaded.info) == sorted(fingerprints(["a", "b"]))
    assert fingerprints_in({}) == []
