"""The rows of ``resift doctor`` about attached indices, searches of several indices, and outdated copies."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress

from resift.errors import NotFound
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_record import IndexRecord, read_records
from resift.plugin.cluster.search_groups import LostDefault, SearchGroups, lost_defaults, read_groups
from resift.plugin.cluster.search_pipelines import (
    SEARCH_PIPELINE_SETTING,
    PipelineBody,
    Rewriter,
    all_pipelines,
    find_rewriters,
    is_up_to_date,
    original_default,
    original_pipeline,
    read_rewriters,
)
from resift.plugin.operations.status_row import StatusRow


def attached_rows(cluster: Cluster) -> Iterator[StatusRow]:
    """Yield a row for each attached index, alias, data stream or pattern. It names the route and the search pipeline.

    Args:
        cluster: The connection to the cluster.
    """
    for pipeline, rewriter in find_rewriters(cluster).items():
        route = f"Resift's plugin, service {', '.join(rewriter.urls)}" if rewriter.is_native else "ML Commons"
        copy = "" if rewriter.base is None else f", a copy of {rewriter.base}"
        yield StatusRow("attached", rewriter.index, f"by {route}, in search pipeline {pipeline}{copy}")


def search_rows(cluster: Cluster) -> Iterator[StatusRow]:
    """Yield rows for the report of ``resift doctor`` about problems with search pipelines in a cluster.

    There is a row for each copy of a pipeline that is out of date, and for each index without the vectors that the
    searches of an attached alias, data stream or pattern use. There is also a row for each alias or other group of
    indices whose searches lost their default pipeline, because it refers to other indices than when it was attached, or
    because only some of its indices are attached.

    Args:
        cluster: The connection to the cluster.
    """
    pipelines = all_pipelines(cluster)
    rewriters = read_rewriters(pipelines)
    if not rewriters:
        return
    yield from _copy_rows(pipelines, rewriters)
    yield from _missing_vector_rows(cluster, rewriters)
    groups = read_groups(cluster, [rewriter.index for rewriter in rewriters.values()])
    yield from _moved_rows(groups, rewriters)
    before = {index: original_default(index, now, pipelines) for index, now in groups.defaults.items()}
    attached = {index for index, now in groups.defaults.items() if now in rewriters}
    concerned = [group for group in groups.groups if not attached.isdisjoint(group.indices)]
    for change in lost_defaults(concerned, before, groups.defaults, lambda name: original_pipeline(name, pipelines)):
        yield _lost_default_row(change, groups.defaults, before, rewriters)


def _copy_rows(pipelines: Mapping[str, PipelineBody], rewriters: Mapping[str, Rewriter]) -> Iterator[StatusRow]:
    for name, rewriter in rewriters.items():
        base = pipelines.get(rewriter.base or "")
        if base is not None and not is_up_to_date(pipelines[name], base):
            state = f"is a copy of {rewriter.base}, which has changed since"
            yield StatusRow("search pipeline", name, state, f"resift attach {shlex.quote(rewriter.index)}")


def _missing_vector_rows(cluster: Cluster, rewriters: Mapping[str, Rewriter]) -> Iterator[StatusRow]:
    """Yield a row for each index that lacks the vectors with which its alias, data stream or pattern was attached.

    This happens if an alias moves to another index, or if a data stream gets a new backing index. With the native
    plugin, the service chooses the model, so only indices without any vectors are reported.

    Args:
        cluster: The connection to the cluster.
        rewriters: The settings of Resift's processors, by the name of their search pipeline.
    """
    with_vectors = [rewriter for rewriter in rewriters.values() if rewriter.model]
    records = read_records(cluster) if with_vectors else {}
    for rewriter in with_vectors:
        with suppress(NotFound):  # reported as a pipeline without an index
            for index in cluster.engine.resolve(rewriter.index):
                record = records.get(index, IndexRecord(index))
                if not (record.complete_vectors if rewriter.is_native else record.find(rewriter.model)):
                    state = f"has no vectors of model {rewriter.model}, with which {rewriter.index} is attached"
                    fix = f"resift attach {shlex.quote(rewriter.index)} --vectors --model DIR of that model"
                    yield StatusRow("index", index, f"{state}: sessions use words alone", fix)


def _moved_rows(groups: SearchGroups, rewriters: Mapping[str, Rewriter]) -> Iterator[StatusRow]:
    """Yield a row for each name that was attached with its default pipeline, and whose searches ignore their session.

    This happens if an alias moves to another index, because the default pipeline is a setting of the index. Searches of
    an index that was later attached by another name follow their session: its default pipeline has another name, but
    also contains Resift's processor.

    Args:
        groups: The groups of indices that are searched together, and the default pipelines of all indices.
        rewriters: The settings of Resift's processors, by the name of their search pipeline.
    """
    for pipeline, rewriter in rewriters.items():
        group = next((group for group in groups.groups if group.name == rewriter.index and group.indices), None)
        if (
            group is None
            or not rewriter.defaults
            or any(groups.defaults.get(index) in rewriters for index in group.indices)
        ):
            continue
        state = (
            f"was attached with the default pipeline {pipeline}, which {', '.join(group.indices)} does not have: "
            f"searches that name no pipeline ignore their session"
        )
        fix = f"resift attach {shlex.quote(rewriter.index)} --default-pipelines"
        yield StatusRow(group.kind, group.name, state, fix)


def _lost_default_row(
    change: LostDefault,
    defaults: Mapping[str, str | None],
    before: Mapping[str, str | None],
    rewriters: Mapping[str, Rewriter],
) -> StatusRow:
    """Return the report row for a group of indices whose searches lost, or will lose, their default search pipeline.

    Args:
        change: The group of indices, with its default pipelines before and after the change.
        defaults: The current default pipeline of each index, by index name.
        before: The default pipeline that each index has without Resift, by index name.
        rewriters: The settings of Resift's processors, by the name of their search pipeline.
    """
    group, template = change.group, change.group.template
    used = [default for index in group.indices if (default := defaults[index]) in rewriters]
    pipeline = str(used[0])
    if change.is_later and template is not None:
        state = (
            f"{template} gives new indices {template.default}, and existing ones have {pipeline}: OpenSearch will "
            f"apply neither to searches of both"
        )
        return StatusRow(group.kind, group.name, state, f"set {SEARCH_PIPELINE_SETTING} of {template} to {pipeline}")
    each = dict.fromkeys(f"{defaults[index]}" for index in group.indices if defaults[index])
    state = f"default pipelines {', '.join(each)}: OpenSearch applies none of them, and no longer {change.before}"
    fixes = [f"resift detach {shlex.quote(rewriters[pipeline].index)}"]
    if len({before[index] for index in group.indices}) == 1:
        fixes.insert(0, f"resift attach {shlex.quote(group.name)} --default-pipelines")
    return StatusRow(group.kind, group.name, state, ", or ".join(fixes))
