"""What a query means in a session, by the documents that were judged there: the step before its rewriting."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from resift.arrays import Floats
from resift.contracts.query_dsl import VECTOR_FIELD, VectorFields
from resift.rewriting.rewrite import Meaning
from resift.ranking.background import Background
from resift.ranking.feedback import Feedback
from resift.ranking.judgements import JudgedDocument
from resift.sessions.sessions import MAX_QUERY
from resift.vectors.similarity import SIMILARITIES


def scoped_feedback(
    learned: Feedback | None,
    judged: Sequence[JudgedDocument],
    text: str,
    vector: Floats,
    sample: Callable[[], Background],
) -> Feedback | None:
    """The part of what ``judged`` documents taught that concerns a query; None if none does.

    ``text`` and ``vector`` (K,) are the query's; ``sample`` gives the background of its index, and is asked only where
    something is judged.
    """
    if learned is None:
        return None
    background = sample()
    scoped = learned.against(background).scoped(vector, background.vectors, text[:MAX_QUERY])
    return scoped if scoped.evidence else None


def meaning_of(
    text: str,
    vector: Floats,
    feedback: Feedback | None,
    judged: Sequence[JudgedDocument],
    similarity: str,
    vector_fields: VectorFields | None = VECTOR_FIELD,
    several: bool = False,
) -> Meaning:
    """What a query means with what ``feedback`` says of it, in an index with ``vector_fields`` or, if None, without.

    ``text`` and ``vector`` (K,) are the query's own; ``judged``: the session's documents that may be hits;
    ``similarity``: the name of what compares vectors; ``several``: whether more than one index is searched.
    """
    moved = vector if feedback is None else feedback.transform_query(vector)
    return Meaning(
        text,
        moved if vector_fields is not None and np.any(moved) else None,
        similarity,
        None if feedback is None or not feedback.method.masked else feedback.mask,
        {} if feedback is None else feedback.expansion_terms,
        {} if feedback is None else _kept(judged, text, vector, similarity),
        tuple(dict.fromkeys(one.judgement.document for one in judged)),
        {one.judgement.document: one.judgement.index for one in judged} if several else {},
        vector_fields or VECTOR_FIELD,
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
