"""Measure the search page: ``python benchmarks/page_speed.py [--only times,lighthouse]``.

Runs the service of ``make demo`` and a headless Chromium. The machine should be idle. ``times`` measures the
milliseconds from a key, a click or a navigation until results are painted. ``lighthouse`` prints the four scores of
Lighthouse (installed with npm), as medians of three runs. The exit status is 1 if the median after Enter is 100 ms or
more, or if a score is below 95.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from selenium.webdriver.common.keys import Keys

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from browser import Page, chromium, started
from ports import free_port

ROOT = Path(__file__).resolve().parents[1]
LIGHTHOUSE = "lighthouse@12.2.3"
KINDS = ("performance", "accessibility", "best-practices", "seo")
LEAST, MOST = 95, 100.0  # minimum score of Lighthouse, and maximum time in milliseconds
TRIES, RUNS = 20, 3
# records the times at which frames with changed hits are painted, and the time of the last key or click
WATCH = """
window.painted = [];
const look = new MutationObserver((changes) => {
  if (!changes.some(({ target }) => target.closest?.('#right .hits'))) return;
  requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => painted.push(performance.now());
    port2.postMessage(0);
  });
});
look.observe(document, { subtree: true, childList: true });
for (const kind of ['keydown', 'click']) addEventListener(kind, (event) => {
  if (kind === 'click' || event.key === 'Enter') { window.since = performance.now(); painted.length = 0; }
}, true);
"""


@contextmanager
def demo(folder: str) -> Iterator[str]:
    """Start the demo, and yield the address of its page."""
    port, log = free_port(), Path(folder, "demo.log")
    command = [str(Path(sys.executable).with_name("resift")), "demo", "--port", str(port)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RESIFT_", "OPENSEARCH_"))}
    with log.open("wb") as file:
        running = subprocess.Popen(command, stdout=file, stderr=file, env=kept, start_new_session=True)
    address = f"http://127.0.0.1:{port}"
    try:
        ready = f"for _ in $(seq 600); do curl -sf {address}/healthz && exit; sleep 0.2; done; cat {log}; exit 1"
        subprocess.run(["bash", "-c", ready], check=True, stdout=subprocess.DEVNULL)
        yield address
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait()


def questions() -> list[str]:
    """Return the first questions of the demo with at least four words."""
    with gzip.open(ROOT / "resift" / "data" / "demo" / "questions.jsonl.gz", "rt", encoding="utf-8") as lines:
        asked = (json.loads(line)["text"] for line in lines)
        return list(islice((question for question in asked if len(question.split()) > 3), TRIES))


class Watch:
    """Measurements of the milliseconds until results are painted, in a browser."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.emulate("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})

    def painted(self) -> float:
        """Return the time since the last key or click, or else since the page was opened."""
        self.page.wait("return painted.length")
        return float(self.page.settle().run("return painted[0] - (window.since ?? 0)"))

    def opened(self, question: str) -> float:
        """Return the time from opening a link to a search, with an empty browser cache."""
        self.page.emulate("Network.enable", {})
        self.page.emulate("Network.clearBrowserCache", {})
        self.page.open(q=question)
        return self.painted()

    def searched(self, question: str) -> float:
        """Return the time from Enter on the start page."""
        self.page.open()
        return self.again(question)

    def again(self, question: str) -> float:
        """Return the time from Enter on a page that shows the hits of another search."""
        box = self.page.one("#query")
        box.clear()
        box.send_keys(question)
        box.send_keys(Keys.ENTER)
        return self.painted()

    def marked(self, question: str) -> float:
        """Return the time from a click on the thumb of the second hit."""
        self.page.open(q=question)
        self.page.one("#right .card:nth-child(2) .thumb").click()
        return self.painted()


def times(address: str) -> bool:
    """Print the times of all actions, and return whether the median of searches is below the limit."""
    print(
        f"| milliseconds until results are painted, {TRIES} questions | fastest | median | slowest |\n|---|---|---|---|"
    )
    in_time = True
    with started() as driver:
        watch = Watch(Page(driver, address))
        watch.opened(questions()[0])  # warms up the service
        for name, work, is_search in (
            ("Enter at the start", watch.searched, True),
            ("Enter, after another search", watch.again, True),
            ("a link to a search opened, nothing cached", watch.opened, False),
            ("a thumb", watch.marked, False),
        ):
            taken = [work(one) for one in questions()]
            shown = (min(taken), statistics.median(taken), max(taken))
            print(f"| {name} | {' | '.join(f'{one:.0f}' for one in shown)} |", flush=True)
            in_time &= not is_search or statistics.median(taken) < MOST
    return in_time


def lighthouse(address: str, folder: str) -> bool:
    """Print the scores of Lighthouse, and return whether all of them are high enough."""
    found = chromium()
    assert found is not None, "needs chromium and chromedriver"
    print(f"| {LIGHTHOUSE} | {' | '.join(KINDS)} |\n|---|{'---|' * len(KINDS)}")
    lowest = 100
    for where, path in (("start", "/"), ("results", f"/?q={questions()[0].replace(' ', '+')}")):
        for device in ("mobile", "desktop"):
            output = Path(folder, "report.json")
            command = ["npm", "exec", "--yes", f"--package={LIGHTHOUSE}", "--", "lighthouse", address + path]
            command += ["--quiet", "--no-enable-error-reporting", "--output=json", f"--output-path={output}"]
            command += [f"--only-categories={','.join(KINDS)}", "--chrome-flags=--headless=new --no-sandbox"]
            command += ["--preset=desktop"] if device == "desktop" else []
            reports: list[dict[str, Any]] = []
            for _ in range(RUNS):
                subprocess.run(command, check=True, cwd=folder, env=os.environ | {"CHROME_PATH": found[0]})
                reports.append(json.loads(output.read_text("utf-8"))["categories"])
            figures = [round(100 * statistics.median(one[kind]["score"] for one in reports)) for kind in KINDS]
            lowest = min(lowest, *figures)
            print(f"| {where}, {device} | {' | '.join(map(str, figures))} |", flush=True)
    return lowest >= LEAST


def main() -> None:
    """Run the selected measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="times,lighthouse")
    asked = parser.parse_args().only.split(",")
    with TemporaryDirectory(prefix="resift-page-") as folder, demo(folder) as address:
        passed = [times(address)] if "times" in asked else []
        passed += [lighthouse(address, folder)] if "lighthouse" in asked else []
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
