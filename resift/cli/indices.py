"""``resift indices`` and ``resift drop``: what an engine holds, listed and deleted."""

from __future__ import annotations

from typing import Any

import click

from resift.cli.options import engine_option, json_option, model_option, opened, service_settings
from resift.cli.output import print_report, print_table
from resift.encoders.registry import load_model
from resift.errors import BadInput, IndexNotFound, ResiftError
from resift.plugin.documents import IndexInfo, check_name
from resift.plugin.engine import Engine
from resift.plugin.query_dsl import PIPELINE_PREFIX


@click.command(epilog="Example: resift indices --engine http://127.0.0.1:9200")
@engine_option
@model_option
@json_option
def indices(engine: str, model: str, as_json: bool) -> None:
    """List the indices of an engine: how many documents, which text fields, and whose vectors.

    MODEL is "ok" where the vectors are those of --model, "other" where they are of another model, and "none" for an
    index without vectors.
    """
    hash = load_model(model).hash
    with opened(engine) as target:
        found = [one for info in target.indices() if (one := _described(target, info, hash)) is not None]
    if as_json or not found:
        print_report({"indices": found}, as_json, "no indices: make one with resift index FILE --index NAME")
        return
    rows = [
        [one["name"], str(one["documents"]), one["model"], one["model_name"] or "", ",".join(one["fields"])]
        for one in found
    ]
    print_table(["INDEX", "DOCUMENTS", "MODEL", "NAME", "FIELDS"], rows)


def _described(engine: Engine, info: IndexInfo, hash: str) -> dict[str, Any] | None:
    """What is shown of an index; None if it was deleted since it was listed."""
    try:
        documents = count_documents(engine, info.name)
    except IndexNotFound:
        return None
    return {
        "name": info.name,
        "documents": documents,
        "fields": list(info.fields),
        "model": "none" if info.model is None else "ok" if info.model == hash else "other",
        "model_name": info.model_name,
        "model_hash": info.model,
    }


def count_documents(engine: Engine, index: str) -> int:
    """How many documents an index has."""
    counted = engine.search(index, {"size": 0, "track_total_hits": True})
    return int(counted.response["hits"]["total"]["value"])


@click.command(epilog="Example: resift drop news")
@click.argument("index")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@engine_option
@json_option
def drop(index: str, yes: bool, engine: str, as_json: bool) -> None:
    """Delete INDEX with all its documents and its own pipelines, after asking.

    Only what `resift indices` lists is deleted.
    """
    check_name(index)
    with opened(engine) as target:
        _require_listed(target, index, service_settings().session_index)
        documents = count_documents(target, index)
        if not yes and not _confirmed(f"Delete index {index} with its {documents} documents?"):
            raise BadInput(f"not confirmed: index {index} stays", value=index, expected="y, or --yes")
        target.drop(index)
        pipelines = _drop_pipelines(target, index)
    lines = [f"{kind} pipeline {PIPELINE_PREFIX}{index} {done}" for kind, done in pipelines.items()]
    report = {"dropped": index, "documents": documents, "pipelines": pipelines}
    print_report(report, as_json, f"{index} deleted, {documents} documents", *lines)


def _drop_pipelines(engine: Engine, index: str) -> dict[str, str]:
    """Remove the pipelines that Resift made for an index that is gone; what became of each, by its kind.

    One that something else names stays: what is written or searched through it would be refused.
    """
    from resift.plugin.cluster.client import Cluster
    from resift.plugin.cluster.index_pipelines import pipeline_name, pipelines_of, remove_pipeline
    from resift.plugin.cluster.usage import pipeline_uses
    from resift.plugin.opensearch.engine import OpenSearchEngine

    if not isinstance(engine, OpenSearchEngine):
        return {}
    cluster, done = Cluster(engine), {}
    try:
        kinds = pipelines_of(cluster, index)
        uses = pipeline_uses(cluster, {pipeline_name(index)}) if kinds else []
        for kind in kinds:
            use = next((use for use in uses if use.pipeline_kind == f"{kind} pipeline"), None)
            if use is None:
                remove_pipeline(cluster, kind, index)
            done[kind] = "removed" if use is None else f"stays: {use.setting} of {use.kind} {use.name} names it"
    except ResiftError as error:
        # Who may delete an index may not change pipelines in every cluster, and the index is gone.
        click.echo(f"its pipelines may still be there: {error.message}", err=True)
    return done


def _require_listed(engine: Engine, index: str, session_index: str) -> None:
    """Raise IndexNotFound for an index that is not there, and BadInput for one that is not for users to delete."""
    if index == session_index:
        raise BadInput(f"{index} holds sessions", value=index, expected="resift sessions delete --index NAME")
    listed = [info.name for info in engine.indices()]
    if index in listed:
        return
    engine.info(index)
    # An alias, which may stand for several, and what is hidden or closed: somebody saw to it that nobody happens on it.
    expected = f"one of: {', '.join(listed)}" if listed else "an index that resift indices lists"
    raise BadInput(f"{index} is an alias, or a hidden or closed index", value=index, expected=expected)


def _confirmed(question: str) -> bool:
    try:
        return click.confirm(question, err=True)
    except click.Abort:  # nobody is there to answer
        click.echo(err=True)
        return False
