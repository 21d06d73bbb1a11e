"""The fixture ``opensearch_url``: a real OpenSearch for the tests that need one.

The first of these that is available is used:

1. The cluster at ``OPENSEARCH_URL``. If this variable is set, nothing else is tried.
2. A container of the image ``RESIFT_OPENSEARCH_IMAGE``, if a Docker engine answers.
3. A node assembled from Maven artefacts. If ``RESIFT_NODE_VERSION`` is set, only this is tried.

Without OpenSearch, the tests are skipped, and the last lines of pytest's output say so. With
``RESIFT_REQUIRE_OPENSEARCH=1`` they fail.
"""

from __future__ import annotations

import gc
import importlib
import os
import socket
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from node_releases import VARIABLE
from opensearchpy import OpenSearch, OpenSearchException

# A copy of the environment variables, since OpenSearch is started when a test first needs it, and earlier tests remove
# variables.
ENVIRONMENT = dict(os.environ)

DEFAULT_IMAGE = "opensearchproject/opensearch:3.6.0"
NEEDS = "needs OpenSearch"
Source = Callable[[ExitStack], tuple[str, str]]  # returns the URL of an OpenSearch and the name of its source


class Unavailable(Exception):
    """A source has no OpenSearch. The message says why."""


@dataclass
class Found:
    """The OpenSearch of a test run.

    Attributes:
        source: Its version, source and address, or "" if there is none.
        reasons: Why each source that was tried before was not available.
    """

    source: str = ""
    reasons: list[str] = field(default_factory=list)


FOUND = pytest.StashKey[Found]()


@pytest.fixture(scope="session")
def opensearch_url(pytestconfig: pytest.Config) -> Iterator[str]:
    """Return the URL of a real OpenSearch. If there is none, skip the test, or fail it if OpenSearch is required."""
    chosen = pytestconfig.stash[FOUND] = Found()
    with ExitStack() as stack:
        url = _choose(stack, chosen)
        if url is not None:
            yield url
            return
        reason = f"{NEEDS}: " + "; ".join(_first_line(reason) for reason in chosen.reasons)
        if required():
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Skip a test with the marker ``since`` if OpenSearch is older than the marker says."""
    marker, chosen = item.get_closest_marker("since"), item.config.stash.get(FOUND, None)
    if marker is None or chosen is None or not chosen.source or "sqlite" in item.name:
        return
    major, why = marker.args
    version = chosen.source.split()[1]
    if int(version.partition(".")[0]) < major:
        pytest.skip(f"OpenSearch {version}: {why}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a process of ``pytest -n``, report its OpenSearch to the main process."""
    if hasattr(session.config, "workeroutput") and FOUND in session.config.stash:
        session.config.workeroutput["opensearch"] = asdict(session.config.stash[FOUND])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """In the main process, store the OpenSearch of a process of ``pytest -n``. All processes have the same source."""
    if of_node := getattr(node, "workeroutput", {}).get("opensearch"):
        node.config.stash[FOUND] = Found(**of_node)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """Print at the end which OpenSearch the tests had, or that there was none."""
    yield
    chosen = terminalreporter.config.stash.get(FOUND, None)
    if chosen is None:
        return
    loud = {} if chosen.source else {"red": True, "bold": True}
    if chosen.source:
        terminalreporter.section("OpenSearch")
        terminalreporter.write_line(f"tested with {chosen.source}")
    else:
        terminalreporter.section("NO OPENSEARCH", sep="!", **loud)
        terminalreporter.write_line(_what_was_not_tested(terminalreporter), **loud)
    for reason in chosen.reasons:
        terminalreporter.write_line(f"- {reason}", **loud)


def _what_was_not_tested(reporter: pytest.TerminalReporter) -> str:
    skipped = sum(NEEDS in str(report.longrepr) for report in reporter.stats.get("skipped", []))
    failed = sum(NEEDS in str(report.longrepr) for report in reporter.stats.get("error", []))
    if failed:
        return f"{failed} tests that need a real OpenSearch FAILED: RESIFT_REQUIRE_OPENSEARCH is set."
    advice = "Set OPENSEARCH_URL, or install Docker, or Maven with Java >= 21."
    return f"{skipped} tests that need a real OpenSearch were SKIPPED, not passed. {advice}"


def _choose(stack: ExitStack, chosen: Found) -> str | None:
    """Return the URL of the first source that is available, or None. ``stack`` stops what was started for it."""
    sources: list[Source] = [_from_container, _from_maven]
    if ENVIRONMENT.get(VARIABLE):  # a certain version, which only Maven provides
        sources = [_from_maven]
    if ENVIRONMENT.get("OPENSEARCH_URL"):
        sources = [_from_environment]
    return next((url for source in sources if (url := _try(source, stack, chosen))), None)


def _try(source: Source, stack: ExitStack, chosen: Found) -> str | None:
    """Return the URL of a source, or None if it is not available. ``found`` gets its description or the reason."""
    with _without_library_warnings():
        try:
            url, name = source(stack)
            chosen.source = f"OpenSearch {_version(url)} from {name} at {_without_password(url)}"
            return url
        except Unavailable as error:
            chosen.reasons.append(str(error))
            return None


@contextmanager
def _without_library_warnings() -> Iterator[None]:
    """Ignore warnings of docker and testcontainers about deprecations and open sockets, which would fail tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            yield
        finally:
            gc.collect()


def _from_environment(_: ExitStack) -> tuple[str, str]:
    """Return the URL of the cluster at OPENSEARCH_URL, and the name of the source."""
    url = ENVIRONMENT["OPENSEARCH_URL"].rstrip("/")
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with suppress(OpenSearchException):
            _version(url)
            return url, "OPENSEARCH_URL"
        time.sleep(0.5)
    raise Unavailable(f"OPENSEARCH_URL: nothing answers at {_without_password(url)}")


def _from_container(stack: ExitStack) -> tuple[str, str]:
    """Start a container for this test run, and return its URL and the name of the source."""
    _check_docker_engine()
    image = ENVIRONMENT.get("RESIFT_OPENSEARCH_IMAGE") or DEFAULT_IMAGE
    try:
        return _start_container(stack, image), f"container image {image}"
    except Exception as error:  # for each error, the next source is tried, and the summary shows the reason
        stack.close()
        raise Unavailable(f"container: {image} could not be started: {error!r}") from error


def _check_docker_engine() -> None:
    try:
        client = importlib.import_module("docker").from_env(timeout=5)
        client.ping()
        client.close()
    except Exception as error:  # the package docker is missing, or the engine does not answer
        raise Unavailable(f"container: no Docker engine answers ({error})") from error


def _start_container(stack: ExitStack, image: str) -> str:
    from testcontainers.community.opensearch import OpenSearchContainer

    container = OpenSearchContainer(image, security_enabled=False)
    container.with_env("DISABLE_INSTALL_DEMO_CONFIG", "true")
    container.with_env("OPENSEARCH_JAVA_OPTS", "-Xms1g -Xmx1g")
    stack.callback(_stop_container, container.stop)
    container.start()
    return f"http://{container.get_container_host_ip()}:{container.get_exposed_port(9200)}"


def _stop_container(stop: Callable[[], None]) -> None:
    with _without_library_warnings(), suppress(Exception):
        stop()


def _from_maven(stack: ExitStack) -> tuple[str, str]:
    """Start a node for this test run from Maven artefacts, and return its URL and the name of the source."""
    try:
        import node
        from node_assembly import NodeUnavailable
    except ImportError as error:  # the module needs POSIX file locks and users
        raise Unavailable(f"Maven node: not on this platform ({error})") from error
    try:
        started = node.start(quick=True)
    except NodeUnavailable as error:
        raise Unavailable(f"Maven node: {error}") from error
    stack.callback(started.stop)
    return started.url, "Maven artefacts"


def _version(url: str) -> str:
    """Return the version of the OpenSearch at a URL."""
    client = OpenSearch(url, timeout=10)
    try:
        return str(client.info()["version"]["number"])
    finally:
        client.close()


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _first_line(text: str) -> str:
    return text.splitlines()[0].rstrip(":")


def required() -> bool:
    """Return whether tests fail without OpenSearch."""
    return ENVIRONMENT.get("RESIFT_REQUIRE_OPENSEARCH", "") not in ("", "0")


def service_host(config: pytest.Config) -> str:
    """Return the address at which OpenSearch reaches servers of the tests.

    This is RESIFT_TEST_HOST if it is set. Otherwise it is the address of this machine in its network if OpenSearch runs
    in a container, and 127.0.0.1 if not.
    """
    chosen = config.stash.get(FOUND, Found())
    if host := ENVIRONMENT.get("RESIFT_TEST_HOST"):
        return host
    if "container" not in chosen.source:
        return "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("10.255.255.255", 9))  # sends nothing, but chooses the network interface
        return str(probe.getsockname()[0])
