"""An index that exists has its searches rewritten, or gets vectors in place; and it is given back as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from resift.errors import BadInput
from resift.plugin.operations.attach_searches import SearchPlan
from resift.plugin.operations.attach_vectors import AttachPlan, Options
from resift.plugin.operations.detach import DetachPlan
from resift.plugin.operations.install import open_cluster

_OF_VECTORS = ("fields", "model", "graph", "field", "out", "no-adapt")
_TOGETHER = (
    *((f"--{name}", "--vectors") for name in _OF_VECTORS),
    ("--field", "--model"),
)
_APART = (("--no-adapt", "--model"),)


def attach(
    url: str,
    index: str,
    *,
    pipeline: str | None = None,
    default_pipelines: bool = False,
    vectors: bool = False,
    fields: Sequence[str] | None = None,
    model: str | None = None,
    adapt: bool = True,
    graph: bool = False,
    field: str | None = None,
    out: str | None = None,
) -> SearchPlan | AttachPlan:
    """Plan to have the searches of an index, an alias, a pattern or a data stream rewritten by their sessions.

    One processor is added to the search ``pipeline`` that they use, by default that of the index, else a new one, and
    nothing is written to the index; with ``default_pipelines`` searches that name no pipeline are rewritten, too. With
    ``vectors`` documents get vectors of ours, in place. What follows is for these alone.

    Args:
        fields: the text fields to encode; by default the mapping's texts that hold some.
        model: the folder of a saved model; by default one is learned from the index, where ``adapt`` allows it.
        graph: have vectors with a graph (``knn_vector``), which k-NN over the whole index needs, and not compact ones.
        field: a ``knn_vector`` field of the index that already holds the vectors of ``model``.
        out: where the model is saved that is learned; by default the folder ``INDEX-model``.

    Raises BadInput for what cannot be done, and UnsupportedCluster where OpenSearch is too old for it.
    """
    options = Options(fields, model, adapt, graph, field, out, default_pipelines, pipeline)
    _check({**vars(options), "vectors": vectors, "no-adapt": not adapt})
    if not vectors:
        return SearchPlan(open_cluster(url), index, pipeline, default_pipelines)
    return AttachPlan(open_cluster(url), index, options)


def _check(values: Mapping[str, Any]) -> None:
    """Raise BadInput for options that do not go together, or that say how vectors are attached where none are."""
    given = {f"--{name}": value for name, value in values.items() if value}

    def shown(name: str) -> str:
        value = given[name]
        told = value if isinstance(value, str) else ",".join(value) if isinstance(value, Sequence) else ""
        return f"{name} {told}".rstrip()

    for name, other in _TOGETHER:
        if name in given and other not in given:
            raise BadInput(f"{shown(name)} without {other}", value=given[name], expected=f"{other}, or no {name}")
    for name, other in _APART:
        if name in given and other in given:
            raise BadInput(f"{name} with {shown(other)}", value=given[other], expected="one of them")


def detach(url: str, index: str, *, model: str | None = None) -> DetachPlan:
    """Plan to undo :func:`attach`: our processor in search pipelines, settings, vectors, and what records them.

    OpenSearch takes no field out of a mapping, so that of the vectors stays there, empty. ``model`` is the folder or
    hash of the only one whose vectors are removed. Raises BadInput for what cannot be done.
    """
    return DetachPlan(open_cluster(url), index, model)
