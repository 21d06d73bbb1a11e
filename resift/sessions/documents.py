"""Judged documents as their indices hold them: texts and vectors, and those of fields that an index had before us."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from resift.arrays import Floats
from resift.cache import TtlCache, get_or_fetch
from resift.contracts.documents import IndexInfo, VectorField
from resift.contracts.engine import Engine, Headers
from resift.encoders.model import Model
from resift.errors import ResiftError
from resift.feedback.feedback import Feedback
from resift.feedback.field_feedback import FieldFeedback, Tokens
from resift.feedback.judgements import JudgedDocument
from resift.feedback.ridge import Background
from resift.query.dsl import document_text

log = logging.getLogger(__name__)
Content = tuple[Floats, str]  # vector and text
_MAX_TEXT = 20_000
_OF_PERSONS = re.compile(
    r"(?:^|[._-])(?:author|byline|contributor|creator|editor|person|reviewer)s?(?:[._-]?names?)?$", re.I
)
_SECONDS, _BYTES, _OTHER_BYTES, _BYTES_A_TOKEN = 300.0, 16_000_000, 200, 100
_TEXTS, _TEXT_SECONDS = 2000, 3600.0  # of texts that models have encoded
_FAILED, _FAILED_SECONDS = 200, 10.0  # for which a model is not asked again that failed at a text


def read_documents(
    engine: Engine, model: Model, info: IndexInfo, ids: Sequence[str], headers: Headers
) -> dict[str, Content]:
    """The vector (K,) and the text of each of these documents of an index that exists; vectors that it lacks are
    encoded. Raises AmbiguousDocument, and what the engine raises."""
    documents = engine.documents(info.name, ids, headers, info.vector_field)
    existing = {id: documents[id] for id in ids if id in documents}
    missing = [document_text(source, info.fields) for source, vector in existing.values() if vector is None]
    encoded = iter(model.encode(missing) if missing else ())
    return {
        id: (
            next(encoded) if vector is None else np.asarray(vector, np.float32),
            learned_text(source, info.fields)[:_MAX_TEXT],
        )
        for id, (source, vector) in existing.items()
    }


def learned_text(source: Mapping[str, Any], fields: Sequence[str]) -> str:
    """What is learned from of a document's ``fields``, or of all if none are named: not the names of persons, where a
    field's own says that it holds these. Whoever marks a document looks for others about the same, no matter by whom.

    >>> learned_text({"title": "Fire", "author": "Ann", "editor": {"name": "Bo"}}, ["title", "author", "editor.name"])
    'Fire'
    """
    if not fields:
        return document_text({name: value for name, value in source.items() if not _OF_PERSONS.search(name)}, ())
    return document_text(source, [name for name in fields if not _OF_PERSONS.search(name)] or fields)


class AskedText(NamedTuple):
    """A query text that a ``model`` of the engine, or an ``analyzer``, makes a vector of, or ``tokens``."""

    text: str
    model: str | None
    analyzer: str | None = None
    tokens: bool = False


@dataclass(frozen=True)
class Needs:
    """What has to be known for a search body to be rewritten: ``fields`` of vectors and tokens, and ``texts``."""

    fields: frozenset[VectorField] = frozenset()
    texts: frozenset[AskedText] = frozenset()


NO_NEEDS = Needs()


@dataclass(frozen=True)
class FieldKnowledge:
    """What is known of an index's own vectors and tokens.

    ``mapped``: its fields of vectors and tokens, by the names that queries have for them. By names of fields, without
    those in which no judged document has anything: ``vectors``, what the documents' vectors teach, and ``tokens``,
    their tokens and how much each document counts. ``encoded``: what the texts that are needed became, the vector (K,)
    or the tokens, without what could not be had.
    """

    mapped: Mapping[str, VectorField] = field(default_factory=dict)
    vectors: Mapping[str, FieldFeedback] = field(default_factory=dict)
    tokens: Mapping[str, tuple[Sequence[Tokens], Sequence[float]]] = field(default_factory=dict)
    encoded: Mapping[AskedText, Any] = field(default_factory=dict)


class FieldLoader:
    """Reads judged documents' vectors and tokens, and has models encode texts. May be used from several threads.

    ``headers`` are everywhere the caller's own, and what was read with them is remembered for these alone: documents'
    vectors and tokens for five minutes, and what models made of texts for an hour. ``background`` gives vectors of
    other documents in an index's field.
    """

    def __init__(self, engine: Engine, background: Callable[[IndexInfo, Headers, str], Background]) -> None:
        self.engine, self.background = engine, background
        self._held: TtlCache[Any] = TtlCache(_BYTES, _SECONDS)
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
        there, places = set(map(id, here)), enumerate(feedback.positions)
        judged = {place: documents[position] for place, position in places if id(documents[position]) in there}
        vectors, tokens = dict[str, FieldFeedback](), dict[str, tuple[Sequence[Tokens], Sequence[float]]]()
        for one in sorted(needs.fields, key=lambda one: one.name):
            held = self._read(judged, one, headers)
            if held and one.kind == "tokens":
                tokens[one.name] = list(held.values()), feedback.grades[list(held)].tolist()
            elif held:
                lengths = np.array([np.linalg.norm(vector) for vector in held.values()])
                background = self.background(info, headers, one.name)
                vectors[one.name] = FieldFeedback(feedback.with_vectors(held, background), lengths)
        encoded = {text: made for text in needs.texts if (made := self._encoded(text, headers)) is not None}
        return FieldKnowledge(info.vector_fields, vectors, tokens, encoded)

    def _read(self, judged: Mapping[int, JudgedDocument], field: VectorField, headers: Headers) -> dict[int, Any]:
        """What judged documents have in a field, by their places; without those that have nothing, or cannot be
        read."""
        held: dict[int, Any] = {}
        for index in dict.fromkeys(one.judgement.index for one in judged.values()):
            places = {one.judgement.document: place for place, one in judged.items() if one.judgement.index == index}
            keys = {id: (index, id, field.name, str(headers)) for id in places}
            try:
                found = get_or_fetch(self._held, keys, partial(self._fetched, index, field, headers), _bytes_of)
            except ResiftError as error:
                log.warning("no %r of marked documents: %s", field.name, error.message)
                continue
            held |= {places[id]: one for id, one in found.items() if len(one)}
        return dict(sorted(held.items()))

    def _fetched(self, index: str, field: VectorField, headers: Headers, ids: Sequence[str]) -> dict[str, Any]:
        """What each document with one of these ids has in a field, which may be nothing."""
        there: Mapping[str, Any]
        if field.kind == "tokens":
            there = self._tokens(index, ids, field.name, headers)
        else:
            there = self.engine.field_vectors(index, ids, field.name, headers)
        return {id: there.get(id, ()) for id in ids}

    def _tokens(self, index: str, ids: Sequence[str], name: str, headers: Headers) -> dict[str, Tokens]:
        """The tokens in a field of each document with one of these ids."""
        values = self.engine.field_values(index, ids, name, headers)
        return {
            id: {token: float(weight) for one in found if isinstance(one, Mapping) for token, weight in one.items()}
            for id, found in values.items()
        }

    def _encoded(self, asked: AskedText, headers: Headers) -> Any:
        """What a text became; None where its model fails, and for some seconds after it did."""
        key = (asked, str(headers))
        known = self._texts.get(key)
        if known is not None or self._failed.get(key):
            return known
        try:
            if asked.tokens:
                made: Any = self.engine.query_tokens(asked.text, asked.model, asked.analyzer, headers)
            else:
                made = self.engine.embed(asked.model or "", asked.text, headers)
        except ResiftError as error:
            log.warning("a query text was not encoded: %s", error.message)
            self._failed.put(key, True)
            return None
        return None if made is None else self._texts.put(key, made)


def _bytes_of(held: Any) -> int:
    return _OTHER_BYTES + (held.nbytes if isinstance(held, np.ndarray) else _BYTES_A_TOKEN * len(held))
