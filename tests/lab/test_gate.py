"""Tests of the gate for vectors and of the choice of constants."""

from __future__ import annotations

import numpy as np
import pytest

from resift import Model, build_model
from resift.contracts.tuning import Tuning
from resift.encoders.tables import build_table
from resift.vectors.weights import DEFAULT_ALPHA
from resift_lab.evaluation.significance import paired_randomization
from resift_lab.log_replay.tuning import QualityFunction, choose_constants
from resift_lab.training.gate import Gate, GateResult, cross_validate_weights

SUBJECTS, SIZE = 60, 10
LETTERS = "abcdefghij"


def subject_words(subject: int) -> list[str]:
    """Return the words of a subject. They have no digits, because words with digits do not count as known."""
    name = LETTERS[subject // 10] + LETTERS[subject % 10]
    return [f"sub{name}x{letter}" for letter in LETTERS]


def documents() -> list[list[str]]:
    """Return a document on each subject, which also has words that all documents share."""
    rng, noise = np.random.default_rng(0), [f"noise{letter}" for letter in LETTERS]
    return [[*rng.choice(subject_words(one), 8), *rng.choice(noise, 8)] for one in range(SUBJECTS)]


def model(meaning: bool) -> Model:
    """Return a model in which all words of a subject have the same vector, or each word a random vector."""
    rng = np.random.default_rng(1)
    words = [word for one in range(SUBJECTS) for word in subject_words(one)]
    rows = rng.normal(size=(SUBJECTS, 32)).repeat(SIZE, axis=0) if meaning else rng.normal(size=(len(words), 32))
    return build_model("mean", build_table(words, rows.astype(np.float32), "none"))


@pytest.fixture(scope="module")
def gate() -> Gate:
    return Gate(documents(), range(SUBJECTS))


def test_vectors_with_similar_words_of_a_subject_pass_the_gate(gate: Gate) -> None:
    result = gate.judge(model(meaning=True))
    assert result.improves_ranking
    assert result.alpha == pytest.approx(DEFAULT_ALPHA)
    assert result.ndcg_with_vectors.mean() > result.ndcg_bm25.mean()
    assert result.p < 0.05


def test_random_vectors_do_not_pass_the_gate(gate: Gate) -> None:
    result = gate.judge(model(meaning=False))
    assert not result.improves_ranking
    assert result.alpha == 0


def test_a_model_replaces_another_if_it_is_better() -> None:
    text, rng = np.full(50, 0.2), np.random.default_rng(0)
    better, worse = (GateResult(0.2, mean + rng.normal(0, 0.01, 50), text, 0.01) for mean in (0.6, 0.4))
    useless = GateResult(0.0, text, text, 1.0)
    assert better.should_replace(worse)
    assert not worse.should_replace(better)
    assert worse.should_replace(useless)
    assert not useless.should_replace(worse)


def test_few_documents_are_too_few_only_without_a_significant_difference() -> None:
    text = np.full(10, 0.5)
    assert GateResult(0.0, text, text, 1.0).explanation == "10 documents are too few to tell"
    reason = "nDCG@10 of 10 held-out documents 0.500 by the text alone, 0.600 with vectors, p 0.0020"
    assert GateResult(0.5, text + 0.1, text, 0.002).explanation == reason


def test_the_best_of_several_useless_weights_is_not_significant_too_often() -> None:
    significant = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        text, by_weight = rng.normal(size=60), rng.normal(size=(60, 3))
        chosen = cross_validate_weights(by_weight)
        significant += bool(chosen.mean() > text.mean()) and paired_randomization(chosen, text, rng, 500) < 0.05
    # Half of 5 % are better by chance. With the best of the three weights on the same documents, it would be 23 of 400.
    assert significant <= 14


def test_each_half_of_the_documents_has_the_weight_that_the_other_half_chose() -> None:
    by_weight = np.tile([0.2, 0.9, 0.1], (50, 1))
    assert cross_validate_weights(by_weight) == pytest.approx(np.full(50, 0.9))
    by_weight[7] = [1e6, 0, 0]
    chosen = cross_validate_weights(by_weight)
    assert chosen[7] == 0  # the document itself does not take part in the choice of its weight
    assert sorted({*chosen.tolist()}) == [0, 0.2, 0.9]


def test_documents_with_too_few_words_give_no_verdict() -> None:
    result = Gate([["the", "of"], ["and"], ["sea"]], range(3)).judge(model(meaning=True))
    assert (result.alpha, result.p) == (0.0, 1.0)


def worth(gain: float, rng: np.random.Generator, noise: float = 0.05) -> QualityFunction:
    """Return a function that measures constants for 200 clients: ``gain`` better for each unit of ``words``."""
    usual = rng.uniform(0.2, 0.8, 200)
    errors: dict[str, np.ndarray] = {}

    def values(tuning: Tuning) -> np.ndarray:
        drawn = errors.setdefault(str(tuning), rng.normal(0, noise, 200))
        return np.asarray(usual + gain * (tuning.words - 1) + drawn)

    return values


def test_better_constants_are_chosen() -> None:
    found = choose_constants(worth(0.05, np.random.default_rng(1)), Tuning(alpha=0.2))
    assert found.better
    assert (found.tuning.words, found.tuning.alpha) == (2.0, 0.2)
    assert found.held_out == pytest.approx(found.before + 0.05, abs=0.01)


def test_constants_do_not_change_without_an_improvement() -> None:
    found = [choose_constants(worth(0, np.random.default_rng(seed)), Tuning(), seed).better for seed in range(60)]
    assert sum(found) <= 5
    assert choose_constants(lambda tuning: np.full(50, np.nan), Tuning()).tuning == Tuning()
