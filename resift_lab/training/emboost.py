"""Training of EmBoost's networks with hard triplets (Cakaloglu, Xu and Raghavan 2022, section 3.4).

Training changes a residual network on top of the word vectors, which is the same for queries and documents, and a
weight for each source of word vectors. With ``EmBoostOptions.paper``, the weights of the sources are fixed, as in the
paper. The word vectors themselves do not change.

The loss of a query is max(0, |q - d⁺| - |q - d⁻| + m) (equation 8), where q is the vector of the query, d⁺ the vector
of a relevant document, d⁻ the vector of an irrelevant document (the negative), and m the margin. The negative is the
nearest irrelevant document in the batch. Semi-hard negatives are the nearest of the irrelevant documents that are
farther from the query than the relevant document. The optimiser is Adam with weight decay.

The code differs from the paper in two points. If a query has several relevant documents, one of them is drawn in each
step, and the paper takes the farthest. The word vectors of each source are centred and scaled
(:func:`resift_lab.vectors.mixture.mix_vectors`), and the paper's are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.residual import WINDOW, Residual
from resift.errors import BadInput
from resift.vectors.table import WordVectors
from resift_lab.training.judged_queries import JudgedQueries
from resift_lab.training.options import EmBoostOptions
from resift_lab.training.progress import Progress

# Number of words at the beginning of a text that training uses.
_MAX_WORDS = 64
# Largest distance between two points on the unit sphere.
_MAX_DISTANCE = 2


def train_emboost(
    table: WordVectors,
    blocks: Sequence[int],
    judged: JudgedQueries,
    options: EmBoostOptions,
    after_epoch: Callable[[Residual], None] | None = None,
    progress: Progress | None = None,
) -> Residual:
    """Train EmBoost's residual network on queries with relevant documents.

    Args:
        table: The word vectors to start from, a concatenation of vectors from one or more sources
            (:func:`resift_lab.vectors.mixture.mix_vectors`).
        blocks: The number of dimensions of each source. A weight for each source is trained, unless ``options.paper``
            is true.
        judged: The queries with their relevant documents.
        options: The settings of the training.
        after_epoch: A function that is called with the current model after each epoch.
        progress: A function that is called with the number of processed queries and the total number.

    Raises:
        BadInput: If a query has no relevant document, or there are fewer than two queries.
    """
    queries = judged.queries
    without = [query for query, positions in zip(queries, judged.relevant, strict=True) if not positions]
    if without:
        raise BadInput(
            f"query {without[0]!r} has no relevant document", value=without[0], expected="a relevant document or more"
        )
    if len(queries) < 2:
        raise BadInput(f"{len(queries)} queries to train on", value=len(queries), expected="two or more")
    torch.manual_seed(options.seed)
    network = _Network(table.dim, blocks, options)
    adam = torch.optim.Adam(network.parameters(), lr=options.learning_rate, weight_decay=options.decay)
    data = _TrainingData(table, judged, network.pooled)
    size, epochs = min(options.batch_size, len(queries)), options.epochs_for(len(queries))
    for epoch in range(epochs):
        rng = np.random.default_rng([options.seed, epoch])
        order = rng.permutation(len(queries))
        for start in range(0, len(order) - size + 1, size):
            loss = _triplet_loss(network, data, order[start : start + size], options, rng)
            adam.zero_grad()
            loss.backward()
            adam.step()
            if progress:
                progress(epoch * len(order) + start + size, epochs * len(order))
        if after_epoch:
            after_epoch(export_network(table, network, options))
    return export_network(table, network, options)


class _Network(torch.nn.Module):  # type: ignore[misc]
    """EmBoost's residual network in PyTorch.

    The word vectors may be concatenated from several sources. In addition to its layers, the network trains a weight
    for each source. With ``options.paper``, these weights are fixed, as in the paper.

    Args:
        dim: The number of dimensions of the word vectors.
        blocks: For each source, its number of dimensions in the concatenated word vectors.
        options: The settings of the training.

    Source:
        Cakaloglu, Xu and Raghavan 2022, equations 4, 6 and 7.
    """

    def __init__(self, dim: int, blocks: Sequence[int], options: EmBoostOptions) -> None:
        super().__init__()
        taps = WINDOW if options.network == "convrr" else 1
        layers = [torch.nn.Conv1d(dim, dim, taps, padding=taps // 2) for _ in range(options.layers)]
        self.layers = torch.nn.ModuleList(layers)
        self.sources = torch.nn.Parameter(torch.ones(len(blocks)), requires_grad=not options.paper)
        self.pooled, self.scale, self.blocks = taps == 1, options.output_scale, torch.tensor(blocks)

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Compute a vector for each of n texts from its word vectors.

        Args:
            words: The word vectors of the texts, padded to L words of D dimensions, shape (n, L, D).
            mask: 1 for each word and 0 after the end of a text, shape (n, L).

        Returns:
            Vectors of unit length, shape (n, D).
        """
        words = words * torch.repeat_interleave(self.sources, self.blocks)
        count = mask.sum(1, keepdim=True).clamp(min=1)
        mean = words.sum(1) / count
        residual = self._apply_to_means(mean) if self.pooled else self._apply_to_words(words, mask).sum(2) / count
        return torch.nn.functional.normalize(mean + self.scale * residual, dim=1)

    def _apply_to_means(self, hidden: torch.Tensor) -> torch.Tensor:
        """Apply the layers to mean word vectors of shape (n, D)."""
        for layer in self.layers:
            # A convolution over a single position is a matrix product, which is three times as fast.
            hidden = torch.relu(torch.nn.functional.linear(hidden, layer.weight[:, :, 0], layer.bias))
        return hidden

    def _apply_to_words(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Apply the layers to the word vectors of n texts of at most L words.

        Args:
            words: Word vectors of D dimensions, shape (n, L, D).
            mask: 1 for each word of a text and 0 after its end, shape (n, L).

        Returns:
            Vectors of shape (n, D, L).
        """
        hidden = words.transpose(1, 2)
        for layer in self.layers:
            # Because of the bias, the convolution is not 0 after the end of a text, so the mask is applied again.
            hidden = torch.relu(layer(hidden)) * mask[:, None, :]
        return hidden


class _TrainingData:
    """Queries and documents as word ids, with the word vectors and the relevance judgements to train EmBoost on.

    Args:
        table: The word vectors to start from.
        judged: The documents, and the queries with their relevant documents.
        pooled: Whether the network needs only the mean word vector of a text, as the fully connected network does. Each
            text is then stored as a single word that has the mean as its vector. This saves memory: the word vectors of
            a batch of 2,000 queries would take about a gigabyte.

    Attributes:
        rows: The vectors of V words with D dimensions, multiplied by the weights of the words, shape (V, D). All are
            divided by the mean length of these products.
        queries: The row numbers of each query's words in ``rows``.
        documents: The row numbers of each document's words in ``rows``.
        relevant: For each query, the positions of its relevant documents in ``documents``.
    """

    def __init__(self, table: WordVectors, judged: JudgedQueries, pooled: bool) -> None:
        self.rows = table.rows() * table.weights[:, None]
        self.rows /= _mean_vector_length(table)
        self.queries, self.documents = first_words(table, judged.queries), first_words(table, judged.documents)
        if pooled:
            texts, count = [*self.queries, *self.documents], len(self.queries)
            self.rows = np.stack([self.rows[ids].sum(axis=0) / max(1, len(ids)) for ids in texts])
            self.queries = [np.array([row]) for row in range(count)]
            self.documents = [np.array([row]) for row in range(count, len(texts))]
        self.relevant = judged.relevant


def _triplet_loss(
    network: _Network,
    data: _TrainingData,
    batch: NDArray[np.int64],
    options: EmBoostOptions,
    rng: np.random.Generator,
) -> torch.Tensor:
    """Return the mean triplet loss of a batch of queries.

    The positive document of a query is drawn from its relevant documents. Its negative document is a positive document
    of another query in the batch that is not relevant to this query. There are two ways to choose the negative
    document:

    - ``hardest``: the nearest of these documents
    - ``semi-hard``: the nearest of these documents that is farther than the positive document, or the farthest of all
      if none is farther than the positive document

    Args:
        network: The network, which encodes queries and documents.
        data: The queries, documents and relevance judgements.
        batch: Positions of the queries.
        options: The settings, with the choice of the negative document, and the margin by which this document should be
            farther from the query than the positive document.
        rng: Random generator that draws the positive documents.

    Source:
        Cakaloglu, Xu and Raghavan 2022, section 3.4, equation 8.
    """
    chosen = [int(rng.choice(data.relevant[query])) for query in batch]
    queries = network(*padded_word_vectors(data.rows, [data.queries[query] for query in batch]))
    documents = network(*padded_word_vectors(data.rows, [data.documents[document] for document in chosen]))
    # The derivative of the square root is infinite at 0.
    distances = torch.sqrt((2 - 2 * queries @ documents.T).clamp(min=1e-6))
    relevant = torch.from_numpy(_relevance_matrix([data.relevant[query] for query in batch], chosen))
    positive = distances.diagonal()
    negative = distances.masked_fill(relevant, torch.inf).min(dim=1).values
    if options.negatives == "semi-hard":
        too_near = distances <= positive[:, None]
        semi_hard = distances.masked_fill(relevant | too_near, torch.inf).min(dim=1).values
        farthest = distances.masked_fill(relevant, 0).max(dim=1).values
        has_negative = negative.isfinite()
        negative = torch.where(semi_hard.isfinite() | ~has_negative, semi_hard, farthest)
    return torch.relu(positive - negative.clamp(max=_MAX_DISTANCE) + options.margin).mean()


def _relevance_matrix(relevant: Sequence[Sequence[int]], documents: Sequence[int]) -> NDArray[np.bool_]:
    """Return which of m documents are relevant to each of n queries, shape (n, m).

    Args:
        relevant: The positions of each query's relevant documents.
        documents: The positions of the m documents. A document can occur several times.
    """
    columns: dict[int, list[int]] = {}
    for column, document in enumerate(documents):
        columns.setdefault(document, []).append(column)
    matrix = np.zeros((len(relevant), len(documents)), bool)
    for row, positions in enumerate(relevant):
        for document in positions:
            matrix[row, columns.get(document, [])] = True
    return matrix


def export_network(table: WordVectors, network: Any, options: EmBoostOptions) -> Residual:
    """Convert a trained network to a model that does not need PyTorch.

    A word vector consists of blocks of dimensions from several sources. In the exported model, each block is multiplied
    by the weight that training has found for its source.

    Args:
        table: The word vectors that the network was trained on.
        network: The trained network.
        options: The settings of the training, which are saved with the model.
    """
    weights = torch.repeat_interleave(network.sources.detach(), network.blocks).numpy()
    rows = np.asarray(table.rows() * weights / _mean_vector_length(table), np.float32)
    words = WordVectors(table.words, rows, table.weights, info={**table.info, "trained": asdict(options)})
    kernels = np.stack([layer.weight.detach().permute(2, 1, 0).contiguous().numpy() for layer in network.layers])
    bias = np.stack([layer.bias.detach().numpy() for layer in network.layers])
    if options.layers == 1:
        kernels, bias = kernels[0], bias[0]
    return Residual(options.network, words, kernels, bias, options.output_scale)


def _mean_vector_length(table: WordVectors) -> float:
    """Return the mean length of a table's word vectors, each multiplied by the weight of its word.

    Training divides all vectors by this length.
    """
    return max(float(np.linalg.norm(table.rows() * table.weights[:, None], axis=1).mean()), 1e-12)


def first_words(table: WordVectors, texts: Sequence[str]) -> list[Any]:
    """Look up the first 64 known words of each text.

    Args:
        table: The word vectors.
        texts: The texts to look up.

    Returns:
        For each text, the row numbers of its words in the table.
    """
    ids, offsets = table.ids(texts)
    return [text[:_MAX_WORDS] for text in np.split(ids, offsets[1:-1])]


def padded_word_vectors(rows: Floats, texts: Sequence[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the word vectors of n texts as a single array. Short texts are padded with zeros.

    Args:
        rows: The vectors of all V words, shape (V, D) for D dimensions.
        texts: The row numbers of each text's words.

    Returns:
        The word vectors of each text, shape (n, L, D), where L is the number of words in the longest text; and a mask
        of shape (n, L), which is 1 for each word and 0 after the end of a text.
    """
    longest = max(1, *(len(ids) for ids in texts))
    words = np.zeros((len(texts), longest, rows.shape[1]), np.float32)
    mask = np.zeros((len(texts), longest), np.float32)
    for text, ids in enumerate(texts):
        words[text, : len(ids)] = rows[ids]
        mask[text, : len(ids)] = 1
    return torch.from_numpy(words), torch.from_numpy(mask)
