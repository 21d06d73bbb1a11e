"""Tests of the searches of several indices that a new default search pipeline changes, without a cluster."""

from __future__ import annotations

import pytest

from resift.plugin.cluster.search_groups import (
    SearchGroup,
    SearchGroups,
    Template,
    common_default,
    indices_to_change_together,
    lost_defaults,
)
from resift.plugin.cluster.search_pipelines import PipelineBody
from resift.plugin.operations.shared_defaults import SharedDefaults

PIPELINES: dict[str, PipelineBody] = {"hybrid": {}, "other": {}}
ALIAS = SearchGroup("alias", "animals", ("bird", "zoo"))
STREAM = Template("index template", "logs", ("logs-*",), (), "hybrid")


def shared_defaults(
    group: SearchGroup, defaults: dict[str, str | None], indices: list[str], pipeline: str, base: str | None
) -> SharedDefaults:
    """Return what a new default pipeline of some indices changes for one group."""
    return SharedDefaults(SearchGroups([group], [], defaults), PIPELINES, indices, pipeline, base)


def test_opensearch_applies_a_default_pipeline_that_all_indices_with_one_have() -> None:
    assert common_default([None, None]) is None
    assert common_default([None, "hybrid"]) == "hybrid"
    assert common_default(["hybrid", "other"]) is None


@pytest.mark.parametrize(
    ("zoo", "bird", "base", "is_lost"),
    [
        ("hybrid", "hybrid", "hybrid", True),  # then resift-zoo and hybrid
        (None, "hybrid", None, True),  # an index without a default pipeline did not count before
        ("hybrid", None, "hybrid", False),  # the copy takes the place of hybrid
        (None, None, None, False),
        ("hybrid", "other", "hybrid", False),  # OpenSearch applied none before
    ],
)
def test_an_alias_loses_the_pipeline_that_its_indices_had_in_common(
    zoo: str | None, bird: str | None, base: str | None, is_lost: bool
) -> None:
    change = shared_defaults(ALIAS, {"zoo": zoo, "bird": bird}, ["zoo"], "resift-zoo", base)
    assert bool(change.lost) == is_lost
    both = shared_defaults(ALIAS, {"zoo": zoo, "bird": bird}, ["zoo", "bird"], "resift-animals", base)
    assert not both.lost


def test_the_error_names_the_alias_that_can_be_attached_instead() -> None:
    change = shared_defaults(ALIAS, {"zoo": "hybrid", "bird": "hybrid"}, ["zoo"], "resift-zoo", "hybrid")
    assert change.names_to_attach == ["animals", "bird,zoo"]
    error = change.lost_default_error("zoo", "resift-zoo", ["animals"])
    assert error.message == (
        "alias animals also reaches bird: with resift-zoo as the default of zoo, OpenSearch would no longer apply "
        "hybrid to searches of animals"
    )
    assert error.expected == (
        "resift attach animals --default-pipelines, for all in one step; or "
        "no --default-pipelines (clients then send search_pipeline=resift-zoo)"
    )


def test_searches_of_an_alias_that_the_pipeline_also_rewrites_are_named() -> None:
    change = shared_defaults(ALIAS, {"zoo": None, "bird": None}, ["zoo"], "resift-zoo", None)
    assert change.lines() == ["  also        searches of alias animals (bird, zoo) use resift-zoo"]


def test_a_template_adds_indices_with_another_pipeline_at_the_next_rollover() -> None:
    group = SearchGroup("pattern", "logs-*", (".ds-logs-a-000001",), STREAM)
    change = shared_defaults(group, {".ds-logs-a-000001": "hybrid"}, [".ds-logs-a-000001"], "resift-logs-a", "hybrid")
    (lost,) = change.lost
    assert (lost.is_later, lost.before, lost.after) == (True, "hybrid", None)
    error = change.lost_default_error("logs-a", "resift-logs-a", [])
    assert "index template logs gives new indices the default pipeline hybrid" in error.message
    assert "set index.search.default_pipeline of index template logs to resift-logs-a" in str(error.expected)
    # without a default pipeline of the template, OpenSearch continues to apply that of the existing indices
    assert not list(
        lost_defaults(
            [SearchGroup("data stream", "logs-a", (".ds-logs-a-000001", ".ds-logs-a-000002"))],
            {".ds-logs-a-000001": "hybrid"},
            {".ds-logs-a-000001": "resift-logs-a"},
            lambda name: "hybrid" if name == "resift-logs-a" else name,
        )
    )


def test_indices_are_searched_together_by_way_of_other_indices() -> None:
    groups = [ALIAS, SearchGroup("alias", "birds", ("bird", "hawk", "owl"))]
    defaults = {"zoo": "hybrid", "bird": "hybrid", "hawk": "hybrid", "owl": None, "other": "hybrid"}
    assert indices_to_change_together(groups, ["zoo"], defaults) == {"zoo", "bird", "hawk"}


def test_the_names_to_attach_instead_include_indices_behind_other_aliases() -> None:
    groups = [ALIAS, SearchGroup("alias", "birds", ("bird", "hawk"))]
    defaults: dict[str, str | None] = dict.fromkeys(("zoo", "bird", "hawk"), "hybrid")
    change = SharedDefaults(SearchGroups(groups, [], defaults), PIPELINES, ["zoo"], "resift-zoo", "hybrid")
    assert change.names_to_attach == ["animals", "bird,hawk,zoo"]
