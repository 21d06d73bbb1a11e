"""Reading the documents of indices that do not store the JSON of documents (``_source`` is disabled).

The texts of such documents can be read if the mapping stores fields (``store``) or term vectors (``term_vector``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opensearchpy import OpenSearch

from resift.contracts.engine import Headers
from resift.plugin.opensearch.client import call
from resift.query.dsl import PLAIN, Body


def has_source(mapping: Mapping[str, Any]) -> bool:
    """Return whether an index stores the ``_source`` of its documents.

    Args:
        mapping: The mapping of the index.
    """
    return mapping.get("_source", {}).get("enabled", True) is not False


def ids_in_indices(ids: Sequence[str], indices: Sequence[str]) -> Body:
    """Return a query clause that matches the documents with certain ids in some of the searched indices.

    Args:
        ids: The ids of the documents.
        indices: The names of the indices, which are not aliases.
    """
    return {"bool": {"filter": [{"ids": {"values": list(ids)}}, {"terms": {"_index": list(indices)}}]}}


def stored_documents(
    client: OpenSearch, name: str, indices: Sequence[str], ids: Sequence[str], headers: Headers
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the ids and the readable fields of documents in indices without ``_source``.

    A field that the index stores is returned with its value. For any other text field with term vectors, the analyzed
    words are returned in order. Further fields cannot be read.

    Args:
        client: The client of opensearch-py.
        name: The name under which the indices are searched, such as an alias. Documents that the filter of the alias
            does not match are left out.
        indices: The names of the indices without ``_source``.
        ids: The ids of the documents.
        headers: The HTTP headers of the caller, which are passed on to OpenSearch.
    """
    query, size = ids_in_indices(ids, indices), len(ids) * len(indices)
    body = {"query": query, "size": size, "_source": False, "stored_fields": ["*"], **PLAIN}
    hits = call(client.search, index=name, body=body, headers=headers)["hits"]["hits"]
    request = {"docs": [_term_vectors_request(hit) for hit in hits]}
    answers = call(client.mtermvectors, body=request, headers=headers)["docs"] if hits else []
    for hit, answer in zip(hits, answers, strict=True):
        words = {name: _rebuild_text(field["terms"]) for name, field in answer.get("term_vectors", {}).items()}
        values = {name: _as_source_value(values) for name, values in hit.get("fields", {}).items()}
        fields = {**words, **values}
        yield hit["_id"], {name: value for name, value in fields.items() if not name.startswith("_")}


def _term_vectors_request(hit: Mapping[str, Any]) -> dict[str, Any]:
    routing = {"routing": hit["_routing"]} if "_routing" in hit else {}
    options = {"fields": ["*"], "offsets": False, "field_statistics": False}
    return {"_index": hit["_index"], "_id": hit["_id"], **routing, **options}


def _as_source_value(values: Sequence[Any]) -> Any:
    """Convert the stored values of a field to the form that the field would have in ``_source``.

    Several strings are joined with line breaks. A list of a single value is replaced with the value.

    Args:
        values: The stored values.
    """
    if all(isinstance(value, str) for value in values):
        return "\n".join(values)
    return values[0] if len(values) == 1 else list(values)


def _rebuild_text(terms: Mapping[str, Any]) -> str:
    """Rebuild the text of a field from its term vector, which contains the analyzed words.

    The text contains the analyzed words in order, or in alphabetical order if the term vector has no positions.

    Args:
        terms: The terms of a field in the answer of ``_mtermvectors``.

    >>> _rebuild_text({"bush": {"term_freq": 2, "tokens": [{"position": 1}, {"position": 5}]}, "a": {"term_freq": 1}})
    'a bush bush'
    """
    words: list[tuple[int, str]] = []
    for word, values in terms.items():
        tokens = values.get("tokens") or [{}] * values.get("term_freq", 1)
        words += [(token.get("position", 0), word) for token in tokens]
    return " ".join(word for _, word in sorted(words))
