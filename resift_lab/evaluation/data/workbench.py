"""Judgement lists, query sets and search configurations as OpenSearch's Search Relevance Workbench has them.

Each is the body of a ``PUT _plugins/_search_relevance/…``. What a query of a set and its fields may hold is what the
Workbench takes: nothing that its own formats set apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from resift.errors import BadInput
from resift_lab.evaluation.data.lines import finite_number, whole_text

MAX_NAME, MAX_DESCRIPTION, MAX_TEXT = 50, 250, 2000
QUERY, QUERY_AND_FIELDS = "%SearchText%", "{{queryText}}"
_REFUSED = re.compile(r'["\\<>\r\n#:]')
_EXPECTED = 'a judgement list: {"judgmentRatings": [{"query", "ratings": [{"docId", "rating"}]}]}'
Ratings = dict[str, dict[str, float]]


def read_judgment_list(path: str | Path) -> Ratings:
    """The ratings of a judgement list: query → document's id → rating.

    The file is the body of an import, or what the Workbench answers to a GET of one list. Raises BadInput for anything
    else, a rating that is no number, and a query or a document that is there twice.
    """
    path = Path(path)
    try:
        found = json.loads(whole_text(path))
    except ValueError as error:
        raise BadInput(f"{path} is not JSON: {error}", value=str(path), expected=_EXPECTED) from error
    hits = _inner(_inner(found, "hits"), "hits")
    if isinstance(hits, list) and len(hits) == 1:
        found = _inner(hits[0], "_source")
    lists = _inner(found, "judgmentRatings")
    if not isinstance(lists, list) or not lists:
        raise BadInput(f"{path} holds no judgmentRatings", value=str(path), expected=_EXPECTED)
    ratings: Ratings = {}
    for number, one in enumerate(lists, 1):
        query, rated = _inner(one, "query"), _inner(one, "ratings")
        where = f"{path}, query {number}"
        if not isinstance(query, str) or not isinstance(rated, list) or query in ratings:
            raise BadInput(f"{where}: {query!r} has no ratings, or has them twice", value=query, expected=_EXPECTED)
        ratings[query] = _ratings(rated, f"{where} ({query})")
    return ratings


def _ratings(rated: Sequence[Any], where: str) -> dict[str, float]:
    ratings: dict[str, float] = {}
    for one in rated:
        document, rating = _inner(one, "docId"), _inner(one, "rating")
        if not isinstance(document, str) or document in ratings:
            raise BadInput(f"{where}: docId is {document!r}", value=document, expected="each document's id once")
        if isinstance(rating, bool) or not isinstance(rating, (str, int, float)):
            raise BadInput(f"{where}: the rating of {document!r} is {rating!r}", value=rating, expected="a number")
        ratings[document] = finite_number(str(rating), f"{where}, {document}")
    return ratings


def _inner(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None


def judgment_list(name: str, description: str, ratings: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """The body of an import of ratings. Raises BadInput for a name or a description that the Workbench refuses."""
    return {
        **_named(name, description),
        "type": "IMPORT_JUDGMENT",
        "judgmentRatings": [
            {"query": query, "ratings": [{"docId": id, "rating": f"{rating:.3f}"} for id, rating in rated.items()]}
            for query, rated in ratings.items()
        ],
    }


def query_set(name: str, description: str, rows: Iterable[Mapping[str, str]]) -> tuple[dict[str, Any], int]:
    """The body of a query set, each of its ``rows`` a ``queryText`` and further fields; and how many it cannot hold.

    Raises BadInput for a name or a description that the Workbench refuses.
    """
    rows = list(rows)
    kept = [dict(row) for row in rows if all(_is_text(value, MAX_TEXT) for value in row.values())]
    return {**_named(name, description), "sampling": "manual", "querySetQueries": kept}, len(rows) - len(kept)


def search_configuration(name: str, index: str, fields: Sequence[str], pipeline: str, session: bool) -> dict[str, Any]:
    """The body of a search configuration: the query set's texts in an index's ``fields``, through a search pipeline.

    With ``session`` the queries' field ``session`` names it.
    """
    asked = QUERY_AND_FIELDS if session else QUERY
    body: dict[str, Any] = {"query": {"multi_match": {"query": asked, "fields": list(fields)}}}
    if session:
        body["ext"] = {"ml_inference": {"session": "{{session}}"}}
    return {**_named(name), "index": index, "query": json.dumps(body), "searchPipeline": pipeline}


def _named(name: str, description: str | None = None) -> dict[str, str]:
    given = {"name": (name, MAX_NAME)} | (
        {} if description is None else {"description": (description, MAX_DESCRIPTION)}
    )
    for key, (text, most) in given.items():
        if not _is_text(text, most):
            expected = f"1 to {most} characters, none of them a quote, \\ < > # : or the end of a line"
            raise BadInput(f"the {key} is {text!r}", value=text, expected=expected)
    return {key: text for key, (text, _) in given.items()}


def _is_text(text: str, most: int) -> bool:
    return 0 < len(text) <= most and _REFUSED.search(text) is None
