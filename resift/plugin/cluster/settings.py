"""Cluster settings that let ML Commons call the service: finding the necessary changes, and undoing them."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from resift.plugin.cluster.client import Cluster

PRIVATE_ADDRESSES = "plugins.ml_commons.connector.private_ip_enabled"
TRUSTED_ADDRESSES = "plugins.ml_commons.trusted_connector_endpoints_regex"
# Since 3.7: if this list is not empty, a private address must also match one of its patterns. An empty list permits all
# private addresses, so Resift adds its pattern only to a list that has patterns already.
TRUSTED_PRIVATE_ADDRESSES = "plugins.ml_commons.trusted_connector_private_endpoints_regex"
_LISTS = (TRUSTED_ADDRESSES, TRUSTED_PRIVATE_ADDRESSES)
# Settings that Resift switches, and the values that it sets. plugins.ml_commons.only_run_on_ml_node has no influence on
# remote models, which run on the nodes that plugins.ml_commons.task_dispatcher.eligible_node_role.remote_model selects.
_SWITCHES = {PRIVATE_ADDRESSES: "true"}


# ML Commons refuses these patterns since 3.7 (MLCommonsSettings.validateRegexSafety): a repeated group that ends with a
# repetition, a reference to a group, and long patterns.
_UNSAFE = re.compile(r"\([^)]*[*+?]\)[*+?{]|\\[1-9]")
_MAX_PATTERN_LENGTH = 256


class SettingChange(NamedTuple):
    """A change to a cluster setting.

    Attributes:
        name: The name of the setting.
        current_value: The current value.
        new_value: The new value.
        reason: The reason for the change, which is shown to the user.
    """

    name: str
    current_value: Any
    new_value: Any
    reason: str

    def __str__(self) -> str:
        if self.name not in _LISTS:
            return f"set {self.name} from {self.current_value} to {self.new_value}: {self.reason}"
        text = (
            f"append {self.new_value[-1]} to {self.name}, which has {len(self.current_value)} patterns: {self.reason}"
        )
        dropped = [pattern for pattern in self.current_value if pattern not in self.new_value]
        if dropped:
            text += f"; and remove {', '.join(dropped)}, which this version of ML Commons refuses in a written list"
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return the change as a JSON object."""
        return {"name": self.name, "now": self.current_value, "then": self.new_value, "why": self.reason}


def necessary_changes(current_settings: Mapping[str, Any], url: str, is_private: bool) -> list[SettingChange]:
    """Return the changes of cluster settings that are necessary before ML Commons can call the service.

    Args:
        current_settings: The current values of the settings, including defaults, by name.
        url: The URL of the service.
        is_private: Whether the service may have a private address.
    """
    changes = []
    if is_private and (value := current_settings.get(PRIVATE_ADDRESSES)) != "true":
        reason = f"by default, ML Commons refuses private addresses such as {urlsplit(url).hostname}"
        changes.append(SettingChange(PRIVATE_ADDRESSES, value, "true", reason))
    reasons = {TRUSTED_ADDRESSES: "ML Commons calls only the addresses in this list"}
    if is_private and current_settings.get(TRUSTED_PRIVATE_ADDRESSES):
        reasons[TRUSTED_PRIVATE_ADDRESSES] = "ML Commons calls only the private addresses in this list"
    for name, reason in reasons.items():
        patterns = list(current_settings.get(name) or [])
        if not any(_matches(pattern, f"{url}/v1/rewrite") for pattern in patterns):
            # A write replaces the whole list, so the existing patterns must be part of it.
            accepted = accepted_patterns(patterns, current_settings)
            changes.append(SettingChange(name, patterns, [*accepted, trusted_pattern(url)], reason))
    return changes


def accepted_patterns(patterns: Sequence[str], current_settings: Mapping[str, Any]) -> list[str]:
    """Remove the URL patterns that ML Commons would reject from a list of patterns.

    ML Commons only calls addresses that match one of the patterns in a cluster setting. Since version 3.7, it refuses
    to store this setting if one of the patterns is too long or unsafe. A setting from an earlier version may contain
    such patterns. Remove them before you write the setting again.

    Args:
        patterns: The patterns in the setting.
        current_settings: All current cluster settings, by name, including defaults. A setting that exists only since
            version 3.7 shows whether the cluster checks patterns. If it is missing, all patterns are returned.
    """
    if TRUSTED_PRIVATE_ADDRESSES not in current_settings:  # before 3.7, all patterns are accepted
        return list(patterns)
    return [pattern for pattern in patterns if len(pattern) <= _MAX_PATTERN_LENGTH and _UNSAFE.search(pattern) is None]


def trusted_pattern(url: str) -> str:
    """Return a regular expression that matches all URLs under the URL of the service.

    Args:
        url: The URL of the service.
    """
    parts = urlsplit(url)
    return f"^{parts.scheme}://{re.escape(parts.netloc)}/.*$"


class ClusterSettings:
    """Changes the cluster settings that prevent OpenSearch's ML Commons plugin from calling the Resift service.

    The original values are recorded as a JSON object, so that they can be restored. The object maps the name of a
    setting to its original value, or to None if the setting was not set. Some settings are lists of URL patterns. Their
    values are recorded as an object with these keys:

    * ``unset``: whether the setting was not set
    * ``list``: the original list
    * ``added``: the patterns that Resift has added

    Args:
        cluster: The connection to the cluster.
        url: The URL of the service, which ML Commons must trust.
    """

    def __init__(self, cluster: Cluster, url: str) -> None:
        self.cluster, self.url, self.pattern = cluster, url, trusted_pattern(url)

    def required_changes(self) -> list[SettingChange]:
        """Return the changes to cluster settings that are necessary before ML Commons can call the service."""
        is_private = _is_private(urlsplit(self.url).hostname or "")
        return necessary_changes(self.cluster.effective_settings(), self.url, is_private)

    def record_originals(self, originals: dict[str, Any], changes: Sequence[SettingChange]) -> dict[str, Any]:
        """Record the original values of settings that are about to change, so that they can be restored later.

        Args:
            originals: The original values that were recorded before, by setting. The dictionary is changed: missing
                values and the pattern of this service are added to it.
            changes: The changes that are about to be made.

        Returns:
            The dictionary ``originals``.
        """
        persistent = self.cluster.persistent_settings() if changes else {}
        for change in changes:
            if change.name in _LISTS:
                unchanged = {"unset": change.name not in persistent, "list": change.current_value, "added": []}
                original = originals.setdefault(change.name, unchanged)
                original["added"] = sorted({*original["added"], self.pattern})
            else:
                originals.setdefault(change.name, persistent.get(change.name))
        return originals

    def restored_settings(self, originals: dict[str, Any]) -> dict[str, Any]:
        """Return the settings to write when the last installation is removed, to undo Resift's changes.

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
        for name in _LISTS:
            if name not in originals:
                continue
            original = originals[name]
            remaining = [pattern for pattern in current.get(name) or [] if pattern not in original["added"]]
            remaining = accepted_patterns(remaining, current)
            changes[name] = None if original["unset"] and remaining == original["list"] else remaining
        return changes

    def settings_after_removal(self, other_urls: Sequence[str]) -> dict[str, Any]:
        """Return the settings to write when this installation is removed, but other installations stay in the cluster.

        Only the URL pattern of this installation's service is removed from the lists of addresses that ML Commons may
        call. If another installation needs the pattern, nothing is removed, and the result is empty.

        Args:
            other_urls: The service URLs of the other installations.

        Returns:
            The values to write, by the name of the setting.
        """
        if any(_matches(self.pattern, f"{url}/v1/rewrite") for url in other_urls):
            return {}
        current = self.cluster.effective_settings()
        changes = {}
        for name in _LISTS:
            patterns = list(current.get(name) or [])
            if self.pattern in patterns:
                remaining = [pattern for pattern in patterns if pattern != self.pattern]
                changes[name] = accepted_patterns(remaining, current)
        return changes


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
