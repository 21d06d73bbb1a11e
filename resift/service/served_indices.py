"""The indices that are served, whatever name, alias, pattern or list a request has for them."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from resift.contracts.documents import IndexInfo
from resift.encoders.model import Model
from resift.errors import BadInput, IndexNotServed
from resift.rewriting.request import check_brackets

_SHAPES = "shapes"  # where OpenSearch looks for an indexed shape if no index is named
# the hidden indices that hold a data stream go by the stream's own name
_DATA_STREAM = re.compile(r"\.ds-(.+)-\d+")


@dataclass(frozen=True)
class ServedIndex:
    """An index that is served to searches by a ``model``.

    ``by_own_names``: whether it is by its own name, and not by an alias's alone.
    """

    info: IndexInfo
    by_own_names: bool
    model: Model

    @cached_property
    def searched(self) -> IndexInfo:
        """The same as searches see it. Raises ModelMismatch if its vectors are another model's."""
        return self.info.for_search(self.model)


class ServedIndices:
    """Indices by the allow-list ``patterns``, in which * stands for anything.

    Never served are names that begin with a dot, which are the engine's own, and the ``internal`` ones. An index is
    served if its own name is in the list; that of one that holds a data stream (``.ds-logs-000001``) is the stream's.
    A name that the list has word for word is served also if it is an alias.
    """

    def __init__(self, patterns: Sequence[str], *internal: str) -> None:
        self.patterns, self.internal = patterns, internal
        self._listed = re.compile("|".join(re.escape(pattern).replace(r"\*", ".*") for pattern in patterns), re.DOTALL)

    def has(self, index: str) -> bool:
        """Whether a name is served, taken for an index's own."""
        name = self.own_name(index)
        return not self._is_internal(name) and self._listed.fullmatch(name) is not None

    @staticmethod
    def own_name(index: str) -> str:
        """The name that an index goes by: one that is behind a data stream goes by the stream's."""
        behind = _DATA_STREAM.fullmatch(index)
        return behind[1] if behind else index

    def require(self, index: str, resolve: Callable[[str], Sequence[str]]) -> bool:
        """Raise IndexNotServed unless everything is served that a request's ``index`` stands for.

        Returns whether the list has the own names of all of it, and not only those of aliases.

        ``resolve`` gives the own names of the indices that a name, an alias, a pattern or a list stands for, and
        raises what the engine raises.
        """
        parts = [self.own_name(part) for part in index.split(",")]
        if any(map(self._is_internal, parts)):
            raise index_not_served(index)
        names = [self.own_name(name) for name in resolve(index)]
        if not names or any(map(self._is_internal, names)):
            raise index_not_served(index)
        if all(map(self._listed.fullmatch, names)):
            return True
        others = [part for part in parts if part not in self.patterns]
        if others and len(others) < len(parts):
            names = [self.own_name(name) for name in resolve(",".join(others))]
        if others and not all(map(self._listed.fullmatch, names)):
            raise index_not_served(index)
        return False

    def _is_internal(self, name: str) -> bool:
        return name.startswith(".") or name in self.internal


def indices_in(query: Any) -> Iterator[str]:
    """The other indices that a query body looks something up in: terms, shapes, documents, stored queries.

    Raises BadInput for what hides queries from this: a ``wrapper`` that is not JSON, and templates of queries.

    >>> list(indices_in({"bool": {"must": {"terms": {"id": {"index": "lists", "id": "1", "path": "ids"}}}}}))
    ['lists']
    """
    pending: list[Any] = [query]
    while pending:  # no recursion: bodies come as deep as callers like
        value = pending.pop()
        if isinstance(value, list):
            pending += value
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                if _is_template(key, inner):
                    raise BadInput(f"{key} with a template hides what is asked for", value=key, expected="a query")
                yield from _looked_up(key, inner)
                pending.append(_unwrapped(inner) if _is_wrapper(key, inner) else inner)


def _looked_up(key: str, inner: Any) -> Iterator[str]:
    """The indices that a clause or a part of one names itself."""
    if key in ("like", "unlike"):
        yield from _values_of("_index", inner if isinstance(inner, list) else [inner])
    elif key == "terms" and isinstance(inner, Mapping):
        yield from _values_of("index", inner.values(), beside="path")
    elif key == "percolate":
        yield from _values_of("index", [inner])
    elif key == "indexed_shape":
        yield from list(_values_of("index", [inner])) or [_SHAPES]


def _values_of(name: str, items: Iterable[Any], beside: str | None = None) -> Iterator[str]:
    """The values of a name in those items that have it, and a name ``beside`` it."""
    for item in items:
        if isinstance(item, Mapping) and name in item and (beside is None or beside in item):
            yield str(item[name])


def _is_wrapper(key: str, inner: Any) -> bool:
    """Whether a key may stand for a query in base64: a field of this name is opened too, rather than one too few."""
    return key == "wrapper" and isinstance(inner, Mapping) and "query" in inner


def _is_template(key: str, inner: Any) -> bool:
    """Whether a part of a search body is the text that the engine makes a query of."""
    if not isinstance(inner, Mapping):
        return False
    if key == "ml_inference":
        return "query_template" in inner
    return key == "collate" and isinstance(inner.get("query"), Mapping)


def _unwrapped(clause: Any) -> Any:
    """The query in a ``wrapper`` clause. Raises BadInput if it is malformed or nested too deep."""
    try:
        text = b64decode(clause["query"], validate=True)
        check_brackets("wrapper", text.decode("utf-8", "replace"))
        return json.loads(text)
    except BadInput:
        raise
    except (ValueError, TypeError, KeyError, RecursionError):
        raise BadInput(
            "malformed wrapper query",
            value=clause,
            expected='base64 of JSON; for a field of this name {"match": {"wrapper": TEXT}}',
        ) from None


def index_not_served(index: str) -> IndexNotServed:
    """The error for an index that is not served, which does not tell what there is."""
    return IndexNotServed(
        f"{index!r} is, or names, an index that is not served", value=index, expected="an index in RESIFT_INDICES"
    )
