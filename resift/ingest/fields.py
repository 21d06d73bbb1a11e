"""Which fields of documents are texts, guessed from the first of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from resift.errors import BadInput
from resift.ingest.readers import BadLine, Record
from resift.text import UNSPACED_SCRIPTS, tokenize

SAMPLE = 200
# names of fields, or the last words of names
TITLES = (
    "title|name|headline|heading|subject|caption|bezeichnung|naam|nazwa|nom|nombre|nome|titel|titre|título|titulo|titolo|"
    "название|タイトル|見出し|標題|标题|제목"
)
BODIES = (
    "text|body|content|contents|description|abstract|summary|message|question|answer|beschreibung|beschrijving|"
    "descripción|descripcion|descrição|descricao|descrizione|opis|описание|本文|内容"
)
_WORDS_OF_NAME = re.compile(r"[A-Z]?[^\W\dA-Z_]+|[A-Z]+")
_ADDRESS = re.compile(r"\S*(://|@|\\|/)\S*|www\.\S+", re.IGNORECASE)
_UNSPACED = re.compile(f"[{''.join(f'{chr(first)}-{chr(last)}' for first, last in UNSPACED_SCRIPTS)}]")
_LOOKED_AT = 2000  # characters of a text
# Words: the fewest of a text that is called a title, and of any other; enough for a text that comes again; of a title.
_FEW, _SEVERAL, _LONG, _TITLE = 1.5, 2.5, 8, 15


def sample(records: Iterable[Record | BadLine]) -> tuple[list[Record | BadLine], Iterator[Record | BadLine]]:
    """The first SAMPLE records, and all of them again, so that a stream is read only once."""
    rest = iter(records)
    head = list(islice(rest, SAMPLE))
    return head, chain(head, rest)


def guess_fields(documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of the fields that hold texts, those that are like titles first; of inner fields with dots.

    A text has several words in most documents, and not the same ones in each; identifiers, addresses, dates, codes and
    numbers are none. Fields with a usual name, such as ``title`` or ``description``, may be shorter. If no field is
    such a text, all that hold words are taken. Raises BadInput if none does.

    >>> guess_fields([{"sku": "A-17", "price": "4.50", "about": "A lamp of brass and glass.", "name": "Lamp"}])
    ['name', 'about']
    """
    found: dict[str, _Field] = {}
    for document in documents:
        for name, value in _strings(document):
            found.setdefault(name, _Field(name)).add(value)
    texts = [one for one in found.values() if one.is_text()]
    chosen = texts or [one for one in found.values() if one.share_of_words >= 0.5]
    if not chosen:
        names = sorted(found) or sorted({str(name) for document in documents for name in document})
        raise BadInput(
            f"no field holds a text: {', '.join(names[:20]) or 'there are no fields'}",
            value=names[:20],
            expected="documents with texts, or --fields NAMES",
        )
    return [one.name for one in sorted(chosen, key=lambda one: one.rank)]


def string_fields(documents: Iterable[Mapping[str, Any]]) -> list[str]:
    """The names of all fields that hold strings, in the order in which they come."""
    return list(dict.fromkeys(name for document in documents for name, _ in _strings(document)))


def _strings(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """All strings within a document, each with the name of its field."""
    if isinstance(value, str):
        if name and value.strip():
            yield name, value.strip()[:_LOOKED_AT]
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            # an inner field whose own name has a dot could not be told from one that is deeper
            if not (name and "." in key):
                yield from _strings(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner, name)


@dataclass
class _Field:
    """What the values of a field are like."""

    name: str
    values: int = 0
    with_words: int = 0
    prose: int = 0
    words: float = 0.0
    different: set[str] = field(default_factory=set)

    def add(self, value: str) -> None:
        """Count one value in."""
        letters = sum(map(str.isalpha, value)) >= sum(not one.isspace() for one in value) / 2
        unspaced = len(_UNSPACED.findall(value))
        # of scripts without spaces, two characters are taken for a word
        length = len(tokenize(value)) - unspaced / 2
        address = bool(_ADDRESS.fullmatch(value))
        code = not any(map(str.islower, value)) and any(one.isdigit() or one == "_" for one in value)
        self.values += 1
        self.with_words += letters and not address and not (code and length < _SEVERAL)
        foreign = sum(one.isalpha() and not one.isascii() for one in value)
        self.prose += letters and not address and (len(value.split()) > 1 or foreign > 3)
        self.words += length
        self.different.add(value)

    @property
    def share_of_words(self) -> float:
        """The share of values that hold words rather than addresses, numbers or codes."""
        return self.with_words / self.values

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """Its place among text fields: titles come first, then what is as short as titles are, outer before inner."""
        return not self._is_called(TITLES), self.words / self.values > _TITLE, self.name.count(".")

    def is_text(self) -> bool:
        """Whether the values are texts."""
        last = self.name.rpartition(".")[2].lower()
        if re.fullmatch(f"{TITLES}|{BODIES}", last):
            return self.share_of_words >= 0.5
        mean = self.words / self.values
        varied = len(self.different) >= self.values / 2 or mean >= _LONG
        least = _FEW if self._is_called(f"{TITLES}|{BODIES}") else _SEVERAL
        return self.prose >= self.values / 2 and mean >= least and varied

    def _is_called(self, names: str) -> bool:
        """Whether the last word of its name is one of ``names``."""
        words = _WORDS_OF_NAME.findall(self.name)
        return bool(words) and re.fullmatch(names, words[-1].lower()) is not None
