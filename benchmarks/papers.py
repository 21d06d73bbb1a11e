"""Reruns the papers' tables: ``RESIFT_DATA=DIR python benchmarks/papers.py [--only TEXT]``.

Every row of docs/results/ is one or two commands (training, evaluation), which ``--commands`` prints. Results are
kept in .resift/papers/results, one JSON file a command and seed, so that an interrupted run goes on where it was;
delete the folder to start afresh. ``--only TEXT`` runs the rows whose table or name holds TEXT; the rest are taken
from earlier runs. If a row's command fails, its error is printed and the row is left empty. Needs the extras ``train``,
``distill`` and ``eval``.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
from paper_report import cells, pages, percent, plots
from paper_rows import WORK, Report, Row, Table
from paper_tables import HELD_OUT, tables

from resift.encoders.tables import build_table

ROOT = Path(__file__).resolve().parents[1]
RESIFT = [sys.executable, "-m", "resift"]


def prepare() -> None:
    """Make what the commands need: word vectors as folders of ours, and 20NG without the five classes."""
    data = Path(os.environ["RESIFT_DATA"])
    for name in ("glove.6B.50d", "en_core_web_md.300d"):
        prepare_vectors(data / "vectors" / f"{name}.npz", WORK / "vectors" / name)
    (WORK / "data").mkdir(parents=True, exist_ok=True)
    for part, split, inside in (("five", "test", True), ("fifteen", "train", False)):
        prepare_classes(data / f"20ng.{split}.jsonl.gz", WORK / "data" / f"20ng.{part}.{split}.jsonl.gz", inside)


def prepare_vectors(source: Path, folder: Path) -> None:
    """Convert word vectors from an .npz file: ``words``, ``vectors`` and perhaps ``rows``, each word's row in them."""
    if not folder.exists():
        with np.load(source) as held:
            words = held["words"].tobytes().decode("utf-8").split("\n")
            matrix = held["vectors"].astype(np.float32)
            matrix = matrix[held["rows"]] if "rows" in held else matrix
        build_table(words, matrix, "none", {"source": source.stem}).save(folder)


def prepare_classes(source: Path, target: Path, inside: bool) -> None:
    """Copy the documents whose class is among HELD_OUT (``inside``) or is not."""
    if not target.exists():
        with gzip.open(source, "rt", encoding="utf-8", newline="\n") as handle:
            lines = [line for line in handle if (json.loads(line)["label"] in HELD_OUT) is inside]
        if not lines:
            sys.exit(f"no document of {HELD_OUT} in {source}")
        target.write_bytes(gzip.compress("".join(lines).encode("utf-8")))


def call(command: str, *more: str) -> str:
    """Standard output of ``resift`` with these arguments; RuntimeError with its message if it fails."""
    arguments = [os.path.expandvars(word) for word in shlex.split(command)]
    done = subprocess.run([*RESIFT, *arguments, *more], capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}")
    return done.stdout


def report_of(row: Row, seed: int, may_run: bool) -> Report | None:
    """The row's report, from an earlier run or a new one; None if there is none, or its commands fail."""
    train, evaluate = row.commands(seed)
    path = WORK / "results" / f"{hashlib.sha256(f'{train}|{evaluate}'.encode()).hexdigest()[:16]}.json"
    if path.exists():
        earlier: Report = json.loads(path.read_text("utf-8"))["report"]
        return earlier
    if not may_run:
        return None
    try:
        out = train.rpartition(" ")[2]
        if train and not any(Path(out).glob("*.json")):
            call(train)
        report: Report = json.loads(call(evaluate, "--json"))
    except (RuntimeError, ValueError) as error:
        print(f"  {row.name}, seed {seed}: {error}", flush=True)
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".part")
    fresh.write_text(json.dumps({"train": train, "evaluate": evaluate, "report": report}, indent=1), "utf-8")
    fresh.replace(path)
    return report


def reports_of(table: Table, only: str, report_only: bool) -> dict[str, list[Report]]:
    """The reports of each row by its name, a report a seed; printed as they come."""
    print(table.title, flush=True)
    found: dict[str, list[Report]] = {}
    for row in table.rows:
        may_run = not report_only and only.lower() in f"{table.title}: {row.name}".lower()
        reports = [report for seed in row.seeds if (report := report_of(row, seed, may_run))]
        found[row.name] = reports
        if reports:
            figures = (
                f"{name} {percent([figure(report) for report in reports])}" for name, figure in table.columns.items()
            )
            print(f"  {row.name:34}", "  ".join(figures), flush=True)
    return found


def print_commands(only: str) -> None:
    """Print the commands of rows whose table or name holds ``only``, as they can be typed."""
    for table in tables():
        for row in table.rows:
            if only.lower() in f"{table.title}: {row.name}".lower():
                print(f"# {table.title}: {row.name}")
                for command in filter(None, row.commands(row.seeds[0])):
                    print(f"resift {command}")


def write(texts: dict[str, str]) -> None:
    """Put the tables of each page below what benchmarks/papers.md says of it."""
    introductions = (ROOT / "benchmarks" / "papers.md").read_text("utf-8").split("<!-- page: ")[1:]
    for name, _, words in (one.partition(" -->\n") for one in introductions):
        (ROOT / "docs" / "results" / f"{name}.md").write_text(f"{words.strip()}\n\n{texts[name]}\n", "utf-8")


def main() -> None:
    """Run what is missing, and write docs/results/ with its plots."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="rows whose table or name holds this text")
    parser.add_argument("--report", action="store_true", help="run nothing, only write what earlier runs found")
    parser.add_argument("--commands", action="store_true", help="run nothing, only print the rows' commands")
    options = parser.parse_args()
    if options.commands:
        print_commands(options.only)
        return
    if "RESIFT_DATA" not in os.environ:
        sys.exit("RESIFT_DATA names the folder with the evaluation data")
    os.chdir(ROOT)
    prepare()
    parts = []
    for table in tables():
        reports = reports_of(table, options.only, options.report)
        rows = [cells(row, table.columns, reports[row.name]) for row in table.rows]
        parts.append((table, rows, plots(table, reports, ROOT / "docs" / "plots")))
    write(pages(parts, ROOT / "docs" / "plots"))


if __name__ == "__main__":
    main()
