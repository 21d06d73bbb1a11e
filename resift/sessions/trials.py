"""Trials: online experiments that compare results with and without sessions (team-draft interleaving).

For a share of the clients the plain results and the results of the session are interleaved, until the clicks show which
results are better. A trial is stored in the session store, under an id that no session can have. The interleaved pages
are stored in the UBI (User Behavior Insights) log of queries, next to the clicks, and are deleted with them. The
statistical test remains valid no matter how often the result is looked at.
"""

from __future__ import annotations

import hashlib
import random
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from resift.contracts.engine import Engine
from resift.contracts.session_store import SessionRecord, SessionStore
from resift.contracts.ubi import UbiLog, id_as_text, iso_timestamp, unix_seconds
from resift.errors import BadInput
from resift.sessions.clicks import CLOCK_TOLERANCE, Actions, Object, look_up_document_ids

K = TypeVar("K", bound=Hashable)
_DAY = 86_400.0  # seconds
_MAX_DURATION = 28 * _DAY  # of a trial
_RETENTION = 56 * _DAY  # time after the start of a trial at which it is deleted
# Searches within this time are one visit. After a search, clicks are expected for the same time.
VISIT_SECONDS = 3600.0
NEGLIGIBLE = 0.05  # a preference whose absolute value is smaller does not matter
ERROR_RATE = 0.02  # maximum probability of detecting a preference that does not exist
_BLOCK = 1000  # number of clients whose bets are computed at once, which limits the memory
_STEPS = 400  # number of steps from -1 to 1 at which means are tested for the confidence interval
_MAX_STAKE = 0.5  # maximum share of a gambler's wealth that a bet can lose (see :func:`mean_preference`)
APPLICATION_PREFIX = "resift-trial-"  # begins the ``application`` of a trial's pages in the log of user events
SESSIONS, PLAIN, NEITHER = "sessions are better", "plain results are better", "no difference that matters"
STOPPED, UNDECIDED = "stopped", "undecided after 28 days"


@dataclass(frozen=True)
class Trial:
    """An online experiment on an index, which compares rankings with and without users' relevance feedback.

    For a share of the users, hits of both rankings are interleaved in a single list. Clicks show which ranking is
    better.

    Attributes:
        index: The name of the index.
        id: The id of the trial.
        share: The share of the users who take part, from 0 to 1.
        started: The time of the start in Unix seconds.
        checked: The time of the last evaluation in Unix seconds, or 0 before the first evaluation.
        verdict: The reason why the trial ended, or "" while it is running.
    """

    index: str
    id: str
    share: float
    started: float
    checked: float = 0.0
    verdict: str = ""

    def includes(self, client: str, now: float) -> bool:
        """Return whether a user takes part in this trial.

        The trial includes a fixed share of all users, chosen by a hash of their client ids. The result is therefore the
        same for all searches of a user while the trial is running. Afterwards, the result is False.

        Args:
            client: The user's client id.
            now: The current time in Unix seconds.
        """
        digest = hashlib.blake2b(f"{self.id}:{client}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
        running = not self.verdict and now < self.started + _MAX_DURATION
        return running and int.from_bytes(digest, "big") / 2**64 < self.share

    @property
    def application(self) -> str:
        """The ``application`` of this trial's entries in the log of user events (UBI).

        The entries are the pages of hits that were shown to users in the trial.
        """
        return f"{APPLICATION_PREFIX}{self.id}"


@dataclass(frozen=True)
class ShownPage:
    """A page of interleaved hits that a user saw during a trial.

    A trial compares two rankings: a personal ranking, which uses the user's relevance feedback, and a plain ranking
    without feedback. Each page combines hits of both.

    Attributes:
        client: The user's client id.
        at: The time of the search in Unix seconds.
        teams: The ranking ("team") that contributed each document, by document id: True for the personal ranking, False
            for the plain ranking, and None for a document that counts for neither.
    """

    client: str
    at: float
    teams: Mapping[str, bool | None]

    def to_ubi_query(self, trial: Trial, text: str) -> dict[str, Any]:
        """Describe the page as a query in the format of the UBI log, with the ids of its hits.

        Args:
            trial: The trial during which the page was shown.
            text: The text of the query.
        """
        teams = {name: [id for id, team in self.teams.items() if team is value] for name, value in _TEAMS.items()}
        return {
            "application": trial.application,
            "query_id": str(uuid.uuid4()),
            "client_id": self.client,
            "user_query": text,
            "timestamp": iso_timestamp(self.at),
            "query_response_hit_ids": list(self.teams),
            "query_attributes": {"teams": teams},
        }

    @classmethod
    def from_ubi_query(cls, source: Mapping[str, Any]) -> ShownPage | None:
        """Create a page from the JSON object that represents it in the UBI log of queries.

        Args:
            source: The JSON object, as returned by :meth:`to_ubi_query`.

        Returns:
            The page, or None if the object is not a page. Other programs may write to the log, too.
        """
        try:
            teams = msgspec.convert(source["query_attributes"]["teams"], dict[str, list[str]])
        except (LookupError, TypeError, msgspec.ValidationError):
            return None
        team_by_id = {id: team for name, team in _TEAMS.items() for id in teams.get(name, ())}
        return cls(id_as_text(source.get("client_id")), unix_seconds(source.get("timestamp")) or 0.0, team_by_id)


_TEAMS = {"plain": False, "session": True, "both": None}  # names of the teams in the UBI log


@dataclass(frozen=True)
class Preference:
    """Which ranking users prefer in a trial, as a mean with a confidence interval.

    The interval stays valid if a trial is evaluated repeatedly and stopped early.

    Attributes:
        outcomes: The number of users whose clicks show which ranking they prefer.
        mean: The mean preference, from -1 (the plain ranking is better) to 1 (the ranking with feedback is better).
        low: The lower limit of the interval.
        high: The upper limit of the interval.
    """

    outcomes: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class TrialReport:
    """The results of a trial so far. A trial compares rankings with and without users' feedback.

    Attributes:
        trial: The trial.
        searches: The number of searches with interleaved hits.
        clients: The number of users with such searches.
        preferred: The mean preference of the users, from -1 (plain ranking) to 1 (ranking with feedback). It is based
            on clicks on hits that only one of the rankings contributed.
    """

    trial: Trial
    searches: int
    clients: int
    preferred: Preference

    @property
    def verdict(self) -> str:
        """The reason why the trial has ended or should end now, such as "sessions are better".

        The text is empty if the trial should continue.
        """
        preferred = self.preferred
        conditions = {
            SESSIONS: preferred.low > 0,
            PLAIN: preferred.high < 0,
            NEITHER: -NEGLIGIBLE < preferred.low <= preferred.high < NEGLIGIBLE,
            UNDECIDED: self.trial.checked > self.trial.started + _MAX_DURATION,
        }
        reasons = (name for name, is_met in conditions.items() if is_met)
        return self.trial.verdict or next(reasons, "")

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a dictionary of JSON values."""
        return {**asdict(self), "error": ERROR_RATE, "verdict": self.verdict}

    def __str__(self) -> str:
        trial, preferred = self.trial, self.preferred
        since = f"since {iso_timestamp(trial.started)}, for {100 * trial.share:g} % of the clients"
        return "\n".join(
            [
                f"trial of {trial.index} {since}: {self.verdict or 'running'}",
                f"{self.searches} searches of {self.clients} clients were interleaved; "
                f"{preferred.outcomes} clients have decided",
                f"preference for sessions, -1 to 1: {preferred.mean:+.3f}, {100 * (1 - ERROR_RATE):g} % interval at "
                f"any time {preferred.low:+.3f} … {preferred.high:+.3f}",
            ]
        )


class Trials:
    """Starts, reads and changes trials: online experiments that compare rankings with and without feedback.

    An index has at most one running trial. All methods raise SessionsUnavailable if the store does not respond.

    Args:
        store: The session store, which contains the trials as well.
        clock: A function that returns the time in Unix seconds.
    """

    def __init__(self, store: SessionStore, clock: Callable[[], float] = time.time) -> None:
        self.store = store
        self.clock = clock

    def find(self, index: str, wait: bool = True) -> Trial | None:
        """Return the running trial of an index, or else its latest trial.

        Args:
            index: The name of the index.
            wait: Whether to wait for a slow store. If False, SessionsUnavailable is raised after a short timeout.

        Returns:
            The trial, or None if the store contains no valid trial of the index.
        """
        return self._read(index, wait)[0]

    def start(self, index: str, share: float) -> Trial:
        """Start a trial on an index.

        Args:
            index: The name of the index.
            share: The share of the users who take part, above 0 and at most 1.

        Raises:
            BadInput: If a trial of the index is already running, or ``share`` is out of range.
        """
        if not 0 < share <= 1:
            expected = "a share above 0 and at most 1, such as 0.1"
            raise BadInput(f"the share of clients is {share:g}", value=share, expected=expected)
        now = self.clock()
        previous, stored = self._read(index)
        trial = Trial(index, uuid.uuid4().hex[:8], share, now)
        is_running = previous is not None and not previous.verdict and now < previous.started + _MAX_DURATION
        if is_running or not self._write(trial, stored):
            raise BadInput(f"a trial of {index} is already running", value=index, expected="stop that trial first")
        return trial

    def change(self, trial: Trial, **fields: Any) -> Trial | None:
        """Change some attributes of a trial in the store.

        Args:
            trial: The trial as it was read from the store.
            **fields: The new values, by attribute name.

        Returns:
            The changed trial. If another process has changed the trial in the meantime, nothing is stored and None is
            returned.
        """
        current, stored = self._read(trial.index)
        changed = replace(trial, **fields)
        return changed if current == trial and self._write(changed, stored) else None

    def _write(self, trial: Trial, stored: SessionRecord | None) -> bool:
        """Write a trial to the store, and return whether it was written.

        Args:
            trial: The trial.
            stored: The record to overwrite, or None for a new record. If another process has changed the record,
                nothing is written.
        """
        version = stored.version if stored else None
        record = SessionRecord(asdict(trial), trial.started + _RETENTION, [trial.index], version)
        return self.store.write(_record_id(trial.index), record)

    def _read(self, index: str, wait: bool = True) -> tuple[Trial | None, SessionRecord | None]:
        """Read the trial of an index, and the record in which it is stored. See :meth:`find` for the arguments.

        Returns:
            A pair of the trial and its record. Both are None if there is no record. Only the trial is None if the
            record is damaged.
        """
        stored = self.store.read(_record_id(index), wait)
        try:
            trial = msgspec.convert(stored.body, Trial) if stored else None
        except msgspec.ValidationError:
            trial = None  # ignore a damaged trial
        return trial, stored


def _record_id(index: str) -> str:
    """Return the id under which the trial of an index is stored. It contains a space, unlike the ids of sessions."""
    return f"trial {index}"


def evaluate_trial(trial: Trial, log: UbiLog, engine: Engine, actions: Actions, now: float) -> TrialReport:
    """Evaluate a trial, based on the interleaved pages and the clicks in the log of user events (UBI).

    A trial is an online experiment that compares rankings with and without users' feedback.

    Args:
        trial: The trial to evaluate.
        log: The log of user events.
        engine: The search engine, which looks up the clicked documents.
        actions: The grade of each type of action. Actions with a positive grade count as clicks.
        now: The current time in Unix seconds.

    Returns:
        The report, which shows the ranking that users prefer.

    Raises:
        EngineUnavailable: If the log or the engine cannot be reached.
        EngineError: If the engine responds with an error.
    """
    queries = log.application_queries(trial.application, trial.started, now + CLOCK_TOLERANCE)
    shown = [page for page in map(ShownPage.from_ubi_query, queries) if page is not None]
    clients = {page.client for page in shown}
    clicks: list[tuple[str, Object, float]] = []
    for event in log.scan(trial.started, now + CLOCK_TOLERANCE):
        client = event.client if event.client in clients else event.session
        if client in clients and event.object and actions.get(event.action, 0.0) > 0:
            clicks.append((client, (event.object, event.object_field), event.at))
    ids = look_up_document_ids(engine, trial.index, {object for _, object, _ in clicks})
    known = [(client, ids[object], at) for client, object, at in clicks if object in ids]
    outcomes = client_preferences(shown, known, now)
    return TrialReport(replace(trial, checked=now), len(shown), len(clients), mean_preference(outcomes))


def client_preferences(shown: Iterable[ShownPage], clicks: Iterable[tuple[str, str, float]], now: float) -> list[float]:
    """Return which ranking each client of a trial prefers, judged by the client's clicks.

    A trial shows pages that combine the hits of two rankings: a ranking with the session's feedback, and the plain
    ranking. The preference of a client is the share of the client's clicks on hits of the ranking with feedback minus
    the share of clicks on hits of the plain ranking. So it is between 1 (feedback) and -1 (plain). Clicks on hits that
    belong to neither ranking are ignored.

    Each client counts once, because clicks of the same client depend on each other. Only one visit of a client counts:
    the pages within an hour (VISIT_SECONDS) of the first page with a click that is not ignored. Visits that may still
    receive clicks are left out.

    Args:
        shown: The interleaved pages that were shown to the clients.
        clicks: Tuples of the client id, the document id and the time in Unix seconds.
        now: The current time in Unix seconds.

    Returns:
        The preferences, one for each client, in the chronological order of the visits.
    """
    pages: dict[str, list[ShownPage]] = defaultdict(list)
    for shown_page in sorted(shown, key=lambda page: page.at):
        pages[shown_page.client].append(shown_page)
    # For each client, the clicked hits of a single team: the time of the page, the document and the team.
    wins: dict[str, set[tuple[float, str, bool]]] = defaultdict(set)
    for client, document, at in clicks:
        page = _clicked_page(document, at, pages[client])
        team = page.teams[document] if page else None
        if page is not None and team is not None:
            wins[client].add((page.at, document, team))
    outcomes = []
    for client_wins in wins.values():
        start = min(at for at, _, _ in client_wins)
        visit = [team for at, _, team in client_wins if at <= start + VISIT_SECONDS]
        if start + 2 * VISIT_SECONDS <= now:
            outcomes.append((start, sum(1 if team else -1 for team in visit) / len(visit)))
    return [outcome for _, outcome in sorted(outcomes)]


def _clicked_page(document: str, at: float, pages: Sequence[ShownPage]) -> ShownPage | None:
    """Return the page of hits on which a user clicked a document, or None if no page matches.

    Of the pages that contain the document, the last page before the click is returned. If there is no such page, the
    first page shortly after the click is returned, because the user's clock may be slow.

    Args:
        document: The id of the document.
        at: The time of the click in Unix seconds.
        pages: The pages that were shown to the user, in chronological order.
    """
    having = [page for page in pages if document in page.teams]
    before = [page for page in having if page.at <= at <= page.at + VISIT_SECONDS]
    return before[-1] if before else next((page for page in having if at < page.at <= at + CLOCK_TOLERANCE), None)


def interleave_by_team_draft(first: Sequence[K], second: Sequence[K], seed: str) -> dict[K, bool | None]:
    """Interleave two rankings by team-draft interleaving.

    Both rankings take turns in picking their best remaining hit. In each round, both rankings pick a hit, and the
    ranking that picks first is drawn at random. If both rankings begin with the same hits, these hits are assigned to
    neither ranking, because clicks on them do not show which ranking is better.

    Args:
        first: The hits of the first ranking, best first.
        second: The hits of the second ranking, best first.
        seed: The seed of the random draws.

    Returns:
        The interleaved hits, best first, as many as the longer ranking has. The value of each hit is False if the first
        ranking picked it, True if the second ranking picked it, or None for hits that are assigned to neither.

    Source: Radlinski, Kurup and Joachims (2008).

    >>> interleave_by_team_draft("abcd", "abdc", "any")
    {'a': None, 'b': None, 'd': True, 'c': False}
    """
    common = [hit for hit, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))]
    drafted: dict[K, bool | None] = dict.fromkeys(common)
    rng, picks = random.Random(seed), {False: 0, True: 0}
    rankings = {False: list(first), True: list(second)}
    while len(drafted) < max(len(first), len(second)):
        team = picks[True] < picks[False] if picks[True] != picks[False] else rng.random() < 0.5
        picks[team] += 1
        picked = next((hit for hit in rankings[team] if hit not in drafted), None)
        if picked is not None:
            drafted[picked] = team
    return drafted


def mean_preference(outcomes: Sequence[float]) -> Preference:
    """Return the mean preference of the clients of a trial, with a confidence interval.

    The interval stays valid if it is computed again after each client (a confidence sequence): the probability that it
    ever excludes the true mean is at most ERROR_RATE. The only assumption is that each outcome has the same expected
    value, given the earlier outcomes.

    The interval is computed by betting. For each possible mean, one gambler bets that the true mean is larger, and
    another that it is smaller. If one of them multiplies the initial wealth by 2 / ERROR_RATE, the possible mean is
    excluded from the interval for good (Ville's inequality).

    Args:
        outcomes: The preference of each client, from -1 to 1, in chronological order. See :func:`client_preferences`.

    Source: hedged betting of Waudby-Smith and Ramdas (2024), "Estimating means of bounded random variables by betting",
    section 4.2, with the bets of equation 26.
    """
    values = (np.asarray(outcomes, np.float64) + 1) / 2
    means = np.linspace(0.0, 1.0, _STEPS + 1)
    all_bets = _bet_sizes(values)
    # Logarithms of the wealth of the two gamblers, for each possible mean, and of the largest wealth so far.
    up, down, richest = np.zeros((3, len(means)))
    for start in range(0, len(values), _BLOCK):
        bets, gains = all_bets[start : start + _BLOCK, None], values[start : start + _BLOCK, None] - means
        with np.errstate(divide="ignore"):
            ups = up + np.log1p(np.minimum(bets, _MAX_STAKE / means) * gains).cumsum(axis=0)
            downs = down + np.log1p(-np.minimum(bets, _MAX_STAKE / (1 - means)) * gains).cumsum(axis=0)
        up, down = ups[-1], downs[-1]
        richest = np.maximum(richest, np.maximum(ups, downs).max(axis=0))
    remaining = means[richest < np.log(2 / ERROR_RATE)]
    mean = float(values.mean()) if len(values) else 0.5
    low, high = mean, mean
    if len(remaining):
        # The true mean may be anywhere between two of the tested means.
        low, high = remaining[0] - 1 / _STEPS, remaining[-1] + 1 / _STEPS
    return Preference(len(values), 2 * mean - 1, float(max(-1.0, 2 * low - 1)), float(min(1.0, 2 * high - 1)))


def _bet_sizes(values: NDArray[np.float64]) -> NDArray[Any]:
    """Return the sizes of the bets from which :func:`mean_preference` computes a confidence interval.

    The method imagines a gambler who bets on each outcome. A guess of the mean is rejected if the gambler would win a
    lot of money by betting against it. Each bet depends only on the number and the variance of the earlier outcomes, so
    the interval stays valid if it is checked after every outcome.

    Args:
        values: The outcomes, from 0 to 1 and in order, as an array of shape (n_values,).

    Returns:
        The sizes of the bets, as an array of shape (n_values,).
    """
    count = np.arange(1, len(values) + 1)
    mean = (0.5 + values.cumsum()) / (count + 1)
    variance = (0.25 + ((values - mean) ** 2).cumsum()) / (count + 1)
    before = np.concatenate([[0.25], variance[:-1]]) if len(values) else variance
    return np.asarray(np.sqrt(2 * np.log(2 / ERROR_RATE) / (before * count * np.log(count + 1))))
