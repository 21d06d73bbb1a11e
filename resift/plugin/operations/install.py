"""What a cluster needs to search with a reranker: installed, removed, and guarded from a reranker that hangs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cached_property
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.request import urlopen

from resift.contracts.documents import ModelDescription
from resift.encoders.registry import load_model
from resift.errors import BadInput, EngineError, EngineUnavailable, UnsupportedCluster
from resift.ingest.stopping import Stop
from resift.plugin.addresses import is_cluster, without_credentials
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import (
    FIELDS,
    NAME,
    SERVICE_URL,
    Installation,
    Managed,
    check_unmanaged,
    installations,
)
from resift.plugin.cluster.resources import LAZY, RemoteModel
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.plan import Plan, Progress, Result, Step
from resift.vectors.packaged import DEFAULT_MODEL

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Of pipelines that go on without: of searches, and of what is written to indices with an ingest pipeline of their own.
# Whoever writes through that of the installation has to know that nothing is encoded.
GUARDED = ("rewrite", "rerank", "query")
_SECONDS = 1.0  # to wait for an answer, as ML Commons does
_MISSED = 2  # answers in a row after which nobody asks any more


class InstallationOptions(TypedDict, total=False):
    """An installation; what is not given is what the cluster remembers of the one that it has.

    ``model`` is the folder of a saved model, ``fields`` are the text fields that are encoded as documents are written,
    ``service`` is the address at which the nodes reach the reranker, ``key`` its API key, and ``name`` the prefix of
    all that is installed. ``managed`` is "aws" or "other" where a provider manages the cluster's settings; for "aws"
    ``key`` is the ARN of the secret that holds the key, and ``role`` that of the role by which the domain reads it.
    """

    model: str | None
    fields: Sequence[str] | None
    service: str | None
    name: str | None
    key: str | None
    managed: str | None
    role: str | None


class InstallPlan(Plan):
    """What :func:`install` or :func:`uninstall` is about to do, the ``work`` of an installer."""

    question = "Change these settings of the whole cluster, and do the rest?"

    def __init__(self, installer: Installer, work: Callable[[bool], list[str]]) -> None:
        self.installer, self._work = installer, work

    @property
    def changes_settings(self) -> bool:
        """Whether settings of the cluster are among the steps."""
        return bool(self.installer.setting_changes())

    @cached_property
    def steps(self) -> list[str]:
        """What would be done, a phrase a step."""
        return self._work(True)

    def lines(self) -> list[str]:
        return [f"would {step}" for step in self.steps] or ["nothing to do"]

    def to_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, "settings": [one._asdict() for one in self.installer.setting_changes()]}

    def _run(self, progress: Progress, stop: Stop) -> Result:
        steps = self._work(False)
        missing = self.installer.missing_plugins
        return Result(steps or ["nothing to do"], steps=steps, missing_plugins=missing)


def install(url: str, **options: Unpack[InstallationOptions]) -> InstallPlan:
    """Plan to install templates, scripts, remote models and pipelines in the cluster at ``url``.

    Raises BadInput for what does not fit, EngineUnavailable and EngineError as the cluster gives cause.
    """
    installer = found_installer(open_cluster(url), **options)
    _check_unmanaged(installer)
    return InstallPlan(installer, installer.install)


def uninstall(url: str, name: str | None = None) -> InstallPlan:
    """Plan to remove exactly what :func:`install` has made. Indices and their documents stay."""
    installer = found_installer(open_cluster(url), name=name)
    return InstallPlan(installer, installer.uninstall)


def guard(url: str, name: str | None = None, progress: Progress | None = None, stop: Stop | None = None) -> None:
    """Ask the reranker each second, and have the cluster not call it while it hangs, until a ``stop`` is requested."""
    with closing(open_cluster(url)) as engine:
        installer = found_installer(engine, name=name)
        Guard(installer.cluster, installer.name, installer.url).watch(progress or (lambda step: None), stop or Stop())


def open_cluster(url: str) -> OpenSearchEngine:
    """The cluster at a URL.

    Raises BadInput for the embedded engine's file, and for a cluster that is not OpenSearch, or too old.
    """
    if not is_cluster(url):
        shown = without_credentials(url)
        raise BadInput(f"{shown} is not an OpenSearch cluster", value=shown, expected="http(s)://HOST:PORT")
    engine = OpenSearchEngine(url)
    engine.ping()  # a version that lacks what we need is refused before anything is made
    return engine


def found_installer(engine: OpenSearchEngine, **options: Unpack[InstallationOptions]) -> Installer:
    """The installer of what is given; the rest is what the cluster remembers of its installation."""
    found, name, model = installations(Cluster(engine)), options.get("name"), options.get("model")
    if name is None and len(found) > 1:
        names = ", ".join(sorted(found))
        raise BadInput(f"there are several installations: {names}", value=names, expected="one of them: --name")
    chosen = name or next(iter(found), NAME)
    installed = found.get(chosen)
    described: ModelDescription = load_model(model or DEFAULT_MODEL) if model or not installed else installed.model
    fields = options.get("fields") or (installed.fields if installed else FIELDS)
    address = options.get("service") or (installed.url if installed else SERVICE_URL)
    managed = _managed(installed.managed if installed else None, options)
    return Installer(engine, described, fields, address, chosen, options.get("key"), managed)


def _managed(installed: Managed | None, options: InstallationOptions) -> Managed | None:
    """Who manages the cluster, by what is given; else by what is installed."""
    provider, key, role = options.get("managed"), options.get("key"), options.get("role")
    if provider is None and (installed is None or role is None):
        if role is not None:
            raise BadInput("--role without --managed aws", value=role, expected="both, or no --role")
        return installed
    known = installed if installed and provider in (None, installed.provider) else Managed("other")
    arns = (key or known.secret, role or known.role) if (provider or known.provider) == "aws" else ()
    return Managed(provider or known.provider, *arns)


def serving(cluster: Cluster, model: str | None = None) -> Installation | None:
    """The installation that serves the vectors of a model, by its hash, or any one without; None if there is none.

    Of several it is the one of the usual name, or the first.
    """
    found = [one for one in installations(cluster).values() if model in (None, one.model.hash)]
    return min(found, key=lambda one: (one.name != NAME, one.name), default=None)


def needed_install(engine: OpenSearchEngine) -> InstallPlan | None:
    """What has to be installed before searches can be rewritten; None if nothing.

    Raises UnsupportedCluster where plugins are missing.
    """
    found = serving(Cluster(engine))
    installer = found_installer(engine, name=found.name if found else None)
    if installer.missing_plugins:
        missing = ", ".join(installer.missing_plugins)
        expected = "these plugins; or resift.rewrite() in your backend, which needs none"
        raise UnsupportedCluster(f"the cluster lacks {missing}", value=missing, expected=expected)
    state = RemoteModel(installer.cluster, "rewrite", installer.values).state()
    _check_unmanaged(installer)
    if state in ("ok", LAZY, "switched off") and not installer.setting_changes():
        return None
    return InstallPlan(installer, installer.install)


def _check_unmanaged(installer: Installer) -> None:
    """Raise BadInput or UnsupportedCluster for a cluster of Amazon's that was not said to be one."""
    if installer.installation.managed is None:
        check_unmanaged([node["host"] for node in installer.engine.client.transport.hosts], os.environ)


class Guard:
    """Watches the reranker at ``url`` for the installation ``name``, and switches what asks it off and on again.

    ML Commons gives up a request after a second, and asks again at the next search. It can be told that a model is
    disabled, and then search pipelines go on at once, with the search as it came.
    """

    def __init__(self, cluster: Cluster, name: str, url: str) -> None:
        self.cluster, self.name, self.url = cluster, name, url
        self._missed = 0
        self._switched: bool | None = None

    def check(self) -> str:
        """Ask the reranker once, and switch if it has to be; return what was done, or "".

        Raises EngineUnavailable and EngineError.
        """
        self._missed = 0 if self._answers() else self._missed + 1
        if self._missed == 0:
            return self.switch(True)
        return self.switch(False) if self._missed >= _MISSED else ""

    def watch(self, progress: Progress, stop: Stop) -> None:
        """Check each second until a ``stop`` is requested, then switch on; tell what was done, or could not be."""
        try:
            while not stop.requested:
                try:
                    done = self.check()
                except (EngineUnavailable, EngineError) as error:
                    done = error.message  # a cluster that is away for a while is asked again
                if done:
                    progress(Step(done))
                stop.wait(_SECONDS)
        finally:
            if self._switched is False:
                progress(Step(self.switch(True)))

    def switch(self, on: bool) -> str:
        """Have the cluster ask the reranker, or not; return what was done, or "" if it is as it should be."""
        if self._switched is on:
            return ""
        changed = False
        for which in GUARDED:
            for id, source in self.cluster.named("models", f"{self.name}-{which}"):
                if source.get("is_enabled", True) is not on:
                    self.cluster.request("PUT", f"/_plugins/_ml/models/{id}", {"is_enabled": on})
                    changed = True
        self._switched = on
        said = "answers: searches are rewritten" if on else "does not answer: searches go on without it"
        return f"{self.url} {said}" if changed else ""

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/healthz", timeout=_SECONDS) as answer:
                return bool(answer.status == 200)
        except (OSError, HTTPException):
            return False
