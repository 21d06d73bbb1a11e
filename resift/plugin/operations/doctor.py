"""What is wrong with an installation: cluster and reranker, how they reach each other, and each index's vectors."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from urllib.request import urlopen

from resift.contracts.documents import IndexInfo
from resift.encoders.registry import load_model
from resift.errors import EngineError, EngineUnavailable, ResiftError, UnsupportedCluster
from resift.plugin.addresses import without_credentials
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_pipelines import ingest_pipelines, pipeline_uses
from resift.plugin.cluster.index_record import ALL, INDICES, IndexRecord, tunings
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import installations
from resift.plugin.cluster.resources import LAZY, Resource
from resift.plugin.cluster.search_pipelines import SEARCH, SearchPipeline, pipeline_name, rewriters
from resift.plugin.cluster.settings import PRIVATE, TRUSTED
from resift.plugin.operations.install import InstallationOptions, found_installer, open_cluster
from resift.plugin.operations.plan import Result
from resift.query.dsl import PIPELINE_PREFIX, is_ours
from resift.version import __version__

if TYPE_CHECKING:
    from typing_extensions import Unpack

_INSTALL = "resift install"
_AT_ONCE = 8  # pipelines that are tried
_CLOCKS_APART = 30.0  # seconds; AWS refuses signatures that are five minutes off


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


def doctor(url: str, **options: Unpack[InstallationOptions]) -> Result:
    """What is wrong with the cluster at ``url`` and the reranker that it asks, and how to fix it.

    It asks both, and has the cluster ask the reranker; compares versions and clocks; looks at plugins, settings and all
    that was installed, and at the vectors of each index. A cluster that does not answer, or refuses something to the
    caller, is a line of the ``parts`` as well, and no exception. ``tuned``: what was chosen for which index, and why.
    """
    if options.get("model"):
        load_model(str(options["model"]))  # which may be none, whatever the cluster says
    parts, tuned = list[StatusRow](), {}
    try:
        with closing(open_cluster(url)) as engine:
            cluster = Cluster(engine)
            parts += cluster_rows(cluster, without_credentials(url))
            parts += status_rows(found_installer(engine, **options))
            parts += index_rows(cluster)
            tuned = tunings(cluster)
    except (EngineUnavailable, EngineError, UnsupportedCluster) as error:
        parts.append(_refused(error, without_credentials(url)))
    return Result(
        parts=parts,
        tuned=tuned,
        in_order=all(one.in_order for one in parts),
        lines=[f"{one.kind} {one.name}: {one.state}" + (f" (fix: {one.fix})" if one.fix else "") for one in parts],
    )


def _refused(error: ResiftError, url: str) -> StatusRow:
    """A line for a cluster that does not answer, or not with what was asked of it."""
    if isinstance(error, EngineError) and error.status in (401, 403):
        return StatusRow("rights", url, "refused", f"the rights that resift role install prints ({error.message})")
    usual = "is --engine right? (docs/opensearch.md, Reaching a cluster)"
    return StatusRow("cluster", url, error.message, (isinstance(error, UnsupportedCluster) and error.expected) or usual)


def cluster_rows(cluster: Cluster, url: str) -> list[StatusRow]:
    """A line for the cluster: its version, nodes, health and how long it takes to answer; and one for their clocks."""
    version = cluster.engine.ping()
    asked, started = time.time(), time.perf_counter()
    health = cluster.request("GET", "/_cluster/health")
    seconds = time.perf_counter() - started
    fix = "" if health["status"] != "red" else "some shards have no copy: GET _cluster/allocation/explain"
    nodes = f"{health['number_of_nodes']} node{'s' * (health['number_of_nodes'] > 1)}"
    row = StatusRow("cluster", url, f"{version}, {nodes}, {health['status']}, {seconds * 1000:.0f} ms", fix)
    stats = cluster.request("GET", "/_nodes/stats/process")["nodes"].values()
    passed = time.perf_counter() - started
    apart = max(abs(node["timestamp"] / 1000 - asked - passed / 2) for node in stats) - passed / 2
    return [row, _clock_row(url, apart)]


def _clock_row(name: str, apart: float) -> StatusRow:
    """Whether a clock is so many seconds from this machine's, as those that sessions, keys and signatures go by."""
    fix = "" if apart < _CLOCKS_APART else "set the clocks by NTP: sessions and signatures expire by them"
    return StatusRow("clock", name, f"{max(apart, 0):.0f} s apart", fix)


def status_rows(installer: Installer) -> list[StatusRow]:
    """A line for the reranker, and for each setting, resource and missing plugin of an installation."""
    # first: a model that is asked is deployed by that
    resources = [(resource, _resource_row(resource)) for resource in installer.resources()]
    missing = installer.missing_plugins
    return [
        *_reranker_rows(installer),
        *_connector_rows(installer),
        *_setting_rows(installer),
        *_tried(installer, resources),
        *([] if missing else _left_over_rows(installer)),
        *(StatusRow("plugin", name, "missing", f"bin/opensearch-plugin install {name}") for name in missing),
    ]


def _resource_row(resource: Resource) -> StatusRow:
    state = resource.state()
    with_key = f"{_INSTALL} --key KEY"
    fixes = {"ok": "", LAZY: "", "foreign": "not made by Resift: choose another --name"}
    watched = "resift guard switches it on when the reranker answers"
    fixes |= {"no key": with_key, "other key": with_key, "switched off": watched}
    return StatusRow(resource.kind, resource.name, state, fixes.get(state, _INSTALL))


def _tried(installer: Installer, resources: list[tuple[Resource, StatusRow]]) -> list[StatusRow]:
    """The rows of the resources; those of search pipelines say whether the cluster gets searches rewritten by them.

    It may not, although this machine reaches the reranker, and OpenSearch counts no search that fails open.
    """

    def tried(found: tuple[Resource, StatusRow]) -> StatusRow:
        resource, row = found
        wrong = resource.ask() if isinstance(resource, SearchPipeline) and row.in_order else ""
        return replace(row, state="fails open", fix=_unreached(installer, wrong)) if wrong else row

    # at once: where the reranker does not answer, each of them takes a second
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(tried, resources))


def _unreached(installer: Installer, reason: str) -> str:
    return f"let the nodes reach {installer.url}, or {_INSTALL} --service URL --key KEY ({reason})"


def _reranker_rows(installer: Installer) -> list[StatusRow]:
    """The reranker as this machine sees it; the cluster may reach it where this machine does not."""
    url, started = installer.url, time.perf_counter()
    try:
        with urlopen(f"{url}/healthz", timeout=3) as answer:
            found, date = json.load(answer), parsedate_to_datetime(answer.headers["Date"])
            model, version = found["model_hash"], found["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [StatusRow("reranker", url, "no answer here", f"resift serve ({getattr(error, 'reason', error)})")]
    passed, state = time.perf_counter() - started, f"other model {model}"
    known, fix = f"{installer.model.name} ({installer.model.hash})", ""
    if model != installer.model.hash:
        fix = f"resift serve --model DIR, that of {known}, or change over (docs/upgrade.md)"
    else:
        state = f"{version}, {passed * 1000:.0f} ms"
        if version != __version__:
            fix = f"run the same version in both places: this command is of {__version__}"
    # a Date is of whole seconds
    clock = _clock_row(url, abs(date.timestamp() - time.time()) - passed - 1)
    return [StatusRow("reranker", url, state, fix), clock]


def _connector_rows(installer: Installer) -> Iterator[StatusRow]:
    """Whether the cluster reaches the reranker, and how long it takes: it has a word encoded."""
    if installer.missing_plugins or not (found := installer.cluster.named("models", f"{installer.name}-embed")):
        return
    started = time.perf_counter()
    if wrong := installer.cluster.wrong_with(found[0][0], {"input": ["fire"]}):
        yield StatusRow("connector", installer.url, "the cluster gets no answer", _unreached(installer, wrong))
    else:
        seconds = time.perf_counter() - started
        yield StatusRow("connector", installer.url, f"the cluster gets an answer, {seconds * 1000:.0f} ms")


def _setting_rows(installer: Installer) -> list[StatusRow]:
    if installer.missing_plugins or installer.installation.managed:
        return []
    changes = {change.name for change in installer.setting_changes()}
    states = {name: ("not set", _INSTALL) if name in changes else ("ok", "") for name in (PRIVATE, TRUSTED)}
    return [StatusRow("setting", name, *state) for name, state in states.items()]


def _left_over_rows(installer: Installer) -> Iterator[StatusRow]:
    """Pipelines of indices that are gone, or have no vectors of the model any more.

    They are left where they are: a search that names a pipeline which is gone is refused.
    """
    wanted = {one.name for one in installer.index_pipelines() if one.kind == "ingest pipeline"}
    for index, owners in ingest_pipelines(installer.cluster).items():
        name = pipeline_name(index)
        if installer.name in owners and name not in wanted:
            fix = f"DELETE /_ingest/pipeline/{name}, once no setting names it"
            yield StatusRow("ingest pipeline", name, f"no index {index} of this model", fix)
    for name, rewriter in rewriters(installer.cluster).items():
        if rewriter.installation == installer.name and not installer.is_there(rewriter.index):
            yield StatusRow(SearchPipeline.kind, name, f"no index {rewriter.index}", f"resift detach {rewriter.index}")


def index_rows(cluster: Cluster) -> Iterator[StatusRow]:
    """A line for each model's vectors in each index, and for each index that names a pipeline of ours which is gone."""
    served = {one.model.hash for one in installations(cluster).values()}
    pairs = list(_vectors(cluster))
    refusing = {row.name: row for row in _refusing(cluster, {entry.name for _, entry, _ in pairs})}
    for record, entry, kind in pairs:
        documents, covered = _counted(cluster, entry)
        # the field of vectors that were taken back is empty: OpenSearch takes none out of a mapping
        if entry.model is not None or covered:
            standing = _standing(record, entry, documents, covered, served)
            if entry.model and is_ours(entry.vector_field) and kind not in ("knn_vector", "binary"):
                fix = "copy it into an index without that field, and resift attach it with --vectors"
                standing = f"{entry.vector_field} is {kind or 'not mapped'}, and holds no vectors", fix
            yield refusing.pop(entry.name, StatusRow("index", entry.name, *standing))
    yield from refusing.values()


def _vectors(cluster: Cluster) -> Iterator[tuple[IndexRecord, IndexInfo, str]]:
    """Each model's vectors in each index, those that searches use first, with its record and their field's type."""
    filter_path = "*.mappings._meta.resift,*.mappings.properties.resift_vector*.type"
    answer = cluster.request("GET", f"/{INDICES}/_mapping", filter_path=filter_path, **ALL)
    for name, entry in sorted(answer.items()):
        mapping: dict[str, Any] = entry.get("mappings", {})
        record = IndexRecord.read(name, mapping.get("_meta", {}))
        types = {one: field.get("type", "") for one, field in mapping.get("properties", {}).items() if is_ours(one)}
        unknown = (IndexInfo(name, (), None, None, None, vector_field=one) for one in types)
        yield from ((record, one, types.get(one.vector_field, "")) for one in record.known or unknown)


def _refusing(cluster: Cluster, with_vectors: Collection[str]) -> Iterator[StatusRow]:
    """What is wrong with each index that names a pipeline of ours which is gone, and what to do about it.

    A snapshot brings an index with its settings and without the pipelines, and a clone names those of another index.
    Those of indices ``with_vectors`` are made by installing.
    """
    there = {f"{kind} pipeline": {*(cluster.find(f"/_{kind}/pipeline") or {})} for kind in ("search", "ingest")}
    for use in pipeline_uses(cluster):
        is_gone = use.pipeline.startswith(PIPELINE_PREFIX) and use.pipeline not in there[use.pipeline_kind]
        if use.kind == "index" and is_gone:
            refused = "searches" if use.setting == SEARCH else "writes"
            vectors = "" if use.name not in with_vectors else " --vectors"
            is_own = use.pipeline == pipeline_name(use.name) and use.name in with_vectors
            fix = _INSTALL if is_own else f"resift attach {use.name}{vectors} --default-pipelines"
            state = f"{use.setting} is {use.pipeline}, which is missing: {refused} are refused"
            yield StatusRow("index", use.name, state, fix)


def _standing(
    record: IndexRecord, entry: IndexInfo, documents: int | None, covered: int, served: Collection[str]
) -> tuple[str, str]:
    """How vectors stand, of which ``covered`` documents have one, and what to do if that is not right.

    ``documents`` is None for a closed index, and ``served`` are the models of installations, by their hashes.
    """
    name, attach = entry.name, f"resift attach {entry.name} --vectors"
    if entry.model is None:
        return f"{covered} vectors of an unknown model, as in a copy by _reindex", attach
    if documents is None:
        return "closed", ""
    told = f"{covered} of {documents} documents have a vector of {entry.model_name} ({entry.model})"
    if entry == record.filling:
        return f"{told}: attaching was interrupted", attach
    if covered < documents and is_ours(entry.vector_field):
        return told, f"resift verify {name} --repair"
    if served and entry == record.current and entry.model not in served:
        return f"{told}, which no installation serves", f"{attach} --model DIR, with a model that is installed"
    return told, ""


def _counted(cluster: Cluster, entry: IndexInfo) -> tuple[int | None, int]:
    """How many documents the index of vectors has, None if it is closed or gone, and how many of them have one."""
    covered = {"filter": {"exists": {"field": entry.vector_field}}}
    # without a pipeline because the index's own may rerank, or fail
    body = {"size": 0, "track_total_hits": True, "aggs": {"covered": covered}, "search_pipeline": "_none"}
    path = f"/{quote(entry.name, safe='')}/_search"
    found = cluster.request("POST", path, body, ignore_unavailable="true")
    if "aggregations" not in found:  # nothing was searched
        return None, 0
    return found["hits"]["total"]["value"], found["aggregations"]["covered"]["doc_count"]
