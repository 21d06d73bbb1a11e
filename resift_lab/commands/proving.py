"""Evaluation of sessions on a team's own traffic: replay of a click log, and live trials."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import structs

from resift.cli.options import index_model, service_settings, session_store_at, ubi_log_at
from resift.contracts.engine import Engine, Headers
from resift.contracts.tuning import Tuning
from resift.contracts.ubi import UbiEvent, UbiQuery
from resift.encoders.model import Model
from resift.errors import BadInput
from resift.feedback.judgements import Judgement
from resift.notebook import Progress, progress_bar
from resift.plugin.addresses import is_cluster, without_credentials
from resift.query.body import parse
from resift.service.bodies import Search, rewriting_options, search_body
from resift.service.connect import default_session_store, open_engine, open_session_store, ubi_address
from resift.service.search_service import SearchService
from resift.sessions.clicks import Actions, Clicks, Object, look_up_document_ids, parse_action_grades
from resift.sessions.sessions import Sessions
from resift.sessions.trials import STOPPED, TrialReport, Trials, evaluate_trial
from resift_lab.commands.judged_source import look_up_queries
from resift_lab.log_replay.replay import Observation, Ranking, ReplayLog, SkippedClicks, replay
from resift_lab.log_replay.report import Report, false_alarms, metrics_by_group
from resift_lab.log_replay.traffic import Sample, read_searches, sample_clients

# Value of the argument `replay` that selects the log of User Behavior Insights, instead of a CSV file.
UBI = "ubi"
# Placeholder for the query's text in a body, as in search configurations of the Search Relevance Workbench.
TEXT = "%SearchText%"
# Maximum number of searches with a click in the sample of clients.
SEARCHES = 3_000
# Number of hits of a replayed search in which the clicked document is looked for.
DEPTH = 100
# Maximum number of searches that are run a second time, to count rankings that change without any feedback.
_MAX_REPEATED = 100


@dataclass(frozen=True)
class LogSource:
    """A click log, and the size of the sample to draw from it.

    Attributes:
        location: ``ubi`` for the log of User Behavior Insights, or the path of a CSV file
            (:func:`resift_lab.log_replay.traffic.read_searches`).
        url: The address of the cluster, or the file of the embedded engine.
        sessions: The file with the log of User Behavior Insights. None means the embedded engine's file.
        id_field: The field of the index that contains the ids of a CSV file, or an empty string for ``_id``.
        searches: The maximum number of searches with a click in the sample.
        seed: The seed of the sample.
    """

    location: str | Path
    url: str
    sessions: str | None = None
    id_field: str = ""
    searches: int = SEARCHES
    seed: int = 0


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
    """Measure what sessions would change on your own traffic, by replaying a click log.

    Each search of a client who had clicked documents before is repeated twice: in a session with these clicks, and
    without a session. The report compares the ranks of the documents that were clicked. Nothing is written to the
    index.

    Args:
        index: The index that was searched.
        replay: ``ubi`` for the log of User Behavior Insights beside the index, or a CSV file of searches with the
            columns query, shown, clicked, client and time (:func:`resift_lab.log_replay.traffic.read_searches`).
        url: The address of the cluster, or the file of the embedded engine.
        model: A model or its folder. None means the service's model, or the model that the index was attached with.
        body: The search body to replay, with ``%SearchText%`` in place of the query's text. None means the search of
            ``/v1/search``.
        id_field: The field of the index that contains the ids of a CSV file, or an empty string for ``_id``.
        searches: The maximum number of searches with a click to replay. Clients are drawn at random until this number
            is reached.
        seed: The seed of the sample and of the confidence intervals.
        sessions: The file with the log of User Behavior Insights. None means the embedded engine's file.
        progress: A function that is called with the number of finished clients and the total number. By default, tqdm
            shows a progress bar if it is installed.

    Returns:
        The report, which prints as a table.

    Raises:
        BadInput: If the log or the body is invalid, or nothing can be replayed.
        ResiftError: If a search fails.
    """
    require_name(index)
    skipped = SkippedClicks()
    source = LogSource(replay, url, sessions, id_field, searches, seed)
    with closing(open_engine(url)) as engine:
        # Opened before the log is read, because errors should come before a long wait.
        searching = ReplayedSearch(engine, model, index, body)
        sample, log = read_log(engine, index, source)
        with progress_bar("replaying", progress) as report_progress:
            clicks = list(replay_clients(sample.events_by_client, log, searching, skipped, report_progress))
        if not clicks:
            raise nothing_to_replay_error(source, index)
        asked_twice, unstable = searching.count_unstable()
    return Report(
        index=index,
        rows=metrics_by_group(clicks, seed),
        false_alarms=false_alarms(clicks, seed),
        asked_twice=asked_twice,
        unstable=unstable,
        skipped=skipped,
        events=sample.events,
        clients=len(sample.events_by_client),
        share=sample.share,
        robots=sample.robots,
    )


def require_name(index: Any) -> None:
    """Check that ``index`` is the name of an index and not, for example, a :class:`resift.Index`.

    Raises:
        BadInput: If ``index`` is not a string.
    """
    if not isinstance(index, str):
        expected = "the name of the index, and the address of its engine as url"
        raise BadInput(f"index is {index!r}", value=index, expected=expected)


def nothing_to_replay_error(source: LogSource, index: str) -> BadInput:
    """Create the error for a click log that contains nothing to replay.

    A replay learns from a client's click in a search, and measures the rank of a document that the same client clicked
    in a later search. The error is raised if no client has both.

    Args:
        source: The click log. The error message names its file, or its indices and their cluster.
        index: The index whose searches were to be replayed, for the error message.
    """
    place = str(source.location)
    if place == UBI:
        settings = service_settings()
        address = ubi_address(source.url, source.sessions or default_session_store(source.url))
        place = without_credentials(address)
        if is_cluster(address):
            place = f"the indices {settings.ubi_events} and {settings.ubi_queries} of {place}"
    expected = "clients with a click in a search, and another click in a later search"
    return BadInput(f"there is nothing to replay for index {index!r} in {place}", expected=expected)


def read_log(engine: Engine, index: str, source: LogSource) -> tuple[Sample, ReplayLog]:
    """Draw a sample of clients from a click log, and look up the documents that they clicked.

    Args:
        engine: The engine with the index.
        index: The index that was searched.
        source: The click log, and the size of the sample.

    Returns:
        The sample, and the queries, documents and settings that are needed to replay its searches.

    Raises:
        BadInput: If the log is invalid, or none of the clicked objects is a document of the index.
    """
    settings = service_settings()
    actions = parse_action_grades(settings.ubi_actions)
    sample, queries = _draw_sample(source, actions)
    documents = _look_up_documents(engine, index, sample.document_references(queries), source.id_field)
    log = ReplayLog(
        index=index,
        queries=queries,
        documents=documents,
        actions=actions,
        seconds=settings.session_hours * 3600,
    )
    return sample, log


def _look_up_documents(engine: Engine, index: str, objects: set[Object], id_field: str) -> dict[Object, str]:
    """Look up the documents that the events of a click log refer to.

    Args:
        engine: The engine with the index.
        index: The name of the index.
        objects: The references to documents in the events, such as the value of an id field.
        id_field: For a click log in a CSV file, the name of the index field that contains the ids in the file, or ""
            for ``_id``. It is only used in the error message.

    Returns:
        The document id of each reference. References that match no document of the index are left out.

    Raises:
        BadInput: If there are references, but none of them matches a document of the index.
    """
    documents = look_up_document_ids(engine, index, objects)
    if objects and not documents:
        field = id_field or "_id, or by the field that the events name"
        message = f"none of the clicked documents is in {index}, by {field}"
        raise BadInput(message, value=id_field or index, expected="the index and the id field of the clicked documents")
    return documents


def _draw_sample(source: LogSource, actions: Actions) -> tuple[Sample, dict[str, UbiQuery]]:
    """Draw a random sample of clients from a click log.

    Args:
        source: The click log, and the size of the sample.
        actions: The grade that each action, such as a click, gives to a document.

    Returns:
        The sample, and the queries of its events by query id. The queries are empty for a CSV file, whose events
        contain the text of the query.
    """
    if str(source.location) != UBI:
        events = read_searches(source.location, source.id_field)
        return sample_clients(events, actions, source.searches, source.seed), {}
    with ubi_log_at(source.url, source.sessions or default_session_store(source.url)) as log:
        sample = sample_clients(log.scan(), actions, source.searches, source.seed)
        return sample, look_up_queries(log, sample.all_events)


def replay_clients(
    events_by_client: dict[str, list[UbiEvent]],
    log: ReplayLog,
    search: ReplayedSearch,
    skipped: SkippedClicks,
    progress: Progress,
) -> Iterable[Observation]:
    """Replay the searches of several clients, and yield the ranks of the clicked documents with and without a session.

    Args:
        events_by_client: The events of each client, by the id of the client.
        log: The queries and documents of the log, and the settings of the replay.
        search: The search to run, with and without the client's session.
        skipped: Counters of clicks that cannot be replayed, which are incremented in place.
        progress: A function that is called with the number of finished clients and the total number.

    Yields:
        For each click, the rank of the clicked document without a session and in the client's session.
    """
    for done, (client, events) in enumerate(events_by_client.items(), 1):
        yield from replay(client, sorted(events, key=lambda event: event.at), log, search.rank, skipped)
        progress(done, len(events_by_client))


def live_trial(index: str, action: str | float, url: str, store: str) -> TrialReport:
    """Start or stop a live trial of an index, or report its status.

    A live trial interleaves the hits with and without the session for a share of the clients, and counts the clicks on
    either side.

    Args:
        index: The name of the index.
        action: The share of clients for a new trial (0 to 1), ``stop``, or ``status``.
        url: The address of the engine.
        store: The address of the session store.

    Returns:
        The results of the trial so far.

    Raises:
        BadInput: If there is no trial of the index, or a new trial is to be started while another is running.
        ResiftError: If a request to the engine or the store fails.
    """
    settings = service_settings()
    with closing(open_engine(url)) as engine, session_store_at(store) as session_store, ubi_log_at(url, store) as log:
        trials = Trials(session_store)
        if not isinstance(action, str):
            engine.info(index)
            trials.start(index, action)
        trial = trials.find(index)
        if trial is None:
            raise BadInput(f"there is no trial of {index}", value=index, expected="a trial, started by --live 10%")
        if action == "stop" and not trial.verdict:
            trial = trials.change(trial, verdict=STOPPED) or trial
        return evaluate_trial(trial, log, engine, parse_action_grades(settings.ubi_actions), time.time())


class ReplayedSearch:
    """A search of an index that can be run with and without a session, and gives the same hits as Resift's service.

    In a session, the documents that a client judged or clicked before change the ranking.

    Args:
        engine: The engine with the index.
        model: A model or its folder. None means the service's model. For an existing index to which ``resift attach``
            added vectors, None means the model that computed these vectors.
        index: The name of the index.
        body: The search body, with ``%SearchText%`` in place of the query's text. None means the search of
            ``/v1/search``.

    Attributes:
        tuning: Ranking constants, such as the weight of the vectors. None means the constants that are stored in the
            index.
    """

    tuning: Tuning | None = None

    def __init__(self, engine: Engine, model: str | Path | Model | None, index: str, body: Any = None) -> None:
        settings = service_settings()
        self.engine, self.index, self.body, self.clicks = engine, index, body, _FixedClicks()
        encoder = index_model(engine, index, model)
        store = Sessions(open_session_store(":memory:", settings.session_index))
        self.service = SearchService(engine, encoder, store, settings, self.clicks)
        # Rankings without a session, by query text, for at most _MAX_REPEATED queries.
        self.rankings: dict[str, Ranking] = {}
        self.service.infos.get(index)  # raises an error if the index does not exist

    def rank(self, text: str, judged: Sequence[Judgement]) -> tuple[Ranking, Ranking]:
        """Run a query twice: without a session, and in a session with some judgements.

        Args:
            text: The text of the query.
            judged: The relevance judgements of the session.

        Returns:
            The ids of the first ``DEPTH`` hits without the session, and the ids of the first ``DEPTH`` hits in the
            session.
        """
        self.clicks.judged = list(judged)
        bodies = [self._rewritten_body(text, None), self._rewritten_body(text, "a client")]
        without, with_session = self._search_ids(bodies)
        if len(self.rankings) < _MAX_REPEATED:
            self.rankings[text] = without
        return without, with_session

    def count_unstable(self) -> tuple[int, int]:
        """Repeat the searches that were run without a session, and count how many rankings change.

        Even without feedback, a ranking can change if the same search is repeated, for example because different copies
        of a shard score documents differently.

        Returns:
            The number of repeated searches, and the number of searches whose ranking is different.
        """
        again = [self._search_ids([self._rewritten_body(text, None)])[0] for text in self.rankings]
        return len(again), sum(first != second for first, second in zip(self.rankings.values(), again, strict=True))

    def _rewritten_body(self, text: str, client: str | None) -> dict[str, Any]:
        """Return the body of the search that the service would run for a query.

        Args:
            text: The text of the query.
            client: The id of the client in whose session the query is run, or None for no session.
        """
        service = self.service
        info = service.infos.get(self.index)
        info = info if self.tuning is None else replace(info, tuning=self.tuning)
        search = Search(self._body_of(text), DEPTH, index=self.index)
        body = {
            **search_body(search, info, service.model.table.idf),
            **{"from": 0, "size": DEPTH, "_source": False, "track_total_hits": False},
        }
        for name in ("aggs", "aggregations", "suggest", "highlight"):
            body.pop(name, None)
        parsed = parse(body)
        options = structs.replace(rewriting_options(search, parsed), client=client)
        return service.rewriter.rewrite_search(info, parsed, options).body

    def _body_of(self, text: str) -> Any:
        """Return the search body of this object for a query.

        Args:
            text: The text of the query.

        Returns:
            The search body with the text in place of ``%SearchText%``, or the text itself if there is no search body.

        Raises:
            BadInput: If the search body does not contain ``%SearchText%``.
        """
        if self.body is None:
            return text
        template = json.dumps(self.body)
        if TEXT not in template:
            raise BadInput(
                f"the body does not contain {TEXT}", value=self.body, expected=f"{TEXT} in place of the query's text"
            )
        return json.loads(template.replace(TEXT, json.dumps(text)[1:-1]))

    def _search_ids(self, bodies: list[dict[str, Any]]) -> list[Ranking]:
        """Run several searches of the index in one request, and return the ids of their first ``DEPTH`` hits.

        Args:
            bodies: The search bodies.

        Returns:
            A list of document ids for each search, best hit first.
        """
        results = self.engine.search_all(self.index, bodies, None)
        return [[hit["_id"] for hit in islice(result.hits, DEPTH)] for result in results]


class _FixedClicks(Clicks):
    """A replacement for the click log, which returns the same judgements for every client.

    :class:`ReplayedSearch` uses it to run a search with chosen judgements.

    Attributes:
        judged: The judgements to return.
    """

    def __init__(self) -> None:
        self.judged: list[Judgement] = []

    def judgements(self, client: str, index: str, headers: Headers = None) -> list[Judgement]:
        """Return the judgements in the attribute ``judged``, whatever the arguments are."""
        return self.judged
