"""The mask of a session computed with torch's autograd, as a reference for the closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from resift.feedback.mask import FUZZINESS, RATE


def autograd_mask(relevant: Any, irrelevant: Any, iterations: int) -> np.ndarray[Any, Any]:
    """Learn the mask of :func:`resift.feedback.mask.learn_mask` with torch's autograd and Adam.

    Args:
        relevant: Vectors of the relevant documents, (m, K).
        irrelevant: Vectors of the irrelevant documents, (n, K).
        iterations: Number of steps.

    Returns:
        The mask, (K,) float32.
    """
    vectors = torch.as_tensor(np.concatenate([relevant, irrelevant]), dtype=torch.float64)
    sides = torch.as_tensor([0] * len(relevant) + [1] * len(irrelevant))
    member = torch.nn.functional.one_hot(sides, 2).to(torch.float64)
    centres = torch.nn.functional.normalize(member.T @ vectors / member.sum(0)[:, None], dim=1)
    mask = torch.ones(vectors.shape[1], dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([mask], lr=RATE)
    for _ in range(iterations):
        adam.zero_grad()
        cosines = torch.nn.functional.normalize(mask * vectors, dim=1) @ centres.T
        weights = torch.softmax(cosines / FUZZINESS, dim=1)
        shares = member.T @ weights
        entropy = -(shares * torch.log(shares / weights.sum(0))).sum() / len(vectors)
        entropy.backward()
        adam.step()
    return np.asarray(mask.detach().clamp(min=0), np.float32)
