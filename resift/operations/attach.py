"""An index that exists has its searches rewritten, or gets vectors in place; and it is given back as it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from resift.contracts.documents import check_name
from resift.errors import BadInput, EngineError, IndexNotFound
from resift.operations.attaching import AttachPlan
from resift.operations.copying import CopyPlan
from resift.operations.detaching import DetachPlan
from resift.operations.index_plan import Options
from resift.operations.installing import open_cluster
from resift.operations.searching import SearchPlan
from resift.plugin.opensearch.engine import OpenSearchEngine

_PLANS = 5  # at most, of an alias or a data stream that gets other indices meanwhile


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
    raise_versions: bool = False,
    copy_to: str | None = None,
    aliases: Sequence[str] = (),
) -> SearchPlan | AttachPlan | CopyPlan:
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
        raise_versions: attach even an index whose clients set versions (``version_type=external``).
        copy_to: leave an index without ``index.knn`` as it is, and copy it into one of this name that can have a graph.
        aliases: with ``copy_to``, the names that clients use for the index, which the copy takes over.

    Raises BadInput for what cannot be done, and UnsupportedCluster where OpenSearch is too old for it.
    """
    options = Options(fields, model, adapt, graph, field, out, default_pipelines, raise_versions, pipeline)
    if not vectors:
        _check_no_options(options, copy_to, aliases)
        return SearchPlan(open_cluster(url), index, pipeline, default_pipelines)
    if model and not adapt:
        raise BadInput("--no-adapt with --model", value=model, expected="one of them")
    _check_copy_options(copy_to, aliases, {"--field": field, "--pipeline": pipeline})
    if copy_to is not None:
        return CopyPlan(open_cluster(url), index, copy_to, aliases, options)
    return _attached_vectors(open_cluster(url), index, options)


def _attached_vectors(engine: OpenSearchEngine, index: str, options: Options) -> AttachPlan:
    for _ in range(_PLANS):
        try:
            plan = AttachPlan(engine, index, options)
            plan.check()
            if plan.is_current:
                return plan
        except IndexNotFound:  # of an index that has gone since its alias was looked up, or of the alias itself
            if not engine.resolve(index):
                raise
    raise EngineError(f"{index!r} stands for other indices each time it is planned", value=index)


def _check_no_options(options: Options, copy_to: str | None, aliases: Sequence[str]) -> None:
    """Raise BadInput for an option that says how vectors are attached, where none are."""
    names = ("fields", "model", "graph", "field", "out", "raise_versions")
    of_vectors = {f"--{name.replace('_', '-')}": getattr(options, name) for name in names}
    of_vectors |= {"--no-adapt": not options.adapt, "--copy-to": copy_to, "--alias": aliases}
    if given := next((name for name, value in of_vectors.items() if value), None):
        raise BadInput(f"{given} without --vectors", value=given, expected=f"--vectors, or no {given}")


def detach(url: str, index: str, *, model: str | None = None) -> DetachPlan:
    """Plan to undo :func:`attach`: our processor in search pipelines, settings, vectors, and what records them.

    OpenSearch takes no field out of a mapping, so that of the vectors stays there, empty. ``model`` is the folder or
    hash of the only one whose vectors are removed. Raises BadInput for what cannot be done.
    """
    return DetachPlan(open_cluster(url), index, model)


def _check_copy_options(to: str | None, aliases: Sequence[str], others: dict[str, Any]) -> None:
    if to is None:
        if aliases:
            message = f"--alias {', '.join(aliases)} without --copy-to"
            raise BadInput(message, value=list(aliases), expected="--copy-to NEW, or no --alias")
        return
    if not aliases:
        raise BadInput("--copy-to without --alias", value=to, expected="--alias NAME, by which clients find the index")
    if given := next((name for name, value in others.items() if value is not None), None):
        raise BadInput(f"{given} with --copy-to", value=others[given], expected="one of them")
    for name in (to, *aliases):
        check_name(name)
