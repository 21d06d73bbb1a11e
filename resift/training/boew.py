"""RO-BoEW: bag of embedded words, every part of it learned for retrieval (Passalis and Tefas 2018, section 3).

A word's vector x becomes memberships in K codewords, a text is their weighted mean z, and its vector is s = r ⊙ z.
Word vectors, codebook V, width σ and mask r are lowered towards pure clusters around one centre a class: by the
entropy of the classes within clusters (eq. 13), or, ``tied``, by the cross-entropy of each document's cluster and
class, which also says whose cluster it should be. Beyond the paper, words' pooling weights are learned too, and the
centres, which start as the classes' means, follow with a small rate. A step touches its batch's words alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gensim.parsing.porter import PorterStemmer
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from torch.nn import functional

from resift.arrays import Floats
from resift.encoders.codebook import learn_codebook
from resift.encoders.model import Model
from resift.errors import BadInput
from resift.text import tokenize
from resift.training.options import RoBoewOptions
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors

_TINY = 1e-12
_OUTSIDE = 0.01


def vocabulary(texts: Sequence[str], vectors: WordVectors, min_count: int, seed: int) -> WordVectors:
    """Words of at least ``min_count`` texts, most frequent first, with rows of length 1 (V, D) and weights to start.

    A word without a row in ``vectors`` takes that of the first word with the same Porter stem, which may be the word
    itself where a corpus holds stems; else a small random one and the largest weight. Raises BadInput where no word is
    frequent enough or none has a row.
    """
    tokens = [tokenize(text) for text in texts]
    spread = Counter(word for words in tokens for word in set(words))
    words = [
        word for word, _ in Counter(w for words in tokens for w in words).most_common() if spread[word] >= min_count
    ]
    rows = np.array([vectors.index[word] for word in words], np.int64)
    if not (rows >= 0).any():
        raise BadInput(
            f"{len(words)} words in {min_count} texts or more, none of them in the word vectors",
            expected="texts in the vectors' language",
        )
    if (rows < 0).any():
        stem, stems = PorterStemmer().stem, dict[str, int]()
        for row, word in enumerate(vectors.words):
            stems.setdefault(stem(word), row)
        for place in np.flatnonzero(rows < 0):
            rows[place] = stems.get(words[place], stems.get(stem(words[place]), -1))
    known = rows >= 0
    start = (_OUTSIDE * np.random.default_rng(seed).normal(size=(len(words), vectors.dim))).astype(np.float32)
    start[known] = unit_rows(vectors.rows()[rows[known]])
    return WordVectors(words, start, np.where(known, vectors.weights[rows], vectors.weights.max()))


class RoBoew(torch.nn.Module):  # type: ignore[misc]
    """The network: rows X (V, D), log weights (V, 1), codebook V (K, D), width σ () and mask r (K,), all float32."""

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
        weights = np.maximum(table.weights, 1e-3 * table.weights.max())[:, None]
        self.rows = torch.nn.Parameter(torch.from_numpy(table.rows().copy()))
        self.log_weights = torch.nn.Parameter(torch.from_numpy(np.log(weights)))
        self.codebook = torch.nn.Parameter(torch.from_numpy(codebook.copy()))
        self._shape(options)

    def _shape(self, options: RoBoewOptions) -> None:
        """Make the width and what follows the pool."""
        self.width = torch.nn.Parameter(torch.tensor(options.sigma))
        self.mask = torch.nn.Parameter(torch.ones(options.codewords))

    def name(self) -> str:
        """The exported model's name, with its sizes."""
        return f"ro-boew:{len(self.codebook)}"

    def scale(self) -> torch.Tensor:
        """What distances are divided by: σ²."""
        return self.width.square()

    def finish(self, pooled: torch.Tensor) -> torch.Tensor:
        """s = r ⊙ z (eq. 4); ``pooled`` z (n, K), gives (n, K)."""
        return pooled * self.mask

    def parts(self) -> dict[str, Any]:
        """What an exported model takes besides its table."""
        return {"mask": self.mask.detach().numpy().copy()}

    def membership(self, rows: torch.Tensor) -> torch.Tensor:
        """u = softmax(-‖x - v_k‖ / scale) (eqs. 1 and 2); ``rows`` (n, D), gives (n, K)."""
        book = self.codebook
        squares = rows.square().sum(1, keepdim=True) + book.square().sum(1) - 2 * rows @ book.T
        return torch.softmax(-squares.clamp_min(_TINY).sqrt() / self.scale(), dim=1)

    def forward(self, counts: csr_matrix) -> torch.Tensor:
        """Vectors (n, dim) of texts by their counts (n · S, V); one without words has the zero vector."""
        used, local = np.unique(counts.indices, return_inverse=True)
        places = torch.from_numpy(used.astype(np.int64))
        weights = functional.embedding(places, self.log_weights, sparse=True).exp()
        memberships = self.membership(functional.embedding(places, self.rows, sparse=True))
        sums = functional.embedding_bag(
            torch.from_numpy(local.ravel()),
            torch.cat([weights * memberships, weights], dim=1),
            torch.from_numpy(counts.indptr[:-1].astype(np.int64)),
            mode="sum",
            per_sample_weights=torch.from_numpy(counts.data),
        )
        pooled = sums[:, :-1] / sums[:, -1:].clamp_min(_TINY)
        return self.finish(pooled.reshape(-1, self.segments * pooled.shape[1]))

    def encode(self, counts: csr_matrix, batch: int = 512) -> Floats:
        """:meth:`forward` in batches, as numpy (n, dim)."""
        size = batch * self.segments
        with torch.no_grad():
            return np.concatenate([self(counts[i : i + size]).numpy() for i in range(0, counts.shape[0], size)])

    def groups(self, rate: float) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Parameter groups of Adam and of lazy Adam, with their rates."""
        lazy = [{"params": [self.rows], "lr": rate}, {"params": [self.log_weights], "lr": 3 * rate}]
        others = [value for name, value in self.named_parameters() if name not in ("rows", "log_weights", "width")]
        return [{"params": others, "lr": rate}, {"params": [self.width], "lr": rate / 10}], lazy

    def export(self, table: WordVectors, vectors: WordVectors, info: dict[str, Any]) -> Model:
        """The model for numpy: memberships of the trained words, and then of the other words of ``vectors``."""
        rest = np.array([row for row, word in enumerate(vectors.words) if table.index[word] < 0], np.int64)
        words = table.words + [vectors.words[row] for row in rest]
        with torch.no_grad():
            others = self.membership(torch.from_numpy(unit_rows(vectors.rows()[rest])))
            memberships = torch.cat([self.membership(self.rows), others]).numpy()
            weights = np.concatenate([self.log_weights.exp().numpy()[:, 0], vectors.weights[rest]])
        trained = WordVectors(words, memberships, weights, info={**vectors.info, "trained": info})
        return Model(self.name(), trained, "mean", "cosine", segments=self.segments, max_alpha=1.0, **self.parts())


def entropy(
    vectors: torch.Tensor, targets: torch.Tensor, centres: torch.Tensor, options: RoBoewOptions | None = None
) -> torch.Tensor:
    """Entropy of classes in the soft clusters around ``centres``, in nats: eqs. 5 to 13, or the ``tied`` form.

    ``vectors`` s (N, K), ``targets`` π (N, C) each document's shares of the classes (rows sum to 1), ``centres``
    (C, K), one a class. E = -1/N · Σ h_jk · log p_jk; tied it is -1/N · Σ π_ij · log w_ij, w being the memberships in
    clusters.
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
    """Each class's mean vector, documents counting by their share of it; (N, K) and (N, C) give (C, K)."""
    shares = np.maximum(targets.sum(axis=0), _TINY)
    return np.asarray((targets / shares).T @ vectors, np.float32)
