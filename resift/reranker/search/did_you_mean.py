"""Did you mean …? A query text with its misspelt words replaced by words of the index, and what one becomes while it is
typed."""

from __future__ import annotations

import ctypes
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from resift.cache import TtlCache
from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine
from resift.contracts.query_dsl import document_text, text_clause, values_of
from resift.ranking.spelling import Speller
from resift.stop_words import FUNCTION_WORDS
from resift.text import tokenize

log = logging.getLogger(__name__)
SAMPLE_SECONDS = 600.0
_SAMPLES, _DOCUMENTS = 16, 3000
_MAX_TEXT = 20_000
_MIN_LETTERS, _MAX_LETTERS, _MAX_WORDS = 4, 40, 16
_COMPLETIONS, _TITLE = 4, 100  # of words, and of titles, which may have so many characters
THREAD_NAME = "did-you-mean"
Headers = Mapping[str, str] | None
TitleField = Callable[[IndexInfo, Headers], str | None]


@dataclass(frozen=True)
class Sample:
    """What is remembered of an index's documents: the ``speller`` of their words, and their ``titles``."""

    speller: Speller
    titles: Sequence[str] = ()


class DidYouMean:
    """Suggests what query texts were meant to be.

    The words come from a sample of the index's own documents, which is read in the background with the rights of the
    caller who searched first, and remembered for ten minutes for callers with the same headers. Until it is there
    nothing is suggested, so no search waits for it, unless somebody sets ``patience``: the seconds that a search for
    words that the index lacks waits. ``title_field`` names the field of an index's titles; ``clock`` gives seconds.
    """

    def __init__(
        self, engine: Engine, clock: Callable[[], float] = time.monotonic, title_field: TitleField | None = None
    ) -> None:
        self.engine, self.title_field = engine, title_field
        self.patience = 0.0
        self._samples: TtlCache[Sample] = TtlCache(_SAMPLES, SAMPLE_SECONDS, clock)
        self._sampling = threading.Lock()

    def suggest(
        self, query: str, info: IndexInfo, headers: Headers = None, filter: dict[str, Any] | None = None
    ) -> str | None:
        """The query with its misspelt words replaced; None if there are none, or nothing is known of the index yet.

        A word counts as misspelt if neither the sample nor the index itself holds it, and the sample has a word that
        is spelt nearly so (:class:`resift.ranking.spelling.Speller`). Short words, words with digits and those of
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
            sample = self._sampled(info, headers)
            corrections = dict(_corrections(sample.speller, words)) if sample is not None else {}
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
        """What a text may become: the most frequent words that its last one begins, and titles with all of its words.

        At most four of each, of the sample; none while there is no sample yet, which the first call begins to read.
        """
        sample, words = self._sampled(info, headers), tokenize(text)
        if sample is None or not words:
            return []
        last, head = words[-1], text.rstrip()[: -len(words[-1])]
        # words that end the text are finished where a blank follows
        begun = last if text[-1:].isalnum() else None
        longer = (word for word in sample.speller.frequency if begun and word.startswith(begun) and word != begun)
        found = [f"{head}{word}" for word in islice((one for one in longer if one not in FUNCTION_WORDS), _COMPLETIONS)]
        titles = (title for title in sample.titles if all(_begins(word, title.lower()) for word in words))
        return list(dict.fromkeys([*found, *islice(titles, _COMPLETIONS)]))

    def _sampled(self, info: IndexInfo, headers: Headers) -> Sample | None:
        """What is remembered of the index; where nothing is, it is read in the background, of one index at a time."""
        sample = self._samples.get((info.name, str(headers)))
        if sample is None and self._sampling.acquire(blocking=False):
            thread = threading.Thread(target=self._sample, args=(info, headers), name=THREAD_NAME, daemon=True)
            thread.start()
            if self.patience:
                thread.join(self.patience)
                sample = self._samples.get((info.name, str(headers)))
        return sample

    def _sample(self, info: IndexInfo, headers: Headers) -> None:
        # without words, which is what a failure leaves: a sample that fails is tried again after ten minutes only
        sample = Sample(Speller({}))
        try:
            field = self.title_field(info, headers) if self.title_field else None
            titles: dict[str, None] = {}
            sample = Sample(Speller.from_texts(self._texts(info, field, titles, headers)), list(titles))
            sample.speller.correct("a" * _MIN_LETTERS)  # builds the speller's index here, and not in the first search
        except Exception as error:
            log.warning("no words of %r to suggest: %r", info.name, error)
        finally:
            self._samples.put((info.name, str(headers)), sample)
            _give_memory_back()
            self._sampling.release()

    def _texts(self, info: IndexInfo, field: str | None, titles: dict[str, None], headers: Headers) -> Iterator[str]:
        """Texts of documents drawn at random, which are in memory no longer than they are read; notes their titles."""
        wanted = dict.fromkeys([*info.fields, *([field] if field else [])])
        hits = self.engine.sample(info.name, _DOCUMENTS, list(wanted) if info.fields else True, headers=headers).hits
        for hit in hits:
            source = hit.get("_source", {})
            values = values_of(source, field) if field else ()
            titles.update((one.strip(), None) for one in values if isinstance(one, str) and len(one) <= _TITLE)
            yield document_text(source, info.fields)[:_MAX_TEXT]

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


def _give_memory_back() -> None:
    """Let the system have what is free by now: of what sampling takes for a moment, glibc would keep 30 MB for ever."""
    with suppress(AttributeError, OSError, TypeError):  # other libraries have no such function, other systems no name
        ctypes.CDLL(None).malloc_trim(0)


def _begins(word: str, title: str) -> bool:
    """Whether a word of a title begins so; scripts without spaces have words within others."""
    return f" {word}" in f" {title}" or (not word.isascii() and word in title)


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
