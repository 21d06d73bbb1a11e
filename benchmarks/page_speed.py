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
CATEGORIES = ("performance", "accessibility", "best-practices", "seo")
MIN_SCORE, MAX_MILLISECONDS = 95, 100.0  # minimum score of Lighthouse, and maximum time in milliseconds
QUESTIONS, RUNS = 20, 3
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
    """Start the demo, and yield the address of its search page. The demo is stopped when the block ends."""
    port, log = free_port(), Path(folder, "demo.log")
    command = [str(Path(sys.executable).with_name("resift")), "demo", "--port", str(port)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RESIFT_", "OPENSEARCH_"))}
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment, start_new_session=True)
    address = f"http://127.0.0.1:{port}"
    try:
        ready = f"for _ in $(seq 600); do curl -sf {address}/healthz && exit; sleep 0.2; done; cat {log}; exit 1"
        subprocess.run(["bash", "-c", ready], check=True, stdout=subprocess.DEVNULL)
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def demo_questions() -> list[str]:
    """Return the first questions of the demo that have at least four words."""
    with gzip.open(ROOT / "resift" / "data" / "demo" / "questions.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = (json.loads(line)["text"] for line in lines)
        return list(islice((question for question in texts if len(question.split()) > 3), QUESTIONS))


class PaintTimer:
    """Measures, in a browser, how many milliseconds pass until the results of an action are painted.

    Args:
        page: The search page in the browser.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        page.emulate("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})

    def milliseconds_to_paint(self) -> float:
        """Wait until the results are painted.

        Returns:
            The milliseconds since the last key or click, or else since the page was opened.
        """
        self.page.wait("return painted.length")
        return float(self.page.settle().run("return painted[0] - (window.since ?? 0)"))

    def open_link(self, question: str) -> float:
        """Open a link to a search with an empty browser cache, and return the milliseconds to the results."""
        self.page.emulate("Network.enable", {})
        self.page.emulate("Network.clearBrowserCache", {})
        self.page.open(q=question)
        return self.milliseconds_to_paint()

    def search_from_start(self, question: str) -> float:
        """Search on the start page, and return the milliseconds from Enter to the results."""
        self.page.open()
        return self.search_again(question)

    def search_again(self, question: str) -> float:
        """Search on a page with other results, and return the milliseconds from Enter to the new results."""
        box = self.page.one("#query")
        box.clear()
        box.send_keys(question)
        box.send_keys(Keys.ENTER)
        return self.milliseconds_to_paint()

    def mark_hit(self, question: str) -> float:
        """Click on the thumb of the second hit, and return the milliseconds to the results."""
        self.page.open(q=question)
        self.page.one("#right .card:nth-child(2) .thumb").click()
        return self.milliseconds_to_paint()


def print_times(address: str) -> bool:
    """Measure each action with all questions, and print the times.

    Args:
        address: Address of the search page.

    Returns:
        Whether the median time of searches is below the limit.
    """
    print(f"| milliseconds until results are painted, {QUESTIONS} questions | fastest | median | slowest |")
    print("|---|---|---|---|")
    is_fast_enough = True
    with started() as driver:
        timer = PaintTimer(Page(driver, address))
        timer.open_link(demo_questions()[0])  # warms up the service
        for name, measure, is_search in (
            ("Enter at the start", timer.search_from_start, True),
            ("Enter, after another search", timer.search_again, True),
            ("a link to a search opened, nothing cached", timer.open_link, False),
            ("a thumb", timer.mark_hit, False),
        ):
            milliseconds = [measure(question) for question in demo_questions()]
            summary = (min(milliseconds), statistics.median(milliseconds), max(milliseconds))
            print(f"| {name} | {' | '.join(f'{value:.0f}' for value in summary)} |", flush=True)
            is_fast_enough &= not is_search or statistics.median(milliseconds) < MAX_MILLISECONDS
    return is_fast_enough


def print_scores(address: str, folder: str) -> bool:
    """Run Lighthouse on the start page and on a page with results, and print the scores.

    Args:
        address: Address of the search page.
        folder: Folder for the reports.

    Returns:
        Whether all scores are high enough.
    """
    programs = chromium()
    assert programs is not None, "needs chromium and chromedriver"
    print(f"| {LIGHTHOUSE} | {' | '.join(CATEGORIES)} |\n|---|{'---|' * len(CATEGORIES)}")
    lowest_score = 100
    for page, path in (("start", "/"), ("results", f"/?q={demo_questions()[0].replace(' ', '+')}")):
        for device in ("mobile", "desktop"):
            output = Path(folder, "report.json")
            command = ["npm", "exec", "--yes", f"--package={LIGHTHOUSE}", "--", "lighthouse", address + path]
            command += ["--quiet", "--no-enable-error-reporting", "--output=json", f"--output-path={output}"]
            command += [f"--only-categories={','.join(CATEGORIES)}", "--chrome-flags=--headless=new --no-sandbox"]
            command += ["--preset=desktop"] if device == "desktop" else []
            reports: list[dict[str, Any]] = []
            for _ in range(RUNS):
                subprocess.run(command, check=True, cwd=folder, env=os.environ | {"CHROME_PATH": programs[0]})
                reports.append(json.loads(output.read_text("utf-8"))["categories"])
            scores = [
                round(100 * statistics.median(report[category]["score"] for report in reports))
                for category in CATEGORIES
            ]
            lowest_score = min(lowest_score, *scores)
            print(f"| {page}, {device} | {' | '.join(map(str, scores))} |", flush=True)
    return lowest_score >= MIN_SCORE


def main() -> None:
    """Run the selected measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="times,lighthouse")
    parts = parser.parse_args().only.split(",")
    with TemporaryDirectory(prefix="resift-page-") as folder, demo(folder) as address:
        passed = [print_times(address)] if "times" in parts else []
        passed += [print_scores(address, folder)] if "lighthouse" in parts else []
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
