"""The commands ``resift install``, ``uninstall``, ``guard`` and ``doctor``, and options of all cluster commands."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from resift.cli.failures import INTERRUPTED, PROBLEMS_FOUND
from resift.cli.options import checked_address, json_option, parse_field_names, yes_option
from resift.cli.output import print_report, print_table, require_confirmation
from resift.plugin.cluster.installation import DEFAULT_NAME, DEFAULT_SERVICE_URL, PROVIDERS
from resift.stopping import Stop
from resift.vectors.packaged import DEFAULT_MODEL

if TYPE_CHECKING:
    from resift.plugin.operations.install import InstallPlan
    from resift.plugin.operations.status_row import StatusRow


def _checked_key(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Validate the API key that the user passes with an option (click option callback).

    With the option ``--managed``, the value may also be the ARN of an AWS secret. ARNs are not validated.

    Args:
        context: The click context, which contains the other options.
        parameter: The option.
        value: The API key, or None if the option is not used.

    Returns:
        The unchanged value.

    Raises:
        BadInput: If the key is invalid. The error message does not contain the key.
    """
    from resift.reranker.access.keys import check_key

    is_arn = (value or "").startswith("arn:") and context.params.get("managed")
    return check_key(value, "--key or RESIFT_API_KEY") if value and not is_arn else value


_NATIVE_NOTE = (
    "All nodes have Resift's plugin, so resift attach needs no installation. "
    "This command only adds pipelines that encode documents, and scripts."
)

dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
cluster_option = click.option(
    "--engine",
    "url",
    required=True,
    envvar=["OPENSEARCH_URL", "RESIFT_ENGINE"],
    show_envvar=True,
    metavar="URL",
    callback=checked_address,
    help="OpenSearch: the URLs of one or more nodes, separated by commas.",
)
name_option = click.option(
    "--name",
    show_default=f"the only installation, or {DEFAULT_NAME}",
    help="Name of the installation, which is the prefix of all installed resources.",
)
installed_model_option = click.option(
    "--model",
    envvar="RESIFT_MODEL",
    show_envvar=True,
    metavar="DIR",
    show_default=f"the installed model, or {DEFAULT_MODEL}",
    help="Folder of a saved model, or resift-en, the packaged model.",
)
key_option = click.option(
    "--key",
    envvar="RESIFT_API_KEY",
    show_envvar=True,
    metavar="KEY",
    help="API key of the service. The cluster stores it encrypted.",
    callback=_checked_key,
)


@click.command(epilog="Example: resift install --engine http://127.0.0.1:9200 --dry-run")
@dry_run_option
@click.option("--settings", is_flag=True, help="Change cluster settings without asking.")
@yes_option
@json_option
@click.option(
    "--managed",
    type=click.Choice(PROVIDERS),
    is_eager=True,
    help="Provider that manages the cluster. Its settings are not changed. For aws, --key is the ARN of a secret.",
)
@click.option("--role", metavar="ARN", help="With --managed aws: the role by which the domain reads the secret.")
@cluster_option
@installed_model_option
@click.option(
    "--fields",
    metavar="NAMES",
    show_default="the installed fields, or title,text",
    callback=parse_field_names,
    help="Text fields of the documents, separated by commas.",
)
@click.option(
    "--service",
    show_default=f"the installed URL, or {DEFAULT_SERVICE_URL}",
    metavar="URL",
    help="URL at which the nodes of OpenSearch reach the service (resift serve).",
)
@click.option("--reranker", "old_service", metavar="URL", hidden=True)
@name_option
@key_option
def install(
    url: str, dry_run: bool, settings: bool, yes: bool, as_json: bool, old_service: str | None, **options: Any
) -> None:
    """Connect a cluster to the Resift service.

    The command installs index templates, scripts, remote models and pipelines in the cluster. If a cluster-wide setting
    must change, the command first shows the current value, the new value and the reason, and asks for confirmation. It
    also asks before it replaces the model of an installation, if searches of attached indices use this model.

    You need not run this command before `resift attach`. With Resift's OpenSearch plugin on all nodes, nothing must be
    installed. Without the plugin, `resift attach` installs what is missing. Run this command first if the cluster must
    send an API key, if a provider manages it, or if an ingest pipeline should encode documents.

    The cluster remembers your options: the model, the text fields, the URL of the service, the name of the installation
    and the provider that manages the cluster. If you run the command again, options that you leave out keep their
    previous values.
    """
    from resift.plugin.operations.install import install as plan_install

    options["service"] = options["service"] or old_service  # --reranker is the old name of --service, until 0.3
    plan = plan_install(url, **options)
    if plan.installer.has_native_plugin:
        click.echo(_NATIVE_NOTE, err=True)
    if (plan.unserved or plan.changes_settings) and not dry_run:
        click.echo(str(plan), err=True)
        agreed = yes or (settings and not plan.unserved)
        require_confirmation(agreed, plan.question, "--yes" if plan.unserved else "--settings")
    _carry_out(plan, dry_run, as_json)
    for plugin in plan.installer.missing_plugins:
        click.echo(f"plugin {plugin} is missing, so no pipelines were installed", err=True)


@click.command(epilog="Example: resift uninstall --engine http://127.0.0.1:9200 --dry-run")
@dry_run_option
@yes_option
@cluster_option
@name_option
def uninstall(url: str, name: str | None, dry_run: bool, yes: bool) -> None:
    """Remove everything that `resift install` created in a cluster. Your indices and their documents stay."""
    from resift.plugin.operations.install import uninstall as plan_uninstall

    plan = plan_uninstall(url, name)
    if plan.steps and not dry_run and not yes:
        click.echo(str(plan), err=True)
        require_confirmation(yes, "Carry out these steps?")
    _carry_out(plan, dry_run)


@click.command(epilog="Example: resift guard --engine http://127.0.0.1:9200")
@cluster_option
@name_option
def guard(url: str, name: str | None) -> None:
    """Protect the cluster's searches from a service that hangs.

    A service that does not answer delays each search by a second. This command calls the service once a second. After
    two calls without an answer, or five calls in which the service is overloaded, it disables the remote models in the
    cluster, so that searches no longer wait. When the service has recovered, the command enables the remote models
    again.

    Run this command on a different machine than the service. It runs until you stop it, and then leaves the remote
    models enabled.
    """
    from resift.plugin.operations.install import guard as watch

    stop = Stop()
    with stop.at_signals():
        watch(url, name, lambda step: click.echo(step.text), stop)
    if stop.signal == signal.SIGINT:
        sys.exit(INTERRUPTED)


def _carry_out(plan: InstallPlan, dry_run: bool, as_json: bool = False) -> None:
    """Execute a plan, and print its steps.

    Args:
        plan: The plan to install or uninstall Resift.
        dry_run: Whether to print the steps without executing them.
        as_json: Whether to print JSON instead of text.
    """
    result = plan if dry_run else plan.run()
    print_report({"steps": result.steps, "dry_run": dry_run}, as_json, str(result))


@click.command(epilog="Example: resift doctor --engine http://127.0.0.1:9200")
@json_option
@cluster_option
@installed_model_option
@name_option
@key_option
def doctor(url: str, as_json: bool, **options: Any) -> None:
    """Check an installation, and show each problem with its fix.

    The command calls the cluster and the service, and makes the cluster call the service. It checks versions, clocks,
    permissions, cluster settings and all installed resources. It lists the attached indices, with their search pipeline
    and whether Resift's plugin or ML Commons rewrites their searches. For each index with vectors, it shows how many
    documents have a vector, and which search settings were chosen, by `resift tune` or automatically, and why. (Use
    `resift verify` to check that the vectors match the texts.) It also reports aliases, data streams and templates
    whose searches lost their default pipeline because only some of their indices are attached.

    The exit status is 3 if there is a problem, or if Resift is not installed and no index is attached.
    """
    from resift.plugin.operations.doctor import doctor as examine

    result = examine(url, **options)
    if as_json:
        print_report({"ok": result.in_order, **result.to_dict()}, as_json)
    else:
        rows = list(_merge_similar_rows(result.parts))
        cells = [[row.kind, row.name, row.state] for row in rows]
        print_table(["KIND", "NAME", "STATE"], cells, [f"fix: {row.fix}" if row.fix else "" for row in rows])
        for name, lines in result.tuned.items():
            click.echo(f"index {name}: {'; '.join(lines)}")
    if not result.in_order:
        sys.exit(PROBLEMS_FOUND)


def _merge_similar_rows(rows: Sequence[StatusRow]) -> Iterator[StatusRow]:
    """Merge consecutive rows of the table of ``resift doctor`` that have the same kind, state and fix.

    Yields:
        A row for each group of such rows. If the group has several rows, the name ends with "and N more".
    """
    for _, group in groupby(rows, lambda row: (row.kind, row.state, row.fix)):
        first, *more = group
        name = first.name.removeprefix("plugins.ml_commons.")
        yield replace(first, name=f"{name} and {len(more)} more" if more else name)
