"""``resift sessions``: stored sessions, counted, purged and deleted."""

from __future__ import annotations

import time

import click

from resift.cli.options import opened_store, store_options
from resift.errors import BadInput, SessionNotFound


@click.group(epilog="Example: resift sessions delete --index news")
def sessions() -> None:
    """Stored sessions: purge those that have expired, delete one of them or all of an index."""


@sessions.command()
@store_options
def purge(store: str, session_index: str) -> None:
    """Delete expired sessions. The reranker does so too, a few at a time."""
    with opened_store(store, session_index) as found:
        purged = found.purge(time.time())
        click.echo(f"{purged} expired sessions deleted, {found.count()} kept")


@sessions.command()
@click.argument("session", required=False)
@click.option("--index", help="Delete all sessions with a judgement in this index.")
@store_options
def delete(session: str | None, index: str | None, store: str, session_index: str) -> None:
    """Delete one session, or all sessions of an index."""
    if (session is None) == (index is None):
        raise BadInput("name a session, or an index with --index", value=session, expected="one of the two")
    with opened_store(store, session_index) as found:
        if session is not None and not found.delete(session):
            raise SessionNotFound(f"no session {session!r}", value=session, expected="a session that is stored")
        click.echo(f"{1 if index is None else found.delete_index(index)} sessions deleted")
