"""The searches of OpenSearch's own REST tests, sent plainly, rewritten without a session, and rewritten in a session.

Without a session the answer must be identical. In a session, only scores and the order of hits may change: totals,
aggregations, suggestions, documents, and the parts of each hit must be the same. ``known_differences.yml`` lists the
exceptions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from answers import Difference
from known_differences import KnownDifferences
from opensearch_fixture import required
from rest_api_spec import SpecFile, SpecUnavailable, spec_files, spec_paths
from spec_runner import SpecRunner
from three_ways import OpenSearchClient, Search, ThreeWays

pytestmark = pytest.mark.filterwarnings("ignore::opensearchpy.exceptions.OpenSearchWarning")


def files() -> list[object]:
    """Return the paths of the test files, or one parameter that skips or fails if they cannot be fetched."""
    try:
        return list(spec_paths())
    except SpecUnavailable as error:
        return [f"unavailable: {error}"]


@cache
def files_by_path() -> dict[str, list[SpecFile]]:
    """Return the files of both sources by their path."""
    by_path: dict[str, list[SpecFile]] = {}
    for file in spec_files():
        by_path.setdefault(file.path, []).append(file)
    return by_path


@pytest.mark.parametrize("path", files())
def test_a_session_changes_only_scores(
    path: str,
    opensearch_client: OpenSearchClient,
    opensearch_version: str,
    renew: Callable[[], None],
    three_ways: ThreeWays,
    known_differences: KnownDifferences,
) -> None:
    if path.startswith("unavailable"):
        assert not required(), path
        pytest.skip(path)
    searches: list[str] = []
    differences: list[tuple[str, str, Difference]] = []
    for file in files_by_path().get(path, []):

        def compare(section: str, number: int, search: Search, file: SpecFile = file) -> None:
            name = f"{file.name}: {section}, search {number}"
            searches.append(name)
            differences.extend((name, way, difference) for way, difference in three_ways.compare(search))

        def forget() -> None:
            renew()
            three_ways.forget()

        runner = SpecRunner(opensearch_client, compare, forget)
        runner.run(file)
        if runner.failures and opensearch_version < "3":
            pytest.skip(f"OpenSearch {opensearch_version} lacks what the tests set up: {runner.failures[0]}")
        assert not runner.failures
    known_differences.check(searches, differences)


def test_most_searches_are_rewritten_in_a_session(three_ways: ThreeWays) -> None:
    counts = three_ways.counts
    if counts["searches"] < 1000:
        pytest.skip("only some of the files were run")
    assert counts["in a session: rewritten"] > counts["searches"] / 2
    assert counts["failed plainly"] < counts["searches"] / 5
