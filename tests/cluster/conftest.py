"""Tests that change a cluster or need nodes of their own: attaching, installing, access rights, failing nodes."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from listening import listening
from opensearchpy import OpenSearch

from resift import Model
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.reranker import Config, create_app


def pytest_configure(config: pytest.Config) -> None:
    """Load the fixtures of these tests."""
    ours = (
        "browser",
        "engines",
        "opensearch_fixture",
        "native_node",
        "rewritten_node",
        "secured_node",
        "ubi_events",
        "wrong_vectors",
    )
    for name in ours:
        config.pluginmanager.import_plugin(name)


@pytest.fixture
def client(opensearch_url: str) -> Iterator[OpenSearch]:
    """Yield a client of the cluster. Afterwards, delete the indices that the test created."""
    with closing(OpenSearch(opensearch_url, timeout=60)) as client:
        before = set(client.indices.get(index="*,-.*"))
        yield client
        if made := set(client.indices.get(index="*,-.*")) - before:
            client.indices.delete(index=",".join(made))


@pytest.fixture
def service(here: Path, opensearch_url: str, packaged: Model, request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the URL of a service with the packaged model, which stores sessions in ``sessions.db`` in this folder."""
    from opensearch_fixture import service_host  # a plugin, which must not be imported before it is loaded

    config = Config(engine=opensearch_url, store=str(here / "sessions.db"))
    with closing(OpenSearchEngine(opensearch_url)) as engine:
        app = create_app(config, engine=engine, model=packaged)
        with listening(app, service_host(request.config)) as url:
            yield url
