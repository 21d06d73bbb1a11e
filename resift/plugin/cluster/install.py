"""``resift install``, ``uninstall`` and ``status``: resources of a cluster made, removed and checked."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from resift.contracts.documents import ModelDescription
from resift.errors import BadInput, EngineError, NotFound
from resift.plugin.addresses import without_credentials
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_pipelines import WITHOUT, IndexPipelines, ingest_pipelines, remove_ingest_pipeline
from resift.plugin.cluster.index_record import IndexRecord, records
from resift.plugin.cluster.installation import Installation, hand_over, installations
from resift.plugin.cluster.resources import (
    LAZY,
    PIPELINES,
    REMOTE,
    SCRIPTS,
    IndexTemplate,
    Pipeline,
    RemoteModel,
    Resource,
    Script,
)
from resift.plugin.cluster.search_pipelines import (
    SearchPipeline,
    all_pipelines,
    pipeline_name,
    rewriters,
    search_counts,
    take_out,
    would_be_deleted,
)
from resift.plugin.cluster.settings import SWITCHES, TRUSTED, ClusterSettings
from resift.plugin.cluster.templates import render
from resift.plugin.cluster.usage import PipelineUse, index_states, pipeline_uses
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.mappings import SETTINGS, mappings
from resift.plugin.resource_files import read_resource
from resift.version import __version__

_PLUGINS = ("opensearch-knn", "opensearch-ml", "opensearch-neural-search")
_INSTALL = "resift install"
_AT_ONCE = 8  # pipelines that are tried


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


class Installer:
    """Everything that is installed in a cluster under one name, for one model and one reranker.

    ``model`` need only be described, ``fields`` are the text fields that the ingest pipeline encodes, ``url`` is the
    reranker's address as the nodes reach it, ``name`` the prefix of everything that is made, and ``key`` the API key
    that the reranker wants, if it wants one. Raises BadInput if ``url`` is not an address or ``name`` cannot be a
    prefix. All methods raise EngineUnavailable and EngineError as the cluster gives cause.
    """

    def __init__(
        self,
        engine: OpenSearchEngine,
        model: ModelDescription,
        fields: Sequence[str],
        url: str,
        name: str = "resift",
        key: str | None = None,
    ) -> None:
        _check_reranker(url)
        if not re.fullmatch(r"[a-z][a-z0-9_-]*", name):
            raise BadInput(
                f"{name!r} cannot name an installation", value=name, expected="lower-case letters, digits, - and _"
            )
        self.engine, self.model, self.name, self.url = engine, model, name, url.rstrip("/")
        self.cluster = Cluster(engine)
        self.settings = ClusterSettings(self.cluster, self.url)
        self.installation = Installation(name, model, tuple(fields), self.url)
        self.values: dict[str, Any] = {
            "name": name,
            "version": __version__,
            "model": model.hash,
            "url": self.url,
            "fields": list(fields),
            "key": key,
            "gather_text": read_resource("gather_text.painless"),
            "tidy_up": read_resource("tidy_up.painless"),
            "settings": SETTINGS,
            "mappings": mappings(fields, model),
        }

    @cached_property
    def missing_plugins(self) -> list[str]:
        """The plugins that the pipelines need and the cluster lacks; scripts and the index template go without."""
        return sorted(set(_PLUGINS) - self.cluster.plugins())

    def resources(self) -> Iterator[Resource]:
        """Yield all resources in the order in which they are made.

        Make each before the next is taken: the pipelines hold the ids that the remote models were given.
        """
        yield from self._own_resources()
        if not self.missing_plugins:
            yield from self._index_pipelines()

    def _own_resources(self) -> Iterator[Resource]:
        """All but the pipelines of indices."""
        yield from (Script(self.cluster, self.name, script) for script in SCRIPTS)
        yield IndexTemplate(self.cluster, self.name, self.values)
        if self.missing_plugins:
            return
        for which in REMOTE:
            remote = RemoteModel(self.cluster, which, self.values)
            yield remote
            self.values[f"{which}_id"] = remote.model_id
        for kind, which in (("ingest", "ingest"), *(("search", which) for which in PIPELINES)):
            yield Pipeline(self.cluster, kind, f"{self.name}-{which}", *render(f"{which}-pipeline", self.values))

    def install(self, dry_run: bool = False) -> list[str]:
        """Make what is missing or different; return the steps taken, or with ``dry_run`` those that would be.

        Raises EngineError with status 409 if a resource of that name exists that Resift did not make, and BadInput if
        connectors have to be replaced that carry a key, and none was given.
        """
        self._require_key()
        changes = self._setting_changes()
        # With the template, so that uninstall knows the values on any machine; hence it is written again for them.
        self.values["settings_before"] = self.settings.with_originals(self._settings_before(), changes)
        before = installations(self.cluster).get(self.name)
        steps = before.differences(self.installation) if before else []
        steps += [f"{_change_of(name, value)} (cluster setting)" for name, value in changes.items()]
        for resource in self.resources():
            state = resource.state()
            if state == "foreign":
                raise _foreign(resource)
            if state in ("ok", LAZY) and not (changes and isinstance(resource, IndexTemplate)):
                continue
            create = f"create {resource.kind} {resource.name}"
            steps.append(create if state == "missing" else f"replace {resource.kind} {resource.name} ({state})")
            if not dry_run:
                resource.make()
                if changes and isinstance(resource, IndexTemplate):  # not before it holds what they were
                    self.cluster.set(changes)
        return steps

    def uninstall(self, dry_run: bool = False) -> list[str]:
        """Remove what :meth:`install` made, and nothing else; return the steps taken, or that would be.

        Raises EngineError with status 409 if an index, a template or another pipeline names one of our pipelines.
        """
        self._refuse_if_used()
        originals = self._settings_before()  # read now: the template that holds them is removed below
        steps = []
        # In reverse, so that clients never meet a pipeline whose model is gone.
        steps += self._release_pipelines(dry_run)
        for resource in reversed(list(self._own_resources())):
            if resource.state() in ("missing", "foreign"):
                continue
            steps.append(f"remove {resource.kind} {resource.name}")
            if not dry_run:
                resource.remove()
        heirs = sorted(set(installations(self.cluster)) - {self.name})
        if heirs and originals:
            # They need the settings as well: the last of them puts them back.
            steps.append(f"leave the cluster's settings to installation {heirs[0]}")
            if not dry_run:
                hand_over(self.cluster, heirs[0], originals)
            return steps
        changes = self.settings.restoring_changes(originals)
        for name, value in changes.items():
            steps.append(f"reset setting {name} to {'its default' if value is None else value}")
        if changes and not dry_run:
            self.cluster.set(changes)
        return steps

    def status(self) -> list[StatusRow]:
        """Return a line for the reranker, and for each setting, resource, missing plugin and index with vectors."""
        return [
            self._reranker_row(),
            *self._setting_rows(),
            *self._resource_rows(),
            *self._left_over_rows(),
            *self._plugin_rows(),
            *self._index_rows(),
        ]

    def _resource_rows(self) -> list[StatusRow]:
        resources = list(self.resources())
        rows = [_resource_row(resource) for resource in resources]
        pipelines = [resource for resource in resources if isinstance(resource, SearchPipeline)]
        searching = [row for row in rows if row.kind == "search pipeline"]
        tried = self._tried({row.name for row in searching if row.in_order}, pipelines)
        return [tried.get(row.name, row) if row.kind == "search pipeline" else row for row in rows]

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

    def _index_pipelines(self) -> list[Resource]:
        """The pipelines that are to ask this installation: of searches, and of what is written to indices."""
        ours = {self.name: self.installation}
        ids = {f"{self.name}-{which}": self.values[f"{which}_id"] for which in REMOTE}
        pipelines = IndexPipelines(self.cluster, {**ours, **installations(self.cluster), **ours}, ids)
        known = {name: one for name, one in records(self.cluster).items() if name not in WITHOUT}
        ingest = [pipelines.ingest(record) for record in known.values()]
        return [*pipelines.search(self.name, known), *(one for one in ingest if one and self.name in one.owners)]

    def _release_pipelines(self, dry_run: bool) -> list[str]:
        """Take what asks this installation out of the pipelines of indices; return the steps."""
        if self.missing_plugins:
            return []
        steps, known = [], records(self.cluster)
        others = {name: one for name, one in installations(self.cluster).items() if name != self.name}
        for name, rewriter in rewriters(self.cluster).items():
            if rewriter.installation == self.name:
                steps.append(f"remove search pipeline {name}")
                if not dry_run:
                    take_out(self.cluster, name)
        for index, owners in ingest_pipelines(self.cluster).items():
            if self.name not in owners:
                continue
            # what others encode there goes on
            left = IndexPipelines(self.cluster, others).ingest(known.get(index) or IndexRecord(index))
            steps.append(f"{'change' if left else 'remove'} ingest pipeline {pipeline_name(index)}")
            if not dry_run:
                left.make() if left else remove_ingest_pipeline(self.cluster, index)
        return steps

    def _left_over_rows(self) -> list[StatusRow]:
        """Pipelines of indices that are gone, or have no vectors of the model any more."""
        # Left where they are: a search that names a pipeline which is gone is refused, and with them it is answered.
        if self.missing_plugins:
            return []
        wanted = {one.name for one in self._index_pipelines() if one.kind == "ingest pipeline"}
        owned = [index for index, owners in ingest_pipelines(self.cluster).items() if self.name in owners]
        left = [index for index in owned if pipeline_name(index) not in wanted]
        uses = {
            use.pipeline: use for use in pipeline_uses(self.cluster, set(map(pipeline_name, left)), "ingest pipeline")
        }
        rows = [_left_over_row(index, uses.get(pipeline_name(index))) for index in left]
        for name, rewriter in rewriters(self.cluster).items():
            if rewriter.installation == self.name and not self._is_there(rewriter.index):
                gone, fix = f"no index {rewriter.index}", f"resift detach {rewriter.index}"
                rows.append(StatusRow(SearchPipeline.kind, name, gone, fix))
        return rows

    def _is_there(self, index: str) -> bool:
        with suppress(NotFound):
            return bool(self.engine.resolve(index))
        return False

    def _reranker_row(self) -> StatusRow:
        """The reranker as this machine sees it; the cluster may reach it where this machine does not."""
        try:
            with urlopen(f"{self.url}/healthz", timeout=3) as answer:
                model = json.load(answer)["model_hash"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            return StatusRow("reranker", self.url, "no answer here", f"resift serve ({error})")
        if model != self.model.hash:
            known = f"{self.model.name} ({self.model.hash})"
            fix = f"resift serve --model DIR, that of {known}, or change over (docs/upgrade.md)"
            return StatusRow("reranker", self.url, f"other model {model}", fix)
        if self._is_refused():
            state = "refuses the key" if self.values["key"] else "wants a key"
            return StatusRow("reranker", self.url, state, f"{_INSTALL} --key KEY")
        return StatusRow("reranker", self.url, "ok")

    def _is_refused(self) -> bool:
        """Whether the reranker refuses what the connectors will ask for, as far as the key is known here."""
        key = self.values["key"]
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
        """Whether the connectors that are installed carry a key."""
        if self.missing_plugins:
            return False
        return any(RemoteModel(self.cluster, which, self.values).sent_key for which in REMOTE)

    def _require_key(self) -> None:
        """Raise BadInput where connectors with a key would be replaced by some without one."""
        if self.values["key"] is not None or self.missing_plugins:
            return
        for remote in [RemoteModel(self.cluster, which, self.values) for which in REMOTE]:
            if remote.sent_key is not None and remote.state() not in ("ok", LAZY, "missing", "foreign"):
                raise BadInput(
                    f"{remote.kind} {remote.name} has to be replaced, and carries an API key",
                    value=remote.name,
                    expected="the key again: --key KEY, or RESIFT_API_KEY",
                )

    def _setting_rows(self) -> list[StatusRow]:
        if self.missing_plugins:
            return []
        changes = self._setting_changes()
        states = {name: ("not set", _INSTALL) if name in changes else ("ok", "") for name in (*SWITCHES, TRUSTED)}
        return [StatusRow("setting", name, *state) for name, state in states.items()]

    def _plugin_rows(self) -> list[StatusRow]:
        install = "bin/opensearch-plugin install"
        return [StatusRow("plugin", name, "missing", f"{install} {name}") for name in self.missing_plugins]

    def _index_rows(self) -> list[StatusRow]:
        """The indices with vectors, or that are to get some; those of other installations are for these to judge."""
        others = {one.model.hash: one.name for one in installations(self.cluster).values()}
        rows = []
        for index in index_states(self.cluster, self.name, self.model):
            other = others.get(index.model or "")
            if index.name in WITHOUT and index.state == "ok":
                state, fix = (
                    f"{pipeline_name(index.name)} is no pipeline of its own",
                    "copy it into one of another name",
                )
                rows.append(StatusRow("index", index.name, state, fix))
            elif index.model == self.model.hash or index.written or other is None:
                rows.append(StatusRow("index", index.name, index.state, index.fix))
            else:
                rows.append(StatusRow("index", index.name, f"of installation {other}"))
        return rows

    def _setting_changes(self) -> dict[str, Any]:
        # Without its plugin OpenSearch refuses a setting of ML Commons.
        return {} if self.missing_plugins else self.settings.required_changes()

    def _settings_before(self) -> dict[str, Any]:
        return IndexTemplate(self.cluster, self.name, self.values).settings_before()

    def _refuse_if_used(self) -> None:
        """Raise EngineError for whatever names a pipeline that is to go, since it would refuse writes or searches, and
        for pipelines of others that ask us: each of their searches would ask in vain."""
        ingest = {f"{self.name}-ingest"}
        ingest |= {
            pipeline_name(one) for one, owners in ingest_pipelines(self.cluster).items() if owners == {self.name}
        }
        search, found = {f"{self.name}-{one}" for one in PIPELINES}, all_pipelines(self.cluster)
        for name, rewriter in rewriters(self.cluster).items():
            if rewriter.installation == self.name and not would_be_deleted(found[name]):
                message = f"search pipeline {name} has searches of {rewriter.index} rewritten"
                raise EngineError(message, status=409, value=name, expected=f"resift detach {rewriter.index} first")
            search |= {name} if rewriter.installation == self.name else set()
        uses = [
            *pipeline_uses(self.cluster, ingest, "ingest pipeline"),
            *pipeline_uses(self.cluster, search, "search pipeline"),
        ]
        if uses:
            shown = "; ".join(f"{use.setting} of {use.kind} {use.name} is {use.pipeline}" for use in uses[:5])
            more = f"; and {len(uses) - 5} more" if len(uses) > 5 else ""
            attached = f"resift detach {uses[0].name}, or " if uses[0].kind == "index" else ""
            raise EngineError(f"{shown}{more}", status=409, value=uses[0].name, expected=f"{attached}unset it first")


def _check_reranker(url: str) -> None:
    parts, shown = urlsplit(url), without_credentials(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput(f"{shown!r} is not a reranker's address", value=shown, expected="http://HOST:PORT")
    if parts.username is not None:  # everybody who may look at the cluster's templates could read it
        raise BadInput(f"the reranker's address {shown} holds a user", value=shown, expected=f"{shown} and --key KEY")


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


def _change_of(name: str, value: Any) -> str:
    return f"append {value[-1]} to {name}" if name == TRUSTED else f"set {name} to {value}"


def _foreign(resource: Resource) -> EngineError:
    message = f"{resource.kind} {resource.name} exists and is not Resift's"
    return EngineError(message, status=409, value=resource.name, expected="another --name")
