"""``resift keys``: API keys of the service, made, listed and deleted."""

from __future__ import annotations

import click

from resift.cli.options import service_settings
from resift.cli.output import print_table
from resift.reranker.access.keys import KeyFile, check_scopes


@click.group(
    epilog="Example: resift keys create shop --scopes search,feedback\n\n"
    "Without any key the service answers this machine only. Running services notice changes within seconds."
)
def keys() -> None:
    """API keys of the service: who may search, mark, encode and administer.

    They stand in the service's file of keys, RESIFT_KEYS or keys.jsonl, which holds only their hashes.
    """


@keys.command(epilog="Example: resift keys create shop --scopes search,feedback")
@click.argument("name")
@click.option(
    "--scopes",
    required=True,
    metavar="SCOPES",
    help="What the key allows, separated by commas: embed (embeddings, rerank, score), search, feedback (and the "
    "sessions that it began), body (with search: whole bodies, for backends), review (reviews), "
    "admin (metrics, everybody's sessions).",
)
def create(name: str, scopes: str) -> None:
    """Create a key and print it. It cannot be shown again."""
    checked = check_scopes([scope.strip() for scope in scopes.split(",")])
    path = service_settings().keys
    key = KeyFile(path).create(name, checked)
    click.echo(key)
    click.echo(f"{name} ({','.join(checked)}) is in {path}; the key is not kept: note it now", err=True)


@keys.command("list", epilog="Example: resift keys list")
def list_keys() -> None:
    """List the keys: their names, scopes, when they were made, and the beginnings of their hashes."""
    found = KeyFile(service_settings().keys).read()
    rows = [(key.name, ",".join(key.scopes), key.created, key.hash[:12]) for key in found]
    print_table(("NAME", "SCOPES", "CREATED", "HASH"), rows)


@keys.command(epilog="Example: resift keys delete shop")
@click.argument("name")
def delete(name: str) -> None:
    """Delete a key. Its sessions stay, for a new key of the same name or one with the scope admin."""
    path = service_settings().keys
    KeyFile(path).delete(name)
    click.echo(f"{name} is deleted from {path}")
