"""Commands about a cluster: those that change it, ``resift doctor``, and ``resift role``, the rights that it takes."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from resift.cli.failures import INTERRUPTED, PROBLEMS_FOUND
from resift.cli.options import checked_address, json_option, parse_field_names, service_settings
from resift.cli.output import execute_plan, print_report, print_table, require_confirmation
from resift.cli.paths import NewFolder
from resift.errors import BadInput
from resift.ingest.stopping import Stop
from resift.plugin.cluster.installation import NAME, PROVIDERS, SERVICE_URL
from resift.vectors.packaged import DEFAULT_MODEL

if TYPE_CHECKING:
    from resift.plugin.operations.install import InstallPlan
    from resift.plugin.operations.status_row import StatusRow

ROLES = ("install", "attach", "vectors", "serve")
_PATTERN = re.compile(r"[^\s,\"\\/?<>|]+")


def _checked_key(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Option callback: an API key, if one is given. Raises BadInput, which does not quote it."""
    from resift.reranker.access.keys import check_key

    is_arn = (value or "").startswith("arn:") and context.params.get("managed")
    return check_key(value, "--key or RESIFT_API_KEY") if value and not is_arn else value


dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
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
    "--name", show_default=f"the only installed one, else {NAME}", help="Prefix of the name of everything installed."
)
installed_model_option = click.option(
    "--model",
    envvar="RESIFT_MODEL",
    show_envvar=True,
    metavar="DIR",
    show_default=f"the installed one, else {DEFAULT_MODEL}",
    help="The folder of a saved model, or resift-en, the packaged one.",
)
key_option = click.option(
    "--key",
    envvar="RESIFT_API_KEY",
    show_envvar=True,
    metavar="KEY",
    help="API key of the reranker; the cluster stores it encrypted.",
    callback=_checked_key,
)


@click.command(epilog="Example: resift install --engine http://127.0.0.1:9200 --dry-run")
@dry_run_option
@click.option("--settings", "--yes", is_flag=True, help="Change settings of the cluster without asking.")
@json_option
@click.option(
    "--managed",
    type=click.Choice(PROVIDERS),
    is_eager=True,
    help="Who manages the cluster: its settings are left alone. On aws, --key is the ARN of a secret.",
)
@click.option("--role", metavar="ARN", help="With --managed aws: the role by which the domain reads that secret.")
@cluster_option
@installed_model_option
@click.option(
    "--fields",
    metavar="NAMES",
    show_default="the installed ones, else title,text",
    callback=parse_field_names,
    help="The documents' text fields, separated by commas.",
)
@click.option(
    "--service",
    show_default=f"the installed one, else {SERVICE_URL}",
    metavar="URL",
    help="URL at which OpenSearch reaches the service (resift serve).",
)
@name_option
@key_option
def install(url: str, dry_run: bool, settings: bool, as_json: bool, **options: Any) -> None:
    """Install templates, scripts, remote models and pipelines in a cluster.

    Where settings of the whole cluster have to change, it first shows each with its value now and then and the reason,
    and asks. The cluster remembers the model, the fields, the reranker's address, the name and who manages it: what is
    not given again stays.
    """
    from resift.plugin.operations.install import install as plan_install

    plan = plan_install(url, **options)
    if plan.changes_settings and not dry_run:
        click.echo(str(plan), err=True)
        require_confirmation(settings, plan.question, "--settings")
    _carry_out(plan, dry_run, as_json)
    for plugin in plan.installer.missing_plugins:
        click.echo(f"plugin {plugin} is missing: pipelines were left out", err=True)


@click.command(epilog="Example: resift uninstall --engine http://127.0.0.1:9200 --dry-run")
@dry_run_option
@cluster_option
@name_option
def uninstall(url: str, name: str | None, dry_run: bool) -> None:
    """Remove exactly what install made. Indices and their documents stay."""
    from resift.plugin.operations.install import uninstall as plan_uninstall

    _carry_out(plan_uninstall(url, name), dry_run)


@click.command(epilog="Example: resift guard --engine http://127.0.0.1:9200")
@cluster_option
@name_option
def guard(url: str, name: str | None) -> None:
    """Watch the reranker, and stop the cluster from calling it while it does not answer.

    A reranker that hangs costs each search a second. This asks it each second, and after two answers that did not come
    switches the cluster's remote models off, until it answers again. Run it on another machine than the reranker, until
    a signal ends it; it then switches them on.
    """
    from resift.plugin.operations.install import guard as watch

    stop = Stop()
    with stop.at_signals():
        watch(url, name, lambda step: click.echo(step.text), stop)
    if stop.signal == signal.SIGINT:
        sys.exit(INTERRUPTED)


def _carry_out(plan: InstallPlan, dry_run: bool, as_json: bool = False) -> None:
    """Do at once what is planned, unless it is a ``dry_run``; print what was or would be done."""
    done = plan if dry_run else plan.run()
    print_report({"steps": done.steps, "dry_run": dry_run}, as_json, str(done))


@click.command(epilog="Example: resift attach products --dry-run")
@click.argument("index")
@click.option("--pipeline", metavar="NAME", show_default="the index's own", help="The search pipeline to add to.")
@click.option("--vectors", is_flag=True, help="Add vectors of ours to the documents. All options below are for these.")
@click.option(
    "--fields",
    metavar="NAMES",
    callback=parse_field_names,
    show_default="the mapping's texts that hold some",
    help="The text fields to encode, separated by commas.",
)
@click.option(
    "--model",
    envvar="RESIFT_MODEL",
    show_envvar=True,
    metavar="DIR",
    show_default="one that is learned from the index",
    help="The folder of a saved model, or resift-en, the packaged one.",
)
@click.option("--no-adapt", is_flag=True, help="Learn nothing from the documents: use the packaged model.")
@click.option(
    "--graph", is_flag=True, help="Vectors with a graph, for k-NN over the whole index; INDEX needs index.knn."
)
@click.option(
    "--field", metavar="NAME", help="A knn_vector field of the index that already holds the vectors of --model."
)
@click.option(
    "--out",
    type=NewFolder(),
    metavar="DIR",
    show_default="INDEX-model",
    help="Where to save the model that is learned.",
)
@click.option(
    "--default-pipelines",
    is_flag=True,
    help="Rewrite all searches of the index; with --vectors encode all writes, unless it has another final pipeline.",
)
@dry_run_option
@yes_option
@cluster_option
@json_option
@click.pass_context
def attach(
    context: click.Context,
    /,
    index: str,
    url: str,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    no_adapt: bool,
    **options: Any,
) -> None:
    """Have the searches of INDEX rewritten by their sessions: an index, an alias, a pattern or a data stream.

    One processor is added to the search pipeline that they use, and nothing is written to the index. With --vectors its
    documents get vectors of ours as well, in place.

    It first shows what it will do. Clients go on writing and searching meanwhile. If it is interrupted, run it again
    and it continues where it was; resift detach undoes everything.

    The exit status is 3 if documents were refused, or if settings could not be made as they were wanted.
    """
    from resift.plugin.operations.attach import attach as plan_attach

    if not options["vectors"] and context.get_parameter_source("model") is ParameterSource.ENVIRONMENT:
        options["model"] = None
    execute_plan(plan_attach(url, index, adapt=not no_adapt, **options), dry_run, yes, as_json)


@click.command(epilog="Example: resift detach products --dry-run")
@click.argument("index")
@click.option("--model", metavar="DIR|HASH", help="Remove only the vectors of this model.")
@dry_run_option
@yes_option
@cluster_option
def detach(index: str, model: str | None, url: str, dry_run: bool, yes: bool) -> None:
    """Undo resift attach: our processor in search pipelines, settings, vectors and what INDEX records of them.

    OpenSearch takes no field out of a mapping, so that of the vectors stays there, empty.

    The exit status is 3 if documents kept their vectors.
    """
    from resift.plugin.operations.attach import detach as plan_detach

    execute_plan(plan_detach(url, index, model=model), dry_run, yes)


@click.command(epilog="Example: resift doctor --engine http://127.0.0.1:9200")
@json_option
@cluster_option
@installed_model_option
@name_option
@key_option
def doctor(url: str, as_json: bool, **options: Any) -> None:
    """Say in one screen what is wrong with an installation, and how to fix it.

    It asks the cluster and the reranker, has the cluster ask the reranker, and looks at versions, clocks, rights,
    settings, and all that was installed. Of each index with vectors it says how many documents have one; whether they
    belong to their texts resift verify says. Below stands what was chosen for an index by held-back documents, or by
    resift tune, and why.

    The exit status is 3 unless everything is in order.
    """
    from resift.plugin.operations.doctor import doctor as examine

    found = examine(url, **options)
    if as_json:
        print_report({"ok": found.in_order, **found.to_dict()}, as_json)
    else:
        parts = list(_grouped(found.parts))
        rows = [[row.kind, row.name, row.state] for row in parts]
        print_table(["KIND", "NAME", "STATE"], rows, [f"fix: {row.fix}" if row.fix else "" for row in parts])
        for name, lines in found.tuned.items():
            click.echo(f"index {name}: {'; '.join(lines)}")
    if not found.in_order:
        sys.exit(PROBLEMS_FOUND)


def _grouped(parts: Sequence[StatusRow]) -> Iterator[StatusRow]:
    """The lines of the parts: those of a kind that are in the same state are one, so that all fits a screen."""
    for _, found in groupby(parts, lambda row: (row.kind, row.state, row.fix)):
        first, *others = found
        name = first.name.removeprefix("plugins.ml_commons.")
        yield replace(first, name=f"{name} and {len(others)} more" if others else name)


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
