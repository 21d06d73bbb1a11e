"""Installing Resift in a cluster, uninstalling it, and protecting searches from a service that hangs."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict

from resift.contracts.documents import ModelDescription
from resift.encoders.registry import load_model
from resift.errors import BadInput, EngineError, EngineUnavailable, UnsupportedCluster
from resift.plugin.addresses import is_cluster, without_credentials
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_record import indices_with_model
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import (
    DEFAULT_FIELDS,
    DEFAULT_NAME,
    DEFAULT_SERVICE_URL,
    Installation,
    ManagedCluster,
    check_unmanaged,
    find_installations,
)
from resift.plugin.cluster.remote_model import DEPLOYS_LAZILY, RemoteModel
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.plan import Plan, Progress, Result, Step
from resift.plugin.operations.service_status import read_health
from resift.stopping import Stop
from resift.vectors.packaged import DEFAULT_MODEL

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Remote models that the guard disables. Search pipelines and the ingest pipelines of indices, which call these models,
# also work without them. The model "embed" is left out. It belongs to the ingest pipeline of the installation, whose
# users must see an error if documents are not encoded.
GUARDED = ("rewrite", "rerank", "query")
_SECONDS = 1.0  # time limit for an answer of the service, the same as that of ML Commons
_MAX_MISSED = 2  # number of consecutive missing answers after which the cluster no longer calls the service
# Number of consecutive answers "overloaded" after which the cluster no longer calls the service. It exceeds
# _MAX_MISSED, because a service that was just restarted may be overloaded for a moment, and recovers by itself.
_MAX_OVERLOADED = 5
_REST = 10  # number of checks during which the cluster does not call a service that was overloaded


class InstallationOptions(TypedDict, total=False):
    """The options of ``resift install``. Missing options keep the values of an existing installation.

    Attributes:
        model: The folder of a saved model.
        fields: The names of the text fields that are encoded when documents are written.
        service: The URL at which the nodes of the cluster reach the service.
        name: The name of the installation, which is the prefix of all installed resources.
        key: The API key of the service. If ``managed`` is "aws", the ARN of the secret that contains the key.
        managed: "aws" or "other" if a provider manages the settings of the cluster.
        role: If ``managed`` is "aws", the ARN of the role that may read the secret.
    """

    model: str | None
    fields: Sequence[str] | None
    service: str | None
    name: str | None
    key: str | None
    managed: str | None
    role: str | None


class InstallPlan(Plan):
    """A plan to install Resift in a cluster, or to uninstall it.

    Args:
        installer: The installer, which creates, updates and removes Resift's resources in the cluster.
        execute: A method of the installer that returns a list of steps. ``execute(False)`` carries out the steps, and
            ``execute(True)`` only lists them (a dry run).

    Attributes:
        unserved: The indices that need the model that the plan replaces. If there are any, the user must agree first.
    """

    def __init__(self, installer: Installer, execute: Callable[[bool], list[str]]) -> None:
        self.installer, self._execute = installer, execute
        self.unserved = installer.unserved_indices()
        if self.unserved:
            self.question = f"Replace the model that {', '.join(index.name for index in self.unserved)} need?"
        else:
            self.question = "Change these settings of the whole cluster, and do the rest?"

    @property
    def changes_settings(self) -> bool:
        """Whether the plan changes settings of the whole cluster. If it does, the user must agree first."""
        return bool(self.installer.setting_changes())

    @cached_property
    def steps(self) -> list[str]:
        """The steps of the installation or removal, each as a line of text. Nothing is executed."""
        return self._execute(True)

    def lines(self) -> list[str]:
        """Return the steps of the installation or removal as lines of text for the user."""
        lines = [f"would {step}" for step in self.steps] or ["nothing to do"]
        if self.unserved:
            lines += self._consequences()
            lines[-1] += ":"
            lines.append("  they use the model that is replaced; --name NAME installs a second service instead")
            lines.append('  (docs/vectors.md, "A second index with vectors")')
        return lines

    def _consequences(self) -> Iterator[str]:
        """Yield lines of text that say what replacing the model changes for the indices that use this model."""
        names: dict[tuple[bool, bool], str] = {}
        for index in self.unserved:
            key = index.is_rewritten, index.is_encoded
            names[key] = f"{names[key]}, {index.name}" if key in names else index.name
        for (is_rewritten, is_encoded), indices in names.items():
            if is_rewritten and is_encoded:
                yield f"would end the rewriting of searches of {indices}, and the encoding of their new documents"
            elif is_rewritten:
                yield f"would end the rewriting of searches of {indices}"
            elif is_encoded:
                yield f"would end the encoding of new documents of {indices}"
            else:
                yield f"would replace the model of the vectors of {indices}"

    def to_dict(self) -> dict[str, Any]:
        """Return the steps of the installation or removal, and the changes of cluster settings, as a JSON object."""
        settings = [change.to_dict() for change in self.installer.setting_changes()]
        return {"steps": self.steps, "settings": settings, "unserved": [index.name for index in self.unserved]}

    def _run(self, progress: Progress, stop: Stop) -> Result:
        steps = self._execute(False)
        missing = self.installer.missing_plugins
        return Result(steps or ["nothing to do"], steps=steps, missing_plugins=missing)


def install(url: str, **options: Unpack[InstallationOptions]) -> InstallPlan:
    """Plan to connect a cluster to the Resift service.

    The plan creates templates, scripts, remote models and pipelines in the cluster.

    Args:
        url: The URLs of the cluster.
        **options: The options of ``resift install``, such as ``service``, the URL of the service. They are described at
            :class:`InstallationOptions`.

    Returns:
        A plan. Nothing is changed until you call its method ``run``.

    Raises:
        BadInput: If an option is invalid.
        EngineUnavailable: If no node answers.
        EngineError: If the cluster refuses a request.
    """
    installer = create_installer(open_cluster(url), **options)
    _check_unmanaged(installer)
    return InstallPlan(installer, installer.install)


def uninstall(url: str, name: str | None = None) -> InstallPlan:
    """Plan to remove everything that :func:`install` created. Indices and their documents stay.

    Args:
        url: The URLs of the cluster, separated by commas.
        name: The name that was given to the installation. It can be omitted if the cluster has only one installation.

    Returns:
        A plan. Nothing is changed until you call its method ``run``.

    Raises:
        BadInput: If the cluster has several installations, but ``name`` is not given.
    """
    installer = create_installer(open_cluster(url), name=name)
    return InstallPlan(installer, installer.uninstall)


def guard(url: str, name: str | None = None, progress: Progress | None = None, stop: Stop | None = None) -> None:
    """Watch the service, and disable the cluster's calls to it as long as it does not answer or is overloaded.

    Searches then run without rewriting, instead of waiting a second for the service.

    Args:
        url: The URLs of the cluster.
        name: The name of the installation, which can be chosen with ``resift install --name``. It can be omitted if the
            cluster has only one installation.
        progress: A function that is called with a remark about each change.
        stop: A flag to end watching. Without it, the function does not return.

    Raises:
        BadInput: If the cluster has several installations, but ``name`` is not given.
    """
    with closing(open_cluster(url)) as engine:
        installer = create_installer(engine, name=name)
        Guard(installer.cluster, installer.name, installer.url).watch(progress or (lambda step: None), stop or Stop())


def open_cluster(url: str) -> OpenSearchEngine:
    """Connect to an OpenSearch cluster, and check its version.

    Args:
        url: The URLs of the cluster, separated by commas.

    Returns:
        The engine that is connected to the cluster.

    Raises:
        BadInput: If ``url`` is not the URL of a cluster.
        UnsupportedCluster: If the server is not OpenSearch, or if its version is too old.
    """
    if not is_cluster(url):
        printable = without_credentials(url)
        raise BadInput(f"{printable} is not an OpenSearch cluster", value=printable, expected="http(s)://HOST:PORT")
    engine = OpenSearchEngine(url)
    engine.ping()
    return engine


def create_installer(engine: OpenSearchEngine, **options: Unpack[InstallationOptions]) -> Installer:
    """Create an installer from options. For missing options, use the values of an existing installation.

    Args:
        engine: The engine that is connected to the cluster.
        **options: The options of ``resift install``, such as the model, the text fields and the URL of the service.
            :class:`InstallationOptions` describes all options.

    Raises:
        BadInput: If there are several installations, but the options do not name one of them.
    """
    installed = find_installations(Cluster(engine))
    name, model = options.get("name"), options.get("model")
    if name is None and len(installed) > 1:
        names = ", ".join(sorted(installed))
        raise BadInput(f"there are several installations: {names}", value=names, expected="one of them: --name")
    chosen_name = name or next(iter(installed), DEFAULT_NAME)
    existing = installed.get(chosen_name)
    described: ModelDescription = load_model(model or DEFAULT_MODEL) if model or not existing else existing.model
    installation = Installation(
        name=chosen_name,
        model=described,
        fields=tuple(options.get("fields") or (existing.fields if existing else DEFAULT_FIELDS)),
        url=options.get("service") or (existing.url if existing else DEFAULT_SERVICE_URL),
        managed=_managing_provider(existing.managed if existing else None, options),
    )
    return Installer(engine, installation, options.get("key"))


def _managing_provider(installed: ManagedCluster | None, options: InstallationOptions) -> ManagedCluster | None:
    """Return the provider that manages the cluster, according to the options and an existing installation.

    The result is None if no provider manages the cluster.

    Args:
        installed: The provider that the existing installation records, or None.
        options: The options of ``resift install``, which take precedence.

    Raises:
        BadInput: If the options name an AWS role that may read the service's secret, but AWS does not manage the
            cluster.
    """
    provider, key, role = options.get("managed"), options.get("key"), options.get("role")
    if provider is None and (installed is None or role is None):
        if role is not None:
            raise BadInput("--role is used without --managed aws", value=role, expected="both, or no --role")
        return installed
    known = installed if installed and provider in (None, installed.provider) else ManagedCluster("other")
    provider = provider or known.provider
    if provider == "aws":
        return ManagedCluster(provider, secret=key or known.secret, role=role or known.role)
    return ManagedCluster(provider)


def find_installation(cluster: Cluster, model: str | None = None) -> Installation | None:
    """Find a Resift installation in a cluster: the resources that ``resift install`` created there.

    If there are several installations, the installation with the default name is preferred, and then the first name in
    alphabetical order.

    Args:
        cluster: The connection to the cluster.
        model: The hash of a model. If given, only installations with this model are considered.

    Returns:
        The installation, or None if there is none.
    """
    candidates = [
        installation
        for installation in find_installations(cluster).values()
        if model in (None, installation.model.hash)
    ]
    return min(candidates, key=lambda candidate: (candidate.name != DEFAULT_NAME, candidate.name), default=None)


def second_installation_name(cluster: Cluster, model: str, indices: Collection[str]) -> str:
    """Return a name for a second installation, if ``resift install`` must not change an existing installation.

    This is the case if other indices use the model of the existing installation, or if there are several
    installations.

    Args:
        cluster: The connection to the cluster.
        model: The hash of the model that is to be installed.
        indices: The indices that will use this model.

    Returns:
        A name that no installation has. Empty if ``resift install`` needs no name.
    """
    installed = find_installations(cluster)
    if not installed or model in [installation.model.hash for installation in installed.values()]:
        return ""
    if len(installed) == 1:
        (installation,) = installed.values()
        try:
            if set(indices_with_model(cluster, installation.model.hash)) <= set(indices):
                return ""
        except EngineError:  # the user may not read all indices, so any of them may use the installed model
            pass
    # The name is not "resift-…", because the index pattern of the installation "resift" would include such names.
    names = (DEFAULT_NAME, *(f"{DEFAULT_NAME}{number}" for number in range(2, len(installed) + 2)))
    return next(name for name in names if name not in installed)


def required_install(engine: OpenSearchEngine, service: str | None = None) -> InstallPlan | None:
    """Plan to install the resources that the processor ``ml_inference`` needs before it can rewrite searches.

    Args:
        engine: The engine that is connected to the cluster.
        service: The URL at which the nodes reach the service. None stands for the installed URL.

    Returns:
        A plan, or None if everything is already installed.

    Raises:
        UnsupportedCluster: If the cluster lacks plugins.
    """
    installation = find_installation(Cluster(engine))
    installer = create_installer(engine, name=installation.name if installation else None, service=service)
    if installer.missing_plugins:
        missing = ", ".join(installer.missing_plugins)
        expected = (
            "Resift's plugin on all nodes (docs/install.md); or these plugins; or resift.rewrite() in your backend, "
            "which needs none"
        )
        raise UnsupportedCluster(f"the cluster lacks {missing}", value=missing, expected=expected)
    state = RemoteModel(installer.cluster, "rewrite", installer.template_values).state()
    _check_unmanaged(installer)
    if state in ("ok", DEPLOYS_LAZILY, "switched off") and not installer.setting_changes():
        return None
    return InstallPlan(installer, installer.install)


def _check_unmanaged(installer: Installer) -> None:
    """Check that the user has not forgotten ``--managed aws`` for a cluster of Amazon OpenSearch Service.

    Nothing is checked if this option was passed now or in an earlier installation.

    Args:
        installer: The installer with the options of the user.

    Raises:
        BadInput: If AWS manages the cluster, but the option is missing.
        UnsupportedCluster: If the cluster is Amazon OpenSearch Serverless.
    """
    if installer.installation.managed is None:
        check_unmanaged([node["host"] for node in installer.engine.client.transport.hosts], os.environ)


class Guard:
    """A watchdog that protects searches from a service that does not answer, or is overloaded.

    When the service hangs, each search waits a second for it. The guard then disables the remote models through which
    the cluster calls the service, so that search pipelines continue at once with the original search.

    As soon as the service answers again, the guard enables the models. If the service was overloaded, the guard waits
    ten seconds first: a service that is not called seems to have recovered at once.

    Args:
        cluster: The connection to the cluster.
        name: The name of the installation.
        url: The URL of the service.
    """

    def __init__(self, cluster: Cluster, name: str, url: str) -> None:
        self.cluster, self.name, self.url = cluster, name, url
        self._missed = self._overloaded = self._rest = 0
        self._enabled: bool | None = None

    def check(self) -> str:
        """Call the service once, and disable or enable the remote models if the service's availability has changed.

        The models are disabled after two calls in a row without an answer, and enabled as soon as the service answers
        again. They are also disabled after five answers in a row that report an overload. In this case, they are
        enabled about ten calls later.

        Returns:
            A description of the change, or an empty string if nothing was changed.

        Raises:
            EngineUnavailable: If no node answers.
            EngineError: If the cluster refuses a request.
        """
        state = read_health(self.url, _SECONDS).state
        self._missed = self._missed + 1 if state is None else 0
        self._overloaded = self._overloaded + 1 if state and state.get("overloaded") else 0
        self._rest = _REST if self._overloaded >= _MAX_OVERLOADED else max(0, self._rest - 1)
        if self._missed >= _MAX_MISSED:
            return self.switch(False)
        if self._rest:
            return self.switch(False, f"{self.url} is overloaded")
        return "" if self._missed else self.switch(True)

    def watch(self, progress: Progress, stop: Stop) -> None:
        """Call the service every second, and disable the remote models as long as the service does not answer.

        The method returns when a stop is requested. If the remote models are disabled at that time, they are enabled
        again.

        Args:
            progress: A function that is called with a remark about each change, and about each request that the cluster
                refused.
            stop: A flag to end watching.
        """
        try:
            while not stop.requested:
                try:
                    message = self.check()
                except (EngineUnavailable, EngineError) as error:
                    message = error.message  # the next check asks the cluster again
                if message:
                    progress(Step(message))
                stop.wait(_SECONDS)
        finally:
            if self._enabled is False and (message := self.switch(True, "the guard stops")):
                progress(Step(message))

    def switch(self, on: bool, reason: str = "") -> str:
        """Enable or disable the remote models through which the cluster calls the service.

        Args:
            on: Whether to enable them.
            reason: The reason for the change. By default, the service answers again, or does not answer.

        Returns:
            A description of the change, or an empty string if nothing was changed.
        """
        if self._enabled is on:
            return ""
        changed = False
        for endpoint in GUARDED:
            for id, _ in self.cluster.ml_objects("models", f"{self.name}-{endpoint}"):
                path = f"/_plugins/_ml/models/{id}"
                # In OpenSearch 2, searches return a changed model up to a second later.
                model = self.cluster.get_or_none(path)
                if model is not None and model.get("is_enabled", True) is not on:
                    self.cluster.request("PUT", path, {"is_enabled": on})
                    changed = True
        self._enabled = on
        if not changed:
            return ""
        if on:
            return f"{reason}: searches call {self.url}" if reason else f"{self.url} answers: searches are rewritten"
        return f"{reason or f'{self.url} does not answer'}: searches go on without it"
