"""The tree of a query, on every search body in the REST tests of OpenSearch."""

from __future__ import annotations

import json
from typing import Any

import pytest
from opensearch_fixture import required
from rest_api_spec import SpecUnavailable, search_bodies

from resift.query.body import parse
from resift.query.kinds import Role
from resift.query.limits import check_limits


@pytest.fixture(scope="module")
def bodies() -> list[tuple[str, dict[str, Any]]]:
    """All search bodies, with the names of their tests."""
    try:
        return list(search_bodies())
    except SpecUnavailable as error:
        if required():
            raise
        pytest.skip(str(error))


def test_parsing_changes_nothing(bodies: list[tuple[str, dict[str, Any]]]) -> None:
    for name, body in bodies:
        before = json.dumps(body)
        query = parse(body)
        assert query.body is body, name
        assert json.dumps(body) == before, name
        for clause in query.root.walk():
            assert clause.replace_scoring_clauses(lambda inner: inner.raw) is clause.raw, name
        check_limits("body", body, 100_000)


def test_the_kinds_of_clauses_are_known(bodies: list[tuple[str, dict[str, Any]]]) -> None:
    clauses = [clause for _, body in bodies for clause in parse(body).root.walk()]
    assert {clause.kind for clause in clauses if clause.role is Role.OPAQUE} <= {None}
