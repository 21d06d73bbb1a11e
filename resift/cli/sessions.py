"""The command ``resift sessions``, which manages stored sessions and the data of a person."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from datetime import datetime

import click

from resift.cli.failures import PROBLEMS_FOUND
from resift.cli.options import (
    STORE_HINT,
    combine_options,
    engine_option,
    session_store_at,
    store_location,
    store_option,
    ubi_log_at,
    yes_option,
)
from resift.cli.output import print_table, require_confirmation
from resift.contracts.search_options import is_session_id
from resift.contracts.session_store import SessionStore
from resift.errors import BadInput, SessionNotFound
from resift.service.connect import ubi_address
from resift.sessions.sessions import Sessions


@click.group(epilog="Example: resift sessions list")
def sessions() -> None:
    """List, export and delete stored sessions, and all data about a person."""


@sessions.command("list", epilog="Example: resift sessions list --store http://127.0.0.1:9200")
@store_option
def list_command(store: str) -> None:
    """List the stored sessions that have not expired, most recently used first.

    The column JUDGEMENTS contains the number of judged documents. Judgements that were withdrawn are not counted.
    """
    with session_store_at(store) as session_store:
        unexpired = sorted(Sessions(session_store).all_of_caller(), key=lambda session: session.expires, reverse=True)
    if not unexpired:
        click.echo(f"no sessions in {store_location(store)} {STORE_HINT}")
        return
    click.echo(f"sessions in {store_location(store)}", err=True)
    rows = [
        [
            session.id,
            str(len(session.effective_judgements)),
            ",".join(sorted({judgement.index for judgement in session.judgements})),
            datetime.fromtimestamp(session.expires).astimezone().isoformat(" ", "seconds"),
        ]
        for session in unexpired
    ]
    print_table(["SESSION", "JUDGEMENTS", "INDICES", "EXPIRES"], rows)


@sessions.command(epilog="Example: resift sessions purge")
@store_option
def purge(store: str) -> None:
    """Delete all expired sessions now. The service also deletes expired sessions, a few at a time."""
    with session_store_at(store) as session_store:
        purged = session_store.purge(time.time())
        click.echo(f"{purged} expired sessions deleted from {store_location(store)}")
        _erase(session_store, store)


@sessions.command(epilog="Example: resift sessions delete anna")
@click.argument("session", required=False)
@click.option("--index", help="Delete all sessions with a judgement in this index.")
@store_option
def delete(session: str | None, index: str | None, store: str) -> None:
    """Delete a session, or all sessions that contain a judgement in an index.

    Pass either SESSION or --index.
    """
    if (session is None) == (index is None):
        raise BadInput("a session or --index is required, but not both", value=session, expected="SESSION or --index")
    with session_store_at(store) as session_store:
        if session is not None and not session_store.delete(session):
            expected = f"a session of {store_location(store)} {STORE_HINT}"
            raise SessionNotFound(f"no session {session!r}", value=session, expected=expected)
        deleted = 1 if index is None else session_store.delete_index(index)
        click.echo(f"{deleted} sessions deleted from {store_location(store)}")
        if deleted:
            _erase(session_store, store)


client_options = combine_options(
    click.option(
        "--client",
        required=True,
        metavar="ID",
        help="The id of the person: a session id, or a client, session or user id in the UBI log.",
    ),
    engine_option,
    store_option,
)


@sessions.command(epilog="Example: resift sessions export --client anna > anna.json")
@client_options
def export(client: str, engine: str, store: str) -> None:
    """Print all stored data about a person as JSON.

    The output contains the session whose id you pass with --client, and all queries and events in the UBI log with this
    id.
    """
    with session_store_at(store) as session_store, ubi_log_at(engine, store) as log:
        session = Sessions(session_store).peek(client) if is_session_id(client) else None
        documents = log.client_documents(client)
    is_empty = session is None and not any(documents.values())
    click.echo(f"{'nothing about' if is_empty else 'data of'} {client} in {_describe_storage(engine, store)}", err=True)
    data = {"client": client, "session": asdict(session) if session else None, **documents}
    click.echo(json.dumps(data, ensure_ascii=False, indent=2))


@sessions.command("forget", epilog="Example: resift sessions forget --client anna")
@client_options
@yes_option
def forget(client: str, engine: str, store: str, yes: bool) -> None:
    """Delete all stored data about a person. The command asks for confirmation first.

    It deletes the session whose id you pass with --client, and all queries and events in the UBI log with this id. It
    does not delete backups, snapshots or exported data.

    A file of sessions is written anew, so that no file contains the deleted data. The service can stay running. The
    exit status is 3 if nothing is stored about the person, or if another process prevented that the file was written
    anew.
    """
    location = _describe_storage(engine, store)
    with session_store_at(store) as session_store, ubi_log_at(engine, store) as log:
        sessions = int(is_session_id(client) and session_store.read(client) is not None)
        logged = sum(map(len, log.client_documents(client).values()))
        if not sessions and not logged:
            click.echo(f"0 sessions, 0 events and queries deleted: nothing about {client} in {location} {STORE_HINT}")
            sys.exit(PROBLEMS_FOUND)
        question = f"Delete {sessions} sessions and {logged} events and queries of {client} from {location}?"
        require_confirmation(yes, question)
        sessions = int(bool(sessions) and session_store.delete(client))
        click.echo(f"{sessions} sessions, {log.delete_client(client)} events and queries deleted from {location}")
        _erase(session_store, store)


def _describe_storage(engine: str, store: str) -> str:
    """Return the addresses of the session store and of the UBI log as text.

    Args:
        engine: The address of the search engine.
        store: The address of the session store.
    """
    addresses = dict.fromkeys((store, ubi_address(engine, store)))
    return " and ".join(map(store_location, addresses))


def _erase(session_store: SessionStore, store: str) -> None:
    """Remove deleted data that is still in the files of a session store.

    If this is impossible, the function prints a message, and ends the command with status 3.

    Args:
        session_store: The open session store.
        store: The address of the session store.
    """
    if not session_store.erase_deleted():
        click.echo(
            f"the deleted data can still be read in the files of {store_location(store)}, because another process "
            "uses them for long, or the disk is full. Run resift sessions purge later to erase the data.",
            err=True,
        )
        sys.exit(PROBLEMS_FOUND)
