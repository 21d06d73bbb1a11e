"""Tests that change a cluster or need nodes of their own: attaching, installing, access rights, failing nodes."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from opensearchpy import OpenSearch


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
