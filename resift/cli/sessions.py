"""``resift sessions``: stored sessions, listed, purged and deleted; what is kept of a person, shown and forgotten."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from datetime import datetime

import click

from resift.cli.options import STORE_HINT, combine_options, engine_option, session_store_at, store_option, ubi_log_at
from resift.cli.output import print_table, require_confirmation
from resift.errors import BadInput, SessionNotFound
from resift.sessions.sessions import Sessions, is_id


@click.group(epilog="Example: resift sessions list")
def sessions() -> None:
    """Stored sessions: list them, delete expired ones, one of them, or all of an index; export or forget a person."""


@sessions.command("list", epilog="Example: resift sessions list --store http://127.0.0.1:9200")
@store_option
def list_command(store: str) -> None:
    """List the sessions that have not expired, the one used last first.

    JUDGEMENTS counts the documents whose judgement is in force.
    """
    with session_store_at(store) as kept:
        found = sorted(Sessions(kept).all(), key=lambda session: session.expires, reverse=True)
    if not found:
        click.echo(f"no sessions in {store} {STORE_HINT}")
        return
    rows = [
        [
            one.id,
            str(len(one.effective_judgements)),
            ",".join(sorted({judgement.index for judgement in one.judgements})),
            datetime.fromtimestamp(one.expires).astimezone().isoformat(" ", "seconds"),
        ]
        for one in found
    ]
    print_table(["SESSION", "JUDGEMENTS", "INDICES", "EXPIRES"], rows)


@sessions.command(epilog="Example: resift sessions purge")
@store_option
def purge(store: str) -> None:
    """Delete expired sessions. The reranker does so too, a few at a time."""
    with session_store_at(store) as found:
        click.echo(f"{found.purge(time.time())} expired sessions deleted")


@sessions.command(epilog="Example: resift sessions delete anna")
@click.argument("session", required=False)
@click.option("--index", help="Delete all sessions with a judgement in this index.")
@store_option
def delete(session: str | None, index: str | None, store: str) -> None:
    """Delete one session, or all sessions of an index."""
    if (session is None) == (index is None):
        raise BadInput("name a session, or an index with --index", value=session, expected="one of the two")
    with session_store_at(store) as found:
        if session is not None and not found.delete(session):
            expected = f"a session of {store} {STORE_HINT}"
            raise SessionNotFound(f"no session {session!r}", value=session, expected=expected)
        deleted = 1 if index is None else found.delete_index(index)
    click.echo(f"{deleted} sessions deleted")


of_client = combine_options(
    click.option(
        "--client", required=True, metavar="ID", help="A session's id; in UBI's log a client's, visit's or user's."
    ),
    engine_option,
    store_option,
)


@sessions.command(epilog="Example: resift sessions export --client anna > anna.json")
@of_client
def export(client: str, engine: str, store: str) -> None:
    """Print all that is kept of a person, as JSON: the session, and what UBI's log has of the same id."""
    with session_store_at(store) as kept, ubi_log_at(engine, store) as log:
        session = Sessions(kept).peek(client) if is_id(client) else None
        logged = log.client_documents(client)
    found = {"client": client, "session": asdict(session) if session else None, **logged}
    click.echo(json.dumps(found, ensure_ascii=False, indent=2))


@sessions.command("forget", epilog="Example: resift sessions forget --client anna")
@of_client
@click.option("--yes", is_flag=True, help="Do not ask.")
def forget(client: str, engine: str, store: str, yes: bool) -> None:
    """Delete all that is kept of a person: the session, and what UBI's log has of the same id.

    Backups, snapshots and what was exported keep it.
    """
    with session_store_at(store) as kept, ubi_log_at(engine, store) as log:
        sessions = int(is_id(client) and kept.read(client) is not None)
        logged = sum(map(len, log.client_documents(client).values()))
        require_confirmation(yes, f"Delete {sessions} sessions and {logged} events and queries of {client}?")
        sessions = int(bool(sessions) and kept.delete(client))
        click.echo(f"{sessions} sessions, {log.delete_client(client)} events and queries deleted")
