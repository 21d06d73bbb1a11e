"""What is known of an index: documents drawn at random, words that several have, and what judged ones have in it."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from resift.arrays import Floats
from resift.cache import TtlCache
from resift.contracts.documents import IndexInfo, VectorField
from resift.contracts.engine import Engine, Headers
from resift.contracts.query_dsl import VectorFields, document_text, text_clause
from resift.errors import ResiftError
from resift.ranking.background import Background
from resift.ranking.feedback import Feedback
from resift.ranking.judgements import JudgedDocument
from resift.ranking.own_vectors import OwnVectors

log = logging.getLogger(__name__)
K = TypeVar("K")
T = TypeVar("T")
Tokens = Mapping[str, float]
Fetch = Callable[[str, Sequence[str], str, Headers], Mapping[str, Any]]  # index, ids, field → values by id
WORDS = 25  # of a session in a query: more of them cost more than they find
_SECONDS, _KEPT, _DRAWN = 600.0, 64, 300
_KEPT_WORDS, _FEW = 100_000, 100
_OF_PERSONS = re.compile(
    r"(?:^|[._-])(?:author|byline|contributor|creator|editor|person|reviewer)s?(?:[._-]?names?)?$", re.I
)
_READ_SECONDS, _BYTES, _OTHER_BYTES, _BYTES_A_TOKEN = 300.0, 16_000_000, 200, 100
_TEXTS, _TEXT_SECONDS = 2000, 3600.0  # of texts that models have encoded
_FAILED, _FAILED_SECONDS = 200, 10.0  # for which a model is not asked again that failed at a text
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
        return {word: candidates[word] * info.tuning.words for word in shared[:WORDS]}

    def _are_shared(self, words: Sequence[str], info: IndexInfo, headers: Headers) -> list[bool]:
        clauses = [text_clause(word, info.fields) for word in words]
        try:
            everything, *counts = self.engine.document_counts(info.name, [{"match_all": {}}, *clauses], headers)
        except ResiftError as error:
            log.warning("words of %r are not counted: %s", info.name, error.message)
            return [True] * len(words)
        return [count > 1 or everything < _FEW for count in counts]


@dataclass(frozen=True)
class Needs:
    """What has to be known for a search body to be rewritten: the fields whose ``vectors`` and ``tokens`` it asks for,
    the ``texts`` that it has a model encode, (model, text), and those that become tokens, (model, analyzer, text)."""

    vectors: frozenset[str] = frozenset()
    tokens: frozenset[str] = frozenset()
    texts: frozenset[tuple[str, str]] = frozenset()
    token_texts: frozenset[tuple[str | None, str | None, str]] = frozenset()


@dataclass(frozen=True)
class FieldKnowledge:
    """What is known of an index's own vectors and tokens.

    ``mapped``: its fields of vectors and tokens, by the names that queries have for them. By names of fields, without
    those in which no judged document has anything: ``vectors``, what the documents' vectors teach, and ``tokens``,
    their tokens and how much each document counts. By what :class:`Needs` names, without what could not be had:
    ``encoded`` and ``query_tokens``.
    """

    mapped: Mapping[str, VectorField] = field(default_factory=dict)
    vectors: Mapping[str, OwnVectors] = field(default_factory=dict)
    tokens: Mapping[str, tuple[Sequence[Tokens], Sequence[float]]] = field(default_factory=dict)
    encoded: Mapping[tuple[str, str], Floats] = field(default_factory=dict)
    query_tokens: Mapping[tuple[str | None, str | None, str], Tokens] = field(default_factory=dict)


class FieldLoader:
    """Reads judged documents' vectors and tokens, and has models encode texts. May be used from several threads.

    ``headers`` are everywhere the caller's own, and what was read with them is remembered for these alone: documents'
    vectors and tokens for five minutes, and what models made of texts for an hour.
    """

    def __init__(self, engine: Engine, samples: Samples) -> None:
        self.engine, self.samples = engine, samples
        self._held: TtlCache[Any] = TtlCache(_BYTES, _READ_SECONDS)
        self._texts: TtlCache[Any] = TtlCache(_TEXTS, _TEXT_SECONDS)
        self._failed: TtlCache[bool] = TtlCache(_FAILED, _FAILED_SECONDS)

    def forget(self) -> None:
        """Read all documents anew: some have changed."""
        self._held.clear()

    def load(
        self,
        info: IndexInfo,
        needs: Needs,
        feedback: Feedback,
        documents: Sequence[JudgedDocument],
        here: Sequence[JudgedDocument],
        headers: Headers = None,
    ) -> FieldKnowledge:
        """What ``feedback``, the part of a session's that concerns a search of an index, comes to in its fields.

        ``documents`` are those that it was learned from, of which those ``here`` are in the index. What the engine
        refuses is left out.
        """
        there = set(map(id, here))
        places = [place for place, position in enumerate(feedback.positions) if id(documents[position]) in there]
        judged = [documents[feedback.positions[place]] for place in places]

        def read(names: Iterable[str], fetch: Fetch) -> dict[str, dict[int, Any]]:
            """By names of fields and places of documents what stands there, without what has nothing."""
            rows = {name: dict(zip(places, self._read(judged, name, headers, fetch), strict=True)) for name in names}
            return {name: held for name, one in rows.items() if (held := _held(one))}

        vectors, tokens = read(sorted(needs.vectors), self.engine.field_vectors), read(needs.tokens, self._tokens)
        return FieldKnowledge(
            info.mapped,
            {name: _own(feedback, one, self.samples.draw(info, headers, name)) for name, one in vectors.items()},
            {name: (list(one.values()), feedback.grades[list(one)].tolist()) for name, one in tokens.items()},
            _held({key: self._encoded(key, headers) for key in needs.texts}),
            _held({key: self._expanded(key, headers) for key in needs.token_texts}),
        )

    def _read(self, judged: Sequence[JudgedDocument], name: str, headers: Headers, fetch: Fetch) -> list[Any]:
        """What each judged document has in a field; None for one that has nothing, or cannot be read."""
        keys = [(one.judgement.index, one.judgement.document, name, str(headers)) for one in judged]
        known = {key: self._held.get(key) for key in keys}
        unread: dict[str, list[str]] = {}
        for index, id, *_ in (key for key, one in known.items() if one is None):
            unread.setdefault(index, []).append(id)
        for index, ids in unread.items():
            try:
                there = fetch(index, ids, name, headers)
            except ResiftError as error:
                log.warning("no %r of marked documents: %s", name, error.message)
                continue
            for id in ids:
                one = there.get(id, ())
                size = _OTHER_BYTES + (one.nbytes if isinstance(one, np.ndarray) else _BYTES_A_TOKEN * len(one))
                known[index, id, name, str(headers)] = self._held.put((index, id, name, str(headers)), one, size)
        found = [known[key] for key in keys]
        return [one if one is not None and len(one) else None for one in found]

    def _tokens(self, index: str, ids: Sequence[str], name: str, headers: Headers) -> dict[str, Tokens]:
        """The tokens in a field of each document with one of these ids."""
        values = self.engine.field_values(index, ids, name, headers)
        return {
            id: {token: float(weight) for one in found if isinstance(one, Mapping) for token, weight in one.items()}
            for id, found in values.items()
        }

    def _encoded(self, key: tuple[str, str], headers: Headers) -> Floats | None:
        return self._asked(("vector", *key), lambda: self.engine.embed(*key, headers), headers)

    def _expanded(self, key: tuple[str | None, str | None, str], headers: Headers) -> Tokens | None:
        model, analyzer, text = key
        return self._asked(("tokens", *key), lambda: self.engine.query_tokens(text, model, analyzer, headers), headers)

    def _asked(self, what: tuple[Hashable, ...], ask: Callable[[], T | None], headers: Headers) -> T | None:
        """What a model made of a text; None where it fails, and for some seconds after it did."""
        key = (what, str(headers))
        known = self._texts.get(key)
        if known is not None or self._failed.get(key):
            found: T | None = known
            return found
        try:
            made = ask()
        except ResiftError as error:
            log.warning("no %s of a query text: %s", what[0], error.message)
            self._failed.put(key, True)
            return None
        return None if made is None else self._texts.put(key, made)


def _own(feedback: Feedback, vectors: Mapping[int, Floats], background: Background) -> OwnVectors:
    """What a feedback's documents teach by other vectors, by their places in it."""
    lengths = np.array([np.linalg.norm(vector) for vector in vectors.values()])
    return OwnVectors(feedback.by_vectors(vectors, background), lengths)


def _held(values: Mapping[K, T | None]) -> dict[K, T]:
    """What is there."""
    return {key: value for key, value in values.items() if value is not None}
