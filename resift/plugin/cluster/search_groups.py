"""Groups of indices that are searched together: by an alias, a data stream, a pattern, or a list of names.

OpenSearch applies a default search pipeline to a search of several indices only if all indices that have a default
pipeline have the same one. Otherwise it applies none, and the scores of ``hybrid`` queries are no longer normalised. A
new default pipeline of one index can therefore change searches that also reach other indices.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from resift.errors import ResiftError
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_record import ALL_INDICES, ALL_STATES
from resift.plugin.cluster.search_pipelines import NO_PIPELINE, SEARCH_PIPELINE_SETTING
from resift.query.dsl import leaf_values

_BACKING_INDEX = re.compile(r"\.ds-(.+)-\d{6,}")
Defaults = Mapping[str, str | None]  # default search pipelines (None: none), by index


@dataclass(frozen=True)
class Template:
    """A template that determines the aliases and the default search pipeline of new indices.

    Attributes:
        kind: ``index template`` or ``legacy template``.
        name: The name of the template.
        patterns: The patterns that the names of new indices or data streams must match.
        aliases: The aliases of the new indices.
        default: The default search pipeline of the new indices, or None.
    """

    kind: str
    name: str
    patterns: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    default: str | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class SearchGroup:
    """Indices that are searched together.

    Attributes:
        kind: ``alias``, ``data stream``, ``pattern`` or ``attached name`` (a pattern or list for which ``resift
            attach`` was run).
        name: The name that searches use for the group, such as the name of the alias.
        indices: The names of the existing indices in the group.
        template: An index template whose new indices will belong to the group and have a default search pipeline. None
            if there is no such template.
    """

    kind: str
    name: str
    indices: tuple[str, ...]
    template: Template | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class SearchGroups:
    """All groups of indices in a cluster that are searched together, for example through an alias.

    Attributes:
        groups: The groups. An index can belong to several groups.
        templates: All templates that create indices.
        defaults: The current default search pipelines of all indices.
    """

    groups: Sequence[SearchGroup]
    templates: Sequence[Template]
    defaults: Defaults


@dataclass(frozen=True)
class LostDefault:
    """A group of indices whose searches get another default search pipeline than before, or none.

    Attributes:
        group: Indices that are searched together, for example through an alias.
        before: The name of the default pipeline before the change.
        after: The name of the default pipeline after the change, or None.
        is_later: Whether the default pipeline changes only when the group's template creates an index.
    """

    group: SearchGroup
    before: str
    after: str | None
    is_later: bool


def common_default(defaults: Iterable[str | None]) -> str | None:
    """Return the default search pipeline that OpenSearch applies to a search of several indices.

    Indices without a default pipeline do not count. If the default pipelines of the other indices differ, OpenSearch
    applies none.

    Args:
        defaults: The default pipelines of the indices.

    Returns:
        The name of the pipeline, or None.

    >>> common_default(["a", None, "a"]), common_default(["a", "b"])
    ('a', None)
    """
    distinct = {default for default in defaults if default is not None}
    return distinct.pop() if len(distinct) == 1 else None


def lost_defaults(
    groups: Iterable[SearchGroup], before: Defaults, after: Defaults, original: Callable[[str | None], str | None]
) -> Iterator[LostDefault]:
    """Yield the groups of indices whose searches lose their default search pipeline because of Resift's changes.

    This happens if only some indices of a group get a new default pipeline, because OpenSearch then applies no default
    pipeline to searches of the group. A copy that Resift created counts as the original pipeline. If a template will
    add new indices to a group, the group is checked once as it is, and once with such a new index.

    Args:
        groups: Groups of indices that are searched together, for example through an alias.
        before: The default pipelines that all indices would have without Resift, by index name.
        after: The default pipelines of all indices with Resift's changes, by index name.
        original: A function that is called with the name of a pipeline. If Resift created the pipeline as a copy of
            another pipeline, it returns the name of the other pipeline. Otherwise, it returns the name unchanged.
    """
    for group in groups:
        lost = _lost_default(group, before, after, original)
        if lost is None and group.template is not None and group.template.default:
            lost = _lost_default(group, before, after, original, group.template.default)
        if lost is not None:
            yield lost


def _lost_default(
    group: SearchGroup,
    before: Defaults,
    after: Defaults,
    original: Callable[[str | None], str | None],
    template_default: str | None = None,
) -> LostDefault | None:
    """Return the change of a group's default search pipeline, or None if its searches keep their default pipeline.

    Args:
        group: Indices that are searched together.
        before: The default pipelines that all indices would have without Resift.
        after: The default pipelines of all indices with Resift's changes.
        original: As for :func:`lost_defaults`.
        template_default: The default pipeline of a new index that the group's template creates. None to check the group
            without a new index.
    """
    default_before = common_default([*map(before.get, group.indices), original(template_default)])
    default_after = common_default([*map(after.get, group.indices), template_default])
    if default_before is None or original(default_after) == default_before:
        return None
    return LostDefault(group, default_before, default_after, is_later=template_default is not None)


def indices_to_change_together(groups: Iterable[SearchGroup], indices: Iterable[str], defaults: Defaults) -> set[str]:
    """Return all indices that must get a new default search pipeline together with some indices.

    OpenSearch applies a default pipeline to a search of several indices only if these indices have no other default
    pipeline. If only some indices of an alias got a new default pipeline, searches of the alias would lose their
    default pipeline.

    Args:
        groups: Groups of indices that are searched together, for example through an alias.
        indices: The names of the indices that get a new default pipeline.
        defaults: The current default pipelines of all indices, by index name.

    Returns:
        ``indices``, and all indices that are searched together with them and have the same default pipeline. The rule
        is applied repeatedly: indices that are searched together with the added indices are added, too.
    """
    groups, together = list(groups), {*indices}
    while True:
        added = set[str]()
        for group in groups:
            default = common_default(map(defaults.get, group.indices))
            if default is not None and not together.isdisjoint(group.indices):
                added |= {index for index in group.indices if defaults.get(index) == default}
        if added <= together:
            return together
        together |= added


def read_groups(cluster: Cluster, attached_names: Iterable[str] = ()) -> SearchGroups:
    """Find the groups of indices in a cluster that are searched together, for example through an alias.

    There is a group for each alias and each data stream. There is also a group for each pattern of a template that
    gives new indices a default search pipeline.

    Args:
        cluster: The connection to the cluster.
        attached_names: The names for which ``resift attach`` was run. The indices of each pattern and comma-separated
            list among these names are a group, too.
    """
    aliases = {
        index: tuple(entry.get("aliases", {}))
        for index, entry in cluster.request("GET", f"/{ALL_INDICES}/_alias", **ALL_STATES).items()
    }
    path = f"/{ALL_INDICES}/_settings/{SEARCH_PIPELINE_SETTING}"
    settings = cluster.request("GET", path, flat_settings="true", **ALL_STATES)
    defaults = {index: default_pipeline_of(settings.get(index, {}).get("settings", {})) for index in aliases}
    templates = list(read_templates(cluster))
    groups = [*_find_groups(aliases, templates), *_attached_groups(cluster, attached_names)]
    return SearchGroups(groups, templates, defaults)


def default_pipeline_of(settings: Mapping[str, str]) -> str | None:
    """Return the name of the default search pipeline in the settings of an index, or None if there is none.

    Args:
        settings: The settings of the index, under flat names such as ``index.search.default_pipeline``.
    """
    default = settings.get(SEARCH_PIPELINE_SETTING, NO_PIPELINE)
    return None if default == NO_PIPELINE else default


def data_stream_of(index: str) -> str | None:
    """Return the name of the data stream to which an index belongs (as a backing index), or None for other indices.

    >>> data_stream_of(".ds-logs-shop-000002"), data_stream_of("shop")
    ('logs-shop', None)
    """
    match = _BACKING_INDEX.fullmatch(index)
    return match[1] if match else None


def _find_groups(aliases: Mapping[str, Sequence[str]], templates: Sequence[Template]) -> Iterator[SearchGroup]:
    """Yield all groups of indices that are searched together.

    A group consists of the indices of an alias, of a data stream, or of a pattern in an index template.

    Args:
        aliases: The aliases of each index, by index name.
        templates: The templates that create indices.
    """
    members: dict[tuple[str, str], list[str]] = {}
    for index, names in sorted(aliases.items()):
        for name in names:
            members.setdefault(("alias", name), []).append(index)
        if stream := data_stream_of(index):
            members.setdefault(("data stream", stream), []).append(index)
    for (kind, name), indices in members.items():
        yield SearchGroup(kind, name, tuple(indices))
    for template in templates:
        if template.default is None:
            continue
        for alias in template.aliases:
            yield SearchGroup("alias", alias, tuple(members.get(("alias", alias), ())), template)
        for pattern in template.patterns:
            matching = [index for index in sorted(aliases) if fnmatchcase(data_stream_of(index) or index, pattern)]
            yield SearchGroup("pattern", pattern, tuple(matching), template)


def _attached_groups(cluster: Cluster, attached_names: Iterable[str]) -> Iterator[SearchGroup]:
    for name in attached_names:
        if "," in name or "*" in name:
            with suppress(ResiftError):  # the indices were deleted, or this user may not see them
                yield SearchGroup("attached name", name, tuple(cluster.engine.resolve(name)))


def read_templates(cluster: Cluster) -> Iterator[Template]:
    """Yield all templates that create indices.

    The settings and aliases in the component templates of a template are taken into account.

    Args:
        cluster: The connection to the cluster.
    """
    components = {
        entry["name"]: entry["component_template"].get("template", {})
        for entry in (cluster.get_or_none("/_component_template") or {}).get("component_templates", [])
    }
    for entry in (cluster.get_or_none("/_index_template") or {}).get("index_templates", []):
        template = entry["index_template"]
        parts = [components.get(name, {}) for name in template.get("composed_of", ())]
        yield _parse_template("index template", entry["name"], template, [*parts, template.get("template", {})])
    for name, template in (cluster.get_or_none("/_template") or {}).items():
        yield _parse_template("legacy template", name, template, [template])


def _parse_template(kind: str, name: str, body: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> Template:
    """Convert the body of a template to a Template, with its patterns, its aliases and its default search pipeline.

    Args:
        kind: The kind of the template: ``index template`` or ``legacy template``.
        name: The name of the template.
        body: The body of the template.
        parts: The objects in the template, and in its component templates, that contain settings and aliases. Later
            parts override earlier parts.
    """
    aliases = dict.fromkeys(alias for part in parts for alias in part.get("aliases") or {})
    defaults = [
        value
        for part in parts
        for path, value in leaf_values(part.get("settings") or {})
        if f".{path}".endswith(f".{SEARCH_PIPELINE_SETTING}")
    ]
    default = default_pipeline_of({SEARCH_PIPELINE_SETTING: defaults[-1]}) if defaults else None
    return Template(kind, name, tuple(body.get("index_patterns", ())), tuple(aliases), default)
