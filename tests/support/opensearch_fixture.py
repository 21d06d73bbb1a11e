"""The fixture `opensearch_url`: a real OpenSearch for the tests that need one, wherever it can be had.

In this order: the cluster that ``OPENSEARCH_URL`` names; a container of ``RESIFT_OPENSEARCH_IMAGE`` where a
Docker engine answers; a node assembled from Maven artefacts, at once where ``RESIFT_NODE_VERSION`` names one. Where
none can be had the tests skip, and the last lines of pytest's output say so; with ``RESIFT_REQUIRE_OPENSEARCH=1`` they
fail.
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

# as it was at first: tests take settings from outside away, and the cluster is looked for when one of them needs it
ENVIRONMENT = dict(os.environ)

DEFAULT_IMAGE = "opensearchproject/opensearch:3.6.0"
NEEDS = "needs OpenSearch"
Source = Callable[[ExitStack], tuple[str, str]]  # gives a URL and a name for where it came from


class Unavailable(Exception):
    """A source of OpenSearch that is not to be had here; the message says why."""


@dataclass
class Found:
    """What the run had for an OpenSearch: which one, and why not one before it."""

    source: str = ""
    reasons: list[str] = field(default_factory=list)


FOUND = pytest.StashKey[Found]()


@pytest.fixture(scope="session")
def opensearch_url(pytestconfig: pytest.Config) -> Iterator[str]:
    """The base URL of a real OpenSearch; where there is none the test skips, or fails if it is required."""
    found = pytestconfig.stash[FOUND] = Found()
    with ExitStack() as stack:
        url = _choose(stack, found)
        if url is not None:
            yield url
            return
        reason = f"{NEEDS}: " + "; ".join(_first_line(reason) for reason in found.reasons)
        if required():
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Skip a test that is marked ``since`` a later version than that of the OpenSearch at hand."""
    marker, found = item.get_closest_marker("since"), item.config.stash.get(FOUND, None)
    if marker is None or found is None or not found.source or "sqlite" in item.name:
        return
    major, why = marker.args
    version = found.source.split()[1]
    if int(version.partition(".")[0]) < major:
        pytest.skip(f"OpenSearch {version}: {why}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Have a process of ``pytest -n`` say which OpenSearch it had."""
    if hasattr(session.config, "workeroutput") and FOUND in session.config.stash:
        session.config.workeroutput["opensearch"] = asdict(session.config.stash[FOUND])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take down what a process of ``pytest -n`` said of its OpenSearch: each had one from the same source."""
    if of_node := getattr(node, "workeroutput", {}).get("opensearch"):
        node.config.stash[FOUND] = Found(**of_node)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """Say last which OpenSearch the tests had, or loudly that they had none."""
    yield
    found = terminalreporter.config.stash.get(FOUND, None)
    if found is None:
        return
    loud = {} if found.source else {"red": True, "bold": True}
    if found.source:
        terminalreporter.section("OpenSearch")
        terminalreporter.write_line(f"tested with {found.source}")
    else:
        terminalreporter.section("NO OPENSEARCH", sep="!", **loud)
        terminalreporter.write_line(_what_was_not_tested(terminalreporter), **loud)
    for reason in found.reasons:
        terminalreporter.write_line(f"- {reason}", **loud)


def _what_was_not_tested(reporter: pytest.TerminalReporter) -> str:
    skipped = sum(NEEDS in str(report.longrepr) for report in reporter.stats.get("skipped", []))
    failed = sum(NEEDS in str(report.longrepr) for report in reporter.stats.get("error", []))
    if failed:
        return f"{failed} tests that need a real OpenSearch FAILED: RESIFT_REQUIRE_OPENSEARCH is set."
    advice = "Set OPENSEARCH_URL, or install Docker, or Maven with Java >= 21."
    return f"{skipped} tests that need a real OpenSearch were SKIPPED, not passed. {advice}"


def _choose(stack: ExitStack, found: Found) -> str | None:
    """The URL of the first source that has an OpenSearch; `stack` ends what was started for it."""
    sources: list[Source] = [_from_container, _from_maven]
    if ENVIRONMENT.get(VARIABLE):  # a version was asked for
        sources = [_from_maven]
    if ENVIRONMENT.get("OPENSEARCH_URL"):
        sources = [_from_environment]
    return next((url for source in sources if (url := _try(source, stack, found))), None)


def _try(source: Source, stack: ExitStack, found: Found) -> str | None:
    """The URL that one source gives; `found` gets its description, or the reason why there is none."""
    with _without_library_warnings():
        try:
            url, name = source(stack)
            found.source = f"OpenSearch {_version(url)} from {name} at {_without_password(url)}"
            return url
        except Unavailable as error:
            found.reasons.append(str(error))
            return None


@contextmanager
def _without_library_warnings() -> Iterator[None]:
    """Keep what docker and testcontainers warn of (deprecations, sockets left open) from failing tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            yield
        finally:
            gc.collect()


def _from_environment(_: ExitStack) -> tuple[str, str]:
    """The cluster that the environment names. No other takes its place: it was asked for."""
    url = ENVIRONMENT["OPENSEARCH_URL"].rstrip("/")
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with suppress(OpenSearchException):
            _version(url)
            return url, "OPENSEARCH_URL"
        time.sleep(0.5)
    raise Unavailable(f"OPENSEARCH_URL: nothing answers at {_without_password(url)}")


def _from_container(stack: ExitStack) -> tuple[str, str]:
    """A container of this run's own, where a Docker engine answers and the image can be had."""
    _check_docker_engine()
    image = ENVIRONMENT.get("RESIFT_OPENSEARCH_IMAGE") or DEFAULT_IMAGE
    try:
        return _start_container(stack, image), f"container image {image}"
    except Exception as error:  # whatever it is, the next source is tried and the summary tells it
        stack.close()
        raise Unavailable(f"container: {image} could not be started: {error!r}") from error


def _check_docker_engine() -> None:
    try:
        client = importlib.import_module("docker").from_env(timeout=5)
        client.ping()
        client.close()
    except Exception as error:  # no package, no socket, no answer
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
    """A node of this run's own, assembled from Maven artefacts."""
    try:
        import node
        from node_assembly import NodeUnavailable
    except ImportError as error:  # its file locks and users are POSIX's
        raise Unavailable(f"Maven node: not on this platform ({error})") from error
    try:
        started = node.start(quick=True)
    except NodeUnavailable as error:
        raise Unavailable(f"Maven node: {error}") from error
    stack.callback(started.stop)
    return started.url, "Maven artefacts"


def _version(url: str) -> str:
    """The version of the OpenSearch that answers at `url`."""
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
    return ENVIRONMENT.get("RESIFT_REQUIRE_OPENSEARCH", "") not in ("", "0")


def service_host(config: pytest.Config) -> str:
    """The address at which the OpenSearch of this run reaches a server of the tests: RESIFT_TEST_HOST, else the
    machine's own address from inside a container, else the loopback."""
    found = config.stash.get(FOUND, Found())
    if host := ENVIRONMENT.get("RESIFT_TEST_HOST"):
        return host
    if "container" not in found.source:
        return "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("10.255.255.255", 9))  # sends nothing: it only chooses the interface
        return str(probe.getsockname()[0])
