"""``resift install`` and ``uninstall``: the resources of a cluster are made and removed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from resift.contracts.documents import ModelDescription
from resift.errors import BadInput, EngineError, NotFound
from resift.plugin import read_resource
from resift.plugin.addresses import without_credentials
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_pipelines import (
    WITHOUT,
    IndexPipelines,
    ingest_pipelines,
    refuse,
    remove_ingest_pipeline,
    uses_of,
)
from resift.plugin.cluster.index_record import IndexRecord, records
from resift.plugin.cluster.installation import Installation, Managed, installations
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
from resift.plugin.cluster.search_pipelines import all_pipelines, pipeline_name, rewriters, take_out, would_be_deleted
from resift.plugin.cluster.settings import Change, ClusterSettings
from resift.plugin.cluster.templates import render
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.mappings import SETTINGS, mappings
from resift.version import __version__

_PLUGINS = ("opensearch-knn", "opensearch-ml", "opensearch-neural-search")


class Installer:
    """Everything that is installed in a cluster under one name, for one model and one reranker.

    ``model`` need only be described, ``fields`` are the text fields that the ingest pipeline encodes, ``url`` is the
    reranker's address as the nodes reach it, ``name`` the prefix of everything that is made, ``key`` the API key that
    the reranker wants, if it wants one, and ``managed`` says who manages the cluster's settings, if not its operator.
    Raises BadInput if ``url`` is not an address or ``name`` cannot be a prefix. All methods raise EngineUnavailable and
    EngineError as the cluster gives cause.
    """

    def __init__(
        self,
        engine: OpenSearchEngine,
        model: ModelDescription,
        fields: Sequence[str],
        url: str,
        name: str = "resift",
        key: str | None = None,
        managed: Managed | None = None,
    ) -> None:
        _check_reranker(url)
        if managed is not None:
            managed.check_reranker(url)
            key = managed.secret or key
        if not re.fullmatch(r"[a-z][a-z0-9_-]*", name):
            raise BadInput(
                f"{name!r} cannot name an installation", value=name, expected="lower-case letters, digits, - and _"
            )
        self.engine, self.model, self.name, self.url = engine, model, name, url.rstrip("/")
        self.cluster = Cluster(engine)
        self.settings = ClusterSettings(self.cluster, self.url)
        self.installation = Installation(name, model, tuple(fields), self.url, managed)
        self.values: dict[str, Any] = {
            "name": name,
            "version": __version__,
            "model": model.hash,
            "url": self.url,
            "fields": list(fields),
            "key": key,
            "managed": managed.to_dict() if managed else None,
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
            yield from self.index_pipelines()

    def _own_resources(self) -> Iterator[Resource]:
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
        changes = self.setting_changes()
        # With the template, so that uninstall knows the values on any machine; hence it is written again for them.
        self.values["settings_before"] = self.settings.with_originals(self._settings_before(), changes)
        before = installations(self.cluster).get(self.name)
        steps = before.differences(self.installation) if before else []
        steps += [f"{change} (cluster setting)" for change in changes]
        for resource in self.resources():
            state = resource.state()
            if state == "foreign":
                message = f"{resource.kind} {resource.name} exists and is not Resift's"
                raise EngineError(message, status=409, value=resource.name, expected="another --name")
            if state in ("ok", LAZY) and not (changes and isinstance(resource, IndexTemplate)):
                continue
            create = f"create {resource.kind} {resource.name}"
            steps.append(create if state == "missing" else f"replace {resource.kind} {resource.name} ({state})")
            if not dry_run:
                resource.make()
                if changes and isinstance(resource, IndexTemplate):  # not before it holds what they were
                    self.cluster.set({change.name: change.then for change in changes})
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
        others = [one.url for one in self._others().values()]
        changes: dict[str, Any]
        if self.installation.managed:
            changes = {}
        elif others and originals:
            # they need the settings as well: the last of them puts them back
            steps.append("leave the cluster's settings to other installations")
            changes = self.settings.leaving_changes(others)
        else:
            changes = self.settings.restoring_changes(originals)
        for name, value in changes.items():
            steps.append(f"reset setting {name} to {'its default' if value is None else value}")
        if changes and not dry_run:
            self.cluster.set(changes)
        return steps

    def index_pipelines(self) -> list[Resource]:
        """The pipelines that are to ask this installation: of searches, and of what is written to indices."""
        ids = {f"{self.name}-{which}": self.values[f"{which}_id"] for which in REMOTE}
        installed = {**installations(self.cluster), self.name: self.installation}
        pipelines = IndexPipelines(self.cluster, dict(sorted(installed.items())), ids)
        known = {name: one for name, one in records(self.cluster).items() if name not in WITHOUT}
        ingest = [pipelines.ingest(record) for record in known.values()]
        search = [one for one in pipelines.search(self.name, known) if self.is_there(one.rewriter.index)]
        return [*search, *(one for one in ingest if one and self.name in one.owners)]

    def _release_pipelines(self, dry_run: bool) -> list[str]:
        """Take what asks this installation out of the pipelines of indices; return the steps."""
        if self.missing_plugins:
            return []
        steps, known = [], records(self.cluster)
        others = self._others()
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

    def is_there(self, index: str) -> bool:
        """Whether there is an index of a name, or an alias, a pattern or a data stream that stands for some."""
        with suppress(NotFound):
            return bool(self.engine.resolve(index))
        return False

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

    def setting_changes(self) -> list[Change]:
        """The settings of the cluster that are not as they must be; none where they are its provider's."""
        # Without its plugin OpenSearch refuses a setting of ML Commons.
        return [] if self.missing_plugins or self.installation.managed else self.settings.required_changes()

    def _settings_before(self) -> dict[str, Any]:
        """What the settings were before the first installation, of which each one has a record."""
        found = [IndexTemplate(self.cluster, name, self.values) for name in (self.name, *self._others())]
        return next((before for one in found if (before := one.settings_before())), {})

    def _others(self) -> dict[str, Installation]:
        return {name: one for name, one in installations(self.cluster).items() if name != self.name}

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
        uses = uses_of(self.cluster, ingest, "ingest pipeline")
        refuse([*uses, *uses_of(self.cluster, search, "search pipeline")])


def _check_reranker(url: str) -> None:
    parts, shown = urlsplit(url), without_credentials(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput(f"{shown!r} is not a reranker's address", value=shown, expected="http://HOST:PORT")
    if parts.username is not None:  # everybody who may look at the cluster's templates could read it
        raise BadInput(f"the reranker's address {shown} holds a user", value=shown, expected=f"{shown} and --key KEY")
