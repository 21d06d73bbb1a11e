"""What Resift puts into a cluster, one class for each kind: how it is found, made and removed."""

from __future__ import annotations

import logging
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote

from resift.errors import EngineError, NotFound
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.installation import SECRET, read_managed
from resift.plugin.cluster.templates import Stamp, fingerprint, render
from resift.rewriting.similarity import script_source
from resift.version import __version__

log = logging.getLogger(__name__)
SCRIPTS = ("fuzzy_jaccard", "masked_cosine")
REMOTE = ("embed", "query", "rerank", "rewrite")
PIPELINES = ("hybrid", "rerank")
_DEPLOY_SECONDS = 60
_FORGOTTEN_SECONDS = 5.0  # that OpenSearch 2 may take to forget a model that was deleted
_IN_USE = "still using this connector"
_NO_KEY_YET = r"Fetching master key timed out|No shard available for .*\[master_key\]"
_CONFLICT = "version conflict"  # ML Commons still writes down what became of the model before
LAZY = "deploys when first used"  # ML Commons does so with remote models, unless a setting forbids it
_AUTO_DEPLOY = "plugins.ml_commons.model_auto_deploy.enable"
_LAZY_STATES = ("REGISTERED", "UNDEPLOYED", "PARTIALLY_DEPLOYED", "DEPLOYING")
_STUCK_STATES = ("REGISTERED", "PARTIALLY_DEPLOYED", "DEPLOY_FAILED")
_STUCK_SECONDS = 3.0  # after which a model in one of these states is deployed once more


class Resource(ABC):
    """One resource of an installation: its kind and name, its path and body, and the stamp that it should have."""

    kind: str

    def __init__(self, cluster: Cluster, name: str, path: str, body: dict[str, Any], stamp: Stamp) -> None:
        self.cluster, self.name, self.path, self.body, self.stamp = cluster, name, path, body, stamp

    @abstractmethod
    def state(self) -> str:
        """Return missing | foreign | other model HASH | other version VERSION | other key | no key | changed |
        not deployed | switched off | deploys when first used | ok."""

    def make(self) -> None:
        """Create the resource, or replace it."""
        self.cluster.request("PUT", self.path, self.body)

    def remove(self) -> None:
        """Remove the resource."""
        self.cluster.request("DELETE", self.path)

    def _state_by(self, description: str | None) -> str:
        """The state by the text that should hold the stamp; None if there is no such resource."""
        if description is None:
            return "missing"
        stamp = Stamp.read(description)
        if stamp is None:
            return "foreign"
        if stamp.model != self.stamp.model:
            return f"other model {stamp.model}"
        if stamp.version != self.stamp.version:
            return f"other version {stamp.version}"
        # whoever names no key may not know it, and leaves the one that is there
        if self.stamp.key not in (None, stamp.key):
            return "other key" if stamp.key else "no key"
        return "ok" if stamp.content == self.stamp.content else "changed"


class Script(Resource):
    """A stored script, from the Painless file of its name; its first line, a comment, is the stamp."""

    kind = "stored script"

    def __init__(self, cluster: Cluster, installation: str, script: str) -> None:
        source = script_source(script)
        # The same for every model, so that installing another one does not replace the scripts.
        stamp = Stamp(__version__, "any", fingerprint(source))
        body = {"script": {"lang": "painless", "source": f"// {stamp}\n{source}"}}
        name = f"{installation}-{script.replace('_', '-')}"
        super().__init__(cluster, name, f"/_scripts/{name}", body, stamp)

    def state(self) -> str:
        return self._state_by((self.cluster.find(self.path, "script") or {}).get("source"))


class IndexTemplate(Resource):
    """The template of the indices ``NAME-*``, which also records what the cluster's settings were before."""

    kind = "index template"

    def __init__(self, cluster: Cluster, name: str, values: dict[str, Any]) -> None:
        super().__init__(cluster, name, f"/_index_template/{name}", *render("index-template", values))

    def state(self) -> str:
        meta = self._installed_meta()
        return self._state_by(None if meta is None else meta.get("resift", ""))

    def settings_before(self) -> dict[str, Any]:
        """Return what the installed template says of the cluster settings before the first install; {} if nothing."""
        return dict((self._installed_meta() or {}).get("settings_before") or {})

    def _installed_meta(self) -> dict[str, Any] | None:
        found = self.cluster.find(self.path, "index_templates")
        meta: dict[str, Any] | None = found[0]["index_template"].get("_meta", {}) if found else None
        return meta


class Pipeline(Resource):
    """An ingest or search pipeline."""

    def __init__(self, cluster: Cluster, kind: str, name: str, body: dict[str, Any], stamp: Stamp) -> None:
        self.kind = f"{kind} pipeline"
        super().__init__(cluster, name, f"/_{kind}/pipeline/{quote(name, safe='')}", body, stamp)

    def state(self) -> str:
        found = self.cluster.find(self.path, self.name)
        return self._state_by(None if found is None else self._description(found))

    def _description(self, found: dict[str, Any]) -> str:
        """What tells whether a pipeline that was found is the one that is meant: its description, with the stamp."""
        return str(found.get("description", ""))


class RemoteModel(Resource):
    """A model of ML Commons that calls the reranker, with its connector, in a model group that all of them share.

    With a ``key`` among the ``values`` the connector sends it as its credential, which the cluster keeps encrypted; on
    one of Amazon's domains the key is the ARN of a secret, of which the domain takes the value.

    ``model_id`` is the id that the cluster gave it, which pipelines name; before there is one, a placeholder.
    """

    kind = "remote model"

    def __init__(self, cluster: Cluster, which: str, values: dict[str, Any]) -> None:
        self.group = values["name"]
        name = f"{self.group}-{which}"
        body, stamp = render(f"connector-{which}", values)
        managed = read_managed(values)
        self._is_managed = managed is not None
        if values.get("key") is not None:
            arns = managed.credential if managed else None
            stamp = replace(stamp, key=fingerprint("".join(arns.values()) if arns else values["key"]))
            body = {**body, "description": str(stamp), "credential": arns or {"key": values["key"]}}
            named = f"secretArn.{SECRET}" if arns else "key"
            for action in body["actions"]:
                action["headers"]["Authorization"] = f"Bearer ${{credential.{named}}}"
        super().__init__(cluster, name, "/_plugins/_ml", body, stamp)
        registered = cluster.named("models", name)
        self.model_id = registered[0][0] if registered else f"({name})"

    def state(self) -> str:
        models = self.cluster.named("models", self.name)
        if not models:
            return "not deployed" if self.cluster.named("connectors", self.name) else "missing"
        # by its id, since OpenSearch 2 lets a search see only a second later that a model was deployed
        source = self.cluster.find(f"{self.path}/models/{models[0][0]}") or models[0][1]
        state = self._state_by(source.get("description", ""))
        if state == "ok" and source.get("is_enabled") is False:
            return "switched off"
        deployment = source.get("model_state")
        if state != "ok" or deployment == "DEPLOYED":
            return state
        if deployment not in _LAZY_STATES:
            return "not deployed"
        deploys = self._is_managed or self.cluster.settings().get(_AUTO_DEPLOY, "true") == "true"
        return LAZY if deploys else "not deployed"

    @property
    def sent_key(self) -> str | None:
        """The fingerprint of the key that the connector in the cluster sends; None if it sends none, or is missing."""
        stamps = [Stamp.read(source.get("description")) for _, source in self.cluster.named("models", self.name)]
        return next((stamp.key for stamp in stamps if stamp is not None), None)

    def make(self) -> None:
        """Register and deploy the model anew: a connector in use cannot be changed.

        Raises EngineError if the cluster does not deploy it within a minute, or does not find it then.
        """
        self.remove()
        group = self._group_id()
        # a cluster makes a key for its first connector, and OpenSearch 2 does not wait for it where it is busy
        create = partial(self.cluster.request, "POST", f"{self.path}/connectors/_create", self.body)
        connector = self._insist(_NO_KEY_YET, create)["connector_id"]
        register = {
            "name": self.name,
            "function_name": "remote",
            "description": str(self.stamp),
            "connector_id": connector,
            "model_group_id": group,
        }
        answer = self.cluster.request("POST", f"{self.path}/models/_register", register, deploy="true")
        self.model_id = answer["model_id"]
        self._await_deployed()

    def remove(self) -> None:
        """Remove our models and connectors of this name, and the group when no other model is left in it."""
        for model in self._ours("models", self.name):
            self._remove_model(model)
        for connector in self._ours("connectors", self.name):
            self._remove_connector(connector)
        names = [f"{self.group}-{which}" for which in REMOTE]
        if not any(self.cluster.named("models", name) for name in names):
            for connector in [id for name in names for id in self._ours("connectors", name)]:  # that had to stay
                self._remove_connector(connector)
            for group in self._ours("model_groups", self.group):
                self.cluster.request("DELETE", f"{self.path}/model_groups/{group}")

    def _remove_connector(self, id: str) -> None:
        # a model that has just been deleted counts as using it for a moment
        delete = partial(self.cluster.request, "DELETE", f"{self.path}/connectors/{id}")
        try:
            self._insist(_IN_USE, delete, _FORGOTTEN_SECONDS)
        except NotFound:
            return  # a search still sees for a moment what was just deleted
        except EngineError as error:
            # OpenSearch 2 compares connectors' ids by their parts between hyphens, and so may take models of other
            # connectors for users of this one. It stays then, until they are gone.
            if _IN_USE not in error.message:
                raise
            log.warning("connector %s of %s stays: %s", id, self.name, error.message)

    def _remove_model(self, id: str) -> None:
        path = f"{self.path}/models/{id}"

        def undeploy_and_delete() -> None:
            self.cluster.request("POST", f"{path}/_undeploy")
            self.cluster.request("DELETE", path)

        # OpenSearch 2 refuses it for a while after it has said that the model is undeployed
        self._insist(f"deployed state|{_CONFLICT}", undeploy_and_delete)
        # OpenSearch 2 lets searches find it for up to a second more, and who undeploys it then brings a part of it back
        deadline = time.monotonic() + _FORGOTTEN_SECONDS
        while any(one == id for one, _ in self.cluster.named("models", self.name)) and time.monotonic() < deadline:
            time.sleep(0.1)

    def _insist(self, refusal: str, attempt: Callable[[], Any], seconds: float = _DEPLOY_SECONDS) -> Any:
        """Do something that is refused for this reason, a pattern, until something else has ended; what it returns."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return attempt()
            except EngineError as error:
                if not re.search(refusal, error.message) or time.monotonic() > deadline:
                    raise
            time.sleep(0.2)

    def _ours(self, kind: str, name: str) -> list[str]:
        """The ids of the objects of a name that carry our stamp."""
        named = self.cluster.named(kind, name)
        return [id for id, source in named if Stamp.read(source.get("description"))]

    def _group_id(self) -> str:
        groups = self.cluster.named("model_groups", self.group)
        if groups:
            return groups[0][0]
        body = {"name": self.group, "description": str(self.stamp)}
        id: str = self.cluster.request("POST", f"{self.path}/model_groups/_register", body)["model_group_id"]
        return id

    def _await_deployed(self) -> None:
        path = f"{self.path}/models/{self.model_id}"
        deadline = time.monotonic() + _DEPLOY_SECONDS
        # Amazon's domains read no parameters of a signed POST, such as that which has it deployed
        again = time.monotonic() + (0 if self._is_managed else _STUCK_SECONDS)
        state = "unknown"
        while time.monotonic() < deadline:
            try:
                state = self.cluster.request("GET", path)["model_state"]
            except NotFound:
                state = "not registered yet"  # registering is a task of the cluster: its answer comes first
            # OpenSearch 2 finds it a second later, and by what is found pipelines are made, and models removed
            if state == "DEPLOYED" and any(id == self.model_id for id, _ in self.cluster.named("models", self.name)):
                return
            if state in _STUCK_STATES and time.monotonic() > again:
                # a node of OpenSearch 2 that has no key yet does not try again by itself
                self._insist(_CONFLICT, partial(self.cluster.request, "POST", f"{path}/_deploy"))
                again = time.monotonic() + _STUCK_SECONDS
            time.sleep(0.2)
        raise EngineError(
            f"remote model {self.name} was not deployed: {state}", value=state, expected="DEPLOYED: see the nodes' logs"
        )
