"""The installer behind ``resift install`` and ``resift uninstall``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from resift.errors import BadInput, EngineError, NotFound
from resift.plugin import read_resource
from resift.plugin.addresses import without_credentials
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_pipelines import (
    RESERVED_NAMES,
    IndexPipelines,
    ingest_pipeline_owners,
    remove_ingest_pipeline,
)
from resift.plugin.cluster.index_record import IndexRecord, indices_with_model, read_records
from resift.plugin.cluster.installation import Installation, find_installations
from resift.plugin.cluster.native_plugin import NativePlugin
from resift.plugin.cluster.pipeline_uses import refuse_if_used, uses_of_pipelines
from resift.plugin.cluster.remote_model import DEPLOYS_LAZILY, REMOTE_MODELS, RemoteModel
from resift.plugin.cluster.resources import PIPELINES, SCRIPTS, IndexTemplate, Pipeline, Resource, Script
from resift.plugin.cluster.search_pipelines import (
    REFUSED_SEARCHES,
    all_pipelines,
    find_rewriters,
    pipeline_name,
    remove_processor,
    would_be_deleted,
)
from resift.plugin.cluster.settings import ClusterSettings, SettingChange
from resift.plugin.cluster.templates import ingest_batch_size, render_template
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.mappings import SETTINGS, mappings
from resift.version import __version__

_PLUGINS = ("opensearch-knn", "opensearch-ml", "opensearch-neural-search")


@dataclass(frozen=True)
class UnservedIndex:
    """An index with vectors of a model that an installation no longer has after its model is replaced.

    Attributes:
        name: The name of the index.
        is_rewritten: Whether the service of the installation rewrites searches of the index by these vectors. It does
            not if Resift's native plugin rewrites them, because the plugin calls a service without an installation.
        is_encoded: Whether the service of the installation encodes new documents of the index.
    """

    name: str
    is_rewritten: bool
    is_encoded: bool


class Installer:
    """Creates, updates and removes the resources of a Resift installation in a cluster.

    All methods raise EngineUnavailable if no node answers, and EngineError if the cluster refuses a request.

    Args:
        engine: The engine that is connected to the cluster.
        installation: The desired installation. Its ``url`` is the address at which the nodes reach the service. Its
            model is a description without the weights, so a model on another machine can be installed.
        key: The API key of the service, or None if the service needs no key.

    Attributes:
        template_values: The values of the placeholders in the templates of the resources.

    Raises:
        BadInput: If the name or the URL of the installation is invalid.
    """

    def __init__(self, engine: OpenSearchEngine, installation: Installation, key: str | None = None) -> None:
        name, model, managed = installation.name, installation.model, installation.managed
        check_service_url(installation.url)
        if managed is not None:
            managed.check_service_url(installation.url)
            key = managed.secret or key
        if not re.fullmatch(r"[a-z][a-z0-9_-]*", name):
            message = f"{name!r} cannot be the name of an installation"
            raise BadInput(message, value=name, expected="lower-case letters, digits, - and _, beginning with a letter")
        self.engine, self.model, self.name, self.url = engine, model, name, installation.url.rstrip("/")
        self.cluster = Cluster(engine)
        self.settings = ClusterSettings(self.cluster, self.url)
        self.installation = Installation(name, model, installation.fields, self.url, managed)
        self.template_values: dict[str, Any] = {
            "name": name,
            "version": __version__,
            "model": model.hash,
            "url": self.url,
            "fields": list(installation.fields),
            "bags": model.bags,
            "batch_size": ingest_batch_size(model.bags),
            "key": key,
            "managed": managed.to_dict() if managed else None,
            "gather_text": read_resource("gather_text.painless"),
            "tidy_up": read_resource("tidy_up.painless"),
            "settings": SETTINGS,
            "mappings": mappings(installation.fields, model),
        }

    @cached_property
    def missing_plugins(self) -> list[str]:
        """The names of the OpenSearch plugins that ``resift install`` needs, but that the cluster lacks.

        If a plugin is missing, only the scripts and the index template are installed.
        """
        return sorted(set(_PLUGINS) - self.cluster.plugins())

    @cached_property
    def has_native_plugin(self) -> bool:
        """Whether Resift's native plugin is installed on every node of the cluster.

        If it is, searches can be rewritten without the resources that ``resift install`` creates.
        """
        return NativePlugin.read(self.cluster).is_on_all_nodes

    def resources(self) -> Iterator[Resource]:
        """Yield all resources that ``resift install`` creates in the cluster, such as scripts and pipelines.

        They are in the order in which they must be created. Create each resource before you request the next one:
        pipelines contain the ids of remote models, which are only known after the models have been created.
        """
        yield from self._own_resources()
        if not self.missing_plugins:
            yield from self.index_pipelines()

    def _own_resources(self) -> Iterator[Resource]:
        """Yield all resources that ``resift install`` creates, except the pipelines of individual indices."""
        yield from (Script(self.cluster, self.name, script) for script in SCRIPTS)
        yield IndexTemplate(self.cluster, self.name, self.template_values)
        if self.missing_plugins:
            return
        for endpoint in REMOTE_MODELS:
            remote = RemoteModel(self.cluster, endpoint, self.template_values)
            yield remote
            self.template_values[f"{endpoint}_id"] = remote.model_id
        for kind, suffix in (("ingest", "ingest"), *(("search", suffix) for suffix in PIPELINES)):
            yield Pipeline(
                self.cluster,
                kind,
                f"{self.name}-{suffix}",
                *render_template(f"{suffix}-pipeline", self.template_values),
            )

    def install(self, dry_run: bool = False) -> list[str]:
        """Install Resift in the cluster, or update an existing installation.

        Missing resources, such as scripts and pipelines, are created. Outdated resources are replaced, and the
        necessary cluster settings are changed.

        Args:
            dry_run: Whether to return the steps without executing them.

        Returns:
            A line of text about each step.

        Raises:
            EngineError: With status 409, if somebody else has created a resource with the same name.
            BadInput: If a connector that contains an API key must be replaced, but the key was not passed again.
        """
        self._require_key()
        changes = self.setting_changes()
        # The index template records the original settings, so that ``uninstall`` knows them on any machine. It is
        # written again whenever settings change.
        self.template_values["settings_before"] = self.settings.record_originals(self._settings_before(), changes)
        before = find_installations(self.cluster).get(self.name)
        steps = before.differences(self.installation) if before else []
        steps += [f"{change} (cluster setting)" for change in changes]
        for resource in self.resources():
            state = resource.state()
            if state == "foreign":
                message = f"{resource.kind} {resource.name} exists, and was not created by Resift"
                raise EngineError(message, status=409, value=resource.name, expected="a different --name")
            records_settings = bool(changes) and isinstance(resource, IndexTemplate)
            if state in ("ok", DEPLOYS_LAZILY) and not records_settings:
                continue
            if state == "missing":
                steps.append(f"create {resource.kind} {resource.name}")
            else:
                steps.append(f"replace {resource.kind} {resource.name} ({state})")
            if dry_run:
                continue
            resource.create()
            if records_settings:  # the template now records the original settings, so they can be changed
                self.cluster.update_settings({change.name: change.new_value for change in changes})
        return steps

    def unserved_indices(self) -> list[UnservedIndex]:
        """Return the indices that would lose the service for their vectors if :meth:`install` replaced the model.

        These are the indices whose searches use vectors of the model that the installation has now. The result is empty
        if the installation is new, or if it keeps its model.
        """
        before = find_installations(self.cluster).get(self.name)
        if before is None or before.model.hash == self.model.hash:
            return []
        names = indices_with_model(self.cluster, before.model.hash)
        if not names:
            return []
        rewritten: set[str] = set()
        for rewriter in find_rewriters(self.cluster).values():
            # Without vectors, a search is still rewritten after the model was replaced.
            if rewriter.installation == self.name and rewriter.model == before.model.hash:
                with suppress(NotFound):  # the index was deleted
                    rewritten |= {*self.engine.resolve(rewriter.index)}
        owners = ingest_pipeline_owners(self.cluster)
        return [UnservedIndex(name, name in rewritten, self.name in owners.get(name, ())) for name in names]

    def uninstall(self, dry_run: bool = False) -> list[str]:
        """Remove everything that :meth:`install` created, and restore the cluster settings.

        Args:
            dry_run: Whether to return the steps without executing them.

        Returns:
            A line of text about each step.

        Raises:
            EngineError: With status 409, if an index, a template or another pipeline still uses a pipeline of the
                installation.
        """
        self._refuse_if_used()
        originals = self._settings_before()  # read before the template that records them is removed
        steps = self._release_pipelines(dry_run)
        # Remove resources in reverse order, so that clients never use a pipeline whose model is missing.
        for resource in reversed(list(self._own_resources())):
            if resource.state() in ("missing", "foreign"):
                continue
            steps.append(f"remove {resource.kind} {resource.name}")
            if not dry_run:
                resource.remove()
        changes: dict[str, Any] = {}
        if not self.installation.managed:
            other_urls = [installation.url for installation in self._other_installations().values()]
            if other_urls and originals:
                # The last installation that is removed restores the settings.
                if steps:
                    steps.append("leave the cluster's settings to other installations")
                changes = self.settings.settings_after_removal(other_urls)
            else:
                changes = self.settings.restored_settings(originals)
        for name, value in changes.items():
            steps.append(f"reset setting {name} to {'its default' if value is None else value}")
        if changes and not dry_run:
            self.cluster.update_settings(changes)
        return steps

    def index_pipelines(self) -> list[Resource]:
        """Return the search and ingest pipelines of individual indices that should call this installation's service.

        An installation consists of the resources that ``resift install`` creates for a service.
        """
        ids = {f"{self.name}-{endpoint}": self.template_values[f"{endpoint}_id"] for endpoint in REMOTE_MODELS}
        installed = {**find_installations(self.cluster), self.name: self.installation}
        pipelines = IndexPipelines(self.cluster, dict(sorted(installed.items())), ids)
        index_records = {
            name: record for name, record in read_records(self.cluster).items() if name not in RESERVED_NAMES
        }
        search = [
            pipeline
            for pipeline in pipelines.search_pipelines(self.name, index_records)
            if self.index_exists(pipeline.rewriter.index)
        ]
        ingest = [pipelines.ingest_pipeline(record) for record in index_records.values()]
        return [*search, *(pipeline for pipeline in ingest if pipeline and self.name in pipeline.owners)]

    def _release_pipelines(self, dry_run: bool) -> list[str]:
        """Make the pipelines of all indices independent of this installation.

        Search pipelines no longer call the service, and ingest pipelines no longer encode documents with this
        installation's model.

        Args:
            dry_run: Whether to return the steps without executing them.

        Returns:
            A line of text about each step.
        """
        if self.missing_plugins:
            return []
        steps, index_records = [], read_records(self.cluster)
        other_installations = self._other_installations()
        for name, rewriter in find_rewriters(self.cluster).items():
            if rewriter.installation == self.name:
                steps.append(
                    f"remove search pipeline {name}, which rewrites searches of {rewriter.index}: "
                    f"clients must first stop sending search_pipeline={name}, because {REFUSED_SEARCHES}"
                )
                if not dry_run:
                    remove_processor(self.cluster, name)
        for index, owners in ingest_pipeline_owners(self.cluster).items():
            if self.name not in owners:
                continue
            # The pipeline stays for the vectors that other installations encode.
            remaining = IndexPipelines(self.cluster, other_installations).ingest_pipeline(
                index_records.get(index) or IndexRecord(index)
            )
            steps.append(f"{'change' if remaining else 'remove'} ingest pipeline {pipeline_name(index)}")
            if dry_run:
                continue
            if remaining:
                remaining.create()
            else:
                remove_ingest_pipeline(self.cluster, index)
        return steps

    def index_exists(self, name: str) -> bool:
        """Return whether a name refers to at least one existing index.

        Args:
            name: The name of an index, alias or data stream, or a pattern.
        """
        with suppress(NotFound):
            return bool(self.engine.resolve(name))
        return False

    def _require_key(self) -> None:
        """Raise BadInput if the API key is needed again, but the user passed no key.

        This is the case if a connector with an API key must be replaced. A connector is the part of a remote model with
        the URL and the key of the service.
        """
        if self.template_values["key"] is not None or self.missing_plugins:
            return
        for endpoint in REMOTE_MODELS:
            remote = RemoteModel(self.cluster, endpoint, self.template_values)
            if remote.installed_key_fingerprint is not None and remote.state() not in (
                "ok",
                DEPLOYS_LAZILY,
                "missing",
                "foreign",
            ):
                raise BadInput(
                    f"{remote.kind} {remote.name} must be replaced, and contains an API key",
                    value=remote.name,
                    expected="the key again: --key KEY, or RESIFT_API_KEY",
                )

    def setting_changes(self) -> list[SettingChange]:
        """Return the changes to cluster settings that are necessary before the cluster can call the service.

        The result is empty if a provider manages the cluster, or if plugins are missing.
        """
        # Without the plugin ML Commons, OpenSearch refuses its settings.
        return [] if self.missing_plugins or self.installation.managed else self.settings.required_changes()

    def _settings_before(self) -> dict[str, Any]:
        """Return the values that the cluster settings had before the first ``resift install``.

        The values are recorded in an index template. The result is empty if there is no record.
        """
        for name in (self.name, *self._other_installations()):
            before = IndexTemplate(self.cluster, name, self.template_values).settings_before()
            if before:
                return before
        return {}

    def _other_installations(self) -> dict[str, Installation]:
        installed = find_installations(self.cluster)
        return {name: installation for name, installation in installed.items() if name != self.name}

    def _refuse_if_used(self) -> None:
        """Raise EngineError if a pipeline that :meth:`uninstall` would delete or change is still in use.

        Without this check, OpenSearch would refuse the writes and searches that name a deleted pipeline. A pipeline
        that a user created would still call the removed service at each search.
        """
        ingest = {f"{self.name}-ingest"}
        ingest |= {
            pipeline_name(index)
            for index, owners in ingest_pipeline_owners(self.cluster).items()
            if owners == {self.name}
        }
        search = {f"{self.name}-{suffix}" for suffix in PIPELINES}
        pipelines = all_pipelines(self.cluster)
        for name, rewriter in find_rewriters(self.cluster).items():
            if rewriter.installation != self.name:
                continue
            if not would_be_deleted(pipelines[name]):
                message = f"search pipeline {name} has searches of {rewriter.index} rewritten"
                raise EngineError(message, status=409, value=name, expected=f"resift detach {rewriter.index} first")
            search.add(name)
        ingest_uses = uses_of_pipelines(self.cluster, ingest, "ingest pipeline")
        refuse_if_used([*ingest_uses, *uses_of_pipelines(self.cluster, search, "search pipeline")])


def check_service_url(url: str) -> None:
    """Raise BadInput if a URL cannot be the address of the Resift service.

    The URL needs the scheme http or https and a host. A user name in the URL is refused, because it would be visible to
    everybody who may read the index templates of the cluster.
    """
    parts, printable = urlsplit(url), without_credentials(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        message = f"{printable!r} is not the address of a service"
        raise BadInput(message, value=printable, expected="http://HOST:PORT")
    if parts.username is not None:  # everybody who may read the index templates could see the user
        message = f"the service's address {printable} contains a user"
        raise BadInput(message, value=printable, expected=f"{printable} and --key KEY")
