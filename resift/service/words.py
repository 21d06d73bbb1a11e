"""The words of indices, as samples of their documents have them: for spelling (did you mean …?), for completing what is
typed, and for other words than a query's."""

from __future__ import annotations

import ctypes
import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from resift.cache import TtlCache
from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine, Headers
from resift.encoders.model import Model
from resift.errors import ResiftError
from resift.query.dsl import Body, document_text, text_clause, values_of
from resift.service.cards import title_field
from resift.spelling import Speller
from resift.text import FUNCTION_WORDS, plain_text, tokenize
from resift.vectors.packaged import DEFAULT_MODEL, load_vectors
from resift.vectors.table import WordVectors
from resift.vectors.vocabulary import Vocabulary, inflected_pairs

log = logging.getLogger(__name__)
SAMPLE_SECONDS = 600.0
PATIENCE = 3.0  # of commands that search once
THREAD_NAME = "words"
_SAMPLES, _DOCUMENTS, _FOUND = 16, 3000, 300
_MAX_TEXT = 20_000
_FEW, _CHARACTERS = 30, 60_000_000  # documents that tell how long they are, and how much is read at once
_MIN_LETTERS, _MAX_LETTERS, _MAX_WORDS, _COMPLETIONS = 4, 40, 16, 4
_STALE = 6  # times as long is a sample used as it takes to be drawn anew, if nobody asks for it meanwhile


class IndexWords(NamedTuple):
    """What is known of an index's words, and its titles, ``drawn`` at a time in seconds; no vocabulary where the sample
    failed."""

    speller: Speller
    vocabulary: Vocabulary | None
    drawn: float
    titles: Sequence[str] = ()


class SampledWords:
    """Words of indices, from 3,000 documents of each.

    They are read in the background with the rights of the caller who searched first, and remembered for callers with
    the same headers; after ten minutes they are read anew. Until they are there, nothing is known, so no search waits
    for them, unless somebody sets ``patience``, in seconds: then those wait whose words the index lacks. Where
    ``is_used`` is false, no search is widened. Other words are near by the word vectors of ``model``, where these are
    its rows, or else by the packaged ones.
    ``clock`` gives seconds.
    """

    def __init__(self, engine: Engine, model: Model, clock: Callable[[], float] = time.monotonic) -> None:
        self.engine, self.model, self.clock = engine, model, clock
        self.patience, self.is_used = 0.0, True
        self._known: TtlCache[IndexWords] = TtlCache(_SAMPLES, _STALE * SAMPLE_SECONDS, clock)
        self._sampling = threading.Lock()
        self._packaged: WordVectors | None = None

    def get(self, info: IndexInfo, headers: Headers = None) -> IndexWords | None:
        """The index's words; where there are none, or they are old, reading is begun, of one index at a time."""
        key = (info.name, str(headers))
        known = self._known.get(key)
        is_old = known is None or self.clock() - known.drawn > SAMPLE_SECONDS
        if is_old and self._sampling.acquire(blocking=False):
            thread = threading.Thread(target=self._sample, args=(info, headers), name=THREAD_NAME, daemon=True)
            thread.start()
            if self.patience and known is None:
                thread.join(self.patience)
                known = self._known.get(key)
        return known

    def near(self, info: IndexInfo, text: str, query: Body, headers: Headers = None) -> dict[str, dict[str, float]]:
        """For words of a text, which a ``query`` asks for, those of the index that are near, as
        :meth:`Vocabulary.related_words` has them: nothing where the text's own find enough, or nothing is known."""
        if not self.is_used:
            return {}
        if self.patience and self._known.get((info.name, str(headers))) is None:
            try:  # nobody waits where enough is found anyway
                if self.engine.document_counts(info.name, [query], headers=headers)[0] >= _FOUND:
                    return {}
            except ResiftError:  # the search itself says what is wrong
                return {}
        known = self.get(info, headers)
        return {} if known is None or known.vocabulary is None else known.vocabulary.related_words(text)

    def suggest(
        self, query: str, info: IndexInfo, headers: Headers = None, filter: dict[str, Any] | None = None
    ) -> str | None:
        """The query with its misspelt words replaced; None if there are none, or nothing is known of the index yet.

        A word counts as misspelt if neither the sample nor the index itself holds it, and the sample has a word that
        is spelt nearly so (:class:`resift.spelling.Speller`). Short words, words with digits and those of
        scripts without spaces stay, as does a query of more than 16 words that could be misspelt. With a ``filter``
        only words of documents that match it are suggested. Never raises: a failure is logged, and nothing is
        suggested.
        """
        words = [word for word in dict.fromkeys(tokenize(query)) if _may_be_misspelt(word)]
        if not 0 < len(words) <= _MAX_WORDS:
            return None
        try:
            if self.patience and set(self._in_index(words, info, headers)) == set(words):
                return None
            known = self.get(info, headers)
            corrections = {} if known is None else dict(_corrections(known.speller, words))
            for word in self._in_index(list(corrections), info, headers):
                del corrections[word]
            if filter:
                meant = list(dict.fromkeys(" ".join(corrections.values()).split()))
                found = set(self._in_index(meant, info, headers, filter))
                corrections = {word: one for word, one in corrections.items() if found.issuperset(one.split())}
        except Exception as error:
            log.warning("no suggestion for a search in %r: %r", info.name, error)
            return None
        return _replaced(query, corrections) if corrections else None

    def complete(self, text: str, info: IndexInfo, headers: Headers = None) -> list[str]:
        """What a text may become: with the most frequent words of the sample that its last word begins, and titles with
        words that it begins, at most four of either.

        Nothing while there is no sample yet, which the first call begins to read.
        """
        known, words = self.get(info, headers), tokenize(text)
        if known is None or not words or not text[-1:].isalnum():
            return []
        last, head = words[-1], text[: -len(words[-1])]
        longer = (word for word in known.speller.frequency if word.startswith(last) and word != last)
        found = islice((one for one in longer if one not in FUNCTION_WORDS), _COMPLETIONS)
        titled = (one for one in known.titles if f" {text.lower()}" in f" {one.lower()}" and one != text)
        return [*(f"{head}{word}" for word in found), *islice(titled, _COMPLETIONS)]

    def _in_index(
        self, words: Sequence[str], info: IndexInfo, headers: Headers, filter: dict[str, Any] | None = None
    ) -> list[str]:
        """Those of the words that the index finds a document for that matches the ``filter``, by its own analysis."""
        # zero_terms_query: a stop word is no mistake, though the analysis leaves nothing of it to search for
        conditions = [filter] if filter else []
        clauses: list[dict[str, Any]] = [
            {"bool": {"must": [text_clause(word, info.fields, zero_terms_query="all")], "filter": conditions}}
            for word in words
        ]
        totals = self.engine.document_counts(info.name, clauses, headers)
        return [word for word, total in zip(words, totals, strict=True) if total]

    def _sample(self, info: IndexInfo, headers: Headers) -> None:
        # without words, which is what a failure leaves: a sample that fails is tried again after ten minutes only
        words = IndexWords(Speller({}), None, self.clock())
        try:
            sources, named = self._sources(info, headers), title_field(info.fields)
            texts = (document_text(source, info.fields)[:_MAX_TEXT] for source in sources)
            documents = [tuple(dict.fromkeys(tokenize(text))) for text in texts]
            titles = (
                plain_text(str(one)).strip()
                for source in sources
                for one in (values_of(source, named) if named else ())
            )
            frequency = Counter(word for document in documents for word in document)
            speller, vocabulary = Speller(dict(frequency.most_common())), self._vocabulary(documents, info, headers)
            words = IndexWords(speller, vocabulary, self.clock(), [*dict.fromkeys(titles)])
        except Exception as error:
            log.warning("the words of %r are not known: %r", info.name, error)
        finally:
            self._known.put((info.name, str(headers)), words)
            _give_memory_back()
            self._sampling.release()

    def _sources(self, info: IndexInfo, headers: Headers) -> list[Mapping[str, Any]]:
        """Documents drawn at random, fewer where they are long: all are in memory at once."""
        fields = list(info.fields) or True
        hits = self.engine.sample(info.name, _FEW, fields, headers=headers).hits
        size = sum(len(str(hit.get("_source"))) for hit in hits) // max(1, len(hits))
        most = min(_DOCUMENTS, _CHARACTERS // max(1, size))
        if len(hits) == _FEW < most:
            hits = self.engine.sample(info.name, most, fields, headers=headers).hits
        return [hit.get("_source", {}) for hit in hits]

    def _vocabulary(self, documents: Sequence[Sequence[str]], info: IndexInfo, headers: Headers) -> Vocabulary:
        pairs = inflected_pairs(documents)
        clauses = [text_clause(word, info.fields) for pair in pairs for word in pair]
        total, *counts = self.engine.document_counts(info.name, [{"match_all": {}}, *clauses], headers=headers)
        alike = sum(first == second for first, second in zip(counts[::2], counts[1::2], strict=True))
        return Vocabulary(documents, total, 2 * alike > len(pairs), self._table())

    def _table(self) -> WordVectors:
        """Rows of words that are alike where the words mean about the same."""
        model = self.model
        # what was learned from documents is near for other reasons, and memberships are no words
        if model.name in (DEFAULT_MODEL, "mean") and model.max_alpha <= model.alpha:
            return model.table
        self._packaged = self._packaged or load_vectors()
        return self._packaged


def _give_memory_back() -> None:
    """Let the system have what is free by now: of what sampling takes for a moment, glibc would keep 30 MB for ever."""
    with suppress(AttributeError, OSError, TypeError):  # other libraries have no such function, other systems no name
        ctypes.CDLL(None).malloc_trim(0)


def _may_be_misspelt(word: str) -> bool:
    return _MIN_LETTERS <= len(word) <= _MAX_LETTERS and not any(letter.isnumeric() for letter in word)


def _corrections(speller: Speller, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each unknown word that has a correction, with it; that may be two words where a space was left out."""
    for word in words:
        corrected = " ".join(speller.correct(word))
        if corrected != word:
            yield word, corrected


def _replaced(query: str, corrections: Mapping[str, str]) -> str:
    """The query with words replaced, and all else as it was typed.

    >>> _replaced('"Bush" fier, 2001', {"fier": "fire"})
    '"Bush" fire, 2001'
    """
    return re.sub(r"[^\W_]+", lambda found: corrections.get(found[0].lower(), found[0]), query)
