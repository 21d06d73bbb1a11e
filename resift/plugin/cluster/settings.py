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
        name: Name of the setting.
        now: Current value.
        then: New value.
        why: Reason for the change, in English.
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
    """The cluster settings that an installation changes.

    The original values, which :meth:`with_originals` records, are a JSON object. It maps the name of a switch to its
    value, or to None if it was not set. The value of the list of trusted addresses is an object: ``unset`` tells
    whether the setting was not set, ``list`` is the original list, and ``added`` are the patterns that Resift has added
    since.

    Args:
        cluster: The cluster.
        url: The service's URL, which ML Commons must trust.
    """

    def __init__(self, cluster: Cluster, url: str) -> None:
        self.cluster = cluster
        parts = urlsplit(url)
        self.url, self.host = url, parts.hostname or ""
        self.pattern = f"^{parts.scheme}://{re.escape(parts.netloc)}/.*$"

    def required_changes(self) -> list[Change]:
        """Return the changes that are still needed before ML Commons calls the service."""
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
        """Record the current values of the settings in ``changes``, unless they are recorded already.

        Args:
            originals: Recorded original values, to which missing values are added.
            changes: The changes that are about to be made.

        Returns:
            ``originals``.
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
        """Return the settings to write so that Resift's changes are undone.

        A switch that somebody has changed since keeps its value, and so do addresses that Resift did not add.

        Args:
            originals: The recorded original values.

        Returns:
            Values by setting. None resets a setting to its default.
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
        """Return the settings to write if other installations stay in the cluster.

        Only the trusted address of this service is removed, unless another installation needs it.

        Args:
            other_urls: Service URLs of the other installations.
        """
        trusted = list(self.cluster.effective_settings().get(TRUSTED_ADDRESSES) or [])
        if self.pattern not in trusted or any(_matches(self.pattern, f"{url}/v1/rewrite") for url in other_urls):
            return {}
        return {TRUSTED_ADDRESSES: [pattern for pattern in trusted if pattern != self.pattern]}


def _is_private(host: str) -> bool:
    """Return whether a host has, or may have, an address that is not public.

    A host name that cannot be resolved on this machine may have a private address.
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
