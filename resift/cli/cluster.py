"""``resift install``, ``uninstall`` and ``status``: what a cluster needs to search with a reranker."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from resift.cli.options import PORT, Command, combined, fields_option, model_option, opened
from resift.encoders.registry import load_model
from resift.errors import BadInput

if TYPE_CHECKING:
    from resift.plugin.cluster.install import Installer


def _checked_key(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Option callback: an API key, if one is given. Raises BadInput, which does not quote it."""
    from resift.reranker.access.keys import check_key

    return check_key(value, "--key or RESIFT_API_KEY") if value else None


dry_run_option = click.option("--dry-run", is_flag=True, help="Only say what would change.")
installation_options = combined(
    click.option(
        "--engine",
        "url",
        required=True,
        envvar=["OPENSEARCH_URL", "RESIFT_ENGINE"],
        show_envvar=True,
        metavar="URL",
        help="OpenSearch.",
    ),
    model_option,
    fields_option,
    click.option(
        "--reranker",
        default=f"http://127.0.0.1:{PORT}",
        show_default=True,
        metavar="URL",
        help="Where OpenSearch reaches the reranker (resift serve).",
    ),
    click.option("--name", default="resift", show_default=True, help="Prefix of the name of everything installed."),
    click.option(
        "--key",
        envvar="RESIFT_API_KEY",
        show_envvar=True,
        metavar="KEY",
        help="API key that the reranker wants; the cluster keeps it encrypted.",
        callback=_checked_key,
    ),
)


def with_installer(command: Command) -> Command:
    """Give a command the installation's options, and the installer that they describe as its first argument."""

    @installation_options
    @wraps(command)
    def run(url: str, model: str, fields: list[str], reranker: str, name: str, key: str | None, **rest: Any) -> None:
        from resift.plugin.cluster.install import Installer
        from resift.plugin.opensearch.engine import OpenSearchEngine

        with opened(url) as engine:
            if not isinstance(engine, OpenSearchEngine):
                raise BadInput(f"{url} is not an OpenSearch cluster", value=url, expected="http(s)://HOST:PORT")
            command(Installer(engine, load_model(model), fields, reranker, name, key), **rest)

    return run


def _print_steps(steps: Sequence[str], dry_run: bool) -> None:
    for step in steps:
        click.echo(f"would {step}" if dry_run else step)
    if not steps:
        click.echo("nothing to do")


@click.command(epilog="Example: resift install --engine http://127.0.0.1:9200 --dry-run")
@dry_run_option
@with_installer
def install(installer: Installer, dry_run: bool) -> None:
    """Put templates, scripts, remote models and pipelines into a cluster."""
    _print_steps(installer.install(dry_run), dry_run)
    for plugin in installer.missing_plugins:
        click.echo(f"plugin {plugin} is missing: pipelines were left out", err=True)


@click.command(epilog="Example: resift uninstall --engine http://127.0.0.1:9200 --dry-run")
@dry_run_option
@with_installer
def uninstall(installer: Installer, dry_run: bool) -> None:
    """Remove exactly what install made. Indices and their documents stay."""
    _print_steps(installer.uninstall(dry_run), dry_run)


@click.command(epilog="Example: resift status --engine http://127.0.0.1:9200")
@with_installer
def status(installer: Installer) -> None:
    """Print what a cluster has, lacks, or has of another version or model, and how to fix it.

    The exit status is 3 unless everything is in order.
    """
    rows = [(row.kind, row.name, row.state, row.fix) for row in installer.status()]
    widths = [max(len(row[i]) for row in [*rows, ("kind", "name", "state", "")]) for i in range(3)]
    for row in [("KIND", "NAME", "STATE", "FIX"), *rows]:
        click.echo("  ".join(value.ljust(width) for value, width in zip(row, [*widths, 0], strict=True)).rstrip())
    if any(row[2] != "ok" for row in rows):
        sys.exit(3)
