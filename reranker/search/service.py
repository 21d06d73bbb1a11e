"""Searching with a model and a session: the engine's candidates, reranked by the similarity of their vectors."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.errors import IndexNotFound, ModelMismatch, NotFound, ResiftError, SessionsUnavailable
from resift.plugin.documents import IndexInfo, SearchResult
from resift.plugin.engine import Engine
from resift.plugin.query_dsl import document_text, knn_body
from resift.ranking.explain import explain, reasons
from resift.ranking.feedback import Feedback
from resift.ranking.fusion import combine, z_score
from resift.ranking.judgements import JudgedDocument, Judgement
from resift.ranking.late_interaction import LateInteraction
from resift.reranker.cache import TtlCache
from resift.reranker.config import Config
from resift.reranker.search.bodies import Search, _why_not, longer_body, search_body
from resift.reranker.search.hits import _beyond, _key, _origins, _scores, _with_parts
from resift.reranker.served import ServedReranker
from resift.reranker.sessions import MAX_QUERY, Session, Sessions

log = logging.getLogger(__name__)
_INFO_SECONDS, _DOCUMENT_SECONDS = 5.0, 300.0
_INFOS, _DOCUMENTS, _TEXT = 1000, 5000, 20_000
_WITHOUT = {"near": "no nearest documents", "words": "without the session's words"}


class Reranker:
    """Joins an engine, a model and the sessions."""

    def __init__(self, engine: Engine, model: Model, sessions: Sessions, config: Config) -> None:
        self.engine, self.model, self.sessions, self.config = engine, model, sessions, config
        self.trained = ServedReranker(config.reranker)
        self._infos: TtlCache[IndexInfo] = TtlCache(_INFOS, _INFO_SECONDS)
        self._feedbacks: TtlCache[Feedback] = TtlCache(_DOCUMENTS, _DOCUMENT_SECONDS)
        self._documents: TtlCache[tuple[Floats, str]] = TtlCache(_DOCUMENTS, _DOCUMENT_SECONDS)

    def info(self, index: str, headers: Mapping[str, str] | None = None) -> IndexInfo:
        """An index's fields and model, remembered for five seconds for each caller. Raises ModelMismatch."""
        key = (index, str(headers))
        known = self._infos.get(key) or self._infos.put(key, self.engine.info(index, headers))
        if known.model is not None:
            known.require(self.model)
        return known

    def similarities(self, query: str, vectors: Floats, feedback: Feedback | None) -> Floats:
        """Similarity of the query, moved and masked by the session's feedback, with each of ``vectors`` (n, K).

        Only what concerns the query counts of the feedback, the vectors being its candidates.
        """
        vector = self.model.encode_one(query)
        moved, mask = self._aim(vector, feedback and feedback.scoped(vector, vectors, query[:MAX_QUERY]))
        return self.model.score(moved, vectors, mask)

    @staticmethod
    def _aim(query: Floats, feedback: Feedback | None) -> tuple[Floats, Floats | None]:
        """The query as feedback moves it, and its mask; no mask where it weighs all alike."""
        if feedback is None:
            return query, None
        return feedback.transform_query(query), feedback.mask if feedback.method.masked else None

    def feedback_of(self, session: str | None, headers: Mapping[str, str] | None = None) -> Feedback | None:
        """What a session has taught, if it has."""
        found = None if session is None else self.sessions.find(session)
        return self._learned(self.judged(found, headers))

    def _learned(self, judged: Sequence[JudgedDocument]) -> Feedback | None:
        """What judged documents teach; learned anew where one of them, its grade, query or vector, is another."""
        if not judged:
            return None
        told = [(one.judgement.grade, one.judgement.query) for one in judged]
        key = blake2b(b"".join([repr(told).encode(), *(one.vector.tobytes() for one in judged)])).digest()
        known = self._feedbacks.get(key)
        idf, method = self.model.table.zipf_idf, self.config.feedback
        return known or self._feedbacks.put(key, Feedback.from_judged(judged, self.model.dim, idf, method))

    def judged(self, session: Session | None, headers: Mapping[str, str] | None = None) -> list[JudgedDocument]:
        """A session's judgements that count, with their documents as they are in the index now.

        Left out are those of documents that are gone, and of indices that are gone or of another model. Documents are
        remembered for five minutes.
        """
        judgements = [] if session is None else session.standing
        found: dict[tuple[str, str], tuple[Floats, str]] = {}
        for index in dict.fromkeys(one.index for one in judgements):
            ids = [one.document for one in judgements if one.index == index]
            known = {id: self._documents.get((index, id, str(headers))) for id in ids}
            if None in known.values():
                try:
                    known |= self._fetch(index, [id for id, value in known.items() if value is None], headers)
                except (IndexNotFound, ModelMismatch):
                    continue
            found |= {(index, id): value for id, value in known.items() if value is not None}
        return [
            JudgedDocument(one, *found[one.index, one.document])
            for one in judgements
            if (one.index, one.document) in found
        ]

    def _fetch(
        self, index: str, ids: Sequence[str], headers: Mapping[str, str] | None
    ) -> dict[str, tuple[Floats, str] | None]:
        """Vectors and texts of documents, by their ids; None where one does not exist."""
        info = self.info(index, headers)
        found = self.engine.documents(index, ids, headers)
        here = [id for id in ids if id in found]
        vectors = self.fill([{"_source": found[id][0]} for id in here], [found[id][1] for id in here], info.fields)
        texts = [document_text(found[id][0], info.fields)[:_TEXT] for id in here]
        pairs = zip(here, zip(vectors, texts, strict=True), strict=True)
        fetched = {id: self._documents.put((index, id, str(headers)), value) for id, value in pairs}
        return {id: fetched.get(id) for id in ids}

    def search(self, search: Search) -> dict[str, Any]:
        """The engine's answer with its hits reranked, and ``resift``: whether, why not, and each hit's sub-scores."""
        info = self.info(search.index, search.headers)
        body, text = search_body(search, info)
        reason = _why_not(body, text, search)
        if reason is None:
            try:
                return self._reranked(search, info, body, text)
            except ResiftError as error:
                if error.status < 500 or error.code == "engine_unavailable":
                    raise
                reason = error.message
            except Exception as error:
                log.exception("reranking failed")
                reason = f"reranking failed: {type(error).__name__}"
        page = {"size": search.size, "from": search.start, **body}
        response = self.engine.search(search.index, page, headers=search.headers).response
        return {**response, "resift": {"reranked": False, "reason": reason}}

    def _reranked(self, search: Search, info: IndexInfo, body: dict[str, Any], text: str) -> dict[str, Any]:
        start, size = body.get("from", search.start), body.get("size", search.size)
        depth = max(search.window, start + size)
        late = self.late(search.method) if text else None
        search = self._filled_in(search, late)
        judged, notes = self._judged_or_why_not(search)
        query = self.model.encode_one(text)
        if isinstance(search.query, str):  # of the page's hits alone, once they are known
            highlight, body = body.get("highlight"), {"query": body["query"]}
        else:
            highlight = None
        engine_body = {**body, "from": 0, "size": depth}
        learned = self._learned(judged)
        feedback = _or_none(learned and learned.at_query(text[:MAX_QUERY]))
        answers = self._asked(
            search, {"hits": engine_body, **self._more(search, info, body, query, text, feedback)}, notes
        )
        found = answers["hits"]
        places = {_key(hit): rank for rank, hit in enumerate(found.hits, 1)}
        hits = found.hits[: search.window]
        matrix = self.fill(hits, found.vectors[: search.window], info.fields)
        if learned is not None:
            first, feedback = feedback, _or_none(learned.scoped(query, matrix, text[:MAX_QUERY]))
            if feedback is not None and first is None:
                answers |= self._asked(search, self._more(search, info, body, query, text, feedback), notes)
        aim = self._aim(query, feedback)
        words, near = answers.get("words"), answers.get("near")
        keys = [_key(hit) for hit in hits]
        for more, least in ((words, -np.inf), (near, 0)):
            if more is not None:
                known = set(keys)
                rows = self.fill(more.hits, more.vectors, info.fields)
                alike = (self.model.score(aim[0], rows, aim[1]) > least).tolist()
                new = [i for i, hit in enumerate(more.hits) if alike[i] and _key(hit) not in known]
                joining = [_key(more.hits[i]) for i in new]
                keys += joining
                hits = hits + [
                    found.hits[places[key] - 1] if key in places else more.hits[i]
                    for i, key in zip(new, joining, strict=True)
                ]
                matrix = np.concatenate([matrix, rows[new]])
        ranks = [places.get(key) for key in keys]
        similar = self.model.score(aim[0], matrix, aim[1])
        scored, alpha = similar, search.alpha or 0.0
        if late is not None:
            scored = late.scores(text, self._texts(search, hits, info))
            if feedback is not None:
                scored = np.asarray((z_score(scored) + z_score(similar)) / 2, np.float32)
        elif feedback is not None:
            alpha = feedback.adjusted_alpha(alpha, self.model.max_alpha)
        combined = combine(_scores(hits, keys, ranks, words), scored, alpha, search.normalization or "min_max")
        order = np.argsort(-combined, kind="stable")
        shown = order[start : start + size]
        page = _with_parts(hits, ranks, shown, combined, scored)
        if start + size > len(hits) and len(found.hits) > search.window:
            candidates = set(keys)
            left = [hit for hit in found.hits[search.window :] if _key(hit) not in candidates]
            missing = left[max(0, start - len(hits)) : start + size - len(hits)]
            page += [_beyond(hit, places[_key(hit)]) for hit in missing]
        if feedback is not None:
            rows = matrix[shown]
            change = similar[shown] - self.model.score(query, rows)
            for hit, reason in zip(page, reasons(self.model, feedback, judged, rows, change), strict=False):
                hit["resift"]["because"] = reason
        if highlight:
            longer = feedback and longer_body(body, text, feedback.expansion_terms, info.fields)
            self._highlight(search, page, [one["query"] for one in (body, longer) if one], highlight)
        response = {**found.response, "hits": {**found.response["hits"], "hits": page}}
        response["hits"]["max_score"] = float(combined[order[0]]) if len(order) else None
        response["resift"] = {
            "reranked": True,
            "model": self.model.hash,
            "method": "vectors" if late is None else "late",
            "alpha": round(alpha, 6),
            "window": search.window,
            "candidates": len(hits),
            "vectors": _origins(list(answers.values())),
            "session": search.session if feedback is not None else None,
            **({"reason": "; ".join(notes)} if notes else {}),
        }
        return response

    def _highlight(
        self,
        search: Search,
        page: Sequence[dict[str, Any]],
        queries: Sequence[dict[str, Any]],
        wanted: dict[str, Any],
    ) -> None:
        """Give the page's hits the fragments that match: of the search's own query, else of the session's longer one.

        For all candidates it would cost more than the search.
        """
        bodies = []
        for query, own in zip(queries, (True, False), strict=False):
            hits = [hit for hit in page if (hit["resift"]["engine_rank"] is not None) is own]
            if hits:
                kept = query["bool"] if set(query) == {"bool"} else {"must": [query]}
                least = {} if "must" in kept else {"minimum_should_match": 1}
                here = {"ids": {"values": [hit["_id"] for hit in hits]}}
                asked = {**kept, **least, "filter": [*kept.get("filter", []), here]}
                size = len(hits) * len({hit["_index"] for hit in hits})
                bodies.append({"query": {"bool": asked}, "size": size, "_source": False, "highlight": wanted})
        answers = self.engine.search_all(search.index, bodies, headers=search.headers) if bodies else []
        found = {_key(hit): hit for answer in answers for hit in answer.hits}
        for hit in page:
            if "highlight" in found.get(_key(hit), {}):
                hit["highlight"] = found[_key(hit)]["highlight"]

    def late(self, method: str) -> LateInteraction | None:
        """The trained reranker, if ``method`` is ``late`` (ModelNotFound without one), or ``auto`` and it is there."""
        if method == "late":
            return self.trained.require()
        return self.trained.get() if method == "auto" else None

    @property
    def alpha(self) -> float:
        """Weight of the vectors' similarity where a search names none: the setting, or else the model's own."""
        return self.model.alpha if self.config.alpha is None else self.config.alpha

    def _filled_in(self, search: Search, late: LateInteraction | None) -> Search:
        """The search with the method's own weight and normalisation where the caller names none."""
        own = (self.alpha, "min_max") if late is None else (late.alpha, "z_score")
        alpha, normalization = search.alpha, search.normalization
        return replace(
            search,
            alpha=own[0] if alpha is None else alpha,
            normalization=own[1] if normalization is None else normalization,
        )

    def _texts(self, search: Search, hits: Sequence[dict[str, Any]], info: IndexInfo) -> list[str]:
        """The hits' texts; fetched where the search leaves fields out of its hits."""
        if isinstance(search.query, str) or "_source" not in search.query:
            return [document_text(hit.get("_source", {}), info.fields) for hit in hits]
        found = self.engine.documents(search.index, [hit["_id"] for hit in hits], search.headers)
        return [document_text(found[hit["_id"]][0], info.fields) if hit["_id"] in found else "" for hit in hits]

    def _judged_or_why_not(self, search: Search) -> tuple[list[JudgedDocument], list[str]]:
        """The session's judged documents; none, and why, where the sessions cannot be asked."""
        try:
            session = None if search.session is None else self.sessions.find(search.session)
            return self.judged(session, search.headers), []
        except SessionsUnavailable as error:
            log.warning("searching without the session: %s", error.message)
            return [], [error.message]

    def _wanted(self, search: Search, info: IndexInfo, feedback: Feedback | None) -> int:
        """How many nearest documents join the candidates."""
        if not isinstance(search.query, str):
            return 0
        if search.knn is not None:
            return search.knn
        learned = feedback is not None and info.model is not None
        return max(self.config.knn, self.config.session_knn) if learned else self.config.knn

    def _more(
        self,
        search: Search,
        info: IndexInfo,
        body: dict[str, Any],
        query: Floats,
        text: str,
        feedback: Feedback | None,
    ) -> dict[str, dict[str, Any] | None]:
        """What is asked for beside the hits: the session's ``words``, and the documents ``near`` the moved query."""
        wanted = self._wanted(search, info, feedback)
        if feedback is None:
            return {"near": knn_body(query, wanted, search.filter) if wanted else None}
        nearest = (
            self.engine.masked_body(
                feedback.transform_query(query), feedback.mask, self.model.similarity, wanted, search.filter
            )
            if wanted
            else None
        )
        words = longer_body({**body, "size": search.window}, text, feedback.expansion_terms, info.fields)
        return {"words": words, "near": nearest}

    def _asked(
        self, search: Search, bodies: Mapping[str, dict[str, Any] | None], notes: list[str]
    ) -> dict[str, SearchResult]:
        """Results by name, in one round trip; what is refused is left out, the last first, with a note."""
        wanted = {name: body for name, body in bodies.items() if body is not None}
        while wanted:
            last = list(wanted)[-1]
            try:
                if last == "hits":
                    return {last: self.engine.search(search.index, wanted[last], vectors=True, headers=search.headers)}
                answers = self.engine.search_all(search.index, list(wanted.values()), True, search.headers)
                return dict(zip(wanted, answers, strict=True))
            except ResiftError as error:
                if last == "hits" or error.code == "engine_unavailable":
                    raise
                log.warning("%s: %s", _WITHOUT[last], error.message)
                notes.append(f"{_WITHOUT[last]}: {error.message}")
                del wanted[last]
        return {}

    def fill(self, hits: Sequence[dict[str, Any]], vectors: Sequence[Floats | None], fields: Sequence[str]) -> Floats:
        """The hits' vectors (n, K); those that the index lacks are encoded from the hit's text."""
        missing = [i for i, vector in enumerate(vectors) if vector is None]
        matrix = np.zeros((len(vectors), self.model.dim), np.float32)
        for i, vector in enumerate(vectors):
            if vector is not None:
                matrix[i] = vector
        if missing:
            matrix[missing] = self.model.encode([document_text(hits[i].get("_source", {}), fields) for i in missing])
        return matrix

    def feedback(
        self,
        session: str,
        index: str,
        query: str,
        marks: dict[str, float],
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Note a step of marks (document id → grade) and tell what changed. Raises NotFound for unknown ids."""
        fetched = self._fetch(index, list(marks), headers)
        unknown = [id for id, value in fetched.items() if value is None]
        if unknown:
            raise NotFound(f"no document {unknown[0]!r} in {index!r}", value=unknown[0], expected="ids of hits")
        before = self.feedback_of(session, headers)
        steps = [Judgement(index, id, grade) for id, grade in marks.items()]
        added = self.sessions.add(session, query, steps)
        after = self._learned(self.judged(added, headers))
        return {**self.told(added, headers), "changed": _change(before, after, self.model.dim)}

    def told(self, session: Session, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """All that is kept of a session, and what was learned from it, in words."""
        judged = self.judged(session, headers)
        feedback = self._learned(judged)
        counting = {id(one) for one in session.standing}
        return {
            "session": session.id,
            "created": session.created,
            "expires": session.expires,
            "steps": session.steps,
            "judgements": [
                {
                    "step": one.step,
                    "at": one.at,
                    "query": one.query,
                    "index": one.index,
                    "document": one.document,
                    "grade": one.grade,
                    "counts": id(one) in counting,
                }
                for one in session.judgements
            ],
            "learned": None if feedback is None else explain(self.model, feedback, judged),
        }


def _or_none(feedback: Feedback | None) -> Feedback | None:
    """Feedback that says something."""
    return feedback if feedback is not None and feedback.evidence else None


def _change(before: Feedback | None, after: Feedback | None, dim: int) -> dict[str, float]:
    """How far mask and query shift moved, as lengths (l2)."""
    nothing = Feedback.from_judged([], dim)
    old, new = (nothing if one is None else one for one in (before, after))
    return {
        "mask": round(float(np.linalg.norm(new.mask - old.mask)), 6),
        "shift": round(float(np.linalg.norm(new.shift - old.shift)), 6),
    }
