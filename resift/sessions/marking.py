"""Marking: how sessions learn more, and what they have learned, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from resift.contracts.engine import Headers
from resift.errors import IndexNotFound, NotFound
from resift.ranking.explain import explain
from resift.ranking.judgements import Judgement, Mark
from resift.sessions.knowledge import KnowledgeLoader
from resift.sessions.sessions import Session, check_judgements


def mark(
    loader: KnowledgeLoader, session: str, index: str, query: str, marks: Mapping[str, Mark], headers: Headers = None
) -> dict[str, Any]:
    """Add one step of ``marks`` (document id → mark) made for ``query``; returns the session.

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
    made = [one for one in judgements if one.document not in gone]
    return describe(loader, loader.sessions.add(session, query, made), headers)


def describe(loader: KnowledgeLoader, session: Session, headers: Headers = None) -> dict[str, Any]:
    """What is kept of a session, and what it learned, in words; of documents that the caller may not read nothing."""
    effective = session.effective_judgements
    # to a caller with rights of its own only judgements of documents are shown that it may read
    read = loader.read(effective if headers is None else session.judgements, headers)
    readable = session.judgements if headers is None else [one.judgement for one in read]
    found = {id(one.judgement): one for one in read}
    # by identity: the same document may have been judged twice in the same way, and only one judgement counts
    counting = {id(judgement) for judgement in effective}
    judged = [found[id(one)] for one in effective if id(one) in found]
    feedback = loader.learned(judged)
    # at this call and not at the next search, which somebody waits for
    asked = loader.words_of(feedback, effective[-1].index, headers) if effective else ()
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
