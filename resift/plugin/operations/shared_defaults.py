"""Find searches of several indices that a new default search pipeline would change."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence

from resift.errors import BadInput
from resift.plugin.cluster.search_groups import SearchGroups, common_default, indices_to_change_together, lost_defaults
from resift.plugin.cluster.search_pipelines import (
    SEARCH_PIPELINE_SETTING,
    PipelineBody,
    is_created_by_resift,
    original_default,
    original_pipeline,
)

_SHOWN_INDICES = 5


class SharedDefaults:
    """The effects of a new default search pipeline on searches that also reach other indices.

    For example, if an index gets a new default pipeline, the searches of an alias of this index can change, too.

    Args:
        groups: All groups of indices that are searched together, for example through an alias.
        pipelines: The bodies of all search pipelines, by name.
        indices: The indices with the new default pipeline.
        pipeline: The name of the new default pipeline.
        base: The name of the pipeline that the new pipeline copies, or None.

    Attributes:
        lost: The groups whose searches would lose their default pipeline.
        also_rewritten: The groups that also contain other indices, and whose searches the new pipeline would rewrite.
    """

    def __init__(
        self,
        groups: SearchGroups,
        pipelines: Mapping[str, PipelineBody],
        indices: Collection[str],
        pipeline: str,
        base: str | None,
    ) -> None:
        self.all_groups, self.indices, self.pipeline = groups.groups, indices, pipeline
        self.before = {index: original_default(index, now, pipelines) for index, now in groups.defaults.items()}
        after = {**groups.defaults, **dict.fromkeys(indices, pipeline)}
        # Groups of only these indices are left out, because their searches are meant to change. If a template can add
        # other indices to a group, the group is included.
        concerned = [
            group
            for group in groups.groups
            if not {*group.indices}.isdisjoint(indices) and (group.template or not {*group.indices} <= {*indices})
        ]

        is_users = pipeline in pipelines and not is_created_by_resift(pipelines[pipeline])

        def original(name: str | None) -> str | None:
            return base if name == pipeline and not is_users else original_pipeline(name, pipelines)

        self.lost = list(lost_defaults(concerned, self.before, after, original))
        self.also_rewritten = [
            group
            for group in concerned
            if group.template is None and common_default(map(after.get, group.indices)) == pipeline
        ]

    @property
    def names_to_attach(self) -> list[str]:
        """The names that the user can attach instead, so that no search loses its default search pipeline.

        The list contains the aliases, data streams and patterns whose searches would lose their default pipeline. Its
        last item is a comma-separated list of all indices that must be attached together.
        """
        together = indices_to_change_together(self.all_groups, self.indices, self.before)
        names = [change.group.name for change in self.lost]
        return list(dict.fromkeys([*names, ",".join(sorted(together))]))

    def lost_default_error(self, name: str, own_pipeline: str, together: Sequence[str]) -> BadInput:
        """Return the error to raise if a new default pipeline would switch off the default pipeline of other searches.

        If indices that are searched together have different default pipelines, OpenSearch applies none of them. For
        example, if only one index of an alias gets a new default, searches of the alias can lose the pipeline that they
        have now. The error message names such a search, and suggests commands that avoid the problem.

        Args:
            name: The name of the index or alias that should get the new default pipeline.
            own_pipeline: The name of the pipeline that Resift creates for this index or alias.
            together: Names to attach instead of ``name``: an alias, a pattern, or a comma-separated list of indices.
                The message suggests each of them.
        """
        change = self.lost[0]
        template = change.group.template
        advice = [f"resift attach {shlex.quote(other)} --default-pipelines, for all in one step" for other in together]
        if change.is_later and template is not None:
            reason = f"{template} gives new indices the default pipeline {template.default}"
            setting = f"set {SEARCH_PIPELINE_SETTING} of {template} to {own_pipeline}"
            advice.append(f"resift attach {shlex.quote(name)}, then {setting}, then this command again")
        else:
            other_indices = [index for index in change.group.indices if index not in self.indices]
            reason = f"{change.group} also reaches {_shortened(other_indices)}"
        message = (
            f"{reason}: with {self.pipeline} as the default of {name}, OpenSearch would no longer apply "
            f"{change.before} to searches of {change.group.name}"
        )
        advice.append(advice_without_default(own_pipeline))
        return BadInput(message, value=change.group.name, expected="; or ".join(advice))

    def lines(self) -> list[str]:
        """Return lines of text for the user about other searches that the new default pipeline will also rewrite.

        For example, if an index belongs to an alias, the pipeline may also rewrite searches of this alias. There is a
        line for each such alias or other group of indices.
        """
        return [
            f"  also        searches of {group} ({_shortened(group.indices)}) use {self.pipeline}"
            for group in self.also_rewritten
        ]


def advice_without_default(own_pipeline: str) -> str:
    """Return advice for error messages: to name the pipeline in searches instead of changing default pipelines.

    Args:
        own_pipeline: The name of the search pipeline that Resift creates.
    """
    return f"no --default-pipelines (clients then send search_pipeline={own_pipeline})"


def _shortened(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN_INDICES
    return ", ".join(names[:_SHOWN_INDICES]) + (f" and {more} more" if more > 0 else "")
