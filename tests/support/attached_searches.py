"""A service that is installed in a cluster, and the commands and checks of tests that attach an index to it.

Attaching lets Resift rewrite an index's searches: a processor is added to the search pipeline of the index.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from attached_index import Index
from click.testing import CliRunner, Result
from flask import Flask
from listening import listening
from opensearch_fixture import service_host
from service_app import post

from resift import Model
from resift.cli.main import main
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.reranker import Config, create_app

NORMALIZATION: dict[str, Any] = {
    "normalization-processor": {
        "normalization": {"technique": "min_max"},
        "combination": {"technique": "arithmetic_mean", "parameters": {"weights": [0.6, 0.4]}},
    }
}
RRF: dict[str, Any] = {"score-ranker-processor": {"combination": {"technique": "rrf"}}}
ENRICHER: dict[str, Any] = {"neural_query_enricher": {"default_model_id": "a-model"}}
FILTER: dict[str, Any] = {"filter_query": {"query": {"exists": {"field": "n"}}}}
SCRIPT: dict[str, Any] = {"script": {"lang": "painless", "source": "ctx._source['size'] = 7"}}
WORDS = {"match": {"text": "river"}}
MIXED: dict[str, Any] = {"phase_results_processors": [NORMALIZATION]}


@dataclass
class Served:
    """A service that is installed in the cluster."""

    app: Flask
    installer: Installer
    away: bool = False


@pytest.fixture(scope="module")
def served(
    cluster: OpenSearchEngine, packaged: Model, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Served]:
    """Yield a service whose model has encoded no documents of the cluster."""
    app = create_app(
        Config(store=str(tmp_path_factory.mktemp("served") / "sessions.db")), engine=cluster, model=packaged
    )
    with listening(app, service_host(request.config)) as url:
        served = Served(app, Installer(cluster, Installation(f"aa-{uuid.uuid4().hex[:8]}", packaged, ("text",), url)))
        served.installer.install()
        yield served
        served.installer.uninstall()


@pytest.fixture
def made(cluster: OpenSearchEngine) -> Iterator[list[str]]:
    """Yield a list for the paths of resources that a test creates. They are deleted at the end."""
    paths: list[str] = []
    yield paths
    for path in reversed(paths):
        if Cluster(cluster).get_or_none(path) is not None:
            Cluster(cluster).request("DELETE", path)


def resift_command(command: str, index: str, url: str, *flags: str, status: int = 0) -> Result:
    """Run a command on an index, with --yes."""
    result = CliRunner().invoke(main, [command, index, "--engine", url, "--yes", *flags])
    assert result.exit_code == status, result.output
    return result


def pipeline(index: Index, name: str) -> Any:
    """Return the body of a search pipeline, or None if it does not exist."""
    return index.cluster.get_or_none(f"/_search/pipeline/{name}", name)


def put_pipeline(index: Index, made: list[str], name: str, body: dict[str, Any]) -> str:
    """Create a search pipeline of the user, and return its name.

    The pipeline is deleted at the end of the test, since its path is added to ``made`` (see the fixture).
    """
    index.cluster.request("PUT", f"/_search/pipeline/{name}", body)
    made.append(f"/_search/pipeline/{name}")
    return name


def set_default(index: Index, name: str | None, of: str = "") -> None:
    """Set the default search pipeline of an index, or of ``of`` if it is given."""
    index.cluster.request("PUT", f"/{of or index.name}/_settings", {"index.search.default_pipeline": name})


def contents(index: Index) -> str:
    """Return mapping, settings and aliases of an index, and its documents with sequence numbers and versions."""
    index.cluster.request("POST", f"/{index.name}/_refresh")
    body = {"size": 10_000, "version": True, "seq_no_primary_term": True, "sort": ["_doc"], "search_pipeline": "_none"}
    hits = index.cluster.request("POST", f"/{index.name}/_search", body)["hits"]["hits"]
    return json.dumps([index.cluster.request("GET", f"/{index.name}"), hits])


def kinds(body: dict[str, Any], of: str = "request_processors") -> list[str]:
    """Return the types of the processors of a pipeline.

    Args:
        body: The pipeline.
        of: The list of processors, such as ``request_processors``.
    """
    return [next(iter(processor)) for processor in body.get(of, ())]


def asked(index: Index, name: str) -> dict[str, Any]:
    """Return the parameters that Resift's processor in a pipeline sends to the service."""
    (inference,) = (
        processor["ml_inference"]
        for processor in pipeline(index, name)["request_processors"]
        if "ml_inference" in processor
    )
    assert inference["ignore_failure"] is True
    return dict(inference["model_config"])


def is_rewritten(index: Index, served: Served, name: str | None, of: str = "") -> bool:
    """Return whether Resift rewrites a search in a session.

    Args:
        index: The index.
        served: The service.
        name: The search pipeline that the search names, or None for the default pipeline.
        of: The index or alias that is searched instead of ``index``.
    """
    scope = of or index.name
    post(served.app.test_client(), "/v1/feedback", index=scope, session="anna", query="river", relevant=["1"])
    body = {"query": WORDS, "ext": {"ml_inference": {"session": "anna"}}}
    params = {} if name is None else {"search_pipeline": name}
    hits = index.cluster.request("POST", f"/{scope}/_search", body, **params)["hits"]["hits"]
    assert hits
    return all("resift" in hit.get("matched_queries", ()) for hit in hits)
