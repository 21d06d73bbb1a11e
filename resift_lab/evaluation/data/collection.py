"""Read retrieval collections: documents, queries and graded judgements in a BEIR folder."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from resift.errors import BadInput
from resift_lab.evaluation.data.lines import (
    cells_of,
    finite_number,
    header_of,
    json_objects,
    numbered_lines,
    text_of,
    unfit,
)
from resift_lab.evaluation.data.workbench import read_judgment_list

_ENDINGS = ("", ".gz")
Judged = tuple[str, str, str, float]  # where it stands, a query, a document and its grade


@dataclass(frozen=True)
class Collection:
    """A retrieval collection. It contains only queries with a relevant document.

    Attributes:
        name: Name of the collection.
        document_ids: Ids of the documents.
        documents: Texts of the documents.
        query_ids: Ids of the queries.
        queries: Texts of the queries.
        grades: For each query, grades by the position of the document. Grades above 0 mean relevant.
        skipped: Number of queries without a relevant document.
    """

    name: str
    document_ids: list[str]
    documents: list[str]
    query_ids: list[str]
    queries: list[str]
    grades: list[dict[int, float]]
    skipped: int


def read_collection(folder: str | Path, part: str | None = None, judgments: str | Path | None = None) -> Collection:
    """Read a BEIR folder: ``corpus.jsonl``, ``queries.jsonl``, and ``qrels.tsv`` or ``qrels/test.tsv``.

    The text of a document is its title, if it has one, a space and its text.

    Args:
        folder: The folder.
        part: Reads the judgements of ``qrels/PART.tsv`` (``train``, ``dev`` or ``test``) instead.
        judgments: A judgement list of the Search Relevance Workbench. Its queries and ratings replace the files of
            queries and qrels.

    Raises:
        BadInput: If a file is missing or malformed, an id occurs twice, a judgement has two grades, a judged document
            or query does not exist, or no query has a relevant document.
    """
    folder = Path(folder)
    documents = read_texts(corpus_file(folder), titled=True)
    positions = {key: position for position, key in enumerate(documents)}
    queries, grades = read_judgements(folder, part, judgments, documents)
    judged = [key for key in queries if any(grade > 0 for grade in grades.get(key, {}).values())]
    if not judged:
        raise BadInput(f"{folder}: no query has a relevant document", value=str(folder), expected="a score above 0")
    return Collection(
        name=folder.resolve().name,
        document_ids=list(documents),
        documents=list(documents.values()),
        query_ids=judged,
        queries=[queries[key] for key in judged],
        grades=[{positions[id]: grade for id, grade in grades[key].items()} for key in judged],
        skipped=len(queries) - len(judged),
    )


def read_judgements(
    folder: Path, part: str | None = None, judgments: str | Path | None = None, corpus: Container[str] | None = None
) -> tuple[dict[str, str], dict[str, dict[str, float]]]:
    """Read the queries and judgements of a BEIR folder.

    The other arguments and errors are those of :func:`read_collection`.

    Args:
        folder: The folder.
        part: The part of the judgements.
        judgments: A judgement list.
        corpus: The ids of all documents, or None if they are unknown.

    Returns:
        Texts of queries by their ids, and grades by the ids of the query and the document.
    """
    query_file, queries, qrels = _judged_queries(folder, part, judgments)
    grades: dict[str, dict[str, float]] = {}
    for where, query, document, grade in qrels:
        if corpus is not None and document not in corpus:
            message = f"{where}: document {document!r} is not in the corpus"
            raise BadInput(message, value=document, expected="an _id of corpus.jsonl")
        if query not in queries:
            raise BadInput(f"{where}: query {query!r} is not among the queries", value=query, expected=str(query_file))
        before = grades.setdefault(query, {}).setdefault(document, grade)
        if before != grade:
            message = f"{where}: query {query!r} and document {document!r} had the score {before:g} before"
            raise BadInput(message, value=grade, expected="each pair once")
    return queries, grades


def _judged_queries(
    folder: Path, part: str | None, judgments: str | Path | None
) -> tuple[Path, dict[str, str], Iterator[Judged]]:
    """Return the file of the queries, their texts by id, and the judgements."""
    if judgments is None:
        query_file = first_file(folder, "queries.jsonl")
        names = [f"qrels/{part}.tsv"] if part else ["qrels.tsv", "qrels/test.tsv"]
        return query_file, read_texts(query_file), _qrels(first_file(folder, *names))
    if part:
        raise BadInput(f"part {part} and a judgement list", value=part, expected="one of them")
    rated = read_judgment_list(judgments)
    rows = ((str(judgments), query, id, grade) for query, ratings in rated.items() for id, grade in ratings.items())
    return Path(judgments), {query: query for query in rated}, rows


def corpus_file(folder: str | Path) -> Path:
    """Return the path of the documents in a BEIR folder.

    Raises:
        BadInput: If there is no such file.
    """
    return first_file(Path(folder), "corpus.jsonl")


def has_part(folder: str | Path, part: str) -> bool:
    """Return whether a BEIR folder has separate judgements for a part: ``qrels/PART.tsv``."""
    return any((Path(folder) / "qrels" / f"{part}.tsv{ending}").is_file() for ending in _ENDINGS)


def with_queries(collection: Collection, positions: Sequence[int]) -> Collection:
    """Return the collection with only the queries at ``positions``."""
    return replace(
        collection,
        query_ids=[collection.query_ids[position] for position in positions],
        queries=[collection.queries[position] for position in positions],
        grades=[collection.grades[position] for position in positions],
    )


def first_file(folder: Path, *names: str) -> Path:
    """Return the first existing file of several names, plain or with the ending ``.gz``."""
    for name in names:
        for ending in _ENDINGS:
            if (path := folder / f"{name}{ending}").is_file():
                return path
    raise BadInput(f"{folder} has no {names[0]}", value=str(folder), expected=f"{' or '.join(names)}, plain or .gz")


def read_texts(path: Path, titled: bool = False) -> dict[str, str]:
    """Read texts by id, in the order of the file.

    Raises:
        BadInput: If a line is malformed, an id occurs twice, or the file is empty.
    """
    texts: dict[str, str] = {}
    for number, record in json_objects(path):
        where = f"{path}, line {number}"
        key = record.get("_id")
        if isinstance(key, bool) or not isinstance(key, (str, int)) or key == "":
            raise unfit(record, "_id", where, '"_id": a string')
        if str(key) in texts:
            raise BadInput(f"{where}: _id {key!r} was there before", value=key, expected="each _id once")
        text = text_of(record, "text", where)
        title = text_of(record, "title", where) if titled and record.get("title") is not None else ""
        texts[str(key)] = f"{title} {text}".strip() if title else text
    if not texts:
        raise BadInput(f"{path} is empty", value=str(path), expected="JSON lines")
    return texts


def _qrels(path: Path) -> Iterator[Judged]:
    lines = numbered_lines(path)
    header = header_of(lines)
    if header[:3] != ["query-id", "corpus-id", "score"]:
        raise BadInput(f"{path}: its first line is {header!r}", expected="query-id, corpus-id, score, tab-separated")
    for number, line in lines:
        where = f"{path}, line {number}"
        query, document, grade, *_ = cells_of(line, len(header), where)
        yield where, query, document, finite_number(grade, where)
