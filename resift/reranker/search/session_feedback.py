"""What sessions have learned from their judgements, and how they learn more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from resift.encoders.model import Model
from resift.errors import IndexNotFound, NotFound
from resift.ranking.explain import explain
from resift.ranking.feedback import Feedback
from resift.ranking.judgements import GRADES, JudgedDocument, Judgement
from resift.reranker.cache import TtlCache
from resift.reranker.search.judged_documents import Headers, JudgedDocuments
from resift.reranker.sessions import Session, Sessions, check_judgements

_SECONDS, _BYTES = 300.0, 16_000_000
_BYTES_A_WORD = 70  # of a document's bag of words: the word, its weight, their place in a dictionary


class SessionFeedback:
    """Joins the sessions with their judged documents. ``method`` is one of :data:`resift.ranking.feedback.METHODS`."""

    def __init__(self, sessions: Sessions, documents: JudgedDocuments, model: Model, method: str) -> None:
        self.sessions, self.documents, self.model, self.method = sessions, documents, model, method
        self._learned: TtlCache[Feedback] = TtlCache(_BYTES, _SECONDS)

    def of(self, session: str | None, headers: Headers = None) -> Feedback | None:
        """What the session of this id has learned; None where nothing is judged. Raises BadInput for a bad id."""
        found = None if session is None else self.sessions.find(session)
        return self.learned(self.documents.of(found, headers))

    def learned(self, judged: Sequence[JudgedDocument]) -> Feedback | None:
        """What judged documents teach; None where there are none. The same documents are learned from once."""
        if not judged:
            return None
        # vectors and texts are part of the key: a document that was indexed anew teaches something else, and texts
        # with other unknown words, perhaps of another session, may have the same vector
        key = tuple(
            (one.judgement.grade, one.judgement.query, hash(one.text), hash(one.vector.tobytes())) for one in judged
        )
        known = self._learned.get(key)
        if known is not None:
            return known
        model = self.model
        learned = Feedback.from_judged(judged, model.dim, model.table.idf, self.method, model.known_part_of_documents)
        size = 3 * learned.vectors.nbytes + _BYTES_A_WORD * sum(map(len, learned.bags))
        return self._learned.put(key, learned, size)

    def mark(
        self, session: str, index: str, query: str, marks: dict[str, float], headers: Headers = None
    ) -> dict[str, Any]:
        """Add one step of ``marks`` (document id → grade) made for ``query``; returns the session and what changed.

        What does not exist can be withdrawn, and a document that does not is left out where it was passed over beside
        others. Raises NotFound and IndexNotFound for all else that does not exist, ModelMismatch, SessionBusy if other
        writers were always faster, and what :func:`check_judgements` raises.
        """
        judgements = [Judgement(index, id, grade) for id, grade in marks.items()]
        check_judgements(judgements)
        try:
            existing = self.documents.fetch(index, list(marks), headers)
        except IndexNotFound:
            if any(grade != GRADES["neutral"] for grade in marks.values()):
                raise
            existing = {}
        gone = [id for id, grade in marks.items() if id not in existing and grade != GRADES["neutral"]]
        # a hit that was deleted since it was shown must not cost the click on another one
        unknown = [id for id in gone if marks[id] != GRADES["skipped"] or len(gone) == len(marks)]
        if unknown:
            raise NotFound(f"no document {unknown[0]!r} in {index!r}", value=unknown[0], expected="ids of hits")
        before = self.learned(self.documents.of(self.sessions.find(session, wait=True), headers))
        changed = self.sessions.add(session, query, [one for one in judgements if one.document not in gone])
        after = self.learned(self.documents.of(changed, headers))
        return {**self.describe(changed, headers), "changed": _change(before, after, self.model.dim)}

    def describe(self, session: Session, headers: Headers = None) -> dict[str, Any]:
        """What is kept of a session, and what it has learned, in words; of documents that the caller may not read
        nothing."""
        judged = self.documents.of(session, headers)
        feedback = self.learned(judged)
        # by identity: the same document may have been judged twice in the same way, and only one judgement counts
        effective = {id(judgement) for judgement in session.effective_judgements}
        return {
            "session": session.id,
            "created": session.created,
            "expires": session.expires,
            "steps": session.steps,
            "judgements": [_described(one, id(one) in effective) for one in self.documents.shown(session, headers)],
            "learned": None if feedback is None else explain(self.model, feedback, judged),
        }


def _described(judgement: Judgement, counts: bool) -> dict[str, Any]:
    return {
        "step": judgement.step,
        "at": judgement.at,
        "query": judgement.query,
        "index": judgement.index,
        "document": judgement.document,
        "grade": judgement.grade,
        "counts": counts,
    }


def _change(before: Feedback | None, after: Feedback | None, dim: int) -> dict[str, float]:
    """How far the mask and the shift of queries moved, as lengths (l2)."""
    nothing = Feedback.from_judged([], dim)
    old, new = before or nothing, after or nothing
    return {
        "mask": round(float(np.linalg.norm(new.mask - old.mask)), 6),
        "shift": round(float(np.linalg.norm(new.shift - old.shift)), 6),
    }
