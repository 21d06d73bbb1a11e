"""``resift install`` and ``uninstall``: what a cluster needs to search with a reranker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from resift.cli.options import PORT, Command, checked_address, combined, field_names, json_option, opened
from resift.cli.output import print_report
from resift.encoders.registry import load_model
from resift.errors import BadInput
from resift.plugin.addresses import without_credentials
from resift.vectors.packaged import DEFAULT

if TYPE_CHECKING:
    from resift.plugin.cluster.client import Cluster
    from resift.plugin.cluster.install import Installer
    from resift.plugin.documents import ModelDescription
    from resift.plugin.opensearch.engine import OpenSearchEngine

NAME, FIELDS, RERANKER = "resift", ("title", "text"), f"http://127.0.0.1:{PORT}"
INSTALL = "resift install"


def _checked_key(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Option callback: an API key, if one is given. Raises BadInput, which does not quote it."""
    from resift.reranker.access.keys import check_key

    return check_key(value, "--key or RESIFT_API_KEY") if value else None


dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
cluster_option = click.option(
    "--engine",
    "url",
    required=True,
    envvar=["OPENSEARCH_URL", "RESIFT_ENGINE"],
    show_envvar=True,
    metavar="URL",
    callback=checked_address,
    help="OpenSearch: one or more of its nodes, separated by commas.",
)
name_option = click.option(
    "--name",
    show_default=f"the only installed one, else {NAME}",
    help="Prefix of the name of everything installed.",
)
installation_options = combined(
    cluster_option,
    click.option(
        "--model",
        envvar="RESIFT_MODEL",
        show_envvar=True,
        metavar="DIR",
        show_default=f"the installed one, else {DEFAULT}",
        help="The folder of a saved model, or resift-en, the packaged one.",
    ),
    click.option(
        "--fields",
        metavar="NAMES",
        show_default="the installed ones, else title,text",
        callback=field_names,
        help="The documents' text fields, separated by commas.",
    ),
    click.option(
        "--reranker",
        show_default=f"the installed one, else {RERANKER}",
        metavar="URL",
        help="URL at which OpenSearch reaches the reranker (resift serve).",
    ),
    name_option,
    click.option(
        "--key",
        envvar="RESIFT_API_KEY",
        show_envvar=True,
        metavar="KEY",
        help="API key of the reranker; the cluster stores it encrypted.",
        callback=_checked_key,
    ),
)


@contextmanager
def opened_cluster(url: str) -> Iterator[OpenSearchEngine]:
    """The cluster at a URL, closed at the end.

    Raises BadInput for the embedded engine's file, and for a cluster that is not OpenSearch, or too old.
    """
    from resift.plugin.opensearch.engine import OpenSearchEngine

    with opened(url) as engine:
        if not isinstance(engine, OpenSearchEngine):
            shown = without_credentials(url)
            raise BadInput(f"{shown} is not an OpenSearch cluster", value=shown, expected="http(s)://HOST:PORT")
        engine.ping()  # a version that lacks what we need is refused before anything is made
        yield engine


def with_installer(command: Command) -> Command:
    """Give a command the installation's options, and the installer that they describe as its first argument.

    An option that is not given is what the cluster remembers of its installation.
    """
    return installation_options(_given_installer(command))


def with_installed(command: Command) -> Command:
    """Give a command an installation's name as an option, and its installer as the first argument."""
    return combined(cluster_option, name_option)(_given_installer(command))


def _given_installer(command: Command) -> Command:
    @wraps(command)
    def run(
        url: str,
        name: str | None,
        model: str | None = None,
        fields: list[str] | None = None,
        reranker: str | None = None,
        key: str | None = None,
        **rest: Any,
    ) -> None:
        from resift.plugin.cluster.client import Cluster
        from resift.plugin.cluster.install import Installer
        from resift.plugin.cluster.installation import installations

        with opened_cluster(url) as engine:
            found = installations(Cluster(engine))
            chosen = name or _only_name(sorted(found))
            installed = found.get(chosen)
            if installed is None or model is not None:
                described: ModelDescription = load_model(model or DEFAULT)
            else:
                described = installed.model
            encoded = fields or (installed.fields if installed else FIELDS)
            address = reranker or (installed.url if installed else RERANKER)
            command(Installer(engine, described, encoded, address, chosen, key), **rest)

    return run


def install_command(cluster: Cluster, folder: str = "") -> str:
    """What installs a model that no installation of a cluster has; ``folder`` is the option that names its folder.

    Beside other installations it needs a name of its own: without one it would change the only one that there is.
    """
    from resift.plugin.cluster.installation import installations

    return f"{INSTALL}{folder} --reranker URL" + (" --name NAME" if installations(cluster) else "")


def _only_name(names: Sequence[str]) -> str:
    """The name to use where none is given."""
    if len(names) > 1:
        raise BadInput(
            f"there are several installations: {', '.join(names)}",
            value=", ".join(names),
            expected="one of them: --name",
        )
    return names[0] if names else NAME


def _print_steps(steps: Sequence[str], dry_run: bool, as_json: bool) -> None:
    lines = [f"would {step}" if dry_run else step for step in steps]
    print_report({"steps": list(steps), "dry_run": dry_run}, as_json, *(lines or ["nothing to do"]))


@click.command(epilog="Example: resift install --engine http://127.0.0.1:9200 --dry-run")
@dry_run_option
@json_option
@with_installer
def install(installer: Installer, dry_run: bool, as_json: bool) -> None:
    """Install templates, scripts, remote models and pipelines in a cluster.

    The cluster remembers the model, the fields, the reranker's address and the name: what is not given again stays.
    """
    _print_steps(installer.install(dry_run), dry_run, as_json)
    for plugin in installer.missing_plugins:
        click.echo(f"plugin {plugin} is missing: pipelines were left out", err=True)


@click.command(epilog="Example: resift uninstall --engine http://127.0.0.1:9200 --dry-run")
@dry_run_option
@json_option
@with_installed
def uninstall(installer: Installer, dry_run: bool, as_json: bool) -> None:
    """Remove exactly what install made. Indices and their documents stay."""
    _print_steps(installer.uninstall(dry_run), dry_run, as_json)
