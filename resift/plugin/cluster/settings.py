"""The cluster settings that ML Commons needs to call a reranker: changed where they have to be, and put back."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from resift.plugin.cluster.client import Cluster

PRIVATE = "plugins.ml_commons.connector.private_ip_enabled"
TRUSTED = "plugins.ml_commons.trusted_connector_endpoints_regex"
# Version 0.1 changed the first as well. Remote models never needed it: their nodes are those of
# plugins.ml_commons.task_dispatcher.eligible_node_role.remote_model.
_SWITCHES = {"plugins.ml_commons.only_run_on_ml_node": "false", PRIVATE: "true"}


class Change(NamedTuple):
    """A setting of the whole cluster that has to change: its value ``now`` and ``then``, and ``why``."""

    name: str
    now: Any
    then: Any
    why: str

    def __str__(self) -> str:
        if self.name == TRUSTED:
            return f"append {self.then[-1]} to {self.name}, which has {len(self.now)} patterns: {self.why}"
        return f"set {self.name} from {self.now} to {self.then}: {self.why}"


class ClusterSettings:
    """The settings that an installation changes. ``url`` is the reranker's, which ML Commons has to trust.

    The original values, which :meth:`with_originals` records, are a JSON object: for each switch its value (None if it
    was unset), and for the list of trusted addresses whether it was ``unset``, the ``list`` itself, and the patterns
    that were ``added`` to it since.
    """

    def __init__(self, cluster: Cluster, url: str) -> None:
        self.cluster = cluster
        parts = urlsplit(url)
        self.url, self.host = url, parts.hostname or ""
        self.pattern = f"^{parts.scheme}://{re.escape(parts.netloc)}/.*$"

    def required_changes(self) -> list[Change]:
        """What is not yet as it must be for ML Commons to call the reranker."""
        current = self.cluster.settings()
        changes = []
        if (now := current.get(PRIVATE)) != "true" and _is_private(self.host):
            why = f"ML Commons calls no private address otherwise, such as that of {self.host}"
            changes.append(Change(PRIVATE, now, "true", why))
        trusted = list(current.get(TRUSTED) or [])
        if not any(_matches(pattern, f"{self.url}/v1/rewrite") for pattern in trusted):
            # Writing the setting replaces the whole list, and others' addresses must stay in it.
            why = "ML Commons calls no other addresses"
            changes.append(Change(TRUSTED, trusted, [*trusted, self.pattern], why))
        return changes

    def with_originals(self, originals: dict[str, Any], changes: Sequence[Change]) -> dict[str, Any]:
        """Add to ``originals`` what the settings in ``changes`` are now, unless it has them already; return it."""
        persistent = self.cluster.persistent() if changes else {}
        for name, now, _, _ in changes:
            if name == TRUSTED:
                unchanged = {"unset": name not in persistent, "list": now, "added": []}
                original = originals.setdefault(name, unchanged)
                original["added"] = sorted({*original["added"], self.pattern})
            else:
                originals.setdefault(name, persistent.get(name))
        return originals

    def restoring_changes(self, originals: dict[str, Any]) -> dict[str, Any]:
        """Return the settings to write so that our changes are undone, with their values; None resets one.

        A switch that somebody else has changed since stays as it is, and so do addresses that others added.
        """
        current = self.cluster.settings()
        changes = {
            name: originals[name]
            for name, value in _SWITCHES.items()
            if name in originals and current.get(name) == value
        }
        if TRUSTED in originals:
            original = originals[TRUSTED]
            others = [pattern for pattern in current.get(TRUSTED) or [] if pattern not in original["added"]]
            changes[TRUSTED] = None if original["unset"] and others == original["list"] else others
        return changes

    def leaving_changes(self, others: Sequence[str]) -> dict[str, Any]:
        """Return the settings to write where other installations stay, whose rerankers have the addresses ``others``:
        only an address that none of them needs goes."""
        trusted = list(self.cluster.settings().get(TRUSTED) or [])
        if self.pattern not in trusted or any(_matches(self.pattern, f"{url}/v1/rewrite") for url in others):
            return {}
        return {TRUSTED: [pattern for pattern in trusted if pattern != self.pattern]}


def _is_private(host: str) -> bool:
    """Whether a host has an address that is not public, or one that is not known here and so may have."""
    try:
        found = {str(address[0]) for *_, address in socket.getaddrinfo(host, None)}
    except OSError:
        return True
    return not all(ip_address(address.partition("%")[0]).is_global for address in found)


def _matches(pattern: str, url: str) -> bool:
    try:
        return re.fullmatch(pattern.removeprefix("^").removesuffix("$"), url) is not None
    except re.error:  # a pattern of Java's that Python does not know: it is not one of ours
        return False
