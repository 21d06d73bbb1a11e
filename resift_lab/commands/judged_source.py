"""Where commands have judgements from: the sessions, or what clients did by UBI's log."""

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
from resift.sessions.clicks import Actions, document_ids, graded_objects, judgements_from, read_actions
from resift.sessions.sessions import Sessions


@dataclass(frozen=True)
class JudgedSource:
    """The sessions in ``store`` beside the documents of ``engine``, and UBI's log beside both."""

    engine: str
    store: str

    def judgements(self, engine: Engine, index: str, from_ubi: bool) -> list[tuple[str, Judgement]]:
        """The judgements of an index's documents, each with the id of its session, or ``from_ubi`` of its client."""
        if from_ubi:
            with ubi_log_at(self.engine, self.store) as log:
                return logged_judgements(log, engine, index, read_actions(service_settings().ubi_actions))
        with session_store_at(self.store) as store:
            return list(Sessions(store).judgements(index))


def sourced(command: Command) -> Command:
    """The options that say where judgements are, joined as the command's ``source``."""

    @wraps(command)  # which also carries the options that the command has already
    def run(**asked: Any) -> None:
        named = {field.name: asked.pop(field.name) for field in fields(JudgedSource)}
        command(source=JudgedSource(**named), **asked)

    return combine_options(engine_option, store_option)(run)


def logged_judgements(log: UbiLog, engine: Engine, index: str, actions: Actions) -> list[tuple[str, Judgement]]:
    """All judgements of an index's documents that follow from a log, each with the client's id, "" if it has none.

    What is of an unknown query or an unknown document is left out. Raises what the engine raises.
    """
    of_client: dict[str, list[UbiEvent]] = defaultdict(list)
    for event in log.scan():
        of_client[event.client or event.session].append(event)
    queries = known_queries(log, (event for events in of_client.values() for event in events))
    graded = {id: graded_objects(events, queries, actions) for id, events in of_client.items()}
    ids = document_ids(engine, index, {name for of_one in graded.values() for _, name, _ in of_one})
    judged = ((id, one) for id, of_one in graded.items() for one in judgements_from(of_one, ids, index))
    return [(id, one) for id, one in judged if one.query]


def known_queries(log: UbiLog, events: Iterable[UbiEvent]) -> dict[str, UbiQuery]:
    """The queries of events by their ids, as far as the log has them."""
    ids, queries = sorted({event.query_id for event in events if event.query_id}), dict[str, UbiQuery]()
    for start in range(0, len(ids), MAX_CLIENT_EVENTS // 2):
        queries |= log.queries(ids[start : start + MAX_CLIENT_EVENTS // 2])
    return queries
