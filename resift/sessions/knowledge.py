"""Knowledge: what a session's judgements say for one search; :mod:`resift.sessions.loading` reads what it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from resift.arrays import Floats
from resift.contracts.query_dsl import VECTOR_FIELD, VectorFields
from resift.ranking.background import Background
from resift.ranking.feedback import Feedback
from resift.ranking.judgements import JudgedDocument
from resift.sessions.sessions import MAX_QUERY
from resift.vectors.similarity import SIMILARITIES


@dataclass(frozen=True)
class Knowledge:
    """What a query means to a session, or by itself.

    ``text``: what it asks for. ``vector`` (K,): its vector as the session moves it, under ``mask`` (K,) if the session
    learned one; None for an index without vectors. ``similarity``: ``cosine`` or ``jaccard``. ``terms``: the session's
    words, heaviest first, and their weights. ``kept``: id → similarity with the query as it was typed, of the judged
    documents whose place the session does not change. ``judged``: ids of all judged documents. ``homes``: where several
    indices are searched, id → the name of the index that a judged document is in. ``vector_fields``: the field of the
    documents' vectors, or fields of joined ones.

    Where it comes from: ``query_vector`` (K,), the query's own; ``feedback``, the part of what the session learned that
    concerns it, None if none does; ``documents``, the session's judged documents; and ``notes``, in English, on what
    had to be left out.
    """

    text: str
    vector: Floats | None
    similarity: str = "cosine"
    mask: Floats | None = None
    terms: Mapping[str, float] = field(default_factory=dict)
    kept: Mapping[str, float] = field(default_factory=dict)
    judged: Sequence[str] = ()
    homes: Mapping[str, str] = field(default_factory=dict)
    vector_fields: VectorFields = VECTOR_FIELD
    query_vector: Floats | None = None
    feedback: Feedback | None = None
    documents: Sequence[JudgedDocument] = ()
    notes: Sequence[str] = ()

    @cached_property
    def share(self) -> float:
        """What a document's score is multiplied with that keeps its place, as if it had its share of the session's
        words: 1 + ‖weights of the terms‖."""
        share: float = 1 + sum(weight**2 for weight in self.terms.values()) ** 0.5
        return share


def scoped_feedback(
    learned: Feedback | None, text: str, vector: Floats, sample: Callable[[], Background]
) -> Feedback | None:
    """The part of what a session ``learned`` that concerns a query; None if none does.

    ``text`` and ``vector`` (K,) are the query's; ``sample`` gives the background of its index, and is asked only where
    something was learned.
    """
    if learned is None:
        return None
    background = sample()
    scoped = learned.against(background).scoped(vector, background.vectors, text[:MAX_QUERY])
    return scoped if scoped.evidence else None


def knowledge_of(
    text: str,
    vector: Floats,
    feedback: Feedback | None,
    documents: Sequence[JudgedDocument],
    similarity: str,
    vector_fields: VectorFields | None = VECTOR_FIELD,
    several: bool = False,
    here: Sequence[JudgedDocument] | None = None,
    notes: Sequence[str] = (),
) -> Knowledge:
    """What ``feedback`` says of a query, in an index with ``vector_fields`` or, if None, without.

    ``text`` and ``vector`` (K,) are the query's own; ``documents``: the session's judged documents, of which those that
    are ``here``, by default all, may be hits; ``similarity``: the name of what compares vectors; ``several``: whether
    more than one index is searched.
    """
    moved = vector if feedback is None else feedback.transform_query(vector)
    here = documents if here is None else here
    return Knowledge(
        text,
        moved if vector_fields is not None and np.any(moved) else None,
        similarity,
        None if feedback is None or not feedback.method.masked else feedback.mask,
        {} if feedback is None else feedback.expansion_terms,
        {} if feedback is None else _kept(here, text, vector, similarity),
        tuple(dict.fromkeys(one.judgement.document for one in here)),
        {one.judgement.document: one.judgement.index for one in here} if several else {},
        vector_fields or VECTOR_FIELD,
        vector,
        feedback,
        documents,
        notes,
    )


def _kept(judged: Sequence[JudgedDocument], text: str, vector: Floats, similarity: str) -> dict[str, float]:
    """Of the documents judged for other queries, the similarity with the query as it was typed.

    They keep their places: otherwise what was marked before would crowd the top of whatever is asked next. What was
    judged for this very query is ranked as the session ranks it: a person who marks a hit looks for it to move.
    """
    kept = [one for one in judged if not _is_for(one, text)]
    if not kept:
        return {}
    similarities = SIMILARITIES[similarity](vector, np.stack([one.vector for one in kept]))
    return {one.judgement.document: float(value) for one, value in zip(kept, similarities, strict=True)}


def _is_for(judged: JudgedDocument, text: str) -> bool:
    """Whether a document was judged for this query, or for none."""
    return judged.judgement.query in ("", text[:MAX_QUERY])  # sessions keep no more of a query
