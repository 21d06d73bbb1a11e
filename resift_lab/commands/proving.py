"""What sessions are worth on a team's own traffic: its log, replayed through the search that is served."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from resift.cli.options import index_model, service_settings, session_store_at, ubi_log_at
from resift.contracts.engine import Engine, Headers
from resift.contracts.tuning import Tuning
from resift.contracts.ubi import UbiEvent, UbiQuery
from resift.encoders.model import Model
from resift.errors import BadInput
from resift.feedback.judgements import Judgement
from resift.notebook import Progress, progress_bar
from resift.service.bodies import Search, asked_by, search_body
from resift.service.connect import default_store, open_engine, open_session_store
from resift.service.search_service import SearchService
from resift.sessions.clicks import Actions, Clicks, Object, document_ids, read_actions
from resift.sessions.sessions import Sessions
from resift.sessions.trials import STOPPED, TrialReport, Trials, trial_report
from resift_lab.commands.judged_source import known_queries
from resift_lab.log_replay.replay import Log, Observation, Ranking, Skipped, replay
from resift_lab.log_replay.report import Report, false_alarms, rows_of
from resift_lab.log_replay.traffic import Sample, read_searches, sample_clients

UBI = "ubi"
TEXT = "%SearchText%"  # in a body, as in the configurations of the Search Relevance Workbench
SEARCHES = 3_000  # with a click, of the clients that are drawn
DEPTH = 100  # hits among which a clicked document is looked for
_ASKED_TWICE = 100


def prove(
    index: str,
    replay: str | Path = UBI,
    url: str = "resift.db",
    *,
    model: str | Path | Model | None = None,
    body: dict[str, Any] | None = None,
    id_field: str = "",
    searches: int = SEARCHES,
    seed: int = 0,
    sessions: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Where the documents that clients clicked would have stood with their sessions, and where without.

    Args:
        index: what was searched, in the cluster or embedded engine at ``url``.
        replay: ``ubi``, the log of User Behavior Insights beside it, or a CSV file of searches with the columns query,
            shown, clicked, client and time (:func:`resift_lab.log_replay.traffic.read_searches`).
        model: a model or its folder; by default the service's, or that which the index was attached with.
        body: your own search, in which %SearchText% stands for the query's text; by default that of ``/v1/search``.
        id_field: the field that has the ids of a CSV file, where that is not ``_id``.
        searches: at most so many searches with a click are replayed, of clients that are drawn at random by ``seed``.
        sessions: the file that UBI's log is in, where that is beside an embedded engine's and not in it.
        progress: is told how many clients are done, and of how many; by default tqdm shows it, where that is installed.

    Nothing is written. Raises BadInput for a file or body that does not fit, and where nothing can be replayed, and
    what the engine raises.
    """
    require_name(index)
    skipped = Skipped()
    with closing(open_engine(url)) as engine:
        searching = Replayed(engine, model, index, body)  # before a long log is read
        sample, known = read_log(engine, index, replay, url, sessions, searches, id_field, seed)
        with progress_bar("replaying", progress) as told:
            found = list(observations(sample.of_client, known, searching, skipped, told))
        if not found:
            raise nothing_in(replay)
        asked, unstable = searching.asked_twice()
    drawn = (sample.events, len(sample.of_client), sample.share, sample.robots)
    return Report(index, rows_of(found, seed), false_alarms(found, seed), asked, unstable, skipped, *drawn)


def require_name(index: Any) -> None:
    """Raise BadInput for the object that :func:`resift.evaluate` takes in place of its name."""
    if not isinstance(index, str):
        expected = "its name, and the address of its engine as url"
        raise BadInput(f"index is {index!r}", value=index, expected=expected)


def nothing_in(replay: str | Path) -> BadInput:
    """The error of a log that says nothing of sessions."""
    expected = "clients with a click in one search, and another click in a later one"
    return BadInput(f"nothing to replay in {replay}", value=str(replay), expected=expected)


def read_log(
    engine: Engine,
    index: str,
    replay: str | Path,
    url: str,
    sessions: str | None = None,
    searches: int = SEARCHES,
    id_field: str = "",
    seed: int = 0,
) -> tuple[Sample, Log]:
    """A sample of a log's clients, and what is needed to replay it; the arguments are those of :func:`prove`."""
    settings = service_settings()
    actions = read_actions(settings.ubi_actions)
    source = UBI if str(replay) == UBI else read_searches(replay, id_field)
    sample, queries = _drawn(source, url, sessions or default_store(url), actions, searches, seed)
    documents = _documents(engine, index, sample.objects(queries), id_field)
    return sample, Log(index, queries, documents, actions, settings.session_hours * 3600)


def _documents(engine: Engine, index: str, objects: set[Object], id_field: str) -> dict[Object, str]:
    """The ids of the documents that objects are. Raises BadInput if there are objects, and not one is a document."""
    documents = document_ids(engine, index, objects)
    if objects and not documents:
        field = id_field or "_id, or the field that the events name"
        expected = "the index and the field that were clicked in"
        message = f"none of the documents that were clicked is in {index}, by {field}"
        raise BadInput(message, value=id_field or index, expected=expected)
    return documents


def _drawn(
    source: str | Iterable[UbiEvent], url: str, store: str, actions: Actions, searches: int, seed: int
) -> tuple[Sample, dict[str, UbiQuery]]:
    """A sample of the clients of UBI's log or of other events, and their queries as far as they stand by themselves."""
    if not isinstance(source, str):
        return sample_clients(source, actions, searches, seed), {}
    with ubi_log_at(url, store) as log:
        sample = sample_clients(log.scan(), actions, searches, seed)
        return sample, known_queries(log, sample.events_of_all)


def observations(
    of_client: dict[str, list[UbiEvent]], log: Log, searching: Replayed, skipped: Skipped, progress: Progress
) -> Iterable[Observation]:
    """The clicks of clients that had a session before them, each ranked without and with it."""
    for done, (client, events) in enumerate(of_client.items(), 1):
        yield from replay(client, sorted(events, key=lambda event: event.at), log, searching.rank, skipped)
        progress(done, len(of_client))


def live_trial(index: str, what: str | float, url: str, store: str) -> TrialReport:
    """Begin a trial of an index for a share of the clients, ``stop`` it, or look at its ``status``.

    Raises BadInput if there is none, or one runs already, and what the engine, the store and UBI's log raise.
    """
    settings = service_settings()
    with closing(open_engine(url)) as engine, session_store_at(store) as kept, ubi_log_at(url, store) as log:
        trials = Trials(kept)
        if not isinstance(what, str):
            engine.info(index)
            trials.start(index, what)
        trial = trials.find(index)
        if trial is None:
            raise BadInput(f"no trial of {index}", value=index, expected="one that was begun: --live 10%")
        if what == "stop" and not trial.verdict:
            trial = trials.change(trial, verdict=STOPPED) or trial
        return trial_report(trial, log, engine, read_actions(settings.ubi_actions), time.time())


class Replayed:
    """The searches of an index as they are served, in sessions that are given; by ``tuning`` where that is not None."""

    tuning: Tuning | None = None

    def __init__(self, engine: Engine, model: str | Path | Model | None, index: str, body: Any = None) -> None:
        settings = service_settings()
        self.engine, self.index, self.body, self.clicks = engine, index, body, _Given()
        encoder = index_model(engine, index, model)
        store = Sessions(open_session_store(":memory:", settings.session_index))
        self.service = SearchService(engine, encoder, store, settings, self.clicks)
        self.sent: dict[str, Ranking] = {}
        self.service.info(index)

    def rank(self, text: str, judged: Sequence[Judgement]) -> tuple[Ranking, Ranking]:
        """The ids of the first DEPTH hits, without a session, and in one of these judgements."""
        self.clicks.judged = list(judged)
        plain, moved = self._ids([self._body(text, None), self._body(text, "a client")])
        if len(self.sent) < _ASKED_TWICE:
            self.sent[text] = plain
        return plain, moved

    def asked_twice(self) -> tuple[int, int]:
        """How many plain searches are sent a second time, and how many of them find something else."""
        again = [self._ids([self._body(text, None)])[0] for text in self.sent]
        return len(again), sum(first != second for first, second in zip(self.sent.values(), again, strict=True))

    def _body(self, text: str, client: str | None) -> dict[str, Any]:
        """What the engine is asked, by nobody in particular or a client, whose clicks count."""
        service = self.service
        info = service.info(self.index)
        info = info if self.tuning is None else replace(info, tuning=self.tuning)
        search = Search(self._query(text), DEPTH, index=self.index)
        body = {
            **search_body(search, info, service.model.table.idf),
            **{"from": 0, "size": DEPTH, "_source": False, "track_total_hits": False},
        }
        for name in ("aggs", "aggregations", "suggest", "highlight"):
            body.pop(name, None)
        return service.in_session(info, body, replace(asked_by(search, body), client=client)).body

    def _query(self, text: str) -> Any:
        if self.body is None:
            return text
        written = json.dumps(self.body)
        if TEXT not in written:
            raise BadInput(f"the body has no {TEXT}", value=self.body, expected=f"a search body with {TEXT} in it")
        return json.loads(written.replace(TEXT, json.dumps(text)[1:-1]))

    def _ids(self, bodies: list[dict[str, Any]]) -> list[Ranking]:
        found = self.engine.search_all(self.index, bodies, None)
        return [[hit["_id"] for hit in islice(result.hits, DEPTH)] for result in found]


class _Given(Clicks):
    """Clicks that are not looked up."""

    def __init__(self) -> None:
        self.judged: list[Judgement] = []

    def judgements(self, client: str, index: str, headers: Headers = None) -> list[Judgement]:
        """Those that are given."""
        return self.judged
