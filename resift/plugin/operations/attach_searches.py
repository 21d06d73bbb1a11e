"""How searches of an index get rewritten: our processor goes into the search pipeline that they use, and out again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote

from resift.errors import BadInput, EngineError, IndexNotFound, NotFound
from resift.ingest.stopping import Stop
from resift.plugin.cluster.attachment import settings_of
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_pipelines import WITHOUT, PipelineUse, refuse, uses_of
from resift.plugin.cluster.index_record import records
from resift.plugin.cluster.search_pipelines import (
    NONE,
    SEARCH,
    Rewriter,
    SearchPipeline,
    all_pipelines,
    is_made,
    pipeline_name,
    take_out,
    with_processor,
    would_be_deleted,
)
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.install import needed_install, serving
from resift.plugin.operations.plan import Plan, Progress, Result
from resift.query.dsl import PIPELINE_PREFIX

_READ_ONLY = ("index.blocks.read_only", "index.blocks.metadata")


class Searches:
    """Where our processor goes so that searches of ``name``, an index or what else stands for some, are rewritten.

    It is the search pipeline ``pipeline``, else the default one of the indices, else a new one. One that other indices
    use too is copied. With ``default`` it becomes the default pipeline of the indices. Raises IndexNotFound, and
    BadInput for what cannot be done.
    """

    def __init__(self, cluster: Cluster, name: str, pipeline: str | None = None, default: bool = False) -> None:
        self.cluster, self.name, self.default, self.own = cluster, name, default, pipeline_name(name)
        self.settings = settings_of(cluster, name)
        self.found = all_pipelines(cluster)
        if pipeline is not None and pipeline not in self.found:
            known = ", ".join(self.found) or "none"
            raise BadInput(f"there is no search pipeline {pipeline!r}", value=pipeline, expected=f"one of: {known}")
        used = {index: self._own_default(index) for index in self.settings}
        base = pipeline or self._base({*used.values()})
        self.sharing = [] if base is None else self._sharing(base)
        anothers = base is not None and is_made(self.found[base]) and self._attached(self.found[base]) != name
        self.base = base if self.sharing or anothers else None
        self.pipeline = self.own if base is None or self.base is not None else base
        self._check(base)
        others = {index: one for index, one in used.items() if not self._is_default(index)}
        self.without, self.changed = ([], others) if default else (list(others), {})

    def _is_default(self, index: str) -> bool:
        return self.pipeline in self.found and self.settings[index].get(SEARCH) == self.pipeline

    def _own_default(self, index: str) -> str | None:
        """The default pipeline that an index has by itself, and not by something else that was attached."""
        used = self.settings[index].get(SEARCH, NONE)
        pipeline = self.found.get(used)
        # a snapshot brings an index, and not the pipeline that was made for it
        if used == NONE or (pipeline is None and used.startswith(PIPELINE_PREFIX)):
            return None
        rewriter = Rewriter.read(pipeline)
        if pipeline is None or rewriter is None or rewriter.index == self.name or not is_made(pipeline):
            return used
        # such as of each index behind an alias, by version 0.1, or of the index that a clone comes from
        return rewriter.defaults.get(index, rewriter.defaults.get(rewriter.index))

    def _base(self, used: set[str | None]) -> str | None:
        """The pipeline that searches use, or that was made for them; None if there is none."""
        mine = [own for own, pipeline in self.found.items() if self._attached(pipeline) == self.name]
        if mine and used <= {None, *mine}:
            return mine[0]
        if len(used) > 1:
            told = f"the indices of {self.name!r} have different default search pipelines"
            raise BadInput(told, value=sorted(map(str, used)), expected="--pipeline NAME, one of them or another")
        (one,) = used
        if one is not None and one not in self.found:
            message = f"{SEARCH} of {self.name} is {one}, which is missing: searches are refused"
            raise BadInput(message, value=one, expected="that pipeline, or the setting without it")
        return one

    def _attached(self, pipeline: Mapping[str, Any] | None) -> str | None:
        rewriter = Rewriter.read(pipeline)
        return rewriter.index if rewriter else None

    def _sharing(self, pipeline: str) -> list[PipelineUse]:
        """What else uses a pipeline: other indices, and templates that others will be made by."""
        uses = uses_of(self.cluster, {pipeline}, "search pipeline")
        return [use for use in uses if not (use.name in self.settings if use.kind == "index" else self._is_inside(use))]

    def _is_inside(self, use: PipelineUse) -> bool:
        """Whether all indices that a template makes belong to what is attached."""
        if use.kind != "index template":
            return False
        found = self.cluster.find(f"/_index_template/{quote(use.name, safe='')}", "index_templates")
        patterns = found[0]["index_template"]["index_patterns"] if found else [""]
        return all(fnmatchcase(one, self.name) for one in patterns)

    def _check(self, base: str | None) -> None:
        if self.pipeline == self.own and self.name in WITHOUT:
            raise BadInput(
                f"{self.name!r} can have no pipeline of its own", value=self.name, expected="--pipeline NAME"
            )
        there = self.found.get(self.pipeline)
        if there is None:
            return
        attached = self._attached(there)
        is_chosen = self.pipeline == base and self.base is None
        if attached is None and not is_chosen and not is_made(there):
            message = f"search pipeline {self.own} is not Resift's"
            raise BadInput(message, value=self.own, expected=f"--pipeline {self.own}, if that is the one")
        if attached not in (None, self.name):
            message = f"search pipeline {self.pipeline} has the searches of {attached} rewritten"
            raise BadInput(message, value=attached, expected=f"resift detach {attached} first, or --pipeline NAME")
        for index, settings in self.settings.items() if self.default else ():
            if block := next((one for one in _READ_ONLY if settings.get(one) == "true"), None):
                expected = f"no --default-pipelines, or no {block}"
                raise BadInput(f"{index!r} takes no other settings: {block} is set", value=index, expected=expected)

    def to_dict(self) -> dict[str, Any]:
        """What is to be done, for programs."""
        return {
            "pipeline": self.pipeline,
            "copy_of": self.base,
            "is_new": self.pipeline not in self.found,
            "settings": {index: {SEARCH: self.pipeline} for index in self.changed},
        }

    def lines(self) -> list[str]:
        """What is to be done, for people."""
        source = self.found.get(self.base or self.pipeline, {})
        lines = [f"  pipeline    {self.pipeline}{self._origin()}"]
        processors = with_processor(source, {"resift": {}})["request_processors"]
        names = ["ours" if "resift" in one else next(iter(one)) for one in processors]
        if len(names) > 1:
            lines.append(f"              request processors: {', '.join(names)}")
        if self._attached(source) == self.name:
            lines.append("              which has our processor already")
        stay = [next(iter(one)) for one in source.get("phase_results_processors", ())]
        if stay:
            lines.append(f"              {', '.join(stay)}: behind it, as before")
        for index, before in self.changed.items():
            lines.append(f"  setting     {SEARCH} of {index}: {self.pipeline}, instead of {before or 'none'}")
        if self.without:
            named = f"search_pipeline={self.pipeline}"
            lines.append(f"  clients     send {named}; --default-pipelines rewrites searches without it, too")
        return lines

    def _origin(self) -> str:
        """Whether the pipeline is a copy, and why, or a new one."""
        if self.base is None:
            return "" if self.pipeline in self.found else ", a new one"
        users = ", ".join(f"{use.kind} {use.name}" for use in self.sharing[:5])
        return f", a copy of {self.base}, {f'which {users} uses too' if users else 'which is not for this alone'}"

    def run(self, installation: str, model_id: str, model: str = "") -> SearchPipeline:
        """Do it: the remote model ``model_id`` of an installation is asked, and the vectors of ``model`` count."""
        found = self.cluster.find(f"/_search/pipeline/{quote(self.pipeline, safe='')}", self.pipeline)
        before = Rewriter.read(found)
        # before the settings are changed it is on record what they were
        defaults = {**(before.defaults if before else {}), **self.changed}
        rewriter = Rewriter(installation, self.name, model, defaults)
        base = None if self.base is None else self.found[self.base]
        pipeline = SearchPipeline(self.cluster, self.pipeline, rewriter, model_id, found, base)
        pipeline.make()
        for index in self.changed:
            self.cluster.set_index(index, {SEARCH: self.pipeline})
        return pipeline


class SearchPlan(Plan):
    """What attaching is about to do to the searches of ``name``. Nothing is written to an index.

    Raises BadInput for what cannot be done, and UnsupportedCluster where plugins are missing.
    """

    def __init__(self, engine: OpenSearchEngine, name: str, pipeline: str | None, default: bool) -> None:
        self.engine, self.cluster, self.name = engine, Cluster(engine), name
        self.searches = Searches(self.cluster, name, pipeline, default)
        self.install = needed_install(engine)
        self.steps = [] if self.install is None else self.install.steps
        self.with_vectors = {own: one for own, one in records(self.cluster, name).items() if one.ready}
        self.question = f"Attach {name}?"

    def lines(self) -> list[str]:
        lines = [f"{self.name}: nothing is written to the index; its searches are rewritten by their sessions"]
        lines += self.searches.lines()
        for own, record in self.with_vectors.items():
            models = ", ".join(f"{one.model_name} ({one.model})" for one in record.ready)
            lines.append(f"  vectors     {own} keeps those that it has, of {models}")
        if self.install is not None:
            url = self.install.installer.url
            lines.append(f"  install     first, for the reranker at {url} (another: resift install --service URL):")
            lines += [f"              {step}" for step in self.steps]
        return lines

    def to_dict(self) -> dict[str, Any]:
        return {
            "index": self.name,
            "vectors": sorted(self.with_vectors),
            **self.searches.to_dict(),
            "install": self.steps,
        }

    def _run(self, progress: Progress, stop: Stop) -> Result:
        if self.install is not None:
            self.install.run()
        installation = serving(self.cluster)
        if installation is None:
            raise EngineError("the cluster has no installation any more", status=409, expected="the same again")
        # those count of which every index with vectors has some
        hash = installation.model.hash
        has = [hash in [one.model for one in record.ready] for record in self.with_vectors.values()]
        (id, _), *_ = self.cluster.named("models", f"{installation.name}-rewrite")
        pipeline = self.searches.run(installation.name, id, hash if has and all(has) else "")
        wrong = pipeline.ask()
        lines = [f"{self.name}: searches through {pipeline.name} are rewritten by their sessions"]
        if wrong:
            lines.append(f"next: resift serve, where the nodes reach it as {installation.url} (so far: {wrong})")
        lines.append(f"undo: resift detach {self.name}")
        settings = self.searches.to_dict()["settings"]
        return Result(lines, index=self.name, pipeline=pipeline.name, settings=settings, rewritten=not wrong)


class Unsearched:
    """How the searches of ``names`` are given back: our processor goes out of pipelines, and default ones are put back.

    ``settings`` are those of the indices behind the names. Raises EngineError for whatever else names a pipeline that
    is to go.
    """

    def __init__(self, cluster: Cluster, names: Collection[str], settings: Mapping[str, Mapping[str, str]]) -> None:
        self.cluster, self.found = cluster, all_pipelines(cluster)
        ours = {own: one for own, pipeline in self.found.items() if (one := Rewriter.read(pipeline)) is not None}
        self.pipelines = {own: one for own, one in ours.items() if one.index in names}
        indices = {*settings, *(index for one in self.pipelines.values() for index in one.defaults)}
        used = {index: (settings.get(index) or _settings_of(cluster, index)).get(SEARCH, NONE) for index in indices}
        self.restored = dict(self._to_restore(dict(sorted(used.items())), names))
        going = {own for own in self.pipelines if would_be_deleted(self.found[own])}
        uses = uses_of(cluster, going, "search pipeline")
        others = [use for use in uses if use.kind != "index" or use.name not in self.restored]
        refuse(others, ", if it is a clone")

    def _to_restore(self, used: Mapping[str, str], names: Collection[str]) -> Iterator[tuple[str, str | None]]:
        """The indices whose default pipeline goes back, and to what (None: unset)."""
        for index, name in used.items():
            pipeline = self.found.get(name, {})
            rewriter = Rewriter.read(pipeline)
            if rewriter is not None and rewriter.index in names and index in rewriter.defaults:
                yield index, self._before(index, rewriter)
            elif rewriter is not None and is_made(pipeline) and self._is_clone(index, rewriter.index, names):
                yield index, rewriter.defaults.get(rewriter.index)
            elif (not pipeline and name.startswith(PIPELINE_PREFIX)) or (name in self.pipelines and is_made(pipeline)):
                yield index, None  # as by version 0.1, or a template, or after a snapshot was restored without it

    def _before(self, index: str, rewriter: Rewriter) -> str | None:
        """The default pipeline of an index before all that is detached; its alias may have been attached before it."""
        before = rewriter.defaults[index]
        if (earlier := self.pipelines.get(before or "")) is not None:
            before = earlier.defaults.get(index, before)
        return before if before in self.found else None

    def _is_clone(self, index: str, attached: str, names: Collection[str]) -> bool:
        """Whether an index has the default pipeline of another one that was attached, whose clone it is."""
        if attached in names:
            return False
        try:
            return index not in self.cluster.engine.resolve(attached)
        except NotFound:
            return True

    def __bool__(self) -> bool:
        return bool(self.pipelines or self.restored)

    def to_dict(self) -> dict[str, Any]:
        """What is to be done, for programs."""
        return {
            "search_pipelines": {
                own: "removed" if would_be_deleted(self.found[own]) else "without our processor"
                for own in self.pipelines
            },
            "settings": {index: {SEARCH: before} for index, before in self.restored.items()},
        }

    def lines(self) -> list[str]:
        """What is to be done, for people."""
        lines = [f"  {SEARCH} of {index} back to {before or 'unset'}" for index, before in self.restored.items()]
        for own in self.pipelines:
            gone = would_be_deleted(self.found[own])
            lines.append(f"  search pipeline {own} {'removed' if gone else 'stays, without our processor'}")
        return lines

    def run(self) -> None:
        """Do it."""
        for index, before in self.restored.items():
            self.cluster.set_index(index, {SEARCH: before})
        for own in self.pipelines:
            take_out(self.cluster, own)


def _settings_of(cluster: Cluster, index: str) -> dict[str, str]:
    try:
        return settings_of(cluster, index)[index]
    except (NotFound, IndexNotFound, KeyError):
        return {}
