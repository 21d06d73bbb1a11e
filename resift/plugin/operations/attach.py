"""Functions of the Python API to attach an existing index to Resift, and to detach it again.

Attaching lets Resift rewrite the searches of the index. It can also add vectors to the documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from resift.errors import BadInput
from resift.plugin.operations.attach_searches import SearchPlan
from resift.plugin.operations.attach_vectors import AttachPlan
from resift.plugin.operations.detach import DetachPlan
from resift.plugin.operations.index_plan import AttachOptions
from resift.plugin.operations.install import open_cluster

_VECTOR_OPTIONS = ("fields", "model", "graph", "field", "out", "force", "no-adapt")
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
    force: bool = False,
    service: str | None = None,
) -> SearchPlan | AttachPlan:
    """Plan to improve the searches of an existing index with relevance feedback, and optionally to add vectors to it.

    Resift's processor is added to a copy of the search pipeline of the index. Searches that name the copy
    (``search_pipeline``) are rewritten with what the user's session has learned. Without ``vectors``, nothing is
    written to the index. With ``vectors``, a vector is added to each document. The arguments from ``fields`` to
    ``force`` require ``vectors``.

    If all nodes have Resift's OpenSearch plugin, its processor is used, and searches without a session are not affected
    at all. Otherwise, the processor ``ml_inference`` of ML Commons is used. If the remote model that it calls does not
    exist yet, ``resift install`` is part of the plan.

    Args:
        url: The URLs of the cluster.
        index: The name of an index, alias or data stream, or a pattern.
        pipeline: The name of the search pipeline to which the processor is added. By default, this is ``resift-INDEX``,
            a copy of the default search pipeline of the index, or a new pipeline if there is none. With
            ``default_pipelines``, it is the default search pipeline itself, unless other indices also use it.
        default_pipelines: Whether to rewrite searches that name no pipeline as well, by changing the default search
            pipeline. Without Resift's plugin, searches without a session then take longer. With ``vectors``, all
            documents that are written from now on are also encoded.
        vectors: Whether to add vectors to the documents.
        fields: The names of the text fields to encode. By default, these are the text fields whose values are
            sentences.
        model: The folder of a saved model. By default, a model is trained on the documents.
        adapt: Whether to train a model if ``model`` is not given. Otherwise, the packaged model is used.
        graph: Whether to create an HNSW index (a ``knn_vector`` field), which k-NN over the whole index needs. By
            default, vectors are stored in a compact ``binary`` field.
        field: The name of a ``knn_vector`` field that already contains the vectors of ``model``.
        out: The folder in which a trained model is saved. The default is ``INDEX-model``.
        force: Whether to write vectors even if a test on the documents shows that they do not improve the ranking.
        service: The URLs at which the nodes reach the service, separated by commas. By default, these are the current
            URLs, or else http://127.0.0.1:8080. ``ml_inference`` takes a single URL.

    Returns:
        A plan. Nothing is changed until you call its method ``run``.

    Raises:
        BadInput: If an option is invalid, or if the index cannot be attached.
        MissingExtra: If a model must be trained, but a package for this is missing.
        UnsupportedCluster: If the cluster is too old or lacks plugins.
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
        force=force,
        service=service,
    )
    _check_combination({**vars(options), "vectors": vectors, "no-adapt": not adapt})
    if not vectors:
        return SearchPlan(open_cluster(url), index, pipeline, default_pipelines, service)
    return AttachPlan(open_cluster(url), index, options)


def _check_combination(values: Mapping[str, Any]) -> None:
    """Check that the options of ``resift attach`` fit together.

    Args:
        values: The values of the options, by name without dashes.

    Raises:
        BadInput: If two options exclude each other, or if an option requires another option that is missing.
    """
    present = {f"--{name}": value for name, value in values.items() if value}
    for name, required in _REQUIRED:
        if name in present and required not in present:
            message = f"{_as_option(name, present)} is used without {required}"
            raise BadInput(message, value=present[name], expected=f"{required}, or no {name}")
    for name, other in _EXCLUSIVE:
        if name in present and other in present:
            message = f"{name} is used with {_as_option(other, present)}"
            raise BadInput(message, value=present[other], expected="only one of them")


def _as_option(name: str, values: Mapping[str, Any]) -> str:
    """Return an option and its value as they are written on the command line, such as "--model news".

    Args:
        name: The name of the option.
        values: The values of all options, by name.
    """
    value = values[name]
    if isinstance(value, str):
        return f"{name} {value}"
    return f"{name} {','.join(value)}" if isinstance(value, Sequence) else name


def detach(url: str, index: str, *, model: str | None = None) -> DetachPlan:
    """Plan to undo :func:`attach`.

    The plan removes Resift's processor from search pipelines, restores the settings, and removes vectors and Resift's
    record from the index. The vector field stays in the mapping without values, because OpenSearch cannot remove a
    field from a mapping.

    Args:
        url: The URLs of the cluster.
        index: The name that was attached: an index, an alias, a pattern or a data stream.
        model: The folder or hash of a model. If given, only the vectors of this model are removed.

    Returns:
        A plan. Nothing is changed until you call its method ``run``.

    Raises:
        BadInput: If the index is not attached, or if the vectors of the model cannot be removed.
    """
    return DetachPlan(open_cluster(url), index, model)
