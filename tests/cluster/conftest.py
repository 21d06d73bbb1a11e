"""Tests that change a cluster or need nodes of their own: attaching, installing, access rights, failing nodes."""

import pytest


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
