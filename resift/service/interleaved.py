"""Interleaved searches, by which a trial (an online experiment) measures whether sessions improve the ranking.

A client who takes part in a trial sees a page with hits of two rankings, with and without the session's judgements
(team draft interleaving). The page is written to the log of UBI (User Behavior Insights). The clicks in this log show
which ranking is better.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from msgspec import structs

from resift.cache import TtlCache
from resift.contracts.ubi import QUERIES
from resift.errors import QuotaExceeded, ResiftError
from resift.service.answers import Answer, hit_key
from resift.service.bodies import Search, is_query_clause
from resift.sessions.clicks import Clicks
from resift.sessions.quotas import Quotas
from resift.sessions.sessions import MAX_QUERY, SessionCaller
from resift.sessions.trials import ShownPage, Trial, Trials, evaluate_trial, interleave_by_team_draft

log = logging.getLogger(__name__)
_CACHE_SECONDS = 5.0
"""Seconds for which the trial of an index is cached. The absence of a trial is cached for the same time."""
_RETRY_SECONDS = 30.0
"""Seconds without interleaving after a failure."""
_EVALUATION_SECONDS = 3600.0
"""Seconds between evaluations of a trial."""
_MAX_PAGE, _MAX_DEPTH = 100, 1000
"""Maximum number of hits of an interleaved page, and of hits up to the end of this page. Each page is stored."""
_MAX_WAITING = 1000
"""Maximum number of pages that wait to be written to the log of UBI. Further searches are not interleaved."""
_NOT_INTERLEAVED = {"sort", "collapse", "ext", "pit", "search_after"}
"""Keys of search bodies whose hits have an order, or a page, that interleaving would break."""


class InterleavedSearches:
    """Runs the searches of users who take part in an online experiment (a "trial").

    In a trial, hits ranked with and without the user's feedback are interleaved in a single list. Clicks then show
    which ranking is better. A background thread writes the lists to the UBI log and evaluates the trial. Instances are
    thread-safe.

    Args:
        trials: The store of trials.
        clicks: Reads the UBI log, and assigns a relevance grade to each type of user action in it.
        caller: A function that returns the caller of the current request.
        quotas: Daily limits on the storage of each API key. Stored pages count in the bytes. By default there are no
            limits.
    """

    def __init__(
        self,
        trials: Trials,
        clicks: Clicks,
        caller: Callable[[], SessionCaller] = SessionCaller,
        quotas: Quotas | None = None,
    ) -> None:
        self.trials, self.clicks = trials, clicks
        self._caller, self._quotas = caller, quotas or Quotas()
        self._trials: TtlCache[Trial | None] = TtlCache(1000, _CACHE_SECONDS)
        self._failed: TtlCache[bool] = TtlCache(1, _RETRY_SECONDS)
        self.background = ThreadPoolExecutor(1)
        self._waiting = threading.BoundedSemaphore(_MAX_WAITING)

    def answer(self, search: Search, run: Callable[[Search], Answer]) -> Answer:
        """Run a search. If the user takes part in a trial, interleave the hits with the hits of the plain ranking.

        The hits are not interleaved if the user's feedback does not change the ranking, if the API key has used up its
        daily quota of bytes, if too many pages wait to be written to the log, or if interleaving fails.

        Args:
            search: The search request. Its session id identifies the user.
            run: A function that runs a search without interleaving.

        Returns:
            The response to the search.
        """
        trial, answer = self._trial_of_user(search), run(search)
        if trial is None or answer.resift.get("session") is None:
            return answer
        page = _page_range(search)
        if page is None:
            return answer
        try:
            self._quotas.check(self._caller().name, "bytes")
        except QuotaExceeded:  # not in the next ``try``, whose handler stops interleaving for all keys
            return answer
        if not self._waiting.acquire(blocking=False):
            log.warning("searches are not interleaved: the log of UBI takes pages too slowly")
            self._failed.put("any", True)
            return answer
        writing: Future[None] | None = None
        try:
            entry = self._interleave(trial, search, page, answer, run)
            writing = self.background.submit(self._write_page, trial, entry)
            writing.add_done_callback(lambda _: self._waiting.release())
        except ResiftError as error:
            log.warning("a search was not interleaved: %s", error.message)
            self._failed.put("any", True)
        except Exception:  # the search itself has succeeded
            log.exception("A search was not interleaved")
            self._failed.put("any", True)
        finally:
            if writing is None:
                self._waiting.release()
        return answer

    def close(self) -> None:
        """Stop writing pages, and close the log of UBI. Pages that wait to be written are dropped."""
        self.background.shutdown(cancel_futures=True)
        self.clicks.log.close()

    def _trial_of_user(self, search: Search) -> Trial | None:
        """Return the trial in which the user of a search takes part, or None.

        Args:
            search: The search. Its session id identifies the user.
        """
        if search.session is None or self._failed.get("any"):
            return None
        trial = self._trials.get_or_load(search.index, lambda: self._find_trial(search.index))
        return trial if trial is not None and trial.includes(search.session, self.trials.clock()) else None

    def _find_trial(self, index: str) -> Trial | None:
        """Return the trial of an index, or None if there is no trial or it cannot be read."""
        try:
            return self.trials.find(index, wait=False)
        except ResiftError:  # a search does not fail because its trial cannot be read
            return None

    def _interleave(
        self, trial: Trial, search: Search, page: slice, answer: Answer, run: Callable[[Search], Answer]
    ) -> dict[str, Any]:
        """Replace the hits of a response with a page of interleaved hits.

        Args:
            trial: The trial in which the user takes part.
            search: The search request.
            page: The range of hits on the requested page.
            answer: The response with hits that were ranked with the session's judgements. It is modified in place.
            run: A function that runs a search without interleaving. It is called with the same search without its
                session, to get the plain ranking.

        Returns:
            The page in the format of a UBI query, for :meth:`_write_page`.
        """
        first = _search_for_top_hits(search, page.stop)
        in_session = run(first) if page.start else answer
        plain = run(structs.replace(first, session=None, reasons=False, facets=[]))
        plain_hits = {hit_key(hit): hit for hit in plain.result.hits}
        session_hits = {hit_key(hit): hit for hit in in_session.result.hits}
        client = str(search.session)
        teams = interleave_by_team_draft(list(plain_hits), list(session_hits), f"{trial.id}:{client}:{search.query}")
        shown = list(teams)[page]
        answer.result.response["hits"]["hits"] = [session_hits.get(key) or plain_hits[key] for key in shown]
        answer.resift["interleaved"] = True
        text = search.query if isinstance(search.query, str) else ""
        shown_page = ShownPage(client, self.trials.clock(), {id: teams[index, id] for index, id in shown})
        entry = shown_page.to_ubi_query(trial, text[:MAX_QUERY])
        self._quotas.record_usage(self._caller().name, bytes=len(json.dumps(entry)))
        return entry

    def _write_page(self, trial: Trial, query: dict[str, Any]) -> None:
        """Write a page of interleaved hits to the UBI log.

        Once an hour, the trial is evaluated as well.

        Args:
            trial: The trial during which the page was shown.
            query: The page in the format of a UBI query. It states for each hit which of the two rankings contributed
                the hit.
        """
        try:
            self.clicks.log.add(QUERIES, [query])
            now = self.trials.clock()
            if now - max(trial.checked, trial.started) > _EVALUATION_SECONDS:
                # Only one replica of the service succeeds in changing the trial, and evaluates it.
                claimed = self.trials.change(trial, checked=now)
                if claimed is not None:
                    self._evaluate(claimed, now)
        except ResiftError as error:
            log.warning("trial of %s: %s", trial.index, error.message)
            self._failed.put("any", True)
        except Exception:
            log.exception("Trial of %s", trial.index)
            self._failed.put("any", True)

    def _evaluate(self, trial: Trial, now: float) -> None:
        """Evaluate a trial, and end it if the clicks show which ranking users prefer.

        The trial also ends if the clicks show that the difference is negligible, or after 28 days.

        Args:
            trial: The trial to evaluate.
            now: The current time in Unix seconds.
        """
        report = evaluate_trial(trial, self.clicks.log, self.clicks.engine, self.clicks.actions, now)
        log.info("%s", report)
        if report.verdict:
            self.trials.change(trial, verdict=report.verdict)


def _page_range(search: Search) -> slice | None:
    """Return the range of hits on the requested page.

    Args:
        search: The search request, with ``start`` and ``size``, or with ``from`` and ``size`` in its body.

    Returns:
        A slice of the ranking, or None if the search is not interleaved, for example because it is sorted by a field,
        or because the page is too large.
    """
    body = {} if isinstance(search.query, str) or is_query_clause(search.query) else search.query
    start, size = body.get("from", search.start), body.get("size", search.size)
    if not 0 < size <= min(_MAX_PAGE, _MAX_DEPTH - start) or _NOT_INTERLEAVED & body.keys():
        return None
    return slice(start, start + size)


def _search_for_top_hits(search: Search, size: int) -> Search:
    """Return a copy of a search that requests the top hits instead of a later page.

    Args:
        search: The search request.
        size: The number of hits.
    """
    query = search.query
    if not isinstance(query, str) and not is_query_clause(query):
        query = {**query, "from": 0, "size": size}
    return structs.replace(search, query=query, start=0, size=size)
