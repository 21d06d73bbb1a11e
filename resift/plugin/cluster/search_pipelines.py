"""Search pipelines that have searches rewritten: our one request processor in them, whoever made the pipeline.

A request processor is not told which index is searched, so ours names what was attached. Everything that is to be known
of an attachment stands in the processor's description, and nothing in the index.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from resift.errors import NotFound
from resift.plugin import read_resource
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.resources import Resource
from resift.plugin.cluster.templates import Stamp, fill, fingerprint
from resift.query.dsl import PIPELINE_PREFIX
from resift.version import __version__

SEARCH = "index.search.default_pipeline"
NONE = "_none"  # what the setting says where there is to be no pipeline
_KIND, _PROCESSORS = "ml_inference", "request_processors"
_DEFAULTS = re.compile(r"default pipelines before: (\{.*\})$")
# What narrows a search has the last word over what a session adds to it.
_BEHIND = ("filter_query",)
Pipeline = dict[str, Any]


def pipeline_name(index: str) -> str:
    """The name of the pipelines that are made for an index, or for an alias, a pattern or a data stream."""
    return PIPELINE_PREFIX + re.sub(r"[*,?\s]", "_", index)


@dataclass(frozen=True)
class Rewriter:
    """Our processor, which has the searches of ``index`` rewritten: an index, an alias, a pattern or a data stream.

    ``installation`` is the one whose remote model it asks, ``model`` the hash of the model whose vectors count ("":
    none), and ``defaults`` are the default search pipelines that attaching has changed, as they were before, by index
    (None: unset).
    """

    installation: str
    index: str
    model: str = ""
    defaults: Mapping[str, str | None] = field(default_factory=dict)

    @classmethod
    def read(cls, pipeline: Mapping[str, Any] | None) -> Rewriter | None:
        """Our processor in a search pipeline; None if it has none."""
        settings = _settings(pipeline)
        if settings is None:
            return None
        asked, before = settings["model_config"], _DEFAULTS.search(settings.get("description", ""))
        defaults = json.loads(before[1]) if before else {}
        return cls(settings["tag"], asked["index"], asked.get("model", ""), defaults)

    def processor(self, model_id: str) -> tuple[dict[str, Any], Stamp]:
        """The processor that asks the remote model of this id, and its stamp."""
        asked = {"index": self.index, **({"model": self.model} if self.model else {})}
        values = {"name": self.installation, "rewrite_id": model_id, "asked": asked}
        template = json.loads(read_resource("rewriting-processor.json"))
        content = fingerprint(json.dumps(fill(template, {**values, "stamp": ""}), sort_keys=True))
        stamp = Stamp(__version__, self.model or "any", content)
        undo = f" (resift detach {self.index} takes it out); default pipelines before: "
        description = f"{stamp}{undo}{json.dumps(dict(self.defaults))}"
        return fill(template, {**values, "stamp": description}), stamp


class SearchPipeline(Resource):
    """A search pipeline that has, or is to have, our processor; ``found`` is the pipeline as it is, None without one.

    ``base`` is another pipeline, of which it is to be a copy.
    """

    kind = "search pipeline"

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        rewriter: Rewriter,
        model_id: str,
        found: Pipeline | None,
        base: Pipeline | None = None,
    ) -> None:
        self.rewriter, self.model_id, self.found, self._base = rewriter, model_id, found, base
        processor, stamp = rewriter.processor(model_id)
        super().__init__(cluster, name, _path(name), processor, stamp)

    def state(self) -> str:
        if self.found is None:
            return "missing"
        settings = _settings(self.found)
        # version 0.1 has described the whole pipeline, and not the processor in it
        told = {} if settings is None else {**self.found, **settings}
        state = self._state_by(str(told.get("description", "")))
        is_as_wanted = {**told, **self.body[_KIND], "description": ""} == {**told, "description": ""}
        return "changed" if state == "ok" and not is_as_wanted else state

    def make(self) -> None:
        """Put our processor into the pipeline as it is by now, or make it; all else in it stays."""
        found = self.cluster.find(self.path, self.name)
        # what nobody has changed since we made it is ours to make anew
        if found is None or _is_as_made(found):
            made = with_processor(self._base or found or {}, self.body)
            found = {**made, "description": str(Stamp(__version__, self.stamp.model, _content(made)))}
        else:
            found = with_processor(found, self.body)
        self.cluster.request("PUT", self.path, found)

    def remove(self) -> None:
        take_out(self.cluster, self.name)

    def ask(self) -> str:
        """Have the cluster ask the reranker to rewrite a search, as the pipeline does.

        Returns what is wrong, which a search that fails open does not tell; "" if nothing is.
        """
        return self.cluster.wrong_with(self.model_id, {**self.body[_KIND]["model_config"], "body": "{}"})


def with_processor(pipeline: Mapping[str, Any], processor: dict[str, Any]) -> Pipeline:
    """A pipeline with our processor: behind all that fill in models or write queries, before what narrows a search."""
    processors = list(without_processor(pipeline).get(_PROCESSORS, ()))
    at = len(processors)
    while at and next(iter(processors[at - 1])) in _BEHIND:
        at -= 1
    return {**pipeline, _PROCESSORS: [*processors[:at], processor, *processors[at:]]}


def without_processor(pipeline: Mapping[str, Any]) -> Pipeline:
    """A pipeline without our processor, and otherwise as it is."""
    if _settings(pipeline) is None:
        return dict(pipeline)
    left = [one for one in pipeline[_PROCESSORS] if not _is_ours(one)]
    others = {name: value for name, value in pipeline.items() if name != _PROCESSORS}
    return {**others, **({_PROCESSORS: left} if left else {})}


def is_made(pipeline: Mapping[str, Any]) -> bool:
    """Whether Resift made a pipeline."""
    return Stamp.read(pipeline.get("description")) is not None


def would_be_deleted(pipeline: Mapping[str, Any]) -> bool:
    """Whether taking our processor out deletes the pipeline: one that we made, and that nobody has changed since."""
    return _settings(pipeline) is not None and _is_as_made(pipeline)


def take_out(cluster: Cluster, name: str) -> None:
    """Take our processor out of a search pipeline, or delete one that we made and nobody has changed."""
    found = cluster.find(_path(name), name)
    if found is None or _settings(found) is None:
        return
    if would_be_deleted(found):
        with suppress(NotFound):  # somebody else did so meanwhile
            cluster.request("DELETE", _path(name))
    else:
        cluster.request("PUT", _path(name), without_processor(found))


def all_pipelines(cluster: Cluster) -> dict[str, Pipeline]:
    """All search pipelines by their names."""
    return dict(sorted((cluster.find("/_search/pipeline") or {}).items()))


def rewriters(cluster: Cluster) -> dict[str, Rewriter]:
    """Our processors, by the names of the search pipelines that have one."""
    found = {name: Rewriter.read(pipeline) for name, pipeline in all_pipelines(cluster).items()}
    return {name: one for name, one in found.items() if one is not None}


def _path(name: str) -> str:
    return f"/_search/pipeline/{quote(name, safe='')}"


def _is_ours(processor: Mapping[str, Any]) -> bool:
    settings = processor.get(_KIND)
    if not isinstance(settings, Mapping) or "tag" not in settings:
        return False
    return settings.get("query_template") == "${body}" and "index" in (settings.get("model_config") or {})


def _settings(pipeline: Mapping[str, Any] | None) -> dict[str, Any] | None:
    found = (one[_KIND] for one in (pipeline or {}).get(_PROCESSORS, ()) if _is_ours(one))
    return next(found, None)


def _content(pipeline: Mapping[str, Any]) -> str:
    return fingerprint(json.dumps({**pipeline, "description": ""}, sort_keys=True))


def _is_as_made(pipeline: Mapping[str, Any]) -> bool:
    stamp = Stamp.read(pipeline.get("description"))
    return stamp is not None and stamp.content == _content(pipeline)
