"""Detaching an index: everything that ``resift attach`` changed is restored.

The process can be killed at any time. Running the operation again then carries out the remaining steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from resift.contracts.documents import IndexInfo
from resift.encoders.registry import load_model
from resift.errors import BadInput, NotFound
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_pipelines import (
    ingest_pipeline_owners,
    pipeline_kinds,
    remove_ingest_pipeline,
    update_pipelines,
)
from resift.plugin.cluster.index_record import IndexRecord
from resift.plugin.cluster.pipeline_uses import PipelineUse, refuse_if_used, uses_of_pipelines
from resift.plugin.cluster.search_pipelines import find_rewriters, pipeline_name
from resift.plugin.cluster.target_index import FINAL_PIPELINE_SETTING, TargetIndex, find_targets, settings_of_indices
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.detach_searches import SearchDetachment, other_attached_names
from resift.plugin.operations.plan import Plan, Progress, Result, raise_if_stopped, start_step
from resift.plugin.operations.vector_updates import remove_vectors
from resift.query.dsl import is_resift_field
from resift.stopping import Stop

_SHOWN_REFUSALS = 5


class DetachPlan(Plan):
    """A plan to undo ``resift attach`` for an index, an alias, a pattern or a data stream.

    Args:
        engine: The engine that is connected to the cluster.
        name: The name that was passed to ``resift attach``.
        model: The hash or folder of a model whose vectors are removed, or None to remove all vectors.

    Raises:
        BadInput: If nothing is attached, or if the vectors of the model cannot be removed.
    """

    def __init__(self, engine: OpenSearchEngine, name: str, model: str | None) -> None:
        self.engine, self.cluster, self.name = engine, Cluster(engine), name
        model_hash, settings = _model_hash(model), _settings_to_detach(self.cluster, name)
        # Only these indices must accept writes, because vectors are removed from their documents.
        with_vectors = _targets_with_vectors(self.cluster, name) if settings else []
        attached = [(target, record) for target, record in with_vectors if record.attached]
        self.indices = [_IndexDetachment(self.cluster, target, record, model_hash) for target, record in attached]
        names = [target.name for target, _ in attached]
        if model_hash is None or all(index.removes_all for index in self.indices):
            self.searches = SearchDetachment(self.cluster, {name, *settings}, settings)
        else:
            self.searches = SearchDetachment(self.cluster, (), {})
        if not self.indices:
            created = [target.name for target, record in with_vectors if record.searched_vectors]
            self._refuse_unattached(created, model_hash)
        # An alias or data stream may refer to new indices, for example after a rollover, that were never attached.
        self.unattached = sorted({*settings}.difference(names)) if self.indices else []
        self.question = f"Detach {', '.join(names) or name}?"

    def _refuse_unattached(self, created: Sequence[str], model: str | None) -> None:
        """Raise an error if there is nothing to detach: neither rewritten searches, nor vectors of the model.

        Args:
            created: The names of the indices that Resift itself created with vectors of the model. Such vectors cannot
                be detached.
            model: The hash of the model whose vectors should be removed, or None for all vectors.

        Raises:
            BadInput: If there is nothing to detach.
        """
        if self.searches and created != [self.name]:
            return
        name, expected = self.name, "an attached index"
        if model is not None and not created:
            raise BadInput(f"index {name!r} has no vectors of model {model}", value=model, expected="none")
        if name in created:
            problem = "was created by Resift, not attached: resift drop deletes it"
        else:
            problem = "is not attached"
        for other in other_attached_names(self.cluster, self.searches.pipelines, [name], [name]):
            expected = f"resift detach {other}, to which the index belongs"
        raise BadInput(f"index {name!r} {problem}", value=name, expected=expected)

    def lines(self) -> list[str]:
        """Return the plan of ``resift detach`` as lines of text, which are shown to the user before it is executed."""
        lines = [f"{self.name}:", *self.searches.lines()] if self.searches else []
        for index in self.indices:
            lines += index.lines()
        return [*lines, *(f"{name}: has no vectors from Resift, and is not changed" for name in self.unattached)]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan of ``resift detach`` as a JSON object: the indices, the search pipelines and the settings."""
        return {"indices": [index.to_dict() for index in self.indices], **self.searches.to_dict()}

    def _run(self, progress: Progress, stop: Stop) -> Result:
        results = []
        planned = self.searches.to_dict()
        self.searches.run()
        if self.searches:
            with suppress(NotFound):
                self.engine.tune(self.name, None)
        for index in self.indices:
            results.append(index.run(progress, stop))
            raise_if_stopped(stop, f"interrupted: run it again to continue with {self.name}")
        lines = [f"{self.name}: searches are no longer rewritten"] if self.searches else []
        lines += self.searches.still_attached_lines()
        lines += [line for result in results for line in result.lines]
        return Result(lines, all(result.in_order for result in results), indices=results, **planned)


class _IndexDetachment:
    """Removes vectors from the documents of a single index.

    A DetachPlan, which can remove vectors from several indices, creates an instance for each index.

    Args:
        cluster: The connection to the cluster.
        target: The index, with its mapping and settings.
        record: Resift's description of the vectors in the index before the change, or a reconstruction if the
            description was lost.
        model: The hash of a model whose vectors are removed, or None to remove all vectors.

    Attributes:
        removed_vectors: The descriptions of the vectors to remove.
        record: The description of the vectors after the change, without the removed vectors.
        removes_all: Whether no vectors remain in the index.
    """

    def __init__(self, cluster: Cluster, target: TargetIndex, record: IndexRecord, model: str | None) -> None:
        self.cluster, self.target = cluster, target
        self.removed_vectors = _vectors_to_remove(target, model)
        self.record, self.is_recorded = record.without_vectors(self.removed_vectors), target.record.attached
        self.removes_all = not self.record.all_vectors
        self.settings = {FINAL_PIPELINE_SETTING: None} if self.removes_all and target.is_encoded else {}
        if self.removes_all:
            uses = uses_of_pipelines(cluster, {pipeline_name(target.name)}, "ingest pipeline")
            other_uses = [use for use in uses if not self._ends_use(use)]
            refuse_if_used(other_uses, ", if it is a clone")

    def _ends_use(self, use: PipelineUse) -> bool:
        """Return whether detaching the index also ends a use of the ingest pipeline of the index.

        True only if the index itself uses the pipeline, and detaching resets the setting that names the pipeline.

        Args:
            use: The place where the ingest pipeline is used.
        """
        return (use.kind, use.name) == ("index", self.target.name) and use.setting in self.settings

    def to_dict(self) -> dict[str, Any]:
        """Return the planned change of the index as a JSON object."""
        return {
            "index": self.target.name,
            "models": [info.model for info in self.removed_vectors],
            "emptied": list(self.record.unused_fields),
            "settings": self.settings,
            "ingest_pipeline": self.removes_all and "ingest" in pipeline_kinds(self.cluster, self.target.name),
        }

    def lines(self) -> list[str]:
        """Return the planned change of the index as lines of text for the user."""
        report = self.to_dict()
        lines = [f"{self.target.name}:"]
        if not self.is_recorded:
            lines.append("  the record in _meta is lost: all fields and pipelines with Resift's names are removed")
        lines += [f"  {setting} back to unset" for setting in report["settings"]]
        if report["ingest_pipeline"]:
            lines.append(f"  ingest pipeline {pipeline_name(self.target.name)} removed")
        for name in self.record.unused_fields:
            count = self.target.count({"exists": {"field": name}})
            lines.append(f"  {name} removed from {count} documents; its definition stays in the mapping")
        return lines

    def run(self, progress: Progress, stop: Stop) -> Result:
        """Remove the vectors from all documents, and remove the ingest pipeline if no vectors remain.

        Args:
            progress: A function that is called with progress reports.
            stop: A flag to stop early.

        Returns:
            The result, with lines of text for the user.
        """
        target, fields, planned = self.target, self.record.unused_fields, self.to_dict()
        if self.removes_all:
            if self.settings:
                self.cluster.update_index_settings(target.name, self.settings)
            remove_ingest_pipeline(self.cluster, target.name)
        # From now on, new documents get no vectors of these models. The unused fields stay in the record until no
        # document has a value in them, so that an interrupted run can be continued.
        target = target.change_record(lambda record: record.without_vectors(self.removed_vectors))
        if not self.removes_all:
            update_pipelines(self.cluster, target.name, include_search=False)
        total = sum(target.count({"exists": {"field": name}}) for name in fields)
        emptied = remove_vectors(
            self.cluster, target.name, fields, stop, start_step(progress, f"emptying {target.name}", total)
        )
        if not stop.requested and not emptied.remaining:
            target.change_record(IndexRecord.without_unused_fields)
        lines = [f"{target.name}: detached; vectors were removed from {emptied.documents} documents"]
        lines += [f"  refused: {rejection.id}: {rejection.reason}" for rejection in emptied.refused[:_SHOWN_REFUSALS]]
        lines += [f"  the field {name} stays in the mapping, without values" for name in fields]
        documents, refused = emptied.documents, len(emptied.refused)
        return Result(lines, not refused, **planned, documents=documents, refused=refused)


def _model_hash(model: str | None) -> str | None:
    return load_model(model).hash if model and Path(model).is_dir() else model


def _settings_to_detach(cluster: Cluster, name: str) -> dict[str, dict[str, str]]:
    """Return the settings of all indices that a name to detach refers to, by index name.

    If the indices were deleted, the result is empty, as long as a search pipeline with Resift's processor for this
    name still exists. The pipeline can then be detached.

    Args:
        cluster: The connection to the cluster.
        name: The name of an index, alias or data stream, or a pattern.

    Raises:
        NotFound: If neither an index nor such a search pipeline exists.
    """
    try:
        return settings_of_indices(cluster, name)
    except NotFound:
        if name not in [rewriter.index for rewriter in find_rewriters(cluster).values()]:
            raise
        return {}


def _targets_with_vectors(cluster: Cluster, name: str) -> list[tuple[TargetIndex, IndexRecord]]:
    """Return the indices that may contain vectors from Resift, each with Resift's record of the index.

    These are the indices that have a record, a vector field or an ingest pipeline of Resift.

    Args:
        cluster: The connection to the cluster.
        name: The name of an index, alias or data stream, or a pattern.
    """
    path, owners = f"/{quote(name, safe=',*')}/_mapping", ingest_pipeline_owners(cluster)
    with_vectors = []
    for index, entry in sorted(cluster.request("GET", path).items()):
        mapping = entry["mappings"]
        has_record = mapping.get("_meta", {}).get("resift")
        if has_record or owners.get(index) or any(map(is_resift_field, mapping.get("properties", {}))):
            with_vectors += [
                (target, _read_or_reconstruct_record(cluster, target)) for target in find_targets(cluster, index)
            ]
    return with_vectors


def _read_or_reconstruct_record(cluster: Cluster, target: TargetIndex) -> IndexRecord:
    """Return Resift's record of an index, which describes the vectors in the index.

    If a client has overwritten the record, it is reconstructed from the mapping.

    Args:
        cluster: The connection to the cluster.
        target: The index, with its mapping and settings.
    """
    record = target.record
    is_empty = not record.attached and record.searched_vectors is None
    if target.unrecorded_fields or (is_empty and ingest_pipeline_owners(cluster).get(target.name)):
        return IndexRecord(target.name, added_fields=tuple(target.unrecorded_fields), attached=True)
    return record


def _vectors_to_remove(target: TargetIndex, model: str | None) -> list[IndexInfo]:
    """Choose the vectors that are removed from an index.

    Args:
        target: The index, with its mapping and settings.
        model: The hash of the model whose vectors are removed, or None for all vectors that ``resift attach`` added.

    Returns:
        The descriptions of these vectors, one for each model.

    Raises:
        BadInput: If the index has no vectors of the model, or if Resift created the index together with these vectors.
            Also if searches use these vectors and the index has vectors of other models. In this case the user must
            first attach one of the other models.
    """
    record = target.record
    if model is None:
        return [info for info in record.all_vectors if record.was_added_by_attach(info)]
    info = record.find(model)
    if info is None:
        known = ", ".join(str(other.model) for other in record.all_vectors) or "none"
        raise BadInput(f"index {target.name!r} has no vectors of model {model}", value=model, expected=known)
    if not record.was_added_by_attach(info):
        expected = f"resift drop {target.name} deletes the index"
        raise BadInput(f"index {target.name!r} was created with model {model}", value=model, expected=expected)
    if info == record.searched_vectors and any(other.model != model for other in record.other_models):
        message = f"searches of index {target.name!r} use the vectors of model {model}"
        expected = f"resift attach {target.name} --vectors --model DIR with another model first"
        raise BadInput(message, value=model, expected=expected)
    return [other for other in record.all_vectors if other.model == model]
