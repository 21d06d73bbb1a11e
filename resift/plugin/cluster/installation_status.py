"""How a cluster and what is installed there stand: a line for each part, what is wrong with it, and what mends it."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from resift.errors import ResiftError
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_pipelines import ingest_pipelines
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.resources import LAZY, REMOTE, RemoteModel, Resource
from resift.plugin.cluster.search_pipelines import SearchPipeline, pipeline_name, rewriters, search_counts
from resift.plugin.cluster.settings import PRIVATE, TRUSTED
from resift.plugin.cluster.usage import PipelineUse, StatusRow, index_rows, pipeline_uses
from resift.version import __version__

_INSTALL = "resift install"
_AT_ONCE = 8  # pipelines that are tried
_CLOCKS_APART = 30.0  # seconds; AWS refuses signatures that are five minutes off


def cluster_rows(cluster: Cluster, url: str) -> list[StatusRow]:
    """A line for the cluster: its version, nodes, health and how long it takes to answer; and one for their clocks."""
    version = cluster.engine.ping()
    asked, started = time.time(), time.perf_counter()
    health = cluster.request("GET", "/_cluster/health")
    seconds = time.perf_counter() - started
    fix = "" if health["status"] != "red" else "some shards have no copy: GET _cluster/allocation/explain"
    nodes = f"{health['number_of_nodes']} node{'s' * (health['number_of_nodes'] > 1)}"
    told = f"{version}, {nodes}, {health['status']}, {seconds * 1000:.0f} ms"
    rows = [StatusRow("cluster", url, told, fix)]
    stats = cluster.request("GET", "/_nodes/stats/process")["nodes"].values()
    passed = time.perf_counter() - started
    apart = max(abs(node["timestamp"] / 1000 - asked - passed / 2) for node in stats) - passed / 2
    return [*rows, _clock_row(url, apart)]


def _clock_row(name: str, apart: float) -> StatusRow:
    """Whether a clock is so many seconds from this machine's, as those that sessions, keys and signatures go by."""
    fix = "" if apart < _CLOCKS_APART else "set the clocks by NTP: sessions and signatures expire by them"
    return StatusRow("clock", name, f"{max(apart, 0):.0f} s apart", fix)


def status_rows(installer: Installer) -> list[StatusRow]:
    """A line for the reranker, and for each setting, resource, missing plugin and index with vectors."""
    return _Status(installer).rows()


class _Status:
    """What an installation has, lacks, or has of another version or model, as far as the cluster tells."""

    def __init__(self, installer: Installer) -> None:
        self.installer, self.cluster, self.name, self.url = installer, installer.cluster, installer.name, installer.url

    def rows(self) -> list[StatusRow]:
        missing = self.installer.missing_plugins
        return [
            *self._reranker_rows(),
            *self._connector_rows(),
            *self._setting_rows(),
            *self._resource_rows(),
            *self._left_over_rows(),
            *(StatusRow("plugin", name, "missing", f"bin/opensearch-plugin install {name}") for name in missing),
            *index_rows(self.cluster, self.name, self.installer.model),
        ]

    def _resource_rows(self) -> list[StatusRow]:
        resources = list(self.installer.resources())
        rows = [_resource_row(resource) for resource in resources]
        pipelines = [resource for resource in resources if isinstance(resource, SearchPipeline)]
        searching = [row for row in rows if row.kind == SearchPipeline.kind]
        told = self._tried({row.name for row in searching if row.in_order}, pipelines)
        told |= {row.name: row for row in self._shared(pipelines) if told.get(row.name, row).in_order}
        return [told.get(row.name, row) if row.kind == SearchPipeline.kind else row for row in rows]

    def _shared(self, pipelines: Sequence[SearchPipeline]) -> Iterator[StatusRow]:
        """Pipelines that other indices than those that were attached have got as their defaults since."""
        attached = {pipeline.name: pipeline.rewriter.index for pipeline in pipelines}
        for use in pipeline_uses(self.cluster, attached, SearchPipeline.kind):
            name = attached[use.pipeline]
            if use.kind == "index" and use.name not in (name, *self.installer.engine.resolve(name)):
                state = f"has searches of {use.name} rewritten as if they were of {name}"
                fix = f"resift attach {use.name} --default-pipelines"
                yield StatusRow(SearchPipeline.kind, use.pipeline, state, fix)

    def _tried(self, in_order: Collection[str], pipelines: Sequence[SearchPipeline]) -> dict[str, StatusRow]:
        """By the name of each pipeline that is ``in_order``, whether the cluster gets its searches rewritten.

        It may not, although this machine reaches the reranker, and OpenSearch counts no search that fails open.
        """
        tried = [pipeline for pipeline in pipelines if pipeline.name in in_order]
        counts = search_counts(self.cluster) if tried else {}
        # at once: where the reranker does not answer, each of them takes a second
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            reasons = list(pool.map(SearchPipeline.ask, tried))
        rows = {}
        for pipeline, wrong in zip(tried, reasons, strict=True):
            scope = pipeline.rewriter.index
            of = "" if pipeline.name == pipeline_name(scope) else f", of {scope}"
            told = f"{counts.get(pipeline.name, 0)} searches since the node started{of}"
            state = f"{'fails open' if wrong else 'ok'}, {told}"
            fix = f"let the nodes reach {self.url}, or {_INSTALL} --reranker URL ({wrong})" if wrong else ""
            rows[pipeline.name] = StatusRow(pipeline.kind, pipeline.name, state, fix)
        return rows

    def _left_over_rows(self) -> list[StatusRow]:
        """Pipelines of indices that are gone, or have no vectors of the model any more."""
        # Left where they are: a search that names a pipeline which is gone is refused, and with them it is answered.
        if self.installer.missing_plugins:
            return []
        wanted = {one.name for one in self.installer.index_pipelines() if one.kind == "ingest pipeline"}
        owned = [index for index, owners in ingest_pipelines(self.cluster).items() if self.name in owners]
        left = [index for index in owned if pipeline_name(index) not in wanted]
        uses = {
            use.pipeline: use for use in pipeline_uses(self.cluster, set(map(pipeline_name, left)), "ingest pipeline")
        }
        rows = [_left_over_row(index, uses.get(pipeline_name(index))) for index in left]
        for name, rewriter in rewriters(self.cluster).items():
            if rewriter.installation == self.name and not self.installer.is_there(rewriter.index):
                gone, fix = f"no index {rewriter.index}", f"resift detach {rewriter.index}"
                rows.append(StatusRow(SearchPipeline.kind, name, gone, fix))
        return rows

    def _reranker_rows(self) -> list[StatusRow]:
        """The reranker as this machine sees it; the cluster may reach it where this machine does not."""
        started = time.perf_counter()
        try:
            with urlopen(f"{self.url}/healthz", timeout=3) as answer:
                found, date = json.load(answer), parsedate_to_datetime(answer.headers["Date"])
                model, version = found["model_hash"], found["version"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            return [StatusRow("reranker", self.url, "no answer here", f"resift serve ({error})")]
        passed = time.perf_counter() - started
        row = self._reranker_row(model, f"{version}, {passed * 1000:.0f} ms")
        # a Date is of whole seconds
        return [row, _clock_row(self.url, abs(date.timestamp() - time.time()) - passed - 1)]

    def _reranker_row(self, model: str, told: str) -> StatusRow:
        if model != self.installer.model.hash:
            known = f"{self.installer.model.name} ({self.installer.model.hash})"
            fix = f"resift serve --model DIR, that of {known}, or change over (docs/upgrade.md)"
            return StatusRow("reranker", self.url, f"other model {model}", fix)
        if self._is_refused():
            state = "refuses the key" if self.installer.values["key"] else "wants a key"
            return StatusRow("reranker", self.url, state, f"{_INSTALL} --key KEY")
        version = told.partition(",")[0]
        fix = "" if version == __version__ else f"run the same version in both places: this command is of {__version__}"
        return StatusRow("reranker", self.url, told, fix)

    def _connector_rows(self) -> Iterator[StatusRow]:
        """Whether the cluster reaches the reranker, and how long it takes: it has a word encoded."""
        if self.installer.missing_plugins or not (found := self.cluster.named("models", f"{self.name}-embed")):
            return
        path, body = f"/_plugins/_ml/models/{found[0][0]}/_predict", {"parameters": {"input": ["fire"]}}
        started = time.perf_counter()
        try:
            self.cluster.request("POST", path, body)
        except ResiftError as error:
            fix = f"let the nodes reach {self.url}, or {_INSTALL} --reranker URL ({error.message})"
            yield StatusRow("connector", self.url, "the cluster gets no answer", fix)
        else:
            seconds = time.perf_counter() - started
            yield StatusRow("connector", self.url, f"the cluster gets an answer, {seconds * 1000:.0f} ms")

    def _is_refused(self) -> bool:
        """Whether the reranker refuses what the connectors will ask for, as far as the key is known here."""
        key = None if self.installer.installation.managed else self.installer.values["key"]  # an ARN there
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        try:
            urlopen(Request(f"{self.url}/v1/embeddings", b'{"input": []}', headers), timeout=3).close()
        except HTTPError as error:
            error.close()
            return error.code in (401, 403) and (key is not None or not self._sends_key())
        except OSError:
            return False
        return False

    def _sends_key(self) -> bool:
        if self.installer.missing_plugins:
            return False
        return any(RemoteModel(self.cluster, which, self.installer.values).sent_key for which in REMOTE)

    def _setting_rows(self) -> list[StatusRow]:
        if self.installer.missing_plugins or self.installer.installation.managed:
            return []
        changes = {change.name for change in self.installer.setting_changes()}
        states = {name: ("not set", _INSTALL) if name in changes else ("ok", "") for name in (PRIVATE, TRUSTED)}
        return [StatusRow("setting", name, *state) for name, state in states.items()]


def _resource_row(resource: Resource) -> StatusRow:
    state = resource.state()
    with_key = f"{_INSTALL} --key KEY"
    fixes = {"ok": "", LAZY: "", "foreign": "not made by Resift: choose another --name"}
    watched = "resift guard switches it on when the reranker answers"
    fixes |= {"no key": with_key, "other key": with_key, "switched off": watched}
    return StatusRow(resource.kind, resource.name, state, fixes.get(state, _INSTALL))


def _left_over_row(index: str, use: PipelineUse | None) -> StatusRow:
    name = pipeline_name(index)
    fix, delete = f"index or attach {index} with this model", f"DELETE /_ingest/pipeline/{name}"
    if use is None:
        fix = f"{fix}, or {delete}"
    elif use.name != index:  # its writes would be refused without it
        fix = f"{use.release}; then {delete}"
    return StatusRow("ingest pipeline", name, f"no index {index} of this model", fix)
