"""Tests of the search page, in a real browser."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Load the fixtures of this tier."""
    for name in ("opensearch_fixture", "engines", "browser", "page_app"):
        config.pluginmanager.import_plugin(name)
