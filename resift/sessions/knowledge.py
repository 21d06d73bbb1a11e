"""Knowledge: what a session's judgements say for one search.

A session, its client's clicks, the judged documents and a sample of the index are each read once for a request.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from resift.arrays import Floats
from resift.cache import TtlCache, get_or_fetch
from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine, Headers
from resift.encoders.model import Model
from resift.errors import (
    AmbiguousDocument,
    EngineError,
    EngineUnavailable,
    IndexNotFound,
    IndexNotServed,
    ModelMismatch,
    ResiftError,
    SessionsUnavailable,
)
from resift.feedback.feedback import Feedback
from resift.feedback.field_feedback import evidence_share
from resift.feedback.judgements import JudgedDocument, Judgement
from resift.feedback.ridge import Background
from resift.query.dsl import VECTOR_FIELD, text_clause
from resift.sessions.clicks import Clicks
from resift.sessions.documents import NO_NEEDS, Content, FieldKnowledge, FieldLoader, Needs, read_documents
from resift.sessions.sessions import MAX_QUERY, Sessions, effective_judgements
from resift.vectors.similarity import SIMILARITIES

log = logging.getLogger(__name__)
_GONE = (IndexNotFound, IndexNotServed, ModelMismatch)
_SECONDS, _BYTES = 300.0, 16_000_000  # of documents, and of what was learned from them
_OTHER_BYTES = 600  # of a document's entry, beside its vector and its text
WORD_WEIGHT = 0.5  # of the session's words beside a query's own, where nothing else vouches for them
_BYTES_A_WORD = 70  # of a document's bag of words: the word, its weight, their place in a dictionary
_SAMPLE_SECONDS, _SAMPLES, _DRAWN, _KEPT_WORDS, _FEW = 600.0, 64, 300, 100_000, 100
# So many of a session's words are in a query, if of this share of the largest weight: others cost more than they find.
WORDS, LEAST = 25, 0.1
_NO_BACKGROUND = Background(np.zeros((0, 0)))


@dataclass(frozen=True)
class Knowledge:
    """What a query means to a session, or by itself.

    ``text``: what it asks for. ``vector`` (K,): its vector as the session moves it, under ``mask`` (K,) if the session
    learned one; None for an index without vectors. ``similarity``: ``cosine`` or ``jaccard``. ``terms``: the session's
    words, heaviest first, and their weights. ``kept``: id → similarity with the query as it was typed, of the judged
    documents whose place the session does not change. ``judged``: ids of all judged documents. ``homes``: where several
    indices are searched, id → the name of the index that a judged document is in. ``vector_field``: the field of the
    documents' vectors. ``related_words``: for words of a text that finds little, those of the index that are nearest to
    them, and what these weigh (:meth:`resift.vectors.vocabulary.Vocabulary.related_words`).

    Where it comes from: ``feedback``, the part of what the session learned that concerns it, None if none does;
    ``documents``, the session's judged documents; ``own``, what they teach by vectors and tokens that the index had
    before us; ``gone``, how many marked documents are not there any more; and ``notes``, in English, on what had to be
    left out.
    """

    text: str
    vector: Floats | None
    similarity: str = "cosine"
    mask: Floats | None = None
    terms: Mapping[str, float] = field(default_factory=dict)
    kept: Mapping[str, float] = field(default_factory=dict)
    judged: Sequence[str] = ()
    homes: Mapping[str, str] = field(default_factory=dict)
    vector_field: str = VECTOR_FIELD
    feedback: Feedback | None = None
    documents: Sequence[JudgedDocument] = ()
    own: FieldKnowledge = field(default_factory=FieldKnowledge)
    gone: int = 0
    notes: Sequence[str] = ()
    related_words: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @cached_property
    def share(self) -> float:
        """What a document's score is multiplied by that keeps its place, as if it had its share of the session's
        words: 1 + ‖weights of the terms‖."""
        length: float = sum(weight**2 for weight in self.terms.values()) ** 0.5
        return 1 + self.word_weight * length

    @property
    def word_weight(self) -> float:
        """What the session's words weigh: a half where no vectors of ours say which documents they are about."""
        return WORD_WEIGHT if self.vector is None else 1.0

    @property
    def sinking(self) -> float:
        """What the scores of documents that were marked irrelevant to this very query are multiplied by where nothing
        else sinks them: 1 - e / (1 + e) for an evidence of e."""
        return 1.0 - evidence_share(0.0 if self.feedback is None else self.feedback.for_query.evidence)

    def judged_here(self, sign: int) -> list[str]:
        """Ids of the documents that were judged for this very query, relevant (1) or irrelevant (-1)."""
        grades = {one.judgement.document: one.judgement.grade for one in self.documents}
        return [id for id in self.judged if id not in self.kept and grades.get(id, 0) * sign > 0]


def scoped_feedback(
    learned: Feedback | None, text: str, vector: Floats, sample: Callable[[], Background], carried: float = 1.0
) -> Feedback | None:
    """The part of what a session ``learned`` that concerns a query; None if none does.

    ``text`` and ``vector`` (K,) are the query's; ``sample`` gives the background of its index, and is asked only where
    something was learned. ``carried``: how many times as much as usual judgements for other queries count.
    """
    if learned is None:
        return None
    background = sample()
    scoped = learned.with_background(background).scoped(vector, background.vectors, text[:MAX_QUERY], carried)
    return scoped if scoped.evidence else None


def knowledge_of(
    text: str,
    vector: Floats,
    feedback: Feedback | None,
    documents: Sequence[JudgedDocument],
    similarity: str,
    terms: Mapping[str, float],
    vector_field: str | None = VECTOR_FIELD,
    several: bool = False,
    here: Sequence[JudgedDocument] | None = None,
    notes: Sequence[str] = (),
) -> Knowledge:
    """What ``feedback`` says of a query, in an index with ``vector_field`` or, if None, without.

    ``text`` and ``vector`` (K,) are the query's own; ``documents``: the session's judged documents, of which those that
    are ``here``, by default all, may be hits; ``similarity``: the name of what compares vectors; ``terms``: the words
    that are asked for; ``several``: whether more than one index is searched.
    """
    moved = vector if feedback is None else feedback.transform_query(vector)
    here = documents if here is None else here
    return Knowledge(
        text,
        moved if vector_field is not None and np.any(moved) else None,
        similarity,
        None if feedback is None or not feedback.method.masked else feedback.mask,
        terms,
        {} if feedback is None else _kept(here, text, vector, similarity),
        tuple(dict.fromkeys(one.judgement.document for one in here)),
        {one.judgement.document: one.judgement.index for one in here} if several else {},
        vector_field or VECTOR_FIELD,
        feedback,
        documents,
        notes=notes,
    )


def _kept(judged: Sequence[JudgedDocument], text: str, vector: Floats, similarity: str) -> dict[str, float]:
    """Of the documents judged for other queries, the similarity with the query as it was typed.

    They keep their places: otherwise what was marked before would crowd the top of whatever is asked next. What was
    judged for this very query is ranked as the session ranks it: a person who marks a hit looks for it to move.
    """
    # judged for neither this query nor none; sessions keep no more of one
    kept = [one for one in judged if one.judgement.query not in ("", text[:MAX_QUERY])]
    if not kept:
        return {}
    similarities = SIMILARITIES[similarity](vector, np.stack([one.vector for one in kept]))
    return {one.judgement.document: float(value) for one, value in zip(kept, similarities, strict=True)}


class Samples:
    """Vectors of documents drawn at random, remembered for ten minutes for callers with the same headers."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._samples: TtlCache[Background] = TtlCache(_SAMPLES, _SAMPLE_SECONDS)

    def draw(self, info: IndexInfo, headers: Headers = None, field: str | None = None) -> Background:
        """At most 300 vectors of an index, by default of those that we gave it; none where the engine gives none.

        Raises EngineUnavailable.
        """
        if field is None and info.dim is None:
            return _NO_BACKGROUND
        field = field or info.vector_field
        key = (info.name, field if field != info.vector_field else (field, info.model), str(headers))
        if (known := self._samples.get(key)) is not None:
            return known
        try:
            drawn = self.engine.sample(info.name, _DRAWN, False, field, headers).vectors
        except ResiftError as error:
            if error.code == "engine_unavailable":
                raise
            log.warning("no sample of %r: %s", info.name, error.message)
            drawn = []
        held = [vector for vector in drawn if vector is not None]
        return self._samples.put(key, Background(np.stack(held)) if held else _NO_BACKGROUND)


class WordValues:
    """How much words find in an index, remembered for ten minutes for callers with the same headers."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._known: TtlCache[float] = TtlCache(_KEPT_WORDS, _SAMPLE_SECONDS)

    def terms(self, feedback: Feedback | None, info: IndexInfo, headers: Headers = None) -> dict[str, float]:
        """At most 25 of a feedback's expansion terms, heaviest first, and their weights, from the largest to a tenth.

        They have the largest weight · idf · log(1 + n), a selection value like Robertson's (1990, "On term selection
        for query expansion"), where n documents have the word. What one has, such as a serial number, finds no other;
        of fewer than a hundred documents that is true of most words, and says nothing. The engine is asked about new
        words alone, and where it refuses, all count alike.
        """
        candidates = {} if feedback is None else feedback.expansion_terms
        keys = {word: (info.name, str(headers), word) for word in candidates}
        values = get_or_fetch(self._known, keys, lambda words: self._values(words, info, headers))
        best = sorted(filter(values.get, candidates), key=lambda word: -candidates[word] * values[word])[:WORDS]
        least = LEAST * max((candidates[word] for word in best), default=0.0)
        heavy = [word for word in candidates if word in best and candidates[word] >= least]
        return {word: candidates[word] * info.tuning.words for word in heavy}

    def _values(self, words: Sequence[str], info: IndexInfo, headers: Headers) -> dict[str, float]:
        clauses = [text_clause(word, info.fields) for word in words]
        try:
            everything, *counts = self.engine.document_counts(info.name, [{"match_all": {}}, *clauses], headers)
        except ResiftError as error:
            log.warning("words of %r are not counted: %s", info.name, error.message)
            everything, counts = 0, []
        if everything < _FEW:
            return dict.fromkeys(words, 1.0)
        n = np.array(counts)
        values = np.where(n > 1, np.log((everything + 1) / (n + 0.5)) * np.log1p(n), 0.0)
        return dict(zip(words, values.tolist(), strict=True))


class KnowledgeLoader:
    """Joins sessions, clicks, and judged documents as their indices hold them now. May be used from several threads.

    ``info`` gives an index's fields for a caller's headers, and raises ModelMismatch for an index of another model.
    ``method`` is one of :data:`resift.feedback.methods.METHODS`. Documents' vectors and texts are remembered for five
    minutes. Without ``clicks``, UBI's log is not looked at.
    """

    def __init__(
        self,
        engine: Engine,
        model: Model,
        sessions: Sessions,
        info: Callable[[str, Headers], IndexInfo],
        method: str,
        clicks: Clicks | None = None,
    ) -> None:
        self.engine, self.model, self.sessions, self.info = engine, model, sessions, info
        self.method, self.clicks, self.samples = method, clicks, Samples(engine)
        self.fields, self.words = FieldLoader(engine, self.samples.draw), WordValues(engine)
        self._contents: TtlCache[Content] = TtlCache(_BYTES, _SECONDS)
        self._learned: TtlCache[Feedback] = TtlCache(_BYTES, _SECONDS)

    def load(
        self,
        info: IndexInfo,
        text: str,
        session: str | None = None,
        client: str | None = None,
        through_cluster: bool = False,
        headers: Headers = None,
        needs: Needs = NO_NEEDS,
    ) -> Knowledge:
        """What a ``session``, and a ``client`` by clicks, know of a query text in an index, and of what its body needs.

        ``client`` and ``through_cluster`` are those of :class:`resift.rewriting.request.Asked`. Where the session or
        the clicks cannot be read, the search goes without, and ``notes`` tell it. Raises BadInput for a malformed
        session's id and what the engine raises.
        """
        judgements, notes = self._judgements(info.name, session, client, through_cluster, headers)
        documents = self.read(judgements, headers)
        vector = self.model.encode_one(text)
        sample, carried = partial(self.samples.draw, info, headers), info.tuning.carried
        feedback = scoped_feedback(self.learned(documents), text, vector, sample, carried)
        here = [one for one in documents if self._is_searched(one.judgement.index, info, headers)]
        field, several = None if info.model is None else info.vector_field, len(info.indices) > 1
        terms, similarity = self.words.terms(feedback, info, headers), self.model.similarity
        known = knowledge_of(text, vector, feedback, documents, similarity, terms, field, several, here, notes)
        if feedback is None:
            return known
        gone = sum(one.index in (info.name, *info.indices) for one in judgements) - len(here)
        own = FieldKnowledge(info.vector_fields)
        if needs.fields:
            own = self.fields.load(info, needs, feedback.for_query, documents, here, headers)
        return replace(known, gone=max(0, gone), own=own)

    def _judgements(
        self, index: str, session: str | None, client: str | None, through_cluster: bool, headers: Headers
    ) -> tuple[list[Judgement], list[str]]:
        """The effective judgements of the session, and its client by clicks; none, and why, where they cannot be
        read."""
        notes: list[str] = []
        stored, clicked = None, list[Judgement]()
        try:
            stored = None if session is None else self.sessions.find(session, through_cluster)
        except SessionsUnavailable as error:
            log.warning("searching without the session: %s", error.message)
            notes.append(error.message)
        judgements = [] if stored is None else stored.effective_judgements
        client = client or session
        # UBI's log knows no owners: with keys, it is the cluster's and an admin's
        if self.clicks and client and (through_cluster or self.sessions.caller().may_use(None)):
            try:
                clicked = self.clicks.judgements(client, index, headers)
            except (EngineError, EngineUnavailable) as error:
                log.warning("searching without clicks: %s", error.message)
                notes.append(f"clicks: {error.message}")
        # what somebody marked says more than a click on it
        marked = {(one.index, one.document) for one in judgements}
        clicked = [one for one in clicked if (one.index, one.document) not in marked]
        return effective_judgements([*clicked, *judgements]), notes

    def _is_searched(self, index: str, info: IndexInfo, headers: Headers) -> bool:
        """Whether documents that were judged under an index's name may be hits of a search: names may be aliases."""
        try:
            judged = info if index == info.name else self.info(index, headers)
        except _GONE:
            return False  # its documents are remembered for a while longer than the index was there
        return not set(judged.indices).isdisjoint(info.indices)

    def learned(self, judged: Sequence[JudgedDocument]) -> Feedback | None:
        """What judged documents teach; None where there are none. The same documents are learned from once."""
        if not judged:
            return None
        # vectors and texts are part of the key: a document that was indexed anew teaches something else, and texts
        # with other unknown words, perhaps of another session, may have the same vector
        key = tuple(
            (one.judgement.grade, one.judgement.query, hash(one.text), hash(one.vector.tobytes())) for one in judged
        )
        if (known := self._learned.get(key)) is not None:
            return known
        model = self.model
        learned = Feedback.from_judged(judged, model.dim, model.table.idf, self.method, model.document_known_share)
        size = 3 * learned.vectors.nbytes + _BYTES_A_WORD * sum(map(len, learned.bags))
        return self._learned.put(key, learned, size)

    def words_of(self, feedback: Feedback | None, index: str, headers: Headers = None) -> list[str]:
        """The words that are asked for in an index after ``feedback``, heaviest first; none in one that is gone.

        What else a search needs of the index is read as well, so that the next one has nothing to wait for.
        """
        try:
            info = self.info(index, headers)
            self.samples.draw(info, headers)
            return list(self.words.terms(feedback, info, headers))
        except _GONE:
            return []

    def read(self, judgements: Sequence[Judgement], headers: Headers) -> list[JudgedDocument]:
        """Judgements with their documents.

        Left out are documents that are gone or that the caller may not read, those whose ids another index has by now,
        and indices that are gone, are not served or hold vectors of another model.
        """
        contents: dict[tuple[str, str], Content] = {}
        for index in dict.fromkeys(one.index for one in judgements):
            ids = list(dict.fromkeys(one.document for one in judgements if one.index == index))
            known = {id: self._contents.get((index, id, str(headers))) for id in ids}
            unknown = [id for id, content in known.items() if content is None]
            there = {**known, **(self._existing(index, unknown, headers) if unknown else {})}
            contents |= {(index, id): content for id, content in there.items() if content is not None}
        keys = ((one, (one.index, one.document)) for one in judgements)
        return [JudgedDocument(one, *contents[key]) for one, key in keys if key in contents]

    def _existing(self, index: str, ids: Sequence[str], headers: Headers) -> dict[str, Content]:
        try:
            return self.fetch(index, ids, headers)
        except AmbiguousDocument:
            half = len(ids) // 2
            parts = (ids[:half], ids[half:]) if half else ()
            return {id: one for part in parts for id, one in self._existing(index, part, headers).items()}
        except _GONE:
            return {}

    def fetch(self, index: str, ids: Sequence[str], headers: Headers) -> dict[str, Content]:
        """Vector (K,) and text of each of these documents that exists, read anew.

        Raises IndexNotFound, IndexNotServed, ModelMismatch, AmbiguousDocument, and what the engine raises.
        """
        found = read_documents(self.engine, self.model, self.info(index, headers), ids, headers)
        for id, (vector, text) in found.items():
            size = vector.nbytes + sys.getsizeof(text) + len(str(headers)) + _OTHER_BYTES
            # headers are part of the key: callers with rights of their own may read other documents
            self._contents.put((index, id, str(headers)), (vector, text), size)
        return found

    def forget(self) -> None:
        """Fetch all documents anew: some have changed."""
        self._contents.clear()
        self.fields.forget()
