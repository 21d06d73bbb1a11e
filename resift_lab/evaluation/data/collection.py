"""Read retrieval collections: documents, queries and graded judgements in a BEIR folder."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from resift.errors import BadInput
from resift_lab.evaluation.data.lines import (
    invalid_value,
    json_objects,
    numbered_lines,
    parse_finite_number,
    read_header,
    required_text,
    split_cells,
)
from resift_lab.evaluation.data.workbench import read_judgment_list

_SUFFIXES = ("", ".gz")
Judged = tuple[str, str, str, float]  # a judgement: its file and line, the query's id, the document's id, the grade


@dataclass(frozen=True)
class Collection:
    """A retrieval test collection: documents, queries and relevance judgements.

    Every query has at least one relevant document.

    Attributes:
        name: Name of the collection.
        document_ids: Ids of the documents.
        documents: Texts of the documents, in the order of ``document_ids``.
        query_ids: Ids of the queries.
        queries: Texts of the queries, in the order of ``query_ids``.
        grades: For each query, the grades of its judged documents, by the position of the document in ``documents``. A
            grade above 0 means relevant.
        skipped: Number of queries that were left out because they have no relevant document.
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

    If a document has a title, the title is put before its text, separated by a space.

    Args:
        folder: A folder in BEIR's layout.
        part: ``train``, ``dev`` or ``test``, to read the judgements of ``qrels/PART.tsv``. None reads ``qrels.tsv`` or,
            if it does not exist, ``qrels/test.tsv``.
        judgments: A judgement list of OpenSearch's Search Relevance Workbench. If set, its queries and ratings are used
            instead of ``queries.jsonl`` and the qrels.

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
    """Read the queries and judgements of a BEIR folder, without its documents.

    Args:
        folder: A folder in BEIR's layout.
        part: ``train``, ``dev`` or ``test``, to read the judgements of ``qrels/PART.tsv``, or None.
        judgments: A judgement list that replaces the queries and judgements of the folder, or None.
        corpus: The ids of all documents. If None, judgements of documents that do not exist are accepted.

    Returns:
        The texts of the queries by id, and the grades: ``grades[query id][document id]``.

    Raises:
        BadInput: If a file is missing or malformed, a judgement has two grades, or a judged document or query does not
            exist.
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
    """Open the queries and judgements of a test collection.

    Args:
        folder: The folder in BEIR's layout.
        part: Name of a part of the queries, such as ``train``. None reads the judgements in ``qrels.tsv``, or in
            ``qrels/test.tsv`` if the first file does not exist.
        judgments: The path of a judgement list that replaces the queries and judgements of the folder, or None.

    Returns:
        The path of the file with the queries, the texts of the queries by id, and an iterator over the judgements.

    Raises:
        BadInput: If a file is missing, or both ``part`` and ``judgments`` are set.
    """
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
    """Return the path of the file with the documents in a folder in BEIR's layout.

    Raises:
        BadInput: If there is no such file.
    """
    return first_file(Path(folder), "corpus.jsonl")


def has_part(folder: str | Path, part: str) -> bool:
    """Return whether a folder in BEIR's layout has separate judgements for a part of its queries.

    Args:
        folder: A folder in BEIR's layout.
        part: Name of the part, such as ``train``. Its judgements are in the file ``qrels/PART.tsv``, plain or gzipped.
    """
    return any((Path(folder) / "qrels" / f"{part}.tsv{suffix}").is_file() for suffix in _SUFFIXES)


def with_queries(collection: Collection, positions: Sequence[int]) -> Collection:
    """Return a test collection with the same documents and only some of the queries.

    Args:
        collection: The test collection.
        positions: The positions of the queries to include.
    """
    return replace(
        collection,
        query_ids=[collection.query_ids[position] for position in positions],
        queries=[collection.queries[position] for position in positions],
        grades=[collection.grades[position] for position in positions],
    )


def first_file(folder: Path, *names: str) -> Path:
    """Return the path of the first existing file from a list of alternative names.

    Args:
        folder: The folder that contains the files.
        *names: The names to try, in order of preference. The file may also be gzipped, with ``.gz`` after its name.

    Raises:
        BadInput: If none of the files exists.
    """
    for name in names:
        for suffix in _SUFFIXES:
            if (path := folder / f"{name}{suffix}").is_file():
                return path
    raise BadInput(f"{folder} has no {names[0]}", value=str(folder), expected=f"{' or '.join(names)}, plain or .gz")


def read_texts(path: Path, titled: bool = False) -> dict[str, str]:
    """Read the texts from a file of documents or queries in BEIR's format.

    Args:
        path: A file of JSON lines with ``_id``, ``text`` and optionally ``title``.
        titled: Whether to prepend the title to each text.

    Returns:
        The texts by id, in the order of the file.

    Raises:
        BadInput: If a line is malformed, an id occurs twice, or the file is empty.
    """
    texts: dict[str, str] = {}
    for number, record in json_objects(path):
        where = f"{path}, line {number}"
        key = record.get("_id")
        if isinstance(key, bool) or not isinstance(key, (str, int)) or key == "":
            raise invalid_value(record, "_id", where, '"_id": a string')
        if str(key) in texts:
            raise BadInput(f"{where}: _id {key!r} was there before", value=key, expected="each _id once")
        text = required_text(record, "text", where)
        title = required_text(record, "title", where) if titled and record.get("title") is not None else ""
        texts[str(key)] = f"{title} {text}".strip() if title else text
    if not texts:
        raise BadInput(f"{path} is empty", value=str(path), expected="JSON lines")
    return texts


def _qrels(path: Path) -> Iterator[Judged]:
    lines = numbered_lines(path)
    header = read_header(lines)
    if header[:3] != ["query-id", "corpus-id", "score"]:
        raise BadInput(f"{path}: its first line is {header!r}", expected="query-id, corpus-id, score, tab-separated")
    for number, line in lines:
        where = f"{path}, line {number}"
        query, document, grade, *_ = split_cells(line, len(header), where)
        yield where, query, document, parse_finite_number(grade, where)
