"""RO-BoEW: a bag of embedded words that is trained for retrieval (Passalis and Tefas 2018, section 3).

The vector x of a word is converted to memberships u in K codewords, which tell how close x is to each codeword
(equations 1 and 2). A text is represented by the weighted mean z of its words' memberships (equation 3), multiplied by
a mask: s = r ⊙ z (equation 4). Word vectors, codebook V, width σ and mask r are trained so that the documents form pure
clusters. Each class has a cluster centre.

The loss is either the entropy of the classes within the clusters (equation 13) or, with ``tied`` clusters, the
cross-entropy between each document's cluster and its class. The second form also fixes which cluster belongs to which
class.

These things are not in the paper:

- Word vectors have unit length before the training. Words without a vector get that of a word with the same stem, or
  else a small random vector. Words that occur in a single document are not trained.
- The weights of words in the mean are trained, too.
- The cluster centres, which start as the mean vectors of the classes, change during the training. With ``tied``
  clusters they are trained at a low rate. Otherwise they are computed again before each epoch.
- The learning rates fall to 0.

The option ``published`` switches all of them off. The training then differs from Algorithm 1 in these points:

- A step updates only the vectors of the words in its batch, and Adam's moments of these words.
- Long texts are not cut. The paper trains on the first 1,000 words "for technical reasons".
- Words that do not occur in the training documents have their original vectors, and words without a vector are
  ignored. The paper does not say what it does with them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from torch.nn import functional

from resift.arrays import Floats
from resift.encoders.codebook import learn_codebook
from resift.encoders.kmeans import kmeans
from resift.encoders.model import Layers, Model
from resift.errors import BadInput
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift.vectors.weights import Alphas
from resift_lab.training.options import ClusterOptions, RoBoewOptions

_TINY = 1e-12
# Smallest initial weight of a word, as a share of the largest.
_MIN_WEIGHT = 1e-3


class RoBoew(torch.nn.Module):  # type: ignore[misc]
    """The network of RO-BoEW, a bag of embedded words that is trained for retrieval.

    For V words, D dimensions and K codewords, its parameters are the word vectors (V, D), the logarithms of the word
    weights (V, 1), the codebook (K, D), a scalar width σ, and a mask r (K,), all float32. Distances between words and
    codewords are divided by σ². The mask contains a factor for each codeword.

    Args:
        table: The words to train, most frequent first, with initial vectors and weights.
        options: The settings.

    Raises:
        BadInput: If there are more codewords than words.

    Source:
        Passalis and Tefas 2018, sections 3.1 and 3.3, Algorithm 1.
    """

    segments = 1

    def __init__(self, table: WordVectors, options: RoBoewOptions) -> None:
        super().__init__()
        if options.codewords > len(table):
            raise BadInput(
                f"{options.codewords} codewords are more than the {len(table)} words",
                value=options.codewords,
                expected=f"at most {len(table)}",
            )
        if options.published:
            codebook = kmeans(table.rows(), options.codewords, options.seed)
        else:
            codebook = learn_codebook(table, options.codewords, options.seed)
        self._published = options.published
        # The logarithm of a weight is trained, so a weight of 0 could never change.
        weights = np.maximum(table.weights, _MIN_WEIGHT * table.weights.max())[:, None]
        log_weights = np.zeros_like(weights) if self._published else np.log(weights)
        self.rows = torch.nn.Parameter(torch.from_numpy(table.rows().copy()))
        self.log_weights = torch.nn.Parameter(torch.from_numpy(log_weights), requires_grad=not self._published)
        self.codebook = torch.nn.Parameter(torch.from_numpy(codebook.copy()))
        self._add_width_and_head(options)

    def _add_width_and_head(self, options: RoBoewOptions) -> None:
        """Create two trainable parameters: the width σ of the codewords, and the mask with a factor for each codeword.

        Args:
            options: The settings, with the initial width and the number of codewords.
        """
        self.width = torch.nn.Parameter(torch.tensor(float(options.sigma)))
        self.mask = torch.nn.Parameter(torch.ones(options.codewords))

    def name(self) -> str:
        """Return the name of the exported model, which contains the number of codewords, such as ``ro-boew:64``."""
        return f"ro-boew:{len(self.codebook)}"

    def distance_divisor(self) -> torch.Tensor:
        """Return σ², the squared width of the codewords, by which distances between words and codewords are divided."""
        return self.width.square()

    def text_vectors(self, pooled: torch.Tensor) -> torch.Tensor:
        """Compute the vectors of texts from their mean memberships.

        The K memberships of a word tell how close its vector is to each of the K codewords (trained centroids of word
        vectors). The mean memberships z of a text's words are multiplied by the trained mask r, which contains a factor
        for each codeword: s = r ⊙ z.

        Args:
            pooled: The weighted mean z of the memberships of each text's words, for n texts, shape (n, K).

        Returns:
            The vectors s of the texts, shape (n, K).

        Source:
            Passalis and Tefas 2018, equation 4.
        """
        return pooled * self.mask

    def head_arrays(self) -> dict[str, Any]:
        """Return the trained parameters that the exported model applies after pooling.

        Returns:
            A dictionary with ``mask``, the factors of the K codewords, shape (K,).
        """
        return {"mask": self.mask.detach().numpy().copy()}

    def membership(self, rows: torch.Tensor) -> torch.Tensor:
        """Compute how strongly each word belongs to each codeword, a trained centroid of word vectors.

        The memberships of a word with the vector x are the softmax over the codewords v_k of -‖x - v_k‖, divided by
        :meth:`distance_divisor`.

        Args:
            rows: The vectors x of n words of D dimensions, shape (n, D).

        Returns:
            Memberships in the K codewords, shape (n, K). Each row sums to 1.

        Source:
            Passalis and Tefas 2018, equations 1 and 2.
        """
        return soft_memberships(rows, self.codebook, self.distance_divisor())

    def forward(self, counts: csr_matrix) -> torch.Tensor:
        """Compute the vectors of texts from their word counts. PyTorch calls this method during training.

        Args:
            counts: The frequency of each of the V words in each of the S segments of n texts, shape (n · S, V).
                Segments are consecutive parts of a text, which are adjacent rows. RO-BoEW has a single segment, the
                whole text.

        Returns:
            The vector of each text, shape (n, R) for R dimensions. A segment without words contributes zeros.

        Source:
            Passalis and Tefas 2018, equations 1 to 4; the word weights in equation 3 are an addition.
        """
        used, columns = np.unique(counts.indices, return_inverse=True)
        words = torch.from_numpy(used.astype(np.int64))
        weights = functional.embedding(words, self.log_weights, sparse=True).exp()
        memberships = self.membership(functional.embedding(words, self.rows, sparse=True))
        # The weights are the last column, so that a single embedding bag computes both the weighted sum of the
        # memberships and its divisor.
        sums = functional.embedding_bag(
            torch.from_numpy(columns.ravel()),
            torch.cat([weights * memberships, weights], dim=1),
            torch.from_numpy(counts.indptr[:-1].astype(np.int64)),
            mode="sum",
            per_sample_weights=torch.from_numpy(counts.data),
        )
        pooled = sums[:, :-1] / sums[:, -1:].clamp_min(_TINY)
        return self.text_vectors(pooled.reshape(-1, self.segments * pooled.shape[1]))

    def encode(self, counts: csr_matrix, batch: int = 512) -> Floats:
        """Encode texts in batches, and return their vectors as a NumPy array.

        Args:
            counts: The frequency of each of the V words in each of the S segments of n texts, shape (n · S, V). The
                segments of a text are adjacent rows.
            batch: The number of texts per batch.

        Returns:
            The vector of each text, shape (n, R) for R dimensions, float32.
        """
        size = batch * self.segments
        with torch.no_grad():
            return np.concatenate([self(counts[i : i + size]).numpy() for i in range(0, counts.shape[0], size)])

    def parameter_groups(self, rate: float) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Group the parameters by optimiser and learning rate.

        Args:
            rate: The learning rate of most parameters. Word weights have three times this rate, unless they are
                constant. The width of the codewords has a tenth of it.

        Returns:
            The parameter groups for ``torch.optim.Adam``, and the parameter groups for ``torch.optim.SparseAdam``.
        """
        sparse: list[dict[str, Any]] = [{"params": [self.rows], "lr": rate}]
        if not self._published:
            sparse.append({"params": [self.log_weights], "lr": 3 * rate})
        dense = [value for name, value in self.named_parameters() if name not in ("rows", "log_weights", "width")]
        return [{"params": dense, "lr": rate}, {"params": [self.width], "lr": rate / 10}], sparse

    def export(self, table: WordVectors, vectors: WordVectors, info: dict[str, Any]) -> Model:
        """Convert the network to a model that does not need PyTorch.

        The model's table contains the memberships of each word: numbers that tell how close the word's vector is to
        each codeword (a trained centroid of word vectors).

        Args:
            table: The words that were trained.
            vectors: The original word vectors. Words that are not in ``table`` are added to the model, too.
            info: The summary of the training, to be saved with the model.

        Returns:
            The model.
        """
        untrained = np.array([row for row, word in enumerate(vectors.words) if table.index[word] < 0], np.int64)
        words = table.words + [vectors.words[row] for row in untrained]
        with torch.no_grad():
            untrained_rows = vectors.rows(untrained) if self._published else unit_rows(vectors.rows(untrained))
            untrained_memberships = self.membership(torch.from_numpy(untrained_rows))
            memberships = torch.cat([self.membership(self.rows), untrained_memberships]).numpy()
            untrained_weights = np.ones(len(untrained)) if self._published else vectors.weights[untrained]
            weights = np.concatenate([self.log_weights.exp().numpy()[:, 0], untrained_weights])
        trained = WordVectors(words, memberships, weights, info={**vectors.info, "trained": info})
        return Model(
            self.name(),
            trained,
            "mean",
            "cosine",
            Layers(segments=self.segments, **self.head_arrays()),
            Alphas(alpha=0.75, max_alpha=1.0),
        )


def soft_memberships(vectors: torch.Tensor, codebook: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Compute how strongly each vector belongs to each codeword.

    The memberships of a vector x are the softmax over the codewords v_k of -‖x - v_k‖ / g_k, where g_k is the divisor
    of the distances from codeword k.

    Args:
        vectors: The vectors x with D dimensions, shape (n, D).
        codebook: The K codewords v, shape (K, D).
        scale: The divisors g, shape (K,), or a single divisor for all codewords.

    Returns:
        Memberships in the K codewords, shape (n, K). Each row sums to 1.

    Source:
        Passalis and Tefas 2018, equations 1 and 2, and Passalis and Tefas 2017, equation 6.
    """
    squares = vectors.square().sum(1, keepdim=True) + codebook.square().sum(1) - 2 * vectors @ codebook.T
    # The derivative of the square root is infinite at 0.
    return torch.softmax(-squares.clamp_min(_TINY).sqrt() / scale, dim=1)


def cluster_entropy(
    vectors: torch.Tensor, targets: torch.Tensor, centres: torch.Tensor, options: ClusterOptions | None = None
) -> torch.Tensor:
    """Return how impure clusters of documents are: the entropy of the classes in each cluster, in nats.

    This is the training loss. Documents belong to each cluster to a certain degree, depending on their distance from
    its centre.

    With N documents and these symbols, the entropy is -1/N · Σ h_jk · log p_jk over all classes and clusters:

    - π_ij: the share of class j in document i
    - w_ik: the membership of document i in cluster k
    - h_jk = Σ_i π_ij · w_ik: the weight of class j in cluster k
    - p_jk = h_jk / Σ_i w_ik: the share of class j in cluster k

    With ``tied`` clusters, each of which belongs to a class, the loss is -1/N · Σ π_ij · log w_ij instead.

    Args:
        vectors: The vectors s of N documents, shape (N, K).
        targets: The share π of each of the C classes in each document, shape (N, C). Each row sums to 1.
        centres: The cluster centre of each class, shape (C, K).
        options: The settings: the distance, the fuzziness, and whether clusters are tied.

    Source:
        Passalis and Tefas 2018, equations 5 to 13. The ``tied`` form is not in the paper.
    """
    options = options or ClusterOptions()
    if options.entropy == "spherical":
        distance = 1 - functional.normalize(vectors, eps=_TINY) @ functional.normalize(centres, eps=_TINY).T
    else:
        distance = (vectors[:, None] - centres).square().sum(-1).clamp_min(_TINY).sqrt()
    log_w = torch.log_softmax(-distance / options.fuzziness, dim=1)
    if options.tied:
        return -(targets * log_w).sum() / len(vectors)
    w = log_w.exp()
    h = targets.T @ w
    return -(h * torch.log((h / w.sum(0).clamp_min(_TINY)).clamp_min(_TINY))).sum() / len(vectors)


def class_means(vectors: NDArray[Any], targets: NDArray[Any]) -> Floats:
    """Return the mean vector of each class of documents.

    Args:
        vectors: The vectors of N documents with K dimensions, shape (N, K).
        targets: The degree, 0 to 1, to which each document belongs to each of the C classes, shape (N, C). It is the
            weight of the document in the mean of the class. For example, a document that equally belongs to the first
            two of three classes has the row (0.5, 0.5, 0).

    Returns:
        Mean vectors of shape (C, K), float32.
    """
    shares = np.maximum(targets.sum(axis=0), _TINY)
    return np.asarray((targets / shares).T @ vectors, np.float32)
