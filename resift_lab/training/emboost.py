"""Train EmBoost's networks on queries and relevant documents by hard triplets (Cakaloglu et al. 2022, section 3.4).

Rows of words stay as they are but for the weights u of their sources; what is learned is the residual network on top,
the same for queries and documents. In a batch each query's negative is the nearest document that is not relevant to
it; the loss is max(0, |q - d⁺| - |q - d⁻| + m) (eq. 8), Adam with weight decay does the rest.
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
from resift_lab.training.options import EmBoostOptions
from resift_lab.training.progress import Progress

_MAX_WORDS = 64
_MAX_DISTANCE = 2  # of two points on the unit sphere


def train(
    table: WordVectors,
    blocks: Sequence[int],
    documents: Sequence[str],
    queries: Sequence[str],
    relevant: Sequence[Sequence[int]],
    options: EmBoostOptions,
    after_epoch: Callable[[Residual], None] | None = None,
    progress: Progress | None = None,
) -> Residual:
    """The trained model.

    ``blocks`` holds the dimensions of each of the table's sources, whose weights are learned; ``relevant`` the
    positions in ``documents`` of each query's relevant ones. ``after_epoch`` is called with the model of each epoch,
    ``progress`` with the numbers of queries seen and of all.

    Raises BadInput for a query without a relevant document, and if there are fewer than two queries.
    """
    without = [query for query, positions in zip(queries, relevant, strict=True) if not positions]
    if without:
        raise BadInput(f"query {without[0]!r} has no relevant document", value=without[0], expected="one")
    if len(queries) < 2:
        raise BadInput(f"{len(queries)} queries to train on", value=len(queries), expected="two or more")
    torch.manual_seed(options.seed)
    network = _Network(table.dim, blocks, options)
    adam = torch.optim.Adam(network.parameters(), lr=options.rate, weight_decay=options.decay)
    data = _TrainingData(table, documents, queries, relevant)
    size = min(options.batch, len(queries))
    for epoch in range(options.epochs):
        rng = np.random.default_rng([options.seed, epoch])
        order = rng.permutation(len(queries))
        for start in range(0, len(order) - size + 1, size):
            loss = _triplet_loss(network, data, order[start : start + size], options.margin, rng)
            adam.zero_grad()
            loss.backward()
            adam.step()
            if progress:
                progress(epoch * len(order) + start + size, options.epochs * len(order))
        if after_epoch:
            after_epoch(export(table, network, options))
    return export(table, network, options)


class _Network(torch.nn.Module):  # type: ignore[misc]
    """W, b and the sources' weights u."""

    def __init__(self, dim: int, blocks: Sequence[int], options: EmBoostOptions) -> None:
        super().__init__()
        taps = WINDOW if options.network == "convrr" else 1
        self.conv = torch.nn.Conv1d(dim, dim, taps, padding=taps // 2)
        self.sources = torch.nn.Parameter(torch.ones(len(blocks)))
        self.pooled, self.scale, self.blocks = taps == 1, options.scale, torch.tensor(blocks)

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Vectors of length 1 (n, D) of texts' words (n, L, D); ``mask`` (n, L) is 1 where there is a word, else 0."""
        words = words * torch.repeat_interleave(self.sources, self.blocks)
        count = mask.sum(1, keepdim=True).clamp(min=1)
        mean = words.sum(1) / count
        inputs = mean[:, :, None] if self.pooled else words.transpose(1, 2)
        hidden = torch.relu(self.conv(inputs))
        # the convolution's bias gives a value beyond a text's end too, which must not count
        residual = hidden[:, :, 0] if self.pooled else (hidden * mask[:, None, :]).sum(2) / count
        return torch.nn.functional.normalize(mean + self.scale * residual, dim=1)


class _TrainingData:
    """Words of the queries and of the documents, and which documents are relevant to which query."""

    def __init__(
        self,
        table: WordVectors,
        documents: Sequence[str],
        queries: Sequence[str],
        relevant: Sequence[Sequence[int]],
    ) -> None:
        self.rows = table.rows() * table.weights[:, None]
        self.rows /= _mean_length(table)
        self.queries, self.documents = first_words(table, queries), first_words(table, documents)
        self.relevant, self.is_relevant = relevant, [set(positions) for positions in relevant]


def _triplet_loss(
    network: _Network, data: _TrainingData, batch: NDArray[np.int64], margin: float, rng: np.random.Generator
) -> torch.Tensor:
    """eq. 8 over a batch of queries: each with one of its relevant documents, drawn by chance, and its negative."""
    chosen = [int(rng.choice(data.relevant[query])) for query in batch]
    queries = network(*padded(data.rows, [data.queries[query] for query in batch]))
    documents = network(*padded(data.rows, [data.documents[document] for document in chosen]))
    # not 0, where the derivative of the root is infinite
    distances = torch.sqrt((2 - 2 * queries @ documents.T).clamp(min=1e-6))
    relevant = torch.tensor([[document in data.is_relevant[query] for document in chosen] for query in batch])
    nearest = distances.masked_fill(relevant, torch.inf).min(dim=1).values
    return torch.relu(distances.diagonal() - nearest.clamp(max=_MAX_DISTANCE) + margin).mean()


def export(table: WordVectors, network: Any, options: EmBoostOptions) -> Residual:
    """The model to serve; the sources' weights go into the rows."""
    weights = torch.repeat_interleave(network.sources.detach(), network.blocks).numpy()
    rows = np.asarray(table.rows() * weights / _mean_length(table), np.float32)
    words = WordVectors(table.words, rows, table.weights, info={**table.info, "trained": asdict(options)})
    kernels = network.conv.weight.detach().permute(2, 1, 0).contiguous().numpy()
    return Residual(options.network, words, kernels, network.conv.bias.detach().numpy(), options.scale)


def _mean_length(table: WordVectors) -> float:
    """Mean length of the weighted rows, by which they are divided: the network is to see rows of length about 1."""
    return max(float(np.linalg.norm(table.rows() * table.weights[:, None], axis=1).mean()), 1e-12)


def first_words(table: WordVectors, texts: Sequence[str]) -> list[Any]:
    """Rows of each text's first 64 known words."""
    ids, offsets = table.ids(texts)
    return [part[:_MAX_WORDS] for part in np.split(ids, offsets[1:-1])]


def padded(rows: Floats, texts: Sequence[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of the texts' words (n, L, D), zeros after a text's end, and a mask (n, L), 1 where there is a word."""
    longest = max(1, *(len(ids) for ids in texts))
    words = np.zeros((len(texts), longest, rows.shape[1]), np.float32)
    mask = np.zeros((len(texts), longest), np.float32)
    for text, ids in enumerate(texts):
        words[text, : len(ids)] = rows[ids]
        mask[text, : len(ids)] = 1
    return torch.from_numpy(words), torch.from_numpy(mask)
