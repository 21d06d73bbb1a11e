"""Readers of test collections: labelled documents, sentence pairs and BEIR folders; plain or gzip.

What is wrong with a file is told with its line; nothing is guessed.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput

Positions = NDArray[np.int64]
_ENDINGS, _LEAST = ("", ".gz"), 10


@dataclass(frozen=True)
class Classes:
    """Labelled documents, three lists of one length."""

    ids: list[str]
    texts: list[str]
    labels: list[str]


@dataclass(frozen=True)
class SentencePairs:
    """Sentence pairs with gold scores, five lists' worth of one length; ``tasks`` names the part of each pair."""

    name: str
    tasks: list[str]
    scores: list[float]
    left: list[str]
    right: list[str]


@dataclass(frozen=True)
class Collection:
    """A retrieval collection.

    ``documents`` and ``queries`` are texts beside ``document_ids`` and ``query_ids``; ``grades`` holds, for each query,
    document position → grade (above 0 is relevant). Only queries with a relevant document are held; ``skipped``
    counts the others.
    """

    name: str
    document_ids: list[str]
    documents: list[str]
    query_ids: list[str]
    queries: list[str]
    grades: list[dict[int, float]]
    skipped: int


def read_classes(path: str | Path) -> Classes:
    """Labelled documents from JSON lines with ``text`` and ``label`` (string or integer) and, if there is one, ``id``.

    An empty text is a document; a missing label is an error, as is a file without documents.
    """
    found = Classes([], [], [])
    for number, record in _json_lines(Path(path)):
        where = f"{path}, line {number}"
        label = record.get("label")
        if isinstance(label, bool) or not isinstance(label, (str, int)) or label == "":
            raise BadInput(f"{where}: no label", value=label, expected='"label": a string or an integer')
        found.ids.append(str(record.get("id", record.get("_id", number))))
        found.texts.append(_text(record, "text", where))
        found.labels.append(str(label))
    if not found.ids:
        raise BadInput(f"{path} holds no document", value=str(path), expected='lines {"id", "text", "label"}')
    return found


def read_pairs(path: str | Path) -> SentencePairs:
    """Sentence pairs from tab-separated lines, no quoting, with a header line.

    Columns ``score``, ``sentence1``, ``sentence2`` and, if there is one, ``task`` (else all pairs are one task, named
    as the file), in any order. Scores are finite numbers of any range.
    """
    path = Path(path)
    name = path.name.removesuffix(".gz").removesuffix(".tsv")
    lines = _lines(path)
    header = next(lines, (0, ""))[1].split("\t")
    places = {
        column: header.index(column) for column in ("task", "score", "sentence1", "sentence2") if column in header
    }
    if missing := [column for column in ("score", "sentence1", "sentence2") if column not in places]:
        raise BadInput(
            f"{path} has no column {', '.join(missing)}",
            value="\t".join(header),
            expected="a header line: task, score, sentence1, sentence2, tab-separated",
        )
    found = SentencePairs(name, [], [], [], [])
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != len(header):
            raise BadInput(
                f"{path}, line {number}: {len(cells)} columns", value=line, expected=f"{len(header)}, as the header has"
            )
        found.scores.append(_number(cells[places["score"]], f"{path}, line {number}"))
        found.tasks.append(cells[places["task"]] if "task" in places else name)
        found.left.append(cells[places["sentence1"]])
        found.right.append(cells[places["sentence2"]])
    if not found.scores:
        raise BadInput(f"{path} holds no pair", value=str(path), expected="lines below the header")
    return found


def read_collection(folder: str | Path, part: str | None = None) -> Collection:
    """A BEIR folder: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels.tsv`` or ``qrels/test.tsv``, each plain or .gz.

    ``part`` asks for the judgements of ``qrels/PART.tsv`` (``train``, ``dev``, ``test``). A document's text is its
    title, if any, a blank and its text. Errors: an id twice, a judgement of a document or query that is not there, no
    judged query at all.
    """
    folder = Path(folder)
    corpus, queries, qrels = (
        _one_of(folder, names)
        for names in (
            ("corpus.jsonl",),
            ("queries.jsonl",),
            (f"qrels/{part}.tsv",) if part else ("qrels.tsv", "qrels/test.tsv"),
        )
    )
    documents = _records(corpus, titled=True)
    asked = _records(queries)
    positions = {key: position for position, key in enumerate(documents)}
    judged: dict[str, dict[int, float]] = {}
    for number, query, document, grade in _judgements(qrels):
        where = f"{qrels}, line {number}"
        if document not in positions:
            raise BadInput(f"{where}: document {document!r} is not in the corpus", value=document, expected=str(corpus))
        if query not in asked:
            raise BadInput(f"{where}: query {query!r} is not among the queries", value=query, expected=str(queries))
        judged.setdefault(query, {})[positions[document]] = grade
    kept = [key for key in asked if any(grade > 0 for grade in judged.get(key, {}).values())]
    if not kept:
        raise BadInput(f"{folder}: no query has a relevant document", value=str(folder), expected="a score above 0")
    return Collection(
        folder.resolve().name,
        list(documents),
        list(documents.values()),
        kept,
        [asked[key] for key in kept],
        [judged[key] for key in kept],
        len(asked) - len(kept),
    )


def has_part(folder: str | Path, part: str) -> bool:
    """Whether a BEIR folder has judgements of its own for a part: ``qrels/PART.tsv``, plain or .gz."""
    return any((Path(folder) / "qrels" / f"{part}.tsv{ending}").is_file() for ending in _ENDINGS)


def with_queries(collection: Collection, places: Sequence[int]) -> Collection:
    """The collection with only the queries at ``places``."""
    return replace(
        collection,
        query_ids=[collection.query_ids[place] for place in places],
        queries=[collection.queries[place] for place in places],
        grades=[collection.grades[place] for place in places],
    )


@dataclass(frozen=True)
class Split:
    """Places of a collection's queries: what is learnt from, what chooses, what judges."""

    train: Positions
    validation: Positions
    test: Positions


def block_split(collection: Collection, shares: Sequence[float]) -> Split:
    """Contiguous blocks of queries, ordered by their first relevant document's place in the collection.

    ``shares`` of training, validation and test, in any unit (60, 10, 30). A block ends where a document's queries end,
    so that no first document is on two sides. Raises BadInput where a part that is wanted gets fewer than ten queries.
    """
    if len(shares) != 3 or min(shares) < 0 or shares[0] <= 0 or shares[1] <= 0 or not np.isfinite(shares).all():
        raise BadInput(
            f"split {list(shares)}", value=list(shares), expected="training, validation and test, as 60,10,30"
        )
    first = np.array([min(place for place, grade in found.items() if grade > 0) for found in collection.grades])
    order = np.argsort(first, kind="stable")
    ends = np.round(np.cumsum(shares[:2]) / sum(shares) * len(order)).astype(int)
    cuts = [int(np.searchsorted(first[order], first[order[end - 1]], "right")) if end else 0 for end in ends]
    if shares[2] == 0:
        cuts[1] = len(order)
    parts = Split(order[: cuts[0]], order[cuts[0] : cuts[1]], order[cuts[1] :])
    for name, share in zip(("train", "validation", "test"), shares, strict=True):
        if share and len(getattr(parts, name)) < _LEAST:
            raise BadInput(
                f"{len(getattr(parts, name))} {name} queries of {len(order)}",
                value=len(order),
                expected=f"{_LEAST} or more in each part: more judged queries, or another split",
            )
    return parts


def _one_of(folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        for ending in _ENDINGS:
            if (path := folder / f"{name}{ending}").is_file():
                return path
    raise BadInput(f"{folder} has no {names[0]}", value=str(folder), expected=f"{' or '.join(names)}, plain or .gz")


def _records(path: Path, titled: bool = False) -> dict[str, str]:
    """Id → text."""
    found: dict[str, str] = {}
    for number, record in _json_lines(path):
        where = f"{path}, line {number}"
        key = record.get("_id")
        if isinstance(key, bool) or not isinstance(key, (str, int)) or key == "":
            raise BadInput(f"{where}: no _id", value=key, expected='"_id": a string')
        if str(key) in found:
            raise BadInput(f"{where}: _id {key!r} was there before", value=key, expected="each _id once")
        text = _text(record, "text", where)
        title = _text(record, "title", where) if titled and record.get("title") is not None else ""
        found[str(key)] = f"{title} {text}".strip() if title else text
    if not found:
        raise BadInput(f"{path} is empty", value=str(path), expected="JSON lines")
    return found


def _judgements(path: Path) -> Iterator[tuple[int, str, str, float]]:
    lines = _lines(path)
    header = next(lines, (0, ""))[1].split("\t")
    if header[:3] != ["query-id", "corpus-id", "score"]:
        raise BadInput(f"{path}: its first line is {header!r}", expected="query-id, corpus-id, score, tab-separated")
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != len(header):
            raise BadInput(f"{path}, line {number}: {len(cells)} columns", value=line, expected=str(len(header)))
        yield number, cells[0], cells[1], _number(cells[2], f"{path}, line {number}")


def _number(text: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadInput(f"{where}: score {text!r}", value=text, expected="a finite number")
    return number


def _text(record: dict[str, Any], key: str, where: str) -> str:
    text = record.get(key)
    if not isinstance(text, str):
        raise BadInput(f"{where}: no {key}", value=text, expected=f'"{key}": a string')
    return text


def _json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in _lines(path):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise BadInput(f"{path}, line {number}: {error}", value=line, expected="a JSON object") from error
        if not isinstance(record, dict):
            raise BadInput(f"{path}, line {number} is no JSON object", value=line, expected="a JSON object")
        yield number, record


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines of a UTF-8 file, blank ones left out; gzip is known by its first bytes."""
    try:
        with path.open("rb") as probe:
            opener: Any = gzip.open if probe.read(2) == b"\x1f\x8b" else open
        with opener(path, "rt", encoding="utf-8-sig", newline="\n") as handle:
            for number, line in enumerate(handle, 1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}", value=str(path), expected="a UTF-8 file, or gzip") from error
