"""Trials that compare results with and without sessions (team-draft interleaving).

For a share of the clients the plain results and the results of the session are interleaved, until the clicks show which
results are better. A trial is stored in the session store, under an id that no session can have. The interleaved pages
are stored in the UBI log of queries, next to the clicks, and are deleted with them. The statistical test remains valid
no matter how often the result is looked at.
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

import numpy as np
from numpy.typing import NDArray

from resift.contracts.engine import Engine
from resift.contracts.session_store import SessionRecord, SessionStore
from resift.contracts.ubi import UbiLog, seconds_of, text_of, timestamp_of
from resift.errors import BadInput
from resift.sessions.clicks import CLOCK_TOLERANCE, Actions, Object, document_ids

K = TypeVar("K", bound=Hashable)
_DAY = 86_400.0  # seconds
_MAX_DURATION = 28 * _DAY  # of a trial
_RETENTION = 56 * _DAY  # after the start of a trial, it is deleted
# Searches within this time are one visit. After a search, clicks are expected for the same time.
VISIT_SECONDS = 3600.0
NEGLIGIBLE = 0.05  # a preference whose absolute value is smaller does not matter
ERROR_RATE = 0.02  # maximum probability of detecting a preference that does not exist
_STEPS = 400  # number of steps from -1 to 1 at which means are tested for the confidence interval
_MAX_STAKE = 0.5  # maximum share of the wealth that the worst outcome would lose
SESSIONS, PLAIN, NEITHER = "sessions are better", "plain results are better", "no difference that matters"
STOPPED, UNDECIDED = "stopped", "undecided after 28 days"


@dataclass(frozen=True)
class Trial:
    """A trial of the searches of an index.

    Attributes:
        index: The name of the index.
        id: The id of the trial.
        share: The share of the clients that take part, 0 to 1.
        started: The start in Unix seconds.
        checked: The time of the last evaluation in Unix seconds.
        verdict: The reason why the trial ended, or "" while it runs.
    """

    index: str
    id: str
    share: float
    started: float
    checked: float = 0.0
    verdict: str = ""

    def includes(self, client: str, now: float) -> bool:
        """Return whether a client takes part at the time ``now``. The answer does not change during a trial."""
        digest = hashlib.blake2b(f"{self.id}:{client}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
        running = not self.verdict and now < self.started + _MAX_DURATION
        return running and int.from_bytes(digest, "big") / 2**64 < self.share

    @property
    def application(self) -> str:
        """Return the name of the application under which the UBI log stores the trial's pages."""
        return f"resift-trial-{self.id}"


@dataclass(frozen=True)
class ShownPage:
    """A page of interleaved hits.

    Attributes:
        client: The client who saw the page.
        at: The time in Unix seconds.
        teams: For each document, whether the session (True) or the plain results (False) contributed it. None if both
            did.
    """

    client: str
    at: float
    teams: Mapping[str, bool | None]

    def query(self, trial: Trial, text: str) -> dict[str, Any]:
        """Return the page as a document of the UBI log of queries."""
        teams = {name: [id for id, team in self.teams.items() if team is value] for name, value in _TEAMS.items()}
        return {
            "application": trial.application,
            "query_id": str(uuid.uuid4()),
            "client_id": self.client,
            "user_query": text,
            "timestamp": timestamp_of(self.at),
            "query_response_hit_ids": list(self.teams),
            "query_attributes": {"teams": teams},
        }

    @classmethod
    def read(cls, source: Mapping[str, Any]) -> ShownPage:
        """Return the page in a document that :meth:`query` returned."""
        teams = source["query_attributes"]["teams"]
        team_by_id = {id: team for name, team in _TEAMS.items() for id in teams.get(name, ())}
        return cls(text_of(source["client_id"]), seconds_of(source["timestamp"]) or 0.0, team_by_id)


_TEAMS = {"plain": False, "session": True, "both": None}  # names of the teams in the UBI log


@dataclass(frozen=True)
class Preference:
    """A mean preference with a confidence interval.

    The interval is valid at any time: a trial may be evaluated repeatedly and stopped early.

    Attributes:
        outcomes: The number of outcomes.
        mean: The mean of the outcomes, -1 to 1.
        low: The lower limit of the interval.
        high: The upper limit of the interval.
    """

    outcomes: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class TrialReport:
    """The state of a trial.

    Attributes:
        trial: The trial.
        searches: The number of interleaved searches.
        clients: The number of clients with interleaved searches.
        preferred: The preference of the clients who clicked a hit of a single team, from -1 (plain results) to 1
            (sessions).
    """

    trial: Trial
    searches: int
    clients: int
    preferred: Preference

    @property
    def verdict(self) -> str:
        """Return the reason why the trial has ended or should end now, or "" while it should continue."""
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
        """Return the report as JSON."""
        return {**asdict(self), "error": ERROR_RATE, "verdict": self.verdict}

    def __str__(self) -> str:
        trial, preferred = self.trial, self.preferred
        since = f"since {timestamp_of(trial.started)}, for {100 * trial.share:g} % of the clients"
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
    """The trials in a session store, at most one running for each index.

    Every method raises SessionsUnavailable if the store does not answer.

    Args:
        store: The session store.
        clock: A function that returns the time in Unix seconds.
    """

    def __init__(self, store: SessionStore, clock: Callable[[], float] = time.time) -> None:
        self.store = store
        self.clock = clock

    def find(self, index: str, wait: bool = True) -> Trial | None:
        """Return the running or latest trial of an index, or None."""
        return self._read(index, wait)[0]

    def start(self, index: str, share: float) -> Trial:
        """Start a trial.

        Args:
            index: The name of the index.
            share: The share of the clients, above 0 and at most 1.

        Raises:
            BadInput: If a trial is running, or ``share`` is out of range.
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
        """Change fields of a running trial and return it.

        Returns None, without any change, if the trial was changed meanwhile.
        """
        current, stored = self._read(trial.index)
        changed = replace(trial, **fields)
        return changed if current == trial and self._write(changed, stored) else None

    def _write(self, trial: Trial, stored: SessionRecord | None) -> bool:
        version = stored.version if stored else None
        record = SessionRecord(asdict(trial), trial.started + _RETENTION, [trial.index], version)
        return self.store.write(_key(trial.index), record)

    def _read(self, index: str, wait: bool = True) -> tuple[Trial | None, SessionRecord | None]:
        stored = self.store.read(_key(index), wait)
        try:
            values = {name: stored.body[name] for name in Trial.__dataclass_fields__} if stored else None
        except (LookupError, TypeError):
            values = None  # ignore a damaged trial
        return None if values is None else Trial(**values), stored


def _key(index: str) -> str:
    return f"trial {index}"


def trial_report(trial: Trial, log: UbiLog, engine: Engine, actions: Actions, now: float) -> TrialReport:
    """Return the state of a trial at the time ``now``, according to the UBI log.

    Raises the errors of the log and the engine.

    Args:
        trial: The trial.
        log: The UBI log.
        engine: The engine, which knows the documents of the objects.
        actions: The grade of each action. Actions with a positive grade count as clicks.
        now: The time in Unix seconds.
    """
    queries = log.application_queries(trial.application, trial.started, now + CLOCK_TOLERANCE)
    shown = [ShownPage.read(query) for query in queries]
    clients = {page.client for page in shown}
    clicks: list[tuple[str, Object, float]] = []
    for event in log.scan(trial.started, now + CLOCK_TOLERANCE):
        client = event.client if event.client in clients else event.session
        if client in clients and event.object and actions.get(event.action, 0.0) > 0:
            clicks.append((client, (event.object, event.object_field), event.at))
    ids = document_ids(engine, trial.index, {object for _, object, _ in clicks})
    known = [(client, ids[object], at) for client, object, at in clicks if object in ids]
    outcomes = client_outcomes(shown, known, now)
    return TrialReport(replace(trial, checked=now), len(shown), len(clients), preference(outcomes))


def client_outcomes(shown: Iterable[ShownPage], clicks: Iterable[tuple[str, str, float]], now: float) -> list[float]:
    """Return the outcome of each client that has decided by ``now``.

    The outcome is the share of a client's clicks on the session's hits minus the share on plain hits, -1 to 1. Each
    client counts once, because clicks of the same client are dependent. The visit that counts starts with the first
    page on which the client clicked a hit of a single team. Visits that may still get clicks are left out.

    Args:
        shown: The interleaved pages.
        clicks: Tuples of client, document and time.
        now: The time in Unix seconds.

    Returns:
        The outcomes in the order of the visits.
    """
    pages: dict[str, list[ShownPage]] = defaultdict(list)
    for shown_page in sorted(shown, key=lambda page: page.at):
        pages[shown_page.client].append(shown_page)
    # For each client, the clicked hits of a single team: the time of the page, the document and the team.
    wins: dict[str, set[tuple[float, str, bool]]] = defaultdict(set)
    for client, document, at in clicks:
        page = _page_of(document, at, pages[client])
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


def _page_of(document: str, at: float, pages: Sequence[ShownPage]) -> ShownPage | None:
    """Return the page on which a document was clicked, or None.

    This is the last page before the click or, if the client's clock is behind, the next page.
    """
    having = [page for page in pages if document in page.teams]
    before = [page for page in having if page.at <= at <= page.at + VISIT_SECONDS]
    return before[-1] if before else next((page for page in having if at < page.at <= at + CLOCK_TOLERANCE), None)


def team_draft(first: Sequence[K], second: Sequence[K], seed: str) -> dict[K, bool | None]:
    """Interleave two rankings by team draft. The result is as long as the longer ranking.

    Both rankings take turns in picking their best remaining hit. The ranking that starts a round is drawn at random.
    Hits at the beginning that are the same in both rankings belong to no team, because clicks on them tell nothing and
    would only add noise.

    Args:
        first: The first ranking.
        second: The second ranking.
        seed: The seed of the random draws.

    Returns:
        For each hit, best first, whether the ``second`` ranking picked it. None if the hit belongs to no team.

    Source: Radlinski, Kurup and Joachims (2008).

    >>> team_draft("abcd", "abdc", "any")
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


def preference(outcomes: Sequence[float]) -> Preference:
    """Return the mean of outcomes with a confidence interval that is valid at any time (a confidence sequence).

    For each possible mean, a gambler bets against it. Means against which a gambler multiplies the wealth by 1 /
    ERROR_RATE are excluded for good. By Ville's inequality, the true mean is ever excluded with a probability of at
    most ERROR_RATE, no matter when one looks and stops. The only assumption is that the mean of each outcome, given the
    earlier outcomes, is the same.

    Args:
        outcomes: The outcomes (n,), -1 to 1, in chronological order.

    Source: hedged betting of Waudby-Smith and Ramdas (2024), "Estimating means of bounded random variables by betting",
    section 4.2, with the bets of equation 26.
    """
    values = (np.asarray(outcomes, np.float64) + 1) / 2
    means = np.linspace(0.0, 1.0, _STEPS + 1)
    bets = _bets(values)[:, None]
    gains = values[:, None] - means
    with np.errstate(divide="ignore"):
        up = np.log1p(np.minimum(bets, _MAX_STAKE / means) * gains).cumsum(axis=0)
        down = np.log1p(-np.minimum(bets, _MAX_STAKE / (1 - means)) * gains).cumsum(axis=0)
    richest = np.maximum(up, down).max(axis=0, initial=0.0)
    remaining = means[richest < np.log(2 / ERROR_RATE)]
    mean = float(values.mean()) if len(values) else 0.5
    low, high = mean, mean
    if len(remaining):
        # The true mean may be anywhere between two of the tested means.
        low, high = remaining[0] - 1 / _STEPS, remaining[-1] + 1 / _STEPS
    return Preference(len(values), 2 * mean - 1, float(max(-1.0, 2 * low - 1)), float(min(1.0, 2 * high - 1)))


def _bets(values: NDArray[np.float64]) -> NDArray[Any]:
    """Return the bet on each of the values (n,), which only depends on the values before it."""
    count = np.arange(1, len(values) + 1)
    mean = (0.5 + values.cumsum()) / (count + 1)
    variance = (0.25 + ((values - mean) ** 2).cumsum()) / (count + 1)
    before = np.concatenate([[0.25], variance[:-1]]) if len(values) else variance
    return np.asarray(np.sqrt(2 * np.log(2 / ERROR_RATE) / (before * count * np.log(count + 1))))
