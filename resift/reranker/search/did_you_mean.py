"""Did you mean …? A query text whose misspelt words are replaced by words of the index."""

from __future__ import annotations

import ctypes
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from resift.cache import TtlCache
from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine
from resift.contracts.query_dsl import document_text, text_clause
from resift.ranking.spelling import Speller
from resift.text import tokenize

log = logging.getLogger(__name__)
SAMPLE_SECONDS = 600.0
_SAMPLES, _DOCUMENTS = 16, 3000
_MAX_TEXT = 20_000
_MIN_LETTERS, _MAX_LETTERS, _MAX_WORDS = 4, 40, 16
THREAD_NAME = "did-you-mean"
Headers = Mapping[str, str] | None


class DidYouMean:
    """Suggests what query texts were meant to be.

    The words come from a sample of the index's own documents, which is read in the background with the rights of the
    caller who searched first, and remembered for ten minutes for callers with the same headers. Until it is there
    nothing is suggested, so no search waits for it, unless somebody sets ``patience``: the seconds that a search for
    words that the index lacks waits. ``clock`` gives seconds.
    """

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.monotonic) -> None:
        self.engine = engine
        self.patience = 0.0
        self._spellers: TtlCache[Speller] = TtlCache(_SAMPLES, SAMPLE_SECONDS, clock)
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
            speller = self._speller(info, headers)
            corrections = dict(_corrections(speller, words)) if speller is not None else {}
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

    def _speller(self, info: IndexInfo, headers: Headers) -> Speller | None:
        """The index's speller; where there is none, it is begun in the background, one at a time."""
        speller = self._spellers.get((info.name, str(headers)))
        if speller is None and self._sampling.acquire(blocking=False):
            thread = threading.Thread(target=self._sample, args=(info, headers), name=THREAD_NAME, daemon=True)
            thread.start()
            if self.patience:
                thread.join(self.patience)
                speller = self._spellers.get((info.name, str(headers)))
        return speller

    def _sample(self, info: IndexInfo, headers: Headers) -> None:
        # without words, which is what a failure leaves: a sample that fails is tried again after ten minutes only
        speller = Speller({})
        try:
            speller = Speller.from_texts(self._texts(info, headers))
            speller.correct("a" * _MIN_LETTERS)  # builds the speller's index here, and not in the first search
        except Exception as error:
            log.warning("no words of %r to suggest: %r", info.name, error)
        finally:
            self._spellers.put((info.name, str(headers)), speller)
            _give_memory_back()
            self._sampling.release()

    def _texts(self, info: IndexInfo, headers: Headers) -> Iterator[str]:
        """Texts of documents drawn at random, which are in memory no longer than they are read."""
        hits = self.engine.sample(info.name, _DOCUMENTS, list(info.fields) or True, headers=headers).hits
        yield from (document_text(hit.get("_source", {}), info.fields)[:_MAX_TEXT] for hit in hits)

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
