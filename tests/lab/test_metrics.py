"""Metrics: worked examples, laws, and agreement with trec_eval's."""

from __future__ import annotations

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import AP, RR, P, R, nDCG
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from resift.errors import BadInput
from resift.vectors.similarity import SIMILARITIES
from resift_lab.evaluation import metrics
from resift_lab.evaluation.pairwise import pair_similarity, similarity_blocks
from resift_lab.evaluation.same_class import same_class_scores


def test_map11_worked_example() -> None:
    # Relevant at ranks 1, 3, 6: precision 1, 2/3, 1/2. Recall 0–.3 needs one of them, .4–.6 two, .7–1 three.
    relevant = np.array([[1, 0, 1, 0, 0, 1]], bool)
    similarity = np.array([[6, 5, 4, 3, 2, 1.0]])
    expected = (4 * 1 + 3 * 2 / 3 + 4 * 1 / 2) / 11
    np.testing.assert_allclose(metrics.map11(similarity, relevant), [expected])
    curve = metrics.interpolated_precisions(metrics.relevance_by_rank(similarity, relevant))[0][0]
    np.testing.assert_allclose(curve, [1] * 4 + [2 / 3] * 3 + [1 / 2] * 4)
    np.testing.assert_allclose(metrics.precision_at(similarity, relevant, 3), [2 / 3])
    np.testing.assert_allclose(metrics.precision_at(similarity, relevant, 12), [3 / 12])
    np.testing.assert_allclose(metrics.interpolated_precision_at(similarity, relevant, 2), [2 / 3])
    np.testing.assert_allclose(
        metrics.precisions_at(metrics.relevance_by_rank(similarity, relevant), (1, 2, 6)), [[1, 1 / 2, 1 / 2]]
    )


def test_interpolation_takes_later_and_better_ranks() -> None:
    # Ranks 2 and 3: precision 1/2 then 2/3, so the curve is 2/3 everywhere.
    curve, _ = metrics.interpolated_precisions(np.array([[False, True, True]]))
    np.testing.assert_allclose(curve, np.full((1, 11), 2 / 3))


def test_ties_keep_positions_and_queries_without_relevant_documents_are_nan() -> None:
    same = np.zeros((2, 4))
    relevant = np.array([[0, 1, 0, 0], [0, 0, 0, 0]], bool)
    found = metrics.map11(same, relevant)
    assert found[0] == pytest.approx(1 / 2)
    assert np.isnan(found[1])


def test_invalid_similarities_are_refused() -> None:
    with pytest.raises(BadInput, match="NaN"):
        metrics.map11(np.array([[np.nan, 1]]), np.array([[True, False]]))
    with pytest.raises(BadInput, match="similarities"):
        metrics.map11(np.zeros((1, 2)), np.zeros((1, 3), bool))
    with pytest.raises(BadInput, match="precision at"):
        metrics.precision_at(np.zeros((1, 2)), np.zeros((1, 2), bool), 0)


def brute_map11(similarity: NDArray[np.float64], relevant: NDArray[np.bool_]) -> float:
    """By the definition, rank by rank."""
    order = sorted(range(len(similarity)), key=lambda i: (-similarity[i], i))
    hits = np.cumsum(relevant[order])
    precision = hits / np.arange(1, len(order) + 1)
    levels = [max(precision[10 * hits >= level * hits[-1]]) for level in range(11)]
    for k in (1, 3, 10, 50):
        found = metrics.interpolated_precision_at(similarity[None], relevant[None], k)[0]
        assert found == pytest.approx(max([*precision[k - 1 :], hits[-1] / k if k > len(order) else 0]))
    return float(np.mean(levels))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=40))
def test_map11_follows_its_definition(items: list[tuple[int, bool]]) -> None:
    similarity, relevant = np.array([float(s) for s, _ in items]), np.array([r for _, r in items])
    found = metrics.map11(similarity[None], relevant[None])[0]
    if relevant.any():
        assert found == pytest.approx(brute_map11(similarity, relevant))
        assert 0 < found <= 1
    else:
        assert np.isnan(found)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["cosine", "jaccard"]))
def test_blocks_give_the_same_similarities_as_the_whole_matrix(seed: int, similarity: str) -> None:
    rng = np.random.default_rng(seed)
    queries, database = rng.normal(size=(7, 5)).astype("f"), rng.normal(size=(9, 5)).astype("f")
    database[3] = 0
    left, right = rng.integers(0, 3, 7), rng.integers(0, 3, 9)
    whole = np.stack([SIMILARITIES[similarity](query, database) for query in queries])
    blocks = list(similarity_blocks(queries, database, similarity))
    np.testing.assert_allclose(np.concatenate([scores for _, scores in blocks]), whole, atol=1e-6)
    np.testing.assert_allclose(pair_similarity(queries, database[:7], similarity), whole[range(7), range(7)], atol=1e-6)
    by_function = same_class_scores(queries, database, left, right, lambda q, d: q @ d.T)
    relevant = left[:, None] == right
    np.testing.assert_array_equal(by_function.map11, metrics.map11(queries @ database.T, relevant))
    named = same_class_scores(queries, database, list(map(str, left)), list(map(str, right)), similarity)
    np.testing.assert_allclose(named.map11, metrics.map11(np.concatenate([s for _, s in blocks]), relevant))
    assert set(named.precision) == {10, 20, 50}
    assert named.curve.shape == (7, 11)
    assert named.scope.shape == (7, len(named.scopes))


def test_small_blocks_and_sparse_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    queries, database = rng.integers(0, 3, (5, 6)).astype("f"), rng.integers(0, 3, (8, 6)).astype("f")
    (_, whole), *_ = similarity_blocks(queries, database)
    monkeypatch.setattr("resift_lab.evaluation.pairwise._CELLS", 16)
    blocks = list(similarity_blocks(csr_matrix(queries), csr_matrix(database)))
    assert [rows.stop - rows.start for rows, _ in blocks] == [2, 2, 1]
    np.testing.assert_allclose(np.concatenate([scores for _, scores in blocks]), whole, atol=1e-6)
    pairs = pair_similarity(csr_matrix(queries), csr_matrix(database[:5]))
    np.testing.assert_allclose(pairs, whole[range(5), range(5)], atol=1e-6)
    with pytest.raises(BadInput, match="jaccard"):
        next(similarity_blocks(csr_matrix(queries), csr_matrix(database), "jaccard"))
    with pytest.raises(BadInput, match="dimensions"):
        next(similarity_blocks(queries[:, :3], database))
    with pytest.raises(BadInput, match="unknown similarity"):
        next(similarity_blocks(queries, database, "euclid"))


def test_classes_without_documents_have_no_score() -> None:
    rows = np.eye(3, dtype=np.float32)
    found = same_class_scores(rows, rows, ["a", "b", "z"], ["a", "b", "b"])
    assert np.isnan(found.map11).tolist() == [False, False, True]
    assert np.isnan(found.precision[10]).tolist() == [False, False, True]
    with pytest.raises(BadInput, match="labels"):
        same_class_scores(rows, rows, ["a"], ["a", "b", "b"])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 100_000))
def test_agrees_with_trec_eval(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(3, 150))
    grades = rng.choice([0, 0, 0, 1, 2, 4], size)
    if not (grades > 0).any():
        grades[0] = 1
    scores = rng.permutation(size).astype(float)
    order = np.argsort(-scores)
    judged = {str(i): int(grade) for i, grade in enumerate(grades)}
    run = {"q": {str(i): float(score) for i, score in enumerate(scores)}}
    wanted = {
        "nDCG@10": metrics.ndcg_at(grades[order], grades, 10),
        "AP": metrics.average_precision(grades[order] > 0, int((grades > 0).sum())),
        "R@5": metrics.recall_at(grades[order] > 0, int((grades > 0).sum()), 5),
        "R@100": metrics.recall_at(grades[order] > 0, int((grades > 0).sum()), 100),
        "RR@10": metrics.reciprocal_rank(grades[order] > 0, 10),
        "P@10": float(metrics.precision_at(scores, grades > 0, 10)[0]),
    }
    # made, not parsed: its parser uses what Python 3.12 deprecates and 3.14 has no more
    measures = [nDCG @ 10, AP, R @ 5, R @ 100, RR @ 10, P @ 10]
    found = ir_measures.calc_aggregate(measures, {"q": judged}, run)
    assert {str(measure): value for measure, value in found.items()} == pytest.approx(wanted)


def test_ndcg_of_missing_and_negative_grades() -> None:
    assert metrics.ndcg_at([0, 3], [3, 2, -1], 2) == pytest.approx((3 / np.log2(3)) / (3 + 2 / np.log2(3)))
    assert metrics.ndcg_at([-1, -1], [-1], 10) != metrics.ndcg_at([-1, -1], [-1], 10)  # NaN
    assert np.isnan(metrics.average_precision([True], 0))


def test_correlations() -> None:
    assert metrics.spearman([1, 2, 3, 4], [1, 4, 9, 16]) == pytest.approx(1)
    assert metrics.pearson([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert metrics.spearman([1, 1, 1], [1, 2, 3]) == 0
    assert np.isnan(metrics.pearson([1], [1]))
    for bad in ([1, np.nan], [1, np.inf]):
        with pytest.raises(BadInput, match="NaN or infinite"):
            metrics.spearman(bad, [1, 2])
    with pytest.raises(BadInput, match="shapes"):
        metrics.spearman([1, 2, 3], [1, 2])
