"""The number of clauses that OpenSearch counts in a query.

OpenSearch refuses a query with more than 1,024 clauses (``indices.query.bool.max_clause_count``). Each word of a text
counts once for each field in which it is searched, and a pattern such as ``attr_*`` stands for all fields that match
it. The exact number depends on analyzers and on the words of the index. :class:`ClauseCounter` returns an upper
estimate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from resift.query.kinds import (
    LEAF_KINDS,
    MULTI_FIELD_TEXT_KINDS,
    PARTS,
    SINGLE_FIELD_TEXT_KINDS,
    SPARSE_KIND,
    TEXT_KINDS,
    VECTOR_KINDS,
    Role,
)
from resift.query.patterns import NamePatterns
from resift.query.tree import Clause, as_list, parse_clause
from resift.text import tokenize

FieldTypes = Mapping[str, str]
"""The types of the fields of one index, such as ``text`` or ``date``, by the full names of the fields."""

MAX_ENGINE_CLAUSES = 1024
"""OpenSearch's default of ``indices.query.bool.max_clause_count``."""
UNKNOWN_FIELDS = 50
"""The number of fields that a pattern is assumed to match if the mapping is unknown."""
# If a text is searched in more patterns than this, they are assumed to match all fields. To compare thousands of
# patterns with each field would take seconds.
_MAX_PATTERNS = 100
# Lucene counts many clauses about numbers, dates or ranges twice, because they contain two queries: one for the index,
# and one for the doc values.
_VALUE_CLAUSES = 2
WORD_TYPES = frozenset({"text", "match_only_text", "keyword", "wildcard", "constant_keyword", "flat_object", "boolean"})
"""The types of fields that contain words."""
# A pattern never matches fields of these types.
_NOT_IN_PATTERNS = frozenset(
    {"knn_vector", "rank_feature", "rank_features", "sparse_vector", "binary", "geo_point", "geo_shape", "join"}
    | {"xy_point", "xy_shape", "percolator", "completion"}
)
# The number of terms to which OpenSearch expands a word of a fuzzy search by default.
_FUZZY_TERMS = 50
_MORE_LIKE_THIS_TERMS = 25
# The number of tokens that a sparse model is assumed to make of a text. Each token is a clause.
_SPARSE_TOKENS = 256
_WORD_PATTERN_KINDS = frozenset({"prefix", "wildcard", "regexp", "fuzzy"})
# Clauses that contain lists of words, or rules about words and their positions.
_RULE_KINDS = frozenset({"terms_set", "intervals", *(kind for kind in LEAF_KINDS if "span" in kind)})
_VALUE_KINDS = frozenset({"terms", "range", *(kind for kind in LEAF_KINDS if "geo" in kind or "xy" in kind)})
# Clauses whose text has a syntax with operators and wildcards.
_SYNTAX_KINDS = frozenset({"query_string", "simple_query_string"})
# Types of ``multi_match`` that search each word of a text in the same way.
_WORD_TYPES_OF_MULTI_MATCH = ("best_fields", "most_fields", "cross_fields")
_COMMON_SETTINGS = ("boost", "_name")
# A value of the option ``rewrite`` that limits the number of terms of a pattern, for example ``top_terms_20``.
_TOP_TERMS = re.compile(r"top_terms\D*(\d+)")
# A pattern of field names in a query string, for example ``attr_*:fire``.
_FIELD_PATTERN = re.compile(r"\*[\w.]*:")


class ClauseCounter:
    """Estimates how many clauses OpenSearch counts in a query. OpenSearch limits this number.

    The estimates are upper limits. They depend on the fields of the searched indices.

    Args:
        mappings: The field types of each searched index. Empty if they are unknown.
        terms_per_word: The number of terms that the analyzers of the searched fields make of a word. It is more than 1
            for an ``ngram`` tokenizer, for example.
    """

    def __init__(self, mappings: Sequence[FieldTypes] = (), terms_per_word: int = 1) -> None:
        self._mappings, self._terms_per_word = mappings, terms_per_word

    def clauses_per_term(self, names: Sequence[str]) -> int:
        """Return how many query clauses OpenSearch counts for a single term that is searched in some fields.

        A term is a word as most analyzers return it. See :func:`term_count`.

        If several indices are searched, the largest number of all indices is returned.

        Args:
            names: The names of the fields, which can have boosts. A name can be a pattern. If empty, all fields are
                searched.

        >>> counter = ClauseCounter([{"title": "text", "attr_a": "keyword", "attr_b": "text"}])
        >>> counter.clauses_per_term(["title^2", "attr_*"])
        3
        >>> ClauseCounter([{"title": "text", "year": "integer"}]).clauses_per_term([])
        3
        """
        bare = [name.partition("^")[0] for name in names] or ["*"]
        if not self._mappings:
            count = sum(UNKNOWN_FIELDS if "*" in name else 1 for name in bare)
        else:
            count = max(_term_clauses_of_index(types, bare) for types in self._mappings)
        return count * self._terms_per_word

    def count_clauses(self, clause: Clause) -> int:
        """Return an upper limit for the number of clauses that OpenSearch counts for a query.

        Args:
            clause: The parsed query.

        >>> terms = [{"term": {"tag": str(number)}} for number in range(300)]
        >>> ClauseCounter([{"tag": "keyword"}]).count_clauses(parse_clause({"bool": {"should": terms}}))
        300
        """
        if clause.role is Role.OPAQUE or clause.kind is None:
            return _scalar_count(clause.raw)
        if clause.kind in TEXT_KINDS:
            return self._text_clause_count(clause)
        inner = sum(self.count_clauses(part) for parts in clause.parts.values() for part in parts)
        return max(1, inner + self._option_filter_clause_count(clause) + self._leaf_clause_count(clause))

    def _text_clause_count(self, clause: Clause) -> int:
        """Return how many clauses OpenSearch counts for a clause that searches for a text, such as ``match``.

        Each term of the text is searched in each field. The words of query string syntax, such as operators, are also
        counted.
        """
        text, settings = _text_and_settings(clause)
        names = clause.searched_fields or []
        has_pattern = clause.kind in MULTI_FIELD_TEXT_KINDS and _FIELD_PATTERN.search(text)
        per_term = self.clauses_per_term([] if has_pattern else names)
        return per_term * _max_term_count(str(clause.kind), text, settings)

    def _option_filter_clause_count(self, clause: Clause) -> int:
        """Return how many clauses OpenSearch counts for the filters in the options of a clause.

        Vector clauses, such as ``knn``, and the functions of ``function_score`` have such filters. The parsed query
        does not contain them as parts.
        """
        filters: list[Any] = []
        if clause.kind in VECTOR_KINDS:
            filters = [options.get("filter") for options in clause.settings.values() if isinstance(options, Mapping)]
        elif clause.kind == "function_score":
            functions = as_list(clause.settings.get("functions"))
            filters = [function.get("filter") for function in functions if isinstance(function, Mapping)]
        return sum(self.count_clauses(parse_clause(filter, Role.FILTER)) for filter in filters if filter is not None)

    def _leaf_clause_count(self, clause: Clause) -> int:
        """Return how many clauses OpenSearch counts for a query clause, without the clauses inside it.

        A compound clause, such as ``bool``, counts as 0. A clause that searches for a pattern counts as the largest
        number of terms to which OpenSearch may expand the pattern.
        """
        kind, settings = str(clause.kind), clause.settings
        if kind == "term":
            return max((self._term_clause_count(name) for name in settings if name not in _COMMON_SETTINGS), default=1)
        if kind in _WORD_PATTERN_KINDS:
            return max((_max_pattern_terms(kind, options) for options in settings.values()), default=1)
        if kind == "exists":
            return self._exists_clause_count(str(settings.get("field", "")))
        if kind == SPARSE_KIND:
            return sum(_token_count(options) for options in settings.values())
        if kind == "more_like_this":
            names = [name for name in as_list(settings.get("fields")) if isinstance(name, str)]
            return _positive_int(settings.get("max_query_terms"), _MORE_LIKE_THIS_TERMS) * self.clauses_per_term(names)
        if kind in _RULE_KINDS:
            # OpenSearch expands a span_multi to all words that match it.
            return MAX_ENGINE_CLAUSES if "span_multi" in str(clause.raw) else _scalar_count(settings)
        return 0 if kind in PARTS else _VALUE_CLAUSES if kind in _VALUE_KINDS else 1

    def _term_clause_count(self, name: str) -> int:
        """Return how many clauses OpenSearch counts for a ``term`` clause: 1, or 2 for numbers and dates, for example.

        Args:
            name: The name of the field that the clause searches.
        """
        if not self._mappings:
            return _VALUE_CLAUSES
        return max(_field_clause_count(types.get(name, "text")) for types in self._mappings)

    def _exists_clause_count(self, name: str) -> int:
        """Return how many clauses OpenSearch counts for an ``exists`` clause.

        Args:
            name: The name of a field, or a pattern. If it matches several fields, or is an object with several fields,
                each field is a clause.
        """
        patterns = NamePatterns((name, f"{name}.*"))
        return max((sum(map(patterns.match, types)) for types in self._mappings), default=1) or 1


def _term_clauses_of_index(types: FieldTypes, names: Sequence[str]) -> int:
    """Return the number of clauses for one term in the fields of one index.

    Args:
        types: The types of the fields of the index.
        names: The names or patterns of the fields.
    """
    patterns = {name for name in names if "*" in name}
    searched = set(names) - patterns
    if patterns:
        in_patterns = (name for name, type in types.items() if type not in _NOT_IN_PATTERNS)
        matches = NamePatterns(patterns if len(patterns) <= _MAX_PATTERNS else ["*"]).match
        searched.update(filter(matches, in_patterns))
    return sum(_field_clause_count(types.get(name, "text")) for name in searched) or 1


def _field_clause_count(type: str) -> int:
    """Return how many clauses OpenSearch counts for one term or value in a field of this type."""
    return 1 if type in WORD_TYPES else _VALUE_CLAUSES


def _text_and_settings(clause: Clause) -> tuple[str, Mapping[str, Any]]:
    """Return the search text and the options of a text clause, such as ``match`` or ``query_string``.

    Returns:
        The text as the clause contains it, including any query string syntax, and a mapping with the clause's options.
    """
    settings: Mapping[str, Any] = clause.settings
    if clause.kind in SINGLE_FIELD_TEXT_KINDS:
        options = next(iter(settings.values()), "")
        settings = options if isinstance(options, Mapping) else {"query": options}
    return str(settings.get("query", "")), settings


def _token_count(options: Any) -> int:
    """Return the number of query tokens in a ``neural_sparse`` clause, or an estimate if the clause contains no tokens.

    Args:
        options: The settings of the clause for its field, which may contain the query tokens.
    """
    tokens = options.get("query_tokens") if isinstance(options, Mapping) else None
    return len(tokens) if isinstance(tokens, Mapping) else _SPARSE_TOKENS


def term_count(text: str) -> int:
    """Return into how many terms an analyzer may split a text, at least 1.

    Analyzers split Chinese and Japanese words into characters or pairs of characters.

    >>> term_count("fire"), term_count("bush fire"), term_count("ビューア")
    (1, 2, 4)
    """
    return max(1, len(tokenize(text)))


def _max_term_count(kind: str, text: str, settings: Mapping[str, Any]) -> int:
    """Return the maximum number of terms for which OpenSearch searches a field, given the text of a query.

    A plain word is a single term. OpenSearch expands a fuzzy word (also found with misspellings) or a pattern to
    several terms of the index.

    Args:
        kind: The type of the text clause. The option ``fuzziness`` makes all words fuzzy, except in a
            ``query_string``. There it concerns only words with ``~``, and OpenSearch adds the option to each
            ``query_string`` that it passes on.
        text: The text with its syntax. In a query string, a word with ``~`` is fuzzy, and ``*`` is a wildcard.
        settings: The settings of the text clause.
    """
    has_syntax = kind in _SYNTAX_KINDS
    is_fuzzy = settings.get("fuzziness") is not None and kind != "query_string"
    words = _distinct_term_count(text) if _merges_repeated_words(kind, settings) else term_count(text)
    misspelt = words if is_fuzzy else text.count("~") if has_syntax else 0
    expanded = _positive_int(settings.get("max_expansions", settings.get("fuzzy_max_expansions")), _FUZZY_TERMS)
    per_pattern = _VALUE_CLAUSES if has_syntax and ("*" in text or "?" in text) else 1
    per_word = max(per_pattern, _max_terms_of_rewrite(settings.get("rewrite")))
    return max(words - misspelt, 0) * per_word + misspelt * expanded


def _merges_repeated_words(kind: str, settings: Mapping[str, Any]) -> bool:
    """Return whether a word that occurs several times in the text of a clause counts as a single clause.

    Lucene merges equal clauses of a ``bool`` query before it counts them, unless several of them must match
    (``minimum_should_match``). The result is False if this is not certain, for example in a query string with groups in
    parentheses.

    Args:
        kind: The type of the text clause.
        settings: The settings of the text clause.
    """
    if settings.get("fuzziness") is not None or settings.get("minimum_should_match") is not None:
        return False
    if kind == "multi_match":
        return settings.get("type", "best_fields") in _WORD_TYPES_OF_MULTI_MATCH
    return kind in ("match", "combined_fields")


def _distinct_term_count(text: str) -> int:
    """Return into how many different terms an analyzer may split a text, at least 1.

    Everything between two spaces is compared as a whole, because analyzers split texts without spaces into overlapping
    pairs of characters.

    >>> _distinct_term_count("fire and bush and fire"), _distinct_term_count("ああいい ああいい")
    (3, 4)
    """
    return max(1, sum(len(tokenize(part)) for part in dict.fromkeys(text.split())))


def _max_pattern_terms(kind: str, options: Any) -> int:
    """Return the maximum number of terms to which OpenSearch expands a clause that contains a pattern of a word.

    Args:
        kind: The type of the clause: ``prefix``, ``wildcard``, ``regexp`` or ``fuzzy``.
        options: The value of the searched field in the clause: the pattern, or an object with options.
    """
    settings = options if isinstance(options, Mapping) else {}
    terms = _positive_int(settings.get("max_expansions"), _FUZZY_TERMS) if kind == "fuzzy" else _VALUE_CLAUSES
    return max(terms, _max_terms_of_rewrite(settings.get("rewrite")))


def _max_terms_of_rewrite(method: Any) -> int:
    """Return the maximum number of terms to which OpenSearch expands a pattern, according to the option ``rewrite``.

    For example, ``top_terms_50`` allows 50 terms, and ``constant_score`` counts as a single clause. Methods that set no
    limit can expand a pattern to :data:`MAX_ENGINE_CLAUSES` terms.

    Args:
        method: The value of the option ``rewrite`` in a clause such as ``wildcard`` or ``prefix``. None if it is not
            set.
    """
    if not isinstance(method, str) or method in ("constant_score", "constant_score_blended"):
        return 1
    top = _TOP_TERMS.fullmatch(method)
    return int(top[1]) if top else MAX_ENGINE_CLAUSES


def _positive_int(value: Any, default: int) -> int:
    """Return the value of a clause's option if it is a positive integer, otherwise the default.

    Args:
        value: The value of the option, of any JSON type.
        default: The value to return otherwise.
    """
    return value if isinstance(value, int) and value > 0 else default


def _scalar_count(value: Any) -> int:
    """Return the number of strings, numbers, booleans and nulls in a JSON value.

    It serves as an estimate of the number of clauses in a query that Resift cannot parse. A list of numbers, such as a
    vector, and an empty object each count as a single value.
    """
    if isinstance(value, Mapping):
        return sum(map(_scalar_count, value.values())) or 1
    if isinstance(value, list) and not all(isinstance(item, (int, float)) for item in value):
        return sum(map(_scalar_count, value))
    return 1
