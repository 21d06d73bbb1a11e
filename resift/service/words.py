"""Collect the words of indices from samples of their documents.

The words serve three purposes: spelling corrections ("did you mean"), completions while a user types, and related words
for queries with few hits.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from resift.cache import TtlCache
from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine, Headers
from resift.encoders.model import Model
from resift.errors import EngineUnavailable, ResiftError
from resift.memory import release_memory
from resift.query.dsl import Body, text_clause, values_of
from resift.service.cards import title_field
from resift.sessions.documents import readable_text
from resift.spelling import Speller
from resift.text import FUNCTION_WORDS, plain_text, tokenize
from resift.vectors.packaged import DEFAULT_MODEL, load_vectors
from resift.vectors.table import WordVectors
from resift.vectors.vocabulary import Vocabulary, inflected_pairs

log = logging.getLogger(__name__)
SAMPLE_SECONDS = 600.0
"""Seconds after which an index is sampled again."""
COMMAND_WAIT_SECONDS = 3.0
"""Value of ``SampledWords.wait_seconds`` for commands, which search only once."""
THREAD_NAME = "words"
"""Name of the background thread that samples an index."""

# Sampling.
_CACHE_SIZE = 16
"""Samples that are cached."""
_CACHE_SECONDS = 6 * SAMPLE_SECONDS
"""Seconds for which a sample is used if no later request refreshes it."""
FAILURE_SECONDS = 10.0
"""Seconds after which an index is sampled again if sampling has failed."""
_MAX_DOCUMENTS = 3000
_MAX_CHARACTERS = 60_000_000
"""Approximate size of a sample. Long documents are sampled in smaller numbers, since all are in memory at once."""
_FIRST_DOCUMENTS = 30
"""Documents that are read first, to estimate the length of the index's documents."""
_MAX_DOCUMENT_CHARACTERS = 20_000

_OVERLOADED = (408, 429)
"""Statuses below 500 of an engine that may answer the same request later."""

# Suggestions.
_ENOUGH_HITS = 300
"""Number of hits at which a query needs no related words."""
_MIN_WORD_LENGTH = 4
_MAX_WORD_LENGTH = 40
"""Only words of between 4 and 40 letters are corrected."""
_MAX_CORRECTED_WORDS = 16
"""Queries with more words to check are not corrected."""
_MAX_COMPLETIONS = 4
"""Completed words, and completed titles, per request."""
_CLOSE_SECONDS = 2.0
"""Maximum seconds that :meth:`SampledWords.close` waits for the engine."""


class IndexWords(NamedTuple):
    """The words in a random sample of an index's documents, for spelling corrections and completions.

    Attributes:
        speller: A spelling corrector that knows the words of the sample.
        vocabulary: The words of the sample with their vectors. None if the documents could not be read.
        sampled_at: The time when the sample was read, in seconds on the clock of the object that caches the words.
        titles: The titles of the sampled documents.
    """

    speller: Speller
    vocabulary: Vocabulary | None
    sampled_at: float
    titles: Sequence[str] = ()


class SampledWords:
    """Suggests spelling corrections, completions and related words from samples of each index's documents.

    A sample has up to 3,000 documents. A background thread reads it with the rights of the caller who searched first.
    The sample is used for all callers with the same headers, and is read again after ten minutes. Until the first
    sample is read, there are no suggestions. Searches only wait for it if ``wait_seconds`` is set.

    At most 16 samples are read in ten minutes, so that many indices or callers do not keep the engine busy. Indices
    without a sample get no suggestions until the ten minutes are over.

    If the engine cannot read a new sample, the next attempt is made after ten seconds. The previous sample is used
    until then, for at most an hour. It is dropped if the engine refuses the request, for example because the caller
    may no longer read the index.

    Args:
        engine: The search engine, from which documents are sampled.
        model: The model whose word vectors relate words. If its rows are not word vectors, the packaged vectors are
            used.
        clock: A function that returns the time in seconds.

    Attributes:
        wait_seconds: Seconds that a search waits for the first sample, if its query has few hits or unknown words. Zero
            by default.
        enabled: Whether related words are added to queries.
    """

    def __init__(self, engine: Engine, model: Model, clock: Callable[[], float] = time.monotonic) -> None:
        self.engine, self.model, self.clock = engine, model, clock
        self.wait_seconds = 0.0
        self.enabled = True
        self._cache: TtlCache[IndexWords] = TtlCache(_CACHE_SIZE, _CACHE_SECONDS, clock)
        self._failures: TtlCache[bool] = TtlCache(_CACHE_SIZE, FAILURE_SECONDS, clock)
        self._sampling = threading.Lock()
        self._sampled_at: deque[float] = deque(maxlen=_CACHE_SIZE)  # the times of the latest samples
        self._packaged: WordVectors | None = None
        self._is_closed = False

    def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Read no more samples, and wait for a sample that is being read.

        Args:
            seconds: The maximum time to wait, in seconds.
        """
        if not self._is_closed:
            # The lock is never released, so that no further thread is started.
            self._is_closed = self._sampling.acquire(timeout=seconds)

    def get(self, info: IndexInfo, headers: Headers = None) -> IndexWords | None:
        """Return the words in a sample of an index's documents, or None if no documents have been sampled yet.

        If there is no sample, or the sample is old, a background thread starts to read a new sample. Only one index is
        sampled at a time.

        Args:
            info: The names and fields of the index.
            headers: The caller's HTTP headers, which are passed on to the engine.
        """
        key = (info.name, str(headers))
        cached = self._cache.get(key)
        is_old = cached is None or self.clock() - cached.sampled_at > SAMPLE_SECONDS
        if is_old and self._may_sample(key) and self._sampling.acquire(blocking=False):
            thread = threading.Thread(target=self._sample, args=(info, headers), name=THREAD_NAME, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the process may not start further threads
                self._sampling.release()
                log.warning("the words of index %r are not sampled: %s", info.name, error)
                return cached
            if self.wait_seconds and cached is None:
                thread.join(self.wait_seconds)
                cached = self._cache.get(key)
        return cached

    def _may_sample(self, key: Hashable) -> bool:
        """Return whether an index may be sampled now: sampling has not just failed, and the cache has room.

        Args:
            key: The key of the sample in the cache.
        """
        times = self._sampled_at
        has_room = len(times) < _CACHE_SIZE or self.clock() - times[0] > SAMPLE_SECONDS
        return has_room and not self._failures.get(key)

    def related_words(
        self, info: IndexInfo, text: str, query: Body, headers: Headers = None
    ) -> dict[str, dict[str, float]]:
        """Return words of the index that are related to the words of a query text, such as synonyms.

        Args:
            info: The names and fields of the searched index.
            text: The query text.
            query: The query clause for the text.
            headers: The caller's HTTP headers, which are passed on to the engine.

        Returns:
            For each word of the text, its related words with their weights (see :meth:`Vocabulary.related_words`).
            Empty if the query already has enough hits, if no documents have been sampled yet, or if :attr:`enabled` is
            False.
        """
        if not self.enabled:
            return {}
        if self.wait_seconds and self._cache.get((info.name, str(headers))) is None:
            try:  # A search does not wait for a sample if it has enough hits.
                if self.engine.document_counts(info.name, [query], headers=headers)[0] >= _ENOUGH_HITS:
                    return {}
            except ResiftError:  # The search itself will report the error.
                return {}
        words = self.get(info, headers)
        return {} if words is None or words.vocabulary is None else words.vocabulary.related_words(text)

    def suggest_correction(
        self, query: str, info: IndexInfo, headers: Headers = None, filter: dict[str, Any] | None = None
    ) -> str | None:
        """Return the query with misspelt words corrected.

        A word is misspelt if it occurs neither in the sample nor in the index, and the sample contains a similar word
        (see :class:`resift.spelling.Speller`). Short words, words with digits, and words of scripts without spaces are
        not corrected. A query with more than 16 other words is not corrected at all. Errors are logged, not raised.

        Args:
            query: The query text as the user typed it.
            info: The names and fields of the searched index.
            headers: The caller's HTTP headers.
            filter: A query clause. Corrections are limited to words of documents that match it.

        Returns:
            The corrected query, or None if no word is misspelt or there is no sample yet.
        """
        words = [word for word in dict.fromkeys(tokenize(query)) if _may_be_misspelt(word)]
        if not 0 < len(words) <= _MAX_CORRECTED_WORDS:
            return None
        try:
            if self.wait_seconds and set(self._words_in_index(words, info, headers)) == set(words):
                return None
            sampled = self.get(info, headers)
            corrections = {} if sampled is None else dict(_corrections(sampled.speller, words))
            for word in self._words_in_index(list(corrections), info, headers):
                del corrections[word]
            if filter:
                candidates = list(dict.fromkeys(" ".join(corrections.values()).split()))
                matching = set(self._words_in_index(candidates, info, headers, filter))
                corrections = {
                    word: corrected for word, corrected in corrections.items() if matching.issuperset(corrected.split())
                }
        except Exception as error:
            log.warning("no spelling suggestion for a search in index %r: %r", info.name, error)
            return None
        return _replace_words(query, corrections) if corrections else None

    def complete(self, text: str, info: IndexInfo, headers: Headers = None) -> list[str]:
        """Return completions for a text that a user is typing.

        Up to four completions replace the last word with frequent words of the index that begin with it. Up to four
        further completions are titles of documents that contain the text at the beginning of a word.

        Args:
            text: The text. Its last word may be incomplete.
            info: The names and fields of the searched index.
            headers: The caller's HTTP headers, which are passed on to the engine.

        Returns:
            The completed texts. Empty if no documents have been sampled yet.
        """
        sampled, words = self.get(info, headers), tokenize(text)
        if sampled is None or not words or not text[-1:].isalnum():
            return []
        last, head = words[-1], text[: -len(words[-1])]
        longer = (word for word in sampled.speller.frequency if word.startswith(last) and word != last)
        completed = (f"{head}{word}" for word in longer if word not in FUNCTION_WORDS)
        titles = (title for title in sampled.titles if f" {text.lower()}" in f" {title.lower()}" and title != text)
        return [*islice(completed, _MAX_COMPLETIONS), *islice(titles, _MAX_COMPLETIONS)]

    def _words_in_index(
        self, words: Sequence[str], info: IndexInfo, headers: Headers, filter: dict[str, Any] | None = None
    ) -> list[str]:
        """Return the words that occur in the documents of an index, by running a search for each word.

        The analyzer of the index normalises the words, so inflected forms may count as the same word.

        Args:
            words: The words to look up.
            info: The names and fields of the searched index.
            headers: The caller's HTTP headers, which are passed on to the engine.
            filter: A query clause that restricts the documents, or None for all documents.
        """
        # zero_terms_query: a stop word is correct, although the analyzer removes it.
        conditions = [filter] if filter else []
        clauses: list[dict[str, Any]] = [
            {"bool": {"must": [text_clause(word, info.fields, zero_terms_query="all")], "filter": conditions}}
            for word in words
        ]
        totals = self.engine.document_counts(info.name, clauses, headers, skip_pipeline=True)
        return [word for word, total in zip(words, totals, strict=True) if total]

    def _sample(self, info: IndexInfo, headers: Headers) -> None:
        """Read a sample of an index's documents, and put its words into the cache. Runs in a background thread.

        The caller must hold the lock ``_sampling``, which this method releases. Errors are logged, not raised.

        Args:
            info: The names and fields of the index.
            headers: The HTTP headers of the caller who searched first.
        """
        key = (info.name, str(headers))
        try:
            sources = self._sample_documents(info, headers)
            texts = (readable_text(source, info)[:_MAX_DOCUMENT_CHARACTERS] for source in sources)
            # Equal words of different documents become the same string. Otherwise they would need about 20 MB.
            known: dict[str, str] = {}
            documents = [
                tuple(known.setdefault(word, word) for word in dict.fromkeys(tokenize(text))) for text in texts
            ]
            frequency = Counter(word for document in documents for word in document)
            speller = Speller(dict(frequency.most_common()))
            vocabulary = self._build_vocabulary(documents, info, headers)
            now = self.clock()
            self._cache.put(key, IndexWords(speller, vocabulary, now, _distinct_titles(sources, info)))
            self._sampled_at.append(now)
        except Exception as error:
            log.warning("no words of index %r were sampled: %r", info.name, error)
            self._failures.put(key, True)
            # After a refusal (401, 403, 404), the caller may have lost the right to see these words.
            if not _is_temporary(error):
                self._cache.remove(key)
        finally:
            # After documents were sampled, the C library would otherwise retain about 30 MB.
            release_memory()
            self._sampling.release()

    def _sample_documents(self, info: IndexInfo, headers: Headers) -> list[Mapping[str, Any]]:
        """Return the ``_source`` of some random documents of an index.

        A few documents are read first to estimate the mean length. The number of documents is then chosen so that their
        total length is limited.

        Args:
            info: The names and fields of the index.
            headers: The caller's HTTP headers, which are passed on to the engine.
        """
        fields = list(info.readable_fields) or True
        hits = self.engine.sample(info.name, _FIRST_DOCUMENTS, fields, headers=headers).hits
        mean_size = sum(len(str(hit.get("_source"))) for hit in hits) // max(1, len(hits))
        count = min(_MAX_DOCUMENTS, _MAX_CHARACTERS // max(1, mean_size))
        if len(hits) == _FIRST_DOCUMENTS < count:
            hits = self.engine.sample(info.name, count, fields, headers=headers).hits
        return [hit.get("_source", {}) for hit in hits]

    def _build_vocabulary(self, documents: Sequence[Sequence[str]], info: IndexInfo, headers: Headers) -> Vocabulary:
        """Build a vocabulary of the words in the sampled documents, with their vectors.

        Pairs of inflected forms, such as "charge" and "charged", are searched in the index. If most pairs have equal
        numbers of hits, the index's analyzer is assumed to stem words.

        Args:
            documents: The distinct words of each sampled document.
            info: The names and fields of the index.
            headers: The caller's HTTP headers, which are passed on to the engine.
        """
        pairs = inflected_pairs(documents)
        total, counts = self.engine.word_counts(info, info.fields, [word for pair in pairs for word in pair], headers)
        equal = sum(first == second for first, second in zip(counts[::2], counts[1::2], strict=True))
        return Vocabulary(documents, total, 2 * equal > len(pairs), self.word_vectors())

    def word_vectors(self) -> WordVectors:
        """Return word vectors for finding words of similar meaning.

        These are the vectors of the service's model if they are general word vectors. Otherwise, for example if the
        model was adapted to the documents of an index, the vectors that come with Resift are returned.
        """
        model = self.model
        # In an adapted model, words are near each other for other reasons than their meaning. The rows of other models
        # are memberships in codewords, and not word vectors.
        if model.name in (DEFAULT_MODEL, "mean") and not model.is_adapted:
            return model.table
        self._packaged = self._packaged or load_vectors()
        return self._packaged


def _distinct_titles(sources: Sequence[Mapping[str, Any]], info: IndexInfo) -> list[str]:
    """Return the distinct titles of the sampled documents, as plain text without HTML tags.

    Args:
        sources: The ``_source`` of the sampled documents.
        info: The names and fields of the index. If the name of no field suggests a title, the result is empty.
    """
    name = title_field(info.readable_fields)
    if name is None:
        return []
    titles = (plain_text(str(value)).strip() for source in sources for value in values_of(source, name))
    return list(dict.fromkeys(titles))


def _is_temporary(error: Exception) -> bool:
    """Return whether the engine may answer the same request later: it was unreachable, overloaded or failed itself."""
    return isinstance(error, EngineUnavailable) or (
        isinstance(error, ResiftError) and (error.status in _OVERLOADED or error.status >= 500)
    )


def _may_be_misspelt(word: str) -> bool:
    """Return whether the spelling of a word is checked. Very short or long words, and words with digits, are not."""
    is_usual_length = _MIN_WORD_LENGTH <= len(word) <= _MAX_WORD_LENGTH
    return is_usual_length and not any(letter.isnumeric() for letter in word)


def _corrections(speller: Speller, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of a misspelt word and its correction.

    If a space is missing, the correction consists of two words. Words without a correction are skipped.

    Args:
        speller: A spelling corrector that knows the words of the index.
        words: The words to correct, in lower case.
    """
    for word in words:
        corrected = " ".join(speller.correct(word))
        if corrected != word:
            yield word, corrected


def _replace_words(query: str, corrections: Mapping[str, str]) -> str:
    """Replace the misspelt words in a query with their corrections, and leave all other characters unchanged.

    >>> _replace_words('"Bush" fier, 2001', {"fier": "fire"})
    '"Bush" fire, 2001'
    """
    return re.sub(r"[^\W_]+", lambda match: corrections.get(match[0].lower(), match[0]), query)
