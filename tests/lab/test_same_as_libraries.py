"""Comparisons of our own gradients, Adam and k-means with PyTorch and SciPy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.vq import kmeans2

from resift.encoders.kmeans import choose_initial_centroids, kmeans
from resift.feedback.mask import adam, spherical_entropy


def torch_entropy(
    mask: torch.Tensor, z: torch.Tensor, labels: torch.Tensor, centres: torch.Tensor, m: float
) -> torch.Tensor:
    """Return the entropy, computed from the definition (Passalis and Tefas 2018, equations 4 to 13)."""
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


@pytest.mark.parametrize("size", [1, 7, 40])
def test_kmeans_equals_scipy(size: int) -> None:
    rng = np.random.default_rng(0)
    cloud = (rng.normal(size=(300, 5)) + 4 * rng.integers(2, size=(300, 2)) @ rng.normal(size=(2, 5))).astype("f4")
    start = choose_initial_centroids(cloud, size, np.random.default_rng(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        expected, _ = kmeans2(cloud, cloud[start], iter=30, minit="matrix")
    np.testing.assert_allclose(kmeans(cloud, size, seed=3), expected, atol=1e-5)
