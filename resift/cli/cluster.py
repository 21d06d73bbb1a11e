"""``resift install``, ``uninstall`` and ``status``: what a cluster is told."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from resift.encoders.registry import load_model
from resift.errors import BadInput

if TYPE_CHECKING:
    from resift.plugin.cluster.install import Installer
from resift.cli.options import Command, fields_option, model_option, opened


def install_options(command: Command) -> Command:
    """What names an installation."""
    for option in (
        click.option("--name", default="resift", show_default=True, help="Prefix of everything that is made."),
        click.option(
            "--reranker",
            default="http://127.0.0.1:8080",
            show_default=True,
            help="Where OpenSearch reaches it.",
        ),
        fields_option,
        model_option,
        click.option(
            "--engine",
            "url",
            required=True,
            envvar=["OPENSEARCH_URL", "RESIFT_ENGINE"],
            metavar="URL",
            help="OpenSearch.",
        ),
    ):
        command = option(command)
    return command


@contextmanager
def _installer(url: str, model: str, fields: list[str], reranker: str, name: str) -> Iterator[Installer]:
    from resift.plugin.cluster.install import Installer
    from resift.plugin.opensearch.engine import OpenSearchEngine

    with opened(url) as engine:
        if not isinstance(engine, OpenSearchEngine):
            raise BadInput(f"{url} is not an OpenSearch cluster", value=url, expected="http(s)://HOST:PORT")
        yield Installer(engine, load_model(model), fields, reranker, name)


@click.command()
@click.option("--dry-run", is_flag=True, help="Only tell what would change.")
@install_options
def install(dry_run: bool, url: str, model: str, fields: list[str], reranker: str, name: str) -> None:
    """Put templates, scripts, remote models and pipelines into a cluster."""
    with _installer(url, model, fields, reranker, name) as installer:
        for step in installer.install(dry_run) or ["nothing to do"]:
            click.echo(f"would {step}" if dry_run and step != "nothing to do" else step)
        for plugin in installer.missing_plugins:
            click.echo(f"plugin {plugin} is missing: pipelines were left out", err=True)


@click.command()
@click.option("--dry-run", is_flag=True, help="Only tell what would change.")
@install_options
def uninstall(dry_run: bool, url: str, model: str, fields: list[str], reranker: str, name: str) -> None:
    """Remove exactly what install made. Indices and their documents stay."""
    with _installer(url, model, fields, reranker, name) as installer:
        for step in installer.uninstall(dry_run) or ["nothing to do"]:
            click.echo(f"would {step}" if dry_run and step != "nothing to do" else step)


@click.command()
@install_options
def status(url: str, model: str, fields: list[str], reranker: str, name: str) -> None:
    """One table of what a cluster has, lacks or has of another version or model, and how to mend it."""
    with _installer(url, model, fields, reranker, name) as installer:
        rows = [(row.kind, row.name, row.state, row.mend) for row in installer.status()]
    widths = [max(len(row[i]) for row in [*rows, ("kind", "name", "state", "")]) for i in range(3)]
    for row in [("KIND", "NAME", "STATE", "MEND"), *rows]:
        click.echo("  ".join(value.ljust(width) for value, width in zip(row, [*widths, 0], strict=True)).rstrip())
    if any(row[2] != "ok" for row in rows):
        sys.exit(3)
