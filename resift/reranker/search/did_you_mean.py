"""Did you mean …? A query text whose misspelt words are replaced by words of the index."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine
from resift.contracts.query_dsl import text_clause
from resift.ranking.spelling import Speller
from resift.reranker.search.sampled_words import SampledWords
from resift.text import FUNCTION_WORDS, tokenize

log = logging.getLogger(__name__)
_MIN_LETTERS, _MAX_LETTERS, _MAX_WORDS = 4, 40, 16
_COMPLETIONS = 4
Headers = Mapping[str, str] | None


class DidYouMean:
    """Suggests what query texts were meant to be, by the words of the index's own documents (:class:`SampledWords`).

    Until these are there nothing is suggested. If somebody is patient, only a search for words that the index lacks
    waits for them.
    """

    def __init__(self, engine: Engine, sampled: SampledWords) -> None:
        self.engine, self.sampled = engine, sampled

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
            if self.sampled.patience and set(self._in_index(words, info, headers)) == set(words):
                return None
            known = self.sampled.get(info, headers)
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
        """What a text may become: with the most frequent words of the sample, at most four, that its last word begins.

        None while there is no sample yet, which the first call begins to read.
        """
        known, words = self.sampled.get(info, headers), tokenize(text)
        if known is None or not words or not text[-1:].isalnum():
            return []
        last, head = words[-1], text[: -len(words[-1])]
        longer = (word for word in known.speller.frequency if word.startswith(last) and word != last)
        return [f"{head}{word}" for word in islice((one for one in longer if one not in FUNCTION_WORDS), _COMPLETIONS)]

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
