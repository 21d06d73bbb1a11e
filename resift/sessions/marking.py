"""Marking: how sessions learn more, and what they have learned, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from resift.errors import IndexNotFound, NotFound
from resift.ranking.explain import explain
from resift.ranking.feedback import Feedback
from resift.ranking.judgements import Judgement, Mark
from resift.sessions.knowledge import Contents, Headers, KnowledgeLoader
from resift.sessions.sessions import Session, check_judgements


def mark(
    loader: KnowledgeLoader, session: str, index: str, query: str, marks: Mapping[str, Mark], headers: Headers = None
) -> dict[str, Any]:
    """Add one step of ``marks`` (document id → mark) made for ``query``; returns the session and what changed.

    What does not exist can be withdrawn, and a document that does not is left out where it was passed over beside
    others. Raises NotFound and IndexNotFound for all else that does not exist, ModelMismatch, SessionBusy if other
    writers were always faster, and what :func:`resift.sessions.sessions.check_judgements` raises.
    """
    judgements = [Judgement(index, id, mark.grade, source=mark.source) for id, mark in marks.items()]
    check_judgements(judgements)
    try:
        existing = loader.fetch(index, list(marks), headers)
    except IndexNotFound:
        if any(mark.grade for mark in marks.values()):
            raise
        existing = {}
    gone = [id for id, mark in marks.items() if id not in existing and mark.grade]
    # a hit that was deleted since it was shown must not cost the click on another one
    unknown = [id for id in gone if marks[id].source != "skip" or len(gone) == len(marks)]
    if unknown:
        raise NotFound(f"no document {unknown[0]!r} in {index!r}", value=unknown[0], expected="ids of hits")
    contents: Contents = {(index, id): existing.get(id) for id in marks}
    made = [one for one in judgements if one.document not in gone]
    known = loader.sessions.find(session, wait=True)
    before = loader.learned(loader.read(known.effective_judgements if known else [], headers, contents))
    changed = loader.sessions.add(session, query, made)
    answer = describe(loader, changed, headers, contents)
    after = loader.learned(loader.read(changed.effective_judgements, headers, contents))
    return {**answer, "changed": _change(before, after, loader.model.dim)}


def describe(
    loader: KnowledgeLoader, session: Session, headers: Headers = None, contents: Contents | None = None
) -> dict[str, Any]:
    """What is kept of a session, and what it has learned, in words; of documents that the caller may not read nothing.

    ``contents`` is what the request has read already.
    """
    contents = {} if contents is None else contents
    effective = session.effective_judgements
    # to a caller with rights of its own only judgements of documents are shown that it may read
    readable = session.judgements
    if headers is not None:
        readable = tuple(one.judgement for one in loader.read(session.judgements, headers, contents))
    judged = loader.read(effective, headers, contents)
    feedback = loader.learned(judged)
    # at this call and not at the next search, which somebody waits for
    asked = loader.words_of(feedback, effective[-1].index, headers) if effective else ()
    # by identity: the same document may have been judged twice in the same way, and only one judgement counts
    counting = {id(judgement) for judgement in effective}
    return {
        "session": session.id,
        "created": session.created,
        "expires": session.expires,
        "steps": session.steps,
        "judgements": [{**_described(one), "counts": id(one) in counting} for one in readable],
        "learned": None if feedback is None else explain(loader.model, feedback, judged, asked),
    }


def _described(judgement: Judgement) -> dict[str, Any]:
    names = ("step", "at", "query", "index", "document", "grade", "source")
    return {name: getattr(judgement, name) for name in names}


def _change(before: Feedback | None, after: Feedback | None, dim: int) -> dict[str, float]:
    """How far the mask and the shift of queries moved, as lengths (l2)."""
    nothing = Feedback.from_judged([], dim)
    old, new = before or nothing, after or nothing
    return {
        "mask": round(float(np.linalg.norm(new.mask - old.mask)), 6),
        "shift": round(float(np.linalg.norm(new.shift - old.shift)), 6),
    }
