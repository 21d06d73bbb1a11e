"""Fixtures with small test collections in files, and functions that run ``resift eval``."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from resift import WordVectors

TOPICS = {"fire": ["fire", "bush", "flame", "smoke", "forest", "tree"], "war": ["army", "gun", "soldier", "war"]}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty folder and return its path."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def folder(here: Path, vectors: WordVectors) -> str:
    """Return a folder with word vectors."""
    return str(vectors.save(here / "vectors"))


@pytest.fixture
def corpus(here: Path) -> list[str]:
    """Write two files of labelled documents, and return the options --train and --test."""
    train = write_lines(here / "train.jsonl.gz", documents(40, 0))
    return ["--train", train, "--test", write_lines(here / "test.jsonl", documents(15, 1))]


@pytest.fixture
def pairs(here: Path) -> str:
    """Write a file of sentence pairs of two tasks, and return its path."""
    rng = np.random.default_rng(3)
    lines = ["task\tscore\tsentence1\tsentence2"]
    for i in range(40):
        first, second = rng.choice(list(TOPICS), 2)
        left, right = (" ".join(rng.choice(TOPICS[topic], 3)) for topic in (first, second))
        lines.append(f'{"ab"[i % 2]}\t{4 * (first == second) + rng.random():.2f}\t{left} "the\t{right}')
    path = here / "own.tsv.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return str(path)


@pytest.fixture
def collection(here: Path) -> str:
    """Write a folder in BEIR's layout, and return its path.

    A query has no judgements. Some relevant documents share no word with the query.
    """
    folder = here / "beir"
    (folder / "qrels").mkdir(parents=True)
    texts = [
        "fire in the bush",
        "flame and smoke",
        "tree of the forest",
        "army",
        "a gun",
        "soldier at war",
        "",
        "river",
    ]
    write_lines(folder / "corpus.jsonl", [{"_id": str(i), "title": "", "text": text} for i, text in enumerate(texts)])
    queries = [{"_id": "q1", "text": "bush fire"}, {"_id": "q2", "text": "war"}, {"_id": "q3", "text": "unjudged"}]
    write_lines(folder / "queries.jsonl.gz", queries)
    judged = [("q1", "0", 2), ("q1", "1", 1), ("q1", "3", 0), ("q2", "3", 1), ("q2", "5", 1)]
    rows = "".join(f"{query}\t{document}\t{score}\n" for query, document, score in judged)
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    return str(folder)


def run(*arguments: str, status: int = 0) -> str:
    """Run ``resift eval`` and return its output, or the error message if it fails."""
    from resift.cli.main import main  # imported here, because every test loads this file

    result = CliRunner().invoke(main, ["eval", *arguments])
    assert result.exit_code == status, result.output
    return result.stdout if status == 0 else result.output


def loaded(*arguments: str) -> dict[str, Any]:
    """Run ``resift eval`` with ``--json`` and return the JSON."""
    output: dict[str, Any] = json.loads(run(*arguments, "--json"))
    return output


def write_lines(path: Path, records: list[dict[str, Any]]) -> str:
    """Write rows as JSON lines, compressed if the name ends in .gz, and return the path."""
    data = "".join(f"{json.dumps(record)}\n" for record in records).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def documents(count: int, seed: int) -> list[dict[str, Any]]:
    """Return labelled documents with words on a topic and other words."""
    rng = np.random.default_rng(seed)
    return [
        {
            "id": f"d{i}",
            "text": " ".join([*rng.choice(TOPICS[label], 4), *rng.choice(["the", "of", "a"], 4)]),
            "label": label,
        }
        for i, label in enumerate(rng.choice(list(TOPICS), count))
    ]
