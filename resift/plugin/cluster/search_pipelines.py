"""Search pipelines with Resift's request processor, which sends searches to the service to have them rewritten.

There are two types of processors:

* ``resift``, if all nodes have Resift's native plugin
* ``ml_inference`` of ML Commons otherwise. It calls a remote model, which stands for the service. OpenSearch does not
  tell this processor which index is searched. The processor therefore contains the name that was passed to
  ``resift attach``: an index, an alias, a pattern or a data stream.

The description of the processor records everything that ``resift detach`` needs. Nothing is recorded in the index.
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
from resift.plugin.cluster.native_plugin import PLUGIN, rewriting_error
from resift.plugin.cluster.resources import Resource
from resift.plugin.cluster.templates import Stamp, fill_placeholders, fingerprint
from resift.query.dsl import PIPELINE_PREFIX
from resift.version import __version__

SEARCH_PIPELINE_SETTING = "index.search.default_pipeline"
NO_PIPELINE = "_none"  # the value of the setting for no pipeline
REFUSED_SEARCHES = "OpenSearch refuses searches that name a missing pipeline"
_ML_INFERENCE, _PROCESSORS = "ml_inference", "request_processors"
_RECORD = re.compile(
    r"(?:attached: (?P<index>\".*\"); )?(?:vectors: (?P<model>\w+); )?"
    r"copy of (?P<base>null|\".*\"); default pipelines before: (?P<defaults>\{.*\})$"
)
# Settings of the native processor that a user may add in the pipeline, and that an update preserves.
_USER_SETTINGS = ("timeout", "key_file")
# Types of processors that must come after Resift's processor. A filter must also apply to the clauses that a session
# adds to the query.
_LAST_PROCESSORS = ("filter_query",)
PipelineBody = dict[str, Any]


def pipeline_name(index: str) -> str:
    """Return the name that Resift gives to the search pipeline and the ingest pipeline of an index.

    Args:
        index: The name of an index, alias or data stream, or a pattern.
    """
    return PIPELINE_PREFIX + re.sub(r"[*,?\s]", "_", index)


@dataclass(frozen=True)
class Rewriter:
    """Resift's request processor in a search pipeline, which sends each search to the Resift service to be rewritten.

    Attributes:
        installation: The name of the installation (the resources that ``resift install`` created) whose remote model
            the processor calls. "" for the native processor, which calls the service itself.
        index: The name that was passed to ``resift attach``: an index, an alias, a pattern or a data stream.
        model: The hash of the model whose vectors are used, or "" for lexical searches only. With the native processor,
            the service makes this choice, and the record only says with which model the index was attached.
        defaults: The default search pipelines that the indices had before attaching, by index name. None stands for no
            default pipeline.
        base: The name of the pipeline of which this pipeline is a copy, or None.
        urls: For the native processor, the URLs of the service. Otherwise, this is empty.
    """

    installation: str
    index: str
    model: str = ""
    defaults: Mapping[str, str | None] = field(default_factory=dict)
    base: str | None = None
    urls: tuple[str, ...] = ()

    @property
    def is_native(self) -> bool:
        """Whether this is the processor of Resift's native plugin."""
        return bool(self.urls)

    @property
    def kind(self) -> str:
        """The type of the processor in OpenSearch: ``resift`` or ``ml_inference``."""
        return PLUGIN if self.is_native else _ML_INFERENCE

    @classmethod
    def read(cls, pipeline: Mapping[str, Any] | None) -> Rewriter | None:
        """Find Resift's request processor in the body of a search pipeline.

        Args:
            pipeline: The body of the pipeline, or None if the pipeline does not exist.

        Returns:
            The settings of the processor, or None if there is no such processor.
        """
        settings = _processor_settings(pipeline)
        if settings is None:
            return None
        record = _RECORD.search(settings.get("description", ""))
        defaults, base = ({}, None) if record is None else (json.loads(record["defaults"]), json.loads(record["base"]))
        if "url" in settings:
            assert record is not None  # a native processor without a record belongs to the user
            urls = settings["url"] if isinstance(settings["url"], list) else [settings["url"]]
            return cls("", json.loads(record["index"]), record["model"] or "", defaults, base, tuple(urls))
        parameters = settings["model_config"]
        return cls(settings["tag"], parameters["index"], parameters.get("model", ""), defaults, base)

    def processor(self, model_id: str) -> tuple[dict[str, Any], Stamp]:
        """Return the processor as a JSON object, and the stamp that identifies it as created by Resift.

        Args:
            model_id: The id of the remote model that the processor calls. Not used for the native processor.
        """
        values: dict[str, Any]
        if self.is_native:
            name, values = "native-processor", {"urls": self.urls[0] if len(self.urls) == 1 else list(self.urls)}
        else:
            parameters = {"index": self.index, **({"model": self.model} if self.model else {})}
            name = "rewriting-processor"
            values = {"name": self.installation, "rewrite_id": model_id, "parameters": parameters}
        template = json.loads(read_resource(f"{name}.json"))
        content = fingerprint(json.dumps(fill_placeholders(template, {**values, "stamp": ""}), sort_keys=True))
        stamp = Stamp(__version__, self.model or "any", content)
        record = f"copy of {json.dumps(self.base)}; default pipelines before: {json.dumps(dict(self.defaults))}"
        if self.is_native:
            vectors = f"vectors: {self.model}; " if self.model else ""
            record = f"attached: {json.dumps(self.index)}; {vectors}{record}"
        description = f"{stamp} (resift detach {self.index} takes it out); {record}"
        return fill_placeholders(template, {**values, "stamp": description}), stamp


class SearchPipeline(Resource):
    """A search pipeline that contains, or should contain, Resift's request processor.

    Args:
        cluster: The connection to the cluster.
        name: The name of the pipeline.
        rewriter: The description of the processor that the pipeline should contain.
        model_id: The id of the remote model that the processor calls, or "" for the native processor.
        current: The body of the pipeline in the cluster, or None if the pipeline does not exist.
        base: The body of another pipeline. If given, the new pipeline is a copy of it with the processor added.
    """

    kind = "search pipeline"

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        rewriter: Rewriter,
        model_id: str,
        current: PipelineBody | None,
        base: PipelineBody | None = None,
    ) -> None:
        self.rewriter, self.model_id, self.current, self._base = rewriter, model_id, current, base
        processor, stamp = rewriter.processor(model_id)
        super().__init__(cluster, name, _pipeline_path(name), processor, stamp)

    def state(self) -> str:
        """Compare the installed processor with the desired processor.

        Returns:
            For example, "ok" if they are equal, "missing" if the pipeline does not exist, and "changed" if they differ.
            :meth:`Resource.state` lists all states.
        """
        if self.current is None:
            return "missing"
        settings = _processor_settings(self.current)
        current = settings or {}
        state = self._state_from_stamp(str(current.get("description", "")))
        is_equal = {**current, **self.body[self.rewriter.kind], "description": ""} == {**current, "description": ""}
        return "changed" if state == "ok" and not is_equal else state

    def create(self) -> None:
        """Add Resift's request processor to the search pipeline in the cluster, or create the pipeline with it.

        The other processors of an existing pipeline are preserved, and so are settings of the native processor that
        a user has added, such as its timeout.
        """
        current = self.cluster.get_or_none(self.path, self.name)
        processor = self.body
        if self.rewriter.is_native and (settings := _processor_settings(current)) is not None:
            added = {name: settings[name] for name in _USER_SETTINGS if name in settings}
            processor = {PLUGIN: {**self.body[PLUGIN], **added}}
        if current is None or _is_unedited(current):
            # Nobody has edited the pipeline since Resift created it, so it can be replaced as a whole.
            body = with_processor(self._base or current or {}, processor)
            body = {**body, "description": str(Stamp(__version__, self.stamp.model, _pipeline_fingerprint(body)))}
        else:
            body = with_processor(current, processor)
        self.cluster.request("PUT", self.path, body)

    def remove(self) -> None:
        """Remove Resift's processor from the pipeline.

        If Resift created the pipeline and nobody else has edited it, the whole pipeline is deleted.
        """
        remove_processor(self.cluster, self.name)

    def rewriting_error(self) -> str:
        """Check that the cluster can call the service to rewrite the searches of this pipeline.

        The cluster calls the service in the same way as for a search. This check is needed because a search does not
        report an error of the service, but continues without rewriting.

        Returns:
            The error message, or an empty string if the service answers.
        """
        if self.rewriter.is_native:
            return rewriting_error(self.cluster, self.rewriter.index, self.name)
        parameters = {**self.body[_ML_INFERENCE]["model_config"], "body": "{}"}
        return self.cluster.prediction_error(self.model_id, parameters)


def original_pipeline(name: str | None, pipelines: Mapping[str, PipelineBody]) -> str | None:
    """Return the name of the pipeline that searches would use without Resift.

    Args:
        name: The name of a pipeline, or None.
        pipelines: The bodies of all pipelines, by name.

    Returns:
        If Resift created the pipeline as a copy of another pipeline, the name of the other pipeline. If Resift created
        it from scratch, None. Otherwise, ``name``.
    """
    body = pipelines.get(name or "")
    rewriter = Rewriter.read(body)
    return name if body is None or rewriter is None or not is_created_by_resift(body) else rewriter.base


def original_default(index: str, current: str | None, pipelines: Mapping[str, PipelineBody]) -> str | None:
    """Return the default search pipeline that an index had before ``resift attach`` changed it.

    Args:
        index: The name of the index.
        current: The name of the current default search pipeline of the index, or None.
        pipelines: The bodies of all pipelines, by name.

    Returns:
        The name of the pipeline, or None if the index had no default search pipeline.
    """
    body = pipelines.get(current or "")
    # A snapshot restores the settings of an index without the pipeline that Resift created for it.
    if current is None or (body is None and current.startswith(PIPELINE_PREFIX)):
        return None
    rewriter = Rewriter.read(body)
    if body is None or rewriter is None or not is_created_by_resift(body):
        return current
    # Cases in this order: the index was attached itself, it is a clone of an attached index, or a template has set the
    # default.
    before = rewriter.defaults.get(index, rewriter.defaults.get(rewriter.index, rewriter.base))
    return before if before in pipelines else None


def with_processor(pipeline: Mapping[str, Any], processor: dict[str, Any]) -> PipelineBody:
    """Return a copy of a pipeline that contains Resift's processor.

    The processor is the last request processor, except that ``filter_query`` processors at the end stay behind it. An
    existing Resift processor is replaced.

    Args:
        pipeline: The body of the pipeline.
        processor: The processor as a JSON object.
    """
    processors = list(without_processor(pipeline).get(_PROCESSORS, ()))
    at = len(processors)
    while at and next(iter(processors[at - 1])) in _LAST_PROCESSORS:
        at -= 1
    return {**pipeline, _PROCESSORS: [*processors[:at], processor, *processors[at:]]}


def without_processor(pipeline: Mapping[str, Any]) -> PipelineBody:
    """Return a copy of a pipeline's body without Resift's request processor. Everything else stays unchanged."""
    if _processor_settings(pipeline) is None:
        return dict(pipeline)
    other_processors = [processor for processor in pipeline[_PROCESSORS] if _rewriter_settings(processor) is None]
    body = {name: value for name, value in pipeline.items() if name != _PROCESSORS}
    return {**body, _PROCESSORS: other_processors} if other_processors else body


def is_up_to_date(copy: Mapping[str, Any], base: Mapping[str, Any]) -> bool:
    """Return whether a copy of a search pipeline is up to date with the original.

    The copy is up to date if it has the same processors as the original, apart from Resift's processor. A copy that a
    user has edited always counts as up to date.

    Args:
        copy: A search pipeline that Resift created as a copy.
        base: The original pipeline.
    """
    if not _is_unedited(copy):
        return True
    copied, original = ({**without_processor(body), "description": ""} for body in (copy, base))
    return copied == original


def is_created_by_resift(pipeline: Mapping[str, Any]) -> bool:
    """Return whether Resift created a search pipeline.

    The result is False for a pipeline that a user created, even if Resift has added its processor to the pipeline.
    """
    return Stamp.read(pipeline.get("description")) is not None


def would_be_deleted(pipeline: Mapping[str, Any]) -> bool:
    """Return whether removing Resift's processor from a search pipeline would delete the whole pipeline.

    This is the case if Resift created the pipeline, and nobody has edited it since.
    """
    return _processor_settings(pipeline) is not None and _is_unedited(pipeline)


def remove_processor(cluster: Cluster, name: str) -> None:
    """Remove Resift's processor from a search pipeline in the cluster.

    If Resift created the pipeline, and nobody has edited it since, the whole pipeline is deleted.

    Args:
        cluster: The connection to the cluster.
        name: The name of the pipeline.
    """
    pipeline = cluster.get_or_none(_pipeline_path(name), name)
    if pipeline is None or _processor_settings(pipeline) is None:
        return
    if would_be_deleted(pipeline):
        with suppress(NotFound):  # deleted by somebody else in the meantime
            cluster.request("DELETE", _pipeline_path(name))
    else:
        cluster.request("PUT", _pipeline_path(name), without_processor(pipeline))


def all_pipelines(cluster: Cluster) -> dict[str, PipelineBody]:
    """Return the bodies of all search pipelines in a cluster, by name."""
    return dict(sorted((cluster.get_or_none("/_search/pipeline") or {}).items()))


def find_rewriters(cluster: Cluster) -> dict[str, Rewriter]:
    """Find Resift's request processors in all search pipelines of a cluster.

    Returns:
        The settings of the processors, by the name of their search pipeline.
    """
    return read_rewriters(all_pipelines(cluster))


def read_rewriters(pipelines: Mapping[str, PipelineBody]) -> dict[str, Rewriter]:
    """Find Resift's request processors in some search pipelines.

    Args:
        pipelines: The bodies of the pipelines, by name.

    Returns:
        The processors, by the names of their pipelines. Pipelines without Resift's processor are left out.
    """
    processors = {name: Rewriter.read(pipeline) for name, pipeline in pipelines.items()}
    return {name: rewriter for name, rewriter in processors.items() if rewriter is not None}


def _pipeline_path(name: str) -> str:
    return f"/_search/pipeline/{quote(name, safe='')}"


def _rewriter_settings(processor: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the settings of a processor, or None if ``resift attach`` did not create it.

    A user can write a native processor into a pipeline without ``resift attach``. The description of such a processor
    contains no record for ``resift detach``, so Resift leaves the processor alone.

    Args:
        processor: The processor, an object whose only key is its type.
    """
    settings = processor.get(PLUGIN)
    if isinstance(settings, dict):
        record = _RECORD.search(settings.get("description") or "")
        return settings if record is not None and record["index"] is not None and "url" in settings else None
    settings = processor.get(_ML_INFERENCE)
    if not isinstance(settings, dict) or "tag" not in settings:
        return None
    has_index = "index" in (settings.get("model_config") or {})
    return settings if settings.get("query_template") == "${body}" and has_index else None


def _processor_settings(pipeline: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the settings of Resift's processor in a pipeline, or None if the pipeline does not contain it."""
    processors = (pipeline or {}).get(_PROCESSORS, ())
    return next((settings for settings in map(_rewriter_settings, processors) if settings is not None), None)


def _pipeline_fingerprint(pipeline: Mapping[str, Any]) -> str:
    """Return a fingerprint of a search pipeline, to detect later changes.

    Args:
        pipeline: The body of the pipeline. Its description does not affect the fingerprint, and neither do the settings
            that users may add to the native processor, such as its timeout: the pipeline remains a copy.
    """
    body = {**pipeline, "description": ""}
    if _PROCESSORS in pipeline:
        body[_PROCESSORS] = [_without_user_settings(processor) for processor in pipeline[_PROCESSORS]]
    return fingerprint(json.dumps(body, sort_keys=True))


def _without_user_settings(processor: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a processor. From Resift's native processor, the settings that users may add are removed."""
    settings = _rewriter_settings(processor)
    if settings is None or PLUGIN not in processor:
        return processor
    return {PLUGIN: {name: value for name, value in settings.items() if name not in _USER_SETTINGS}}


def _is_unedited(pipeline: Mapping[str, Any]) -> bool:
    """Return whether Resift created a search pipeline and nobody has edited it since.

    Args:
        pipeline: The body of the pipeline.
    """
    stamp = Stamp.read(pipeline.get("description"))
    return stamp is not None and stamp.content == _pipeline_fingerprint(pipeline)
