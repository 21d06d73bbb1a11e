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

from resift.arrays import Floats
from resift.encoders.residual import WINDOW, Residual
from resift.errors import BadInput
from resift.training.options import EmBoostOptions
from resift.vectors.table import WordVectors

Progress = Callable[[int, int], None]
_LONGEST = 64


class _Network(torch.nn.Module):  # type: ignore[misc]
    """W, b and the sources' weights u."""

    def __init__(self, dim: int, blocks: Sequence[int], options: EmBoostOptions) -> None:
        super().__init__()
        taps = WINDOW if options.network == "convrr" else 1
        self.conv = torch.nn.Conv1d(dim, dim, taps, padding=taps // 2)
        self.sources = torch.nn.Parameter(torch.ones(len(blocks)))
        self.pooled, self.scale, self.blocks = taps == 1, options.scale, torch.tensor(blocks)

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Vectors of length 1 (n, D) of texts' words (n, L, D), ``mask`` (n, L) telling where there is one."""
        words = words * torch.repeat_interleave(self.sources, self.blocks)
        count = mask.sum(1, keepdim=True).clamp(min=1)
        mean = words.sum(1) / count
        inputs = mean[:, :, None] if self.pooled else words.transpose(1, 2)
        hidden = torch.relu(self.conv(inputs))
        held = mask[:, None, :]
        residual = hidden[:, :, 0] if self.pooled else (hidden * held).sum(2) / count
        return torch.nn.functional.normalize(mean + self.scale * residual, dim=1)


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
    """The trained model. ``blocks``: dimensions of each of the table's sources, whose weights are learned.

    ``relevant`` are places in ``documents``. Raises BadInput for a query without a relevant document, and where there
    are fewer than two queries.
    """
    bare = [query for query, found in zip(queries, relevant, strict=True) if not found]
    if bare:
        raise BadInput(f"query {bare[0]!r} has no relevant document", value=bare[0], expected="one")
    if len(queries) < 2:
        raise BadInput(f"{len(queries)} queries to train on", value=len(queries), expected="two or more")
    torch.manual_seed(options.seed)
    network = _Network(table.dim, blocks, options)
    adam = torch.optim.Adam(network.parameters(), lr=options.rate, weight_decay=options.decay)
    rows = table.rows() * table.weights[:, None]
    rows /= max(float(np.linalg.norm(rows, axis=1).mean()), 1e-12)
    asked, told = (_words(table, texts) for texts in (queries, documents))
    sets = [set(found) for found in relevant]
    size = min(options.batch, len(queries))
    for epoch in range(options.epochs):
        rng = np.random.default_rng([options.seed, epoch])
        order = rng.permutation(len(queries))
        for start in range(0, len(order) - size + 1, size):
            batch = order[start : start + size]
            chosen = [int(rng.choice(relevant[query])) for query in batch]
            left = network(*_padded(rows, [asked[query] for query in batch]))
            right = network(*_padded(rows, [told[place] for place in chosen]))
            apart = torch.sqrt((2 - 2 * left @ right.T).clamp(min=1e-6))
            own = torch.tensor([[place in sets[query] for place in chosen] for query in batch])
            nearest = apart.masked_fill(own, torch.inf).min(dim=1).values
            loss = torch.relu(apart.diagonal() - nearest.clamp(max=2) + options.margin).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
            if progress:
                progress(epoch * len(order) + start + size, options.epochs * len(order))
        if after_epoch:
            after_epoch(exported(table, network, options))
    return exported(table, network, options)


def exported(table: WordVectors, network: Any, options: EmBoostOptions) -> Residual:
    """The model for serving; the sources' weights go into the rows."""
    weights = torch.repeat_interleave(network.sources.detach(), network.blocks).numpy()
    rows = table.rows() * weights
    length = float(np.linalg.norm(table.rows() * table.weights[:, None], axis=1).mean())
    info = {**table.info, "trained": asdict(options)}
    words = WordVectors(table.words, np.asarray(rows / max(length, 1e-12), np.float32), table.weights, info=info)
    kernels = network.conv.weight.detach().permute(2, 1, 0).contiguous().numpy()
    return Residual(options.network, words, kernels, network.conv.bias.detach().numpy(), options.scale)


def _words(table: WordVectors, texts: Sequence[str]) -> list[Any]:
    """Rows of each text's first 64 known words."""
    ids, offsets = table.ids(texts)
    return [part[:_LONGEST] for part in np.split(ids, offsets[1:-1])]


def _padded(rows: Floats, texts: Sequence[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(1, *(len(ids) for ids in texts))
    words = np.zeros((len(texts), longest, rows.shape[1]), np.float32)
    mask = np.zeros((len(texts), longest), np.float32)
    for place, ids in enumerate(texts):
        words[place, : len(ids)] = rows[ids]
        mask[place, : len(ids)] = 1
    return torch.from_numpy(words), torch.from_numpy(mask)
