"""Searches without a session give the same answers before and after ``resift attach --default-pipelines``.

They go through the cluster's own pipelines: by a default pipeline, by an alias over two indices, and by a data stream.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from answers import Answer, exact_differences
from flask import Flask, request
from known_differences import KnownDifferences
from listening import listening
from opensearch_fixture import service_host
from test_clauses import CASES, COUNT, MAPPING, Case, document
from three_ways import ATTACHED, OpenSearchClient

import resift
from resift import Model
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.opensearch.engine import OpenSearchEngine

Body = dict[str, Any]

pytestmark = pytest.mark.filterwarnings("ignore::opensearchpy.exceptions.OpenSearchWarning")

DEFAULT = "index.search.default_pipeline"
ROUTES = ("default pipeline", "alias", "data stream")
NORMALISATION: Body = {"phase_results_processors": [{"normalization-processor": {}}]}


@dataclass(frozen=True)
class Team:
    """Indices with default pipelines: one index, an alias over two indices, and a data stream with two indices.

    Attributes:
        client: Sends requests to the cluster.
        name: The prefix of all names.
    """

    client: OpenSearchClient
    name: str

    def target(self, route: str) -> str:
        """Return the searched name of a route."""
        return f"{self.name}-{route.replace(' ', '-')}"

    def request(self, method: str, path: str, body: Any = None, **params: Any) -> Answer:
        """Send a request that must succeed."""
        answer = self.client.request(method, path, body, **params)
        assert answer.is_success, answer.body
        return answer

    def create(self) -> None:
        """Create and fill the indices."""
        pipelines = {route: f"{self.target(route)}-hybrid" for route in ROUTES}
        for pipeline in pipelines.values():
            self.request("PUT", f"_search/pipeline/{pipeline}", NORMALISATION)
        settings = {"index.knn": True, "number_of_shards": 1, "number_of_replicas": 0}
        mappings = {"properties": MAPPING}
        for route, names, aliases in (
            ("default pipeline", [self.target("default pipeline")], {}),
            ("alias", [f"{self.name}-one", f"{self.name}-two"], {self.target("alias"): {}}),
        ):
            body = {"settings": {**settings, DEFAULT: pipelines[route]}, "mappings": mappings, "aliases": aliases}
            for at, index in enumerate(names):
                self.request("PUT", index, body)
                self._fill(index, range(at, COUNT, len(names)))
        stream = self.target("data stream")
        template = {"settings": {**settings, DEFAULT: pipelines["data stream"]}, "mappings": mappings}
        parts = {"index_patterns": [stream], "data_stream": {}, "priority": 900, "template": template}
        self.request("PUT", f"_index_template/{stream}", parts)
        self.request("PUT", f"_data_stream/{stream}")
        for at in range(2):
            self._fill(stream, range(at, COUNT, 2))
            if at == 0:
                self.request("POST", f"{stream}/_rollover")

    def _fill(self, index: str, numbers: Sequence[int]) -> None:
        random = np.random.default_rng(5)
        documents = [{"@timestamp": "2025-01-01", **document(at, random)} for at in range(COUNT)]
        lines = [line for at in numbers for line in ({"create": {"_id": str(at)}}, documents[at])]
        assert not self.request("POST", f"{index}/_bulk", lines, refresh=True).body["errors"]

    def search(self, route: str, case: Case) -> Answer:
        """Return the answer to a search by a route."""
        body = {**case.body}
        if "indices_boost" in body:
            body["indices_boost"] = [{self.target(route): 2}]
        return self.client.request("POST", f"{self.target(route)}/_search", body, **dict(case.params))

    def delete(self) -> None:
        """Delete everything."""
        self.request("DELETE", f"_data_stream/{self.target('data stream')}")
        self.request("DELETE", f"_index_template/{self.target('data stream')}")
        self.request("DELETE", f"{self.name}-*")
        self.request("DELETE", f"_search/pipeline/{self.name}-*")


@pytest.fixture(scope="module")
def cases(opensearch_version: str) -> dict[str, Case]:
    """The cases that search the index alone, of the version of the cluster."""
    major, minor, *_ = map(int, opensearch_version.split(".")[:2])
    return {name: case for name, case in CASES.items() if case.index == "INDEX" and case.since <= (major, minor)}


@pytest.fixture(scope="module")
def team(opensearch_client: OpenSearchClient) -> Iterator[Team]:
    """The filled indices."""
    team = Team(opensearch_client, f"team-{uuid.uuid4().hex[:12]}")
    team.create()
    yield team
    team.delete()


@pytest.fixture(scope="module")
def rewritten(app: Flask) -> list[str]:
    """The requests that the service was sent: one for each search that goes through an attached pipeline."""
    paths: list[str] = []

    @app.before_request
    def keep() -> None:
        paths.append(request.path)

    return paths


@pytest.fixture(scope="module")
def installed(
    app: Flask, cluster: OpenSearchEngine, packaged: Model, rewritten: list[str], pytestconfig: pytest.Config
) -> Iterator[None]:
    """An installation in the cluster, with the service."""
    with listening(app, service_host(pytestconfig)) as url:
        installer = Installer(cluster, Installation(f"aa-{uuid.uuid4().hex[:8]}", packaged, ("text",), url))
        installer.install()
        yield
        installer.uninstall()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("route", ROUTES)
def test_attaching_changes_no_search_without_a_session(
    route: str,
    team: Team,
    cases: dict[str, Case],
    rewritten: list[str],
    opensearch_url: str,
    known_differences: KnownDifferences,
) -> None:
    plain = {name: team.search(route, case) for name, case in cases.items()}
    # random scores differ each time
    stable = [name for name, case in cases.items() if not exact_differences(plain[name], team.search(route, case))]
    assert len(stable) > len(cases) / 2
    resift.attach(opensearch_url, team.target(route), default_pipelines=True).run()
    rewritten.clear()
    try:
        differences = [
            (f"attached by {route}: {name}", ATTACHED, difference)
            for name in stable
            for difference in exact_differences(plain[name], team.search(route, cases[name]))
        ]
        succeeded = [name for name in stable if plain[name].is_success]
        assert rewritten.count("/v1/rewrite") >= len(succeeded)
    finally:
        resift.detach(opensearch_url, team.target(route)).run()
    known_differences.check([f"attached by {route}: {name}" for name in stable], differences)
