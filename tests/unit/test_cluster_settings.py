"""Tests of the cluster settings that an installation changes, without a cluster."""

from __future__ import annotations

import pytest

from resift.plugin.cluster.settings import (
    PRIVATE_ADDRESSES,
    TRUSTED_ADDRESSES,
    TRUSTED_PRIVATE_ADDRESSES,
    accepted_patterns,
    necessary_changes,
    trusted_pattern,
)

URL = "http://127.0.0.1:8080"
OWN = r"^http://127\.0\.0\.1:8080/.*$"
FOREIGN = r"^https://api\.openai\.com/.*$"
NESTED = r"^https://([a-z]+\.)+example\.com/(a*)+$"


def changed_settings(current: dict[str, object], is_private: bool = True) -> dict[str, object]:
    """Return the new values of the settings that must change."""
    return {change.name: change.new_value for change in necessary_changes(current, URL, is_private)}


def test_patterns_are_appended_to_lists() -> None:
    assert changed_settings({PRIVATE_ADDRESSES: "false", TRUSTED_ADDRESSES: [FOREIGN]}) == {
        PRIVATE_ADDRESSES: "true",
        TRUSTED_ADDRESSES: [FOREIGN, OWN],
    }
    assert changed_settings({PRIVATE_ADDRESSES: "true", TRUSTED_ADDRESSES: [FOREIGN, "^http://.*$"]}) == {}
    assert changed_settings({TRUSTED_ADDRESSES: []}, is_private=False) == {TRUSTED_ADDRESSES: [OWN]}


def test_since_3_7_a_list_of_private_addresses_is_checked_if_it_is_not_empty() -> None:
    allowed = {PRIVATE_ADDRESSES: "true", TRUSTED_ADDRESSES: [OWN]}
    assert changed_settings({**allowed, TRUSTED_PRIVATE_ADDRESSES: []}) == {}
    assert changed_settings({**allowed, TRUSTED_PRIVATE_ADDRESSES: [FOREIGN]}) == {
        TRUSTED_PRIVATE_ADDRESSES: [FOREIGN, OWN]
    }
    assert changed_settings({**allowed, TRUSTED_PRIVATE_ADDRESSES: [FOREIGN]}, is_private=False) == {}
    assert changed_settings({**allowed, TRUSTED_PRIVATE_ADDRESSES: [OWN]}) == {}


def test_a_pattern_that_ml_commons_refuses_since_3_7_is_removed_and_reported() -> None:
    current = {PRIVATE_ADDRESSES: "true", TRUSTED_ADDRESSES: [NESTED, FOREIGN], TRUSTED_PRIVATE_ADDRESSES: []}
    (change,) = necessary_changes(current, URL, True)
    assert change.new_value == [FOREIGN, OWN]
    assert f"and remove {NESTED}, which this version of ML Commons refuses" in str(change)
    # before 3.7, the pattern stays
    del current[TRUSTED_PRIVATE_ADDRESSES]
    (change,) = necessary_changes(current, URL, True)
    assert change.new_value == [NESTED, FOREIGN, OWN]
    assert "remove" not in str(change)


@pytest.mark.parametrize(
    ("pattern", "is_accepted"),
    [
        (r"^https://rekognition(-fips)?\..*[a-z0-9-]\.amazonaws\.com$", True),
        (FOREIGN, True),
        (NESTED, False),
        (r"(a+)+b", False),
        (r"(a|b?){2}", False),
        (r"(a)\1", False),
        ("a" * 256, True),
        ("a" * 257, False),
    ],
)
def test_only_short_and_safe_patterns_are_accepted_since_3_7(pattern: str, is_accepted: bool) -> None:
    assert accepted_patterns([pattern], {TRUSTED_PRIVATE_ADDRESSES: []}) == ([pattern] if is_accepted else [])
    assert accepted_patterns([pattern], {}) == [pattern]


@pytest.mark.parametrize("url", [URL, "https://[::1]:8080", "https://search-1.example.com", "http://10.1.2.3:80"])
def test_the_pattern_of_every_service_is_accepted(url: str) -> None:
    pattern = trusted_pattern(url)
    assert accepted_patterns([pattern], {TRUSTED_PRIVATE_ADDRESSES: []}) == [pattern]
