"""How much work one request may ask for, beside the configured ``max_body`` and ``max_text``.

Bytes alone do not bound it: a list of empty texts is short and its answer is long, and a small body can hold a million
lists, or words that are all compared with each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from resift.errors import BadInput, TextTooLong
from resift.text import tokenize

MAX_INPUTS = 2048  # texts of an embeddings request: OpenAI's own limit
MAX_DOCUMENTS = 10_000  # of a rerank or score request: as many as a search can have hits
MAX_VALUES = 500_000  # of a JSON body: numbers, texts and whatever else stands in lists and objects
MAX_CONTAINERS = 100_000  # lists and objects, which take more memory than other values
MAX_DEPTH = 100  # of lists and objects in a query or filter, and of brackets in their texts
MAX_REGEX = 1000  # characters of a suggestion's, or of a script in expressions; others OpenSearch bounds itself
MAX_QUERY_VALUES = 100_000  # of a query or filter
MAX_WORD_PAIRS = 40_000_000  # of words that are compared with each other: two seconds of one processor
MAX_NUMBER = 1e18  # of a vector, either way: sums of their squares have to fit into 32 bits

_MARKS = (b",", b"[", b"{")
_OPENING, _CLOSING = "([{", ")]}"
_PART = 2**20  # bytes that are looked at together


def check_json_size(raw: bytes) -> None:
    """Raises TextTooLong for a JSON body of too many values, before it is parsed: they take up to fifty times the
    memory that they take as text."""
    # what stands in texts is counted as well at first: that is fast, and seldom makes a difference
    if not _fits(*(raw.count(mark) for mark in _MARKS)):
        counts = _count_outside_of_texts(raw)
        if not _fits(*counts):
            values, containers = sum(counts), sum(counts[1:])
            raise TextTooLong(
                f"the body has {values} values, of which {containers} are lists and objects",
                value=values,
                expected=f"at most {MAX_VALUES} values, and {MAX_CONTAINERS} lists and objects",
            )


def _fits(commas: int, lists: int, objects: int) -> bool:
    return commas + lists + objects <= MAX_VALUES and lists + objects <= MAX_CONTAINERS


def _count_outside_of_texts(raw: bytes) -> list[int]:
    """How many commas, lists and objects JSON has."""
    # of a run of backslashes each second one is escaped itself
    plain = raw.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    counts, inside = [0] * len(_MARKS), False
    for start in range(0, len(plain), _PART):
        part = np.frombuffer(plain, np.uint8, min(_PART, len(plain) - start), start)
        in_text = np.logical_xor.accumulate(part == ord('"')) ^ inside
        inside = bool(in_text[-1])
        outside = part[~in_text].tobytes()
        counts = [count + outside.count(mark) for count, mark in zip(counts, _MARKS, strict=True)]
    return counts


def check_clause(name: str, clause: Mapping[str, Any], max_text: int) -> None:
    """Raises BadInput for a query or filter that is nested too deep or holds too many values, and TextTooLong for a
    text in it of more than ``max_text`` characters, or a suggestion's regular expression of more than MAX_REGEX."""
    level: list[Any] = [clause]
    count = 0
    for _ in range(MAX_DEPTH):
        _check_expressions(level)
        level = [value for one in level for value in _values(one)]
        count += len(level)
        if count > MAX_QUERY_VALUES:
            raise BadInput(
                f"the {name} has more than {MAX_QUERY_VALUES} values",
                value=count,
                expected=f"at most {MAX_QUERY_VALUES} values",
            )
        texts = [value for value in level if isinstance(value, str)]
        longest = max(map(len, texts), default=0)
        if longest > max_text:
            raise TextTooLong(
                f"a text of the {name} has {longest} characters", value=longest, expected=f"at most {max_text}"
            )
        for text in texts:
            check_brackets(name, text)
        if not level:
            return
    raise _too_deep(name)


def check_brackets(name: str, text: str) -> None:
    """Raises BadInput for a text of a query or filter with brackets that are nested too deep.

    Query strings, regular expressions, shapes and scripts are texts: OpenSearch reads them by functions that call
    themselves, and of some thousand brackets the whole node ends.
    """
    if sum(map(text.count, _OPENING)) <= MAX_DEPTH:
        return
    signs = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    opening, closing = (np.isin(signs, [*map(ord, brackets)]) for brackets in (_OPENING, _CLOSING))
    levels = np.cumsum(opening.astype(np.int32) - closing)
    # one that closes nothing does not make up for one that opens later
    if np.max(levels - np.minimum.accumulate(np.minimum(levels, 0))) > MAX_DEPTH:
        raise _too_deep(name)


def _too_deep(name: str) -> BadInput:
    return BadInput(
        f"the {name} is nested more than {MAX_DEPTH} levels deep",
        value=name,
        expected=f"at most {MAX_DEPTH} levels of lists, objects and brackets",
    )


def _check_expressions(level: Sequence[Any]) -> None:
    """Raises TextTooLong for a completion's regular expression, or a script of the language expression, that is too
    long: OpenSearch reads both by functions that call themselves, and a long one may end a node."""
    for one in level:
        if not isinstance(one, dict):
            continue
        regex = one.get("regex") if "completion" in one else None
        script = one.get("source") if one.get("lang") == "expression" else None
        size = max(len(text) for text in ("", regex, script) if isinstance(text, str))
        if size > MAX_REGEX:
            raise TextTooLong(f"an expression has {size} characters", value=size, expected=f"at most {MAX_REGEX}")


def _values(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else ()


def check_word_pairs(query: str, documents: Sequence[str]) -> None:
    """Raises TextTooLong where too many words would be compared: the query's with those of each document."""
    # no text has more words than characters, which is soon known and mostly enough
    if len(query) * sum(map(len, documents)) <= MAX_WORD_PAIRS:
        return
    count = len(tokenize(query)) * sum(len(tokenize(text)) for text in documents)
    if count > MAX_WORD_PAIRS:
        raise TextTooLong(
            f"{count} pairs of words would be compared",
            value=count,
            expected=f"at most {MAX_WORD_PAIRS}: shorter or fewer documents, or the method vectors",
        )
