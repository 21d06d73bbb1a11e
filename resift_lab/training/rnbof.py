"""RN-BoF: a bag-of-features network whose vectors may have any size (Passalis and Tefas 2017).

In contrast to RO-BoEW, each codeword has its own width σ_k (equations 5 and 6). A text may be divided into S
consecutive segments, which are pooled separately (equation 7 and section 3.2.3). Unlike in the paper, all segments
share the same codewords, and only the head distinguishes them. The head t = relu(Wᵀ s) has R dimensions (equation 8).
The network is trained like RO-BoEW, with learned cluster centres (equation 13).
"""

from __future__ import annotations

from typing import Any

import torch

from resift.vectors.table import WordVectors
from resift_lab.training.boew import RoBoew
from resift_lab.training.options import RnBofOptions, RoBoewOptions


class RnBof(RoBoew):
    """The network of RN-BoF, a bag-of-features network whose text vectors may have any size.

    It differs from RO-BoEW in two parameters: a width σ for each of the K codewords, and a final linear layer, the head
    W (S · K, R), for S segments of a text and R dimensions of its vector. The head is initialised uniformly in [-1, 1].

    Source:
        Passalis and Tefas 2017, sections 3.2.1, 3.2.3 and 3.3.
    """

    def _add_width_and_head(self, options: RoBoewOptions) -> None:
        assert isinstance(options, RnBofOptions)
        self.segments = options.segments
        codebook, count = self.codebook.detach(), options.codewords
        mean_distance = torch.cdist(codebook, codebook).sum() / max(1, count * (count - 1))
        # A single codeword has no distance to another.
        self.width = torch.nn.Parameter(torch.full((count,), options.sigma * float(mean_distance or 1)))
        chance = torch.Generator().manual_seed(options.seed)
        head = 2 * torch.rand(options.segments * count, options.size, generator=chance) - 1
        # Pooled memberships are never negative, so a unit with a negative sum of weights would never be active.
        self.head = torch.nn.Parameter(torch.where(head.sum(0) < 0, -head, head))

    def name(self) -> str:
        """Return the name of the exported model, with its sizes."""
        return f"rn-bof:{len(self.codebook)},{self.head.shape[1]}"

    def scale(self) -> torch.Tensor:
        """Return the width σ_k of each of the K codewords, by which distances from the codeword are divided.

        Returns:
            Widths of at least 0.001, a tensor of shape (K,).
        """
        return self.width.clamp_min(1e-3)

    def text_vectors(self, pooled: torch.Tensor) -> torch.Tensor:
        """Compute the vectors of texts from the memberships of their words, t = relu(Wᵀ s).

        Args:
            pooled: The mean memberships s of the words in each of the S segments of n texts, for K codewords, shape
                (n, S · K).

        Returns:
            Vectors of R dimensions, shape (n, R).

        Source:
            Passalis and Tefas 2017, equation 8.
        """
        return torch.relu(pooled @ self.head)

    def head_arrays(self) -> dict[str, Any]:
        """Return the trained parameters that are applied after pooling, for the exported model."""
        return {"head": self.head.detach().numpy().copy()}


def untrained_network(table: WordVectors, options: RoBoewOptions) -> RoBoew:
    """Create the network to train: RN-BoF or RO-BoEW, depending on the class of ``options``.

    Args:
        table: The words to train, with initial vectors and weights.
        options: The settings.
    """
    return RnBof(table, options) if isinstance(options, RnBofOptions) else RoBoew(table, options)
