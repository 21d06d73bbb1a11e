"""Read labelled documents: one JSON object with ``text`` and ``label`` on each line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resift.errors import BadInput
from resift_lab.evaluation.data.lines import invalid_value, json_objects, required_text


@dataclass(frozen=True)
class LabelledDocuments:
    """Labelled documents, each of which belongs to a single class.

    Attributes:
        ids: Ids of the documents.
        texts: Texts of the documents, in the order of ``ids``.
        labels: Class names of the documents, in the order of ``ids``.
    """

    ids: list[str]
    texts: list[str]
    labels: list[str]


def read_labelled_documents(path: str | Path) -> LabelledDocuments:
    """Read labelled documents from a file of JSON lines.

    Each line is an object with ``text`` (which may be empty), ``label`` (a string or an integer) and optionally ``id``.
    Without ``id``, the line number is the document's id.

    Args:
        path: The path of the file, plain or gzipped.

    Raises:
        BadInput: If a line is malformed or has no label, or if the file is empty or cannot be read.
    """
    documents = LabelledDocuments([], [], [])
    for number, record in json_objects(Path(path)):
        where = f"{path}, line {number}"
        label = record.get("label")
        # bool is a subclass of int, but true and false are not valid names of classes
        if isinstance(label, bool) or not isinstance(label, (str, int)) or label == "":
            raise invalid_value(record, "label", where, '"label": a string or an integer')
        documents.ids.append(str(record.get("id", record.get("_id", number))))
        documents.texts.append(required_text(record, "text", where))
        documents.labels.append(str(label))
    if not documents.ids:
        raise BadInput(f"{path} holds no document", value=str(path), expected='lines {"id", "text", "label"}')
    return documents


def read_labelled_texts(path: str | Path) -> tuple[list[str], list[Any]]:
    """Read texts and labels of a training set from a file of JSON lines.

    Each line is an object with ``text`` and ``label``. A label is a string, an integer, or an object that maps
    classes to weights.

    Args:
        path: The path of the file, plain or gzipped.

    Returns:
        The texts, and their labels in the same order.

    Raises:
        BadInput: If a line is malformed or has no label, or if the file is empty or cannot be read.
    """
    texts, labels = [], []
    for number, record in json_objects(Path(path)):
        where = f"{path}, line {number}"
        labels.append(required_label(record, where))
        texts.append(required_text(record, "text", where))
    if not texts:
        raise BadInput(f"{path} holds no document", value=str(path), expected='lines {"text", "label"}')
    return texts, labels


def required_label(record: dict[str, Any], where: str) -> str | int | dict[str, Any]:
    """Return the label of a training document: the name of a class, or a mapping of classes to weights.

    Args:
        record: The document as a JSON object.
        where: The file and line number, for the error message.

    Raises:
        BadInput: If the document has no valid label.
    """
    label = record.get("label")
    if isinstance(label, bool) or not isinstance(label, (str, int, dict)):
        raise invalid_value(record, "label", where, '"label": a class, or {class: weight, …}')
    return label
