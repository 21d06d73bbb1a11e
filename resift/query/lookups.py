"""The indices that a search body names inside its queries.

Some clauses look a document, a shape or a list of terms up in another index. The service must check that the other
index is served, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from resift.errors import BadInput
from resift.query.limits import JsonContents, collect_contents
from resift.query.wrappers import decode_wrapper

# OpenSearch looks for an indexed shape in this index if the clause names none.
_SHAPES_INDEX = "shapes"


def named_indices(contents: JsonContents) -> Iterator[str]:
    """Yield the names of the indices from which the clauses of a search body load documents, terms or shapes.

    The service checks each name, because a caller must not read an index that the service does not serve.

    The whole body is examined, and not only its query, because clauses occur in aggregations, suggesters, highlights
    and search pipelines as well. A ``wrapper`` clause, which contains an encoded query, is decoded. A field with the
    name of a clause, such as ``terms``, is treated like the clause. So the result can contain names that are not used,
    but it never lacks a name.

    Args:
        contents: The objects and strings of the body, from :func:`resift.query.limits.collect_contents`.

    Raises:
        BadInput: If a part of the body hides queries, so that the names in them cannot be read. This is a ``wrapper``
            that cannot be decoded, or a template from which OpenSearch creates a query.

    >>> body = {"bool": {"must": {"terms": {"id": {"index": "lists", "id": "1", "path": "ids"}}}}}
    >>> list(named_indices(collect_contents("query", body)))
    ['lists']
    """
    pending = [contents]
    while pending:
        for settings in pending.pop().objects:
            for key, value in settings.items():
                if key not in _KEYS:
                    continue
                if _is_template(key, value):
                    raise BadInput(f"{key} with a template hides the query", value=key, expected="a query")
                yield from _looked_up_indices(key, value)
                if key == "wrapper" and isinstance(value, Mapping) and "query" in value:
                    pending.append(collect_contents("wrapper", decode_wrapper(value["query"])))


# Keys of the parts of a body that name an index, or hide a query.
_LOOKUPS = ("like", "unlike", "terms", "percolate", "indexed_shape")
_KEYS = frozenset({*_LOOKUPS, "wrapper", "ml_inference", "resift", "collate"})


def _looked_up_indices(key: str, value: Any) -> Iterator[str]:
    """Yield the names of the indices from which a clause loads documents, terms or shapes.

    For example, a ``terms`` clause can load its terms from a document of another index.

    Args:
        key: The name of the clause or option, for example ``terms``.
        value: The settings under this name.
    """
    if key in ("like", "unlike"):
        yield from _values_of("_index", value if isinstance(value, list) else [value])
    elif key == "terms" and isinstance(value, Mapping):
        yield from _values_of("index", [lookup for lookup in value.values() if _is_terms_lookup(lookup)])
    elif key == "percolate":
        yield from _values_of("index", [value])
    elif key == "indexed_shape":
        yield from list(_values_of("index", [value])) or [_SHAPES_INDEX]


def _is_terms_lookup(value: Any) -> bool:
    """Return whether a value in a ``terms`` clause refers to a document that contains the terms."""
    return isinstance(value, Mapping) and "path" in value


def _values_of(name: str, items: Iterable[Any]) -> Iterator[str]:
    """Yield the value under the key ``name`` of each item. Items without this key are skipped."""
    for item in items:
        if isinstance(item, Mapping) and name in item:
            yield str(item[name])


def _is_template(key: str, value: Any) -> bool:
    """Return whether an entry of a search body contains a template, from which OpenSearch creates a query.

    Three entries can contain a template. Two of them are processors of a search pipeline, ``ml_inference`` and
    ``resift``, which replace the query with the response of a service. The third is ``collate`` in a suggester.

    Args:
        key: The key of the entry.
        value: The value of the entry.
    """
    if not isinstance(value, Mapping):
        return False
    if key == "ml_inference":
        return "query_template" in value
    if key == "resift":
        return "url" in value
    return key == "collate" and isinstance(value.get("query"), Mapping)
