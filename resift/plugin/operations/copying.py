"""An index is copied into one that can have a graph, which takes its place behind an alias and is attached there.

Until it has, the copy records in the ``_meta`` of its mapping what it is a copy of: whoever begins again after a kill
takes the block off that one's writes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from resift.arrays import batched
from resift.contracts.documents import Rejection, check_name
from resift.errors import BadInput, EngineError
from resift.ingest.stopping import Stop
from resift.ingest.verify import BATCH
from resift.ingest.writing import CountingWriter, retry_temporary_errors
from resift.plugin.cluster.attachment import FINAL, Target
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.search_pipelines import NONE, SEARCH, all_pipelines, rewriters
from resift.plugin.opensearch.client import scroll
from resift.plugin.opensearch.documents import sent_body
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.attach_vectors import AttachPlan, Options
from resift.plugin.operations.plan import Plan, Progress, Result, Step, counting, end_if
from resift.query.dsl import is_ours

_PIPELINES = ("index.default_pipeline", FINAL, SEARCH)
_META, _BLOCK = "resift_copy", "index.blocks.write"
# Settings that belong to one index alone, and that OpenSearch does not take for another.
_OWN = (
    "index.uuid",
    "index.creation_date",
    "index.provided_name",
    "index.version.",
    "index.resize.",
    "index.blocks.",
    "index.remote_store.",
    "index.routing.allocation.initial_recovery.",
    "index.history.",
)
_DERIVED = "index.knn.derived_source.enabled"
_REFUSED = "403 (cluster_block_exception)"
Hit = dict[str, Any]


@dataclass
class Copy:
    """The index ``name``, which becomes a copy of the index ``of``, whose writes are refused meanwhile."""

    cluster: Cluster
    name: str
    of: str

    @classmethod
    def find(cls, cluster: Cluster, name: str) -> Copy | None:
        """The copy of this name that has not taken over yet; None if there is none."""
        found = cluster.find(f"/{quote(name, safe='')}/_mapping", name) or {}
        record = found.get("mappings", {}).get("_meta", {}).get(_META)
        return record and cls(cluster, name, record["of"])

    @classmethod
    def create(cls, target: Target, name: str) -> Copy:
        """Make the copy of an index, without documents and vectors of ours; vectors have graphs in it."""
        copy = cls(target.cluster, name, target.name)
        there = target.mapping.get("properties", {})
        kept = {name: _copied(field, target.has_graph) for name, field in there.items() if not is_ours(name)}
        others = {key: value for key, value in target.mapping.get("_meta", {}).items() if key not in ("resift", _META)}
        mapping = {**target.mapping, "properties": kept, "_meta": {**others, _META: {"of": copy.of}}}
        body = {"settings": _settings(target), "mappings": mapping}
        target.cluster.request("PUT", f"/{quote(check_name(name), safe='')}", body)
        return copy

    @contextmanager
    def blocked(self) -> Iterator[None]:
        """A block in which nobody writes to the index, and at whose end it can be written to again, however it ends."""
        try:
            # those under way are done when this returns
            self.cluster.request("PUT", f"/{quote(self.of, safe='')}/_block/write")
            yield
        finally:
            self.unblock()

    @property
    def is_blocked(self) -> bool:
        """Whether writes to the index are refused."""
        return bool(self.cluster.index_settings(self.of)[self.of].get(_BLOCK) == "true")

    def unblock(self) -> None:
        """Let the index be written to again, however busy the cluster is."""
        retry_temporary_errors(lambda: self.cluster.set_index(self.of, {_BLOCK: None}))

    def is_in_service(self, aliases: Sequence[str]) -> bool:
        """Whether the aliases were moved to the copy."""
        return {*aliases} <= {*self.cluster.aliases(self.name)}

    def take_over(self, aliases: Sequence[str]) -> None:
        """Move the aliases to the copy at once, each as it is; those that are not there are made."""
        found = self.cluster.aliases(self.of)
        actions: list[dict[str, Any]] = []
        for name in aliases:
            if name in found:
                actions.append({"remove": {"index": self.of, "alias": name, "must_exist": True}})
            actions.append({"add": {"index": self.name, "alias": name, **found.get(name, {})}})
        self.cluster.request("POST", "/_aliases", {"actions": actions})

    def finish(self) -> None:
        """Forget that it was a copy: from now on it is an index as any other."""
        path = f"/{quote(self.name, safe='')}/_mapping"
        now = self.cluster.request("GET", path)[self.name]["mappings"].get("_meta", {})
        self.cluster.request("PUT", path, {"_meta": {name: value for name, value in now.items() if name != _META}})


def check_aliases(target: Target, name: str, aliases: Sequence[str]) -> None:
    """Raise BadInput for aliases that cannot be moved from an index to its copy ``name``."""
    if target.name.startswith(".ds-"):
        message = f"{target.name} is a backing index of a data stream, which no alias can replace"
        raise BadInput(message, value=target.name, expected="an index; resift attach --vectors works in place there")
    for alias in aliases:
        check_name(alias)
        found = target.cluster.find(f"/{quote(alias, safe='')}/_mapping") or {}
        if alias == name or alias in found:
            message = f"{alias!r} is the name of an index, and cannot be an alias beside that"
            expected = f"an alias: POST /_aliases adds one to {target.name}; clients that use it can be moved"
            raise BadInput(message, value=alias, expected=expected)
        if found and not {target.name, name} & set(found):
            held = ", ".join(sorted(found))
            message = f"alias {alias!r} stands for {held}, not for {target.name}"
            raise BadInput(message, value=alias, expected=f"an alias of {target.name}, or a new one")


def check_templates(target: Target, name: str) -> None:
    """Raise BadInput where an index template would give the copy other fields, or aliases that clients find it by."""
    path = f"/_index_template/_simulate_index/{quote(check_name(name), safe='')}"
    try:
        found = target.cluster.request("POST", path).get("template", {})
    except EngineError as error:
        if error.status == 400:  # no such name
            raise BadInput(error.message, value=name, expected="a name for a new index") from error
        raise
    if given := {**found.get("aliases", {}), **found.get("mappings", {})}:
        message = f"an index template gives an index of the name {name!r} {', '.join(given)}"
        raise BadInput(message, value=name, expected="a name that no index template matches")


def _copied(field: Mapping[str, Any], graph: bool) -> dict[str, Any]:
    """A field of the mapping. One of vectors without a method would get a graph of OpenSearch's choice."""
    if field.get("type") == "knn_vector" and not graph and not {"method", "model_id", "mode"} & set(field):
        method = {"name": "hnsw", "engine": "lucene", "space_type": field.get("space_type", "l2")}
        return {**{name: value for name, value in field.items() if name != "space_type"}, "method": method}
    if "properties" in field:
        inner = {name: _copied(one, graph) for name, one in field["properties"].items()}
        return {**field, "properties": inner}
    return dict(field)


def _settings(target: Target) -> dict[str, Any]:
    """The settings of a copy that is not in service yet: no pipeline sees documents that have been through it."""
    settings = {name: value for name, value in target.settings.items() if not name.startswith(_OWN)}
    # Vectors of its own would come back from a derived _source with other digits than those that were written.
    if "knn_vector" in {kind for name, kind in target.fields.items() if not is_ours(name)}:
        settings = {_DERIVED: "false", **settings}
    return {**settings, "index.knn": "true", **dict.fromkeys(_PIPELINES, NONE)}


def copy_documents(copy: Copy, stop: Stop, progress: Callable[[int], None]) -> int:
    """Write all documents of the index into its ``copy``; return how many there are, unless a stop was requested.

    They keep their ids and their routing, not their versions, and vectors of ours are left out. Raises EngineError for
    documents that the copy does not take, and EngineUnavailable where the cluster does not come back.
    """
    engine, cluster, read = copy.cluster.engine, copy.cluster, 0

    def write(batch: Sequence[tuple[str, Hit, None]]) -> list[Rejection]:
        lines = [line for _, hit, _ in batch for line in _lines(hit)]
        # documents that went through the index's pipelines once are not to do so again
        return engine.bulk_lines([id for id, _, _ in batch], copy.name, lines, "index", pipeline="_none")

    engine.refresh(copy.of)
    hits = scroll(engine.client, copy.of, sent_body({"query": {"match_all": {}}}, None))
    with CountingWriter(write, engine.writers, stop) as writer:
        for batch in batched(hits, BATCH):
            writer.put([(hit["_id"], hit, None) for hit in batch])
            progress(read := read + len(batch))
            if stop.requested:
                return read
    if writer.refused:
        one = writer.refused[0]
        message = f"{len(writer.refused)} documents are refused by {copy.name}, such as {one.id}: {one.reason}"
        raise EngineError(message, status=one.status, value=one.id, expected="documents that it takes")
    engine.refresh(copy.name)
    if (there := cluster.count(copy.of)) != (copied := cluster.count(copy.name)):
        message = f"{copy.of} has {there} documents, and {copy.name} {copied}"
        raise EngineError(message, status=409, value=copied, expected="that nobody writes to the copy")
    return there


def _lines(hit: Mapping[str, Any]) -> Iterator[str]:
    """What of a bulk request writes a document that was read."""
    routing = {"routing": hit["_routing"]} if "_routing" in hit else {}
    yield json.dumps({"index": {"_id": hit["_id"], **routing}})
    try:
        yield json.dumps(hit["_source"], allow_nan=False)
    except ValueError as error:  # a number that is too large for a float, in a field that is not indexed
        raise EngineError(f"document {hit['_id']} cannot be copied: {error}", status=400, value=hit["_id"]) from error


class CopyPlan(Plan):
    """What attaching by a copy ``to`` is about to do. Raises BadInput for what cannot be done."""

    def __init__(self, engine: OpenSearchEngine, name: str, to: str, aliases: Sequence[str], options: Options) -> None:
        self.engine, self.cluster, self.to = engine, Cluster(engine), to
        self.options, self.aliases = options, tuple(dict.fromkeys(aliases))
        self.copy = Copy.find(self.cluster, to)
        if self.copy is None and self.cluster.find(f"/{to}/_mapping"):
            message = f"index {to!r} exists, and is no copy that was interrupted"
            raise BadInput(message, value=to, expected="a name that is free")
        # A block that an earlier run has left is taken off when this one begins.
        self.attaching = AttachPlan(engine, name, options, self.copy.of if self.copy else None)
        if self.attaching.model is not None:
            self.attaching.model.require_documents()
        if len(self.attaching.targets) > 1:
            raise BadInput(f"{name!r} stands for {self.attaching.names}", value=name, expected="one index")
        (self.target,), (self.plan,) = self.attaching.targets, self.attaching.plans
        self._names = ", ".join(self.aliases)
        self.question = f"Copy {self.target.name} into {to}, and move {self._names} to it?"
        check_aliases(self.target, to, self.aliases)
        if self.copy is None:
            check_templates(self.target, to)
        elif self.copy.of != self.target.name:
            raise BadInput(f"{to!r} is a copy of {self.copy.of}", value=to, expected="another name")

    def to_dict(self) -> dict[str, Any]:
        return {
            "index": self.target.name,
            "copy": self.to,
            "aliases": self.aliases,
            "model": self.attaching.model and self.attaching.model.hash,
            "documents": self.target.documents,
            "fields": list(self.plan.entry.fields),
        }

    def lines(self) -> list[str]:
        index, new, model = self.target.name, self.to, self.attaching.model
        saved = "learned from these documents, and saved in " + self.attaching.out
        staying = ", ".join(sorted({*self.cluster.aliases(index)}.difference(self.aliases)))
        lines = [
            f"model: {saved if model is None else f'{model.name} ({model.hash})'}",
            f"{index} -> {new}, {'which an earlier run left, and is made anew' if self.copy else 'a new index'}",
            f"  mapping     that of {index}, and index.knn, which k-NN over all of it needs",
            "  settings    the same, pipelines and analysers among them",
            f"  documents   {self.target.documents}, with ids and routing, past pipelines",
            f"  writes      get {_REFUSED} while they are copied; let clients try again",
            f"  alias       {self._names}: from {index} to {new} at once, with filter and routing as they are",
        ]
        if staying:
            lines.append(f"  alias       {staying}: stays with {index}, which changes no more; --alias moves it, too")
        lines += [
            f"  texts       {', '.join(self.plan.entry.fields)}: then {new} gets their vectors, beside its clients",
            f"  clients     that use the name {index} go on there, and what they write is not copied any more",
        ]
        return [*lines, f"  undo        resift detach {new}, which goes on serving; {index} stays as it is"]

    def _run(self, progress: Progress, stop: Stop) -> Result:
        started, index = time.perf_counter(), self.target.name
        copy, documents, refused = self.copy, self.target.documents, 0.0
        if copy is not None and copy.is_blocked:
            copy.unblock()
            progress(Step(f"{index} can be written to again: an earlier run had left its block"))
        if copy is None or not copy.is_in_service(self.aliases):
            if copy is not None:
                self.engine.drop(self.to)
            copy = Copy.create(self.target, self.to)
            documents, refused = self._take_over(copy, progress, stop)
        attached = self._attached(progress, stop)
        copy.finish()
        lines = [
            f"{documents} documents are in {index} and {self.to}",
            f"writes were refused for {refused:.2f} s, and {self._names} stands for {self.to} now",
            f"{index} is as it was; clients that use that name go on there, and nothing is copied any more",
        ]
        return Result(
            index=index,
            copy=self.to,
            aliases=self.aliases,
            documents=documents,
            blocked_seconds=refused,
            model=attached.model,
            seconds=round(time.perf_counter() - started, 3),
            attached=attached.indices,
            in_order=attached.in_order,
            lines=[*lines, *attached.lines],
        )

    def _take_over(self, copy: Copy, progress: Progress, stop: Stop) -> tuple[int, float]:
        """Have the copy serve; the number of its documents, and how many seconds writes were refused.

        If it fails, nothing has changed.
        """
        started = time.perf_counter()
        with copy.blocked():
            documents = copy_documents(copy, stop, counting(progress, f"copying {copy.of}", self.target.documents))
            end_if(stop, f"interrupted: run it again, and it begins anew; resift drop {self.to} deletes the copy")
            values = {name: self.target.settings.get(name) for name in _PIPELINES}
            # the copy gets one of its own as it is attached
            self.cluster.set_index(self.to, {**values, **({FINAL: None} if self.target.is_encoded else {})})
            if not copy.is_blocked:
                message = f"somebody let {copy.of} be written to while it was copied"
                raise EngineError(message, status=409, value=copy.of, expected="one run at a time")
            copy.take_over(self.aliases)
        return documents, round(time.perf_counter() - started, 3)

    def _attached(self, progress: Progress, stop: Stop) -> Result:
        """Attach the copy, with a graph."""
        used = self.target.settings.get(SEARCH)
        options = replace(
            self.options,
            fields=list(self.plan.entry.fields),
            graph=True,
            out=self.attaching.out,
            default_pipelines=self.options.default_pipelines or self.target.is_encoded or self._is_rewritten,
            pipeline=used if used in all_pipelines(self.cluster) and not self._is_rewritten else None,
        )
        return AttachPlan(self.engine, self.to, options)._run(progress, stop)

    @property
    def _is_rewritten(self) -> bool:
        found = rewriters(self.cluster).get(self.target.settings.get(SEARCH, NONE))
        return found is not None and found.index == self.target.name
