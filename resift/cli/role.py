"""``resift role``: the rights that a cluster's user needs for what Resift does there."""

from __future__ import annotations

import json
import re

import click

from resift.cli.options import service_settings
from resift.errors import BadInput

ROLES = ("install", "attach", "vectors", "serve")
_PATTERN = re.compile(r"[^\s,\"\\/?<>|]+")


def role(name: str, indices: list[str], sessions: str, ubi: list[str]) -> dict[str, object]:
    """The body of ``PUT _plugins/_security/api/roles/NAME`` for what ``resift NAME`` does, and no more.

    ``indices``: patterns of the indices that are searched and attached; ``sessions``: the index of the sessions;
    ``ubi``: the indices of UBI's events and queries.
    """
    from resift.plugin import read_resource
    from resift.plugin.cluster.templates import fill

    template = json.loads(read_resource(f"roles/{name}.json"))
    body: dict[str, object] = fill(template, {"indices": indices, "sessions": sessions, "ubi": ubi})
    return body


@click.command("role", epilog="Example: resift role serve --indices 'news,products-*'")
@click.argument("name", type=click.Choice([*ROLES, "aws"]))
@click.option(
    "--indices",
    default="*",
    show_default=True,
    metavar="PATTERNS",
    help="The indices that are searched or attached, separated by commas.",
)
def role_command(name: str, indices: str) -> None:
    """Print a role for OpenSearch's security plugin that allows what Resift needs, and nothing else; aws: the policies
    for a domain of Amazon's (resift install --managed aws).

    install: resift install, doctor, guard and uninstall. attach: resift attach and detach, without a right to write to
    indices. vectors: resift index, attach --vectors, verify and detach. serve: resift serve. It is the body of PUT
    _plugins/_security/api/roles/NAME. The indices of sessions and of UBI are those that RESIFT_SESSION_INDEX,
    RESIFT_UBI_EVENTS and RESIFT_UBI_QUERIES name, as for the service.
    """
    settings = service_settings()
    patterns = [pattern.strip() for pattern in indices.split(",")]
    ubi = [settings.ubi_events, settings.ubi_queries]
    for named, values in {"--indices": patterns, "RESIFT_*": [settings.session_index, *ubi]}.items():
        wrong = [value for value in values if not _PATTERN.fullmatch(value)]
        if wrong:
            raise BadInput(f"{named} has {wrong[0]!r}", value=wrong[0], expected="names or patterns of indices")
    click.echo(json.dumps(role(name, patterns, settings.session_index, ubi), indent=2, ensure_ascii=False))
