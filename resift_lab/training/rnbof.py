"""RN-BoF: a bag-of-features network whose vectors may have any size (Passalis and Tefas 2017).

The network extends RO-BoEW (:mod:`resift_lab.training.boew`). Each codeword has its own width σ_k (equations 5 and 6).
A text may be divided into S consecutive segments, which are pooled separately to the vector s (equation 7 and section
3.2.3). Unlike in the paper, all segments of a text share the same codewords, and only the head distinguishes them. The
head is a last layer, t = relu(Wᵀ s) with R dimensions (equation 8). The network is trained like RO-BoEW, with learned
cluster centres (equation 13).

:class:`RnBof` encodes texts, whose vectors are those of their words. :class:`BagRnBof` encodes bags of any vectors, and
each region of a bag has codewords of its own, as in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.bags import Bag, BagModel
from resift.encoders.kmeans import kmeans
from resift.errors import BadInput
from resift.vectors.table import WordVectors
from resift_lab.training.boew import RoBoew, soft_memberships
from resift_lab.training.options import BagOptions, RnBofOptions, RoBoewOptions

# Vectors of a region from which its initial codewords are learned.
_CLUSTERED = 12_500
# The smallest width of a codeword.
_MIN_WIDTH = 1e-3


class RnBof(RoBoew):
    """The network of RN-BoF (Retrieval-oriented Neural Bag-of-Features), which encodes texts as vectors of any size.

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
        self.width = torch.nn.Parameter(_initial_width(self.codebook.detach(), options.sigma))
        self.head = torch.nn.Parameter(_initial_head(options.segments * options.codewords, options.size, options.seed))

    def name(self) -> str:
        """Return the name of the exported model, such as ``rn-bof:64,16``, for 64 codewords and 16 dimensions."""
        return f"rn-bof:{len(self.codebook)},{self.head.shape[1]}"

    def distance_divisor(self) -> torch.Tensor:
        """Return the width σ of each codeword, by which distances between words and the codeword are divided.

        The widths are at least 0.001. They have the shape (K,) for K codewords.
        """
        return self.width.clamp_min(_MIN_WIDTH)

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


class Bags:
    """The bags of N documents, stored as one array of vectors for each of the S regions.

    Args:
        bags: The bags, from :func:`resift.encoders.bags.read_bag`. All have the same number of regions, and vectors of
            the same length.

    Attributes:
        vectors: The vectors of all documents in each region, S arrays of shape (n_vectors, D).
        offsets: The positions at which the documents start and end in these arrays, S arrays of shape (N + 1,).
    """

    def __init__(self, bags: Sequence[Bag]) -> None:
        regions = [[bag[region] for bag in bags] for region in range(len(bags[0]))]
        self.vectors = [np.concatenate(parts) for parts in regions]
        self.offsets = [np.cumsum([0, *map(len, parts)]) for parts in regions]

    def select(
        self,
        region: int,
        documents: NDArray[np.int64],
        limit: int | None = None,
        generator: np.random.Generator | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Select the vectors of some documents in a region of the image, or a random sample of these vectors.

        Args:
            region: The number of the region, counted from 0.
            documents: The numbers of the n documents, shape (n,).
            limit: The maximum number of vectors per document, or None for all. If a document has more, ``limit`` of
                them are drawn at random.
            generator: The random number generator, required with ``limit``.

        Returns:
            Two arrays of the same length: row numbers in ``self.vectors[region]``, and for each row the position of its
            document in ``documents``.
        """
        offsets = self.offsets[region]
        rows = [np.arange(offsets[document], offsets[document + 1]) for document in documents]
        if limit is not None and generator is not None:
            rows = [part if len(part) <= limit else generator.choice(part, limit, replace=False) for part in rows]
        owners = np.repeat(np.arange(len(documents)), [len(part) for part in rows])
        return np.concatenate(rows), owners

    def mean_vectors(self) -> Floats:
        """Compute a simple vector for each document: the mean of the vectors of each region, concatenated.

        Training is compared with this baseline.

        Returns:
            The vectors of the N documents, shape (N, S · D), for S regions and vectors of D dimensions.
        """
        means = []
        for vectors, offsets in zip(self.vectors, self.offsets, strict=True):
            sums = np.zeros((len(offsets) - 1, vectors.shape[1]), np.float32)
            counts = np.diff(offsets)
            np.add.at(sums, np.repeat(np.arange(len(counts)), counts), vectors)
            means.append(sums / np.maximum(counts, 1)[:, None])
        return np.concatenate(means, axis=1, dtype=np.float32)


class BagRnBof(torch.nn.Module):  # type: ignore[misc]
    """The network of RN-BoF (Retrieval-oriented Neural Bag-of-Features), which encodes bags of vectors.

    The network maps the bag of a document, such as the vectors of an image's patches, to one vector of R dimensions. A
    bag has S regions, and the vectors in it have D dimensions. In each region, the vectors are compared with K learned
    centroids (codewords). This gives the mean memberships s of the vectors in the codewords, S · K numbers. A final
    layer with the matrix W, the head, converts them to the vector relu(Wᵀ s).

    The trained parameters are the codewords, shape (S, K, D), their widths, shape (S, K), and W, shape (S · K, R), all
    float32. The codewords start as centroids of the training vectors of their region, by k-means.

    Args:
        bags: The bags to train on.
        options: The settings.

    Raises:
        BadInput: If a region has fewer vectors than codewords.

    Source:
        Passalis and Tefas 2017, sections 3.2.1, 3.2.3 and 3.3.
    """

    def __init__(self, bags: Bags, options: BagOptions) -> None:
        super().__init__()
        rng = np.random.default_rng(options.seed)
        codebooks = []
        for region, vectors in enumerate(bags.vectors):
            if len(vectors) < options.codewords:
                message = f"region {region} has {len(vectors)} vectors for {options.codewords} codewords"
                raise BadInput(message, value=options.codewords, expected=f"at most {len(vectors)} codewords")
            if len(vectors) > _CLUSTERED:
                vectors = vectors[rng.choice(len(vectors), _CLUSTERED, replace=False)]
            codebooks.append(torch.from_numpy(kmeans(vectors, options.codewords, options.seed)))
        self.codebooks = torch.nn.Parameter(torch.stack(codebooks))
        self.widths = torch.nn.Parameter(torch.stack([_initial_width(book, options.sigma) for book in codebooks]))
        rows = len(codebooks) * options.codewords
        self.head = torch.nn.Parameter(_initial_head(rows, options.size, options.seed))

    def forward(
        self, bags: Bags, documents: NDArray[np.int64], sample: int | None = None, rng: Any = None
    ) -> torch.Tensor:
        """Compute the vectors of some documents from their bags. PyTorch calls this method during training.

        Args:
            bags: The bags of all documents.
            documents: The numbers of the n documents to encode, shape (n,).
            sample: The number of vectors of a document to use, divided equally among the regions. None uses all.
            rng: The NumPy random number generator that draws the vectors.

        Returns:
            The vectors t = relu(Wᵀ s) of the documents, shape (n, R) for R dimensions.

        Source:
            Passalis and Tefas 2017, equations 6 to 8.
        """
        limit = None if sample is None else -(-sample // len(self.codebooks))
        histograms = []
        for region, (codebook, widths) in enumerate(zip(self.codebooks, self.widths, strict=True)):
            rows, owners = bags.select(region, documents, limit, rng)
            x, counts = torch.from_numpy(bags.vectors[region][rows]), np.bincount(owners, minlength=len(documents))
            summed = torch.zeros(len(documents), len(codebook)).index_add(
                0, torch.from_numpy(owners), soft_memberships(x, codebook, widths.clamp_min(_MIN_WIDTH))
            )
            histograms.append(summed / torch.from_numpy(np.maximum(counts, 1).astype(np.float32))[:, None])
        return torch.relu(torch.cat(histograms, dim=1) @ self.head)

    def encode(self, bags: Bags, batch: int = 50) -> Floats:
        """Compute one vector for each document, from all vectors in its bag, without the random sampling of training.

        Args:
            bags: The bags of N documents.
            batch: The number of bags per batch.

        Returns:
            The vector of each document, shape (N, R) for R dimensions, float32.
        """
        documents = np.arange(len(bags.offsets[0]) - 1)
        with torch.no_grad():
            parts = [self(bags, documents[start : start + batch]) for start in range(0, len(documents), batch)]
        return np.asarray(torch.cat(parts).numpy(), np.float32)

    def export(self, field: str, info: dict[str, Any]) -> BagModel:
        """Convert the network to a model that does not need PyTorch.

        Args:
            field: The name of the field with the bag of a document.
            info: The summary of the training, to be saved with the model.
        """
        codebooks, widths, head = (
            value.detach().numpy().copy() for value in (self.codebooks, self.widths.clamp_min(_MIN_WIDTH), self.head)
        )
        name = f"rn-bof:{codebooks.shape[1]},{head.shape[1]}"
        return BagModel(name, field, codebooks, widths, head, {"trained": info})


def _initial_width(codebook: torch.Tensor, sigma: float) -> torch.Tensor:
    """Return the initial width of each codeword: ``sigma`` times the mean distance between two codewords.

    Args:
        codebook: The codewords, shape (K, D).
        sigma: The factor.

    Returns:
        Equal widths, shape (K,).
    """
    count = len(codebook)
    mean_distance = torch.cdist(codebook, codebook).sum() / max(1, count * (count - 1))
    # A single codeword has no distance to another.
    return torch.full((count,), sigma * float(mean_distance or 1))


def _initial_head(rows: int, size: int, seed: int) -> torch.Tensor:
    """Return the random initial matrix W of the last layer, with values from -1 to 1.

    Args:
        rows: The number of memberships that the layer receives.
        size: The number of dimensions of the vectors that the layer returns.
        seed: The seed of the random numbers.

    Returns:
        A matrix of shape (``rows``, ``size``). The sum of each column is not negative.
    """
    head = 2 * torch.rand(rows, size, generator=torch.Generator().manual_seed(seed)) - 1
    # Pooled memberships are never negative, so a unit with a negative sum of weights would never be active.
    return torch.where(head.sum(0) < 0, -head, head)
