"""Guess which fields of documents are texts, based on the first documents."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from resift.errors import BadInput
from resift.field_names import BODY_NAMES, TITLE_NAMES, words_of_name
from resift.ingest.readers import BadLine, Record
from resift.text import UNSPACED_SCRIPTS, tokenize

SAMPLE = 200  # number of documents that are inspected
_TITLES, _TEXTS = frozenset(TITLE_NAMES), frozenset([*TITLE_NAMES, *BODY_NAMES])
_ADDRESS = re.compile(r"\S*(://|@|\\|/)\S*|www\.\S+", re.IGNORECASE)
_UNSPACED = re.compile(f"[{''.join(f'{chr(first)}-{chr(last)}' for first, last in UNSPACED_SCRIPTS)}]")
_MAX_CHARACTERS = 2000  # number of characters of each text that are inspected
# Mean numbers of words of a field's values.
_MIN_WORDS_NAMED = 1.5  # minimum of a text field with a common name
_MIN_WORDS = 2.5  # minimum of other text fields
_LONG_TEXT = 8  # from this length on, a text field may have many equal values
_MAX_TITLE = 15  # maximum of a title


def read_sample(records: Iterable[Record | BadLine]) -> tuple[list[Record | BadLine], Iterator[Record | BadLine]]:
    """Read the first 200 records, so that they can be inspected before all records are processed.

    Args:
        records: The records. They are read only once, so they may come from a stream.

    Returns:
        A list of the first records, and an iterator that yields all records, including the first.
    """
    rest = iter(records)
    head = list(islice(rest, SAMPLE))
    return head, chain(head, rest)


def guess_fields(documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """Guess which fields of documents contain texts. Fields that look like titles come first.

    A text field has several words in most documents, and different values in different documents. Identifiers,
    addresses, dates, codes and numbers are not texts. A field with a typical name, such as ``title`` or
    ``description``, may have fewer words. If no field looks like a text, all fields that contain words are returned.

    Args:
        documents: The fields of the first documents.

    Returns:
        The names of the text fields. The name of a nested field contains dots, for example ``author.name``.

    Raises:
        BadInput: If no field contains words.

    >>> guess_fields([{"sku": "A-17", "price": "4.50", "about": "A lamp of brass and glass.", "name": "Lamp"}])
    ['name', 'about']
    """
    fields: dict[str, _FieldStatistics] = {}
    for document in documents:
        for name, value in _strings(document):
            fields.setdefault(name, _FieldStatistics(name)).add(value)
    texts = [field for field in fields.values() if field.is_text()]
    selected = texts or [field for field in fields.values() if field.share_of_words >= 0.5]
    if not selected:
        names = sorted(fields) or sorted({str(name) for document in documents for name in document})
        raise BadInput(
            f"no field contains text: {', '.join(names[:20]) or 'there are no fields'}",
            value=names[:20],
            expected="documents with text, or --fields NAMES",
        )
    return [field.name for field in sorted(selected, key=lambda field: field.rank)]


def string_fields(documents: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of all fields that contain strings in at least one document, in order of first occurrence."""
    return list(dict.fromkeys(name for document in documents for name, _ in _strings(document)))


def _strings(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name of the field and the text of every non-empty string in a document.

    Args:
        value: The document, or a value inside it.
        name: The name of the field that contains ``value``. Empty for the document itself.
    """
    if isinstance(value, str):
        if name and value.strip():
            yield name, value.strip()[:_MAX_CHARACTERS]
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            # Skip inner fields with a dot in their name, because such a path would be ambiguous.
            if not (name and "." in key):
                yield from _strings(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner, name)


@dataclass
class _FieldStatistics:
    """Statistics about the string values of a field, to decide whether the field contains texts.

    Attributes:
        name: The name of the field.
        values: The number of values.
        with_words: The number of values that contain words rather than addresses, numbers or codes.
        prose: The number of values that look like prose.
        words: The total number of words in all values.
        distinct: The distinct values.
    """

    name: str
    values: int = 0
    with_words: int = 0
    prose: int = 0
    words: float = 0.0
    distinct: set[str] = field(default_factory=set)

    def add(self, value: str) -> None:
        """Update the statistics with a value of the field.

        Args:
            value: The value, a text that is not empty.
        """
        letters = sum(map(str.isalpha, value)) >= sum(not character.isspace() for character in value) / 2
        unspaced = len(_UNSPACED.findall(value))
        # In scripts without spaces, two characters count as a word.
        length = len(tokenize(value)) - unspaced / 2
        address = bool(_ADDRESS.fullmatch(value))
        code = not any(map(str.islower, value)) and any(character.isdigit() or character == "_" for character in value)
        self.values += 1
        self.with_words += letters and not address and not (code and length < _MIN_WORDS)
        foreign = sum(character.isalpha() and not character.isascii() for character in value)
        self.prose += letters and not address and (len(value.split()) > 1 or foreign > 3)
        self.words += length
        self.distinct.add(value)

    @property
    def share_of_words(self) -> float:
        """The share of the values (0 to 1) that contain words rather than addresses, numbers or codes."""
        return self.with_words / self.values

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """The sort key by which text fields are ordered.

        Fields with a typical name for a title come first, then fields that are as short as titles, then other fields.
        Within each group, nested fields come last.
        """
        return not self._name_ends_with(_TITLES), self.words / self.values > _MAX_TITLE, self.name.count(".")

    def is_text(self) -> bool:
        """Return whether the field contains texts, according to its name and its values."""
        last = self.name.rpartition(".")[2].lower()
        if last in _TEXTS:
            return self.share_of_words >= 0.5
        mean = self.words / self.values
        varied = len(self.distinct) >= self.values / 2 or mean >= _LONG_TEXT
        minimum = _MIN_WORDS_NAMED if self._name_ends_with(_TEXTS) else _MIN_WORDS
        return self.prose >= self.values / 2 and mean >= minimum and varied

    def _name_ends_with(self, names: Collection[str]) -> bool:
        """Return whether the last word of the field's name is in ``names``."""
        return bool(words := words_of_name(self.name)) and words[-1] in names
