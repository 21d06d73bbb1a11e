"""``resift sessions``: what is kept of people's sessions, counted, purged and forgotten."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from resift.errors import BadInput, SessionNotFound
from resift.plugin.connect import open_session_store
from resift.plugin.session_store import SessionStore


def store_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--store and --session-index: where the sessions are."""
    for option in (
        click.option(
            "--session-index", default="resift_sessions", show_default=True, envvar="RESIFT_SESSION_INDEX",
            help="Their index in OpenSearch.",
        ),
        click.option(
            "--store", default="sessions.db", show_default=True, envvar="RESIFT_STORE", metavar="URL|FILE",
            help="OpenSearch's URL, or an SQLite file.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


@contextmanager
def opened(store: str, session_index: str) -> Iterator[SessionStore]:
    """A store, closed at the end."""
    found = open_session_store(store, session_index)
    try:
        yield found
    finally:
        found.close()


@click.group()
def sessions() -> None:
    """What is kept of sessions: purge what has expired, forget one session or all of an index."""


@sessions.command()
@store_options
def purge(store: str, session_index: str) -> None:
    """Delete expired sessions. The reranker does so too, bit by bit."""
    with opened(store, session_index) as found:
        purged = found.purge(time.time())
        click.echo(f"{purged} expired sessions deleted, {found.count()} kept")


@sessions.command()
@click.argument("session", required=False)
@click.option("--index", help="All sessions with a judgement in this index.")
@store_options
def delete(session: str | None, index: str | None, store: str, session_index: str) -> None:
    """Forget one session, or all of an index."""
    if (session is None) == (index is None):
        raise BadInput("what is to be deleted?", value=session, expected="a session, or --index NAME")
    with opened(store, session_index) as found:
        if session is not None and not found.delete(session):
            raise SessionNotFound(f"no session {session!r}", value=session, expected="a session that is kept")
        click.echo(f"{1 if index is None else found.delete_index(index)} sessions deleted")
