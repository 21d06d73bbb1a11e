"""Tests of attaching indices that are searched together with others: by aliases, data streams, templates and patterns.

Plain hybrid searches show whether OpenSearch still applies the normalisation of the default pipeline. Without it, their
scores are −9.5e9.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from attached_index import shop
from attached_searches import MIXED, Served, kinds, made, resift_command, served
from service_app import post

from resift.plugin.cluster.client import Cluster
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.search_status import search_rows
from resift.plugin.operations.status_row import StatusRow

__all__ = ["made", "served", "shop"]

DEFAULT = "index.search.default_pipeline"
TEXTS = ["fire in the forest", "the river and the fire", "rain on the river", "smoke over the forest", "a quiet valley"]
HYBRID: dict[str, Any] = {"hybrid": {"queries": [{"match": {"text": "fire"}}, {"match": {"text": "river forest"}}]}}


@dataclass
class Zoo:
    """Indices, aliases and templates of a team, all with names that begin with ``prefix``."""

    cluster: Cluster
    prefix: str
    made: list[str] = field(default_factory=list)

    @property
    def hybrid(self) -> str:
        """The team's search pipeline for hybrid searches."""
        return f"{self.prefix}-hybrid"

    def put(self, path: str, body: dict[str, Any] | None = None) -> None:
        """Create a resource, which is deleted at the end."""
        self.cluster.request("PUT", path, body)
        self.made.append(path)

    def index(self, name: str, default: str | None = None, aliases: tuple[str, ...] = ()) -> str:
        """Create an index with documents, and return its name."""
        index = f"{self.prefix}-{name}"
        settings = {"number_of_shards": 1, "number_of_replicas": 0, **({DEFAULT: default} if default else {})}
        self.put(f"/{index}", {"settings": settings, "aliases": {f"{self.prefix}-{alias}": {} for alias in aliases}})
        self.fill(index)
        return index

    def fill(self, index: str) -> None:
        """Write the documents to an index or a data stream."""
        for text in TEXTS:
            document = {"@timestamp": "2030-01-01T00:00:00Z", "text": text}
            self.cluster.request("POST", f"/{index}/_doc", document, refresh="true", op_type="create")

    def template(self, name: str, pattern: str, default: str | None, **parts: Any) -> str:
        """Create an index template, and return its name."""
        settings = {"number_of_replicas": 0, **({DEFAULT: default} if default else {})}
        body = {"index_patterns": [f"{self.prefix}-{pattern}"], "priority": 900, "template": {"settings": settings}}
        self.put(f"/_index_template/{self.prefix}-{name}", {**body, **parts})
        return f"{self.prefix}-{name}"

    def stream(self, template: dict[str, Any]) -> str:
        """Create a data stream, and return its name."""
        name = f"{self.prefix}-stream"
        self.put(f"/_data_stream/{name}", template or None)
        self.fill(name)
        return name

    def defaults(self) -> dict[str, str]:
        """Return the default pipelines of all indices, including backing indices."""
        settings = self.cluster.request("GET", f"/{self.prefix}*/_settings", flat_settings="true")
        return {index: entry["settings"].get(DEFAULT, "") for index, entry in sorted(settings.items())}

    def scores(self, name: str) -> list[float]:
        """Return the scores of a plain hybrid search, the best first."""
        hits = self.cluster.request("POST", f"/{name}/_search", {"query": HYBRID})["hits"]["hits"]
        assert hits
        return [hit["_score"] for hit in hits]

    def is_normalised(self, name: str) -> bool:
        """Return whether a plain hybrid search is normalised."""
        return all(0 < score <= 1 for score in self.scores(name))

    def is_rewritten(self, served: Served, name: str, attached: str = "", pipeline: str = "") -> bool:
        """Return whether a search in a session is rewritten.

        Args:
            served: The service.
            name: The searched name.
            attached: The attached name, to which the session belongs.
            pipeline: The pipeline that the search names, if any.
        """
        scope = attached or name
        query = {"match": {"text": "river"}}
        (hit, *_) = self.cluster.request("POST", f"/{scope}/_search", {"query": query})["hits"]["hits"]
        marks = {"session": "anna", "query": "river", "relevant": [hit["_id"]]}
        post(served.app.test_client(), "/v1/feedback", index=scope, **marks)
        body = {"query": query, "ext": {"ml_inference": {"session": "anna"}}}
        params = {"search_pipeline": pipeline} if pipeline else {}
        hits = self.cluster.request("POST", f"/{name}/_search", body, **params)["hits"]["hits"]
        return bool(hits) and all("resift" in hit.get("matched_queries", ()) for hit in hits)

    def rows(self) -> list[StatusRow]:
        """Return the rows of ``resift doctor`` about the team's searches of several indices."""
        return [row for row in search_rows(self.cluster) if row.name.startswith(self.prefix)]


@pytest.fixture
def zoo(cluster: OpenSearchEngine) -> Iterator[Zoo]:
    """Yield a team with a pipeline for hybrid searches."""
    zoo = Zoo(Cluster(cluster), f"team-{uuid.uuid4().hex[:8]}")
    zoo.put(f"/_search/pipeline/{zoo.hybrid}", MIXED)
    yield zoo
    for path in reversed(zoo.made):
        zoo.cluster.request("DELETE", path)


def test_one_index_of_an_alias_is_not_attached_alone(zoo: Zoo, served: Served, opensearch_url: str) -> None:
    lion, bird = (zoo.index(name, zoo.hybrid, ("animals",)) for name in ("lion", "bird"))
    alias, before = f"{zoo.prefix}-animals", zoo.defaults()
    plain = {name: zoo.scores(name) for name in (alias, lion, bird)}
    told = resift_command("attach", lion, opensearch_url, "--default-pipelines", status=2).output
    assert f"alias {alias} also reaches {bird}" in told
    assert f"OpenSearch would no longer apply {zoo.hybrid} to searches of {alias}" in told
    assert f"resift attach {alias} --default-pipelines, for all in one step" in told
    assert f"no --default-pipelines (clients then send search_pipeline=resift-{lion})" in told
    assert zoo.defaults() == before
    # without a default pipeline, nothing changes for searches that do not name the pipeline
    resift_command("attach", lion, opensearch_url)
    assert {name: zoo.scores(name) for name in plain} == plain
    assert zoo.is_rewritten(served, lion, pipeline=f"resift-{lion}")
    resift_command("detach", lion, opensearch_url)
    # the command of the advice attaches both in one step
    resift_command("attach", alias, opensearch_url, "--default-pipelines")
    assert {name: zoo.scores(name) for name in plain} == plain
    assert zoo.is_rewritten(served, alias)
    assert zoo.rows() == []
    resift_command("detach", alias, opensearch_url)
    assert zoo.defaults() == before
    assert {name: zoo.scores(name) for name in plain} == plain


def test_indices_that_several_aliases_connect_are_attached_in_one_step(
    zoo: Zoo, served: Served, opensearch_url: str
) -> None:
    lion, bird = zoo.index("lion", zoo.hybrid, ("animals",)), zoo.index("bird", zoo.hybrid, ("animals", "birds"))
    hawk, other = zoo.index("hawk", zoo.hybrid, ("birds",)), zoo.index("other", zoo.hybrid)
    before, names = zoo.defaults(), ",".join(sorted((lion, bird, hawk)))
    told = resift_command("attach", lion, opensearch_url, "--default-pipelines", status=2).output
    assert f"resift attach {names} --default-pipelines, for all in one step" in told
    resift_command("attach", names, opensearch_url, "--default-pipelines")
    assert zoo.defaults()[other] == zoo.hybrid
    assert len({*zoo.defaults().values()}) == 2
    assert all(zoo.is_normalised(f"{zoo.prefix}-{name}") for name in ("animals", "birds", "lion", "other"))
    assert zoo.is_rewritten(served, f"{zoo.prefix}-birds", names)
    resift_command("detach", names, opensearch_url)
    assert zoo.defaults() == before


def test_an_alias_whose_index_is_attached_by_its_own_name_follows_sessions(
    zoo: Zoo, served: Served, opensearch_url: str
) -> None:
    lion, alias = zoo.index("lion", None, ("animals",)), f"{zoo.prefix}-animals"
    before = zoo.defaults()
    resift_command("attach", alias, opensearch_url, "--default-pipelines")
    resift_command("attach", lion, opensearch_url, "--default-pipelines")
    assert zoo.defaults() == {lion: f"resift-{lion}"}
    assert zoo.is_rewritten(served, alias, lion)
    assert zoo.rows() == []
    resift_command("detach", lion, opensearch_url)
    (row,) = zoo.rows()
    assert (row.kind, row.name) == ("alias", alias)
    resift_command("detach", alias, opensearch_url)
    assert (zoo.defaults(), zoo.rows()) == (before, [])


def test_an_alias_that_changes_afterwards_is_reported(zoo: Zoo, served: Served, opensearch_url: str) -> None:
    lion, bird = zoo.index("lion", zoo.hybrid), zoo.index("bird", zoo.hybrid)
    alias, before = f"{zoo.prefix}-animals", zoo.defaults()
    resift_command("attach", lion, opensearch_url, "--default-pipelines")
    assert zoo.rows() == []
    for index in (lion, bird):
        zoo.cluster.request("PUT", f"/{index}/_alias/{alias}")
    assert not zoo.is_normalised(alias)
    (row,) = zoo.rows()
    assert (row.kind, row.name) == ("alias", alias)
    assert f"OpenSearch applies none of them, and no longer {zoo.hybrid}" in row.state
    assert row.fix == f"resift attach {alias} --default-pipelines, or resift detach {lion}"
    resift_command("attach", alias, opensearch_url, "--default-pipelines")
    assert zoo.rows() == []
    assert zoo.is_normalised(alias)
    assert zoo.is_rewritten(served, alias)
    told = resift_command("detach", lion, opensearch_url).output
    assert f"still attached through {alias}: resift detach {alias}" in told
    assert zoo.is_normalised(alias)
    told = resift_command("detach", lion, opensearch_url, status=2).output
    assert f"resift detach {alias}, to which the index belongs" in told
    resift_command("detach", alias, opensearch_url)
    assert zoo.defaults() == before


def test_an_index_without_a_default_pipeline_does_not_take_that_of_its_alias(
    zoo: Zoo, served: Served, opensearch_url: str
) -> None:
    lion, bird = zoo.index("lion", None, ("animals",)), zoo.index("bird", zoo.hybrid, ("animals",))
    alias = f"{zoo.prefix}-animals"
    assert zoo.is_normalised(alias)
    told = resift_command("attach", lion, opensearch_url, "--default-pipelines", status=2).output
    assert f"alias {alias} also reaches {bird}" in told
    assert "in one step" not in told  # the two indices have different default pipelines
    resift_command("attach", bird, opensearch_url, "--default-pipelines")
    assert zoo.is_normalised(alias)
    resift_command("detach", bird, opensearch_url)
    # neither index has a default pipeline: the alias uses that of the attached index, and the plan says so
    zoo.cluster.request("PUT", f"/{bird}/_settings", {DEFAULT: None})
    told = resift_command("attach", lion, opensearch_url, "--default-pipelines").output
    assert f"  also        searches of alias {alias} ({bird}, {lion}) use resift-{lion}\n" in told
    assert zoo.is_rewritten(served, alias, lion)
    resift_command("detach", lion, opensearch_url)


def test_a_data_stream_keeps_its_pipeline_at_the_next_rollover(zoo: Zoo, served: Served, opensearch_url: str) -> None:
    template = zoo.template("logs", "s*", zoo.hybrid, data_stream={})
    stream = zoo.stream({})
    told = resift_command("attach", stream, opensearch_url, "--default-pipelines", status=2).output
    assert f"index template {template} gives new indices the default pipeline {zoo.hybrid}" in told
    assert f"resift attach '{zoo.prefix}-s*' --default-pipelines, for all in one step" in told
    assert f"set {DEFAULT} of index template {template} to resift-{stream}" in told
    pattern, before = f"{zoo.prefix}-s*", zoo.defaults()
    told = resift_command("attach", pattern, opensearch_url, "--default-pipelines").output
    assert f"undo: resift detach '{pattern}'\n" in told
    zoo.cluster.request("POST", f"/{stream}/_rollover")
    zoo.fill(stream)
    assert {*zoo.defaults().values()} == {zoo.hybrid}
    assert zoo.is_normalised(stream)
    assert zoo.is_rewritten(served, stream, pattern)
    assert zoo.rows() == []
    resift_command("detach", pattern, opensearch_url)
    assert {*zoo.defaults().values()} == {*before.values()}
    assert kinds(zoo.cluster.get_or_none(f"/_search/pipeline/{zoo.hybrid}", zoo.hybrid)) == []


def test_a_data_stream_is_attached_after_its_template(zoo: Zoo, served: Served, opensearch_url: str) -> None:
    component = f"{zoo.prefix}-part"
    zoo.put(f"/_component_template/{component}", {"template": {"settings": {DEFAULT: zoo.hybrid}}})
    template = zoo.template("logs", "s*", None, data_stream={}, composed_of=[component])
    stream = zoo.stream({})
    assert {*zoo.defaults().values()} == {zoo.hybrid}
    told = resift_command("attach", stream, opensearch_url, "--default-pipelines", status=2).output
    assert f"index template {template} gives new indices the default pipeline {zoo.hybrid}" in told
    resift_command("attach", stream, opensearch_url)
    own = f"resift-{stream}"
    zoo.template("logs", "s*", own, data_stream={}, composed_of=[component])
    zoo.made.pop()
    resift_command("attach", stream, opensearch_url, "--default-pipelines")
    zoo.cluster.request("POST", f"/{stream}/_rollover")
    zoo.fill(stream)
    assert {*zoo.defaults().values()} == {own}
    assert zoo.is_normalised(stream)
    assert zoo.is_rewritten(served, stream)
    assert zoo.rows() == []
    # if the template names the earlier pipeline again, doctor reports what the next rollover would do
    zoo.template("logs", "s*", None, data_stream={}, composed_of=[component])
    zoo.made.pop()
    (row,) = zoo.rows()
    assert (row.kind, row.name) == ("pattern", f"{zoo.prefix}-s*")
    assert row.fix == f"set {DEFAULT} of index template {template} to {own}"
    zoo.cluster.request("POST", f"/{stream}/_rollover")
    zoo.fill(stream)
    assert not zoo.is_normalised(stream)
    rows = zoo.rows()
    assert ("data stream", stream) in [(row.kind, row.name) for row in rows]
    # detaching gives all backing indices the pipeline of the template
    resift_command("detach", stream, opensearch_url)
    assert {*zoo.defaults().values()} == {zoo.hybrid}
    assert zoo.is_normalised(stream)


def test_a_template_that_adds_indices_to_an_alias_belongs_to_it(zoo: Zoo, served: Served, opensearch_url: str) -> None:
    alias = f"{zoo.prefix}-animals"
    zoo.template("animals", "v*", None)
    parts = {"template": {"settings": {DEFAULT: zoo.hybrid}, "aliases": {alias: {}}}}
    zoo.template("animals", "v*", None, **parts)
    zoo.made.pop()
    first = zoo.index("v1")
    told = resift_command("attach", first, opensearch_url, "--default-pipelines", status=2).output
    assert f"resift attach {alias} --default-pipelines, for all in one step" in told
    resift_command("attach", alias, opensearch_url, "--default-pipelines")
    zoo.index("v2")
    assert {*zoo.defaults().values()} == {zoo.hybrid}
    assert zoo.is_normalised(alias)
    assert zoo.is_rewritten(served, alias)
    resift_command("detach", alias, opensearch_url)


def test_a_pattern_over_different_default_pipelines(zoo: Zoo, served: Served, opensearch_url: str) -> None:
    other = f"{zoo.prefix}-other"
    zoo.put(f"/_search/pipeline/{other}", {"phase_results_processors": [{"normalization-processor": {}}]})
    lion, bird = zoo.index("lion", zoo.hybrid), zoo.index("bird", other)
    pattern, before = f"{zoo.prefix}-*", zoo.defaults()
    plain = {name: zoo.scores(name) for name in (lion, bird)}
    assert not zoo.is_normalised(pattern)  # OpenSearch applies neither of them
    told = resift_command("attach", pattern, opensearch_url, "--default-pipelines", status=2).output
    assert "have different default search pipelines" in told
    resift_command("attach", pattern, opensearch_url)
    assert zoo.is_rewritten(served, pattern, pipeline=f"resift-{zoo.prefix}-_")
    assert {name: zoo.scores(name) for name in plain} == plain
    assert zoo.defaults() == before
    told = resift_command("attach", lion, opensearch_url).output
    told = resift_command("detach", lion, opensearch_url).output
    assert f"still attached through {pattern}: resift detach '{pattern}'" in told
    resift_command("detach", pattern, opensearch_url)
    assert zoo.defaults() == before
