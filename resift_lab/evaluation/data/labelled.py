"""Read labelled documents: one JSON object with ``text`` and ``label`` on each line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resift.errors import BadInput
from resift_lab.evaluation.data.lines import json_objects, text_of, unfit


@dataclass(frozen=True)
class Classes:
    """Documents with one class each. The three lists have the same length."""

    ids: list[str]
    texts: list[str]
    labels: list[str]


def read_classes(path: str | Path) -> Classes:
    """Read documents with one class each.

    Each line is a JSON object with ``text``, ``label`` (a string or an integer) and optionally ``id``. A document
    without an id is named by its line number. An empty text is a document.

    Raises:
        BadInput: If a line is malformed or has no label, or if the file is empty or cannot be read.
    """
    documents = Classes([], [], [])
    for number, record in json_objects(Path(path)):
        where = f"{path}, line {number}"
        label = record.get("label")
        # True and False are integers to Python, and no class to anybody
        if isinstance(label, bool) or not isinstance(label, (str, int)) or label == "":
            raise unfit(record, "label", where, '"label": a string or an integer')
        documents.ids.append(str(record.get("id", record.get("_id", number))))
        documents.texts.append(text_of(record, "text", where))
        documents.labels.append(str(label))
    if not documents.ids:
        raise BadInput(f"{path} holds no document", value=str(path), expected='lines {"id", "text", "label"}')
    return documents


def read_labelled(path: str | Path) -> tuple[list[str], list[Any]]:
    """Read texts and labels to train on.

    A label is a string, an integer, or an object that maps classes to weights.

    Returns:
        Texts and labels, two lists of the same length.

    Raises:
        BadInput: If a line is malformed or has no label, or if the file is empty or cannot be read.
    """
    texts, labels = [], []
    for number, record in json_objects(Path(path)):
        where, label = f"{path}, line {number}", record.get("label")
        if isinstance(label, bool) or not isinstance(label, (str, int, dict)):
            raise unfit(record, "label", where, '"label": a class, or {class: weight, …}')
        texts.append(text_of(record, "text", where))
        labels.append(label)
    if not texts:
        raise BadInput(f"{path} holds no document", value=str(path), expected='lines {"text", "label"}')
    return texts, labels
