"""The command ``resift keys``, which manages the service's API keys."""

from __future__ import annotations

import click

from resift.cli.options import service_settings
from resift.cli.output import print_table
from resift.reranker.access.keys import KeyFile, check_scopes


@click.group(
    epilog="Example: resift keys create shop --scopes search,feedback\n\n"
    "Without keys the service only answers requests from this machine. Running services notice changes within seconds."
)
def keys() -> None:
    """Manage the API keys of the service, which control who may search, mark, encode and administer.

    The keys are stored in the file RESIFT_KEYS (by default keys.jsonl), which contains only hashes of the keys.
    """


@keys.command(epilog="Example: resift keys create shop --scopes search,feedback")
@click.argument("name")
@click.option(
    "--scopes",
    required=True,
    metavar="SCOPES",
    help="The key's permissions, separated by commas: embed (embeddings, rerank, score), search, feedback (and the "
    "key's own sessions), body (complete search bodies, for backends; in addition to search), review (reviews), "
    "admin (metrics, all sessions).",
)
def create(name: str, scopes: str) -> None:
    """Create an API key and print it. Note it down now, because it cannot be displayed again."""
    checked = check_scopes([scope.strip() for scope in scopes.split(",")])
    path = service_settings().keys
    key = KeyFile(path).create(name, checked)
    click.echo(key)
    click.echo(f"{name} ({','.join(checked)}) is in {path}; the key itself is not stored: note it now", err=True)


@keys.command(epilog="Example: resift keys rotate shop")
@click.argument("name")
def rotate(name: str) -> None:
    """Create a second API key with the name and the scopes of an existing key, and print it.

    The old key stays valid until you run `resift keys delete NAME --old`. Both keys use the same sessions.
    """
    path = service_settings().keys
    click.echo(KeyFile(path).rotate(name))
    click.echo(f"{name} has a new key in {path}; the key itself is not stored: note it now", err=True)
    click.echo(f"when all clients use it: resift keys delete {name} --old", err=True)


@keys.command("list", epilog="Example: resift keys list")
def list_keys() -> None:
    """List all API keys: their names, scopes and creation times, and the beginnings of their hashes."""
    stored_keys = KeyFile(service_settings().keys).read()
    rows = [(key.name, ",".join(key.scopes), key.created, key.hash[:12]) for key in stored_keys]
    print_table(("NAME", "SCOPES", "CREATED", "HASH"), rows)


@keys.command(epilog="Example: resift keys delete shop")
@click.argument("name")
@click.option("--old", is_flag=True, help="Keep the newest key of this name (see resift keys rotate).")
def delete(name: str, old: bool) -> None:
    """Delete the API keys with a name. The sessions that were created with them remain.

    You can still use these sessions with a new key of the same name, or with a key that has the scope admin.
    """
    path = service_settings().keys
    KeyFile(path).delete(name, only_old=old)
    click.echo(f"{f'the old key {name}' if old else name} is deleted from {path}")
