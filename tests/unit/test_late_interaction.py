"""Tests of late interaction: scores, unknown words, empty texts, and saving."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from resift import WordVectors
from resift.encoders.late_interaction import LateInteraction, ScoringParameters
from resift.errors import CorruptModel, ModelNotFound
from resift.vectors.similarity import unit_rows

WORDS = ["fire", "bush", "flame", "army", "the", "when", "1999"]
PARAMETERS = ScoringParameters(threshold=0.1, length_penalty=0.5, mean_length=3)
TEXTS = ["the fire, the FIRE", "army army bush", "", "flame in 1999", "qux fire", "?!"]


@pytest.fixture
def model() -> LateInteraction:
    """Return a reranker with seven words of four dimensions, in which "when" is shifted towards years."""
    rows = unit_rows(np.random.default_rng(1).normal(size=(7, 4)))
    weights = np.array([2, 2, 2, 2, 0.1, 0.5, 3], np.float32)
    shift = {"when": np.asarray(rows[6] - rows[5], np.float32)}
    return LateInteraction("late", WordVectors(WORDS, rows, weights), shift, PARAMETERS)


def expected_score(model: LateInteraction, query: list[str], document: list[str]) -> float:
    """Return the score of a document, computed word by word from the definition."""
    rows = dict(zip(WORDS, unit_rows(model.table.rows()), strict=True))
    total = weight = 0.0
    for word in query:
        w = float(model.table.weights[WORDS.index(word)]) if word in rows else model.table.unknown_weight
        weight += w
        row = None if word not in rows else rows[word] + model.shifts.get(word, 0)
        cosines = []
        for document_word in document:
            if row is not None and document_word in rows:
                cosines.append(row @ rows[document_word])
            else:
                cosines.append(float(word == document_word))
        total += w * max(0.0, max(cosines) - PARAMETERS.threshold)
    return total / weight / (1 + PARAMETERS.length_penalty * len(document) / PARAMETERS.mean_length)


def test_scores_follow_the_definition(model: LateInteraction) -> None:
    scores = model.scores("When the bush fire? qux", TEXTS)
    query = ["when", "the", "bush", "fire", "qux"]
    documents = [["the", "fire", "the", "fire"], ["army", "army", "bush"], ["flame", "in", "1999"], ["qux", "fire"]]
    np.testing.assert_allclose(
        scores[[0, 1, 3, 4]], [expected_score(model, query, words) for words in documents], atol=1e-5
    )
    assert scores[2] == scores[5] == 0
    assert scores.dtype == np.float32


def test_a_shift_applies_to_queries_only(model: LateInteraction) -> None:
    plain = LateInteraction("late", model.table, parameters=PARAMETERS)
    assert model.scores("when", ["1999"])[0] > plain.scores("when", ["1999"])[0]
    assert model.scores("1999", ["when"])[0] == plain.scores("1999", ["when"])[0]


def test_empty_queries_and_documents_score_0(model: LateInteraction) -> None:
    assert model.scores("", TEXTS).tolist() == [0] * 6
    assert model.scores("fire", []).shape == (0,)
    assert model.scores("fire", ["", "?"]).tolist() == [0, 0]


def test_loading_restores_what_was_saved(model: LateInteraction, tmp_path: Path) -> None:
    model.info = {"seen": "0123456789ab"}
    model.save(tmp_path / "late")
    loaded = LateInteraction.load(tmp_path / "late")
    assert loaded.hash == model.hash
    assert loaded.info == model.info
    np.testing.assert_array_equal(loaded.scores("when fire", TEXTS), model.scores("when fire", TEXTS))
    (tmp_path / "late" / "words.txt").write_text("other", "utf-8")
    with pytest.raises(CorruptModel):
        LateInteraction.load(tmp_path / "late")
    with pytest.raises(ModelNotFound):
        LateInteraction.load(tmp_path / "none")


def test_only_the_beginning_of_a_text_is_read(model: LateInteraction) -> None:
    assert model.scores("fire", ["fire " + "? " * 6000])[0] > 0
    assert model.scores("fire", ["? " * 6000 + "fire"])[0] == 0


def test_trusted_scores_are_reduced_by_unknown_query_words(model: LateInteraction) -> None:
    documents = ["qux fire", "qux", "fire"]
    assert model.discounted_scores("fire bush", documents).tolist() == model.scores("fire bush", documents).tolist()
    assert (
        model.discounted_scores("qux quux", documents).tolist()
        == model.discounted_scores("", documents).tolist()
        == [0, 0, 0]
    )
    known = 2 / (2 + model.table.unknown_weight)
    np.testing.assert_allclose(
        model.discounted_scores("fire qux", documents), known * model.scores("fire qux", documents)
    )
