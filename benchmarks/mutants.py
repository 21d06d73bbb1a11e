"""Mutation testing: check that the tests notice small changes in the most important modules.

    python benchmarks/mutants.py [--module NAME …] [--sample N] [--seed N] [--commit HEAD] [--list]

A mutant is a copy of the last commit in a temporary folder, with a change in a single place of a module: a comparison,
an operator, and/or, not, a number, swapped arguments, or a removed statement. The tests of the module run with the
mutant. Two mutants run at a time. The checkout itself is not changed.

A mutant is killed if a test fails, and survives if no test fails. A mutant is also killed if it cannot be imported, if
it crashes the tests or uses more than 6 GiB, or if the tests take several times as long as usual. The tests must pass
without a change, before and after the mutants.

Prints a line for each mutant that is not killed by a failing test, and a line for each module. The exit status is 1 if
a survivor is not in ``EQUIVALENT`` (benchmarks/equivalent_mutants.py). Without ``--sample`` all mutants of a module
run, which takes hours. The targets with ``needs_node`` need a node at ``OPENSEARCH_URL``.

Error messages, docstrings, type annotations, ``__repr__``, logging and default timeouts are not mutated.
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
MEMORY = 6 * 2**30  # maximum memory of the tests in bytes, because some mutants append to a list forever
# exit statuses of the test process; other statuses mean that the mutant has crashed the process
OUTCOMES = {100: "survived", 101: "killed", 102: "not loaded"}
# packages that the tests import, loaded once before the test processes are forked
PRELOADED = "numpy hypothesis hypothesis.extra.numpy orjson regex opensearchpy flask scipy.sparse numba torch"
FILE_ONLY, CLUSTER_ONLY = "not [opensearch", "not [sqlite"  # pytest expressions, for parametrised tests


@dataclass(frozen=True)
class Target:
    """Modules to mutate, and their tests.

    Attributes:
        paths: Modules, or folders of modules with a trailing slash.
        tests: Names of test files, fastest first.
        only: Expression that selects tests (pytest's ``-k``).
        needs_node: Whether the tests need an OpenSearch node.
    """

    paths: Sequence[str]
    tests: Sequence[str]
    only: str = FILE_ONLY
    needs_node: bool = False

    def files(self, root: Path) -> list[Path]:
        """Return the files of all modules."""
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
        # from test_self_supervised, only the test of adapted models' weights
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
        # from test_failover, only tests that do not start further nodes
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
        # a single test with OpenSearch, for the refresh, which the embedded engine does not need
        f"({FILE_ONLY} and not kill) or full_disk_for_dead or index_search_and_run_again",
        needs_node=True,
    ),
}


def find_mutants(target: Target, root: Path) -> list[Mutant]:
    """Return all mutants of a target's modules."""
    files = target.files(root)
    return [mutant for file in files for mutant in Finder(str(file.relative_to(root)), file.read_bytes()).mutants]


class Watch:
    """A pytest plugin that distinguishes failed tests from test files that cannot be imported."""

    def __init__(self) -> None:
        self.failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record whether a test or a fixture has failed."""
        self.failed = self.failed or report.failed

    def code(self, ended: int) -> int:
        """Return the exit status, a key of OUTCOMES, from pytest's exit status."""
        return 100 if ended == 0 else 101 if self.failed else 102


def run_tests(copy: Path, target: Target) -> int:
    """Fork a process that runs the target's tests in a copy of the repository, and return the process id."""
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
    """A running test process: its folder, its mutant, and its start."""

    copy: Path
    mutant: Mutant
    began: float


def check_unchanged(target: Target, copies: Sequence[Path], when: str) -> float:
    """Run the tests without a mutant, and return their duration in seconds.

    Raises:
        SystemExit: If a test fails.
    """
    longest = 0.0
    for copy in copies:
        began = time.monotonic()
        pid = run_tests(copy, target)
        status = os.waitpid(pid, 0)[1]
        end_group(pid)
        if outcome_of(status) != "survived":
            raise SystemExit(f"the tests fail without a mutant, {when}:\n{(copy / 'tests.log').read_text()[-3000:]}")
        longest = max(longest, time.monotonic() - began)
    return longest


def end_group(pid: int) -> None:
    """Kill the process group of a test process."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def outcome_of(status: int) -> str:
    """Return the outcome for the wait status of a test process."""
    return OUTCOMES.get(os.waitstatus_to_exitcode(status), "crashed")


def outcomes(
    target: Target, mutants: Sequence[Mutant], copies: Sequence[Path], sources: dict[str, bytes]
) -> Iterator[tuple[Mutant, str]]:
    """Run the tests on each mutant, and yield mutants with outcomes as they finish.

    Outcomes are ``survived``, ``killed``, ``timeout``, ``not loaded`` and ``crashed``.
    """
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
    """Run the selected mutants, and return 1 if a mutant survives that is not known to be equivalent."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--module", action="append", choices=list(TARGETS), help="target to run (default: all)")
    parser.add_argument(
        "--sample", type=int, metavar="N", help="number of random mutants of each target (default: all)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--list", action="store_true", help="list the mutants without running them")
    options = parser.parse_args()
    # exit normally on SIGTERM, so that test processes are killed and the copies are removed
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
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
    """Run and report the mutants of a target, and return the number of survivors that are not equivalent."""
    target = TARGETS[name]
    if target.needs_node and "OPENSEARCH_URL" not in os.environ:
        print(f"{name}: skipped, because OPENSEARCH_URL is not set")
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
        [(mutant, "listed") for mutant in drawn] if options.list else outcomes(target, drawn, copies, sources)
    ):
        reason = EQUIVALENT.get((mutant.path, mutant.changed_line(sources[mutant.path])))
        outcome = "equivalent" if outcome == "survived" and reason else outcome
        counts[outcome] += 1
        if outcome not in ("killed", "equivalent"):
            print(f"{outcome}  {mutant.path}:{mutant.line}: {mutant.before} → {mutant.after}", flush=True)
    shown = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    noticeable = len(drawn) - counts["equivalent"] - counts["listed"]
    killed = (
        f"; {1 - counts['survived'] / noticeable:.1%} of the mutants that are not equivalent are killed"
        if noticeable
        else ""
    )
    print(f"{name}: {len(drawn)} of {len(mutants)} mutants: {shown}{killed}", flush=True)
    return counts["survived"]


if __name__ == "__main__":
    sys.exit(main())
