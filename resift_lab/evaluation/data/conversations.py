"""Read conversations: a BEIR folder whose queries are turns, with the judgements that people made."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resift.errors import BadInput
from resift_lab.evaluation.data.collection import Collection, first_file, read_collection, read_texts
from resift_lab.evaluation.data.lines import json_objects, required_text


@dataclass(frozen=True)
class Turn:
    """A question in a conversation, and the user's reaction to its hits.

    Attributes:
        text: Text of the question.
        marks: Documents that the user marked in this turn as relevant (1) or irrelevant (-1), by the position of the
            document in the collection.
        grades: Grades of the test collection for this question, by the position of the document. Empty if the question
            was not judged.
    """

    text: str
    marks: dict[int, float]
    grades: dict[int, float]


def read_conversations(folder: str | Path, rewritten: bool = False) -> tuple[Collection, list[list[Turn]]]:
    """Read conversations from a folder in BEIR's layout that also has a file ``turns.jsonl``.

    Each line of ``turns.jsonl`` is a JSON object with ``_id`` (the id of a query), ``conversation`` (the id of the
    conversation), ``turn`` (a number that orders the turns), ``text``, and ``marks`` ({document id: 1 | -1}). Marks of
    documents that are not in the corpus are ignored.

    Args:
        folder: The folder with the conversations.
        rewritten: Whether to take the texts of turns from ``rewritten.jsonl`` ({"_id", "text"} on each line). It
            contains queries that a language model wrote from the whole conversation.

    Returns:
        The collection, and a list of turns for each conversation, in the order of the turns.

    Raises:
        BadInput: If a file is missing or malformed, or if the collection has no query with a relevant document (see
            :func:`resift_lab.evaluation.data.collection.read_collection`).
    """
    texts = read_texts(first_file(Path(folder), "rewritten.jsonl")) if rewritten else {}
    collection = read_collection(folder)
    positions = {key: position for position, key in enumerate(collection.document_ids)}
    grades = dict(zip(collection.query_ids, collection.grades, strict=True))
    conversations: dict[str, list[tuple[int, Turn]]] = defaultdict(list)
    path = first_file(Path(folder), "turns.jsonl")
    for number, record in json_objects(path):
        where = f"{path}, line {number}"
        turn, marks = record.get("turn"), record.get("marks")
        if isinstance(turn, bool) or not isinstance(turn, int):
            raise BadInput(f"{where}: turn is {turn!r}", value=turn, expected="a whole number")
        if not isinstance(marks, dict) or not all(_is_mark(mark) for mark in marks.values()):
            raise BadInput(f"{where}: marks are {marks!r}", value=marks, expected='{"a document\'s id": 1 | -1}')
        known = {positions[key]: float(mark) for key, mark in marks.items() if key in positions}
        text = texts.get(str(record.get("_id")), required_text(record, "text", where))
        conversations[str(record.get("conversation"))].append(
            (turn, Turn(text, known, grades.get(str(record.get("_id")), {})))
        )
    if not conversations:
        raise BadInput(f"{path} is empty", value=str(path), expected="JSON lines")
    return collection, [
        [turn for _, turn in sorted(turns, key=lambda numbered: numbered[0])] for turns in conversations.values()
    ]


def _is_mark(mark: Any) -> bool:
    return not isinstance(mark, bool) and mark in (1, -1)
