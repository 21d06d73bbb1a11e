"""The tree of a query, with a node for each clause.

:func:`parse_clause` reads a query once. Each node has the clause as the client wrote it, its kind and its role. All
other questions about a query are answered by properties of a node, by properties of the whole search body
(:mod:`resift.query.body`), or by a visitor (:mod:`resift.query.text`). A rewritten query contains the original objects
of its clauses. So a clause that is not changed is sent exactly as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from resift.query.dsl import REWRITTEN_NAME, Body, NestedField
from resift.query.kinds import (
    HYBRID_KIND,
    KNOWN_KINDS,
    MULTI_FIELD_TEXT_KINDS,
    PARTS,
    SPARSE_KIND,
    TEXT_KINDS,
    VECTOR_KINDS,
    Role,
)
from resift.query.limits import MAX_DEPTH

# A clause takes at least two levels of objects. So a body within MAX_DEPTH has no clauses below this level.
_MAX_CLAUSE_LEVELS = MAX_DEPTH // 2 + 1
_NOTHING: Mapping[str, Any] = MappingProxyType({})
# Clauses whose own ``min_score`` decides what matches. A changed score inside would change the matches.
_SCORE_THRESHOLD_KINDS = frozenset({"function_score", "script_score", "has_child"})
_RADIAL_OPTIONS = ("min_score", "max_distance")

Parts = Mapping[str, tuple["Clause", ...]]
PartRoles = Mapping[str, Role]


class Clause:
    """A clause of a query.

    Attributes:
        raw: The clause as the client wrote it. A malformed clause can be any JSON value.
        kind: The name of the clause, for example ``match``. None if the clause is malformed.
        settings: The object under that name. Empty if the clause is malformed.
        role: The role of the clause in its query.
        parts: The clauses inside, by the name of the part that contains them.
        part_roles: The roles of the parts that a clause of this kind can have.
        ranks_by_meaning: Whether the clause, or a scoring clause inside, ranks by vectors or tokens of the index, or is
            a ``hybrid`` query.
    """

    __slots__ = ("kind", "part_roles", "parts", "ranks_by_meaning", "raw", "role", "settings")
    # The role of a clause of this class where its score counts.
    scoring_role: ClassVar[Role] = Role.SCORING
    # Whether every clause of this class ranks by meaning.
    is_semantic: ClassVar[bool] = False

    def __init__(self, raw: Any, kind: str | None, settings: Mapping[str, Any], role: Role) -> None:
        self.raw = raw
        self.kind = kind
        self.settings = settings
        self.role = role
        self.parts: Parts = _NOTHING
        self.part_roles: PartRoles = _NOTHING
        self.ranks_by_meaning = self.is_semantic

    def scoring_parts(self) -> Iterator[tuple[str, tuple[Clause, ...]]]:
        """Yield the name and the clauses of each part whose scores are part of this clause's score."""
        for name, clauses in self.parts.items():
            if self.part_roles[name] is Role.SCORING:
                yield name, clauses

    def walk(self) -> Iterator[Clause]:
        """Yield this clause and all clauses inside, depth first."""
        yield self
        for clauses in self.parts.values():
            for clause in clauses:
                yield from clause.walk()

    @property
    def is_scoring(self) -> bool:
        """Whether the score of the clause is part of the score of a hit."""
        return self.role in (Role.SCORING, Role.VECTOR, Role.SPARSE)

    def field_clauses(self) -> list[FieldClause]:
        """Return the scoring clauses that rank by the vectors or tokens in a field, depth first."""
        return [clause for clause in self.walk() if isinstance(clause, FieldClause) and clause.is_scoring]

    @property
    def searched_fields(self) -> list[str] | None:
        """The fields that the scoring text clauses inside search, with their boosts.

        The list is empty if a text clause searches all fields. None if there are no scoring text clauses.

        >>> title = {"match": {"title": {"query": "a", "boost": 2}}}
        >>> parse_clause({"bool": {"should": [title, {"match": {"text": "b"}}]}}).searched_fields
        ['title^2', 'text']
        """
        searched = [
            fields
            for _, clauses in self.scoring_parts()
            for clause in clauses
            if (fields := clause.searched_fields) is not None
        ]
        if not searched:
            return None
        names = list(dict.fromkeys(name for fields in searched for name in fields)) if all(searched) else []
        path = self.settings.get("path")
        return [NestedField(name, path) for name in names] if self.kind == "nested" and isinstance(path, str) else names

    @property
    def is_text(self) -> bool:
        """Whether the clause searches for a text, or only combines clauses that all search for a text."""
        if self.kind == "bool":
            return self.settings.keys() == {"should"} and _are_texts(self.parts.get("should", ()))
        if self.kind == "dis_max":
            return _are_texts(self.parts.get("queries", ()))
        return self.kind == "nested" and "inner_hits" not in self.settings and _are_texts(self.parts.get("query", ()))

    @property
    def is_rewritten(self) -> bool:
        """Whether Resift has rewritten the query already.

        A rewritten query is a ``bool`` clause with a filter whose ``_name`` is
        :data:`resift.query.dsl.REWRITTEN_NAME`. Other settings of the filter are not compared, because OpenSearch adds
        defaults to a query before a search pipeline reads it.
        """
        conditions = self.parts.get("filter", ()) if self.kind == "bool" else ()
        return any(
            condition.kind == "match_all" and condition.settings.get("_name") == REWRITTEN_NAME
            for condition in conditions
        )

    def replace_scoring_clauses(self, change: Callable[[Clause], Any]) -> Any:
        """Return the clause as JSON, with its scoring clauses replaced.

        The result is ``raw`` itself if no scoring clause changes. A clause with a ``min_score`` of its own never
        changes, because the scores inside decide what it matches.

        Args:
            change: A function that takes a scoring clause and returns the JSON of its replacement. To leave the clause
                unchanged, it returns the ``raw`` of the clause.
        """
        if self.kind in _SCORE_THRESHOLD_KINDS and self.settings.get("min_score") is not None:
            return self.raw
        changed_parts: Body = {}
        for name, clauses in self.scoring_parts():
            replacements = [change(clause) for clause in clauses]
            if any(new is not clause.raw for new, clause in zip(replacements, clauses, strict=True)):
                changed_parts[name] = replacements if isinstance(self.settings[name], list) else replacements[0]
        return {self.kind: {**self.settings, **changed_parts}} if changed_parts else self.raw


class TextClause(Clause):
    """A clause that searches for a text, for example ``match``."""

    __slots__ = ()

    @property
    def searched_fields(self) -> list[str] | None:
        """The fields that the clause searches, with their boosts.

        The list is empty if the clause searches all fields. None if the clause is malformed.
        """
        if self.kind in MULTI_FIELD_TEXT_KINDS:
            fields = self.settings.get("fields") or self.settings.get("default_field")
            return [name for name in as_list(fields) if isinstance(name, str)]
        if len(self.settings) != 1:
            return None
        ((name, options),) = self.settings.items()  # {field: text} or {field: {"query": text, "boost": 2}}
        boost = boost_of(options) if isinstance(options, Mapping) else 1
        return [name if boost == 1 else f"{name}^{boost:g}"]

    @property
    def is_text(self) -> bool:
        """True for every clause of this class."""
        return True


class HybridClause(Clause):
    """A ``hybrid`` query: OpenSearch ranks the hits of several queries separately, and combines the rankings."""

    __slots__ = ()
    is_semantic = True

    @property
    def queries(self) -> tuple[Clause, ...]:
        """The queries that are combined."""
        return self.parts.get("queries", ())

    @property
    def is_rewritten(self) -> bool:
        """Whether any of the combined queries is rewritten."""
        return any(clause.is_rewritten for clause in self.queries)


class FieldClause(Clause):
    """A clause that ranks by the vectors or tokens in a field."""

    __slots__ = ()
    is_semantic = True

    @property
    def field(self) -> str | None:
        """The name of the field, or None if the clause is malformed."""
        return self._field_and_options()[0]

    @property
    def options(self) -> Mapping[str, Any]:
        """The settings of the clause for its field. Empty if the clause is malformed."""
        return self._field_and_options()[1]

    def _field_and_options(self) -> tuple[str | None, Mapping[str, Any]]:
        if len(self.settings) == 1:
            ((name, options),) = self.settings.items()
            if isinstance(options, Mapping):
                return name, options
        return None, _NOTHING

    @property
    def is_radial(self) -> bool:
        """Whether the clause matches all documents above a minimum score or within a maximum distance."""
        options = self.options
        return any(options.get(name) is not None for name in _RADIAL_OPTIONS)


class VectorClause(FieldClause):
    """A ``knn`` or ``neural`` clause."""

    __slots__ = ()
    scoring_role = Role.VECTOR

    @property
    def vector(self) -> list[Any] | None:
        """The query vector in the clause, or None if the clause contains no vector."""
        vector = self.options.get("vector")
        return vector if isinstance(vector, list) else None


class ScriptedVectorClause(VectorClause):
    """A ``script_score`` clause whose script ``knn_score`` compares a query vector with the vectors in a field."""

    __slots__ = ()

    def _field_and_options(self) -> tuple[str | None, Mapping[str, Any]]:
        params = self.settings["script"].get("params")
        if not isinstance(params, Mapping) or not isinstance(params.get("field"), str):
            return None, _NOTHING
        radial = {name: self.settings[name] for name in _RADIAL_OPTIONS if self.settings.get(name) is not None}
        return params["field"], {**params, **radial}

    @property
    def vector(self) -> list[Any] | None:
        """The query vector in the parameters of the script, or None if they contain no vector."""
        vector = self.options.get("query_value")
        return vector if isinstance(vector, list) else None


class SparseClause(FieldClause):
    """A ``neural_sparse`` clause."""

    __slots__ = ()
    scoring_role = Role.SPARSE

    @property
    def tokens(self) -> dict[str, float] | None:
        """The query tokens in the clause and their weights, or None if they are missing or malformed."""
        tokens = self.options.get("query_tokens")
        if not isinstance(tokens, Mapping) or not tokens:
            return None
        if not all(isinstance(weight, (int, float)) for weight in tokens.values()):
            return None
        return {token: float(weight) for token, weight in tokens.items()}


_CLASSES: Mapping[str, type[Clause]] = {
    **dict.fromkeys(TEXT_KINDS, TextClause),
    **dict.fromkeys(VECTOR_KINDS, VectorClause),
    SPARSE_KIND: SparseClause,
    HYBRID_KIND: HybridClause,
}
# The score of the inner query does not count, because the script replaces it.
_SCRIPTED_PART_ROLES: PartRoles = {"query": Role.FILTER}


def parse_clause(raw: Any, position: Role = Role.SCORING, level: int = 1) -> Clause:
    """Parse a query clause and the clauses inside.

    Parsing raises no errors. A malformed clause becomes a node without a kind. A clause that is nested deeper than
    :func:`resift.query.limits.check_limits` allows gets the role ``OPAQUE``.

    Args:
        raw: The clause as JSON.
        position: The role of the part that contains the clause: ``FILTER`` for a clause in a filter, for example.
        level: The depth of the clause in its query. The whole query has the depth 1.

    Returns:
        The node of the clause. Its ``parts`` contain the nodes of the clauses inside.
    """
    if not isinstance(raw, Mapping) or len(raw) != 1:
        return Clause(raw, None, _NOTHING, Role.OPAQUE)
    ((kind, settings),) = raw.items()
    if not isinstance(settings, Mapping):
        return Clause(raw, None, _NOTHING, Role.OPAQUE)
    if kind not in KNOWN_KINDS or level > _MAX_CLAUSE_LEVELS:
        return Clause(raw, kind, settings, Role.OPAQUE)
    kind_class, part_roles = _CLASSES.get(kind, Clause), PARTS.get(kind)
    if kind == "script_score" and _compares_vectors(settings):
        kind_class, part_roles = ScriptedVectorClause, _SCRIPTED_PART_ROLES
    clause = kind_class(raw, kind, settings, kind_class.scoring_role if position is Role.SCORING else position)
    if part_roles is not None:
        _parse_parts(clause, part_roles, position, level)
    return clause


def _parse_parts(clause: Clause, part_roles: PartRoles, position: Role, level: int) -> None:
    """Parse the clauses inside a clause, and set its ``parts``, ``part_roles`` and ``ranks_by_meaning``.

    Args:
        clause: The clause.
        part_roles: The roles of the parts that a clause of this kind can have, by the names of the parts.
        position: The role of the part that contains the clause.
        level: The depth of the clause in its query.
    """
    parts = {}
    for name, part_role in part_roles.items():
        value = clause.settings.get(name)
        if value is None:
            continue
        inner_position = part_role if position is Role.SCORING or part_role is Role.EXCLUDED else position
        items = value if isinstance(value, list) else [value]
        parts[name] = tuple([parse_clause(item, inner_position, level + 1) for item in items])
    clause.parts, clause.part_roles = parts, part_roles
    if not clause.is_semantic:
        clause.ranks_by_meaning = any(inner.ranks_by_meaning for _, part in clause.scoring_parts() for inner in part)


def _compares_vectors(settings: Mapping[str, Any]) -> bool:
    """Return whether the script of a ``script_score`` clause is ``knn_score``."""
    script = settings.get("script")
    return isinstance(script, Mapping) and (script.get("lang"), script.get("source")) == ("knn", "knn_score")


def _are_texts(clauses: tuple[Clause, ...]) -> bool:
    return bool(clauses) and all(clause.is_text for clause in clauses)


def boost_of(options: Mapping[str, Any]) -> float:
    """Return the boost in the options of a clause, by default 1.

    OpenSearch also accepts a string that contains a number. For a malformed boost, 1 is returned, and OpenSearch
    reports the error.
    """
    try:
        return float(options.get("boost", 1.0))
    except (TypeError, ValueError):
        return 1.0


def as_list(value: Any) -> list[Any]:
    """Return the items of a value for which OpenSearch accepts both a list and a single item."""
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]
