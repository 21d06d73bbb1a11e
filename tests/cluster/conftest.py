"""Tests of what changes a cluster, or needs nodes of its own: attaching, installing, rights, failing nodes."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Load the fixtures of this tier."""
    for name in ("opensearch_fixture", "engines", "ubi_events", "rewritten_node", "secured_node", "wrong_vectors"):
        config.pluginmanager.import_plugin(name)
