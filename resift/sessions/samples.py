"""What is known of an index beside its judged documents: some drawn at random, and which words others have too."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from resift.cache import TtlCache
from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine, Headers
from resift.contracts.query_dsl import VectorFields, document_text, text_clause
from resift.errors import ResiftError
from resift.ranking.background import Background
from resift.ranking.feedback import Feedback

log = logging.getLogger(__name__)
WORDS = 25  # of a session in a query: more of them cost more than they find
_SECONDS, _KEPT, _DRAWN = 600.0, 64, 300
_KEPT_WORDS, _FEW = 100_000, 100
_OF_PERSONS = re.compile(
    r"(?:^|[._-])(?:author|byline|contributor|creator|editor|person|reviewer)s?(?:[._-]?names?)?$", re.I
)
_NOTHING = Background(np.zeros((0, 0)))


class Samples:
    """Vectors of documents drawn at random, remembered for ten minutes for callers with the same headers."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._samples: TtlCache[Background] = TtlCache(_KEPT, _SECONDS)

    def draw(self, info: IndexInfo, headers: Headers = None, fields: VectorFields | None = None) -> Background:
        """At most 300 vectors of an index, by default of those that we gave it; none where the engine gives none.

        Raises EngineUnavailable.
        """
        if fields is None and info.dim is None:
            return _NOTHING
        fields = fields or info.searched
        key = (info.name, fields if fields != info.searched else (fields, info.model), str(headers))
        known = self._samples.get(key)
        if known is not None:
            return known
        try:
            drawn = self.engine.sample(info.name, _DRAWN, False, fields, headers).vectors
        except ResiftError as error:
            if error.code == "engine_unavailable":
                raise
            log.warning("no sample of %r: %s", info.name, error.message)
            drawn = []
        held = [vector for vector in drawn if vector is not None]
        return self._samples.put(key, Background(np.stack(held)) if held else _NOTHING)


def learned_text(source: Mapping[str, Any], fields: Sequence[str]) -> str:
    """What is learned from of a document's ``fields``, or of all if none are named: not the names of persons, where a
    field's own says that it holds these. Who marks a document looks for others about the same, by whomever.

    >>> learned_text({"title": "Fire", "author": "Ann", "editor": {"name": "Bo"}}, ["title", "author", "editor.name"])
    'Fire'
    """
    if not fields:
        return document_text({name: value for name, value in source.items() if not _OF_PERSONS.search(name)}, ())
    return document_text(source, [name for name in fields if not _OF_PERSONS.search(name)] or fields)


class SharedWords:
    """Which words more than one document of an index has, remembered for ten minutes for callers with the same headers.

    What a single one has, such as a serial number, finds no other document. Of fewer than a hundred documents that is
    true of most words, and says nothing.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._known: TtlCache[bool] = TtlCache(_KEPT_WORDS, _SECONDS)

    def terms(self, feedback: Feedback | None, info: IndexInfo, headers: Headers = None) -> dict[str, float]:
        """The 25 heaviest of a feedback's expansion terms that two documents of an index have or more, and their
        weights; the engine is asked about new words alone, and where it refuses, they count."""
        candidates = {} if feedback is None else feedback.expansion_terms
        keys = {word: (info.name, str(headers), word) for word in candidates}
        if unknown := [word for word, key in keys.items() if self._known.get(key) is None]:
            for word, is_shared in zip(unknown, self._are_shared(unknown, info, headers), strict=True):
                self._known.put(keys[word], is_shared)
        shared = [word for word, key in keys.items() if self._known.get(key) is not False]
        return {word: candidates[word] for word in shared[:WORDS]}

    def _are_shared(self, words: Sequence[str], info: IndexInfo, headers: Headers) -> list[bool]:
        clauses = [text_clause(word, info.fields) for word in words]
        try:
            everything, *counts = self.engine.document_counts(info.name, [{"match_all": {}}, *clauses], headers)
        except ResiftError as error:
            log.warning("words of %r are not counted: %s", info.name, error.message)
            return [True] * len(words)
        return [count > 1 or everything < _FEW for count in counts]
