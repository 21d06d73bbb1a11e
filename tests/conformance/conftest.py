"""Tests that compare searches in a session with the same searches without Resift, on a real OpenSearch."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Load the fixtures of this tier."""
    for name in ("opensearch_fixture", "engines"):
        config.pluginmanager.import_plugin(name)
