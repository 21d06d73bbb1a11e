"""The route by which searches of an index reach the service: Resift's native plugin, or ML Commons."""

from __future__ import annotations

from typing import Any

from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.install import check_service_url
from resift.plugin.cluster.installation import DEFAULT_SERVICE_URL
from resift.plugin.cluster.native_plugin import NativePlugin, install_command, urls_for_searches_without_pipeline
from resift.plugin.cluster.search_pipelines import Rewriter
from resift.plugin.operations.install import InstallPlan, find_installation, required_install

NATIVE, ML_INFERENCE = "native", "ml_inference"
_NAMES = {NATIVE: "Resift's plugin", ML_INFERENCE: "ml_inference of ML Commons"}
_SHOWN_NODES = 3


class Route:
    """The choice between the two processors that can rewrite searches, and everything that the processor needs.

    The native processor is used if all nodes have Resift's plugin, because OpenSearch refuses pipelines whose processor
    is missing on a node. Otherwise, the processor ``ml_inference`` of ML Commons is used, which needs the resources
    that ``resift install`` creates (an installation).

    Args:
        cluster: The connection to the cluster.
        service: The URLs at which the nodes reach the service, separated by commas. None stands for the current URLs.
            ``ml_inference`` takes a single URL.
        current: The processor that rewrites the searches now, or None.

    Attributes:
        name: ``native`` or ``ml_inference``.
        urls: The URLs of the service.
        install: A plan to run ``resift install`` first, or None if this is not necessary.
        moved_from: The name of the other route if it rewrites the searches now, otherwise "".
        replaced_urls: The current URLs of the service if the plan replaces them, otherwise empty.

    Raises:
        BadInput: If a URL is invalid.
        UnsupportedCluster: If the cluster has neither Resift's plugin on all nodes nor ML Commons.
    """

    def __init__(self, cluster: Cluster, service: str | None, current: Rewriter | None) -> None:
        self.cluster, self.plugin = cluster, NativePlugin.read(cluster)
        self.name = NATIVE if self.plugin.is_on_all_nodes else ML_INFERENCE
        self.install: InstallPlan | None = None
        if self.is_native:
            self.urls = service_urls(cluster, service, current)
            before = current.urls if current is not None else ()
        else:
            self.install = required_install(cluster.engine, service)
            installation = find_installation(cluster)
            before = (installation.url,) if installation else ()
            self.urls = (self.install.installer.url,) if self.install else before or (DEFAULT_SERVICE_URL,)
        self.replaced_urls = before if before != self.urls else ()
        is_other = current is not None and current.is_native != self.is_native
        self.moved_from = {NATIVE: ML_INFERENCE, ML_INFERENCE: NATIVE}[self.name] if is_other else ""

    @property
    def is_native(self) -> bool:
        """Whether searches reach the service through Resift's native plugin, and not through ML Commons."""
        return self.name == NATIVE

    @property
    def _section(self) -> str:
        return "ext.resift" if self.is_native else "ext.ml_inference"

    @property
    def _other_section(self) -> str:
        return "ext.ml_inference" if self.is_native else "ext.resift"

    def to_dict(self) -> dict[str, Any]:
        """Return the chosen processor and the URLs of the service that it calls, as a JSON object."""
        steps = [] if self.install is None else self.install.steps
        return {"route": self.name, "moved_from": self.moved_from or None, "service": list(self.urls), "install": steps}

    def lines(self) -> list[str]:
        """Return lines of text for the user about the chosen processor and the URLs of the service that it calls."""
        if self.is_native:
            lines = [
                "  route       Resift's plugin, which all nodes have: only searches in a session call the service",
                f"              clients name the session in {self._section}",
                f"  service     {', '.join(self.urls)} (to change this: --service URL)",
            ]
        else:
            lines = [
                f"  route       ml_inference of ML Commons, because {self._reason()}",
                f"              clients name the session in {self._section}",
            ]
            if not self._is_managed():
                version = self.cluster.engine.ping().split()[1]
                lines += [
                    "              with the plugin, only searches in a session call the service (docs/install.md):",
                    f"              {install_command(version)} on each node",
                ]
        if self.moved_from:
            lines.append(f"  moved       from {_NAMES[self.moved_from]}, which rewrites these searches now")
            lines.append(f"              first let clients send {self._section} in place of {self._other_section}")
        if self.is_native and urls_for_searches_without_pipeline(self.cluster):
            lines.append("  note        the cluster rewrites searches in a session without any pipeline (resift.url)")
        if self.install is not None:
            url = self.install.installer.url
            lines.append(f"  install     first, for the service at {url} (to change this: --service URL):")
            lines += [f"              {step}" for step in self.install.steps]
        return lines

    def _reason(self) -> str:
        """Return the reason why the processor of Resift's plugin cannot be used, for the end of a sentence."""
        if self.plugin.is_on_no_node:
            return "the nodes lack Resift's plugin"
        missing = self.plugin.nodes_without
        more = f" and {len(missing) - _SHOWN_NODES} more" if len(missing) > _SHOWN_NODES else ""
        return f"these nodes lack Resift's plugin: {', '.join(missing[:_SHOWN_NODES])}{more}"

    def _is_managed(self) -> bool:
        """Return whether a provider such as Amazon manages the cluster. Such a cluster may not accept plugins."""
        installation = find_installation(self.cluster)
        return installation is not None and installation.managed is not None


def service_urls(cluster: Cluster, service: str | None, current: Rewriter | None) -> tuple[str, ...]:
    """Return the URLs of the service to write into the processor of Resift's native plugin.

    These are the URLs that the user chose. By default, they are the URLs of the current processor, the URL of an
    installation, or http://127.0.0.1:8080, in this order.

    Args:
        cluster: The connection to the cluster.
        service: The URLs that the user chose, separated by commas, or None.
        current: The processor that rewrites the searches now, whose URLs are the default, or None.

    Raises:
        BadInput: If a URL is invalid.
    """
    chosen = tuple(url.strip().rstrip("/") for url in (service or "").split(",") if url.strip())
    for url in chosen:
        check_service_url(url)
    if chosen:
        return chosen
    if current is not None and current.urls:
        return current.urls
    installation = find_installation(cluster)
    return (installation.url if installation else DEFAULT_SERVICE_URL,)
