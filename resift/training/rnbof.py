"""RN-BoF: bag of features as a network, its vectors' size free of the number of codewords (Passalis and Tefas 2017).

Each codeword has its own width σ_k (eqs. 5 and 6), S consecutive segments of a text are accumulated each by itself
(eq. 7 and section 3.2.3; they share the codewords, the head tells them apart), and t = relu(Wᵀ s) is R long (eq. 8).
Trained as RO-BoEW is, with learned centres (eq. 13). Vectors keep their order in float16.
"""

from __future__ import annotations

from typing import Any

import torch

from resift.training.boew import RoBoew
from resift.training.options import RnBofOptions, RoBoewOptions
from resift.vectors.table import WordVectors


class RnBof(RoBoew):
    """The network: as RO-BoEW, but widths σ (K,) and head W (S · K, R), uniform in [-1, 1] at the start.

    A column's sign is such that it sums to more than 0: no unit is dead for all texts from the start.
    """

    def _shape(self, options: RoBoewOptions) -> None:
        assert isinstance(options, RnBofOptions)
        self.segments = options.segments
        book, count = self.codebook.detach(), options.codewords
        apart = torch.cdist(book, book).sum() / max(1, count * (count - 1))
        self.width = torch.nn.Parameter(torch.full((count,), options.sigma * float(apart or 1)))
        chance = torch.Generator().manual_seed(options.seed)
        head = 2 * torch.rand(options.segments * count, options.size, generator=chance) - 1
        self.head = torch.nn.Parameter(torch.where(head.sum(0) < 0, -head, head))

    def name(self) -> str:
        """The exported model's name, with its sizes."""
        return f"rn-bof:{len(self.codebook)},{self.head.shape[1]}"

    def scale(self) -> torch.Tensor:
        """What distances are divided by: σ_k, kept above 0."""
        return self.width.clamp_min(1e-3)

    def finish(self, pooled: torch.Tensor) -> torch.Tensor:
        """t = relu(Wᵀ s) (eq. 8); ``pooled`` s (n, S · K), gives (n, R)."""
        return torch.relu(pooled @ self.head)

    def parts(self) -> dict[str, Any]:
        """What an exported model takes besides its table."""
        return {"head": self.head.detach().numpy().copy()}


def untrained_network(table: WordVectors, options: RoBoewOptions) -> RoBoew:
    """The network that ``options`` describe, untrained, over the words of ``table``."""
    return RnBof(table, options) if isinstance(options, RnBofOptions) else RoBoew(table, options)
