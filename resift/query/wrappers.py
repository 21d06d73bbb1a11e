"""Queries in ``wrapper`` clauses, which contain a query as base64-encoded JSON."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from resift.errors import BadInput
from resift.query.limits import check_brackets
from resift.strict_json import check_json_size, parse_strict


def decode_wrapper(encoded: Any) -> Any:
    """Decode the query of a ``wrapper`` clause, under the same rules as a request body.

    The size and the depth are checked before the query is parsed. Duplicate keys and numbers that are not finite are
    refused, because the decoded query would differ from the query that OpenSearch reads.

    Args:
        encoded: The value of ``query`` in the clause.

    Raises:
        BadInput: If the value is not base64-encoded JSON in UTF-8, or the JSON breaks one of the rules.

    >>> decode_wrapper("eyJpZHMiOiB7fX0=")
    {'ids': {}}
    """
    try:
        raw = b64decode(encoded, validate=True)
        check_json_size("wrapper query", raw)
        text = raw.decode()
        check_brackets("wrapper query", text)
        return parse_strict("wrapper query", text)
    except BadInput:
        raise
    except (ValueError, TypeError, RecursionError):
        raise BadInput(
            "malformed wrapper query",
            value=encoded,
            expected='base64 of JSON; for a field of this name {"match": {"wrapper": TEXT}}',
        ) from None
