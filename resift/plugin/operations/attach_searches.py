"""Attaching searches: adding Resift's request processor to a search pipeline, so that Resift rewrites searches."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote

from resift.errors import BadInput, EngineError, ResiftError
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_pipelines import RESERVED_NAMES
from resift.plugin.cluster.index_record import read_records
from resift.plugin.cluster.pipeline_uses import PipelineUse, uses_of_pipelines
from resift.plugin.cluster.search_groups import common_default, default_pipeline_of, read_groups, read_templates
from resift.plugin.cluster.search_pipelines import (
    SEARCH_PIPELINE_SETTING,
    Rewriter,
    SearchPipeline,
    all_pipelines,
    is_created_by_resift,
    original_default,
    pipeline_name,
    read_rewriters,
    with_processor,
)
from resift.plugin.cluster.target_index import settings_of_indices
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.install import find_installation
from resift.plugin.operations.plan import Plan, Progress, Result
from resift.plugin.operations.route import Route
from resift.plugin.operations.shared_defaults import SharedDefaults, advice_without_default
from resift.plugin.operations.status_row import key_advice
from resift.stopping import Stop

_READ_ONLY = ("index.blocks.read_only", "index.blocks.metadata")
_SHOWN_USES = 5
# Measured by `benchmarks/speed.py --only searches` and `benchmarks/hybrid_pipeline.py` (docs/attach.md).
COST = "a search without a session takes 1.5 to 2.2 times as long as before (docs/attach.md)"
NATIVE_COST = "only searches in a session call the service; others run as before"


class SearchAttachment:
    """A change that makes Resift rewrite the searches of an index, an alias, a pattern or a data stream.

    The argument ``rewrite_all`` determines which searches are rewritten:

    * If it is False, Resift's processor is added to a copy of the default search pipeline. Only searches that name the
      copy are rewritten.
    * If it is True, the processor is added to the default search pipeline itself, so that all searches are rewritten.
      If other indices use that pipeline, a copy with the processor becomes the default pipeline instead.

    Args:
        cluster: The connection to the cluster.
        name: The name of an index, alias or data stream, or a pattern.
        pipeline: The name of the search pipeline that gets the processor. None to choose the pipeline as described
            above.
        rewrite_all: Whether to rewrite searches that name no pipeline as well.
        suggest_names: Whether an error message suggests other names to attach, such as an alias of the index.

    Attributes:
        own_pipeline: The name of the pipeline that Resift creates for ``name``, if it cannot change another pipeline.
        pipeline: The name of the pipeline that will contain the processor.
        copied_pipeline: The name of the pipeline of which :attr:`pipeline` will be a copy, or None.
        other_uses: The other indices and templates that use the pipeline that clients use now. For them, the pipeline
            must stay as it is.
        original_defaults: The default search pipelines of the indices without Resift, by index name.
        changed_defaults: The original default pipelines of the indices whose default pipeline will change, by index
            name.
        keeps_defaults: Whether a default pipeline stays without the processor. Searches of its index are then only
            rewritten if they name :attr:`pipeline`. False if ``rewrite_all`` is True.
        shared_defaults: The effects on searches that also reach other indices, or None if no default pipeline changes.

    Raises:
        IndexNotFound: If the name does not refer to an index.
        BadInput: If the searches cannot be attached.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        pipeline: str | None = None,
        rewrite_all: bool = False,
        suggest_names: bool = True,
    ) -> None:
        self.cluster, self.name, self.rewrite_all = cluster, name, rewrite_all
        self.settings = settings_of_indices(cluster, name)
        self.pipelines = all_pipelines(cluster)
        if pipeline is not None and pipeline not in self.pipelines:
            known = ", ".join(self.pipelines) or "none"
            raise BadInput(f"there is no search pipeline {pipeline!r}", value=pipeline, expected=f"one of: {known}")
        self.current_defaults = {index: default_pipeline_of(settings) for index, settings in self.settings.items()}
        self.original_defaults = {
            index: original_default(index, current, self.pipelines) for index, current in self.current_defaults.items()
        }

        # Choose the pipeline that will contain the processor.
        self.own_pipeline = pipeline_name(name)
        users_pipeline = pipeline or self._users_pipeline()
        source = users_pipeline or self._original_pipeline()
        # If clients must name the pipeline, the default pipeline itself stays as it is, and a copy is made.
        is_changeable = users_pipeline is not None or rewrite_all
        self.other_uses = self._find_other_uses(source) if source is not None and is_changeable else []
        is_copied = source is not None and (not is_changeable or self._must_copy(source, users_pipeline is not None))
        self.copied_pipeline = source if is_copied else None
        self.pipeline = self.own_pipeline if source is None or is_copied else source
        self._check_pipeline(source)

        # Plan the changes of default pipelines.
        self._check_settings()
        without_processor = {
            index: original for index, original in self.original_defaults.items() if not self._is_default(index)
        }
        self.changed_defaults: dict[str, str | None] = without_processor if rewrite_all else {}
        self.keeps_defaults = not rewrite_all and bool(without_processor)
        self.shared_defaults = self._find_shared_defaults(suggest_names) if self.changed_defaults else None

    def _is_default(self, index: str) -> bool:
        return self.pipeline in self.pipelines and self.current_defaults[index] == self.pipeline

    def _users_pipeline(self) -> str | None:
        """Return the user's own search pipeline to which an earlier ``resift attach`` has added Resift's processor.

        The earlier run must have attached the same index, alias, data stream or pattern.

        Returns:
            The name of the pipeline. None if there is no such pipeline. Also None if one of the attached indices has a
            default search pipeline that does not rewrite these searches. The plan then starts from this default.
        """
        attached = [own for own, pipeline in self.pipelines.items() if self._attached_name(pipeline) == self.name]
        if not {*self.current_defaults.values()} <= {None, *attached}:
            return None
        return next((own for own in attached if not is_created_by_resift(self.pipelines[own])), None)

    def _original_pipeline(self) -> str | None:
        """Return the default search pipeline that the indices have without Resift, or None if they have none.

        Raises:
            BadInput: If this pipeline does not exist. Also if the default pipelines are to be changed, but the indices
                have different default pipelines.
        """
        originals = {*self.original_defaults.values()}
        if self.rewrite_all and len(originals) > 1:
            message = (
                f"the indices of {self.name!r} have different default search pipelines, and would lose all but one"
            )
            expected = f"{advice_without_default(self.own_pipeline)}; or one index after the other"
            raise BadInput(message, value=sorted(map(str, originals)), expected=expected)
        # A search of several indices uses this pipeline, too.
        default = common_default(originals)
        if default is not None and default not in self.pipelines:
            message = f"{SEARCH_PIPELINE_SETTING} of {self.name} is {default}, which is missing: searches are refused"
            raise BadInput(message, value=default, expected="an existing pipeline, or no such setting")
        return default

    def _must_copy(self, source: str, is_users_pipeline: bool) -> bool:
        """Return whether Resift must add its processor to a copy of a pipeline, rather than to the pipeline itself.

        A copy is necessary if other indices use the pipeline, for example.

        Args:
            source: The name of the pipeline. It is the default search pipeline of the indices, unless the user chose
                another one.
            is_users_pipeline: Whether the user chose the pipeline, now or in an earlier run.
        """
        if self.other_uses or self._belongs_to_other_name(source):
            return True
        return not is_users_pipeline and self._is_copy_used()

    def _is_copy_used(self) -> bool:
        """Return whether an index or a template uses the search pipeline that an earlier ``resift attach`` has created.

        Such a pipeline is usually a copy of the original search pipeline, with Resift's processor added.
        """
        body = self.pipelines.get(self.own_pipeline)
        is_copy = body is not None and is_created_by_resift(body) and self._attached_name(body) == self.name
        return is_copy and bool(uses_of_pipelines(self.cluster, {self.own_pipeline}, "search pipeline"))

    def _belongs_to_other_name(self, pipeline: str) -> bool:
        """Return whether Resift created a search pipeline for a name other than the name to attach.

        Args:
            pipeline: The name of the search pipeline.
        """
        body = self.pipelines[pipeline]
        return is_created_by_resift(body) and self._attached_name(body) != self.name

    def _attached_name(self, pipeline: Mapping[str, Any] | None) -> str | None:
        """Return the name of the index or alias whose searches a pipeline rewrites.

        Args:
            pipeline: The body of the search pipeline, or None.

        Returns:
            The name, or None if the pipeline does not rewrite searches.
        """
        rewriter = Rewriter.read(pipeline)
        return rewriter.index if rewriter else None

    def _find_shared_defaults(self, suggest_names: bool) -> SharedDefaults:
        """Find out how the new default search pipeline affects searches that also reach other indices.

        For example, a search of an alias reaches all indices of the alias. OpenSearch applies no default pipeline to a
        search if the indices have different default pipelines.

        Args:
            suggest_names: Whether the error message may name an alias, a data stream or a pattern to attach instead.

        Returns:
            The groups of indices that are searched together, and whose searches the new default pipeline changes.

        Raises:
            BadInput: If a search that reaches other indices would lose its default pipeline.
        """
        names = [rewriter.index for rewriter in read_rewriters(self.pipelines).values()]
        groups = read_groups(self.cluster, names)
        shared = SharedDefaults(groups, self.pipelines, self.settings, self.pipeline, self.copied_pipeline)
        if shared.lost:
            together = [name for name in shared.names_to_attach if suggest_names and self._is_attachable(name)]
            raise shared.lost_default_error(self.name, self.own_pipeline, together[:1])
        return shared

    def _is_attachable(self, name: str) -> bool:
        """Return whether ``resift attach --default-pipelines`` would succeed for another name.

        The message of an error suggests the other name only if this is the case.

        Args:
            name: The name of an alias, a data stream or a pattern, or a comma-separated list of indices.
        """
        try:
            SearchAttachment(self.cluster, name, rewrite_all=True, suggest_names=False)
        except ResiftError:
            return False
        return True

    def _find_other_uses(self, pipeline: str) -> list[PipelineUse]:
        """Return the places where other indices, or templates that create other indices, use a search pipeline.

        Other indices are indices outside of the alias, data stream or pattern that the user attaches.
        """
        other_uses = []
        for use in uses_of_pipelines(self.cluster, {pipeline}, "search pipeline"):
            is_own_use = use.name in self.settings if use.kind == "index" else self._creates_only_own_indices(use)
            if not is_own_use:
                other_uses.append(use)
        return other_uses

    def _creates_only_own_indices(self, use: PipelineUse) -> bool:
        """Return whether an index template creates only indices that belong to the name to attach.

        For example, if the user attaches ``logs-*``, this is true for a template with the pattern ``logs-shop-*``. It
        is also true for a template that adds its indices to the attached alias.

        Args:
            use: The place where the search pipeline is used. If this is not a template that creates indices, the result
                is False.
        """
        for template in read_templates(self.cluster):
            if (template.kind, template.name) == (use.kind, use.name):
                is_own_pattern = all(fnmatchcase(pattern, self.name) for pattern in template.patterns)
                return is_own_pattern or self.name in template.aliases
        return False

    def _check_pipeline(self, source: str | None) -> None:
        """Check that Resift's processor can be added to the chosen search pipeline.

        Args:
            source: The name of the pipeline that the searches use now, or None.

        Raises:
            BadInput: If Resift cannot create a pipeline for this index because the index has a reserved name, or
                because a user's pipeline has the name that Resift would use. Also if the chosen pipeline already
                rewrites the searches of another index or alias.
        """
        if self.pipeline == self.own_pipeline and self.name in RESERVED_NAMES:
            message = f"{self.name!r} cannot have a pipeline of its own"
            raise BadInput(message, value=self.name, expected="--pipeline NAME")
        existing = self.pipelines.get(self.pipeline)
        if existing is None:
            return
        attached_name = self._attached_name(existing)
        is_in_use = self.pipeline == source and self.copied_pipeline is None
        if attached_name is None and not is_in_use and not is_created_by_resift(existing):
            message = f"search pipeline {self.own_pipeline} exists, and was not created by Resift"
            expected = f"--pipeline {self.own_pipeline}, to add the processor to that pipeline"
            raise BadInput(message, value=self.own_pipeline, expected=expected)
        if attached_name not in (None, self.name):
            message = f"search pipeline {self.pipeline} rewrites the searches of {attached_name}"
            expected = f"resift detach {attached_name} first, or --pipeline NAME"
            raise BadInput(message, value=attached_name, expected=expected)

    def _check_settings(self) -> None:
        """Check that the default search pipelines of the indices can be changed, if the attachment must change them.

        Raises:
            BadInput: If a setting such as ``index.blocks.read_only`` forbids changes to the settings of an index.
        """
        if not self.rewrite_all or self.pipeline not in self.pipelines:
            return
        for index, settings in self.settings.items():
            for block in _READ_ONLY:
                if settings.get(block) == "true":
                    message = f"settings of index {index!r} cannot be changed: {block} is set"
                    raise BadInput(message, value=index, expected=f"no --default-pipelines, or no {block}")

    def to_dict(self) -> dict[str, Any]:
        """Return the planned change of pipelines and settings as a JSON object."""
        return {
            "pipeline": self.pipeline,
            "copy_of": self.copied_pipeline,
            "is_new": self.pipeline not in self.pipelines,
            "settings": {index: {SEARCH_PIPELINE_SETTING: self.pipeline} for index in self.changed_defaults},
        }

    @property
    def current_processor(self) -> Rewriter | None:
        """Resift's processor that the search pipeline contains now, or None if the pipeline does not contain it."""
        return Rewriter.read(self.pipelines.get(self.pipeline))

    def lines(self, is_native: bool) -> list[str]:
        """Return the planned change of pipelines and settings as lines of text for the user.

        Args:
            is_native: Whether the processor of Resift's native plugin is used.
        """
        source = self.pipelines.get(self.copied_pipeline or self.pipeline, {})
        lines = [f"  pipeline    {self.pipeline}{self._describe_origin()}"]
        processors = with_processor(source, {"resift": {}})["request_processors"]
        names = ["Resift's" if "resift" in processor else next(iter(processor)) for processor in processors]
        if len(names) > 1:
            lines.append(f"              request processors: {', '.join(names)}")
        if self._attached_name(source) == self.name:
            lines.append("              which already has Resift's processor")
        phase_processors = [next(iter(processor)) for processor in source.get("phase_results_processors", ())]
        if phase_processors:
            lines.append(f"              {', '.join(phase_processors)}: after it, as before")
        for index, before in self.changed_defaults.items():
            lines.append(
                f"  setting     {SEARCH_PIPELINE_SETTING} of {index}: {self.pipeline}, instead of {before or 'none'}"
            )
        if self.keeps_defaults:
            lines.append(f"  clients     send search_pipeline={self.pipeline} in searches with a session")
            if is_native:
                lines.append("              other searches stay as they are, also with --default-pipelines")
            else:
                lines.append("              other searches stay as they are; --default-pipelines rewrites them, too")
        else:
            lines.append(f"  cost        {NATIVE_COST if is_native else COST}")
        if self.changed_defaults and self.other_uses:
            lines.append(
                f"  note        a pattern or list over users of {self.copied_pipeline} and {self.pipeline} gets neither"
            )
        return [*lines, *(self.shared_defaults.lines() if self.shared_defaults else ())]

    def _describe_origin(self) -> str:
        """Describe the origin of the search pipeline that will contain the processor, as the end of a line of text.

        Returns:
            For example, ", a new pipeline", or ", a copy of shop-pipeline, which is also used by index products". Empty
            if the pipeline already exists.
        """
        if self.copied_pipeline is None:
            return "" if self.pipeline in self.pipelines else ", a new pipeline"
        if not self.other_uses:
            other_name = self._belongs_to_other_name(self.copied_pipeline)
            return f", a copy of {self.copied_pipeline}{', which belongs to another name' if other_name else ''}"
        users = ", ".join(f"{use.kind} {use.name}" for use in self.other_uses[:_SHOWN_USES])
        return f", a copy of {self.copied_pipeline}, which is also used by {users}"

    def run_native(self, urls: tuple[str, ...], model: str = "") -> SearchPipeline:
        """Add the processor of Resift's native plugin to the search pipeline, and change default pipelines as planned.

        Args:
            urls: The URLs at which the nodes reach the service.
            model: The hash of the embedding model with whose vectors the indices are attached, or "".

        Returns:
            The changed pipeline.

        Raises:
            EngineError: If the cluster refuses a change, for example because a node lacks the plugin.
        """
        return self._run(Rewriter("", self.name, model, urls=urls), "")

    def run(self, installation: str, model_id: str, model: str = "") -> SearchPipeline:
        """Add the processor ``ml_inference`` to the search pipeline, and change default pipelines as planned.

        Args:
            installation: The name of the installation (created by ``resift install``) whose service rewrites the
                searches.
            model_id: The id of the remote model that sends searches to the service.
            model: The hash of the embedding model whose vectors are used, or "" for lexical searches only.

        Returns:
            The changed pipeline.

        Raises:
            EngineError: If the cluster refuses a change.
        """
        return self._run(Rewriter(installation, self.name, model), model_id)

    def _run(self, rewriter: Rewriter, model_id: str) -> SearchPipeline:
        """Add a processor to the search pipeline, and change the default search pipelines of the indices as planned.

        Args:
            rewriter: The processor, without a record of the original default pipelines.
            model_id: The id of the remote model that the processor calls, or "" for the native processor.
        """
        current = self.cluster.get_or_none(f"/_search/pipeline/{quote(self.pipeline, safe='')}", self.pipeline)
        before = Rewriter.read(current)
        # The processor records the original default pipelines before the settings are changed.
        defaults = {**(before.defaults if before else {}), **self.changed_defaults}
        rewriter = replace(rewriter, defaults=defaults, base=self.copied_pipeline)
        base = None if self.copied_pipeline is None else self.pipelines[self.copied_pipeline]
        pipeline = SearchPipeline(self.cluster, self.pipeline, rewriter, model_id, current, base)
        pipeline.create()
        self.cluster.update_indices_settings(list(self.changed_defaults), {SEARCH_PIPELINE_SETTING: self.pipeline})
        return pipeline


class SearchPlan(Plan):
    """A plan to let Resift rewrite the searches of an index.

    Running the plan changes search pipelines and the settings of the index, but no documents.

    Args:
        engine: The search engine that is connected to the cluster.
        name: The name of an index, alias or data stream, or a pattern.
        pipeline: The name of the search pipeline that gets Resift's processor, or None to choose it as
            :class:`SearchAttachment` describes.
        rewrite_all: Whether to rewrite searches that name no pipeline as well, by changing the default search pipelines
            of the indices.
        service: The URLs at which the nodes reach the service, or None for the current URLs.

    Raises:
        BadInput: If Resift's processor cannot be added to the pipeline, or if the settings of an index cannot be
            changed.
        UnsupportedCluster: If the cluster has neither Resift's plugin nor ML Commons.
    """

    def __init__(
        self, engine: OpenSearchEngine, name: str, pipeline: str | None, rewrite_all: bool, service: str | None = None
    ) -> None:
        self.engine, self.cluster, self.name = engine, Cluster(engine), name
        self.searches = SearchAttachment(self.cluster, name, pipeline, rewrite_all)
        self.route = Route(self.cluster, service, self.searches.current_processor)
        self.with_vectors = {
            index: record for index, record in read_records(self.cluster, name).items() if record.complete_vectors
        }
        self.question = f"Attach {name}?"

    def lines(self) -> list[str]:
        """Return the plan of ``resift attach`` as lines of text, which are shown to the user before it is executed."""
        lines = [f"{self.name}: nothing is written to the index; Resift rewrites its searches"]
        lines += self.searches.lines(self.route.is_native)
        for index, record in self.with_vectors.items():
            models = ", ".join(f"{info.model_name} ({info.model})" for info in record.complete_vectors)
            lines.append(f"  vectors     {index} keeps its vectors of {models}")
        return [*lines, *self.route.lines()]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan of ``resift attach`` as a JSON object: the index, the search pipeline and the settings."""
        return {
            "index": self.name,
            "vectors": sorted(self.with_vectors),
            **self.searches.to_dict(),
            **self.route.to_dict(),
        }

    def _run(self, progress: Progress, stop: Stop) -> Result:
        if self.route.install is not None:
            self.route.install.run()
        pipeline = self._run_native() if self.route.is_native else self._run_ml_inference()
        is_tested = True
        try:
            error = pipeline.rewriting_error()
        except EngineError as refused:  # the user may attach indices, but not search them
            error, is_tested = f"not tested: {refused.message}", False
        lines = [f"{self.name}: Resift rewrites searches through {pipeline.name}"]
        if error:
            urls = ", ".join(self.route.urls)
            advice = key_advice(error, self.route.is_native, urls)
            advice = advice or f"start resift serve so that the nodes reach it at {urls}"
            lines.append(f"next: {advice} (now: {error})")
            if self.route.replaced_urls:
                before = ",".join(self.route.replaced_urls)
                lines.append(f"or back: resift attach {shlex.quote(self.name)} --service {before}")
        lines.append(f"undo: resift detach {shlex.quote(self.name)}")
        settings = self.searches.to_dict()["settings"]
        return Result(
            lines,
            in_order=not (error and is_tested),
            index=self.name,
            pipeline=pipeline.name,
            settings=settings,
            route=self.route.name,
            rewritten=not error,
        )

    def _run_native(self) -> SearchPipeline:
        """Carry out the plan with the processor of Resift's native plugin, and return the changed pipeline.

        The processor records the model of the vectors. If no index has vectors any more, for example because an alias
        has moved, the earlier record stays: ``resift doctor`` then reports the missing vectors.
        """
        models = {info.model or "" for record in self.with_vectors.values() for info in record.complete_vectors[:1]}
        before = self.searches.current_processor
        if not models and before is not None:
            models.add(before.model)
        return self.searches.run_native(self.route.urls, models.pop() if len(models) == 1 else "")

    def _run_ml_inference(self) -> SearchPipeline:
        """Carry out the plan with the processor ``ml_inference``, for a cluster without Resift's native plugin.

        The processor calls a remote model, which ``resift install`` created (the installation).

        Returns:
            The changed pipeline.

        Raises:
            EngineError: If the installation was removed from the cluster in the meantime.
        """
        installation = find_installation(self.cluster)
        if installation is None:
            message = "the installation was removed from the cluster in the meantime"
            raise EngineError(message, status=409, expected="the same command again")
        # Searches use the vectors of the installation's model only if all indices with vectors have vectors of it.
        model = installation.model.hash
        have_model = [
            model in [info.model for info in record.complete_vectors] for record in self.with_vectors.values()
        ]
        (model_id, _), *_ = self.cluster.ml_objects("models", f"{installation.name}-rewrite")
        return self.searches.run(installation.name, model_id, model if have_model and all(have_model) else "")
