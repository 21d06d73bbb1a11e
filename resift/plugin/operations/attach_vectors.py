"""Attaching vectors: load or train a model, write a vector to each document, and record the vectors in the index."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from resift.contracts.tuning import Tuning
from resift.encoders.model import Model
from resift.encoders.registry import load_model
from resift.errors import BadInput, EngineError, MissingExtra, ResiftError
from resift.files import folder_write_error
from resift.plugin.adaptation import adaptation
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_pipelines import pipeline_kinds, update_pipelines
from resift.plugin.cluster.index_record import IndexRecord
from resift.plugin.cluster.installation import find_installations
from resift.plugin.cluster.native_plugin import NativePlugin
from resift.plugin.cluster.search_pipelines import SearchPipeline, pipeline_name
from resift.plugin.cluster.target_index import TargetIndex, check_attachable, find_targets
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.attach_searches import SearchAttachment
from resift.plugin.operations.index_plan import AttachOptions, IndexPlan
from resift.plugin.operations.install import find_installation, second_installation_name
from resift.plugin.operations.plan import Plan, Progress, Result, Step, raise_if_stopped, start_step
from resift.plugin.operations.route import service_urls
from resift.plugin.operations.service_status import served_model
from resift.plugin.operations.status_row import key_advice
from resift.plugin.operations.vector_updates import VectorUpdate, remove_vectors, write_vectors
from resift.query.dsl import is_resift_field
from resift.stopping import Stop
from resift.vectors.packaged import DEFAULT_MODEL, load_vectors

NOT_INSTALLED = "no default pipelines were set, because the cluster has no installation for this model"
_SHOWN_REFUSALS = 5
# Number of dimensions of a trained model, if vectors of this size rank documents as well as vectors of full size. It is
# not tried for vectors with an HNSW index.
_SMALL_DIM = 128


class AttachPlan(Plan):
    """A plan to add vectors to all indices that a name refers to, and to rewrite their searches.

    Args:
        engine: The engine that is connected to the cluster.
        name: The name of an index, alias or data stream, or a pattern.
        options: The options of ``resift attach``.

    Attributes:
        targets: The indices.
        names: The names of the indices, separated by commas.
        out: The folder in which a trained model is saved.
        model: The embedding model, or None if it will be trained on the documents.
        own_field: The name of a field that the user created, and that already contains the vectors, or None.
        plans: A plan for each index.
        is_native: Whether all nodes have Resift's native plugin.

    Raises:
        BadInput: If an option is invalid, or if an index cannot be attached.
        MissingExtra: If a model must be trained, but a package for this is missing.
    """

    def __init__(self, engine: OpenSearchEngine, name: str, options: AttachOptions) -> None:
        self.engine, self.cluster, self.name, self.options = engine, Cluster(engine), name, options
        self.targets = find_targets(self.cluster, name)
        self.names = ", ".join(target.name for target in self.targets)
        self.question = f"Attach {self.names}?"
        for target in self.targets:
            check_attachable(target)
        self.out = options.out or re.sub(r"[^\w.-]", "_", name) + "-model"
        self.model = self._existing_model()
        self.own_field = options.field or (self.model.field if self.model else None)
        if self.own_field is None and self.model is not None:
            self.model.require_documents()
        if self.model is None:
            self._check_learnable()
        similar_model = self.model or load_model(DEFAULT_MODEL)
        self.plans = [IndexPlan(engine, target, similar_model, options, self.own_field) for target in self.targets]
        self.is_native = NativePlugin.read(self.cluster).is_on_all_nodes
        if options.service and not self.is_native:
            message = f"--service {options.service} is used with --vectors, but not all nodes have Resift's plugin"
            raise BadInput(message, value=options.service, expected="no --service, and resift install --service URL")

    def _check_learnable(self) -> None:
        """Check that an embedding model can be trained and saved. Call this before the documents are read.

        Raises:
            MissingExtra: If a package for training a model is missing.
            BadInput: If the folder for the model cannot be written.
        """
        try:
            adaptation().require_packages()
        except MissingExtra as error:
            raise MissingExtra(error.message, expected="that package, or --no-adapt for the packaged model") from error
        if reason := folder_write_error(Path(self.out)):
            raise BadInput(reason, value=self.out)

    @cached_property
    def searches(self) -> SearchAttachment:
        """The part of the plan that adds Resift's processor to a search pipeline, so that Resift rewrites searches.

        Raises:
            BadInput: If Resift's processor cannot be added to the search pipeline, or if the settings of an index
                cannot be changed.
        """
        return SearchAttachment(self.cluster, self.name, self.options.pipeline, self.options.default_pipelines)

    def _existing_model(self) -> Model | None:
        """Load the model that the options name, or the model of an earlier, interrupted run.

        Returns:
            The model, or None if a model must be trained on the documents.

        Raises:
            BadInput: If an interrupted run has written vectors to an index, but neither the output folder nor the
                default folder contains the model of these vectors.
        """
        if self.options.model is not None or not self.options.adapt:
            return load_model(self.options.model or DEFAULT_MODEL)
        # Continue an interrupted run with its model. Only vectors in Resift's fields can come from such a run.
        recorded = [
            info for target in self.targets for info in (target.record.filling, *target.record.complete_vectors)
        ]
        written = [info for info in recorded if info is not None and is_resift_field(info.vector_field)]
        if not written:
            return None
        info = written[0]
        for folder in (self.out, DEFAULT_MODEL):
            with suppress(ResiftError):
                if (model := load_model(folder)).hash == info.model:
                    return model
        vectors = f"vectors of model {info.model_name} ({info.model})"
        message = f"index {info.name!r} has {vectors}, which is not the model in {self.out}"
        expected = "--model DIR with the folder of that model or of another one, or --no-adapt"
        raise BadInput(message, value=info.model, expected=expected)

    def lines(self) -> list[str]:
        """Return the plan of ``resift attach --vectors`` as lines of text, which are shown before it is executed."""
        if self.model is None:
            lines = [f"model: trained on these documents in seconds or minutes, and saved in {self.out}"]
        else:
            lines = [f"model: {self.model.name} ({self.model.hash})"]
        for plan in self.plans:
            lines += plan.lines()
        condition = "" if self.is_native else ", if this model is installed in the cluster"
        if second_installation_name(self.cluster, self.model.hash if self.model else "", self._index_names):
            lines.append("  note        other indices use the model of the installed service; this model would need a")
            lines.append("              second service (--model DIR with the installed model needs none)")
        lines.append(f"searches of {self.name}{condition}:")
        return [*lines, *self.searches.lines(self.is_native)]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan of ``resift attach --vectors`` as a JSON object: the model, the indices and the pipeline."""
        indices = [plan.to_dict() for plan in self.plans]
        return {"model": self.model and self.model.hash, "indices": indices, "searches": self.searches.to_dict()}

    def _run(self, progress: Progress, stop: Stop) -> Result:
        searches = self.searches  # raises BadInput, if necessary, before anything is changed
        model = self.model or self.learn_model(progress, stop)
        results = []
        attachments = [_IndexAttachment(self, target, model, progress) for target in self.targets]
        self._check_benefit(attachments)
        interrupted = f"interrupted: run it again to continue with {self.names}"
        for attachment in attachments:
            results.append(attachment.run(stop))
            raise_if_stopped(stop, interrupted)
        # Superseded vectors are old vectors that the new vectors replace. Remove them only after all indices have new
        # vectors: until then, searches of all indices together use the old vectors.
        for attachment in attachments:
            attachment.remove_superseded(stop)
            raise_if_stopped(stop, interrupted)
        lines = [line for result in results for line in result.lines]
        pipeline = self._attach_searches(searches, model)
        problem = "" if pipeline is None else self._service_problem(pipeline, model)
        if problem:
            lines.append(f"next: {problem}")
        elif pipeline is not None:
            lines.append(f"searches through {pipeline.name} are rewritten")
        if not all(result.installed for result in results):
            lines.append(f"next: {self._next_commands(model)}, once for the cluster")
        lines += [f"undo: resift detach {shlex.quote(result.index)}" for result in results]
        in_order = not problem and all(result.in_order for result in results)
        name = None if pipeline is None else pipeline.name
        return Result(model=model.hash, indices=results, search_pipeline=name, lines=lines, in_order=in_order)

    @property
    def _index_names(self) -> list[str]:
        return [target.name for target in self.targets]

    def install_command(self, model: Model) -> str:
        """Return the command that installs a model in the cluster, without changing the model of other indices.

        Args:
            model: The model that encoded the documents.
        """
        folder, name = self.folder_option(model), second_installation_name(self.cluster, model.hash, self._index_names)
        if not folder and find_installations(self.cluster):
            folder = f" --model {DEFAULT_MODEL}"  # without this option, an installation keeps its model
        return f"resift install{folder}{f' --name {name}' if name else ''} --service URL"

    def _next_commands(self, model: Model) -> str:
        """Return the commands that start a service with a model, and install the model in the cluster.

        Args:
            model: The model that encoded the documents.
        """
        serve, install = f"resift serve{self.folder_option(model)}", self.install_command(model)
        if self.is_native:  # Resift's plugin calls the service without an installation
            return f"{install}, so that new documents get a vector"
        if not second_installation_name(self.cluster, model.hash, self._index_names):
            return f"{serve} and {install}"
        return f"a second service, beside the service that other indices need: {serve} --port PORT and {install}"

    def _service_problem(self, pipeline: SearchPipeline, model: Model) -> str:
        """Check that the service has the model of the vectors, and that Resift's plugin can call it.

        Args:
            pipeline: The search pipeline, which calls the service.
            model: The model that encoded the documents.

        Returns:
            What the user must do so that searches are rewritten. Empty if there is nothing to do.
        """
        serve, urls = f"start resift serve{self.folder_option(model)}", pipeline.rewriter.urls
        if not urls:
            urls = (find_installations(self.cluster)[pipeline.rewriter.installation].url,)
        for url in urls:
            served = served_model(url)
            if served is not None and served.hash != model.hash:
                return (
                    f"{serve} in place of the service at {url}, which has model {served}. If other indices need that "
                    f"model, start it at another address, then resift attach {self.name} --service URL"
                )
        if not self.is_native:  # the rights to write vectors do not include calls of remote models
            return ""
        try:
            error = pipeline.rewriting_error()
        except EngineError:  # the user may attach indices, but not search them
            return ""
        advice = key_advice(error, is_native=True) or f"{serve} so that the nodes reach it at {', '.join(urls)}"
        return f"{advice} (now: {error})" if error else ""

    def _check_benefit(self, attachments: Sequence[_IndexAttachment]) -> None:
        """Check that vectors improve the ranking of at least one index, before anything is written.

        An interrupted run that has written some vectors is continued without this test.

        Args:
            attachments: The objects that will add vectors to each index.

        Raises:
            BadInput: If vectors do not improve the ranking of any index, unless the option ``force`` is set.
        """
        is_continued = any(target.record.filling for target in self.targets)
        if self.options.force or is_continued or not any(attachment.plan.unfilled for attachment in attachments):
            return
        weights = [attachment.weight for attachment in attachments]
        if any(weight is None or weight.alpha for weight in weights):
            return
        reasons = "; ".join(weight.why["alpha"] for weight in weights if weight is not None)
        raise BadInput(
            f"vectors do not improve the searches of {self.names}, so nothing was written ({reasons})",
            value=self.names,
            expected="no --vectors, or --force to write them nevertheless",
        )

    def _attach_searches(self, searches: SearchAttachment, model: Model) -> SearchPipeline | None:
        """Add Resift's processor to the search pipeline of the indices, so that Resift rewrites their searches.

        If a node lacks Resift's native plugin, this is only possible after ``resift install`` for a service that has
        the model.

        Args:
            searches: The planned change of search pipelines.
            model: The model that encoded the documents.

        Returns:
            The search pipeline, or None if the processor could not be added, because the cluster has no
            installation with the model.
        """
        if self.is_native:
            urls = service_urls(self.cluster, self.options.service, searches.current_processor)
            return searches.run_native(urls, model.hash)
        installation = find_installation(self.cluster, model.hash)
        if installation is None:
            return None
        remote_models = self.cluster.ml_objects("models", f"{installation.name}-rewrite")
        if not remote_models:
            return None
        return searches.run(installation.name, remote_models[0][0], model.hash)

    def learn_model(self, progress: Progress, stop: Stop) -> Model:
        """Train an embedding model on the documents of the indices, and save it.

        Args:
            progress: A function that is called with progress reports.
            stop: A flag to stop early.

        Returns:
            The trained model. The model that comes with Resift is returned instead if the trained model is not better,
            or if there are too few documents.

        Raises:
            Interrupted: If a stop is requested.
        """

        def report(step: Step) -> None:
            raise_if_stopped(stop, "interrupted: nothing was changed")
            progress(step)

        indices = [(plan.target.name, plan.vector_info.fields, plan.target.documents) for plan in self.plans]
        texts = adaptation().index_texts(self.engine, indices)
        try:
            model = adaptation().adapt_if_better(
                texts,
                load_vectors(DEFAULT_MODEL),
                lambda done, total: report(Step("adapting", done, total)),
                lambda remark: report(Step(remark)),
                None if self.options.graph else _SMALL_DIM,
            )
        except BadInput as error:  # too few documents
            progress(Step(f"no model is trained: {error.message}; the packaged model is used"))
            model = None
        if model is None:
            return load_model(DEFAULT_MODEL)
        model.save(self.out)
        return load_model(self.out)

    def folder_option(self, model: Model) -> str:
        """Return the command-line option that selects a model, such as " --model news-model".

        The result is empty for the model that comes with Resift, which needs no option.

        Args:
            model: The model that encoded the documents.
        """
        return "" if model.hash == load_model(DEFAULT_MODEL).hash else f" --model {self.options.model or self.out}"


class _IndexAttachment:
    """Adds vectors to the documents of a single index.

    An AttachPlan, which can add vectors to several indices, creates an instance for each index.

    Args:
        plan: The plan for all indices.
        target: The index, with its mapping and settings.
        model: The embedding model.
        progress: A function that is called with progress reports.
    """

    def __init__(self, plan: AttachPlan, target: TargetIndex, model: Model, progress: Progress) -> None:
        self.engine, self.cluster, self.options, self.progress = plan.engine, plan.cluster, plan.options, progress
        self.target, self.model, self.install_command = target, model, plan.install_command(model)
        self.plan = IndexPlan(plan.engine, target, model, plan.options, plan.own_field)
        self.is_installed = find_installation(self.cluster, model.hash) is not None

    @cached_property
    def weight(self) -> Tuning | None:
        """The best weight of vector similarity in searches, or None if the index has too few documents to choose it."""
        return adaptation().weigh_index(self.engine, self.target.name, self.plan.vector_info.fields, self.model)

    def run(self, stop: Stop) -> Result:
        """Add a vector to each document, and record in the index that searches use the vectors.

        If no document gets a vector, or if a stop is requested, searches are not changed.

        Args:
            stop: A flag to stop early.

        Returns:
            The result, with lines of text for the user.
        """
        info, written = self.plan.vector_info, VectorUpdate()
        target = self.target.start_writing(info, self.model)
        if not self.plan.is_users_field:
            report = start_step(self.progress, f"encoding {info.name}", self.plan.unfilled)
            written = write_vectors(self.engine, self.model, info, stop, report)
        has_no_vectors = 0 < target.documents <= len(written.refused) + written.remaining
        if has_no_vectors:
            return self._result(written, [], ["no document has a vector, so searches are not changed"])
        if stop.requested:
            return self._result(written, [], [])
        target = target.use_in_searches(info)
        pipelines = self._update_pipelines()
        hints = self._set_default_pipeline(target, pipelines)
        if self.weight is None:
            return self._result(written, pipelines, hints)
        tuning = self.engine.info(info.name).tuning.with_weight(self.weight)
        self.engine.tune(info.name, tuning)
        return self._result(written, pipelines, hints, tuning)

    def remove_superseded(self, stop: Stop) -> None:
        """Remove superseded vectors from all documents, after new vectors have replaced them.

        Superseded vectors are vectors of the same model in another field, which an earlier ``resift attach`` has added.
        Nothing is removed before the new vectors are complete.

        Args:
            stop: A flag to stop early.
        """
        info = self.plan.vector_info

        def without_superseded(record: IndexRecord) -> IndexRecord:
            return record.without_vectors(record.superseded_by(info)) if record.searched_vectors == info else record

        target = self.target.change_record(without_superseded)
        if not (fields := target.record.unused_fields):
            return
        self._update_pipelines()
        total = sum(target.count({"exists": {"field": name}}) for name in fields)
        report = start_step(self.progress, f"emptying {', '.join(fields)}", total)
        emptied = remove_vectors(self.cluster, target.name, fields, stop, report)
        if not stop.requested and not emptied.remaining:
            target.change_record(IndexRecord.without_unused_fields)

    def _update_pipelines(self) -> list[str]:
        """Create or update the ingest pipeline of the index, which adds vectors to new documents.

        If the user may not change pipelines, this is reported as a remark, not as an error.

        Returns:
            The kinds of pipelines that the index has afterwards: "ingest", and also "search" if Resift rewrites its
            searches.
        """
        try:
            update_pipelines(self.cluster, self.target.name, include_search=False)
        except ResiftError as error:
            # The vectors are written, so this is not an error. A user who may write documents may lack the right to
            # change pipelines.
            self.progress(Step(f"no pipeline was created: {error.message}"))
        return pipeline_kinds(self.cluster, self.target.name)

    def _set_default_pipeline(self, target: TargetIndex, pipelines: Sequence[str]) -> list[str]:
        """Make all new documents of the index pass through the ingest pipeline that encodes them.

        Nothing is changed unless the user chose the option ``--default-pipelines``.

        Args:
            target: The index, with its mapping and settings.
            pipelines: The kinds of Resift's pipelines that exist for the index: "search", "ingest" or both. Without an
                ingest pipeline, nothing is changed.

        Returns:
            Hints for the user about settings that could not be changed.
        """
        if not self.options.default_pipelines:
            return []
        command = f"resift attach {self.target.name} --vectors --default-pipelines"
        if not self.is_installed:
            return [f"{NOT_INSTALLED}: {self.install_command}, then {command}"]
        if self.plan.is_users_field:
            return []
        if "ingest" not in pipelines:
            return [f"there is no ingest pipeline that could be the default: {command}"]
        settings, hints = target.final_pipeline_setting()
        if settings:
            self.cluster.update_index_settings(target.name, settings)
        return hints

    def _result(
        self, written: VectorUpdate, pipelines: Sequence[str], hints: Sequence[str], tuning: Tuning | None = None
    ) -> Result:
        info = self.plan.vector_info
        rate = written.documents / (written.seconds or 1)
        lines = [f"{info.name}: {written.documents} documents encoded into {info.vector_field}, {rate:.0f} per second"]
        lines += [f"  refused: {rejection.id}: {rejection.reason}" for rejection in written.refused[:_SHOWN_REFUSALS]]
        if written.remaining:
            lines.append(f"  {written.remaining} still lack a vector: resift verify {info.name} --repair")
        if tuning is not None:
            lines += [f"  {line}" for line in tuning.describe()]
        if "ingest" in pipelines:
            lines.append(f"  ingest pipeline {pipeline_name(info.name)}")
        return Result(
            [*lines, *(f"  {hint}" for hint in hints)],
            not (written.refused or hints or written.remaining),
            index=info.name,
            fields=list(info.fields),
            vector_field=info.vector_field,
            documents=written.documents,
            refused=len(written.refused),
            seconds=round(written.seconds, 3),
            installed=self.is_installed,
            pipelines=pipelines,
            hints=hints,
            missing=written.remaining + len(written.refused),
            alpha=tuning and tuning.alpha,
        )
