"""The cluster settings that ML Commons needs to call a reranker: switched on, appended to, and put back."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from resift.plugin.cluster.resources import Cluster

SWITCHES = {
    "plugins.ml_commons.only_run_on_ml_node": "false",
    "plugins.ml_commons.connector.private_ip_enabled": "true",
}
TRUSTED = "plugins.ml_commons.trusted_connector_endpoints_regex"


class ClusterSettings:
    """What the settings are, must be, and were. ``url`` is the reranker's, which ML Commons has to trust."""

    def __init__(self, cluster: Cluster, url: str) -> None:
        self.cluster = cluster
        parts = urlsplit(url)
        self.url = url
        self.pattern = f"^{parts.scheme}://{re.escape(parts.netloc)}/.*$"

    def due(self) -> dict[str, Any]:
        """Settings to change and their new values; the list of trusted addresses is appended to, never replaced."""
        now = self.cluster.settings()
        due: dict[str, Any] = {name: value for name, value in SWITCHES.items() if now.get(name) != value}
        trusted = list(now.get(TRUSTED) or [])
        if not any(_matches(pattern, f"{self.url}/v1/score") for pattern in trusted):
            due[TRUSTED] = [*trusted, self.pattern]
        return due

    def remember(self, before: dict[str, Any], due: dict[str, Any]) -> dict[str, Any]:
        """``before``, and what the ``due`` settings are now: the value (None if unset), or list and patterns."""
        persistent = self.cluster.persistent()
        for name in due:
            if name == TRUSTED:
                base = {"unset": name not in persistent, "list": due[name][:-1], "added": []}
                known = before.setdefault(name, base)
                known["added"] = sorted({*known["added"], self.pattern})
            else:
                before.setdefault(name, persistent.get(name))
        return before

    def back(self, before: dict[str, Any]) -> dict[str, Any]:
        """Values that undo ours; what others changed since then stays as they want it."""
        now = self.cluster.settings()
        back = {name: before[name] for name, value in SWITCHES.items() if name in before and now.get(name) == value}
        if TRUSTED in before:
            known = before[TRUSTED]
            rest = [pattern for pattern in now.get(TRUSTED) or [] if pattern not in known["added"]]
            back[TRUSTED] = None if known["unset"] and rest == known["list"] else rest
        return back


def _matches(pattern: str, url: str) -> bool:
    try:
        return re.fullmatch(pattern.removeprefix("^").removesuffix("$"), url) is not None
    except re.error:
        return False
