"""Whether vectors make the served ranking better, and at which weight: found out without judged queries.

Documents that no training has seen are asked for by people's means: a few telling words of one, half of which it does
not hold, since people ask in words of their own. These are taken out of the document, the others once. It is to be
found among all documents, by BM25's first 100 hits times exp(beta · similarity), as a search is served. The recipe was
chosen by how well its verdict agrees with people's judgements (``benchmarks/gates.py`` prints both): leading sentences
as queries pass too little, and words that the document still holds favour BM25.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from resift.arrays import Floats
from resift.embedded.analysis import terms_of
from resift.encoders.model import Model
from resift.text import FUNCTION_WORDS
from resift.vectors.weights import alpha_from_beta, beta_from_alpha, discount_alpha
from resift_lab.evaluation.baselines.bm25 import BM25
from resift_lab.evaluation.metrics import Numbers
from resift_lab.evaluation.significance import paired_randomization

SHARES = (0.2, 0.5, 1)  # of the model's own beta, from which the weight is chosen
SIGNIFICANT = 0.05  # of what is better than the text alone
_INSTEAD = 0.5  # of a model against another that helps too: what changes nothing is better every other time
_WORDS, _OTHER_WORDS, _ROUNDS, _CANDIDATES, _PAGE = 8, 0.5, 8, 100, 10
JUDGES, ENOUGH = 300, 20  # documents that are asked for, at most; and of fewer nothing is said
_LEAST_REST = 3  # words


@dataclass(frozen=True)
class Verdict:
    """What the gate says of a model: ``values`` (n,), nDCG@10 of each judging document with the weight ``alpha``, and
    ``text`` (n,) of the text alone; ``p`` of no difference. ``alpha`` is 0 if the vectors do not help."""

    alpha: float
    values: Numbers
    text: Numbers
    p: float

    @property
    def helps(self) -> bool:
        """Whether a search with the vectors is better than by the text alone."""
        return self.alpha > 0

    @property
    def why(self) -> str:
        """What it goes by, in English."""
        if len(self.values) < ENOUGH and not self.helps:
            return f"{len(self.values)} documents are too few to tell"
        return (
            f"nDCG@10 of {len(self.values)} held-back documents {self.text.mean():.3f} by the text alone, "
            f"{self.values.mean():.3f} with vectors, p {self.p:.4f}"
        )

    def replaces(self, other: Verdict) -> bool:
        """Whether to serve this one's model in place of the ``other``'s."""
        if not (self.helps and other.helps):
            return self.helps
        return is_better(self.values, other.values, _INSTEAD)


def is_better(values: Numbers, others: Numbers, significant: float = SIGNIFICANT) -> bool:
    """Whether the mean of paired ``values`` (n,) is larger, by a two-sided paired randomisation test."""
    p = paired_randomization(values, others, np.random.default_rng(0))
    return bool(values.mean() > others.mean()) and p < significant


class Gate:
    """Searches for the documents at the positions ``held`` among all ``documents``, which are lists of words.

    ``rounds``: how often each is asked for, with words of its own.
    """

    def __init__(
        self, documents: Sequence[Sequence[str]], held: Sequence[int], seed: int = 0, rounds: int = _ROUNDS
    ) -> None:
        rng = np.random.default_rng(seed)
        # by the embedded engine's own words, which need no further package
        self._bm25 = BM25(analyze=partial(terms_of, analyzer="english"))
        self._texts = [" ".join(words) for words in documents]
        self._rows = self._bm25.fit(self._texts)
        counts = Counter(word for words in documents for word in set(words))
        idf = {word: float(np.log(len(documents) / count)) for word, count in counts.items()}
        asked = [{row: _query_and_rest(documents[row], idf, rng) for row in held} for _ in range(rounds)]
        self._rounds = [{row: pair for row, pair in one.items() if pair is not None} for one in asked]

    @property
    def rests(self) -> list[str]:
        """The texts that are encoded in place of the documents that are asked for, round by round."""
        return [rest for asked in self._rounds for _, rest in asked.values()]

    def judge(self, model: Model, vectors: Floats | None = None, rests: Floats | None = None) -> Verdict:
        """What is gained by a model's vectors, with the best of its weights.

        ``vectors`` (N, K) of the documents, and those of :attr:`rests`, are the model's own unless they are given.
        """
        vectors = model.encode(self._texts) if vectors is None else vectors
        rests = model.encode(self.rests) if rests is None else rests
        found, alphas = (
            dict[int, list[Numbers]](),
            [alpha_from_beta(share * beta_from_alpha(model.alpha)) for share in SHARES],
        )
        for asked in self._rounds:
            for row, values in self._round(model, alphas, vectors, rests[: len(asked)], asked).items():
                found.setdefault(row, []).append(values)
            rests = rests[len(asked) :]
        if not found:
            return Verdict(0.0, np.zeros(1), np.zeros(1), 1.0)
        # a value a document: that several queries find it is no further document
        values = np.array([np.mean(one, axis=0) for one in found.values()])
        best = 1 + int(np.argmax(values[:, 1:].mean(axis=0)))
        p = paired_randomization(values[:, best], values[:, 0], np.random.default_rng(0))
        helps = values[:, best].mean() > values[:, 0].mean() and p < SIGNIFICANT
        return Verdict(alphas[best - 1] if helps else 0.0, values[:, best], values[:, 0], p)

    def _round(
        self, model: Model, alphas: Sequence[float], vectors: Floats, own: Floats, asked: Mapping[int, tuple[str, str]]
    ) -> dict[int, Numbers]:
        """Of each query of a round: nDCG@10 of its document, by the text alone and with each of A weights, (1 + A,)."""
        if not asked:
            return {}
        rows, (queries, rests) = list(asked), zip(*asked.values(), strict=True)
        vectors = vectors.copy()
        vectors[rows] = own
        words = self._bm25.queries(queries)
        scores = (words @ self._rows.T).toarray()
        scores[:, rows] = (words @ self._bm25.documents(rests).T).toarray()
        return {
            row: _values(
                model, line, row, vector, vectors, [discount_alpha(alpha, model.known_share(text)) for alpha in alphas]
            )
            for row, line, vector, text in zip(rows, scores, model.encode(queries), queries, strict=True)
        }


def _values(model: Model, scores: Floats, row: int, query: Floats, vectors: Floats, alphas: Sequence[float]) -> Numbers:
    """nDCG@10 of the document at ``row`` among all, by their BM25 scores (N,) and, with each weight, vectors (N, K)."""
    first = np.argsort(-scores, kind="stable")[:_CANDIDATES]
    first = first[scores[first] > 0]
    place = np.flatnonzero(first == row)
    if not len(place):
        return np.zeros(1 + len(alphas))
    betas = np.array([0.0, *map(beta_from_alpha, alphas)])
    mixed = np.log(scores[first]) + betas[:, None] * model.score(query, vectors[first])
    ranks = (mixed > mixed[:, place]).sum(axis=1)
    return np.where(ranks < _PAGE, 1 / np.log2(ranks + 2), 0.0)


def _query_and_rest(words: Sequence[str], idf: Mapping[str, float], rng: np.random.Generator) -> tuple[str, str] | None:
    """Telling words of a document, drawn by their idf, and the document without them; None if it has too few."""
    telling = [row for row, word in enumerate(words) if word not in FUNCTION_WORDS and not word.isdigit()]
    count = min(_WORDS, len(telling) // 2)
    if not count:
        return None
    weights = np.array([idf[words[row]] for row in telling]) + 1e-6
    taken = set(rng.choice(telling, count, replace=False, p=weights / weights.sum()).tolist())
    other = {words[row] for row in sorted(taken) if rng.random() < _OTHER_WORDS}
    rest = [word for row, word in enumerate(words) if row not in taken and word not in other]
    return (" ".join(words[row] for row in sorted(taken)), " ".join(rest)) if len(rest) >= _LEAST_REST else None
