"""The command ``resift role``, which prints the rights that Resift needs in OpenSearch's security plugin."""

from __future__ import annotations

import json
import re

import click

from resift.cli.options import service_settings
from resift.errors import BadInput

ROLES = ("install", "attach", "vectors", "serve")
_INDEX_PATTERN = re.compile(r"[^\s,\"\\/?<>|]+")


def role_definition(name: str, indices: list[str], sessions: str, ubi: list[str]) -> dict[str, object]:
    """Return the permissions that Resift needs, as a JSON object.

    For most roles, this is a role definition of OpenSearch's security plugin: the body of ``PUT
    _plugins/_security/api/roles/NAME``. For the role "aws", the object contains the policies for an Amazon OpenSearch
    Service domain.

    Args:
        name: The name of the role, a member of :data:`ROLES`.
        indices: Name patterns of the indices that Resift may use.
        sessions: The name of the index that stores sessions.
        ubi: The names of the two UBI (User Behavior Insights) indices: events and queries.
    """
    from resift.plugin import read_resource
    from resift.plugin.cluster.templates import fill_placeholders

    template = json.loads(read_resource(f"roles/{name}.json"))
    body: dict[str, object] = fill_placeholders(template, {"indices": indices, "sessions": sessions, "ubi": ubi})
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
    """Print a role for OpenSearch's security plugin with the permissions that Resift needs.

    Choose the role by the commands that will use it. install: `resift install`, `doctor`, `guard` and `uninstall`.
    attach: `resift attach` and `detach`, without permission to write documents. vectors: `resift index`, `attach
    --vectors`, `verify` and `detach`. serve: `resift serve`. aws: policies for a domain of Amazon OpenSearch Service
    (`resift install --managed aws`).

    The output is the body of PUT _plugins/_security/api/roles/NAME. The names of the indices for sessions and UBI come
    from RESIFT_SESSION_INDEX, RESIFT_UBI_EVENTS and RESIFT_UBI_QUERIES, as for `resift serve`.
    """
    settings = service_settings()
    patterns = [pattern.strip() for pattern in indices.split(",")]
    ubi = [settings.ubi_events, settings.ubi_queries]
    for source, values in {"--indices": patterns, "RESIFT_*": [settings.session_index, *ubi]}.items():
        invalid = [value for value in values if not _INDEX_PATTERN.fullmatch(value)]
        if invalid:
            message = f"{source} contains {invalid[0]!r}, which is not the name or pattern of an index"
            raise BadInput(message, value=invalid[0], expected="names or patterns of indices")
    click.echo(json.dumps(role_definition(name, patterns, settings.session_index, ubi), indent=2, ensure_ascii=False))
