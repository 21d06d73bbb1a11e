"""Mutants: do the tests notice when one thing of a module that users depend on is changed?

    python benchmarks/mutants.py [--module NAME …] [--sample N] [--seed N] [--commit HEAD] [--list]

Takes copies of the last commit into a temporary folder, changes one thing of a module there at a time (a comparison, a
sum, and/or, not, a number, a swapped argument, a removed statement), and runs the tests that concern that module, two
mutants at once; the checkout is only read. A mutant that no test fails on has survived. One that cannot be loaded, that
ends the tests (a crash, more than 6 GiB), or whose tests take several times as long as without it, is killed as well.
The tests have to pass on the code as it is, before the mutants and after them. Prints a line for each mutant that no
failing test killed and one for each module, and ends with 1 if a survivor is not in ``EQUIVALENT``
(benchmarks/equivalent_mutants.py). Without ``--sample`` all mutants of a module are run, which takes hours. The modules
of OpenSearch need a node that ``OPENSEARCH_URL`` names.

Messages of errors, docstrings, type annotations, ``__repr__``, logging and default timeouts are not changed.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from equivalent_mutants import EQUIVALENT
from mutations import Finder, Mutant

ROOT = Path(__file__).parent.parent
AT_ONCE = 2
MEMORY = 6 * 2**30  # bytes that the tests of a mutant may take: some never stop to append
# how the process of the tests ends: with codes that nothing else ends with, so that one ended by a mutant is known
OUTCOMES = {100: "survived", 101: "killed", 102: "not loaded"}
# what the tests import and never changes: loaded once, before the processes that run the tests are forked
PRELOADED = "numpy hypothesis hypothesis.extra.numpy orjson regex opensearchpy flask scipy.sparse numba torch"
FILE_ONLY, CLUSTER_ONLY = "not [opensearch", "not [sqlite"  # by their parameter


@dataclass(frozen=True)
class Target:
    """A module or a folder of them, the tests that concern it, fastest first, and which of those (``-k``)."""

    paths: Sequence[str]
    tests: Sequence[str]
    only: str = FILE_ONLY
    needs_node: bool = False

    def files(self, root: Path) -> list[Path]:
        """The modules, of a folder all."""
        return [
            file for path in self.paths for file in ([root / path], sorted((root / path).glob("*.py")))[path[-1] == "/"]
        ]


SEARCH_TESTS = (
    "test_validation",
    "test_search",
    "test_search_answers",
    "test_pages",
    "test_did_you_mean",
    *("test_late_reranker", "test_late_pages", "test_search_bodies", "test_index_sample", "test_access"),
    "test_session_feedback",
    *("test_rewriting", "test_rewrite_request", "test_rewritten_scores", "test_marks_of_several_indices"),
)
ENGINE_TESTS = (
    *("test_engine", "test_engine_knn", "test_engine_vectors"),
    *("test_engine_scores", "test_highlights"),
)
TARGETS = {
    "feedback": Target(
        [f"resift/feedback/{name}.py" for name in ("feedback", "expansion", "ridge", "scope")],
        ["test_feedback", "test_explain"],
    ),
    "judgements": Target(["resift/feedback/judgements.py"], ["test_judgements"]),
    "similarity": Target(["resift/vectors/similarity.py"], ["test_similarity"]),
    "model": Target(
        ["resift/encoders/model.py"],
        ["test_model", "test_self_supervised"],
        # of adapted models only what they weigh
        "test_model.py or model.py or a_seed_gives_the_same_model",
    ),
    "sqlite": Target(
        ["resift/embedded/"],
        [
            *ENGINE_TESTS,
            "test_query_limits",
            "test_analysis",
            "test_session_store",
            "test_sqlite_readers",
            "test_sqlite_opening",
            "test_search_answers",
            "test_rescore",
            "test_sqlite_file",
            "test_differential",
        ],
        needs_node=True,
    ),
    "opensearch": Target(
        [f"resift/plugin/opensearch/{name}.py" for name in ("engine", "documents", "mappings", "sessions")],
        [
            *ENGINE_TESTS,
            "test_opensearch_indices",
            "test_session_store",
            "test_packed_vectors",
            "test_rescore",
            "test_search_answers",
            "test_failover",
        ],
        # of failing nodes only the tests that need none of their own
        f"{CLUSTER_ONLY} and (not failover or answer_is_lost or never_left_out or waits_for_its_session)",
        needs_node=True,
    ),
    "search": Target(["resift/service/"], [*SEARCH_TESTS, "test_limits", "test_served_indices"]),
    "rewriting": Target(
        ["resift/rewriting/"],
        ["test_rewriting", "test_rescore", *SEARCH_TESTS],
    ),
    "sessions": Target(
        ["resift/sessions/"],
        [
            *("test_ubi_clicks", "test_quotas", "test_ubi_log", "test_sessions", "test_session_feedback"),
            *("test_ubi_sessions", "test_index_sample", "test_marks_of_several_indices"),
        ],
    ),
    "indexing": Target(
        ["resift/ingest/indexing.py"],
        ["test_indexing_batches", "test_indexing", "test_kill"],
        # one test of what the embedded engine has no need for: that documents are made visible to searches
        f"({FILE_ONLY} and not kill) or full_disk_for_dead or index_search_and_run_again",
        needs_node=True,
    ),
}


def find_mutants(target: Target, root: Path) -> list[Mutant]:
    """Every mutant of a target's modules."""
    files = target.files(root)
    return [one for file in files for one in Finder(str(file.relative_to(root)), file.read_bytes()).found]


class Watch:
    """Listens to pytest: did a test fail, or could a file of tests not be loaded?"""

    def __init__(self) -> None:
        self.failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test, or what it needs, has run."""
        self.failed = self.failed or report.failed

    def code(self, ended: int) -> int:
        """One of OUTCOMES."""
        return 100 if ended == 0 else 101 if self.failed else 102


def run_tests(copy: Path, target: Target) -> int:
    """Fork a process that runs the target's tests in a copy of the tree; its id."""
    pid = os.fork()
    if pid:
        return pid
    watch = Watch()
    try:
        os.setsid()
        os.chdir(copy)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        out = os.open(copy / "tests.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        (copy / "tmp").mkdir(exist_ok=True)
        os.environ.update(PYTHONPATH=str(copy), PYTHONDONTWRITEBYTECODE="1", CI="1", TMPDIR=str(copy / "tmp"))
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(copy))
        doctests = [path for path in target.paths if path[-1] != "/"]
        tests = [str(next((copy / "tests").glob(f"*/{name}.py"))) for name in target.tests]
        flags = ["-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        flags.append(f"--basetemp={copy / 'tmp' / 'pytest'}")
        ended = pytest.main([*flags, "-k", target.only, *doctests, *tests], [watch])
        sys.stdout.flush()
        os._exit(watch.code(ended))
    except BaseException:
        traceback.print_exc()
        os._exit(watch.code(1))


@dataclass
class Run:
    """Tests that are running on a mutant: where, and since when."""

    copy: Path
    mutant: Mutant
    began: float


def check_unchanged(target: Target, copies: Sequence[Path], when: str) -> float:
    """The seconds that the tests take on the code as it is, which they have to pass."""
    longest = 0.0
    for copy in copies:
        began = time.monotonic()
        pid = run_tests(copy, target)
        status = os.waitpid(pid, 0)[1]
        end_group(pid)
        if outcome_of(status) != "survived":
            raise SystemExit(f"the tests fail without a change, {when}:\n{(copy / 'tests.log').read_text()[-3000:]}")
        longest = max(longest, time.monotonic() - began)
    return longest


def end_group(pid: int) -> None:
    """End the tests that began as ``pid`` and what they have started, as far as it still runs."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def outcome_of(status: int) -> str:
    """What the end of the tests' process says about the mutant."""
    return OUTCOMES.get(os.waitstatus_to_exitcode(status), "crashed")


def outcomes(
    target: Target, mutants: Sequence[Mutant], copies: Sequence[Path], sources: dict[str, bytes]
) -> Iterator[tuple[Mutant, str]]:
    """Each mutant as its tests end: survived, or killed, timeout, not loaded, crashed, all of which are killed."""
    waiting, free, running = list(mutants), list(copies), dict[int, Run]()
    limit = 30 + 4 * check_unchanged(target, copies, "before any mutant")  # also fills the caches of compiled code
    try:
        while waiting or running:
            while waiting and free:
                mutant, copy = waiting.pop(0), free.pop()
                (copy / mutant.path).write_bytes(mutant.applied(sources[mutant.path]))
                running[run_tests(copy, target)] = Run(copy, mutant, time.monotonic())
            time.sleep(0.05)
            for pid, run in list(running.items()):
                late = time.monotonic() - run.began > limit
                if late:
                    end_group(pid)
                done, status = os.waitpid(pid, 0 if late else os.WNOHANG)
                if done:
                    end_group(pid)
                    (run.copy / run.mutant.path).write_bytes(sources[run.mutant.path])
                    free.append(run.copy)
                    del running[pid]
                    yield run.mutant, "timeout" if late else outcome_of(status)
    finally:
        for pid in running:
            end_group(pid)
    check_unchanged(target, copies, "after the mutants: one of them left something behind")


def main() -> int:
    """Run the mutants that were asked for; 1 if one survives that is not known to change nothing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--module", action="append", choices=list(TARGETS), help="all by default")
    parser.add_argument("--sample", type=int, metavar="N", help="so many mutants of each module, drawn by chance")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--list", action="store_true", help="show the mutants and run nothing")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what runs is ended, and the copies go
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = [Path(folder) / str(i) for i in range(AT_ONCE)]
        for copy in copies:
            copy.mkdir()
            archive = subprocess.run(["git", "archive", options.commit], cwd=ROOT, check=True, capture_output=True)
            subprocess.run(["tar", "-x", "-C", str(copy)], input=archive.stdout, check=True)
        for name in PRELOADED.split():
            with suppress(ImportError):
                importlib.import_module(name)
        return sum([run_module(name, copies, options) for name in options.module or TARGETS]) and 1


def run_module(name: str, copies: Sequence[Path], options: argparse.Namespace) -> int:
    """Run and report one module's mutants; how many survived that are not equivalent."""
    target = TARGETS[name]
    if target.needs_node and "OPENSEARCH_URL" not in os.environ:
        print(f"{name}: skipped, OPENSEARCH_URL names no node")
        return 0
    mutants = find_mutants(target, copies[0])
    drawn = (
        mutants
        if options.sample is None
        else random.Random(options.seed).sample(mutants, min(options.sample, len(mutants)))
    )
    sources = {mutant.path: (copies[0] / mutant.path).read_bytes() for mutant in mutants}
    counts: Counter[str] = Counter()
    for mutant, outcome in (
        [(one, "listed") for one in drawn] if options.list else outcomes(target, drawn, copies, sources)
    ):
        reason = EQUIVALENT.get((mutant.path, mutant.changed_line(sources[mutant.path])))
        outcome = "equivalent" if outcome == "survived" and reason else outcome
        counts[outcome] += 1
        if outcome not in ("killed", "equivalent"):
            print(f"{outcome}  {mutant.path}:{mutant.line}: {mutant.before} → {mutant.after}", flush=True)
    shown = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    noticeable = len(drawn) - counts["equivalent"] - counts["listed"]
    killed = (
        f"; {1 - counts['survived'] / noticeable:.1%} of those that can be noticed are killed" if noticeable else ""
    )
    print(f"{name}: {len(drawn)} of {len(mutants)} mutants: {shown}{killed}", flush=True)
    return counts["survived"]


if __name__ == "__main__":
    sys.exit(main())
