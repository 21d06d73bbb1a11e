"""Tests of GitHub workflows and issue templates: they parse, and use existing commands and files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FILES = [*sorted(GITHUB.rglob("*.yml")), ROOT / ".pre-commit-config.yaml"]
TARGETS = set(re.findall(r"^([\w./-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
ACTION = re.compile(r"[\w.-]+/[\w.-]+@(v\d+(\.\d+)*|release/v\d+|[0-9a-f]{40})")
# files that workflows create before they use them
MADE = {"dist/", "build/sbom.json", "notes.md", "release", "release/notes.md", "release/build/sbom.json"}


def each(files: list[Path]) -> pytest.MarkDecorator:
    """Parametrize a test by files, with their names as ids."""
    return pytest.mark.parametrize("file", files, ids=lambda file: file.name)


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the steps of all jobs. A job that calls another workflow counts as a step."""
    return [step for job in workflow["jobs"].values() for step in job.get("steps", [job])]


@each(FILES)
def test_workflows_are_valid_yaml(file: Path) -> None:
    assert isinstance(yaml.safe_load(file.read_text("utf-8")), dict)


@each(WORKFLOWS)
def test_workflows_have_read_only_permissions_by_default(file: Path) -> None:
    workflow = yaml.safe_load(file.read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert "uses" in job or "runs-on" in job
        needs = job.get("needs", [])
        assert set([needs] if isinstance(needs, str) else needs) <= set(workflow["jobs"])


@each(WORKFLOWS)
def test_actions_have_a_version(file: Path) -> None:
    for step in steps(yaml.safe_load(file.read_text("utf-8"))):
        if (used := step.get("uses", "./")).startswith("./"):
            assert (ROOT / used).exists(), used
        else:
            assert ACTION.fullmatch(used), used


@each(WORKFLOWS)
def test_commands_and_files_exist(file: Path) -> None:
    for step in steps(yaml.safe_load(file.read_text("utf-8"))):
        script = step.get("run", "")
        for targets in re.findall(r"\bmake ([\w ./-]+)", script):
            assert set(targets.split()) <= TARGETS, targets
        for word in re.findall(r"(?<![\w*$/.])[.\w][\w.-]*(?:/[\w.-]*)+(?!\*)|\b[\w-]+\.(?:lock|md|toml|py)\b", script):
            assert word in MADE or (ROOT / word).exists(), word


def test_every_workflow_is_checked() -> None:
    assert [file.stem for file in WORKFLOWS] == ["ci", "nightly", "release"]
    assert {"test", "test-versions", "lock", "dist", "sbom"} <= TARGETS


def test_hooks_before_a_commit_run_the_tools_of_the_environment() -> None:
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert local["repo"] == "local"
    assert {hook["entry"].split()[0] for hook in local["hooks"]} == {".venv/bin/ruff", ".venv/bin/mypy"}
