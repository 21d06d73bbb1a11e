"""Labelled documents: one JSON object a line, with ``text`` and ``label``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resift.errors import BadInput
from resift_lab.evaluation.data.lines import json_objects, text_of, unfit


@dataclass(frozen=True)
class Classes:
    """Documents of one class each: three lists of one length."""

    ids: list[str]
    texts: list[str]
    labels: list[str]


def read_classes(path: str | Path) -> Classes:
    """Documents of one class each, from JSON lines with ``text``, ``label`` (string or integer) and perhaps ``id``.

    An empty text is a document. A document without an id is named by its line's number. Raises BadInput if a line is
    malformed or has no label, and if the file holds no document or cannot be read.
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
    """Texts and labels to train on, two lists of one length; a label may also be an object of classes and weights.

    Labels stay as the file has them, strings, integers or dicts. Raises BadInput as :func:`read_classes` does.
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
