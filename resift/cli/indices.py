"""``resift indices``: what an engine holds."""

from __future__ import annotations

from typing import Any

import click

from resift.cli.options import engine_option, json_option, model_option, opened
from resift.cli.output import print_report, print_table
from resift.encoders.registry import load_model
from resift.errors import IndexNotFound
from resift.plugin.documents import IndexInfo
from resift.plugin.engine import Engine


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
        counted = engine.search(info.name, {"size": 0, "track_total_hits": True})
    except IndexNotFound:
        return None
    return {
        "name": info.name,
        "documents": int(counted.response["hits"]["total"]["value"]),
        "fields": list(info.fields),
        "model": "none" if info.model is None else "ok" if info.model == hash else "other",
        "model_name": info.model_name,
        "model_hash": info.model,
    }
