"""Reorder the first hits of a search by their texts, with a trained reranker or with DynaMax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.contracts.documents import IndexInfo, SearchResult
from resift.contracts.engine import Engine
from resift.encoders.dynamax import MAX_HITS, DynaMax
from resift.encoders.late_interaction import RERANKER_FILE, LateInteraction, score_factors
from resift.errors import ModelNotFound
from resift.rewriting.options import Options
from resift.rewriting.outcome import Rewritten
from resift.service.answers import ParsedSearch, hit_key, hit_texts
from resift.service.words import SampledWords
from resift.vectors.weights import DEFAULT_ALPHA


@dataclass(frozen=True, kw_only=True)
class Reranking:
    """Settings for reordering the first hits of a search by their texts.

    Attributes:
        method: The name of the method: ``late`` (a trained reranker) or ``dynamax`` (see
            :mod:`resift.encoders.dynamax`).
        scores: A function that takes the query text and the texts of n hits, and returns an array of shape (n,) with
            values from 0 to 1.
        alpha: The weight of these scores relative to the engine's scores, from 0 to 1.
        window_size: The number of hits to reorder.
    """

    method: str
    scores: Callable[[str, Sequence[str]], Floats]
    alpha: float
    window_size: int


class ServedReranker:
    """The trained reranker that the service uses to reorder hits, if there is one.

    The reranker is loaded into memory once. Later changes of its files have no effect.

    Args:
        folder: The folder of the reranker. If it contains no reranker, none is used.

    Raises:
        CorruptModel: If the files of the reranker are damaged.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self._reranker = LateInteraction.load(folder) if (self.folder / RERANKER_FILE).is_file() else None

    def get(self, method: str = "auto", info: IndexInfo | None = None) -> LateInteraction | None:
        """Return the trained reranker to use for a search, or None if the hits should not be reranked.

        Args:
            method: The ranking method that the search requests. ``late`` always uses the reranker. ``auto`` uses the
                reranker only if it was trained for the index. Other methods do not use a reranker.
            info: The searched index. If None, ``auto`` uses any reranker.

        Raises:
            ModelNotFound: If the method is ``late``, and there is no reranker.
        """
        reranker = self._reranker
        if method == "late" and reranker is None:
            expected = "resift reranker use DIR before the service starts, or another method"
            raise ModelNotFound(f"no trained reranker in {self.folder}", value=method, expected=expected)
        if method == "late" or reranker is None:
            return reranker
        return reranker if method == "auto" and (info is None or _is_trained_for(reranker, info)) else None


def _is_trained_for(reranker: LateInteraction, info: IndexInfo) -> bool:
    """Return whether a reranker was trained for an index.

    For an alias, the reranker must have been trained for the alias itself or for all indices behind the alias. A
    reranker that names no indices is valid for every index.

    Args:
        reranker: The trained reranker, which records the indices for which it was trained.
        info: The index or alias.
    """
    indices = set(reranker.indices)
    return not indices or info.name in indices or indices.issuperset(info.indices)


def late_reranking(late: LateInteraction | None, rewritten: Rewritten) -> Reranking | None:
    """Return how a trained reranker reorders the first hits of a search.

    Args:
        late: The reranker, or None. In the latter case, the result is None.
        rewritten: The rewritten search, whose rescore window determines the number of hits to reorder.
    """
    if late is None:
        return None
    window_size = rewritten.options.window_size
    return Reranking(method="late", scores=late.discounted_scores, alpha=late.alpha, window_size=window_size)


class DynaMaxReranker:
    """Reorders hits by the DynaMax similarity of texts, a fuzzy similarity of their word vectors.

    Args:
        words: The words of indices, which provide the word vectors: the vectors of the model, or the vectors that come
            with Resift (see :meth:`SampledWords.word_vectors`).
        alpha: The weight of the similarity in the settings of the service, or None.
    """

    def __init__(self, words: SampledWords, alpha: float | None) -> None:
        self.words, self.alpha = words, alpha

    @cached_property
    def _similarity(self) -> DynaMax:
        """The similarity function. Its word vectors are loaded when they are first needed."""
        return DynaMax(self.words.word_vectors())

    def scores(self, query: str, texts: Sequence[str]) -> Floats:
        """Return the DynaMax similarity between a query and each text. See :meth:`DynaMax.scores`."""
        return self._similarity.scores(query, texts)

    def reranking(self, options: Options, rewritten: Rewritten) -> Reranking:
        """Return how DynaMax reorders the first hits of a search.

        The weight of its similarities is the ``alpha`` of the search or of the settings, or 0.5. It does not depend on
        the model or the session, because they do not change these similarities.

        Args:
            options: The options that the search sets.
            rewritten: The rewritten search, with all defaults filled in.
        """
        stated = self.alpha if options.alpha is None else options.alpha
        return Reranking(
            method="dynamax",
            scores=self.scores,
            alpha=DEFAULT_ALPHA if stated is None else stated,
            window_size=min(rewritten.options.window_size, MAX_HITS),
        )


def reranked_page(
    engine: Engine, reranking: Reranking, parsed: ParsedSearch, rewritten: Rewritten, result: SearchResult
) -> SearchResult:
    """Reorder the top hits of a search by their texts, and return the requested page.

    Let s be the score from 0 to 1 that the reranking method gives to the text of a hit, and beta = alpha / (1 - alpha)
    the weight of the method. The score of each reranked hit is multiplied by exp(beta · s). The score s is added to the
    hit, as ``resift.reranker`` for a trained reranker and as ``resift.similarity`` for DynaMax. For hits that the
    option ``judged`` demotes, s is set to 0.

    Args:
        engine: The search engine, from which the texts of the hits are read if necessary.
        reranking: The method of the reordering, and the number of hits to reorder.
        parsed: The search. Its body contains ``from`` and ``size`` of the page.
        rewritten: The rewritten search, which contains the query text and the judged documents.
        result: The hits of the rewritten search, starting with the first hit. They must include all hits to rerank and
            the whole requested page.
    """
    body, window_size = parsed.query.body, reranking.window_size
    hits = result.hits[:window_size]
    text_scores = reranking.scores(rewritten.knowledge.text, hit_texts(engine, parsed, hits))
    text_scores[_are_demoted(rewritten, hits)] = 0
    scores = np.array([hit["_score"] for hit in hits], np.float64) * score_factors(text_scores, reranking.alpha)
    order = np.argsort(-scores, kind="stable").tolist()
    name = "reranker" if reranking.method == "late" else "similarity"
    reranked_hits = [_reranked_hit(hits[row], float(scores[row]), name, float(text_scores[row])) for row in order]
    reranked_hits += result.hits[window_size:]
    vectors = [*(result.vectors[row] for row in order), *result.vectors[window_size:]]
    start, end = body["from"], body["from"] + body["size"]
    response = {**result.response, "hits": {**result.response["hits"], "hits": reranked_hits[start:end]}}
    response["hits"]["max_score"] = float(scores.max()) if len(scores) else None
    return SearchResult(response, vectors[start:end])


def _reranked_hit(hit: dict[str, Any], score: float, name: str, text_score: float) -> dict[str, Any]:
    """Return a copy of a hit with its new score, and with the score by the reranking method in its section ``resift``.

    Args:
        hit: The hit, in OpenSearch's format.
        score: The new score of the hit.
        name: The key for the method's score in the section, ``reranker`` or ``similarity``.
        text_score: The score that the method gave to the hit's text, from 0 to 1.
    """
    return {**hit, "_score": score, "resift": {**hit.get("resift", {}), name: round(text_score, 4)}}


def _are_demoted(rewritten: Rewritten, hits: Sequence[dict[str, Any]]) -> NDArray[np.bool_]:
    """Return for each hit whether it must stay behind all others because the user has already judged it.

    This applies only to searches with the option ``judged`` set to ``demote``. The reranker must not raise such hits.

    Args:
        rewritten: The rewritten search, with its options and the user's judgements.
        hits: The hits, in OpenSearch's format.

    Returns:
        Boolean array of shape (n_hits,).
    """
    judged = rewritten.knowledge.judged_hits if rewritten.options.judged == "demote" else {}
    return np.array([hit_key(hit) in judged for hit in hits], bool)
