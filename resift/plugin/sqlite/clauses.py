"""What a query asks for, as a tree of clauses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from resift.arrays import Floats
from resift.plugin.sqlite.fields import FieldTest
from resift.plugin.sqlite.vectors import Script


@dataclass(frozen=True)
class Everything:
    """All documents, with one score."""

    boost: float = 1.0


@dataclass(frozen=True)
class Ids:
    """The documents with these ids, with one score."""

    ids: frozenset[str]
    boost: float = 1.0


@dataclass(frozen=True)
class Passing:
    """The documents whose fields pass a test, with one score."""

    test: FieldTest
    boost: float = 1.0


@dataclass(frozen=True)
class Text:
    """The documents that hold terms in some text fields: the BM25 score of the best field, and a part of the others'.

    ``boosts``: text field → its weight. ``terms``: as often as they occur in the query. ``every``: whether all terms
    must be in one field; else one is enough. ``tie_breaker``: the part of the other fields' scores, 0 to 1.
    """

    boosts: dict[str, float]
    terms: tuple[str, ...]
    every: bool = False
    boost: float = 1.0
    tie_breaker: float = 0.0


@dataclass(frozen=True)
class Bool:
    """What all of ``must`` and ``filter`` match, none of ``must_not``, and ``least`` of ``should``.

    The score is the sum of the scores of ``must`` and ``should``, or with ``best`` the largest of them.
    """

    must: tuple[Clause, ...] = ()
    should: tuple[Clause, ...] = ()
    filter: tuple[Clause, ...] = ()
    must_not: tuple[Clause, ...] = ()
    least: int = 0
    boost: float = 1.0
    best: bool = False


@dataclass(frozen=True)
class Constant:
    """What ``filter`` matches, with one score."""

    filter: Clause
    boost: float = 1.0


@dataclass(frozen=True)
class Scripted:
    """What ``query`` matches, with the scores of a script."""

    query: Clause
    script: Script
    boost: float = 1.0


@dataclass(frozen=True)
class Weighted:
    """What ``query`` matches, its scores times the weights of all ``functions`` whose clause matches, or the first."""

    query: Clause
    functions: tuple[tuple[Clause, float], ...]
    first: bool
    boost: float = 1.0


@dataclass(frozen=True)
class Nearest:
    """The ``k`` documents nearest to a ``vector`` (K,) in the index's space, among those that match ``filter``; with a
    ``k`` of None all that have a score of ``least``."""

    vector: Floats
    k: int | None
    least: float = 0.0
    filter: Clause | None = None
    boost: float = 1.0


Clause = Everything | Ids | Passing | Text | Bool | Constant | Scripted | Weighted | Nearest


@dataclass(frozen=True)
class Query:
    """A clause, and those of its parts that have a name (``_name``).

    ``queries``: the sub-queries of a hybrid query, each of which finds its best ``depth`` documents, or as many as the
    page has; ``clause`` is what at least one of them matches.
    """

    clause: Clause
    names: Mapping[str, Clause]
    queries: tuple[Clause, ...] = ()
    depth: int | None = None


def parts_of(clause: Clause) -> Iterator[Clause]:
    """A clause and all clauses inside it."""
    yield clause
    for inner in _inner(clause):
        yield from parts_of(inner)


def highlighted_parts(clause: Clause) -> Iterator[Clause]:
    """The parts of a clause whose words are highlighted: all but what ``must_not`` holds and the filter of a k-NN."""
    yield clause
    if isinstance(clause, Weighted):
        yield from highlighted_parts(clause.query)
    elif not isinstance(clause, Nearest):
        for inner in _inner(clause):
            if not (isinstance(clause, Bool) and any(inner is prohibited for prohibited in clause.must_not)):
                yield from highlighted_parts(inner)


def _inner(clause: Clause) -> tuple[Clause, ...]:
    if isinstance(clause, Bool):
        return clause.must + clause.should + clause.filter + clause.must_not
    if isinstance(clause, Scripted):
        return (clause.query,)
    if isinstance(clause, Weighted):
        return (clause.query, *(condition for condition, _ in clause.functions))
    if isinstance(clause, (Constant, Nearest)) and clause.filter is not None:
        return (clause.filter,)
    return ()
