"""Trials: for a share of the clients plain and session results are interleaved, until their clicks have told which is
better.

A trial is kept in the store of the sessions, under an id that no session can have. What it showed to whom stands in
UBI's log of queries, beside the clicks that decide it, and is forgotten with them. Whose hits people click is told by a
test that holds however often one looks.
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
_DAY = 86_400.0
_LONGEST, _KEPT = 28 * _DAY, 56 * _DAY  # that a trial runs, and that it is known
VISIT_SECONDS = 3600.0  # seconds of searches that count as one visit, and that clicks on one of them are waited for
NEGLIGIBLE = 0.05  # a preference of no more, either way, is as good as none
ERROR_RATE = 0.02  # the chance, at most, that a preference is found where there is none
_STEPS = 400  # of the interval: means from -1 to 1 are tried at so many places
_MOST = 0.5  # of the wealth that would be lost by the worst outcome is staked
SESSIONS, PLAIN, NEITHER = "sessions are better", "plain results are better", "no difference that matters"
STOPPED, UNDECIDED = "stopped", "undecided after 28 days"


@dataclass(frozen=True)
class Trial:
    """A trial of the searches of an ``index``, for a ``share`` of its clients, 0 to 1.

    ``started`` and ``checked``, when it was last looked at, are Unix seconds. ``verdict`` says why it has ended, "" if
    it has not.
    """

    index: str
    id: str
    share: float
    started: float
    checked: float = 0.0
    verdict: str = ""

    def includes(self, client: str, now: float) -> bool:
        """Whether a client's searches are interleaved, which is the same for as long as the trial runs."""
        digest = hashlib.blake2b(f"{self.id}:{client}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
        running = not self.verdict and now < self.started + _LONGEST
        return running and int.from_bytes(digest, "big") / 2**64 < self.share

    @property
    def application(self) -> str:
        """The application that its queries have in UBI's log."""
        return f"resift-trial-{self.id}"


@dataclass(frozen=True)
class ShownPage:
    """A page of hits that a ``client`` was shown at a time; ``teams``: whether sessions had picked a document, or None
    where nobody had."""

    client: str
    at: float
    teams: Mapping[str, bool | None]

    def query(self, trial: Trial, text: str) -> dict[str, Any]:
        """The same as UBI's log of queries has it."""
        teams = {name: [id for id, team in self.teams.items() if team is won] for name, won in _TEAMS.items()}
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
        """What :meth:`query` wrote."""
        teams = source["query_attributes"]["teams"]
        won = {id: team for name, team in _TEAMS.items() for id in teams.get(name, ())}
        return cls(text_of(source["client_id"]), seconds_of(source["timestamp"]) or 0.0, won)


_TEAMS = {"plain": False, "session": True, "both": None}


@dataclass(frozen=True)
class Preference:
    """The ``mean`` of outcomes from -1 to 1, and an interval for it, ``low`` to ``high``, which holds at any time."""

    outcomes: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class TrialReport:
    """What is known of a trial: so many ``searches`` of so many ``clients`` were interleaved, ``decisive`` clients
    clicked what one side alone had picked, and ``preferred`` is theirs, from -1, plain results, to 1, sessions."""

    trial: Trial
    searches: int
    clients: int
    preferred: Preference

    @property
    def verdict(self) -> str:
        """Why the trial has ended, or is to end; "" if it goes on."""
        found, late = self.preferred, self.trial.checked > self.trial.started + _LONGEST
        reached = {
            SESSIONS: found.low > 0,
            PLAIN: found.high < 0,
            NEITHER: -NEGLIGIBLE < found.low <= found.high < NEGLIGIBLE,
        }
        reasons = (name for name, is_so in {**reached, UNDECIDED: late}.items() if is_so)
        return self.trial.verdict or next(reasons, "")

    def to_dict(self) -> dict[str, Any]:
        """The same for programs."""
        return {**asdict(self), "error": ERROR_RATE, "verdict": self.verdict}

    def __str__(self) -> str:
        trial, found = self.trial, self.preferred
        since = f"since {timestamp_of(trial.started)}, for {100 * trial.share:g} % of the clients"
        return "\n".join(
            [
                f"trial of {trial.index} {since}: {self.verdict or 'running'}",
                f"{self.searches} searches of {self.clients} clients were interleaved; {found.outcomes} clients decide",
                f"preference for sessions, -1 to 1: {found.mean:+.3f}, {100 * (1 - ERROR_RATE):g} % interval at any "
                f"time {found.low:+.3f} … {found.high:+.3f}",
            ]
        )


class Trials:
    """The trials in a store of sessions, one for an index at a time. ``clock`` gives Unix seconds.

    Every method raises SessionsUnavailable if the store does not answer.
    """

    def __init__(self, store: SessionStore, clock: Callable[[], float] = time.time) -> None:
        self.store, self.clock = store, clock

    def find(self, index: str, wait: bool = True) -> Trial | None:
        """The trial of an index that runs, or ran last; None if there is none."""
        return self._read(index, wait)[0]

    def start(self, index: str, share: float) -> Trial:
        """Begin a trial. Raises BadInput if one runs, or ``share`` is not above 0 and at most 1."""
        if not 0 < share <= 1:
            raise BadInput(f"a share of {share:g}", value=share, expected="above 0, at most 1, such as 0.1")
        now = self.clock()
        before, stored = self._read(index)
        trial = Trial(index, uuid.uuid4().hex[:8], share, now)
        runs = before is not None and not before.verdict and now < before.started + _LONGEST
        if runs or not self._write(trial, stored):
            raise BadInput(f"a trial of {index} runs already", value=index, expected="that trial to end first")
        return trial

    def change(self, trial: Trial, **fields: Any) -> Trial | None:
        """Write these fields of a running trial; None, and nothing is written, where it has changed meanwhile."""
        now, stored = self._read(trial.index)
        changed = replace(trial, **fields)
        return changed if now == trial and self._write(changed, stored) else None

    def _write(self, trial: Trial, stored: SessionRecord | None) -> bool:
        version = stored.version if stored else None
        kept = SessionRecord(asdict(trial), trial.started + _KEPT, [trial.index], version)
        return self.store.write(_key(trial.index), kept)

    def _read(self, index: str, wait: bool = True) -> tuple[Trial | None, SessionRecord | None]:
        stored = self.store.read(_key(index), wait)
        try:
            named = {name: stored.body[name] for name in Trial.__dataclass_fields__} if stored else None
        except (LookupError, TypeError):
            named = None  # damaged: as good as none
        return None if named is None else Trial(**named), stored


def _key(index: str) -> str:
    return f"trial {index}"


def trial_report(trial: Trial, log: UbiLog, engine: Engine, actions: Actions, now: float) -> TrialReport:
    """What the log says of a trial at the time ``now`` (Unix seconds). Raises what log and engine raise."""
    shown = [
        ShownPage.read(one) for one in log.application_queries(trial.application, trial.started, now + CLOCK_TOLERANCE)
    ]
    clients = {one.client for one in shown}
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
    """By how much more a client clicked what sessions had picked, -1 to 1, of each client that has decided by ``now``.

    ``clicks`` are (client, document, time) each. A client decides once, by the visit that begins with the first page on
    which it clicked what one side alone had picked: its clicks hang together, and clients do not. The outcomes are in
    the order of these visits, of which those that may still get clicks are left out.
    """
    pages: dict[str, list[ShownPage]] = defaultdict(list)
    for one in sorted(shown, key=lambda one: one.at):
        pages[one.client].append(one)
    won: dict[str, set[tuple[float, str, bool]]] = defaultdict(set)
    for client, document, at in clicks:
        page = _page_of(document, at, pages[client])
        team = page.teams[document] if page else None
        if page is not None and team is not None:
            won[client].add((page.at, document, team))
    found = []
    for of_client in won.values():
        begun = min(at for at, _, _ in of_client)
        visit = [team for at, _, team in of_client if at <= begun + VISIT_SECONDS]
        if begun + 2 * VISIT_SECONDS <= now:
            found.append((begun, sum(1 if team else -1 for team in visit) / len(visit)))
    return [outcome for _, outcome in sorted(found)]


def _page_of(document: str, at: float, pages: Sequence[ShownPage]) -> ShownPage | None:
    """The page on which a document was clicked: the last before, or the next where the client's clock is behind."""
    having = [page for page in pages if document in page.teams]
    before = [page for page in having if page.at <= at <= page.at + VISIT_SECONDS]
    return before[-1] if before else next((page for page in having if at < page.at <= at + CLOCK_TOLERANCE), None)


def team_draft(first: Sequence[K], second: Sequence[K], seed: str) -> dict[K, bool | None]:
    """One ranking of two, by team draft (Radlinski, Kurup and Joachims 2008), as long as the longer of them.

    Both take turns in picking the best hit that is left to them; who begins a round is drawn by ``seed``. The result
    says of each hit, best first, whether the ``second`` ranking picked it. The hits that both begin with in the same
    order are nobody's (None): a click there would tell nothing, and only add noise.

    >>> team_draft("abcd", "abdc", "any")
    {'a': None, 'b': None, 'd': True, 'c': False}
    """
    common = [one for one, other in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))]
    drafted: dict[K, bool | None] = dict.fromkeys(common)
    rng, picks = random.Random(seed), {False: 0, True: 0}
    left = {False: list(first), True: list(second)}
    while len(drafted) < max(len(first), len(second)):
        team = picks[True] < picks[False] if picks[True] != picks[False] else rng.random() < 0.5
        picks[team] += 1
        picked = next((one for one in left[team] if one not in drafted), None)
        if picked is not None:
            drafted[picked] = team
    return drafted


def preference(outcomes: Sequence[float]) -> Preference:
    """The mean of ``outcomes`` (n,), -1 to 1, in the order in which they came, with a confidence sequence.

    The hedged betting of Waudby-Smith and Ramdas (2024, "Estimating means of bounded random variables by betting",
    section 4.2, with the bets of eq. 26): for each mean that may be, a gambler bets against it, and one by whom he gets
    rich, 1 / ERROR times, is left out for good. By Ville's inequality the true mean is ever left out with a chance
    of ERROR at most, whenever one looks and stops. Nothing is supposed but that the mean, given what came before,
    is always the same.
    """
    values = (np.asarray(outcomes, np.float64) + 1) / 2
    means = np.linspace(0.0, 1.0, _STEPS + 1)
    bets = _bets(values)[:, None]
    gains = values[:, None] - means
    with np.errstate(divide="ignore"):
        up = np.log1p(np.minimum(bets, _MOST / means) * gains).cumsum(axis=0)
        down = np.log1p(-np.minimum(bets, _MOST / (1 - means)) * gains).cumsum(axis=0)
    richest = np.maximum(up, down).max(axis=0, initial=0.0)
    kept = means[richest < np.log(2 / ERROR_RATE)]
    mean = float(values.mean()) if len(values) else 0.5
    # between two places that were tried the truth may be anywhere
    low, high = (kept[0] - 1 / _STEPS, kept[-1] + 1 / _STEPS) if len(kept) else (mean, mean)
    return Preference(len(values), 2 * mean - 1, float(max(-1.0, 2 * low - 1)), float(min(1.0, 2 * high - 1)))


def _bets(values: NDArray[np.float64]) -> NDArray[Any]:
    """What is staked on each of the values (n,), by those before it alone."""
    count = np.arange(1, len(values) + 1)
    mean = (0.5 + values.cumsum()) / (count + 1)
    variance = (0.25 + ((values - mean) ** 2).cumsum()) / (count + 1)
    before = np.concatenate([[0.25], variance[:-1]]) if len(values) else variance
    return np.asarray(np.sqrt(2 * np.log(2 / ERROR_RATE) / (before * count * np.log(count + 1))))
