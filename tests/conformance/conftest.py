"""Tests that compare searches in a session with the same searches without Resift, on a real OpenSearch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from documented_kinds import write_effects
from flask import Flask
from known_differences import KnownDifferences
from three_ways import OpenSearchClient, ThreeWays

from resift import Model
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.reranker import Config, create_app
from resift.service.search_service import SearchService

COUNTS = pytest.StashKey[Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes the table of what a session does to each kind of search."""
    parser.addoption("--write-kinds", action="store_true", help="write the table of kinds in docs/rewriting.md")


@pytest.fixture(scope="session")
def write_effect(pytestconfig: pytest.Config) -> Iterator[Callable[[str, str, str], None] | None]:
    """A function that notes the effect of a session on a kind of search, or None without ``--write-kinds``."""
    if not pytestconfig.getoption("--write-kinds"):
        yield None
        return
    effects: dict[str, dict[str, str]] = {}

    def write(kind: str, variant: str, effect: str) -> None:
        effects.setdefault(kind, {})[variant] = effect

    yield write
    write_effects(effects)


def pytest_configure(config: pytest.Config) -> None:
    """Load the fixtures of this tier."""
    config.stash[COUNTS] = Counter()
    for name in ("opensearch_fixture", "engines"):
        config.pluginmanager.import_plugin(name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show how many searches were compared. Processes of ``pytest -n`` do not report their counts."""
    counts = terminalreporter.config.stash.get(COUNTS, None)
    if counts:
        terminalreporter.section("conformance")
        for name, number in sorted(counts.items(), key=lambda item: (":" in item[0], -item[1])):
            terminalreporter.write_line(f"{number:6,} {name}")


@pytest.fixture(scope="session")
def opensearch_client(opensearch_url: str) -> OpenSearchClient:
    """A client that returns errors as answers."""
    return OpenSearchClient(opensearch_url)


@pytest.fixture(scope="session")
def opensearch_version(opensearch_client: OpenSearchClient) -> str:
    """The version of the cluster."""
    return str(opensearch_client.request("GET", "/").body["version"]["number"])


@pytest.fixture(scope="session")
def known_differences(opensearch_version: str) -> KnownDifferences:
    """The differences that are listed for the version of the cluster."""
    return KnownDifferences(opensearch_version)


@pytest.fixture(scope="module")
def app(cluster: OpenSearchEngine, packaged: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """The HTTP service over the cluster, with the packaged model."""
    config = Config(store=str(tmp_path_factory.mktemp("conformance") / "sessions.db"))
    app = create_app(config, engine=cluster, model=packaged)
    yield app
    app.extensions["resift"].sessions.store.close()


@pytest.fixture(scope="module")
def renew(app: Flask) -> Callable[[], None]:
    """A function that makes the service forget what it remembers of the cluster's indices."""

    def renew() -> None:
        service = app.extensions["resift"]
        app.extensions["resift"] = SearchService(service.engine, service.model, service.sessions, service.config)

    return renew


@pytest.fixture(scope="module")
def three_ways(opensearch_client: OpenSearchClient, app: Flask, pytestconfig: pytest.Config) -> Iterator[ThreeWays]:
    """The comparison of searches that are sent three ways."""
    ways = ThreeWays(opensearch_client, app.test_client())
    yield ways
    pytestconfig.stash[COUNTS].update(ways.counts)
