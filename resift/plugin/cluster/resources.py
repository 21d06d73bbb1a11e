"""The resources that Resift installs in a cluster: how each kind is inspected, created and removed.

Remote models are in :mod:`resift.plugin.cluster.remote_model`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any
from urllib.parse import quote

from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.templates import Stamp, fingerprint, render_template
from resift.rewriting.similarity import script_source
from resift.version import __version__

SCRIPTS = ("fuzzy_jaccard", "masked_cosine")
PIPELINES = ("hybrid", "rerank")


class Resource(ABC):
    """A resource that Resift installs in a cluster, such as a script or a pipeline.

    Args:
        cluster: The connection to the cluster.
        name: The name of the resource.
        path: The path of the resource in REST requests.
        body: The body with which the resource is created. It contains the stamp.
        stamp: The stamp of the desired resource: a short text that identifies a resource as created by Resift, and
            names its version, embedding model and content.

    Attributes:
        kind: The kind of the resource, such as "stored script", for messages.
    """

    kind: str

    def __init__(self, cluster: Cluster, name: str, path: str, body: dict[str, Any], stamp: Stamp) -> None:
        self.cluster, self.name, self.path, self.body, self.stamp = cluster, name, path, body, stamp

    @abstractmethod
    def state(self) -> str:
        """Compare the resource in the cluster with the desired resource.

        Returns:
            One of these states:

            * ``ok``: The resource is as desired.
            * ``missing``: The resource does not exist.
            * ``foreign``: A resource with this name exists, but Resift did not create it.
            * ``changed``: The content of the resource differs.
            * ``other model HASH``: The resource was installed for another embedding model.
            * ``other version VERSION``: Another version of Resift installed the resource.
            * ``other key`` or ``no key``: The resource contains another API key of the service, or none.
            * ``not deployed``: The remote model exists, but OpenSearch has not deployed it.
            * ``deploys when first used``: OpenSearch will deploy the remote model at its first call.
            * ``switched off``: The remote model is disabled, because the service did not answer.
        """

    def create(self) -> None:
        """Create the resource in the cluster. An existing resource with the same name is replaced."""
        self.cluster.request("PUT", self.path, self.body)

    def remove(self) -> None:
        """Remove the resource."""
        self.cluster.request("DELETE", self.path)

    def _state_from_stamp(self, description: str | None) -> str:
        """Compare the stamp in the installed resource with the desired stamp, and return the state of the resource.

        The stamp is a short text that identifies a resource as created by Resift.

        Args:
            description: The text in the resource that should contain the stamp, or None if the resource does not exist.

        Returns:
            The state, such as "ok", "missing" or "changed". :meth:`state` lists all states.
        """
        if description is None:
            return "missing"
        stamp = Stamp.read(description)
        if stamp is None:
            return "foreign"
        if stamp.model != self.stamp.model:
            return f"other model {stamp.model}"
        if stamp.version != self.stamp.version:
            return f"other version {stamp.version}"
        # If the user passed no key, the installed key stays, because the user may not know it.
        if self.stamp.key not in (None, stamp.key):
            return "other key" if stamp.key else "no key"
        return "ok" if stamp.content == self.stamp.content else "changed"


class Script(Resource):
    """A stored Painless script. The first line of its source is a comment that identifies it as created by Resift.

    Args:
        cluster: The connection to the cluster.
        installation: The name of the installation, which is the prefix of the names of all resources that Resift
            creates.
        script: The name of the script's file, without ``.painless``.
    """

    kind = "stored script"

    def __init__(self, cluster: Cluster, installation: str, script: str) -> None:
        source = script_source(script)
        # The stamp names no model, so that an installation with another model does not replace the scripts.
        stamp = Stamp(__version__, "any", fingerprint(source))
        body = {"script": {"lang": "painless", "source": f"// {stamp}\n{source}"}}
        name = f"{installation}-{script.replace('_', '-')}"
        super().__init__(cluster, name, f"/_scripts/{name}", body, stamp)

    def state(self) -> str:
        """Compare the installed script with the desired script.

        Returns:
            The state, for example "ok", "missing" or "changed". :meth:`Resource.state` explains all states.
        """
        return self._state_from_stamp((self.cluster.get_or_none(self.path, "script") or {}).get("source"))


class IndexTemplate(Resource):
    """The index template of an installation. It applies to new indices with names of the form ``NAME-*``.

    NAME is the name of the installation: the scripts, models and pipelines that ``resift install`` puts into a cluster.
    The ``_meta`` of the template also describes the installation, so that later commands can find its settings.

    Args:
        cluster: The connection to the cluster.
        name: The name of the installation.
        values: The values of the placeholders in the template.
    """

    kind = "index template"

    def __init__(self, cluster: Cluster, name: str, values: dict[str, Any]) -> None:
        super().__init__(cluster, name, f"/_index_template/{name}", *render_template("index-template", values))

    def state(self) -> str:
        """Compare the installed template with the desired template.

        Returns:
            For example, "ok" if they are equal, "missing" if the template does not exist, and "changed" if they differ.
            :meth:`Resource.state` lists all states.
        """
        meta = self._installed_meta()
        return self._state_from_stamp(None if meta is None else meta.get("resift", ""))

    def settings_before(self) -> dict[str, Any]:
        """Return the values that cluster settings had before Resift was first installed.

        They are stored in the installed index template. The result is empty if the template contains no values.
        """
        return dict((self._installed_meta() or {}).get("settings_before") or {})

    def _installed_meta(self) -> dict[str, Any] | None:
        templates = self.cluster.get_or_none(self.path, "index_templates")
        if not templates:
            return None
        meta: dict[str, Any] = templates[0]["index_template"].get("_meta", {})
        return meta


class Pipeline(Resource):
    """An ingest pipeline or search pipeline that Resift creates.

    Args:
        cluster: The connection to the cluster.
        kind: ``ingest`` or ``search``.
        name: The name of the pipeline.
        body: The body of the pipeline.
        stamp: The stamp in the description of the pipeline, which identifies it as created by Resift.
    """

    def __init__(self, cluster: Cluster, kind: str, name: str, body: dict[str, Any], stamp: Stamp) -> None:
        self.kind = f"{kind} pipeline"
        super().__init__(cluster, name, f"/_{kind}/pipeline/{quote(name, safe='')}", body, stamp)

    def state(self) -> str:
        """Compare the installed pipeline with the desired pipeline.

        Returns:
            For example, "ok" if they are equal, "missing" if the pipeline does not exist, and "changed" if they differ.
            :meth:`Resource.state` lists all states.
        """
        pipeline = self.cluster.get_or_none(self.path, self.name)
        return self._state_from_stamp(None if pipeline is None else self._description(pipeline))

    def _description(self, pipeline: dict[str, Any]) -> str:
        """Return the description of an installed pipeline.

        In a pipeline that Resift created, the description contains the stamp: a short text that identifies the pipeline
        as created by Resift.

        Args:
            pipeline: The body of the pipeline.
        """
        return str(pipeline.get("description", ""))
