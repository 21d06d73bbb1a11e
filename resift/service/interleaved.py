"""Searches of a trial: plain and session results in one page, noted in UBI's log, whose clicks decide the trial."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from msgspec import structs

from resift.cache import TtlCache
from resift.contracts.ubi import QUERIES
from resift.errors import ResiftError
from resift.query.dsl import MAX_RESULTS
from resift.service.answers import Answer, hit_key
from resift.service.bodies import Search, is_clause
from resift.sessions.clicks import Clicks
from resift.sessions.trials import ShownPage, Trial, Trials, team_draft, trial_report

log = logging.getLogger(__name__)
_SECONDS, _FAILED, _CHECKED = 5.0, 30.0, 3600.0  # that a trial is remembered, is left alone, is not looked at again
_OF_ONE_ORDER = {"sort", "collapse", "ext", "pit", "search_after"}  # of bodies whose hits cannot be interleaved


class Interleaved:
    """Answers the searches of clients who are in a trial. May be used from several threads.

    ``clicks`` has UBI's log. What is written there, and whether a trial has been decided, is seen to in the background.
    """

    def __init__(self, trials: Trials, clicks: Clicks) -> None:
        self.trials, self.clicks = trials, clicks
        self._running: TtlCache[tuple[Trial, ...]] = TtlCache(1000, _SECONDS)
        self._failed: TtlCache[bool] = TtlCache(1, _FAILED)
        self.background = ThreadPoolExecutor(1)

    def answer(self, search: Search, alone: Callable[[Search], Answer]) -> Answer:
        """The answer to a search, as ``alone`` gives it, or interleaved where a trial runs and its session changes it.

        Whatever fails on the way leaves the session's own answer.
        """
        trial, answer = self._trial(search), alone(search)
        page = None if trial is None or answer.resift.get("session") is None else _page(search)
        if trial is None or page is None:
            return answer
        try:
            return self._both(trial, search, page, answer, alone)
        except ResiftError as error:
            log.warning("a search is not interleaved: %s", error.message)
            self._failed.put("any", True)
            return answer

    def _trial(self, search: Search) -> Trial | None:
        """The trial that a search is of."""
        if search.session is None or self._failed.get("any"):
            return None
        known = self._running.get(search.index)
        if known is None:
            try:
                found = self.trials.find(search.index, wait=False)
            except ResiftError:  # a search goes on without
                found = None
            known = self._running.put(search.index, () if found is None else (found,))
        now = self.trials.clock()
        return next((trial for trial in known if trial.includes(search.session, now)), None)

    def _both(
        self, trial: Trial, search: Search, page: slice, answer: Answer, alone: Callable[[Search], Answer]
    ) -> Answer:
        first = _first(search, page.stop)
        in_session = alone(first) if page.start else answer
        plain = alone(structs.replace(first, session=None, reasons=False, facets=[]))
        rankings = [{hit_key(hit): hit for hit in one.result.hits} for one in (plain, in_session)]
        client = str(search.session)
        teams = team_draft(list(rankings[0]), list(rankings[1]), f"{trial.id}:{client}:{search.query}")
        shown = list(teams)[page]
        answer.result.response["hits"]["hits"] = [(rankings[1].get(key) or rankings[0][key]) for key in shown]
        answer.resift["interleaved"] = True
        asked = search.query if isinstance(search.query, str) else ""
        note = ShownPage(client, self.trials.clock(), {id: teams[index, id] for index, id in shown})
        self.background.submit(self._note, trial, note.query(trial, asked))
        return answer

    def _note(self, trial: Trial, query: dict[str, Any]) -> None:
        """Write into the log what was shown, and now and then look whether the trial is decided."""
        try:
            self.clicks.log.add(QUERIES, [query])
            now = self.trials.clock()
            if now - max(trial.checked, trial.started) > _CHECKED:
                claimed = self.trials.change(trial, checked=now)  # by one replica of the service
                if claimed is not None:
                    self._decide(claimed, now)
        except ResiftError as error:
            log.warning("trial of %s: %s", trial.index, error.message)
            self._failed.put("any", True)

    def _decide(self, trial: Trial, now: float) -> None:
        report = trial_report(trial, self.clicks.log, self.clicks.engine, self.clicks.actions, now)
        log.info("%s", report)
        if report.verdict:
            self.trials.change(trial, verdict=report.verdict)


def _page(search: Search) -> slice | None:
    """Which of the interleaved hits a search shows; None if its hits cannot be interleaved."""
    body = {} if isinstance(search.query, str) or is_clause(search.query) else search.query
    start, size = body.get("from", search.start), body.get("size", search.size)
    return slice(start, start + size) if 0 < size <= MAX_RESULTS - start and not _OF_ONE_ORDER & body.keys() else None


def _first(search: Search, size: int) -> Search:
    """The same search for its first ``size`` hits."""
    query = search.query
    if not isinstance(query, str) and not is_clause(query):
        query = {**query, "from": 0, "size": size}
    return structs.replace(search, query=query, start=0, size=size)
