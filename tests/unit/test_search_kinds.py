"""The table of what a session does to each kind of search in ``docs/rewriting.md``."""

from __future__ import annotations

from documented_kinds import VARIANTS, documented_effects
from search_kinds import KINDS


def test_the_documentation_names_every_kind_of_search_that_the_conformance_tests_send() -> None:
    effects = documented_effects()
    assert set(effects) == set(KINDS)
    assert all(effect for by_variant in effects.values() for effect in (by_variant[name] for name in VARIANTS))
