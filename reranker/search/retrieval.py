"""The requests of one search: for the engine's hits, and for the documents that join them as candidates."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.errors import ResiftError
from resift.plugin.documents import SearchResult
from resift.plugin.engine import Engine
from resift.plugin.query_dsl import MAX_RESULTS, document_text, knn_body
from resift.ranking.feedback import Feedback
from resift.reranker.config import Config
from resift.reranker.search.bodies import expanded_body, members_body, of_hits
from resift.reranker.search.hits import HitKey, hit_key, vectors_of
from resift.reranker.search.request import ParsedSearch

log = logging.getLogger(__name__)
HITS, EXPANDED, NEAREST = "hits", "expanded", "nearest"
_LEFT_OUT = {EXPANDED: "without the session's words", NEAREST: "no nearest documents"}
Bodies = dict[str, dict[str, Any] | None]


class Retrieval:
    """Asks the engine for one search.

    ``results`` holds what it answered: ``hits``, those of the search itself; ``expanded``, those of its query with
    the session's expansion terms; ``nearest``, the documents nearest to the transformed query. What the engine
    refused is missing there and explained in ``notes``.
    """

    def __init__(self, engine: Engine, model: Model, config: Config, parsed: ParsedSearch) -> None:
        self.engine, self.model, self.config, self.parsed = engine, model, config, parsed
        self.results: dict[str, SearchResult] = {}
        self.notes: list[str] = []

    def run(self, learned: Feedback | None) -> Feedback | None:
        """Ask for everything, and return the part of what the session ``learned`` that concerns this query.

        It takes one round trip, and a second one where nothing was judged at this query but other judgements concern
        it. Raises what the engine raises for the search itself.
        """
        parsed = self.parsed
        at_query = _with_evidence(learned and learned.at_query(parsed.judged_query))
        # the window and no more, whichever page is wanted: the candidates must be the same for all of them
        self._ask({HITS: {**parsed.body, "from": 0, "size": parsed.search.window}, **self._joining_bodies(at_query)})
        if learned is None:
            return None
        # whether judgements of other queries concern this one shows only beside the vectors of its own hits
        scoped = _with_evidence(learned.scoped(parsed.vector, self.window_vectors, parsed.judged_query))
        if scoped is not None and at_query is None:
            self._ask(self._joining_bodies(scoped))
        return scoped

    @property
    def window(self) -> list[dict[str, Any]]:
        """The engine's first hits, which are reranked."""
        return self.results[HITS].hits

    @cached_property
    def window_vectors(self) -> Floats:
        """Vectors (n, K) of the window's hits."""
        return self.vectors_of(self.results[HITS])

    def vectors_of(self, result: SearchResult) -> Floats:
        """Vectors (n, K) of a result's hits; those that the index lacks are encoded from the hits' texts."""
        hits = result.hits
        return vectors_of(self.model, result.vectors, lambda rows: self.texts([hits[row] for row in rows]))

    def texts(self, hits: Sequence[dict[str, Any]]) -> list[str]:
        """The encoded texts of hits; fetched where the search leaves fields out of them."""
        search, fields = self.parsed.search, self.parsed.info.fields
        if self.parsed.is_text or self.parsed.body.keys().isdisjoint(("_source", "stored_fields")):
            return [document_text(hit.get("_source", {}), fields) for hit in hits]
        sources: dict[HitKey, dict[str, Any]] = {}
        # from each index by itself: in several of them an id may be found
        for index in dict.fromkeys(hit["_index"] for hit in hits):
            ids = [hit["_id"] for hit in hits if hit["_index"] == index]
            documents = self.engine.documents(index, ids, search.headers)
            sources |= {(index, id): source for id, (source, _) in documents.items()}
        return [document_text(sources.get(hit_key(hit), {}), fields) for hit in hits]

    def beyond_window(self, end: int) -> list[dict[str, Any]]:
        """The engine's hits after the window, up to the one at position ``end`` of its ranking, in its order."""
        search, body = self.parsed.search, of_hits(self.parsed.body)
        # whether so many hits may be asked for at all is the engine's to say, also where there are few
        if end <= search.window or (len(self.window) < search.window and end <= MAX_RESULTS):
            return []
        page = {**body, "from": search.window, "size": end - search.window}
        return self.engine.search(search.index, page, headers=search.headers).hits

    def count_unfound(self, joined: Sequence[dict[str, Any]]) -> int:
        """How many of the documents that ``joined`` the window are no hits of the search itself.

        By so many a client can page beyond the engine's own total. 0 where the engine gives no exact total.
        """
        search, total = self.parsed.search, self.results[HITS].response["hits"].get("total")
        # what joins a clause of the caller's own matches that clause too
        if not joined or not self.parsed.is_text or total is None or total["relation"] != "eq":
            return 0
        if total["value"] <= len(self.window):
            return len(joined)
        body = members_body(self.parsed.body["query"], joined)
        found = self.engine.search(search.index, body, headers=search.headers).hits
        return len(joined) - len({hit_key(hit) for hit in found} & {hit_key(hit) for hit in joined})

    def _joining_bodies(self, feedback: Feedback | None) -> Bodies:
        """What is asked for beside the hits; None where there is nothing to ask for."""
        search, vector = self.parsed.search, self.parsed.vector
        size = self._nearest_count(feedback)
        if feedback is None:
            return {NEAREST: knn_body(vector, size, search.filter) if size else None}
        moved, similarity = feedback.transform_query(vector), self.model.similarity
        expanded = expanded_body(self.parsed, feedback.expansion_terms)
        return {
            EXPANDED: expanded and {**expanded, "size": search.window},
            NEAREST: self.engine.masked_body(moved, feedback.mask, similarity, size, search.filter) if size else None,
        }

    def _nearest_count(self, feedback: Feedback | None) -> int:
        """How many nearest documents are asked for: none for a caller's own clauses, which say what must match."""
        search = self.parsed.search
        if not self.parsed.is_text:
            return 0
        if search.knn is not None:
            return search.knn
        learned = feedback is not None and self.parsed.info.model is not None
        return max(self.config.knn, self.config.session_knn) if learned else self.config.knn

    def _ask(self, bodies: Mapping[str, dict[str, Any] | None]) -> None:
        """Ask for all bodies in one round trip. Where that is refused, again without the last one, with a note."""
        pending = {name: body for name, body in bodies.items() if body is not None}
        while pending:
            last = list(pending)[-1]
            try:
                self.results |= self._answers(pending)
                return
            except ResiftError as error:
                if last == HITS or error.code == "engine_unavailable":
                    raise
                log.warning("%s: %s", _LEFT_OUT[last], error.message)
                self.notes.append(f"{_LEFT_OUT[last]}: {error.message}")
                del pending[last]

    def _answers(self, bodies: Mapping[str, dict[str, Any]]) -> dict[str, SearchResult]:
        index, headers = self.parsed.search.index, self.parsed.search.headers
        if set(bodies) == {HITS}:
            return {HITS: self.engine.search(index, bodies[HITS], vectors=True, headers=headers)}
        results = self.engine.search_all(index, list(bodies.values()), True, headers)
        return dict(zip(bodies, results, strict=True))


def _with_evidence(feedback: Feedback | None) -> Feedback | None:
    """Feedback, if any judgement of it counts."""
    return feedback if feedback is not None and feedback.evidence else None
