"""Statistics of an index that a session needs: vectors of random documents, and document counts of words.

Relevant documents are compared with the random documents ("background documents").
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence

import numpy as np
import orjson

from resift.cache import TtlCache, digest, get_or_fetch
from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine, Headers
from resift.errors import CorruptEngine, EngineUnavailable, ResiftError
from resift.feedback.feedback import Feedback
from resift.feedback.ridge import Background
from resift.query.dsl import PLAIN, Body

log = logging.getLogger(__name__)

# The maximum number of expansion words of a query, and the smallest weight of such a word, as a share of the largest
# weight. More words, and lighter words, make searches slower but hardly better.
MAX_EXPANSION_WORDS = 25
SMALLEST_WEIGHT = 0.1
# If a query has at least this number of hits, expansion words match no further documents.
_ENOUGH_HITS = 10
_SECONDS = 600.0  # lifetime of samples and counts in the cache
# The analyzers of an index do not change, but an index can be replaced by another index of the same name.
_TERMS_SECONDS = 3600.0
# After an error of the engine, the same request is not sent again for some time.
_FAILURE_SECONDS = 10.0
_CACHED_FAILURES = 200
_CACHED_SAMPLES = 64
_CACHED_WORDS = 30_000
_CACHED_QUERIES = 10_000
_SAMPLE_SIZE = 300
# In an index with fewer documents, document counts are not used, because most words occur in a single document.
_FEW_DOCUMENTS = 100
_NO_BACKGROUND = Background(np.zeros((0, 0)))


class BackgroundSampler:
    """Reads the vectors of random documents from an index, with which judged documents are compared.

    Instances are thread-safe. The vectors are cached for ten minutes, and an error of the engine for ten seconds.
    Callers with different HTTP headers do not share cached vectors, because they may be allowed to read different
    documents.

    Args:
        engine: The search engine, which chooses the documents.
        clock: A function that returns the time in seconds.
    """

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.monotonic) -> None:
        self.engine = engine
        self._cache: TtlCache[Background] = TtlCache(_CACHED_SAMPLES, _SECONDS, clock)
        self._failures: TtlCache[bool] = TtlCache(_CACHED_FAILURES, _FAILURE_SECONDS, clock)

    def draw(self, info: IndexInfo, headers: Headers = None, field: str | None = None) -> Background:
        """Return the vectors of up to 300 random documents of an index.

        Args:
            info: The names and fields of the index.
            headers: The caller's HTTP headers.
            field: The vector field to read. By default, the field in which Resift stores its vectors.

        Returns:
            The vectors. Empty if no document has a vector, or if the engine refuses the request.

        Raises:
            EngineUnavailable: If the engine cannot be reached.
        """
        if field is None and info.dim is None:
            return _NO_BACKGROUND
        field = field or info.vector_field
        # Another model may have its vectors in the same field later.
        key = (info.name, field if field != info.vector_field else (field, info.model), str(headers))
        if self._failures.get(key):
            return _NO_BACKGROUND
        try:
            return self._cache.get_or_load(key, lambda: self._read_background(info, headers, field))
        except ResiftError as error:
            # A damaged document costs only the comparison with random documents. The search may not need the document.
            if isinstance(error, EngineUnavailable) and not isinstance(error, CorruptEngine):
                raise
            log.warning("No random documents of index %r: %s", info.name, error.message)
            self._failures.put(key, True)
            return _NO_BACKGROUND

    def _read_background(self, info: IndexInfo, headers: Headers, field: str) -> Background:
        """Read the vectors of random documents from the engine. :meth:`draw` caches the result.

        Args:
            info: The names and fields of the index.
            headers: The caller's HTTP headers.
            field: The name of the vector field.

        Returns:
            The vectors. Empty if no document has a vector.
        """
        drawn = self.engine.sample(info.name, _SAMPLE_SIZE, False, field, headers).vectors
        vectors = [vector for vector in drawn if vector is not None]
        return Background(np.stack(vectors)) if vectors else _NO_BACKGROUND


class WordSelector:
    """Selects expansion words: words of relevant documents that are added to a query. Instances are thread-safe.

    The number of documents that contain a word is cached for ten minutes, and an error of the engine for ten seconds.
    Callers with different HTTP headers do not share cached values.

    Args:
        engine: The search engine, which counts the documents.
        clock: A function that returns the time in seconds.
    """

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.monotonic) -> None:
        self.engine = engine
        self._cache: TtlCache[float] = TtlCache(_CACHED_WORDS, _SECONDS, clock)
        self._enough: TtlCache[bool] = TtlCache(_CACHED_QUERIES, _SECONDS, clock)
        self._terms: TtlCache[int] = TtlCache(_CACHED_QUERIES, _TERMS_SECONDS, clock)
        self._failures: TtlCache[bool] = TtlCache(_CACHED_FAILURES, _FAILURE_SECONDS, clock)

    def has_enough_hits(self, query: Body, info: IndexInfo, headers: Headers = None) -> bool:
        """Return whether a query has at least ten hits.

        Then expansion words (words learned from relevant documents) need not find further documents. The result is also
        True if the engine returns an error, because the search itself will report the error.

        Args:
            query: The query of a search, with its filters.
            info: The description of the index.
            headers: The HTTP headers of the caller.
        """
        body = {"query": query, "size": 0, "track_total_hits": _ENOUGH_HITS, **PLAIN}

        def reaches_minimum() -> bool:
            response = self.engine.search(info.name, body, headers=headers).response
            return bool(response["hits"]["total"]["value"] >= _ENOUGH_HITS)

        try:
            key = (info.name, str(headers), digest(orjson.dumps(query, option=orjson.OPT_SERIALIZE_NUMPY)))
        except TypeError:  # not JSON, so the search itself will report the error
            return True
        if self._failures.get(key):
            return True
        try:
            return self._enough.get_or_load(key, reaches_minimum)
        except ResiftError:
            return self._failures.put(key, True)

    def terms_per_word(self, info: IndexInfo, headers: Headers = None, fields: Collection[str] = ()) -> int:
        """Return an upper estimate of the number of terms that the analyzers of the searched fields make of a word.

        The number is cached for an hour. It is 1 if the engine returns an error.

        Args:
            info: The description of the index.
            headers: The HTTP headers of the caller.
            fields: The names or patterns of the fields in which words are searched. Empty for all fields.
        """
        names = tuple(sorted(fields))
        # A client can search any number of fields, so the cache does not store their names.
        key = (info.name, str(headers), hash(names))
        if self._failures.get(("terms", key)):
            return 1
        try:
            return self._terms.get_or_load(key, lambda: self.engine.terms_per_word(info, names, headers))
        except ResiftError as error:
            log.warning("Terms of words in index %r are not counted: %s", info.name, error.message)
            self._failures.put(("terms", key), True)
            return 1

    def select(
        self,
        feedback: Feedback | None,
        info: IndexInfo,
        headers: Headers = None,
        text_fields: Collection[str] = (),
    ) -> dict[str, float]:
        """Select at most 25 expansion words for a query in an index.

        The candidates are the words that a session has learned from its judgements, each with a weight. The weight is
        multiplied by the value of the word for searching (:meth:`_selection_values`), and the words with the largest
        products are selected. Words with less than a tenth of the largest weight are left out. A word that occurs in a
        single document, such as a serial number, is never selected, because it cannot match further documents.

        In an index without vectors of Resift, only occurrences in the fields that the query searches count. Other
        fields can have other analyzers: a stop word that the analyzer of the searched field drops would look like a
        rare word. Counting in all fields of an index with many fields would also take hundreds of milliseconds.

        If the engine refuses to count the documents, or the index has fewer than 100 documents, the words with the
        largest weights are selected.

        Args:
            feedback: The candidate words and weights that a session has learned, or None for no candidates.
            info: The description of the index.
            headers: The HTTP headers of the caller.
            text_fields: The names or patterns of the fields in which the query searches for words. Empty for all
                fields.

        Returns:
            The weights of the selected words, in the order of the candidates. They are multiplied by the factor for
            words that was chosen for the index (:attr:`resift.contracts.tuning.Tuning.words`).

        Source:
            A selection value after Robertson (1990), "On term selection for query expansion".
        """
        candidates = {} if feedback is None else feedback.expansion_terms
        values = self.values(candidates, info, headers, text_fields)
        useful = [word for word in candidates if values.get(word)]
        best = sorted(useful, key=lambda word: -candidates[word] * values[word])[:MAX_EXPANSION_WORDS]
        smallest = SMALLEST_WEIGHT * max((candidates[word] for word in best), default=0.0)
        selected = [word for word in candidates if word in best and candidates[word] >= smallest]
        return {word: candidates[word] * info.tuning.words for word in selected}

    def values(
        self, words: Collection[str], info: IndexInfo, headers: Headers = None, text_fields: Collection[str] = ()
    ) -> dict[str, float]:
        """Return how useful words are as additional words of a query in an index (:meth:`_selection_values`).

        The values are cached. All values are 1 if the engine refuses to count the documents.

        Args:
            words: The words.
            info: The description of the index.
            headers: The HTTP headers of the caller.
            text_fields: The names or patterns of the fields in which the query searches for words. Empty for all
                fields.
        """
        # Sessions have words in common. They are counted for one session after the other, so that no word is counted
        # twice. A client can search any number of fields, so the cache does not store their names.
        fields = info.fields or tuple(sorted(text_fields))
        group = (info.name, str(headers), hash(fields))
        values = dict.fromkeys(words, 1.0)
        if not self._failures.get(group):
            try:
                values = get_or_fetch(
                    self._cache,
                    {word: (group, word) for word in words},
                    lambda missing: self._selection_values(missing, info, fields, headers),
                    group=group,
                )
            except ResiftError as error:
                log.warning("Words of index %r are not counted: %s", info.name, error.message)
                self._failures.put(group, True)
        return values

    def _selection_values(
        self, words: Sequence[str], info: IndexInfo, fields: Sequence[str], headers: Headers
    ) -> dict[str, float]:
        """Return how useful each word would be as an additional word of a query.

        Let n be the number of documents that contain a word. The value of the word is idf · log(1 + n), where idf is
        its inverse document frequency log((N + 1) / (n + 0.5)) in an index of N documents. A word in a single document
        gets 0. All values are 1 if the index has fewer than 100 documents.

        Args:
            words: The candidates for expansion words.
            info: The description of the index.
            fields: The fields in which the words are counted. Empty for all fields.
            headers: The caller's HTTP headers.

        Returns:
            The value of each word.

        Raises:
            ResiftError: If the engine returns an error.
        """
        total, counts = self.engine.word_counts(info, fields, words, headers)
        if total < _FEW_DOCUMENTS:
            return dict.fromkeys(words, 1.0)
        n = np.array(counts)
        values = np.where(n > 1, np.log((total + 1) / (n + 0.5)) * np.log1p(n), 0.0)
        return dict(zip(words, values.tolist(), strict=True))
