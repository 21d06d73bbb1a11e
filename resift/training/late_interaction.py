"""Learn a reranker from queries and their relevant documents: word rows and weights of a :class:`LateInteraction`.

A query is to score its relevant document above the engine's other candidates: cross-entropy of picking it among hard
negatives that BM25 ranks high. The gradient is worked out by hand, through the maximum to the one word pair of each
query word and document that made it; Adam moves the rows and log weights of the batch's words alone. Words that many
queries hold ("when", "how") get shifts of their own in queries. Constants were chosen on the first 70 % of the
questions of a SQuAD part. Needs numpy and scipy alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput, at_least
from resift.ranking.late_interaction import LateInteraction, PreparedDocuments
from resift.text import tokenize
from resift.training.adam import Adam
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors

Progress = Callable[[int, int], None]
_FLOOR, _LEAST_BATCH, _LEAST_STEPS, _MOST_EPOCHS = 0.02, 8, 150, 20
_SCALE = 25.0


@dataclass(frozen=True)
class LateInteractionOptions:
    """Settings of :func:`fit`; the defaults are the recipe.

    ``epochs`` passes over the queries; ``batch`` queries a step, fewer where there are few (a hundredth of them, eight
    at least); ``negatives`` documents against each relevant one, drawn anew each epoch from the ``pool`` best
    candidates; ``rate``, ``weight_rate`` and ``shift_rate``: Adam's for word rows, log weights and query shifts,
    falling to nothing; ``frequent``: words of so many training queries get a shift.
    """

    epochs: int = 3
    batch: int = 64
    negatives: int = 12
    pool: int = 30
    rate: float = 5e-4
    weight_rate: float = 0.01
    shift_rate: float = 1e-3
    frequent: int = 30
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(1, self, "epochs", "batch", "negatives", "pool", "frequent")
        at_least(0, self, "rate", "weight_rate", "shift_rate", "seed")
        if self.negatives > self.pool:
            raise BadInput(f"{self.negatives} negatives of {self.pool} candidates", expected="at most as many")

    def batch_of(self, queries: int) -> int:
        """Queries a step."""
        return min(self.batch, max(_LEAST_BATCH, queries // 100))

    def enough(self, queries: int) -> int:
        """Epochs over so many queries: ``epochs``, or as many up to 20 as make 150 steps."""
        steps = -(-queries // self.batch_of(queries))
        return max(self.epochs, min(_MOST_EPOCHS, -(-_LEAST_STEPS // steps)))


def fit(
    start: LateInteraction,
    documents: PreparedDocuments,
    queries: Sequence[str],
    relevant: Sequence[Sequence[int]],
    candidates: Sequence[NDArray[np.int64]],
    options: LateInteractionOptions,
    after_epoch: Callable[[LateInteraction], None] | None = None,
    progress: Progress | None = None,
) -> LateInteraction:
    """The trained reranker; ``documents`` are as ``start`` prepared them, ``relevant`` and ``candidates`` are places.

    ``candidates``: for each query the engine's best, best first; those that are relevant are left out. ``after_epoch``
    gets the reranker of each epoch. The same call gives the same result on the same machine.

    Raises BadInput for a query without a relevant document, or without any other candidate.
    """
    run = _Training(start, documents, queries, relevant, candidates, options)
    total = options.epochs * len(queries)
    for epoch in range(options.epochs):
        for done in run.epoch(epoch):
            if progress:
                progress(epoch * len(queries) + done, total)
        if after_epoch:
            after_epoch(run.exported())
    return run.exported()


class _Training:
    """Arrays in training."""

    def __init__(
        self,
        start: LateInteraction,
        documents: PreparedDocuments,
        queries: Sequence[str],
        relevant: Sequence[Sequence[int]],
        candidates: Sequence[NDArray[np.int64]],
        options: LateInteractionOptions,
    ) -> None:
        self.start, self.documents, self.options = start, documents, options
        table, width = start.table, len(start.table)
        self.queries = []
        count: Counter[int] = Counter()
        for text in queries:
            ids = [row for row in dict.fromkeys(map(table.index.__getitem__, tokenize(text))) if row >= 0]
            count.update(ids)
            self.queries.append(np.array(ids, np.int64))
        self.relevant = [np.array(sorted(found), np.int64) for found in relevant]
        self.negatives = []
        for place, (found, best) in enumerate(zip(self.relevant, candidates, strict=True)):
            if not len(found):
                raise BadInput(
                    f"query {queries[place]!r} has no relevant document", value=queries[place], expected="one"
                )
            others = best[~np.isin(best, found)][: options.pool]
            if not len(others):
                raise BadInput(
                    f"query {queries[place]!r} has no candidate beside the relevant ones",
                    value=queries[place],
                    expected="documents that are not relevant",
                )
            self.negatives.append(others)
        self.rows = np.array(table.rows())
        self.logs = np.log(np.maximum(table.weights, 1e-6)).astype(np.float32)
        often = np.array([word for word, number in count.items() if number >= options.frequent], np.int64)
        self.shifted = np.zeros(width, np.int64) - 1
        self.shifted[np.sort(often)] = np.arange(len(often))
        self.often = np.sort(often)
        self.shifts = np.zeros((max(1, len(often)), table.dim), np.float32)
        for word, shift in start.shifts.items():
            if (place := self.shifted[table.index[word]]) >= 0:
                self.shifts[place] = shift
        self.globals = np.array([start.threshold, start.length, np.log(_SCALE)], np.float32)[:, None]
        self.slope, self.touched = np.zeros_like(self.rows), np.zeros(width, bool)
        self.adams = {
            "rows": Adam(self.rows, options.rate),
            "logs": Adam(self.logs, options.weight_rate),
            "shifts": Adam(self.shifts, options.shift_rate),
            "globals": Adam(self.globals, options.weight_rate),
        }
        self.known = documents.words < width
        self.step = 0
        self.batch = options.batch_of(len(queries))
        self.steps = options.epochs * -(-len(queries) // self.batch)

    def epoch(self, number: int) -> Iterator[int]:
        """One pass, in an order that seed and epoch give; yields how many queries were seen."""
        options = self.options
        rng = np.random.default_rng([options.seed, number])
        order = rng.permutation(len(self.queries))
        for start in range(0, len(order), self.batch):
            batch = order[start : start + self.batch]
            self._step(batch, rng)
            yield start + len(batch)

    def _step(self, batch: NDArray[np.int64], rng: np.random.Generator) -> None:
        logs, shifts = np.zeros_like(self.logs), np.zeros_like(self.shifts)
        general = np.zeros_like(self.globals)
        asked = np.zeros(len(self.logs), bool)
        for query in batch:
            words = self.queries[query]
            if not len(words):
                continue
            positive = self.relevant[query][rng.integers(len(self.relevant[query]))]
            others = rng.permutation(self.negatives[query])[: self.options.negatives]
            self._query(words, np.concatenate([[positive], others]), logs, shifts, general)
            asked[words] = True
        decay = max(1 - self.step / self.steps, _FLOOR)
        self.step += 1
        touched, scale = np.flatnonzero(self.touched), np.float32(1 / len(batch))
        rows = self.rows[touched]
        slope = self.slope[touched]
        slope -= (slope * rows).sum(axis=1, keepdims=True) * rows
        self.adams["rows"].update(touched, slope * scale, self.step, decay)
        self.rows[touched] = unit_rows(self.rows[touched])
        words = np.flatnonzero(asked)
        self.adams["logs"].update(words, logs[words] * scale, self.step, decay)
        moved = self.shifted[words]
        moved = moved[moved >= 0]
        self.adams["shifts"].update(moved, shifts[moved] * scale, self.step, decay)
        self.adams["globals"].update(np.arange(3), general * scale, self.step, decay)
        np.clip(self.globals[:2], 0, np.array([[0.9], [10]], np.float32), out=self.globals[:2])
        self.slope[touched], self.touched[touched] = 0, False

    def _query(
        self, words: NDArray[np.int64], chosen: NDArray[np.int64], logs: Floats, shifts: Floats, general: Floats
    ) -> None:
        """Add one query's slopes: ``chosen`` are documents, the first one relevant."""
        held = self.documents
        spans = [held.positions[held.starts[place] : held.starts[place + 1]] for place in chosen]
        sizes = np.array([len(span) for span in spans])
        if not sizes.all():
            spans, chosen, sizes = self._filled(spans, chosen, sizes)
            if len(chosen) < 2:
                return
        uniq, places = np.unique(np.concatenate(spans), return_inverse=True)
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        ids = held.words[uniq]
        known = ids < len(self.rows)
        found = np.zeros((len(ids), self.rows.shape[1]), np.float32)
        found[known] = self.rows[ids[known]]
        asked = self.rows[words]
        own = self.shifted[words]
        asked[own >= 0] += self.shifts[own[own >= 0]]
        gathered = (asked @ found.T)[:, places]
        best = np.maximum.reduceat(gathered, starts, axis=1)
        threshold, length, scale = self.globals[:, 0]
        kappa, weights = np.exp(scale), np.exp(self.logs[words])
        match, total = np.maximum(best - threshold, 0), weights.sum()
        lengths = held.lengths[chosen] / np.float32(self.start.mean_length)
        norms = 1 + length * lengths
        scores = weights @ match / (total * norms)
        logits = kappa * scores
        powers = np.exp(logits - logits.max())
        delta = powers / powers.sum()
        delta[0] -= 1
        pull = kappa * delta
        by_match = (weights[:, None] * (pull / (total * norms))) * (match > 0)
        general[:, 0] += (
            -by_match.sum(),
            -(pull * scores * lengths / norms).sum(),
            (delta * logits).sum(),
        )
        logs[words] += weights * ((match / norms - scores) @ pull) / total
        spread = np.repeat(by_match, sizes, axis=1) * (gathered == np.repeat(best, sizes, axis=1))
        by_pair = np.zeros((len(ids), len(words)), np.float32)
        np.add.at(by_pair, places, spread.T)
        by_query = by_pair.T @ found
        self.slope[ids[known]] += (by_pair @ asked)[known]
        self.slope[words] += by_query
        self.touched[ids[known]] = True
        self.touched[words] = True
        shifts[own[own >= 0]] += by_query[own >= 0]

    @staticmethod
    def _filled(spans: Any, chosen: Any, sizes: Any) -> tuple[Any, Any, Any]:
        """Only documents that hold a word; none where the relevant one holds none."""
        if not sizes[0]:
            return [], chosen[:0], sizes[:0]
        kept = sizes > 0
        return [span for span, keep in zip(spans, kept, strict=True) if keep], chosen[kept], sizes[kept]

    def exported(self) -> LateInteraction:
        """The reranker as it is now."""
        table = self.start.table
        threshold, length, _ = self.globals[:, 0].tolist()
        words = WordVectors(table.words, self.rows.copy(), np.exp(self.logs), info=table.info)
        shifts = {table.words[word]: self.shifts[place].copy() for place, word in enumerate(self.often)}
        return LateInteraction(
            self.start.name,
            words,
            shifts,
            threshold=threshold,
            length=length,
            mean_length=self.start.mean_length,
            alpha=self.start.alpha,
            info=self.start.info,
        )
