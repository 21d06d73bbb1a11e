"""Where commands have judgements from: the sessions, or what clients did by UBI's log."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import wraps
from typing import Any

from resift.cli.options import (
    Command,
    combined,
    engine_option,
    opened_store,
    opened_ubi_log,
    service_settings,
    store_option,
)
from resift.contracts.engine import Engine
from resift.ranking.clicks import read_actions
from resift.ranking.judgements import Judgement


@dataclass(frozen=True)
class JudgedSource:
    """The sessions in ``store`` beside the documents of ``engine``, and UBI's log beside both."""

    engine: str
    store: str

    def judgements(self, engine: Engine, index: str, from_ubi: bool) -> list[tuple[str, Judgement]]:
        """The judgements of an index's documents, each with the id of its session, or ``from_ubi`` of its client."""
        # with Flask, which takes longer to import than most commands to run
        from resift.sessions.clicks import logged_judgements
        from resift.sessions.sessions import Sessions

        if from_ubi:
            with opened_ubi_log(self.engine, self.store) as log:
                return logged_judgements(log, engine, index, read_actions(service_settings().ubi_actions))
        with opened_store(self.store) as store:
            return list(Sessions(store).judgements(index))


def sourced(command: Command) -> Command:
    """The options that say where judgements are, joined as the command's ``source``."""

    @wraps(command)  # which also carries the options that the command has already
    def run(**asked: Any) -> None:
        named = {field.name: asked.pop(field.name) for field in fields(JudgedSource)}
        command(source=JudgedSource(**named), **asked)

    return combined(engine_option, store_option)(run)
