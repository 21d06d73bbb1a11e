"""Remote models: objects of ML Commons through which the cluster calls the service."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from resift.errors import EngineError, NotFound
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.installation import SECRET, ManagedCluster, read_managed
from resift.plugin.cluster.resources import Resource
from resift.plugin.cluster.templates import Stamp, fingerprint, render_template

log = logging.getLogger(__name__)
# The purposes of the remote models. Each model calls the service:
# - embed: encodes documents for the ingest pipeline of the installation, within 20 seconds
# - query: encodes queries, and documents for the ingest pipelines of indices, within a second
# - rerank: ranks documents
# - rewrite: rewrites search bodies
REMOTE_MODELS = ("embed", "query", "rerank", "rewrite")
# The state of a model that ML Commons deploys at its first use. ML Commons does this with remote models, unless the
# setting _AUTO_DEPLOY forbids it.
DEPLOYS_LAZILY = "deploys when first used"
_AUTO_DEPLOY = "plugins.ml_commons.model_auto_deploy.enable"
_LAZY_STATES = ("REGISTERED", "UNDEPLOYED", "PARTIALLY_DEPLOYED", "DEPLOYING")
_STUCK_STATES = ("REGISTERED", "UNDEPLOYED", "PARTIALLY_DEPLOYED", "DEPLOY_FAILED")
_STUCK_SECONDS = 3.0  # time in a stuck state after which a model is deployed again
_DEPLOY_SECONDS = 60
_FORGET_SECONDS = 5.0  # time that OpenSearch 2 may need until searches no longer return a deleted model
# Parts of error messages that are caused by a temporary state of the cluster.
_IN_USE = "still using this connector"
_NO_KEY_YET = r"Fetching master key timed out|No shard available for .*\[master_key\]"
_CONFLICT = "version conflict"  # ML Commons is still storing the result of the previous operation on the model


class RemoteModel(Resource):
    """A remote model of OpenSearch's ML Commons plugin, through which the cluster calls the Resift service.

    The model and its connector are created together. All remote models of an installation belong to one model group. If
    there is an API key, the connector sends it with each call, and the cluster stores it encrypted. On Amazon
    OpenSearch Service, the connector reads the key from a secret.

    Args:
        cluster: The connection to the cluster.
        endpoint: The purpose of the model, a member of :data:`REMOTE_MODELS`.
        values: The values of the placeholders in the connector's template, with an optional ``key``.

    Attributes:
        model_id: The id of the model in the cluster, or a placeholder if the model does not exist yet.
    """

    kind = "remote model"

    def __init__(self, cluster: Cluster, endpoint: str, values: dict[str, Any]) -> None:
        self.group = values["name"]
        name = f"{self.group}-{endpoint}"
        body, stamp = render_template(f"connector-{endpoint}", values)
        managed = read_managed(values)
        self._is_managed = managed is not None
        if values.get("key") is not None:
            body, stamp = _add_key(body, stamp, values["key"], managed)
        super().__init__(cluster, name, "/_plugins/_ml", body, stamp)
        registered = cluster.ml_objects("models", name)
        self.model_id = registered[0][0] if registered else f"({name})"

    def state(self) -> str:
        """Compare the installed model with the desired model.

        Returns:
            For example, "ok" if they are equal, "missing" if the model does not exist, and "not deployed" if OpenSearch
            has not deployed it. :meth:`Resource.state` lists all states.
        """
        models = self.cluster.ml_objects("models", self.name)
        if not models:
            return "not deployed" if self.cluster.ml_objects("connectors", self.name) else "missing"
        # Read the model by its id: in OpenSearch 2, a search returns the deployment state of one second ago.
        source = self.cluster.get_or_none(f"{self.path}/models/{models[0][0]}") or models[0][1]
        state = self._state_from_stamp(source.get("description", ""))
        if state == "ok" and source.get("is_enabled") is False:
            return "switched off"
        deployment = source.get("model_state")
        if state != "ok" or deployment == "DEPLOYED":
            return state
        if deployment not in _LAZY_STATES:
            return "not deployed"
        deploys = self._is_managed or self.cluster.effective_settings().get(_AUTO_DEPLOY, "true") == "true"
        return DEPLOYS_LAZILY if deploys else "not deployed"

    @property
    def installed_key_fingerprint(self) -> str | None:
        """The fingerprint (a short hash) of the API key with which the cluster calls the service.

        The value is None if the remote model does not exist or has no API key.
        """
        stamps = [Stamp.read(source.get("description")) for _, source in self.cluster.ml_objects("models", self.name)]
        return next((stamp.key for stamp in stamps if stamp is not None), None)

    def create(self) -> None:
        """Create the model with a new connector, and wait until it is deployed. An existing model is removed first.

        Raises:
            EngineError: If the model is not deployed, or cannot be found by a search, within a minute.
        """
        self.remove()
        group = self._group_id()
        # A cluster creates an encryption key for its first connector. A busy OpenSearch 2 does not wait for this key.
        create = partial(self.cluster.request, "POST", f"{self.path}/connectors/_create", self.body)
        connector = self._retry_while(_NO_KEY_YET, create)["connector_id"]
        register = {
            "name": self.name,
            "function_name": "remote",
            "description": str(self.stamp),
            "connector_id": connector,
            "model_group_id": group,
        }
        response = self.cluster.request("POST", f"{self.path}/models/_register", register, deploy="true")
        self.model_id = response["model_id"]
        self._await_deployed()

    def remove(self) -> None:
        """Remove the model and its connector. If no other model is left, also remove the model group.

        Only objects that Resift created are removed.
        """
        for model in self._stamped_ids("models", self.name):
            self._remove_model(model)
        for connector in self._stamped_ids("connectors", self.name):
            self._remove_connector(connector)
        names = [f"{self.group}-{endpoint}" for endpoint in REMOTE_MODELS]
        if not any(self.cluster.ml_objects("models", name) for name in names):
            # Remove connectors that could not be removed before, while the other models existed.
            for connector in [id for name in names for id in self._stamped_ids("connectors", name)]:
                self._remove_connector(connector)
            for group in self._stamped_ids("model_groups", self.group):
                self.cluster.request("DELETE", f"{self.path}/model_groups/{group}")

    def _remove_connector(self, id: str) -> None:
        # For a moment after its deletion, a model still counts as a user of its connector.
        delete = partial(self.cluster.request, "DELETE", f"{self.path}/connectors/{id}")
        try:
            self._retry_while(_IN_USE, delete, _FORGET_SECONDS)
        except NotFound:
            return  # for a moment, searches still return a deleted connector
        except EngineError as error:
            # OpenSearch 2 splits connector ids at hyphens when it looks for their users. So it may regard models of
            # other connectors as users of this connector. The connector stays until these models are removed.
            if _IN_USE not in error.message:
                raise
            log.warning("connector %s of %s cannot be removed yet: %s", id, self.name, error.message)

    def _remove_model(self, id: str) -> None:
        path = f"{self.path}/models/{id}"

        def undeploy_and_delete() -> None:
            self.cluster.request("POST", f"{path}/_undeploy")
            self.cluster.request("DELETE", path)

        # OpenSearch 2 refuses the deletion for a while after it has reported the model as undeployed.
        self._retry_while(f"deployed state|{_CONFLICT}", undeploy_and_delete)
        # In OpenSearch 2, searches return the model for up to another second. Undeploying it in this time would
        # recreate a part of it.
        deadline = time.monotonic() + _FORGET_SECONDS
        while time.monotonic() < deadline:
            if id not in [model_id for model_id, _ in self.cluster.ml_objects("models", self.name)]:
                break
            time.sleep(0.1)

    def _retry_while(self, refusal: str, attempt: Callable[[], Any], seconds: float = _DEPLOY_SECONDS) -> Any:
        """Call a function until the cluster accepts its request or refuses it for good.

        Args:
            refusal: A regular expression that matches the error message of a temporary refusal.
            attempt: The function to call.
            seconds: The time limit for retries, in seconds.

        Returns:
            The return value of ``attempt``.

        Raises:
            EngineError: If the error message does not match ``refusal``, or if the time limit is exceeded.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                return attempt()
            except EngineError as error:
                if not re.search(refusal, error.message) or time.monotonic() > deadline:
                    raise
            time.sleep(0.2)

    def _stamped_ids(self, kind: str, name: str) -> list[str]:
        """Return the ids of the ML Commons objects with this name that Resift created.

        Args:
            kind: ``connectors``, ``models`` or ``model_groups``.
            name: The name of the objects.
        """
        objects = self.cluster.ml_objects(kind, name)
        return [id for id, source in objects if Stamp.read(source.get("description"))]

    def _group_id(self) -> str:
        groups = self.cluster.ml_objects("model_groups", self.group)
        if groups:
            return groups[0][0]
        body = {"name": self.group, "description": str(self.stamp)}
        id: str = self.cluster.request("POST", f"{self.path}/model_groups/_register", body)["model_group_id"]
        return id

    def _await_deployed(self) -> None:
        path = f"{self.path}/models/{self.model_id}"
        deadline = time.monotonic() + _DEPLOY_SECONDS
        # Domains of Amazon ignore the URL parameters of a signed POST request, including "deploy". Request the
        # deployment at once there.
        next_deployment = time.monotonic() + (0 if self._is_managed else _STUCK_SECONDS)
        state = "unknown"
        while time.monotonic() < deadline:
            try:
                state = self.cluster.request("GET", path)["model_state"]
            except NotFound:
                state = "not registered yet"  # registration is a task that may end after its response
            # In OpenSearch 2, searches find a new model only after about a second. Wait for it, because other methods
            # look up models by searches.
            if state == "DEPLOYED" and self._is_searchable():
                return
            if state in _STUCK_STATES and time.monotonic() > next_deployment:
                self._deploy_again(path, state)
                next_deployment = time.monotonic() + _STUCK_SECONDS
            time.sleep(0.2)
        message = f"remote model {self.name} was not deployed: {state}"
        raise EngineError(message, value=state, expected="DEPLOYED: see the logs of the nodes")

    def _deploy_again(self, path: str, state: str) -> None:
        """Request the deployment of a model that some nodes have not deployed.

        A node that could not read the encryption key in time, for example because it had just started, does not try
        again by itself. It also refuses further deployments as duplicates until the model is undeployed.

        Args:
            path: The path of the model in REST requests.
            state: The deployment state of the model.
        """
        was_tried = state in ("PARTIALLY_DEPLOYED", "DEPLOY_FAILED")
        for action in ("_undeploy", "_deploy") if was_tried else ("_deploy",):
            self._retry_while(_CONFLICT, partial(self.cluster.request, "POST", f"{path}/{action}"))

    def _is_searchable(self) -> bool:
        return any(id == self.model_id for id, _ in self.cluster.ml_objects("models", self.name))


def _add_key(
    body: dict[str, Any], stamp: Stamp, key: str, managed: ManagedCluster | None
) -> tuple[dict[str, Any], Stamp]:
    """Add an API key to a connector.

    Args:
        body: The body of the connector.
        stamp: The stamp of the connector, which identifies it as created by Resift.
        key: The API key.
        managed: The provider that manages the cluster. On AWS, the connector refers to a secret instead.

    Returns:
        The new body, and a new stamp with the fingerprint of the key.
    """
    arns = managed.credential if managed else None
    stamp = replace(stamp, key=fingerprint("".join(arns.values()) if arns else key))
    body = {**body, "description": str(stamp), "credential": arns or {"key": key}}
    credential_name = f"secretArn.{SECRET}" if arns else "key"
    for action in body["actions"]:
        action["headers"]["Authorization"] = f"Bearer ${{credential.{credential_name}}}"
    return body, stamp
