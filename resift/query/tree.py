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
    """A clause of an OpenSearch query, with the clauses inside it as a tree.

    Attributes:
        raw: The clause as the client wrote it. A malformed clause can be any JSON value.
        kind: The name of the clause, for example ``match``. None if the clause is malformed.
        settings: The object under that name. Empty if the clause is malformed.
        role: The role of the clause in its query.
        parts: The clauses inside, by the name of the part that contains them, for example ``must``.
        part_roles: The roles of the parts that a clause of this kind can have.
        ranks_by_meaning: Whether the clause, or a scoring clause inside, ranks by vectors or sparse tokens in a field,
            or is a ``hybrid`` query.
    """

    __slots__ = ("kind", "part_roles", "parts", "ranks_by_meaning", "raw", "role", "settings")
    # The role of a clause of this class if its score contributes to the score of a hit.
    scoring_role: ClassVar[Role] = Role.SCORING
    # Whether every clause of this class ranks by meaning.
    always_ranks_by_meaning: ClassVar[bool] = False

    def __init__(self, raw: Any, kind: str | None, settings: Mapping[str, Any], role: Role) -> None:
        self.raw = raw
        self.kind = kind
        self.settings = settings
        self.role = role
        self.parts: Parts = _NOTHING
        self.part_roles: PartRoles = _NOTHING
        self.ranks_by_meaning = self.always_ranks_by_meaning

    def scoring_parts(self) -> Iterator[tuple[str, tuple[Clause, ...]]]:
        """Yield a pair of name and clauses for each part of a compound clause that contributes to the score.

        For example, a ``bool`` clause has the scoring parts ``must`` and ``should``.
        """
        for name, clauses in self.parts.items():
            if self.part_roles[name] is Role.SCORING:
                yield name, clauses

    def walk(self) -> Iterator[Clause]:
        """Yield this clause and all clauses inside it, depth first."""
        yield self
        for clauses in self.parts.values():
            for clause in clauses:
                yield from clause.walk()

    @property
    def has_unknown(self) -> bool:
        """Whether this clause, or a clause inside it, is malformed or of a kind that Resift does not know."""
        return any(clause.role is Role.OPAQUE for clause in self.walk())

    @property
    def is_scoring(self) -> bool:
        """Whether this clause contributes to the scores of hits. False for filters, for example."""
        return self.role in (Role.SCORING, Role.VECTOR, Role.SPARSE)

    def semantic_clauses(self) -> list[SemanticClause]:
        """Return all clauses that rank hits by the vectors or sparse tokens in a field, such as ``knn``, depth first.

        This clause itself is included. Clauses that do not contribute to scores, such as filters, are left out.
        """
        return [clause for clause in self.walk() if isinstance(clause, SemanticClause) and clause.is_scoring]

    @property
    def searched_fields(self) -> list[str] | None:
        """The fields in which the scoring text clauses inside this clause search, with boosts as in ``title^2``.

        The list is empty if one of the text clauses searches all fields. The value is None if there are no text
        clauses.

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
    def is_text_search(self) -> bool:
        """Whether the clause searches for a text, like ``match``, and does nothing else.

        A clause that only combines other clauses, such as ``dis_max``, is a text search if all these clauses are.
        """
        if self.kind == "bool":
            return self.settings.keys() == {"should"} and _are_text_searches(self.parts.get("should", ()))
        if self.kind == "dis_max":
            return _are_text_searches(self.parts.get("queries", ()))
        return (
            self.kind == "nested"
            and "inner_hits" not in self.settings
            and _are_text_searches(self.parts.get("query", ()))
        )

    @property
    def is_rewritten(self) -> bool:
        """Whether the clause is a query that Resift has already rewritten.

        Resift marks a rewritten query with a ``match_all`` filter that has the name
        :data:`resift.query.dsl.REWRITTEN_NAME`. Only the name is compared, because OpenSearch may add default settings
        to the filter before a search pipeline sees the query.
        """
        conditions = self.parts.get("filter", ()) if self.kind == "bool" else ()
        return any(
            condition.kind == "match_all" and condition.settings.get("_name") == REWRITTEN_NAME
            for condition in conditions
        )

    def replace_scoring_clauses(self, change: Callable[[Clause], Any]) -> Any:
        """Return the clause as JSON, with its scoring clauses replaced.

        Scoring clauses are the direct sub-clauses that contribute to the score, such as those under ``must`` and
        ``should`` of a ``bool`` clause, but not its filters. A clause with a ``min_score`` setting is returned
        unchanged, because other scores inside the clause would change the documents that it matches.

        Args:
            change: A function that is called with each scoring clause, and returns the JSON of its replacement. To
                leave a scoring clause unchanged, the function returns the attribute ``raw`` of the scoring clause.

        Returns:
            The JSON of the new clause, or ``self.raw`` if no scoring clause was changed.
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
        """The fields in which this clause searches, with boosts as in ``title^2``.

        The list is empty if the clause searches all fields. The value is None if the clause is malformed.
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
    def is_text_search(self) -> bool:
        """True for every clause of this class."""
        return True


class HybridClause(Clause):
    """A ``hybrid`` query, which runs several queries separately and merges their rankings."""

    __slots__ = ()
    always_ranks_by_meaning = True

    @property
    def queries(self) -> tuple[Clause, ...]:
        """The queries that are combined."""
        return self.parts.get("queries", ())

    @property
    def is_rewritten(self) -> bool:
        """Whether any of the combined queries is rewritten."""
        return any(clause.is_rewritten for clause in self.queries)


class SemanticClause(Clause):
    """A clause that ranks by the dense vectors or sparse tokens in a field, such as ``knn`` or ``neural_sparse``."""

    __slots__ = ()
    always_ranks_by_meaning = True

    @property
    def field(self) -> str | None:
        """The name of the field, or None if the clause is malformed."""
        return self._field_and_options()[0]

    @property
    def options(self) -> Mapping[str, Any]:
        """The settings of the clause for its field, such as ``{"vector": …, "k": 10}``. Empty if malformed."""
        return self._field_and_options()[1]

    def _field_and_options(self) -> tuple[str | None, Mapping[str, Any]]:
        """Return the name of the searched field and the settings for it, or None and {} if the clause is malformed."""
        if len(self.settings) == 1:
            ((name, options),) = self.settings.items()
            if isinstance(options, Mapping):
                return name, options
        return None, _NOTHING

    @property
    def is_rewritten(self) -> bool:
        """Whether Resift has already rewritten this clause.

        A rewritten query is usually marked by an additional filter. With ``ext.mmr``, the clause cannot be put inside
        another clause. Then its own option ``_name`` is the mark.
        """
        return self.options.get("_name") == REWRITTEN_NAME

    @property
    def is_radial(self) -> bool:
        """Whether this is a radial search: all documents above a minimum score or within a maximum distance match."""
        options = self.options
        return any(options.get(name) is not None for name in _RADIAL_OPTIONS)


class VectorClause(SemanticClause):
    """A ``knn`` or ``neural`` clause, which ranks documents by the similarity of their vectors to a query vector."""

    __slots__ = ()
    scoring_role = Role.VECTOR

    @property
    def vector(self) -> list[Any] | None:
        """The query vector of the clause, or None if there is none.

        For example, a ``neural`` clause with a text has no vector.
        """
        vector = self.options.get("vector")
        return vector if isinstance(vector, list) else None


class ScriptedVectorClause(VectorClause):
    """An exact k-NN search: a ``script_score`` clause with the script ``knn_score``.

    The script compares a query vector with the vector of every matching document.
    """

    __slots__ = ()

    def _field_and_options(self) -> tuple[str | None, Mapping[str, Any]]:
        params = self.settings["script"].get("params")
        if not isinstance(params, Mapping) or not isinstance(params.get("field"), str):
            return None, _NOTHING
        radial = {name: self.settings[name] for name in _RADIAL_OPTIONS if self.settings.get(name) is not None}
        return params["field"], {**params, **radial}

    @property
    def vector(self) -> list[Any] | None:
        """The query vector in the parameters of the script, or None if the parameters contain no vector."""
        vector = self.options.get("query_value")
        return vector if isinstance(vector, list) else None


class SparseClause(SemanticClause):
    """A ``neural_sparse`` clause, which ranks documents by the weights of tokens that they share with the query."""

    __slots__ = ()
    scoring_role = Role.SPARSE

    @property
    def tokens(self) -> dict[str, float] | None:
        """The query tokens of the clause and their weights, or None if the tokens are missing or malformed."""
        tokens = self.options.get("query_tokens")
        if not isinstance(tokens, Mapping) or not tokens:
            return None
        if not all(isinstance(weight, (int, float)) and weight > 0 for weight in tokens.values()):
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


def parse_clause(raw: Any, outer_role: Role = Role.SCORING, level: int = 1) -> Clause:
    """Parse a query clause, and all clauses inside it, into a tree.

    Parsing never fails. A malformed clause becomes a node without a kind, and OpenSearch reports the error. A clause
    that is nested too deeply for :func:`resift.query.limits.check_limits` gets the role ``OPAQUE``.

    Args:
        raw: The clause as JSON.
        outer_role: The role that the enclosing clause gives to this clause, for example ``FILTER`` inside a filter.
            A whole query has the role ``SCORING``.
        level: The depth of the clause in the query. The query itself has level 1.

    Returns:
        The node of the clause. Its attribute ``parts`` contains the nodes of the clauses inside.
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
    clause = kind_class(raw, kind, settings, kind_class.scoring_role if outer_role is Role.SCORING else outer_role)
    if part_roles is not None:
        _parse_parts(clause, part_roles, outer_role, level)
    return clause


def _parse_parts(clause: Clause, part_roles: PartRoles, outer_role: Role, level: int) -> None:
    """Parse the clauses inside a compound clause, and store them in the node of the compound clause.

    The attributes ``parts``, ``part_roles`` and ``ranks_by_meaning`` of the node are set.

    Args:
        clause: The node of the compound clause, for example of a ``bool`` clause.
        part_roles: The parts that a clause of this kind can have, such as ``must`` and ``filter``, and their roles.
        outer_role: The role that the enclosing clause gives to this clause.
        level: The depth of the clause in the query.
    """
    parts = {}
    for name, part_role in part_roles.items():
        value = clause.settings.get(name)
        if value is None:
            continue
        inner_role = part_role if outer_role is Role.SCORING or part_role is Role.EXCLUDED else outer_role
        items = value if isinstance(value, list) else [value]
        parts[name] = tuple([parse_clause(item, inner_role, level + 1) for item in items])
    clause.parts, clause.part_roles = parts, part_roles
    if not clause.always_ranks_by_meaning:
        clause.ranks_by_meaning = any(inner.ranks_by_meaning for _, part in clause.scoring_parts() for inner in part)


def _compares_vectors(settings: Mapping[str, Any]) -> bool:
    """Return whether a ``script_score`` clause runs the script ``knn_score``, which compares vectors.

    Args:
        settings: The settings of the clause.
    """
    script = settings.get("script")
    return isinstance(script, Mapping) and (script.get("lang"), script.get("source")) == ("knn", "knn_score")


def _are_text_searches(clauses: tuple[Clause, ...]) -> bool:
    """Return whether there are clauses, and all of them are text searches."""
    return bool(clauses) and all(clause.is_text_search for clause in clauses)


def boost_of(options: Mapping[str, Any]) -> float:
    """Return the boost of a clause.

    Like OpenSearch, this function accepts a number or a string that contains a number.

    Args:
        options: The settings of the clause that may contain ``boost``.

    Returns:
        The boost. The result is 1 if the boost is missing or malformed; OpenSearch itself rejects a malformed boost.
    """
    try:
        return float(options.get("boost", 1.0))
    except (TypeError, ValueError, OverflowError):  # OverflowError: an integer of more than 308 digits
        return 1.0


def field_boost(field: str) -> float:
    """Return the boost in the name of a searched field.

    >>> field_boost("title^3"), field_boost("title")
    (3.0, 1.0)
    """
    _, caret, boost = field.partition("^")
    return boost_of({"boost": boost}) if caret else 1.0


def as_list(value: Any) -> list[Any]:
    """Return a value as a list, for settings that may be a list or a single item in OpenSearch.

    A single item becomes a list of one item, and None becomes an empty list.
    """
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]
