"""A headless Chromium for tests of the search page, and a server for the page's application.

Without Chromium, the tests are skipped, and the last lines of pytest's output say so. With
``RESIFT_REQUIRE_BROWSER=1`` they fail.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode

import pytest
from flask import Flask
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

NEEDS = "needs Chromium"
_REQUIRED = bool(os.environ.get("RESIFT_REQUIRE_BROWSER"))  # read at import, since tests remove RESIFT_* variables
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-device-scale-factor=1",
    "--lang=en-US",
)
_PATIENCE = 40  # seconds until the page must be ready, also on a busy machine
Driver = webdriver.Chrome


class Quiet(WSGIRequestHandler):
    """A request handler that writes no log."""

    def log(self, type: str, message: str, *args: Any) -> None:
        """Write nothing."""


@contextmanager
def served(app: Flask, port: int = 0) -> Iterator[BaseWSGIServer]:
    """Serve an application on a free port, which is the attribute ``server_port`` of the server."""
    server = make_server("127.0.0.1", port, app, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def chromium() -> tuple[str, str] | None:
    """Return the paths of Chromium and its driver, or None if one of them is missing."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


@contextmanager
def started(width: int = 1440, height: int = 1000) -> Iterator[Driver]:
    """Start a browser with a window of this size."""
    paths = chromium()
    assert paths is not None
    with TemporaryDirectory(prefix="resift-chromium-", ignore_cleanup_errors=True) as folder:
        options = webdriver.ChromeOptions()
        options.binary_location = paths[0]
        for flag in (*_FLAGS, f"--user-data-dir={folder}", f"--window-size={width},{height}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(paths[1]))
        try:
            driver.set_script_timeout(_PATIENCE + 5)
            yield driver
        finally:
            driver.quit()


@dataclass
class Page:
    """The search page in a browser.

    Args:
        driver: The browser.
        base: The URL of the service.
    """

    driver: Driver
    base: str

    def open(self, **state: Any) -> Page:
        """Open the page in a state (parameters of its address), and wait until it is loaded."""
        self.driver.get(f"{self.base}/?{urlencode(state, doseq=True)}")
        return self.settle()

    def settle(self) -> Page:
        """Wait until the page has no running requests."""
        self.wait("return document.body.classList.contains('ready') && document.getElementById('progress').hidden")
        return self

    def wait(self, script: str, *arguments: Any, seconds: float = _PATIENCE) -> Any:
        """Wait until a script returns a true value, and return it."""
        code = (
            "const done = arguments[arguments.length - 1], given = [...arguments].slice(0, -1);"
            f"const end = Date.now() + {seconds * 1000};"
            f"const test = () => {{ try {{ return (function () {{ {script} }}).apply(null, given); }} catch {{}} }};"
            "const look = () => { const found = test();"
            " if (found || Date.now() > end) done(found); else setTimeout(look, 25); }; look();"
        )
        value = self.driver.execute_async_script(code, *arguments)  # type: ignore[no-untyped-call]
        assert value, f"still not, after {seconds} s: {script}\n{self.text('body')[:2000]}"
        return value

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script, and return its value."""
        return self.driver.execute_script(script, *arguments)  # type: ignore[no-untyped-call]

    def run_async(self, script: str, *arguments: Any) -> Any:
        """Run an asynchronous script, and return the value that it passes to its last argument."""
        return self.driver.execute_async_script(script, *arguments)  # type: ignore[no-untyped-call]

    def all(self, selector: str) -> list[WebElement]:
        """Return all elements that match a selector."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        """Return the first element that matches a selector."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """Return the visible text of an element."""
        return str(self.run("return document.querySelector(arguments[0]).innerText", selector))

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all elements that match a selector."""
        texts = self.run("return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)", selector)
        return list(texts)

    def click(self, selector: str) -> Page:
        """Click an element, and wait until the page has no running requests."""
        self.one(selector).click()
        return self.settle()

    def keys(self, *keys: str) -> Page:
        """Press keys at the element with the focus."""
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)
        return self.settle()

    def search(self, query: str) -> Page:
        """Type a query and submit it."""
        box = self.one("#query")
        box.clear()
        box.send_keys(query + Keys.ENTER)
        return self.settle()

    def resize(self, width: int, height: int = 900) -> None:
        """Resize the window, for example to the size of a phone."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.emulate("Emulation.setDeviceMetricsOverride", size)

    def colours(self, scheme: str) -> None:
        """Emulate ``dark`` or ``light`` colours without animations, which could move the target of a click."""
        media = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in media.items()]
        self.emulate("Emulation.setEmulatedMedia", {"features": features})

    def network(self, latency: int = 0, offline: bool = False) -> None:
        """Emulate a network with additional latency, or without a connection."""
        settings = {"offline": offline, "latency": latency, "downloadThroughput": -1, "uploadThroughput": -1}
        self.emulate("Network.enable", {})
        self.emulate("Network.emulateNetworkConditions", settings)

    def emulate(self, command: str, settings: dict[str, Any]) -> None:
        """Send a command of the DevTools protocol."""
        self.driver.execute_cdp_cmd(command, settings)  # type: ignore[no-untyped-call]

    def usual(self) -> None:
        """Reset all emulation."""
        self.emulate("Emulation.clearDeviceMetricsOverride", {})
        self.emulate("Emulation.setEmulatedMedia", {"features": []})
        self.network()

    def violations(self) -> list[str]:
        """Return the violations that axe finds, one line each."""
        if not self.run("return 'axe' in window"):
            script = (files("axe_core_python") / "axe.min.js").read_text("utf-8")
            # Loaded with the DevTools protocol, since the page's policy forbids scripts of other origins.
            self.emulate("Runtime.evaluate", {"expression": script})
        code = "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(done, done);"
        report = self.driver.execute_async_script(code)  # type: ignore[no-untyped-call]
        assert "violations" in report, report
        return [
            f"{violation['id']}: {[node['html'] for node in violation['nodes']]}" for violation in report["violations"]
        ]

    def errors(self) -> list[str]:
        """Return new errors of the browser's console."""
        logged = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in logged if entry["level"] == "SEVERE"]

    def picture(self, path: str | Path) -> None:
        """Save a screenshot as PNG."""
        assert self.driver.save_screenshot(str(path))


@pytest.fixture(scope="session")
def driver() -> Iterator[Driver]:
    """Start a browser for all tests. Without a browser, skip the tests, or fail if it is required."""
    if chromium() is None:
        if _REQUIRED:
            pytest.fail(f"{NEEDS}: chromium and chromedriver are not both on the PATH", pytrace=False)
        pytest.skip(NEEDS)
    with started() as driver:
        yield driver


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """Print at the end of the test run that no browser was available."""
    yield
    for kind, word in (("skipped", "SKIPPED, not passed"), ("error", "FAILED: RESIFT_REQUIRE_BROWSER is set")):
        count = sum(NEEDS in str(report.longrepr) for report in terminalreporter.stats.get(kind, []))
        if count:
            loud = {"red": True, "bold": True}
            terminalreporter.section("NO BROWSER", sep="!", **loud)
            advice = "Install chromium and chromium-driver (Debian's names)."
            terminalreporter.write_line(f"{count} tests of the search page were {word}. {advice}", **loud)
