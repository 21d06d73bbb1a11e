"""Detaching searches: removing Resift's processor from search pipelines, and restoring default pipelines."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from resift.errors import EngineError, NotFound
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.pipeline_uses import refuse_if_used, uses_of_pipelines
from resift.plugin.cluster.search_pipelines import (
    NO_PIPELINE,
    REFUSED_SEARCHES,
    SEARCH_PIPELINE_SETTING,
    PipelineBody,
    Rewriter,
    all_pipelines,
    is_created_by_resift,
    read_rewriters,
    remove_processor,
    would_be_deleted,
)
from resift.plugin.cluster.target_index import settings_of_indices
from resift.query.dsl import PIPELINE_PREFIX


class SearchDetachment:
    """A change that makes Resift stop rewriting searches, by removing its processors from search pipelines.

    Indices whose default search pipeline ``resift attach`` changed get their original default pipeline back.

    The object is false in a boolean context if there is nothing to change.

    Args:
        cluster: The connection to the cluster.
        names: The names to detach: the name that was passed to ``resift attach``, and the names of its indices.
        settings: The settings of these indices, by index name.

    Attributes:
        rewriters: The processors to remove, by the name of their search pipeline.
        restored: The default search pipelines to restore, by index name. None stands for no default pipeline.
        still_attached: Other attached names that refer to one of the indices.

    Raises:
        EngineError: If another index or a template uses a pipeline that would be deleted.
    """

    def __init__(self, cluster: Cluster, names: Collection[str], settings: Mapping[str, Mapping[str, str]]) -> None:
        self.cluster, self.pipelines = cluster, all_pipelines(cluster)
        self.rewriters = {
            pipeline: rewriter
            for pipeline, rewriter in read_rewriters(self.pipelines).items()
            if rewriter.index in names
        }
        indices = {*settings, *(index for rewriter in self.rewriters.values() for index in rewriter.defaults)}
        current_defaults = {
            index: (settings.get(index) or _settings_or_empty(cluster, index)).get(SEARCH_PIPELINE_SETTING, NO_PIPELINE)
            for index in sorted(indices)
        }
        self.restored = dict(self._defaults_to_restore(current_defaults, names))
        deleted = {pipeline for pipeline in self.rewriters if would_be_deleted(self.pipelines[pipeline])}
        uses = uses_of_pipelines(cluster, deleted, "search pipeline")
        other_uses = [use for use in uses if use.kind != "index" or use.name not in self.restored]
        refuse_if_used(other_uses, ", if it is a clone")
        self.still_attached = other_attached_names(cluster, self.pipelines, names, settings) if self.rewriters else []

    def _defaults_to_restore(
        self, current_defaults: Mapping[str, str], names: Collection[str]
    ) -> Iterator[tuple[str, str | None]]:
        """Yield the indices whose default search pipeline must be restored, each with its original default pipeline.

        Args:
            current_defaults: The current default search pipelines, by index name.
            names: The names of indices, aliases, patterns and data streams whose searches are no longer rewritten.

        Yields:
            The name of an index, and the name of its original default pipeline. None stands for no default pipeline.
        """
        for index, current in current_defaults.items():
            pipeline = self.pipelines.get(current, {})
            rewriter = Rewriter.read(pipeline)
            if not pipeline:
                if current.startswith(PIPELINE_PREFIX):  # a snapshot restored the index without Resift's pipeline
                    yield index, None
            elif rewriter is None:
                continue
            elif rewriter.index not in names:
                if is_created_by_resift(pipeline) and self._is_clone(index, rewriter.index):
                    yield index, rewriter.defaults.get(rewriter.index)
            elif index in rewriter.defaults:
                yield index, self._original_default(index, rewriter)
            elif is_created_by_resift(pipeline):
                # A template has set the default, so the processor does not record the original default.
                yield index, rewriter.base if rewriter.base in self.pipelines else None

    def _original_default(self, index: str, rewriter: Rewriter) -> str | None:
        """Return the default search pipeline that an index had before it was attached, or None if it had none.

        An index can be attached twice, by its own name and by an alias. The second attachment then records the pipeline
        that the first attachment created. In this case, the pipeline before the first attachment is returned.

        Args:
            index: The name of the index.
            rewriter: The processor that records the original default pipelines.
        """
        before = rewriter.defaults[index]
        if (earlier := self.rewriters.get(before or "")) is not None:
            before = earlier.defaults.get(index, before)
        return before if before in self.pipelines else None

    def _is_clone(self, index: str, attached_name: str) -> bool:
        """Return whether an index was cloned from an attached index.

        A clone has the default search pipeline of the original index, but a different name. Call this method only for
        indices with the default search pipeline that ``resift attach`` created for ``attached_name``.

        Args:
            index: The name of the index.
            attached_name: The index, alias or pattern that was attached.
        """
        try:
            return index not in self.cluster.engine.resolve(attached_name)
        except NotFound:
            return True

    def __bool__(self) -> bool:
        return bool(self.rewriters or self.restored)

    def to_dict(self) -> dict[str, Any]:
        """Return the planned change of pipelines and settings as a JSON object."""
        return {
            "search_pipelines": {
                pipeline: "removed" if would_be_deleted(self.pipelines[pipeline]) else "without our processor"
                for pipeline in self.rewriters
            },
            "settings": {index: {SEARCH_PIPELINE_SETTING: before} for index, before in self.restored.items()},
        }

    def lines(self) -> list[str]:
        """Return the planned change of pipelines and settings as lines of text for the user."""
        lines = [
            f"  {SEARCH_PIPELINE_SETTING} of {index} back to {before or 'unset'}"
            for index, before in self.restored.items()
        ]
        for pipeline in self.rewriters:
            is_deleted = would_be_deleted(self.pipelines[pipeline])
            change = "removed" if is_deleted else "stays, without Resift's processor"
            lines.append(f"  search pipeline {pipeline} {change}")
            if is_deleted:
                lines.append(f"  clients must first stop sending search_pipeline={pipeline}: {REFUSED_SEARCHES}")
        return [*lines, *self.still_attached_lines()]

    def still_attached_lines(self) -> list[str]:
        """Return lines of text about the names, such as aliases, under which the indices remain attached to Resift.

        Each line contains one name, and the command that detaches it.
        """
        return [f"  still attached through {name}: resift detach {shlex.quote(name)}" for name in self.still_attached]

    def run(self) -> None:
        """Restore the default search pipelines of the indices, and remove Resift's processors from search pipelines."""
        # Change all indices with the same value by a single request. While the default pipelines of some indices
        # differ, OpenSearch applies none to searches of these indices together.
        for before in dict.fromkeys(self.restored.values()):
            indices = [index for index, value in self.restored.items() if value == before]
            self.cluster.update_indices_settings(indices, {SEARCH_PIPELINE_SETTING: before})
        for pipeline in self.rewriters:
            remove_processor(self.cluster, pipeline)


def other_attached_names(
    cluster: Cluster, pipelines: Mapping[str, PipelineBody], names: Collection[str], indices: Collection[str]
) -> list[str]:
    """Return other names through which some indices are attached to Resift, such as aliases or patterns.

    An index can be attached several times: ``resift attach`` can be run for the index and for its alias.

    Args:
        cluster: The connection to the cluster.
        pipelines: The bodies of all search pipelines, by name. They show which names are attached.
        names: Names to leave out of the result, such as the name that is being detached.
        indices: The names of the indices.
    """
    other_names = {rewriter.index for rewriter in read_rewriters(pipelines).values()}.difference(names)
    attached_names = []
    for name in sorted(other_names):
        with suppress(NotFound, EngineError):  # the indices were deleted, or this user may not see them
            if not {*indices}.isdisjoint(cluster.engine.resolve(name)):
                attached_names.append(name)
    return attached_names


def _settings_or_empty(cluster: Cluster, index: str) -> dict[str, str]:
    """Return the settings of an index, or an empty dictionary if the index does not exist."""
    try:
        return settings_of_indices(cluster, index)[index]
    except (NotFound, KeyError):
        return {}
