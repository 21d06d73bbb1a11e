"""Feedback: gradients against torch, Algorithm 2, Rocchio, and what a session's marks do to a ranking."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from resift import Feedback, Model
from resift.feedback import adam, learn_mask, spherical_entropy


def torch_entropy(
    mask: torch.Tensor, z: torch.Tensor, labels: torch.Tensor, centres: torch.Tensor, m: float
) -> torch.Tensor:
    """Passalis and Tefas, eqs. 4 to 13, written out."""
    s = mask * z
    distance = 1 - torch.nn.functional.cosine_similarity(s[:, None], centres[None], dim=2, eps=1e-12)
    w = torch.softmax(-distance / m, dim=1)
    h = torch.nn.functional.one_hot(labels).double().T @ w
    p = h / w.sum(0)
    return -(h * torch.log(p)).sum() / len(z)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(2, 9), st.integers(1, 6), st.sampled_from([0.02, 0.1, 1.0]))
def test_gradient_equals_autograd(seed: int, documents: int, dim: int, m: float) -> None:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(documents, dim + 1))
    labels = np.r_[0, 1, rng.integers(0, 2, documents - 2)]
    centres = np.stack([z[labels == label].mean(0) for label in (0, 1)])
    mask = rng.uniform(0.2, 2, dim + 1)
    value, gradient = spherical_entropy(z, labels, centres, m)(mask)
    leaf = torch.tensor(mask, requires_grad=True)
    loss = torch_entropy(leaf, torch.tensor(z), torch.tensor(labels), torch.tensor(centres), m)
    loss.backward()
    assert value == pytest.approx(loss.item(), rel=1e-9, abs=1e-12)
    assert leaf.grad is not None
    np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-6, atol=1e-9)


def test_adam_equals_torch() -> None:
    target = np.array([1.0, -2.0, 0.5])
    leaf = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([leaf], lr=0.1)
    for _ in range(25):
        optimizer.zero_grad()
        ((leaf - torch.tensor(target)) ** 2).sum().backward()
        optimizer.step()
    ours = adam(np.zeros(3), lambda x: 2 * (x - target), 0.1, 25)
    np.testing.assert_allclose(ours, leaf.detach().numpy(), rtol=1e-9)


@pytest.fixture
def judged() -> tuple[np.ndarray, np.ndarray]:
    """Five relevant and five irrelevant vectors: dimension 0 tells them apart, dimension 1 is large noise."""
    rng = np.random.default_rng(5)
    both = np.abs(rng.normal(size=(10, 6))).astype(np.float32)
    both[:, 1] *= 3
    both[:5, 0] += 3
    return both[:5], both[5:]


def test_mask_lowers_entropy_and_weights_what_separates(judged: tuple[np.ndarray, np.ndarray]) -> None:
    relevant, irrelevant = judged
    mask = learn_mask(relevant, irrelevant, iterations=50)
    z, labels = np.concatenate(judged), np.repeat([0, 1], 5)
    centres = np.stack([relevant.mean(0), irrelevant.mean(0)])
    before, after = (spherical_entropy(z, labels, centres, 0.1)(r)[0] for r in (np.ones(6), mask))
    assert after < before - 0.02
    assert mask[0] > 1.5 * mask[1]
    assert mask.dtype == np.float32
    assert (learn_mask(relevant, irrelevant, rate=10.0) >= 0).all()


def test_one_kind_of_marks_leaves_the_mask_alone(judged: tuple[np.ndarray, np.ndarray]) -> None:
    none = np.zeros((0, 6), np.float32)
    for relevant, irrelevant in [(judged[0], none), (none, judged[1]), (none, none)]:
        assert (learn_mask(relevant, irrelevant) == 1).all()


def test_rocchio(judged: tuple[np.ndarray, np.ndarray]) -> None:
    relevant, irrelevant = judged
    query = np.arange(1, 7, dtype=np.float32)

    def direction(matrix: np.ndarray) -> np.ndarray:
        return (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).mean(0)

    expected = query + np.linalg.norm(query) * (0.8 * direction(relevant) - 0.2 * direction(irrelevant))
    np.testing.assert_allclose(Feedback.learn(relevant, irrelevant).move(query), expected, rtol=1e-5)


def test_no_marks_change_nothing() -> None:
    none = np.zeros((0, 4), np.float32)
    feedback = Feedback.learn(none, none)
    query = np.array([1, 2, 3, 4], np.float32)
    np.testing.assert_array_equal(feedback.move(query), query)
    assert (feedback.mask == 1).all()


def test_zero_and_equal_vectors_never_give_nan() -> None:
    zero, one = np.zeros((2, 4), np.float32), np.ones((2, 4), np.float32)
    for relevant in (zero, one):
        for irrelevant in (zero, one):
            feedback = Feedback.learn(relevant, irrelevant)
            assert np.isfinite(feedback.mask).all()
            assert np.isfinite(feedback.move(np.zeros(4, np.float32))).all()


def test_marks_bring_the_rest_of_a_topic_up(model: Model) -> None:
    documents = model.encode(
        ["fire bush smoke", "fire forest flame", "fire army gun", "fire soldier war", "smoke tree forest"]
    )
    query = model.encode(["fire"])[0]
    feedback = Feedback.learn(documents[[0]], documents[[2]])
    plain = model.score(query, documents)
    learned = model.score(feedback.move(query), documents, feedback.mask)
    unjudged_gap_before = min(plain[1], plain[4]) - plain[3]
    unjudged_gap_after = min(learned[1], learned[4]) - learned[3]
    assert unjudged_gap_after > unjudged_gap_before + 0.05
    assert min(learned[[1, 4]]) > learned[3]
