"""The cluster settings that ML Commons needs to call a reranker: switched on, appended to, and put back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from resift.plugin.cluster.client import Cluster

SWITCHES = {
    "plugins.ml_commons.only_run_on_ml_node": "false",
    "plugins.ml_commons.connector.private_ip_enabled": "true",
}
TRUSTED = "plugins.ml_commons.trusted_connector_endpoints_regex"


class ClusterSettings:
    """The settings that an installation changes. ``url`` is the reranker's, which ML Commons has to trust.

    The original values, which :meth:`with_originals` records, are a JSON object: for each switch its value (None if it
    was unset), and for the list of trusted addresses whether it was ``unset``, the ``list`` itself, and the patterns
    that were ``added`` to it since.
    """

    def __init__(self, cluster: Cluster, url: str) -> None:
        self.cluster = cluster
        parts = urlsplit(url)
        self.url = url
        self.pattern = f"^{parts.scheme}://{re.escape(parts.netloc)}/.*$"

    def required_changes(self) -> dict[str, Any]:
        """Return the settings that are not yet as they must be, with their new values."""
        current = self.cluster.settings()
        changes: dict[str, Any] = {name: value for name, value in SWITCHES.items() if current.get(name) != value}
        trusted = list(current.get(TRUSTED) or [])
        if not any(_matches(pattern, f"{self.url}/v1/rewrite") for pattern in trusted):
            # Writing the setting replaces the whole list, and others' addresses must stay in it.
            changes[TRUSTED] = [*trusted, self.pattern]
        return changes

    def with_originals(self, originals: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
        """Add to ``originals`` what the settings in ``changes`` are now, unless it has them already; return it."""
        persistent = self.cluster.persistent()
        for name in changes:
            if name == TRUSTED:
                unchanged = {"unset": name not in persistent, "list": changes[name][:-1], "added": []}
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
            for name, value in SWITCHES.items()
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


def _matches(pattern: str, url: str) -> bool:
    try:
        return re.fullmatch(pattern.removeprefix("^").removesuffix("$"), url) is not None
    except re.error:  # a pattern of Java's that Python does not know: it is not one of ours
        return False
