"""Store users' marks, and describe what sessions learned from them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from resift.contracts.engine import Headers
from resift.encoders.model import Model
from resift.errors import IndexNotFound, NotFound, ResiftError
from resift.feedback.explain import explain, title_of
from resift.feedback.judgements import JudgedDocument, Judgement, Mark
from resift.sessions.documents import notes_on_unreadable_texts
from resift.sessions.knowledge import KnowledgeLoader
from resift.sessions.sessions import Sessions, StoredSession, check_judgements, check_session_id
from resift.text import searchable_words


class SessionMarks:
    """Adds users' marks (relevance judgements) to sessions, and describes what sessions learned from their marks.

    Instances are thread-safe.

    Args:
        model: The embedding model that encodes queries and documents.
        sessions: The search sessions, which store the marks.
        knowledge: Reads judged documents, and learns from judgements.
        searched_fields: A function that returns the text fields that the latest search of a session searched, given
            the session's id. Empty for all text fields.
    """

    def __init__(
        self,
        model: Model,
        sessions: Sessions,
        knowledge: KnowledgeLoader,
        searched_fields: Callable[[str], Collection[str]],
    ) -> None:
        self.model, self.sessions, self.knowledge, self.searched_fields = model, sessions, knowledge, searched_fields

    def add(
        self, session: str, index: str, query: str, marks: Mapping[str, Mark], headers: Headers = None
    ) -> StoredSession:
        """Add a user's marks (relevance judgements) to a session, as a new step that can be undone as a whole.

        The marks change the ranking of the session's later searches. Use :meth:`describe_session` to see what was
        learned from them. The engine is only asked whether the marked documents exist:

        - Withdrawing a mark (grade 0) also succeeds if the document no longer exists.
        - Skipped documents that no longer exist are ignored if other marks remain.
        - For any other document that does not exist, an error is raised.

        Args:
            session: The session's id. A new session starts with its first marks.
            index: The name under which the documents were searched.
            query: The query text that the marks were made for.
            marks: The marks, by document id.
            headers: The caller's HTTP headers, sent with requests to the engine.

        Returns:
            The stored session, including the new step.

        Raises:
            NotFound: If a marked document does not exist.
            IndexNotFound: If the index does not exist.
            ModelMismatch: If the index's vectors come from another model.
            SessionBusy: If concurrent writes to the session prevented this write.
            ResiftError: If the id of the session or the marks are invalid (see
                :func:`resift.sessions.sessions.check_judgements`).
        """
        check_session_id(session)
        judgements = [Judgement(index, id, mark.grade, source=mark.source) for id, mark in marks.items()]
        check_judgements(judgements)
        try:
            existing = self.knowledge.fetch_documents(index, list(marks), headers)
        except IndexNotFound:
            if any(mark.grade for mark in marks.values()):
                raise
            existing = {}
        missing = [id for id, mark in marks.items() if id not in existing and mark.grade]
        # A click is sent with the hits skipped above it. Some of these may have been deleted since they were shown.
        unknown = [id for id in missing if marks[id].source != "skip" or len(missing) == len(marks)]
        if unknown:
            raise NotFound(f"no document {unknown[0]!r} in {index!r}", value=unknown[0], expected="ids of hits")
        existing_judgements = [judgement for judgement in judgements if judgement.document not in missing]
        return self.sessions.add(session, query, existing_judgements)

    def describe_session(
        self, session: StoredSession, headers: Headers = None, method: str | None = None
    ) -> dict[str, Any]:
        """Return all stored judgements of a search session, with an explanation of what was learned from them.

        In an index without vectors of Resift, a session learns from the fields that a query searches. The explanation
        is about the fields of the session's latest search, if this service has run it in the last ten minutes.
        Otherwise, it is about all text fields.

        Args:
            session: The stored session.
            headers: The caller's HTTP headers. Only judgements of documents that this caller may read are returned. If
                None, all judgements are returned.
            method: The feedback method to describe, or None for the method of the service's settings.

        Returns:
            A dictionary with the id of the ``session``, the times ``created`` and ``expires``, the number of ``steps``,
            the list ``judgements``, and the explanation ``learned``. The explanation is None if nothing was learned.
            In each item of ``judgements``, ``counts`` tells whether the judgement still has an effect on searches.
            If no judged document has a text to learn from, the list ``notes`` contains a message about this.
        """
        effective = session.effective_judgements
        text_fields = self.searched_fields(session.id)
        documents = self.knowledge.read_judged_documents(
            effective if headers is None else session.judgements, headers, text_fields
        )
        readable = session.judgements if headers is None else [document.judgement for document in documents]
        # Judgements are compared by identity. A document may have been judged twice in the same way, and only one
        # judgement counts.
        documents_by_judgement = {id(document.judgement): document for document in documents}
        effective_ids = {id(judgement) for judgement in effective}
        judged = [
            documents_by_judgement[id(judgement)] for judgement in effective if id(judgement) in documents_by_judgement
        ]
        feedback = self.knowledge.learned_feedback(judged, method)
        index = effective[-1].index if effective else ""
        words = self.knowledge.expansion_words(feedback, index, headers, text_fields) if effective else ()
        word_values = partial(self.knowledge.word_values, headers=headers, text_fields=text_fields)
        notes = notes_on_unreadable_texts(judged)
        return {
            **session_summary(session),
            **({"notes": notes} if notes else {}),
            "judgements": [
                {**_judgement_details(judgement), "counts": id(judgement) in effective_ids} for judgement in readable
            ],
            "learned": None
            if feedback is None
            else explain(self.model, feedback, judged, _title_words_first(words, judged), word_values),
        }

    def describe_change(self, session: StoredSession, headers: Headers = None) -> dict[str, Any]:
        """Describe a session after a change was stored, like :meth:`describe_session`, even if the engine fails.

        An error would look as if the change was not stored, and a client would repeat it.

        Args:
            session: The session after the change.
            headers: The caller's HTTP headers.

        Returns:
            The description. If the engine fails, the judgements are left out, and a note gives the reason.
        """
        try:
            return self.describe_session(session, headers)
        except ResiftError as error:
            note = f"The change was stored, but the judgements cannot be described: {error.message}"
            return {**session_summary(session), "notes": [note], "judgements": [], "learned": None}


def session_summary(session: StoredSession) -> dict[str, Any]:
    """Return a short description of a session, as a JSON object for a response.

    It contains the id, the times of creation and expiry (in Unix seconds) and the number of feedback steps. No request
    to the engine is necessary.

    Args:
        session: The session.
    """
    return {
        "session": session.id,
        "created": session.created,
        "expires": session.expires,
        "steps": session.steps,
    }


def _judgement_details(judgement: Judgement) -> dict[str, Any]:
    """Return a judgement as a JSON object for a response."""
    names = ("step", "at", "query", "index", "document", "grade", "source")
    return {name: getattr(judgement, name) for name in names}


def _title_words_first(words: Sequence[str], judged: Sequence[JudgedDocument]) -> list[str]:
    """Order expansion words (words learned from relevant documents) as the explanation of a session shows them.

    Words in titles of relevant documents come first.

    People recognise the words of titles. The heaviest words of a text can be verbs that say little about its topic.
    Single letters and digits are left out, but not single characters beyond ASCII, which can be words.

    Args:
        words: The expansion words, heaviest first.
        judged: The judged documents of the session.
    """
    relevant = (document for document in judged if document.judgement.grade > 0)
    in_titles = {
        word for document in relevant for word in searchable_words(title_of(document.title_text or document.text))
    }
    names = [word for word in words if len(word) > 1 or not word.isascii()]
    return sorted(names, key=lambda word: word not in in_titles)
