"""Attaching an existing index, and detaching it again: the public functions of the Python API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from resift.errors import BadInput
from resift.plugin.operations.attach_searches import SearchPlan
from resift.plugin.operations.attach_vectors import AttachPlan
from resift.plugin.operations.detach import DetachPlan
from resift.plugin.operations.index_plan import AttachOptions
from resift.plugin.operations.install import open_cluster

_VECTOR_OPTIONS = ("fields", "model", "graph", "field", "out", "no-adapt")
# Pairs of options: the first needs the second.
_REQUIRED = (*((f"--{name}", "--vectors") for name in _VECTOR_OPTIONS), ("--field", "--model"))
# Pairs of options that exclude each other.
_EXCLUSIVE = (("--no-adapt", "--model"),)


def attach(  # noqa: PLR0913 - the options of `resift attach`
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
    """Plan to have the searches of an index rewritten by their sessions, and optionally to add vectors to it.

    Resift's processor is added to the search pipeline that the searches use. Without ``vectors``, nothing is written to
    the index. With ``vectors``, each document gets a vector, in place. The options from ``fields`` on need ``vectors``.

    Args:
        url: URLs of the cluster.
        index: An index, an alias, a pattern or a data stream.
        pipeline: The search pipeline to which the processor is added. By default the default search pipeline of the
            index. If there is none, a new pipeline is created.
        default_pipelines: Also rewrite searches that name no pipeline, by changing the default search pipeline. With
            ``vectors``, also encode all documents that are written from now on.
        vectors: Add vectors to the documents.
        fields: Text fields to encode. By default the text fields of the mapping whose values are sentences.
        model: Folder of a saved model. By default, a model is learned from the documents.
        adapt: Learn a model if ``model`` is not given. If False, the packaged model is used.
        graph: Create an HNSW index (a ``knn_vector`` field), which k-NN over the whole index needs. By default, vectors
            are stored in a compact ``binary`` field.
        field: A ``knn_vector`` field of the index that already contains the vectors of ``model``.
        out: Folder in which a learned model is saved. By default ``INDEX-model``.

    Returns:
        A plan. Nothing is changed before its method ``run`` is called.

    Raises:
        BadInput: If an option is invalid, or the index cannot be attached.
        MissingExtra: If a model must be learned, and a package for this is missing.
        UnsupportedCluster: If the cluster is too old, or lacks plugins.
    """
    options = AttachOptions(
        fields=fields,
        model=model,
        adapt=adapt,
        graph=graph,
        field=field,
        out=out,
        default_pipelines=default_pipelines,
        pipeline=pipeline,
    )
    _check_combination({**vars(options), "vectors": vectors, "no-adapt": not adapt})
    if not vectors:
        return SearchPlan(open_cluster(url), index, pipeline, default_pipelines)
    return AttachPlan(open_cluster(url), index, options)


def _check_combination(values: Mapping[str, Any]) -> None:
    """Raise BadInput for options that contradict each other, or lack another option.

    Args:
        values: Values of the options, by name without dashes.
    """
    present = {f"--{name}": value for name, value in values.items() if value}
    for name, required in _REQUIRED:
        if name in present and required not in present:
            message = f"{_with_value(name, present)} is used without {required}"
            raise BadInput(message, value=present[name], expected=f"{required}, or no {name}")
    for name, other in _EXCLUSIVE:
        if name in present and other in present:
            message = f"{name} is used with {_with_value(other, present)}"
            raise BadInput(message, value=present[other], expected="only one of them")


def _with_value(name: str, values: Mapping[str, Any]) -> str:
    """Return an option as it is written on the command line."""
    value = values[name]
    if isinstance(value, str):
        return f"{name} {value}"
    return f"{name} {','.join(value)}" if isinstance(value, Sequence) else name


def detach(url: str, index: str, *, model: str | None = None) -> DetachPlan:
    """Plan to undo :func:`attach`: processors in search pipelines, settings, vectors, and the record in the index.

    The vector field stays in the mapping without values, because OpenSearch cannot remove a field from a mapping.

    Args:
        url: URLs of the cluster.
        index: The attached index, alias, pattern or data stream.
        model: Folder or hash of a model, to remove only its vectors.

    Returns:
        A plan. Nothing is changed before its method ``run`` is called.

    Raises:
        BadInput: If the index is not attached, or the vectors of the model cannot be removed.
    """
    return DetachPlan(open_cluster(url), index, model)
