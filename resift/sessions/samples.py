"""Statistics of an index that a session needs: background documents, and how many documents a word finds."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from resift.cache import TtlCache, get_or_fetch
from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine, Headers
from resift.errors import ResiftError
from resift.feedback.feedback import Feedback
from resift.feedback.ridge import Background
from resift.query.dsl import text_clause

log = logging.getLogger(__name__)

# The number of expansion words of a query. Each has at least this share of the largest weight. More words, and lighter
# words, cost more than they find.
MAX_EXPANSION_WORDS = 25
SMALLEST_WEIGHT = 0.1
_SECONDS = 600.0  # lifetime of samples and counts in the cache
_CACHED_SAMPLES = 64
_CACHED_WORDS = 100_000
_SAMPLE_SIZE = 300
# In an index with fewer documents most words occur in a single document, which says nothing about them.
_FEW_DOCUMENTS = 100
_NO_BACKGROUND = Background(np.zeros((0, 0)))


class Samples:
    """Vectors of random documents, cached for ten minutes for callers with the same headers. Thread-safe.

    Args:
        engine: The engine.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._cache: TtlCache[Background] = TtlCache(_CACHED_SAMPLES, _SECONDS)

    def draw(self, info: IndexInfo, headers: Headers = None, field: str | None = None) -> Background:
        """Return the vectors of at most 300 random documents. Empty if the engine returns none, or refuses.

        Args:
            info: The index.
            headers: The HTTP headers of the caller.
            field: The field of the vectors, by default the field of the vectors that Resift gave to the documents.

        Raises:
            EngineUnavailable: The engine cannot be reached.
        """
        if field is None and info.dim is None:
            return _NO_BACKGROUND
        field = field or info.vector_field
        # Another model may have its vectors in the same field later.
        key = (info.name, field if field != info.vector_field else (field, info.model), str(headers))
        if (cached := self._cache.get(key)) is not None:
            return cached
        try:
            drawn = self.engine.sample(info.name, _SAMPLE_SIZE, False, field, headers).vectors
        except ResiftError as error:
            if error.code == "engine_unavailable":
                raise
            log.warning("No random documents of index %r: %s", info.name, error.message)
            drawn = []
        vectors = [vector for vector in drawn if vector is not None]
        return self._cache.put(key, Background(np.stack(vectors)) if vectors else _NO_BACKGROUND)


class WordSelector:
    """Selects the expansion words of a query. Thread-safe.

    The counts of words are cached for ten minutes for callers with the same headers.

    Args:
        engine: The engine.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._cache: TtlCache[float] = TtlCache(_CACHED_WORDS, _SECONDS)

    def select(self, feedback: Feedback | None, info: IndexInfo, headers: Headers = None) -> dict[str, float]:
        """Return at most 25 expansion words and their weights, heaviest first.

        The words with the largest weight · idf · log(1 + n) are selected, where n documents contain the word. Their
        weights are at least a tenth of the largest weight. A word in a single document, for example a serial number, is
        never selected, because it finds no other document. If the engine refuses to count, only the weights decide.

        Args:
            feedback: What a session learned, or None.
            info: The index.
            headers: The HTTP headers of the caller.

        Source:
            A selection value after Robertson (1990), "On term selection for query expansion".
        """
        candidates = {} if feedback is None else feedback.expansion_terms
        keys = {word: (info.name, str(headers), word) for word in candidates}
        values = get_or_fetch(self._cache, keys, lambda words: self._selection_values(words, info, headers))
        useful = [word for word in candidates if values.get(word)]
        best = sorted(useful, key=lambda word: -candidates[word] * values[word])[:MAX_EXPANSION_WORDS]
        smallest = SMALLEST_WEIGHT * max((candidates[word] for word in best), default=0.0)
        selected = [word for word in candidates if word in best and candidates[word] >= smallest]
        return {word: candidates[word] * info.tuning.words for word in selected}

    def _selection_values(self, words: Sequence[str], info: IndexInfo, headers: Headers) -> dict[str, float]:
        """Return idf · log(1 + n) of each word. All are 1 if the engine refuses to count, or has few documents."""
        clauses = [text_clause(word, info.fields) for word in words]
        total, counts = 0, list[int]()
        try:
            total, *counts = self.engine.document_counts(info.name, [{"match_all": {}}, *clauses], headers)
        except ResiftError as error:
            log.warning("Words of index %r are not counted: %s", info.name, error.message)
        if total < _FEW_DOCUMENTS:
            return dict.fromkeys(words, 1.0)
        n = np.array(counts)
        values = np.where(n > 1, np.log((total + 1) / (n + 0.5)) * np.log1p(n), 0.0)
        return dict(zip(words, values.tolist(), strict=True))
