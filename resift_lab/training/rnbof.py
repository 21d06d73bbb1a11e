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
    """The network of RN-BoF, a bag-of-features network whose text vectors may have any number of dimensions.

    It differs in two parameters from the network of the base class, RO-BoEW:

    - Each of the K codewords (trained centroids of word vectors) has its own width σ.
    - A final linear layer, the head, replaces the mask. Its matrix W has the shape (S · K, R), for S segments of a text
      and R dimensions of the text's vector. W is initialised uniformly in [-1, 1].

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
        """Return the width σ of each codeword, by which distances between words and the codeword are divided.

        The widths are at least 0.001. They have the shape (K,) for K codewords.
        """
        return self.width.clamp_min(1e-3)

    def text_vectors(self, pooled: torch.Tensor) -> torch.Tensor:
        """Apply the final linear layer with the matrix W to the memberships of each text: t = relu(Wᵀ s).

        A membership is the degree to which a word belongs to a codeword (cluster centroid).

        Args:
            pooled: The memberships s of n texts, shape (n, S · K). A row consists of the S segments of a text, and each
                segment of the mean memberships of its words in the K codewords.

        Returns:
            The vectors of the texts, shape (n, R) for R dimensions.

        Source:
            Passalis and Tefas 2017, equation 8.
        """
        return torch.relu(pooled @ self.head)

    def head_arrays(self) -> dict[str, Any]:
        """Return the trained parameters that the exported model applies after pooling.

        Returns:
            A dictionary with ``head``, the matrix of the final linear layer.
        """
        return {"head": self.head.detach().numpy().copy()}


def untrained_network(table: WordVectors, options: RoBoewOptions) -> RoBoew:
    """Create the network to train: RN-BoF or RO-BoEW, depending on the class of ``options``.

    Args:
        table: The words to train, with initial vectors and weights.
        options: The settings.
    """
    return RnBof(table, options) if isinstance(options, RnBofOptions) else RoBoew(table, options)
