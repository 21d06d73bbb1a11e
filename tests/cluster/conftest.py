"""Tests of what changes a cluster, or needs nodes of its own: attaching, installing, rights, failing nodes."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Load the fixtures of this tier."""
    ours = ("browser", "engines", "opensearch_fixture", "rewritten_node", "secured_node", "ubi_events", "wrong_vectors")
    for name in ours:
        config.pluginmanager.import_plugin(name)
