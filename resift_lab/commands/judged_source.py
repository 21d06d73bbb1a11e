"""Sources of judgements for commands: sessions, or the log of User Behavior Insights (UBI)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any

from resift.cli.options import (
    Command,
    combine_options,
    engine_option,
    service_settings,
    session_store_at,
    store_option,
    ubi_log_at,
)
from resift.contracts.engine import Engine
from resift.contracts.ubi import MAX_CLIENT_EVENTS, UbiEvent, UbiLog, UbiQuery
from resift.feedback.judgements import Judgement
from resift.sessions.clicks import (
    Actions,
    grade_clicked_objects,
    judgements_from_grades,
    look_up_document_ids,
    parse_action_grades,
)
from resift.sessions.sessions import Sessions


@dataclass(frozen=True)
class JudgedSource:
    """The addresses of the engine and of the session store, from which relevance judgements can be read.

    Judgements come either from the sessions in the store, or from a click log of User Behavior Insights (UBI), which
    only a cluster has.

    Attributes:
        engine: The address of the engine with the documents: the URL of a cluster, or the SQLite file of the embedded
            engine, which runs without a server.
        store: The address of the store with the sessions.
    """

    engine: str
    store: str

    def judgements(self, engine: Engine, index: str, from_ubi: bool) -> list[tuple[str, Judgement]]:
        """Return all relevance judgements of documents in an index.

        Args:
            engine: The engine with the index.
            index: The name of the index.
            from_ubi: True to derive judgements from the clicks in the log of User Behavior Insights (UBI), False to
                read the judgements of sessions.

        Returns:
            A pair for each judgement: the id of the session (or of the client in the UBI log), and the judgement.
        """
        if from_ubi:
            with ubi_log_at(self.engine, self.store) as log:
                return logged_judgements(log, engine, index, parse_action_grades(service_settings().ubi_actions))
        with session_store_at(self.store) as store:
            return list(Sessions(store).judgements(index))


def judged_source_options(command: Command) -> Command:
    """Add the options ``--engine`` and ``--store`` to a command that reads relevance judgements.

    The options name the address of the search engine and of the session store. The command receives both as a
    :class:`JudgedSource`, in the argument ``source``.

    Args:
        command: The function to decorate.
    """

    @wraps(command)  # copies the options that the command already has
    def run(**options: Any) -> None:
        source_options = {field.name: options.pop(field.name) for field in fields(JudgedSource)}
        command(source=JudgedSource(**source_options), **options)

    return combine_options(engine_option, store_option)(run)


def logged_judgements(log: UbiLog, engine: Engine, index: str, actions: Actions) -> list[tuple[str, Judgement]]:
    """Derive judgements of an index's documents from a UBI log.

    Events with an unknown query or an unknown document are ignored.

    Args:
        log: The UBI log.
        engine: The engine with the index.
        index: The name of the index.
        actions: The grade that each action, such as a click, gives to a document.

    Returns:
        Pairs of a client's id and a judgement of this client. The id is empty for events without a client.

    Raises:
        ResiftError: If a search for documents fails.
    """
    of_client: dict[str, list[UbiEvent]] = defaultdict(list)
    for event in log.scan():
        of_client[event.client or event.session].append(event)
    queries = look_up_queries(log, (event for events in of_client.values() for event in events))
    graded = {id: grade_clicked_objects(events, queries, actions) for id, events in of_client.items()}
    objects = {name for client_objects in graded.values() for _, name, _ in client_objects}
    ids = look_up_document_ids(engine, index, objects)
    judgements: list[tuple[str, Judgement]] = []
    for client, client_objects in graded.items():
        of_documents = judgements_from_grades(client_objects, ids, index)
        judgements += [(client, judgement) for judgement in of_documents if judgement.query]
    return judgements


def look_up_queries(log: UbiLog, events: Iterable[UbiEvent]) -> dict[str, UbiQuery]:
    """Look up the queries that events of a UBI log belong to.

    Args:
        log: The UBI log.
        events: The events. Events without a query id are ignored.

    Returns:
        The queries by query id. Ids that are not in the log are left out.
    """
    ids = sorted({event.query_id for event in events if event.query_id})
    queries: dict[str, UbiQuery] = {}
    for start in range(0, len(ids), MAX_CLIENT_EVENTS // 2):
        queries |= log.queries(ids[start : start + MAX_CLIENT_EVENTS // 2])
    return queries
