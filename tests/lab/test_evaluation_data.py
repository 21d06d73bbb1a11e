"""Readers of test collections: what they read, and what they say of malformed files."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from evaluation_fixtures import write_lines

from resift.errors import BadInput
from resift_lab.evaluation.data import (
    read_collection,
    read_labelled_documents,
    read_labelled_texts,
    read_sentence_pairs,
)


def assert_refused(read: Callable[[Any], object], path: str | Path, message: str) -> None:
    """A reader says what is wrong and what it expected."""
    with pytest.raises(BadInput, match=message) as caught:
        read(path)
    assert caught.value.expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no document"),
        (b'{"text": "a"}\n', "line 1: no label"),
        (b'{"text": "a", "label": null}\n', "line 1: label is None"),
        (b'{"text": "a", "label": 4.0}\n', "line 1: label is 4.0"),
        (b'{"text": "a", "label": ["x", "y"]}\n', r"line 1: label is \['x', 'y'\]"),
        (b'\n{"text": 3, "label": "x"}\n', "line 2: text is 3"),
        (b'{"label": "x"}\n', "line 1: no text"),
        (b'{"text": "a", "label": "x"}\n[1]\n', "line 2 is not a JSON object"),
        (b"{broken\n", "line 1: "),
        (b"\xff\xfe", "line 1 cannot be read"),
        (b'{"text": "a", "label": "x"}\n\n{"text": "caf\xe9", "label": "x"}\n', "line 3 cannot be read"),
        (gzip.compress(b'{"text": "a", "label": "x"}\n', mtime=0)[:-6], "cannot be read"),
        (gzip.compress(b'{"text": "a", "label": "x"}\n', mtime=0)[:10] + b"\xff" * 20, "cannot be read"),
    ],
)
def test_malformed_classes(here: Path, content: bytes, message: str) -> None:
    (here / "bad.jsonl").write_bytes(content)
    assert_refused(read_labelled_documents, here / "bad.jsonl", message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no column score, sentence1, sentence2"),
        ("task\tscore\tsentence1\n", "no column sentence2"),
        ("score\tsentence1\tsentence2\n", "holds no pair"),
        ("score\tsentence1\tsentence2\n1\ta\n", "line 2: 2 columns"),
        ("score\tsentence1\tsentence2\nhigh\ta\tb\n", "line 2: score 'high'"),
        ("score\tsentence1\tsentence2\nnan\ta\tb\n", "line 2: score 'nan'"),
    ],
)
def test_malformed_pairs(here: Path, content: str, message: str) -> None:
    (here / "bad.tsv").write_text(content)
    assert_refused(read_sentence_pairs, here / "bad.tsv", message)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("qrels/test.tsv", None, "has no qrels.tsv"),
        ("corpus.jsonl", None, "has no corpus.jsonl"),
        ("corpus.jsonl", "", "is empty"),
        ("corpus.jsonl", '{"_id": "0", "text": "a"}\n{"_id": "0", "text": "b"}\n', "'0' was there before"),
        ("corpus.jsonl", '{"text": "a"}\n', "no _id"),
        ("corpus.jsonl", '{"_id": "0", "title": 3, "text": "a"}\n', "line 1: title is 3"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\t99\t1\n", "document '99' is not in the corpus"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq9\t1\t1\n", "query 'q9' is not among the queries"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\t1\n", "2 columns"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\t1\t0\n", "no query has a relevant document"),
        ("qrels/test.tsv", "q1\t0\t1\n", "its first line"),
        (
            "qrels/test.tsv",
            "query-id\tcorpus-id\tscore\nq1\t0\t1\nq1\t0\t1\nq1\t0\t0\n",
            "line 4: query 'q1' and document '0' had the score 1 before",
        ),
    ],
)
def test_malformed_collections(collection: str, name: str, content: str | None, message: str) -> None:
    path = Path(collection, name)
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    assert_refused(read_collection, collection, message)


def test_qrels_and_titles_of_a_collection_are_read(collection: str) -> None:
    folder = Path(collection)
    rows = gzip.compress(b"query-id\tcorpus-id\tscore\nq2\t7\t1\n")
    (folder / "qrels.tsv.gz").write_bytes(rows)
    write_lines(folder / "corpus.jsonl", [{"_id": 7, "title": "Rain", "text": "falls"}, {"_id": "8", "text": "x"}])
    found = read_collection(folder)
    assert found.documents == ["Rain falls", "x"]
    assert (found.query_ids, found.grades, found.skipped, found.name) == (["q2"], [{0: 1.0}], 2, "beir")


def test_training_labels_are_read(here: Path) -> None:
    labels = ["fire", 7, {"fire": 0.5, "war": 2}]
    path = write_lines(here / "c.jsonl.gz", [{"text": "a", "label": label} for label in labels])
    assert read_labelled_texts(path) == (["a"] * 3, labels)


def test_only_line_feeds_end_lines(here: Path) -> None:
    (here / "c.jsonl").write_bytes('\ufeff{"text": "a\u2028b", "label": 1}\r\n\n{"text": "", "label": "x"}'.encode())
    found = read_labelled_documents(here / "c.jsonl")
    assert (found.ids, found.texts, found.labels) == (["1", "3"], ["a\u2028b", ""], ["1", "x"])
