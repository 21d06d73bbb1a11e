"""Indices whose default search pipeline does nothing but ask us, and which our own searches pass by."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from opensearchpy import OpenSearch

from resift.cache import TtlCache
from resift.contracts.engine import Headers
from resift.contracts.query_dsl import PIPELINE_PREFIX, Body
from resift.errors import ResiftError
from resift.plugin.opensearch.client import call

_SECONDS = 5.0  # for which it is remembered what an index has, as its fields are
_SETTING = "index.search.default_pipeline"
_SLOW_SECONDS = 1.0  # that the node which manages the cluster may take: searches wait for it


class DefaultPipelines:
    """Knows of which indices the default search pipeline is ours, and holds nothing else.

    Our own searches are rewritten already, or are meant to be plain. Through the pipeline the cluster would ask the
    reranker about each, which costs five milliseconds where all is well; where all its threads wait for searches, or it
    hangs, it costs a second. Where an index came by a snapshot without the pipeline, it would refuse them. What else a
    pipeline does, such as to mix the scores of a ``hybrid`` query, is meant for our searches too; then the rewriting is
    asked about once more, and leaves alone what it made.
    """

    def __init__(self, client: OpenSearch) -> None:
        self.client = client
        self._known: TtlCache[bool] = TtlCache(1000, _SECONDS)

    def passed_by(self, index: str, body: Body, headers: Headers) -> Body:
        """The body of a search of ours; a default pipeline of somebody else's is for it too."""
        if "search_pipeline" in body:
            return body
        key = (index, str(headers))
        ours = self._known.get(key)
        if ours is None:
            ours = self._known.put(key, self._are_ours(index, headers))
        return {**body, "search_pipeline": "_none"} if ours else body

    def _are_ours(self, index: str, headers: Headers) -> bool:
        if "*" in index or index in ("", "_all"):  # a cluster warns who asks for all settings, its own indices' too
            return False
        # local: of what the node knows that is asked, as the one that manages the cluster may hang
        params = {"flat_settings": "true", "local": "true"}
        try:
            get = self.client.indices.get_settings
            answer = call(get, index=index, name=_SETTING, headers=headers, params=params)
        except ResiftError:  # such as for who may search and may not read settings: the pipeline does no harm
            return False
        names = {one["settings"].get(_SETTING, "") for one in answer.values()}
        return bool(names) and all(name.startswith(PIPELINE_PREFIX) and self._asks_us_alone(name) for name in names)

    def _asks_us_alone(self, name: str) -> bool:
        """Whether a pipeline consists of our processor, or does not exist."""
        path, params = f"/_search/pipeline/{quote(name, safe='')}", {"request_timeout": _SLOW_SECONDS, "ignore": 404}
        try:
            answer = call(self.client.transport.perform_request, "GET", path, params=params)
        except ResiftError:
            return False
        found: dict[str, Any] = answer.get(name, {}) if isinstance(answer, dict) else {}
        processors = [*found.get("request_processors", []), *found.get("response_processors", [])]
        if found.get("phase_results_processors") or len(processors) > 1:
            return False
        return all("index" in one.get("ml_inference", {}).get("model_config", {}) for one in processors)
