"""What Resift puts into a cluster: each piece as a resource that can be read, made and removed.

The bodies are the JSON and Painless files of the folder ``resources``, their ``{{names}}`` filled in. Everything that
is made carries a stamp in its description, so that only our own things are ever changed or removed.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from resift.errors import NotFound
from resift.plugin.opensearch.engine import OpenSearchEngine

SCRIPTS = ("fuzzy_jaccard", "masked_cosine")
REMOTE = ("embed", "rerank", "score", "quick")
PIPELINES = ("hybrid", "rerank", "session", "quick")
_STAMP = re.compile(r"Resift (?P<version>\S+), model (?P<model>\S+), content (?P<content>\S+)")


@dataclass(frozen=True)
class Stamp:
    """Who made a resource: our version, the model's hash, and a fingerprint of the resource's content."""

    version: str
    model: str
    content: str

    def __str__(self) -> str:
        return f"Resift {self.version}, model {self.model}, content {self.content}"

    @classmethod
    def read(cls, text: Any) -> Stamp | None:
        """The stamp in a description, or None where it is not ours."""
        found = _STAMP.search(text) if isinstance(text, str) else None
        return cls(**found.groupdict()) if found else None


def text_of(name: str) -> str:
    """A resource file's text."""
    return (files("resift.plugin") / "resources" / name).read_text("utf-8")


def fill(template: Any, values: dict[str, Any]) -> Any:
    """``template`` with ``{{name}}`` replaced: a string that is nothing else by the value itself.

    >>> fill({"a": "{{n}}", "b": "x-{{n}}"}, {"n": 3})
    {'a': 3, 'b': 'x-3'}
    """
    if isinstance(template, dict):
        return {key: fill(value, values) for key, value in template.items()}
    if isinstance(template, list):
        return [fill(value, values) for value in template]
    if not isinstance(template, str):
        return template
    whole = re.fullmatch(r"\{\{(\w+)\}\}", template)
    if whole:
        return values[whole[1]]
    return re.sub(r"\{\{(\w+)\}\}", lambda match: str(values[match[1]]), template)


def render(name: str, values: dict[str, Any]) -> tuple[dict[str, Any], Stamp]:
    """A resource's body and its stamp, the fingerprint taken over everything but the stamp itself."""
    template = json.loads(text_of(f"{name}.json"))
    bare = fill(template, {**values, "stamp": "", "settings_before": None})
    content = hashlib.sha256(json.dumps(bare, sort_keys=True).encode()).hexdigest()[:12]
    stamp = Stamp(values["version"], values["model"], content)
    return fill(template, {"settings_before": None, **values, "stamp": str(stamp)}), stamp


class Cluster:
    """The few REST calls that Resift makes besides searching and indexing."""

    def __init__(self, engine: OpenSearchEngine) -> None:
        self.engine = engine

    def request(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        """One call; errors are ours."""
        perform = self.engine.client.transport.perform_request
        return self.engine.call(perform, method, path, body=body, params=params or None)

    def find(self, path: str, key: str | None = None) -> Any:
        """What GET answers (under ``key``), or None where there is nothing."""
        try:
            found = self.request("GET", path)
        except NotFound:
            return None
        return found if key is None else found.get(key)

    def plugins(self) -> set[str]:
        """Names of the plugins that the nodes have."""
        return {row["component"] for row in self.request("GET", "/_cat/plugins", format="json")}

    def named(self, kind: str, name: str) -> list[tuple[str, dict[str, Any]]]:
        """Ids and bodies of ML Commons' ``kind`` (connectors, models, model_groups) with exactly this name."""
        query = {"query": {"match_phrase": {"name": name}}, "size": 100, "version": True}
        try:
            found = self.request("POST", f"/_plugins/_ml/{kind}/_search", query)
        except NotFound:
            return []
        hits = [(hit["_id"], hit["_source"]) for hit in found["hits"]["hits"]]
        return [(id, source) for id, source in hits if source.get("name") == name]

    def settings(self) -> dict[str, Any]:
        """Cluster settings by their flat names, the most specific value of each."""
        found = self.request("GET", "/_cluster/settings", include_defaults="true", flat_settings="true")
        return {**found["defaults"], **found["persistent"], **found["transient"]}

    def persistent(self) -> dict[str, Any]:
        """The persistent cluster settings by their flat names."""
        found: dict[str, Any] = self.request("GET", "/_cluster/settings", flat_settings="true")["persistent"]
        return found

    def set(self, values: dict[str, Any]) -> None:
        """Change persistent cluster settings; None resets one."""
        self.request("PUT", "/_cluster/settings", {"persistent": values})
