"""Clauses of text: what a body asks for, which of its clauses score, and those that ask for a question or for words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from resift.contracts.query_dsl import Body, NestedField, text_clause
from resift.rewriting.clauses import boost_of, inner_clauses, kind_of
from resift.text import ANALYZER_STOP_WORDS, FUNCTION_WORDS, tokenize, word_places

_TEXT_CLAUSES = (
    "match",
    "multi_match",
    "match_phrase",
    "match_phrase_prefix",
    "match_bool_prefix",
    "query_string",
    "simple_query_string",
    "combined_fields",
)
_OF_SEVERAL = ("multi_match", "query_string", "simple_query_string", "combined_fields")  # fields
_BY_MODELS = ("neural", "neural_sparse")  # which have a text encoded
# What a query says of hits that nobody looks for, and of conditions beside the words.
_UNWANTED, _CONDITIONS = ("must_not", "negative"), ("filter", "functions")
# OpenSearch refuses a query of more than 1024 clauses, and counts each word in each field.
CLAUSES = 1000
# Where nothing says which fields are searched, it is all that an index has.
_UNKNOWN_FIELDS = 50
# How many words stand for a text of more than that. Of a pasted document fewer and more telling ones find more: 50 to
# 200 do better than 400, and these than as many as the engine takes.
_TELLING = 100
# What a query_string says beside the words that it asks for.
_NAME = r"[\w.*-]+:"
_FIELD = rf"(?<![\w.*\\-]){_NAME}"
_VALUE = r"""(?:"[^"]*"|\([^()]*\)|[^\s()]+)(?:[~^][\d.]*)?"""
_NEGATED = re.compile(rf"(?<![^\s(])[-!](?:{_NAME})?{_VALUE}")
_NO_WORDS = re.compile(rf"_exists_:\S+|{_FIELD}(?:[\[{{][^][{{}}]*[\]}}]|[<>]=?\S*)|\bNOT\s+(?:{_NAME})?{_VALUE}")
_OF_A_FIELD = re.compile(rf"{_FIELD}{_VALUE}")
_SYNTAX = re.compile(rf"{_FIELD}|\b(?:AND|OR|NOT)\b|[~^][\d.]+")
FUNCTION_WORD_BOOST = 0.1
# Of clauses for other words than the query's: hits that have one tell it in matched_queries.
WIDENED = "resift-widened"
# Of a text's score in the fields of an index that are not its best one: a document about fire in its title and in its
# text has more of it than one that only names it in either.
TIE_BREAKER = 0.3
_PUNCTUATION = ".,;:?!\"'()"
_DEFAULTS = {"adjust_pure_negative": True, "boost": 1.0, "should": []}
_OTHER = object()


def find_text(query: Any, is_condition: bool = False) -> str:
    """The first text that a query clause asks for, depth first; "" if there is none.

    That of a filter, or of a function's, counts if there is no other, and what hits must not match never does, wherever
    it stands: a body that comes through OpenSearch has its parts in another order than its client gave them. Of a
    ``query_string`` the words count, without what it excludes, and in a filter without those that it looks for in
    fields that it names, which are conditions (``is_condition``).

    >>> find_text({"bool": {"filter": [{"match": {"tag": "new"}}], "should": [{"match": {"title": "bush fire"}}]}})
    'bush fire'
    >>> find_text({"query_string": {"query": "title:(bush fire)^2 AND NOT state:NSW -sale"}})
    '(bush fire)'
    """
    if isinstance(query, Mapping):
        wanted = [item for item in query.items() if item[0] not in _UNWANTED]
        parts = sorted(wanted, key=lambda item: item[0] in _CONDITIONS)
        texts = (_text_of_clause(*item, is_condition or item[0] in _CONDITIONS) for item in parts)
        return next(filter(None, texts), "")
    if isinstance(query, list):
        return next(filter(None, (find_text(one, is_condition) for one in query)), "")
    return ""


def _text_of_clause(kind: Any, body: Any, is_condition: bool) -> str:
    if kind in _BY_MODELS and isinstance(body, Mapping):
        asked = next(iter(body.values()), None)
        text = asked.get("query_text") if isinstance(asked, Mapping) else None
        return text if isinstance(text, str) else ""
    if kind not in _TEXT_CLAUSES or not isinstance(body, Mapping):
        return find_text(body, is_condition)
    # {"multi_match": {"query": text}}, {"match": {field: text}} or {"match": {field: {"query": text}}}
    inner = body.get("query", next(iter(body.values()), ""))
    found = inner.get("query", "") if isinstance(inner, Mapping) else inner
    return _asked_words(kind, found, is_condition) if isinstance(found, str) else ""


def _asked_words(kind: str, text: str, is_condition: bool) -> str:
    """What a clause's text asks for, without what its syntax says beside it."""
    if kind not in ("query_string", "simple_query_string"):
        return text
    beside = [_NEGATED]
    if kind == "query_string":
        beside += [_NO_WORDS, *([_OF_A_FIELD] if is_condition else []), _SYNTAX]
    for syntax in beside:
        text = syntax.sub(" ", text)
    return " ".join(text.split()) if tokenize(text) else ""


def telling_words(text: str, width: int, rarity: Callable[[str], float]) -> str:
    """What of a text is looked for in ``width`` fields: all of it, or of one that is too long for the engine its most
    telling words, in the order of the text.

    Those are telling that are rare and stand there often: sqrt(count) · ``rarity`` is largest. Where no spaces part the
    words, what stands between other signs is one.

    >>> telling_words("bush fire", 2, len)
    'bush fire'
    """
    if (len(tokenize(text)) + 1) * width <= CLAUSES + 20:  # a field counts by itself, too
        return text
    lowered = text.lower()
    places: list[list[int]] = []
    for start, end in word_places(lowered):
        if places and places[-1][1] == start:
            places[-1][1] = end
        else:
            places.append([start, end])
    counts = Counter(lowered[start:end] for start, end in places)
    words = [word for word in counts if word not in FUNCTION_WORDS]
    left, kept = min(_TELLING, max(1, CLAUSES // (2 * width))), dict[str, str]()
    for word in sorted(words, key=lambda word: -(counts[word] ** 0.5) * rarity(word)):
        size = len(tokenize(word))
        kept[word] = word if size <= left else word[:left]
        left -= size
        if left <= 0:
            break
    return " ".join(kept[word] for word in counts if word in kept)


class Parts(NamedTuple):
    """A query taken apart: the one text clause that scores, and what hits must or must not match beside it."""

    scoring: Body
    filter: list[Any]
    must_not: list[Any]


def text_parts(query: Body) -> Parts | None:
    """The parts of a query whose only scoring clause asks for a text, or is several that do; None of any other query.

    Such a query can be widened: other documents may be found, as long as they keep to its conditions.

    >>> text_parts({"bool": {"must": {"match": {"title": "fire"}}, "filter": [{"term": {"year": 2001}}]}})
    Parts(scoring={'match': {'title': 'fire'}}, filter=[{'term': {'year': 2001}}], must_not=[])
    """
    if _asks_for_text(query):
        return Parts(query, [], [])
    inner = query.get("bool")
    if set(query) != {"bool"} or not isinstance(inner, Mapping):
        return None
    # a body that comes through OpenSearch has the defaults filled in
    inner = {name: value for name, value in inner.items() if _DEFAULTS.get(name, _OTHER) != value}
    if set(inner) - {"must", "filter", "must_not"}:
        return None
    must, filter, must_not = (_as_list(inner.get(name)) for name in ("must", "filter", "must_not"))
    if len(must) != 1 or not _asks_for_text(must[0]):
        return None
    return Parts(dict(must[0]), filter, must_not)


def _asks_for_text(query: Any) -> bool:
    """Whether a query is a clause that asks for a text, or several as alternatives and nothing else."""
    if not isinstance(query, Mapping) or len(query) != 1:
        return False
    ((kind, inner),) = query.items()
    if kind == "bool" and isinstance(inner, Mapping):
        alternatives = _as_list(inner.get("should"))
        return set(inner) == {"should"} and bool(alternatives) and all(map(_asks_for_text, alternatives))
    if kind == "dis_max" and isinstance(inner, Mapping):
        alternatives = _as_list(inner.get("queries"))
        return bool(alternatives) and all(map(_asks_for_text, alternatives))
    if kind == "nested" and isinstance(inner, Mapping):
        return "inner_hits" not in inner and _asks_for_text(inner.get("query"))
    return kind in _TEXT_CLAUSES


def asked_fields(clause: Any) -> list[str] | None:
    """The fields that a query's scoring text clauses look into, with their boosts; [] for all, None without any.

    >>> asked_fields({"bool": {"should": [{"match": {"title": {"query": "a", "boost": 2}}}, {"match": {"text": "b"}}]}})
    ['title^2', 'text']
    """
    kind = kind_of(clause)
    if kind is None:
        return None
    inner = clause[kind]
    if kind in _TEXT_CLAUSES:
        return _fields_of_several(inner) if kind in _OF_SEVERAL else _field_of_one(inner)
    found = [fields for one in inner_clauses(clause) if (fields := asked_fields(one)) is not None]
    if not found:
        return None
    names = list(dict.fromkeys(name for fields in found for name in fields)) if all(found) else []
    path = inner.get("path")
    return [NestedField(name, path) for name in names] if kind == "nested" and isinstance(path, str) else names


def _fields_of_several(inner: Mapping[str, Any]) -> list[str]:
    named = inner.get("fields") or inner.get("default_field") or []
    return [name for name in _as_list(named) if isinstance(name, str)]


def _field_of_one(inner: Mapping[str, Any]) -> list[str] | None:
    """The field of ``{field: text}`` or ``{field: {"query": text, "boost": 2}}``; None of anything else."""
    if len(inner) != 1:
        return None
    ((name, asked),) = inner.items()
    boost = boost_of(asked) if isinstance(asked, Mapping) else 1
    return [name if boost == 1 else f"{name}^{boost:g}"]


def text_length(text: str) -> float:
    """The length (l2) of a text's counts of words, at least 1, without those that the analyser ``english`` leaves out:
    they would be most of a long question, and blow the session's words up."""
    counts = Counter(word for word in tokenize(text) if word not in ANALYZER_STOP_WORDS)
    return float(sum(count**2 for count in counts.values()) ** 0.5) or 1.0


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]


def question_clause(text: str, fields: Sequence[str]) -> Body:
    """The query clause for what somebody typed: function words ("what", "about", "is") weigh a tenth of the others.

    They match as they always do, and so decide between documents that are alike otherwise; with their full weight the
    question's form outweighs its subject. One in capitals among small letters is a name ("US", "IT"). Of several
    ``fields`` the best one counts, and three tenths of each other one.
    """
    several: Body = {"tie_breaker": TIE_BREAKER} if len(fields) > 1 else {}
    words = text.split()
    is_function = [_is_function_word(word, may_be_name=not text.isupper()) for word in words]
    weak = " ".join(word for word, found in zip(words, is_function, strict=True) if found)
    if not weak or all(is_function):
        return text_clause(text, fields, **several)
    strong = " ".join(word for word, found in zip(words, is_function, strict=True) if not found)
    clauses = [text_clause(strong, fields, **several), text_clause(weak, fields, **several, boost=FUNCTION_WORD_BOOST)]
    return {"bool": {"should": clauses}}


def _is_function_word(word: str, may_be_name: bool) -> bool:
    bare = word.strip(_PUNCTUATION)
    return bare.lower() in FUNCTION_WORDS and not (may_be_name and bare.isupper() and len(bare) > 1)


def word_room(text: str, fields: Sequence[str]) -> int:
    """How many words may come beside those of a text, in ``fields``, or in all that an index has if none are named."""
    return max(0, CLAUSES // (len(fields) or _UNKNOWN_FIELDS) - len(tokenize(text)))


def word_clauses(terms: Mapping[str, float], fields: Sequence[str], length: float) -> list[Body]:
    """A clause for each of the expansion ``terms``, whose weights are for a query of length 1; this one's is
    ``length``."""
    boosts = {word: round(weight * length, 4) for word, weight in terms.items()}
    if len(fields) != 1 or isinstance(fields[0], NestedField) or not {"*", "^"}.isdisjoint(fields[0]):
        return [text_clause(word, fields, boost=boost) for word, boost in boosts.items()]
    # the same in one field, which OpenSearch reads sooner
    return [{"match": {fields[0]: {"query": word, "lenient": True, "boost": boost}}} for word, boost in boosts.items()]


def other_word_clauses(near: Mapping[str, Mapping[str, float]], fields: Sequence[str], room: int) -> list[Body]:
    """For each word of a query that has ``near`` ones the clause for these, of which the best counts, in documents that
    do not have the word itself; none where there is no ``room`` for as many words as it takes."""
    most = room // len(near) - 1 if near else 0
    if most < 1:
        return []
    return [
        {
            "bool": {
                "must": [{"dis_max": {"queries": word_clauses(dict(list(others.items())[:most]), fields, 1.0)}}],
                "must_not": word_clauses({word: 1.0}, fields, 1.0),
                "_name": WIDENED,
            }
        }
        for word, others in near.items()
    ]
