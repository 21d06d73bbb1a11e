"""Judgement lists, query sets and search configurations of OpenSearch's Search Relevance Workbench.

The functions return bodies of requests ``PUT _plugins/_search_relevance/…``. The Workbench rejects texts with certain
characters. Such texts raise an error, except the queries of a query set, which are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from resift.errors import BadInput
from resift_lab.evaluation.data.lines import parse_finite_number, read_text

MAX_NAME, MAX_DESCRIPTION, MAX_TEXT = 50, 250, 2000
QUERY, QUERY_AND_FIELDS = "%SearchText%", "{{queryText}}"
_REFUSED = re.compile(r'["\\<>\r\n#:]')
_EXPECTED = 'a judgement list: {"judgmentRatings": [{"query", "ratings": [{"docId", "rating"}]}]}'
Ratings = dict[str, dict[str, float]]


def read_judgment_list(path: str | Path) -> Ratings:
    """Read a judgement list of the Search Relevance Workbench.

    The file contains either the body of a request that imports the list, or the response to a GET request for the list.

    Args:
        path: The path of the file.

    Returns:
        The ratings: ``ratings[query text][document id]``.

    Raises:
        BadInput: If the file has another format, a rating is not a number, or a query or document occurs twice.
    """
    path = Path(path)
    try:
        content = json.loads(read_text(path))
    except ValueError as error:
        raise BadInput(f"{path} is not JSON: {error}", value=str(path), expected=_EXPECTED) from error
    hits = _inner(_inner(content, "hits"), "hits")
    if isinstance(hits, list) and len(hits) == 1:
        content = _inner(hits[0], "_source")
    lists = _inner(content, "judgmentRatings")
    if not isinstance(lists, list) or not lists:
        raise BadInput(f"{path} holds no judgmentRatings", value=str(path), expected=_EXPECTED)
    ratings: Ratings = {}
    for number, entry in enumerate(lists, 1):
        query, rated = _inner(entry, "query"), _inner(entry, "ratings")
        where = f"{path}, query {number}"
        if not isinstance(query, str) or not isinstance(rated, list) or query in ratings:
            raise BadInput(f"{where}: {query!r} has no ratings, or has them twice", value=query, expected=_EXPECTED)
        ratings[query] = _ratings(rated, f"{where} ({query})")
    return ratings


def _ratings(rated: Sequence[Any], where: str) -> dict[str, float]:
    ratings: dict[str, float] = {}
    for entry in rated:
        document, rating = _inner(entry, "docId"), _inner(entry, "rating")
        if not isinstance(document, str) or document in ratings:
            raise BadInput(f"{where}: docId is {document!r}", value=document, expected="each document's id once")
        if isinstance(rating, bool) or not isinstance(rating, (str, int, float)):
            raise BadInput(f"{where}: the rating of {document!r} is {rating!r}", value=rating, expected="a number")
        ratings[document] = parse_finite_number(str(rating), f"{where}, {document}")
    return ratings


def _inner(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None


def judgment_list(name: str, description: str, ratings: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Return the body of a request that imports a judgement list into the Search Relevance Workbench.

    Args:
        name: Name of the judgement list.
        description: Description of the judgement list.
        ratings: The ratings: ``ratings[query text][document id]``.

    Raises:
        BadInput: If the Workbench would reject the name or the description.
    """
    return {
        **_named(name, description),
        "type": "IMPORT_JUDGMENT",
        "judgmentRatings": [
            {"query": query, "ratings": [{"docId": id, "rating": f"{rating:.3f}"} for id, rating in rated.items()]}
            for query, rated in ratings.items()
        ],
    }


def query_set(name: str, description: str, rows: Iterable[Mapping[str, str]]) -> tuple[dict[str, Any], int]:
    """Return the body of a request that creates a query set in the Search Relevance Workbench.

    Queries with characters that the Workbench rejects are left out.

    Args:
        name: Name of the query set.
        description: Description of the query set.
        rows: A mapping for each query, with its text as ``queryText`` and optionally further fields.

    Returns:
        The body, and the number of queries that were left out.

    Raises:
        BadInput: If the Workbench would reject the name or the description.
    """
    rows = list(rows)
    accepted = [dict(row) for row in rows if all(_is_text(value, MAX_TEXT) for value in row.values())]
    return {**_named(name, description), "sampling": "manual", "querySetQueries": accepted}, len(rows) - len(accepted)


def search_configuration(
    name: str, index: str, fields: Sequence[str], pipeline: str, session_section: str | None
) -> dict[str, Any]:
    """Return the body of a request that creates a search configuration in the Search Relevance Workbench.

    For each query of a query set, the Workbench then sends a ``multi_match`` query through a search pipeline.

    Args:
        name: Name of the configuration.
        index: Name of the index.
        fields: The text fields to search. If the list is empty, OpenSearch searches all fields.
        pipeline: Name of the search pipeline.
        session_section: The section of ``ext`` in which searches name their session: ``resift`` or ``ml_inference``.
            Each search then names the session in the field ``session`` of its query in the query set. None for searches
            without a session.
    """
    match: dict[str, Any] = {"query": QUERY if session_section is None else QUERY_AND_FIELDS}
    body: dict[str, Any] = {"query": {"multi_match": {**match, **({"fields": list(fields)} if fields else {})}}}
    if session_section is not None:
        body["ext"] = {session_section: {"session": "{{session}}"}}
    return {**_named(name), "index": index, "query": json.dumps(body), "searchPipeline": pipeline}


def _named(name: str, description: str | None = None) -> dict[str, str]:
    texts = {"name": (name, MAX_NAME)} | (
        {} if description is None else {"description": (description, MAX_DESCRIPTION)}
    )
    for key, (text, limit) in texts.items():
        if not _is_text(text, limit):
            expected = f"1 to {limit} characters without quotes, \\ < > # : and line breaks"
            raise BadInput(f"the {key} is {text!r}", value=text, expected=expected)
    return {key: text for key, (text, _) in texts.items()}


def _is_text(text: str, most: int) -> bool:
    return 0 < len(text) <= most and _REFUSED.search(text) is None
