"""Cluster settings that let ML Commons call the service: which have to change, and how to restore them."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from resift.plugin.cluster.client import Cluster

PRIVATE_ADDRESSES = "plugins.ml_commons.connector.private_ip_enabled"
TRUSTED_ADDRESSES = "plugins.ml_commons.trusted_connector_endpoints_regex"
# Settings that Resift switches, and the values that it sets. Version 0.1 also changed the first setting. It is restored
# at uninstallation, but not changed any more: remote models run on the nodes that
# plugins.ml_commons.task_dispatcher.eligible_node_role.remote_model selects, regardless of its value.
_SWITCHES = {"plugins.ml_commons.only_run_on_ml_node": "false", PRIVATE_ADDRESSES: "true"}


class Change(NamedTuple):
    """A change of a cluster setting.

    Attributes:
        name: The name of the setting.
        now: The current value.
        then: The new value.
        why: The reason for the change, as a text for the user.
    """

    name: str
    now: Any
    then: Any
    why: str

    def __str__(self) -> str:
        if self.name == TRUSTED_ADDRESSES:
            return f"append {self.then[-1]} to {self.name}, which has {len(self.now)} patterns: {self.why}"
        return f"set {self.name} from {self.now} to {self.then}: {self.why}"


class ClusterSettings:
    """Changes the cluster settings that prevent OpenSearch's ML Commons plugin from calling the Resift service.

    The original values are recorded as a JSON object, so that they can be restored. The object maps the name of a
    setting to its original value, or to None if the setting was not set. The value for the list of trusted addresses is
    an object with these keys:

    * ``unset``: whether the setting was not set
    * ``list``: the original list
    * ``added``: the patterns that Resift has added

    Args:
        cluster: The cluster.
        url: The URL of the service, which ML Commons must trust.
    """

    def __init__(self, cluster: Cluster, url: str) -> None:
        self.cluster = cluster
        parts = urlsplit(url)
        self.url, self.host = url, parts.hostname or ""
        self.pattern = f"^{parts.scheme}://{re.escape(parts.netloc)}/.*$"

    def required_changes(self) -> list[Change]:
        """Return the changes of cluster settings that are necessary before ML Commons can call the service."""
        current = self.cluster.effective_settings()
        changes = []
        if (now := current.get(PRIVATE_ADDRESSES)) != "true" and _is_private(self.host):
            why = f"by default, ML Commons refuses private addresses such as {self.host}"
            changes.append(Change(PRIVATE_ADDRESSES, now, "true", why))
        trusted = list(current.get(TRUSTED_ADDRESSES) or [])
        if not any(_matches(pattern, f"{self.url}/v1/rewrite") for pattern in trusted):
            # A write replaces the whole list, so the existing patterns must be part of it.
            why = "ML Commons calls only the addresses in this list"
            changes.append(Change(TRUSTED_ADDRESSES, trusted, [*trusted, self.pattern], why))
        return changes

    def with_originals(self, originals: dict[str, Any], changes: Sequence[Change]) -> dict[str, Any]:
        """Record the original values of settings that are about to change.

        Args:
            originals: The original values that are already recorded. Missing values are added to this dictionary.
            changes: The changes that are about to be made.

        Returns:
            The dictionary ``originals``.
        """
        persistent = self.cluster.persistent_settings() if changes else {}
        for name, now, _, _ in changes:
            if name == TRUSTED_ADDRESSES:
                unchanged = {"unset": name not in persistent, "list": now, "added": []}
                original = originals.setdefault(name, unchanged)
                original["added"] = sorted({*original["added"], self.pattern})
            else:
                originals.setdefault(name, persistent.get(name))
        return originals

    def restoring_changes(self, originals: dict[str, Any]) -> dict[str, Any]:
        """Return the settings to write in order to undo Resift's changes.

        A setting that somebody else changed after Resift is left unchanged. Resift's own pattern is removed from the
        list of addresses that ML Commons may call (the trusted addresses). Other addresses in the list are preserved.

        Args:
            originals: The recorded original values.

        Returns:
            The values to write, by the name of the setting. None resets a setting to its default.
        """
        current = self.cluster.effective_settings()
        changes = {
            name: originals[name]
            for name, value in _SWITCHES.items()
            if name in originals and current.get(name) == value
        }
        if TRUSTED_ADDRESSES in originals:
            original = originals[TRUSTED_ADDRESSES]
            remaining = [
                pattern for pattern in current.get(TRUSTED_ADDRESSES) or [] if pattern not in original["added"]
            ]
            changes[TRUSTED_ADDRESSES] = None if original["unset"] and remaining == original["list"] else remaining
        return changes

    def leaving_changes(self, other_urls: Sequence[str]) -> dict[str, Any]:
        """Return the settings to write when this installation is removed, but other installations stay.

        Only the trusted address of this service is removed, unless another installation needs it.

        Args:
            other_urls: The service URLs of the other installations.

        Returns:
            The values to write, by the name of the setting.
        """
        trusted = list(self.cluster.effective_settings().get(TRUSTED_ADDRESSES) or [])
        if self.pattern not in trusted or any(_matches(self.pattern, f"{url}/v1/rewrite") for url in other_urls):
            return {}
        return {TRUSTED_ADDRESSES: [pattern for pattern in trusted if pattern != self.pattern]}


def _is_private(host: str) -> bool:
    """Return whether a host has an IP address that is not public, or whether its IP address is unknown.

    A host name that this machine cannot resolve may have a private address, so the result is True.
    """
    try:
        addresses = {str(address[0]) for *_, address in socket.getaddrinfo(host, None)}
    except OSError:
        return True
    return not all(ip_address(address.partition("%")[0]).is_global for address in addresses)


def _matches(pattern: str, url: str) -> bool:
    try:
        return re.fullmatch(pattern.removeprefix("^").removesuffix("$"), url) is not None
    except re.error:  # a Java pattern that Python cannot compile, so Resift did not add it
        return False
