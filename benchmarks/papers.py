"""Reproduce the tables of the papers: ``RESIFT_DATA=DIR python benchmarks/papers.py [--only TEXT]``.

Each row of docs/results/ is the result of an evaluation command, in some cases after a training command. ``--commands``
prints these commands. Results are stored in .resift/papers/results, in a JSON file per command and seed. An interrupted
run therefore continues where it stopped. Delete the folder to run everything again. ``--only TEXT`` runs only rows
whose table or name contains TEXT, and draws only the plots of their tables. The values of all other rows come from
earlier runs, or remain as docs/results/ shows them. If a command fails, its error is printed. ``--report`` runs no
command: it writes the pages again, and draws the dot plots from the tables. Needs the extra ``lab``.
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
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from paper_report import Filled, cells, pages, percent, present_cells
from paper_rows import WORK, Report, Row, Table
from paper_tables import HELD_OUT, tables

from resift.encoders.tables import build_table
from resift.text import tokenize
from resift.vectors.table import WordVectors
from resift_lab.evaluation.data import read_collection

ROOT = Path(__file__).resolve().parents[1]
RESIFT = [sys.executable, "-m", "resift"]


def prepare() -> None:
    """Prepare the input of the commands: folders of word vectors, and 20 Newsgroups split by :data:`HELD_OUT`."""
    data = Path(os.environ["RESIFT_DATA"])
    for name in ("glove.6B.50d", "en_core_web_md.300d"):
        prepare_vectors(data / "vectors" / f"{name}.npz", WORK / "vectors" / name)
        select_vectors(WORK / "vectors" / name, data / "squad-train-part", WORK / "vectors" / f"{name}.squad")
    (WORK / "data").mkdir(parents=True, exist_ok=True)
    for part, split, inside in (("five", "test", True), ("fifteen", "train", False)):
        prepare_classes(data / f"20ng.{split}.jsonl.gz", WORK / "data" / f"20ng.{part}.{split}.jsonl.gz", inside)


def prepare_vectors(source: Path, folder: Path) -> None:
    """Convert word vectors from an .npz file to a folder of Resift, unless the folder exists.

    The arrays of the file are ``words`` (UTF-8 text, a word per line), ``vectors``, and optionally ``rows``, which maps
    each word to a row of ``vectors``.
    """
    if not folder.exists():
        with np.load(source) as arrays:
            words = arrays["words"].tobytes().decode("utf-8").split("\n")
            matrix = arrays["vectors"].astype(np.float32)
            matrix = matrix[arrays["rows"]] if "rows" in arrays else matrix
        build_table(words, matrix, "none", {"source": source.stem}).save(folder)


def select_vectors(source: Path, collection: Path, folder: Path) -> None:
    """Copy the vectors of the words in a collection's documents and queries, unless the folder exists.

    A table with other words cannot be combined with the layers of a transformer in the memory of a small machine.
    """
    if not folder.exists():
        table, texts = WordVectors.load(source), read_collection(collection)
        used = {word for text in (*texts.documents, *texts.queries) for word in tokenize(text)}
        rows = np.array([row for row, word in enumerate(table.words) if word in used])
        words = [table.words[row] for row in rows]
        WordVectors(words, table.rows(rows), table.weights[rows], info=table.info).save(folder)


def prepare_classes(source: Path, target: Path, inside: bool) -> None:
    """Copy the documents of the classes HELD_OUT (``inside``), or of all other classes, unless the target exists."""
    if not target.exists():
        with gzip.open(source, "rt", encoding="utf-8", newline="\n") as handle:
            lines = [line for line in handle if (json.loads(line)["label"] in HELD_OUT) is inside]
        if not lines:
            sys.exit(f"{source} contains no document of the required classes (held-out classes: {HELD_OUT})")
        target.write_bytes(gzip.compress("".join(lines).encode("utf-8")))


def call(command: str, *more: str) -> str:
    """Run a ``resift`` command and return its standard output.

    Raises:
        RuntimeError: If the command fails, with the last line of its error output.
    """
    arguments = [os.path.expandvars(word) for word in shlex.split(command)]
    done = subprocess.run([*RESIFT, *arguments, *more], capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}")
    return done.stdout


def report_of(row: Row, seed: int, may_run: bool) -> Report | None:
    """Return the report of a row from an earlier run, or run its commands.

    Returns:
        The report, or None if there is no earlier run and ``may_run`` is false, or if a command fails.
    """
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
    """Return the reports of each row of a table, one per seed, and print them as they arrive."""
    print(table.title, flush=True)
    reports_by_row: dict[str, list[Report]] = {}
    for row in table.rows:
        may_run = not report_only and only.lower() in f"{table.title}: {row.name}".lower()
        reports = [report for seed in row.seeds if (report := report_of(row, seed, may_run))]
        reports_by_row[row.name] = reports
        if reports:
            figures = (
                f"{name} {percent([figure(report) for report in reports])}" for name, figure in table.columns.items()
            )
            print(f"  {row.name:34}", "  ".join(figures), flush=True)
    return reports_by_row


def print_commands(only: str) -> None:
    """Print the shell commands of all rows whose table or name contains ``only``."""
    for table in tables():
        for row in table.rows:
            if only.lower() in f"{table.title}: {row.name}".lower():
                print(f"# {table.title}: {row.name}")
                for command in filter(None, row.commands(row.seeds[0])):
                    print(f"resift {command}")


def is_selected(table: Table, only: str) -> bool:
    """Return whether the title or the name of a row of a table contains ``only``. Case is ignored."""
    return any(only.lower() in f"{table.title}: {row.name}".lower() for row in table.rows)


def write(texts: dict[str, str], folder: Path) -> None:
    """Write the page of each text: its introduction from benchmarks/papers.md, followed by its tables.

    Args:
        texts: The tables of each page in Markdown, by the name of the page.
        folder: The folder of the pages.
    """
    introductions = (ROOT / "benchmarks" / "papers.md").read_text("utf-8").split("<!-- page: ")[1:]
    for name, _, words in (introduction.partition(" -->\n") for introduction in introductions):
        if name in texts:
            (folder / f"{name}.md").write_text(f"{words.strip()}\n\n{texts[name]}".strip() + "\n", "utf-8")


def main() -> None:
    """Run all rows without a result, and write docs/results/ and its plots."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="run only rows whose table or name contains this text")
    parser.add_argument("--report", action="store_true", help="run nothing, and write the results of earlier runs")
    parser.add_argument("--commands", action="store_true", help="run nothing, and print the commands of the rows")
    options = parser.parse_args()
    if options.commands:
        print_commands(options.only)
        return
    os.chdir(ROOT)
    if not options.report:
        if "RESIFT_DATA" not in os.environ:
            sys.exit("RESIFT_DATA is not set. Set it to the folder with the evaluation data.")
        prepare()
    update(tables(), options.only, options.report, ROOT / "docs")


def update(every: Sequence[Table], only: str, report_only: bool, docs: Path) -> None:
    """Run rows, and write the pages of all tables. Values without a new or stored result remain as they are.

    Args:
        every: All tables, in the order of the pages.
        only: Run only rows whose table or name contains this text, and draw only the plots of their tables.
        report_only: If true, nothing is run.
        docs: The folder of the documentation, with the folders ``results`` and ``plots``.
    """
    filled, present = [], present_cells(docs / "results")
    for table in every:
        selected = is_selected(table, only)
        reports = reports_of(table, only, report_only) if selected else {}
        rows = [cells(row, table, reports.get(row.name, []), present) for row in table.rows]
        filled.append(Filled(table, rows, reports, selected))
    write(pages(filled, docs), docs / "results")


if __name__ == "__main__":
    main()
