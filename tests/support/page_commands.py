"""Run the commands of a documentation page one after another, in the working directory of the test.

Commands of ``resift`` run in the test's process, since each new process would import torch again. All other commands,
and ``resift`` with a pipe or a redirection, run in a shell.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner

from resift.cli.main import main

DOCS = Path(__file__).parents[2] / "docs"
# Programs of commands. A code block whose first word is not one of them contains output or configuration.
PROGRAMS = {"resift", "curl", "export", "printf", "pip", "unzip", "mkdir", "cp", "python", "python3", "cat", "echo"}
_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
# Functions for the shell. They make ``resift`` a command, and let curl fail if the server reports an error.
_SHELL = """
resift() {{ {python} -m resift "$@"; }}
curl() {{ command curl --fail-with-body "$@"; }}
"""
# Environment variables before the program, such as ``RESIFT_MODEL=keywords resift serve``.
_ASSIGNMENTS = re.compile(r"^(?:[A-Z_]+=(?!\$\()\S* +)*")
# A command whose output becomes the value of a variable, such as ``VECTOR=$(curl …)``.
_SUBSTITUTION = re.compile(r"([A-Z_]+)=\$\(")


def blocks(page: Path) -> list[str]:
    """Return the code blocks of a page that have no language, or are marked as shell commands."""
    return [block for language, block in _BLOCK.findall(page.read_text("utf-8")) if language in ("", "sh")]


def commands(page: Path) -> Iterator[str]:
    """Yield the commands in the code blocks of a page. A command can have several lines.

    Raises:
        AssertionError: If a block ends before a command is complete, for example inside a quotation.
    """
    for block in blocks(page):
        first = _ASSIGNMENTS.sub("", block.strip()).split(maxsplit=1)[0]
        if first not in PROGRAMS and not _SUBSTITUTION.match(first):
            continue
        command = ""
        for line in block.splitlines():
            command += line + "\n"
            if is_complete(command):
                if words_of(command):
                    yield command.strip()
                command = ""
        assert not command, f"{page.name}: {command}"


def is_complete(command: str) -> bool:
    """Return whether a command needs no further line: no quote, here-document, pipe or continued line is open."""
    if command.endswith(("\\\n", "|\n")):
        return False
    if (end := re.search(r"<<'(\w+)'", command)) and not command.endswith(f"\n{end[1]}\n"):
        return False
    try:
        words_of(command)
    except ValueError:
        return False
    return True


def words_of(command: str) -> list[str]:
    """Split a command into words, without its comments.

    Raises:
        ValueError: If a quote is open at the end of the command.
    """
    return shlex.split(command.replace("\\\n", " "), comments=True)


@dataclass
class Terminal:
    """A terminal in which a reader types the commands of a page.

    Attributes:
        monkeypatch: Sets environment variables until the end of the test.
        replaced: Texts in commands, such as addresses, and the texts that replace them.
        transcript: The output of each command of the pages that were run.
    """

    monkeypatch: pytest.MonkeyPatch
    replaced: Mapping[str, str]
    transcript: dict[str, str] = field(default_factory=dict)

    def run_page(
        self, page: str, statuses: Mapping[str, int] | None = None, left_out: Mapping[str, str] | None = None
    ) -> None:
        """Run the commands of a page, and check the exit status of each.

        Args:
            page: The name of the page in docs/, such as "http.md".
            statuses: Expected exit statuses other than 0. The keys are beginnings of commands.
            left_out: Commands that are not run. The keys are beginnings of commands, and the values are the reasons.

        Raises:
            AssertionError: If a command has another exit status, or the page has no command with one of the beginnings.
        """
        statuses, left_out = statuses or {}, left_out or {}
        used, failures = set(), []
        for command in commands(DOCS / page):
            if skipped := next((start for start in left_out if command.startswith(start)), None):
                used.add(skipped)
                continue
            start = next((start for start in statuses if command.startswith(start)), "")
            used.add(start)
            status, output = self.run(command)
            self.transcript[command] = output
            if status != statuses.get(start, 0):
                failures.append(f"{command}\nexit status {status}\n{output}")
        assert not failures, f"{page}: " + "\n".join(failures)
        assert {*statuses, *left_out} <= used, f"{page} has no such command: { ({*statuses, *left_out} - used) }"

    def run(self, command: str) -> tuple[int, str]:
        """Run a command, and return its exit status and its output.

        ``export`` and ``NAME=$(…)`` set variables for the commands that follow. Questions of ``resift`` are answered
        with y.
        """
        for old, new in self.replaced.items():
            command = command.replace(old, new)
        words = words_of(command)
        if words[0] == "export":
            for assignment in words[1:]:
                self.monkeypatch.setenv(*assignment.split("=", 1))
            return 0, ""
        if substitution := _SUBSTITUTION.match(command):
            status, output = self._run_in_shell(f'{command}\nprintf %s "${substitution[1]}"')
            self.monkeypatch.setenv(substitution[1], output)
            return status, output
        if words[0] == "resift" and not {"|", ">", "<"} & set(words):
            ran = CliRunner().invoke(main, words[1:], input="y\n")
            if ran.exception and not isinstance(ran.exception, SystemExit):
                raise ran.exception
            return ran.exit_code, ran.output
        return self._run_in_shell(command)

    def _run_in_shell(self, command: str) -> tuple[int, str]:
        """Run a command in bash, and return its exit status and its output. It may take up to 15 minutes."""
        definitions = _SHELL.format(python=shlex.quote(sys.executable))
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        ran = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", definitions + command],
            env={**os.environ, "PATH": path, "PYTHONPATH": str(DOCS.parent)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            timeout=900,
        )
        return ran.returncode, ran.stdout
