"""RO-BoEW: a bag of embedded words, every part of it learned for retrieval (Passalis and Tefas 2018, section 3).

A word's vector x becomes memberships u in K codewords (eqs. 1 and 2), a text is their weighted mean z (eq. 3), and its
vector is s = r ⊙ z (eq. 4). Word vectors, codebook V, width σ and mask r are trained towards pure clusters around one
centre for each class: by the entropy of the classes within the clusters (eq. 13) or, ``tied``, by the cross-entropy
between each document's cluster and its class, which also says whose cluster it should be. Beyond the paper, the words'
pooling weights are learned too, and the centres, which start as the classes' means, follow with a small rate. A step
touches only the words of its batch.
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
from resift.encoders.model import Layers, Model
from resift.errors import BadInput
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift.vectors.weights import Alphas
from resift_lab.training.options import RoBoewOptions

_TINY = 1e-12
_MIN_WEIGHT = 1e-3


class RoBoew(torch.nn.Module):  # type: ignore[misc]
    """The network: rows X (V, D), log weights (V, 1), codebook V (K, D), width σ () and mask r (K,), all float32.

    ``table``: the words to train, most frequent first, with rows and weights to start from. Raises BadInput for more
    codewords than words.
    """

    segments = 1

    def __init__(self, table: WordVectors, options: RoBoewOptions) -> None:
        super().__init__()
        if options.codewords > len(table):
            raise BadInput(
                f"{options.codewords} codewords for {len(table)} words",
                value=options.codewords,
                expected=f"at most {len(table)}",
            )
        codebook = learn_codebook(table, options.codewords, options.seed)
        # only the log of a weight is trained, and a word of weight 0 could never gain any
        weights = np.maximum(table.weights, _MIN_WEIGHT * table.weights.max())[:, None]
        self.rows = torch.nn.Parameter(torch.from_numpy(table.rows().copy()))
        self.log_weights = torch.nn.Parameter(torch.from_numpy(np.log(weights)))
        self.codebook = torch.nn.Parameter(torch.from_numpy(codebook.copy()))
        self._add_width_and_head(options)

    def _add_width_and_head(self, options: RoBoewOptions) -> None:
        """Make the width of memberships, and the parameters that follow the pool."""
        self.width = torch.nn.Parameter(torch.tensor(options.sigma))
        self.mask = torch.nn.Parameter(torch.ones(options.codewords))

    def name(self) -> str:
        """The exported model's name, with its sizes."""
        return f"ro-boew:{len(self.codebook)}"

    def scale(self) -> torch.Tensor:
        """What distances are divided by: σ²."""
        return self.width.square()

    def text_vectors(self, pooled: torch.Tensor) -> torch.Tensor:
        """s = r ⊙ z (eq. 4); ``pooled`` z (n, K), gives (n, K)."""
        return pooled * self.mask

    def head_arrays(self) -> dict[str, Any]:
        """What an exported model takes besides its table."""
        return {"mask": self.mask.detach().numpy().copy()}

    def membership(self, rows: torch.Tensor) -> torch.Tensor:
        """u = softmax(-‖x - v_k‖ / scale) (eqs. 1 and 2); ``rows`` (n, D), gives (n, K)."""
        codebook = self.codebook
        squares = rows.square().sum(1, keepdim=True) + codebook.square().sum(1) - 2 * rows @ codebook.T
        # not 0, where the derivative of the root is infinite
        return torch.softmax(-squares.clamp_min(_TINY).sqrt() / self.scale(), dim=1)

    def forward(self, counts: csr_matrix) -> torch.Tensor:
        """Vectors (n, dim) of texts by their word counts (n · S, V), a row for each segment; zeros without words."""
        used, columns = np.unique(counts.indices, return_inverse=True)
        words = torch.from_numpy(used.astype(np.int64))
        weights = functional.embedding(words, self.log_weights, sparse=True).exp()
        memberships = self.membership(functional.embedding(words, self.rows, sparse=True))
        # one bag gives both the weighted sum of the memberships and, in the last column, what to divide it by
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
        """:meth:`forward` in batches, as numpy (n, dim)."""
        size = batch * self.segments
        with torch.no_grad():
            return np.concatenate([self(counts[i : i + size]).numpy() for i in range(0, counts.shape[0], size)])

    def parameter_groups(self, rate: float) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Parameter groups of Adam and of sparse Adam, with their learning rates."""
        sparse = [{"params": [self.rows], "lr": rate}, {"params": [self.log_weights], "lr": 3 * rate}]
        others = [value for name, value in self.named_parameters() if name not in ("rows", "log_weights", "width")]
        return [{"params": others, "lr": rate}, {"params": [self.width], "lr": rate / 10}], sparse

    def export(self, table: WordVectors, vectors: WordVectors, info: dict[str, Any]) -> Model:
        """The model to serve: memberships of the trained words of ``table``, then of the other words of ``vectors``.

        ``info`` is saved with it as what the training found.
        """
        untrained = np.array([row for row, word in enumerate(vectors.words) if table.index[word] < 0], np.int64)
        words = table.words + [vectors.words[row] for row in untrained]
        with torch.no_grad():
            others = self.membership(torch.from_numpy(unit_rows(vectors.rows()[untrained])))
            memberships = torch.cat([self.membership(self.rows), others]).numpy()
            weights = np.concatenate([self.log_weights.exp().numpy()[:, 0], vectors.weights[untrained]])
        trained = WordVectors(words, memberships, weights, info={**vectors.info, "trained": info})
        return Model(
            self.name(),
            trained,
            "mean",
            "cosine",
            Layers(segments=self.segments, **self.head_arrays()),
            Alphas(alpha=0.75, max_alpha=1.0),
        )


def entropy(
    vectors: torch.Tensor, targets: torch.Tensor, centres: torch.Tensor, options: RoBoewOptions | None = None
) -> torch.Tensor:
    """Entropy of the classes in the soft clusters around ``centres``, in nats: eqs. 5 to 13, or the ``tied`` form.

    ``vectors`` s (N, K); ``targets`` π (N, C), each document's shares of the classes (rows sum to 1); ``centres``
    (C, K), one for each class. With the documents' memberships w in the clusters, the weight h_jk of class j in
    cluster k and its share p_jk, it is -1/N · Σ h_jk · log p_jk, and tied -1/N · Σ π_ij · log w_ij.
    """
    options = options or RoBoewOptions()
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
    """The mean vector of each class, documents counting by their shares of it; (N, K) and (N, C) give (C, K)."""
    shares = np.maximum(targets.sum(axis=0), _TINY)
    return np.asarray((targets / shares).T @ vectors, np.float32)
