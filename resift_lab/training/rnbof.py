"""RN-BoF: a bag of features as a network, whose vectors may have any size (Passalis and Tefas 2017).

Each codeword has a width σ_k of its own (eqs. 5 and 6). S consecutive segments of a text are pooled each by itself
(eq. 7 and section 3.2.3; they share the codewords, the head tells them apart), and t = relu(Wᵀ s) has R dimensions
(eq. 8). It is trained as RO-BoEW is, with learned centres (eq. 13).
"""

from __future__ import annotations

from typing import Any

import torch

from resift.vectors.table import WordVectors
from resift_lab.training.boew import RoBoew
from resift_lab.training.options import RnBofOptions, RoBoewOptions


class RnBof(RoBoew):
    """The network: that of RO-BoEW, but with widths σ (K,) and a head W (S · K, R), uniform in [-1, 1] at the start."""

    def _add_width_and_head(self, options: RoBoewOptions) -> None:
        assert isinstance(options, RnBofOptions)
        self.segments = options.segments
        codebook, count = self.codebook.detach(), options.codewords
        mean_distance = torch.cdist(codebook, codebook).sum() / max(1, count * (count - 1))
        # a single codeword has no distance to others
        self.width = torch.nn.Parameter(torch.full((count,), options.sigma * float(mean_distance or 1)))
        chance = torch.Generator().manual_seed(options.seed)
        head = 2 * torch.rand(options.segments * count, options.size, generator=chance) - 1
        # pooled memberships are not negative: a column that sums to less than 0 would start as a unit that is dead
        self.head = torch.nn.Parameter(torch.where(head.sum(0) < 0, -head, head))

    def name(self) -> str:
        """The exported model's name, with its sizes."""
        return f"rn-bof:{len(self.codebook)},{self.head.shape[1]}"

    def scale(self) -> torch.Tensor:
        """What distances are divided by: σ_k, kept above 0."""
        return self.width.clamp_min(1e-3)

    def text_vectors(self, pooled: torch.Tensor) -> torch.Tensor:
        """t = relu(Wᵀ s) (eq. 8); ``pooled`` s (n, S · K), gives (n, R)."""
        return torch.relu(pooled @ self.head)

    def head_arrays(self) -> dict[str, Any]:
        """What an exported model takes besides its table."""
        return {"head": self.head.detach().numpy().copy()}


def untrained_network(table: WordVectors, options: RoBoewOptions) -> RoBoew:
    """The network that ``options`` describe, untrained, over the words of ``table``."""
    return RnBof(table, options) if isinstance(options, RnBofOptions) else RoBoew(table, options)
