"""Rewriting with what a session knows: from its judgements to the body that the engine is asked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.errors import (
    BadInput,
    EngineError,
    EngineUnavailable,
    IndexNotFound,
    IndexNotServed,
    ModelMismatch,
    SessionsUnavailable,
)
from resift.contracts.documents import IndexInfo
from resift.rewriting.text import find_text, telling_words
from resift.rewriting.rewrite import JUDGED, Meaning, RewriteSettings, Rewritten, rewrite
from resift.ranking.feedback import Feedback
from resift.ranking.judgements import JudgedDocument, Judgement, effective_judgements
from resift.sessions.clicks import Clicks
from resift.reranker.config import Config
from resift.reranker.limits import MAX_WINDOW
from resift.reranker.search.index_sample import IndexSamples
from resift.reranker.search.judged_documents import JudgedDocuments
from resift.reranker.search.meaning import meaning_of, scoped_feedback
from resift.reranker.search.session_feedback import SessionFeedback
from resift.sessions.sessions import Sessions, is_id
from resift.vectors.similarity import known_alpha

log = logging.getLogger(__name__)
Headers = Mapping[str, str] | None


@dataclass(frozen=True)
class Asked:
    """What a search asks of its rewriting; None is the default: of the configuration, the model, or the session.

    ``text``: what is encoded, "" where the query has none. ``client``: whose clicks count, as UBI has them, where that
    is not the session's id. ``through_cluster``: whether a search pipeline asks, with
    the cluster's key: then a session is whose who knows its id. The others are those of
    :class:`resift.reranker.search.request.Search`.
    """

    text: str
    session: str | None = None
    client: str | None = None
    alpha: float | None = None
    window: int | None = None
    widen: bool = False
    knn: int | None = None
    judged: str = "keep"
    through_cluster: bool = False


def asked_in(body: dict[str, Any]) -> Asked:
    """What a body that comes through a search pipeline asks for, in ``ext.ml_inference``.

    Where that names no session, or no query, ``ext.ubi`` does by its ``client_id`` and ``user_query``. Raises BadInput
    for a value of another form than a search has it.
    """
    ext = body.get("ext")
    given = ext.get("ml_inference") if isinstance(ext, dict) else None
    ubi = ext.get("ubi") if isinstance(ext, dict) else None
    if given is not None and not isinstance(given, dict):
        raise BadInput("ext.ml_inference is malformed", value=given, expected=" | ".join(OPTIONS))
    asked: dict[str, Any] = {}
    for name, (kinds, expected, allowed) in OPTIONS.items():
        value = (given or {}).get(name)
        if value is None:
            continue
        # bool is a kind of int in Python, and true is no number in JSON
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool) or not allowed(value):
            raise BadInput(f"{name} is {value!r}", value=value, expected=expected)
        asked["text" if name == "query" else name] = value
    return Asked(**{"text": find_text(body.get("query", {})), **_asked_by_ubi(ubi), **asked}, through_cluster=True)


def _asked_by_ubi(ubi: Any) -> dict[str, str]:
    """What a body asks for in ``ext.ubi``, as far as that is well formed: the UBI plugin is there to judge that."""
    known = {name: value for name, value in ubi.items() if isinstance(value, str)} if isinstance(ubi, dict) else {}
    client, text = known.get("client_id", ""), known.get("user_query", "")
    asked = {"text": text} if text else {}
    if client:
        # what is no session's id may still be a client's
        asked |= {"client": client} | ({"session": client} if is_id(client) else {})
    return asked


# What ``ext.ml_inference`` may say, and of what form; other names in it are those of other processors.
OPTIONS: dict[str, tuple[Any, str, Callable[[Any], bool]]] = {
    "query": (str, "a text", lambda value: True),
    "session": (str, "a session's id", lambda value: True),
    "alpha": ((int, float), "0 to 1", lambda value: 0 <= value <= 1),
    "window": (int, f"1 to {MAX_WINDOW}", lambda value: 1 <= value <= MAX_WINDOW),
    "widen": (bool, "true or false", lambda value: True),
    "knn": (int, f"0 to {MAX_WINDOW}", lambda value: 0 <= value <= MAX_WINDOW),
    "judged": (str, " | ".join(JUDGED), lambda value: value in JUDGED),
}


@dataclass(frozen=True)
class SessionQuery:
    """One query in its session, and how it was rewritten.

    ``vector`` (K,): the query's own. ``feedback``: the part of what the session learned that concerns it, None if none
    does; ``documents``: the session's judged documents. ``notes``: what had to be left out.
    """

    rewritten: Rewritten
    meaning: Meaning
    settings: RewriteSettings
    vector: Floats
    feedback: Feedback | None = None
    documents: Sequence[JudgedDocument] = ()
    notes: list[str] = field(default_factory=list)

    @property
    def reason(self) -> str:
        """Why the search is as it was, wholly or in part; "" if it is not."""
        return "; ".join(filter(None, [self.rewritten.reason, *self.notes]))

    @property
    def said(self) -> dict[str, str]:
        """The same as the answer to a search says it."""
        return {"reason": self.reason} if self.reason else {}


def similarity_weight(model: Model, config: Config, text: str, asked: float | None, feedback: Feedback | None) -> float:
    """The weight, 0 to 1, of the similarity of a query with these words against the engine's score.

    It is what the caller ``asked`` for, or the configuration's, or else the ``model``'s own, which counts less where
    the model lacks words of the query and of what was judged. ``feedback`` is the part of what a session learned that
    concerns the query.
    """
    named = config.alpha if asked is None else asked
    # a weight that somebody named counts as it is
    alpha, known = (model.alpha, model.known_part(text)) if named is None else (named, None)
    return known_alpha(alpha, known) if feedback is None else feedback.adjusted_alpha(alpha, model.max_alpha, known)


class Rewriter:
    """Rewrites searches by a model and the sessions' judgements. May be used from several threads."""

    def __init__(
        self,
        model: Model,
        sessions: Sessions,
        documents: JudgedDocuments,
        feedback: SessionFeedback,
        config: Config,
        clicks: Clicks | None = None,
    ) -> None:
        self.model, self.sessions, self.documents, self.config = model, sessions, documents, config
        self.clicks = clicks
        self.session_feedback = feedback
        self.samples = IndexSamples(documents.engine)

    def rewrite(self, info: IndexInfo, body: dict[str, Any], asked: Asked, headers: Headers = None) -> SessionQuery:
        """The body rewritten for an index. Raises BadInput for a malformed session's id and what the engine raises."""
        judged, notes = self._judged(info.name, asked, headers)
        vector = self.model.encode_one(asked.text)
        feedback = self._scoped(info, judged, vector, asked.text, headers)
        meaning = self._meaning(info, asked, vector, feedback, judged, headers)
        words = telling_words(asked.text, len(info.fields), self.model.table.idf)
        if words != asked.text and words == find_text(body.get("query")):  # a body of the caller's own asks for all
            meaning = replace(meaning, text=words)
            notes.append(f"the query is too long for the engine: its {len(words.split())} most telling words count")
        settings = self._settings(info, asked, feedback)
        if asked.widen and asked.knn and not info.graph:
            notes.append(f"knn: the vectors of {info.name!r} have no graph, as a copy has (resift attach --copy-to)")
        if not asked.text and feedback is None and not meaning.judged:
            return SessionQuery(Rewritten(body, "the query has no text"), meaning, settings, vector, notes=notes)
        rewritten = rewrite(body, info.fields, meaning, settings)
        return SessionQuery(rewritten, meaning, settings, vector, feedback, judged, notes)

    def _judged(self, index: str, asked: Asked, headers: Headers) -> tuple[list[JudgedDocument], list[str]]:
        """The documents that the session judged, and its client by clicks; none, and why, where that cannot be read."""
        notes: list[str] = []
        session, found = asked.session, None
        try:
            found = None if session is None else self.sessions.find(session, asked.through_cluster)
        except SessionsUnavailable as error:
            log.warning("searching without the session: %s", error.message)
            notes.append(error.message)
        judgements = [] if found is None else found.effective_judgements
        try:
            clicked = self._clicked(index, asked, headers)
        except (EngineError, EngineUnavailable) as error:
            log.warning("searching without clicks: %s", error.message)
            clicked = []
            notes.append(f"clicks: {error.message}")
        # what somebody marked says more than a click on it
        marked = {(one.index, one.document) for one in judgements}
        clicked = [one for one in clicked if (one.index, one.document) not in marked]
        return self.documents.of_judgements(effective_judgements([*clicked, *judgements]), headers), notes

    def _clicked(self, index: str, asked: Asked, headers: Headers) -> list[Judgement]:
        """The judgements of UBI's log, which knows no owners: with keys, they are the cluster's and an admin's."""
        client = asked.client or asked.session
        if self.clicks is None or client is None:
            return []
        if not (asked.through_cluster or self.sessions.caller().may_use(None)):
            return []
        return self.clicks.of(client, index, headers)

    def _scoped(
        self, info: IndexInfo, judged: Sequence[JudgedDocument], vector: Floats, text: str, headers: Headers
    ) -> Feedback | None:
        """The part of what was learned that concerns this query; None if none does."""
        learned = self.session_feedback.learned(judged)
        return scoped_feedback(learned, judged, text, vector, lambda: self.samples.of(info, headers))

    def _meaning(
        self,
        info: IndexInfo,
        asked: Asked,
        vector: Floats,
        feedback: Feedback | None,
        judged: Sequence[JudgedDocument],
        headers: Headers,
    ) -> Meaning:
        here = [one for one in judged if self._is_searched(one.judgement.index, info, headers)]
        fields, several = None if info.model is None else info.searched, len(info.indices) > 1
        return meaning_of(asked.text, vector, feedback, here, self.model.similarity, fields, several)

    def _is_searched(self, index: str, info: IndexInfo, headers: Headers) -> bool:
        """Whether documents that were judged under an index's name may be hits of a search: names may be aliases."""
        try:
            judged = info if index == info.name else self.documents.info(index, headers)
        except (IndexNotFound, IndexNotServed, ModelMismatch):
            return False  # its documents are remembered for a while longer than the index was there
        return not set(judged.indices).isdisjoint(info.indices)

    def _settings(self, info: IndexInfo, asked: Asked, feedback: Feedback | None) -> RewriteSettings:
        config = self.config
        alpha = similarity_weight(self.model, config, asked.text, asked.alpha, feedback)
        window = asked.window or (config.window if feedback is None else max(config.window, config.session_window))
        # for all indices that are served one number is set, and some may have no graph
        knn = (config.knn if asked.knn is None else asked.knn) if info.graph else 0
        return RewriteSettings(alpha, window, asked.widen, knn, asked.judged)
