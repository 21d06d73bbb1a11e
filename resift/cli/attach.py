"""The commands ``resift attach`` and ``resift detach``."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from resift.cli.cluster import cluster_option, dry_run_option
from resift.cli.options import json_option, parse_field_names, yes_option
from resift.cli.output import execute_plan
from resift.cli.paths import NewFolder
from resift.plugin.cluster.installation import DEFAULT_SERVICE_URL


@click.command(epilog="Example: resift attach products --dry-run")
@click.argument("index")
@click.option(
    "--pipeline",
    metavar="NAME",
    show_default="resift-INDEX, a copy of the default search pipeline",
    help="The search pipeline to which Resift's processor is added.",
)
@click.option(
    "--service",
    metavar="URL",
    show_default=f"the current URL, or {DEFAULT_SERVICE_URL}",
    help="URL at which the nodes of OpenSearch reach the service (resift serve). With Resift's plugin, this can be "
    "several URLs, separated by commas.",
)
@click.option(
    "--vectors",
    is_flag=True,
    help="Also add a vector to each document. The options from --fields to --force need this.",
)
@click.option(
    "--fields",
    metavar="NAMES",
    callback=parse_field_names,
    show_default="the text fields whose values are sentences",
    help="The text fields to encode, separated by commas.",
)
@click.option(
    "--model",
    envvar="RESIFT_MODEL",
    show_envvar=True,
    metavar="DIR",
    show_default="a model that is learned from the documents",
    help="Folder of a saved model, or resift-en, the packaged model.",
)
@click.option("--no-adapt", is_flag=True, help="Do not train a model on the documents. Use the packaged model.")
@click.option(
    "--graph", is_flag=True, help="Create an HNSW index, for k-NN over the whole index. INDEX needs index.knn."
)
@click.option(
    "--field", metavar="NAME", help="A knn_vector field of INDEX that already contains the vectors of --model."
)
@click.option(
    "--out",
    type=NewFolder(),
    metavar="DIR",
    show_default="INDEX-model",
    help="Folder in which a trained model is saved.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Write vectors even if a test on the documents shows that they do not improve searches.",
)
@click.option(
    "--default-pipelines",
    is_flag=True,
    help="Rewrite all searches of the index. Without Resift's plugin, those without a session then take longer. With "
    "--vectors, also encode all documents that are written from now on, unless the index has another final pipeline.",
)
@dry_run_option
@yes_option
@cluster_option
@json_option
@click.pass_context
def attach(
    context: click.Context, /, index: str, url: str, dry_run: bool, yes: bool, as_json: bool, **options: Any
) -> None:
    """Let each user's relevance feedback improve the searches of INDEX.

    INDEX is the name of an index, alias or data stream, or a pattern. The command adds Resift's processor to a copy of
    the search pipeline of INDEX. When a search names this copy, the processor rewrites the search with what its session
    has learned from marks and clicks. With --default-pipelines, the processor rewrites all searches of INDEX. Nothing
    is written to the index unless you pass --vectors.

    If all nodes have Resift's OpenSearch plugin, its processor is used, and you do not need `resift install`.
    Otherwise, the processor ml_inference of ML Commons is used, and this command also carries out `resift install` if
    the cluster has no installation. If the searches are now rewritten by the other of the two processors, it is
    replaced.

    The command shows its plan and asks for confirmation before it changes anything. Clients can search and write while
    the command runs. If the command is interrupted, run it again to continue. Run `resift detach` to undo all changes.

    The exit status is 3 if documents were refused, if settings could not be changed, or if the nodes cannot use the
    service, so that searches are not rewritten yet. The output then says what to do.
    """
    from resift.plugin.operations.attach import attach as plan_attach

    if not options["vectors"] and context.get_parameter_source("model") is ParameterSource.ENVIRONMENT:
        options["model"] = None
    no_adapt = options.pop("no_adapt")
    execute_plan(plan_attach(url, index, adapt=not no_adapt, **options), dry_run, yes, as_json)


@click.command(epilog="Example: resift detach products --dry-run")
@click.argument("index")
@click.option("--model", metavar="DIR|HASH", help="Remove only the vectors of this model.")
@dry_run_option
@yes_option
@cluster_option
def detach(index: str, model: str | None, url: str, dry_run: bool, yes: bool) -> None:
    """Undo everything that `resift attach` did to INDEX.

    The command removes Resift's processor from the search pipelines, restores the previous settings, and deletes the
    vectors from the documents. OpenSearch cannot remove a field from a mapping, so the vector field stays in the
    mapping without values. If INDEX is still attached through another name, such as an alias, the command says so.

    The command shows its plan and asks for confirmation first. The exit status is 3 if the vectors of some documents
    could not be removed.
    """
    from resift.plugin.operations.attach import detach as plan_detach

    execute_plan(plan_detach(url, index, model=model), dry_run, yes)
