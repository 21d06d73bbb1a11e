"""Encode documents: their text fields, or their bags of vectors, depending on the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.query.dsl import document_text


def encode_documents(
    model: Model, sources: Sequence[Mapping[str, Any]], fields: Sequence[str], texts: Sequence[str] | None = None
) -> tuple[Floats, dict[int, str]]:
    """Encode documents as vectors.

    Depending on the model, the vector of a document represents its text fields or its bag of vectors (for example of
    image patches).

    Args:
        model: The embedding model, which encodes either texts or bags of vectors.
        sources: The ``_source`` of each of the n documents.
        fields: The names of the text fields.
        texts: The text of each document (see :func:`resift.query.dsl.document_text`), if the caller has it already.

    Returns:
        The vectors, of shape (n, n_dimensions), and the reasons why documents cannot be encoded, by position. Only
        documents with malformed bags of vectors cannot be encoded.
    """
    if model.bags is None:
        return model.encode(texts or [document_text(source, fields) for source in sources]), {}
    vectors, faults = model.encode_bags([source.get(model.bags) for source in sources])
    return vectors, {position: f"field {model.bags!r}: {reason}" for position, reason in faults.items()}


def encoded_fields(model: Model, fields: Sequence[str]) -> list[str]:
    """Return the names of the fields that must be read to encode a document: its text fields, and its bag of vectors.

    Args:
        model: The embedding model, which encodes either texts or bags of vectors.
        fields: The names of the text fields.
    """
    return [*fields, *([] if model.bags is None else [model.bags])]
