"""Fixtures of tests on an engine: the embedded engine, a real OpenSearch, and the service over them."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Load the fixtures of this tier."""
    for name in ("opensearch_fixture", "engines", "ubi_events", "rewritten_node", "wrong_vectors"):
        config.pluginmanager.import_plugin(name)
