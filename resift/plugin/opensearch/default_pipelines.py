"""Indices whose default search pipeline is ours, and which our own searches pass by."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from opensearchpy import OpenSearch

from resift.contracts.engine import Headers
from resift.contracts.query_dsl import PIPELINE_PREFIX, Body
from resift.errors import ResiftError
from resift.plugin.opensearch.client import call

_SECONDS = 5.0  # for which it is remembered what an index has, as its fields are
_SETTING = "index.search.default_pipeline"
_CHANGED = "*.mappings._meta.resift.attached.settings"  # by attaching


class DefaultPipelines:
    """Knows of which indices the default search pipeline is ours.

    Our own searches are rewritten already, or are meant to be plain. Through the pipeline the cluster would ask the
    reranker about each, which costs five milliseconds where all is well; where all its threads wait for searches, or it
    hangs, it costs a second. Where an index came by a snapshot without the pipeline, it would refuse them.
    """

    def __init__(self, client: OpenSearch) -> None:
        self.client = client
        self._known: dict[tuple[str, str], tuple[float, bool]] = {}

    def passed_by(self, index: str, body: Body, headers: Headers) -> Body:
        """The body of a search of ours; a default pipeline of somebody else's is for it too."""
        if "search_pipeline" in body or not self._are_ours(index, headers):
            return body
        return {**body, "search_pipeline": "_none"}

    def _are_ours(self, index: str, headers: Headers) -> bool:
        key, now = (index, str(headers)), time.monotonic()
        asked, found = self._known.get(key, (-_SECONDS, False))
        if now - asked >= _SECONDS:
            found = self._ask(index, headers)
            self._known = {**self._known, key: (now, found)} if len(self._known) < 1000 else {key: (now, found)}
        return found

    def _ask(self, index: str, headers: Headers) -> bool:
        if "*" in index or index in ("", "_all"):  # a cluster warns who asks for all settings, its own indices' too
            return False
        indices = self.client.indices
        try:
            answer = self._get(indices.get_settings, index, headers, {"flat_settings": "true"}, name=_SETTING)
            found = {name: answer[name]["settings"].get(_SETTING, "") for name in answer}
            # A clone, and what was restored under another name, have that of the index that they come from.
            others = [name for name, pipeline in found.items() if pipeline != f"{PIPELINE_PREFIX}{name}"]
            if not found or not all(found[name].startswith(PIPELINE_PREFIX) for name in others):
                return False
            params = {"filter_path": _CHANGED}
            changed = self._get(indices.get_mapping, ",".join(others), headers, params) if others else {}
        except ResiftError:  # such as for who may search and may not read settings: the pipeline does no harm
            return False
        settings = {name: one["mappings"]["_meta"]["resift"]["attached"]["settings"] for name, one in changed.items()}
        return all(_SETTING in settings.get(name, {}) for name in others)

    def _get(self, get: Callable[..., Any], index: str, headers: Headers, params: dict[str, str], **path: str) -> Any:
        # local: of what the node knows that is asked, as the one that manages the cluster may hang
        return call(get, index=index, headers=headers, params={**params, "local": "true"}, **path)
