"""Fixtures for tests of the laboratory package."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Load the fixtures of this test tier."""
    for name in ("opensearch_fixture", "engines", "evaluation_fixtures", "ubi_events"):
        config.pluginmanager.import_plugin(name)
