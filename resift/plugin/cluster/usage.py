"""Who uses an installation: what names its pipelines, and the indices that hold vectors or are to get some."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from resift.contracts.documents import ModelDescription
from resift.contracts.query_dsl import COMPACT_FIELD, GUARD_FIELD, PIPELINE_PREFIX, VECTOR_FIELD, is_ours
from resift.errors import EngineError
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_pipelines import WITHOUT
from resift.plugin.cluster.index_record import ALL, INDICES, IndexRecord
from resift.plugin.cluster.installation import installations
from resift.plugin.cluster.search_pipelines import SEARCH, pipeline_name
from resift.plugin.opensearch.mappings import GUARD_MAPPING, vector_fault

_WRITING = ("index.default_pipeline", "index.final_pipeline")
_SETTINGS = (*_WRITING, SEARCH)


@dataclass(frozen=True)
class PipelineUse:
    """Something that names a pipeline: its kind and name, the setting that does it, and the pipeline."""

    kind: str
    name: str
    setting: str
    pipeline: str

    @property
    def pipeline_kind(self) -> str:
        """The kind of the pipeline: of an index, both have the same name."""
        return "search pipeline" if self.setting == SEARCH else "ingest pipeline"

    @property
    def release(self) -> str:
        """What to do so that it names the pipeline no longer."""
        vectors = "" if self.setting == SEARCH else " --vectors"
        clone = f"resift attach {self.name}{vectors} --default-pipelines, or " if self.kind == "index" else ""
        return f"{clone}unset {self.setting} of {self.kind} {self.name}"


def pipeline_uses(cluster: Cluster, pipelines: Collection[str], kind: str) -> list[PipelineUse]:
    """What names one of these pipelines of a kind: indices, index templates of all sorts, and ingest pipelines."""
    if not pipelines:
        return []
    return [use for use in _all_uses(cluster) if use.pipeline in pipelines and use.pipeline_kind == kind]


def refuse(uses: Sequence[PipelineUse], where: str = "") -> None:
    """Raise EngineError, status 409, for what names a pipeline that is to go: it would refuse writes or searches.

    ``where`` says which of the indices detaching helps.
    """
    if uses:
        shown = "; ".join(f"{use.setting} of {use.kind} {use.name} is {use.pipeline}" for use in uses[:5])
        more = f"; and {len(uses) - 5} more" if len(uses) > 5 else ""
        detach = f"resift detach {uses[0].name}{where}, or " if uses[0].kind == "index" else ""
        raise EngineError(f"{shown}{more}", status=409, value=uses[0].name, expected=f"{detach}unset it first")


def _all_uses(cluster: Cluster) -> Iterator[PipelineUse]:
    indices = cluster.request("GET", f"/{INDICES}/_settings/{','.join(_SETTINGS)}", flat_settings="true", **ALL)
    for name, entry in indices.items():
        yield from _uses("index", name, entry["settings"])
    for kind in ("index", "component"):
        found = (cluster.find(f"/_{kind}_template") or {}).get(f"{kind}_templates", [])
        for entry in found:
            settings = entry[f"{kind}_template"].get("template", {}).get("settings", {})
            yield from _uses(f"{kind} template", entry["name"], settings)
    for name, template in (cluster.find("/_template") or {}).items():
        yield from _uses("legacy template", name, template.get("settings", {}))
    for name, pipeline in (cluster.find("/_ingest/pipeline") or {}).items():
        for called in _called_pipelines(pipeline):
            yield PipelineUse("ingest pipeline", name, "a processor", called)


def _uses(kind: str, name: str, settings: dict[str, Any]) -> Iterator[PipelineUse]:
    flat = dict(_flat(settings))
    yield from (PipelineUse(kind, name, setting, flat[setting]) for setting in _SETTINGS if setting in flat)


def _flat(settings: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by their full names, however they are nested: templates keep what they were given in part."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _called_pipelines(value: Any) -> Iterator[str]:
    """The pipelines that an ingest pipeline calls, at any depth."""
    if isinstance(value, list):
        for item in value:
            yield from _called_pipelines(item)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key == "pipeline" and isinstance(inner, dict) and isinstance(inner.get("name"), str):
                yield inner["name"]
            yield from _called_pipelines(inner)


@dataclass(frozen=True)
class StatusRow:
    """One line of the status: the kind and name of a resource, its state, and how to fix it ('' if it is ok)."""

    kind: str
    name: str
    state: str
    fix: str = ""

    @property
    def in_order(self) -> bool:
        """Whether there is nothing to do about it."""
        return not self.fix


def index_rows(cluster: Cluster, name: str, model: ModelDescription) -> list[StatusRow]:
    """A line for every index that has a vector field or a model, or that the pipeline of the installation ``name``
    writes to, since a setting names it; those of other installations are for these to judge."""
    uses = [use for use in _all_uses(cluster) if use.kind == "index"]
    written = {use.name for use in uses if use.setting in _WRITING and use.pipeline == f"{name}-ingest"}
    mappings = _mappings(cluster, written)
    refusing = _refusing(cluster, uses, name, mappings)
    others = {one.model.hash: one.name for one in installations(cluster).values()}
    rows = []
    for index in sorted({*mappings, *refusing}):
        mapping = mappings.get(index, {})
        record = IndexRecord.read(index, mapping.get("_meta", {}))
        state, fix = refusing.get(index) or _fault(record, mapping, name, model, index in written)
        current = record.current.model if record.current else None
        if index in WITHOUT and state == "ok":
            own = pipeline_name(index)
            state, fix = f"{own} is no pipeline of its own", "copy it into one of another name"
        elif current != model.hash and current in others and index not in written:
            state, fix = f"of installation {others[current]}", ""
        rows.append(StatusRow("index", index, state, fix))
    return rows


def _mappings(cluster: Cluster, written: Collection[str]) -> dict[str, dict[str, Any]]:
    """What the mapping says of vectors in each index that has some, or that is ``written`` to."""
    parts = ["_meta.resift", "dynamic", *(f"properties.{field}" for field in (f"{VECTOR_FIELD}*", GUARD_FIELD))]
    filter_path = ",".join(f"*.mappings.{part}" for part in parts)
    answer = cluster.request("GET", f"/{INDICES}/_mapping", filter_path=filter_path, **ALL)
    # The answer leaves out indices whose mappings have nothing of what was asked for.
    found = {index: entry.get("mappings", {}) for index, entry in answer.items()}
    ours = {index for index, mapping in found.items() if mapping.get("_meta") or mapping.get("properties")}
    ours = {index for index in ours if index in written or not _is_detached(cluster, index, found[index])}
    return {index: found.get(index, {}) for index in {*ours, *written}}


def _refusing(
    cluster: Cluster, uses: Sequence[PipelineUse], name: str, with_vectors: Collection[str]
) -> dict[str, tuple[str, str]]:
    """What is wrong with each index that names a pipeline of ours which is gone, and what to do about it.

    Those of indices ``with_vectors`` are made by installing. A snapshot brings an index with its settings and without
    the pipelines, and a clone those of another index.
    """
    there = {f"{kind} pipeline": {*(cluster.find(f"/_{kind}/pipeline") or {})} for kind in ("search", "ingest")}
    own = {f"{name}-{one}" for one in WITHOUT}
    found: dict[str, tuple[str, str]] = {}
    for use in uses:
        if not use.pipeline.startswith(PIPELINE_PREFIX) or use.pipeline in there[use.pipeline_kind]:
            continue
        refused = "searches" if use.setting == SEARCH else "writes"
        state = f"{use.setting} is {use.pipeline}, which is missing: {refused} are refused"
        made = use.pipeline in own or (use.pipeline == pipeline_name(use.name) and use.name in with_vectors)
        vectors = "" if use.setting == SEARCH and use.name not in found else " --vectors"
        fix = "resift install" if made else f"resift attach {use.name}{vectors} --default-pipelines"
        found[use.name] = f"{found[use.name][0]}; {state}" if use.name in found else state, fix
    return found


def _is_detached(cluster: Cluster, index: str, mapping: dict[str, Any]) -> bool:
    """Whether the vectors of an index were taken back: OpenSearch takes no field out of a mapping."""
    properties = mapping.get("properties", {})
    mapped = {field.get("type") for field in properties.values()}  # none, or ours and the guard's among them
    if mapping.get("_meta", {}).get("resift") or not mapped or mapped - {"knn_vector", "binary"}:
        return False
    query = {"bool": {"should": [{"exists": {"field": field}} for field in properties]}}
    try:
        return cluster.count(index, query) == 0
    except EngineError:  # a closed index, of which nothing can be said
        return False


def _fault(
    record: IndexRecord, mapping: dict[str, Any], name: str, model: ModelDescription, written: bool
) -> tuple[str, str]:
    """What is wrong with an index, and what to do; ``ok`` and nothing if all is well."""
    state, fix = _vector_fault(record, mapping, name, model, written)
    if written and state != "ok":
        return f"{state}, but {name}-ingest writes to it", f"unset its pipeline and {fix}"
    return state, fix


def _unrecorded_field(properties: Mapping[str, Any], written: bool) -> str:
    """The field of ours in an index that records nothing of it, or that in which an installation writes vectors."""
    is_compact = COMPACT_FIELD in properties and VECTOR_FIELD not in properties
    return COMPACT_FIELD if is_compact and not written else VECTOR_FIELD


def _vector_fault(
    record: IndexRecord, mapping: dict[str, Any], name: str, model: ModelDescription, written: bool
) -> tuple[str, str]:
    properties = mapping.get("properties", {})
    copy = f"copy it into an index named {name}-..., through {name}-ingest"
    entry, known = record.of(model.hash), record.current or record.filling
    if entry is None and known is not None:
        change = f"resift attach {record.index} --vectors --model DIR, that of {model.name} ({model.hash})"
        return f"other model {known.model}", f"use model {known.model_name} ({known.model}), or {change}"
    field = entry.vector_field if entry else _unrecorded_field(properties, written)
    if not is_ours(field):
        return "ok", ""  # the index's own, which OpenSearch looks after
    if wrong := vector_fault(mapping, field, model.dim):
        # attaching gives a copy that _reindex has made a field of its own
        attachable = entry is None and not written and field in properties
        return wrong, f"resift attach {record.index} --vectors" if attachable else copy
    if entry is None:
        again = f"resift detach {record.index}, then resift attach {record.index} --vectors"
        return "vectors of an unknown model", copy if written else again
    if record.filling == entry:
        return "attaching was interrupted", f"resift attach {record.index} --vectors"
    if GUARD_FIELD not in properties and (written or not record.attached):
        body = json.dumps({"properties": {GUARD_FIELD: GUARD_MAPPING}})
        return f"no {GUARD_FIELD}: {name}-ingest cannot write to it", f"PUT {record.index}/_mapping {body}"
    return "ok", ""
