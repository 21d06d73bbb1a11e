"""Clauses: which of a query's score and ask for a text, and those that rewritten queries are made of.

Of the latter are questions and words, the similarity with our own vectors, nearest documents, and judged ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import orjson

from resift.arrays import Floats
from resift.query.dsl import Body, NestedField, text_clause
from resift.text import ANALYZER_STOP_WORDS, FUNCTION_WORDS, tokenize

NAME = "resift"  # of the clause around a rewritten query: hits tell it in matched_queries
# Where a clause has others whose scores become part of its own.
SCORING = {
    "bool": ("must", "should"),
    "dis_max": ("queries",),
    "boosting": ("positive",),
    "function_score": ("query",),
    "script_score": ("query",),
    "nested": ("query",),
    "has_child": ("query",),
    "has_parent": ("query",),
    "hybrid": ("queries",),
}
VECTOR_KINDS = ("knn", "neural")
KINDS = (*VECTOR_KINDS, "neural_sparse", "hybrid")
_READER = "stored_vector"
SCRIPTS = {"cosine": "masked_cosine", "jaccard": "fuzzy_jaccard"}
# A nearest document scores this times its k-NN score (1 + product), beside BM25's scores of texts: less than one that
# has a word of the query.
KNN_BOOST = 1.0
# By how much all others of the window go ahead of a demoted document, which still stays ahead of what is beyond it:
# otherwise it would be the last hit of each page.
PROMOTED = 1000.0
TEXT_CLAUSES = (
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
# OpenSearch refuses a query of more than 1024 clauses, and counts each word in each field.
CLAUSES = 1000
# Where nothing says which fields are searched, it is all that an index has.
_UNKNOWN_FIELDS = 50
FUNCTION_WORD_BOOST = 0.1
# Hits of a widened query that have none of its own words tell it in matched_queries.
WIDENED = "resift-widened"
# Of a text's score in the fields of an index that are not its best one: a document about fire in its title and in its
# text has more of it than one that only names it in either.
TIE_BREAKER = 0.3
_PUNCTUATION = ".,;:?!\"'()"
_DEFAULTS = {"adjust_pure_negative": True, "boost": 1.0, "should": []}
_OTHER = object()


def kind_of(clause: Any) -> str | None:
    """The kind of a clause; None of what is none."""
    if not isinstance(clause, Mapping) or len(clause) != 1:
        return None
    ((kind, inner),) = clause.items()
    return kind if isinstance(kind, str) and isinstance(inner, Mapping) else None


def boost_of(settings: Mapping[str, Any]) -> float:
    """The boost that a clause names, as a number or as a text of one, which OpenSearch takes too; 1 without any."""
    try:
        return float(settings.get("boost", 1.0))
    except (TypeError, ValueError):
        return 1.0  # OpenSearch says itself what is wrong


def scores_by_vectors(clause: Any) -> bool:
    """Whether a script scores by the distance of vectors, ``knn_score``."""
    inner = clause.get("script_score") if isinstance(clause, Mapping) else None
    script = inner.get("script") if isinstance(inner, Mapping) else None
    return isinstance(script, Mapping) and (script.get("lang"), script.get("source")) == ("knn", "knn_score")


def inner_clauses(clause: Body) -> Iterator[Any]:
    """The clauses whose scores become part of a clause's own."""
    for name in SCORING.get(kind_of(clause) or "", ()):
        value = next(iter(clause.values())).get(name)
        yield from value if isinstance(value, list) else [] if value is None else [value]


def holds_better(clause: Any) -> bool:
    """Whether a query ranks by meaning already: by vectors or tokens of the index's own, or by ``hybrid``."""
    kind = kind_of(clause)
    if kind is None:
        return False
    return kind in KINDS or scores_by_vectors(clause) or any(map(holds_better, inner_clauses(clause)))


def named_bool(
    must: Sequence[Body], should: Sequence[Body] = (), filter: Sequence[Any] = (), must_not: Sequence[Any] = ()
) -> Body:
    """A ``bool`` query with our name in it, without the parts that are empty."""
    # OpenSearch looks for each hit whether it matches what has a name, which costs least of what all match
    return plain_bool(must, should, [*filter, {"match_all": {"_name": NAME}}], must_not)


def plain_bool(
    must: Sequence[Body], should: Sequence[Body] = (), filter: Sequence[Any] = (), must_not: Sequence[Any] = ()
) -> Body:
    """The same without our name."""
    parts = {"must": must, "should": should, "filter": filter, "must_not": must_not}
    return {"bool": {name: list(clauses) for name, clauses in parts.items() if clauses}}


def highlighted(body: Body, asked: Body) -> Body:
    """What a body says of highlights, if anything, for them to be of what was ``asked``, not of a session's words."""
    highlight = body.get("highlight")
    return {"highlight": {"highlight_query": asked, **highlight}} if isinstance(highlight, Mapping) else {}


def sunk(query: Body, documents: Sequence[Body], factor: float) -> Body:
    """A query whose scores of some ``documents`` are multiplied by a ``factor`` below 1; it finds what it found."""
    if not documents:
        return query
    functions = [{"filter": one, "weight": round(factor, 4)} for one in documents]
    return {"function_score": {"query": query, "functions": functions, "score_mode": "first"}}


def ids_clause(ids: Sequence[str]) -> Body:
    """The documents with these ids."""
    return {"ids": {"values": list(ids)}}


def document_clauses(ids: Sequence[str], homes: Mapping[str, str]) -> list[Body]:
    """Clauses for judged documents, by their ``homes`` where those are known: of several indices each may have another
    document of the same id."""
    if not homes:
        return [ids_clause(ids)] if ids else []
    by_home: dict[str, list[str]] = {}
    for id in ids:
        by_home.setdefault(homes[id], []).append(id)
    return [{"bool": {"filter": [ids_clause(those), {"term": {"_index": home}}]}} for home, those in by_home.items()]


def rescore(window: int, query: Body, score_mode: str) -> Body:
    """A rescoring of the first ``window`` hits."""
    return {"window_size": window, "query": {"rescore_query": query, "score_mode": score_mode}}


def rescores(body: Body, *stages: Body) -> list[Body]:
    """The rescorings of a body, and after them ``stages``."""
    own = body.get("rescore") or []
    return [*(own if isinstance(own, list) else [own]), *stages]


def demotion(window: int, documents: list[Body]) -> Body:
    """The rescoring that puts ``documents`` behind all others of the first hits."""
    others = {"constant_score": {"filter": {"bool": {"must_not": documents}}, "boost": PROMOTED}}
    return rescore(window, others, "multiply")


def similarity_clause(
    similarity: str, field: str, vector: Floats, mask: Floats | None, beta: float, query: Body | None = None
) -> Body:
    """The clause that scores documents by exp(beta · similarity) of the vectors in ``field`` with ``vector``
    (K,), both under ``mask`` (K,).

    ``similarity``: ``cosine``, counted from 0 up as 1 + cosine, or ``jaccard``. ``query``: which documents are scored.
    """
    params: Body = {"beta": round(beta, 6), "field": field, "query": numbers(vector)}
    params |= {} if mask is None else {"mask": numbers(mask)}
    # The script itself is sent, not the name of a stored one: so nothing has to be installed, and OpenSearch compiles
    # it once.
    script = {"lang": "painless", "source": script_source(SCRIPTS[similarity]), "params": params}
    return {"script_score": {"query": query or {"match_all": {}}, "script": script}}


@cache
def script_source(name: str) -> str:
    """The code of one of our Painless files, such as ``masked_cosine``, behind the function that they all read by."""
    # each search sends it, and a pipeline reads it several times: it is shorter by two fifths without comments
    texts = [(files("resift.rewriting") / "scripts" / f"{one}.painless").read_text("utf-8") for one in (_READER, name)]
    lines = [line.partition("//")[0].strip() for text in texts for line in text.splitlines()]
    return "\n".join(filter(None, lines))


def fixed_score(documents: Body, score: float) -> Body:
    """The clause that gives the documents of another one this score."""
    return {"constant_score": {"filter": documents, "boost": float(np.float32(score))}}


def nearest_clauses(
    similarity: str, field: str, vector: Floats, mask: Floats | None, count: int, conditions: Body | None
) -> list[Body]:
    """Return the clause for the ``count`` documents whose vectors in ``field`` are nearest to ``vector`` (K,), among
    those that meet ``conditions``; an empty list if the vector is zero.

    Under a mask (K,) those are nearest, for cosine, whose product with mask² ⊙ vector is largest: it is that of the
    masked vectors (Passalis and Tefas 2018, eq. 8).
    """
    probe = vector if mask is None or similarity != "cosine" else mask**2 * vector
    # ignore_unmapped: of several indices one may have no vectors, and the others' documents are wanted
    settings: Body = {"k": count, "ignore_unmapped": True, "boost": KNN_BOOST}
    if conditions is not None:
        settings["filter"] = conditions
    return [{"knn": {field: {"vector": numbers(probe), **settings}}}] if probe.any() else []


def numbers(vector: Floats) -> list[float]:
    """A vector (K,) as JSON has it."""
    # By way of orjson, which takes the fewest digits that tell 32-bit floats apart: half of those of the same numbers
    # as Python's floats, and a body is parsed several times on its way through a pipeline.
    values: list[float] = orjson.loads(orjson.dumps(np.asarray(vector, np.float32), option=orjson.OPT_SERIALIZE_NUMPY))
    return values


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
    return kind in TEXT_CLAUSES


def asked_fields(clause: Any) -> list[str] | None:
    """The fields that a query's scoring text clauses look into, with their boosts; [] for all, None without any.

    >>> asked_fields({"bool": {"should": [{"match": {"title": {"query": "a", "boost": 2}}}, {"match": {"text": "b"}}]}})
    ['title^2', 'text']
    """
    kind = kind_of(clause)
    if kind is None:
        return None
    inner = clause[kind]
    if kind in TEXT_CLAUSES:
        return _fields_of_several(inner) if kind in _OF_SEVERAL else _field_of_one(inner)
    found = [fields for one in inner_clauses(clause) if (fields := asked_fields(one)) is not None]
    if not found:
        return None
    names = list(dict.fromkeys(name for fields in found for name in fields)) if all(found) else []
    path = inner.get("path")
    return [NestedField(name, path) for name in names] if kind == "nested" and isinstance(path, str) else names


def _fields_of_several(inner: Mapping[str, Any]) -> list[str]:
    return [name for name in _as_list(inner.get("fields") or inner.get("default_field")) if isinstance(name, str)]


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
    return [] if value is None else list(value) if isinstance(value, list) else [value]


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
    if len(fields) == 1 and not isinstance(fields[0], NestedField) and {"*", "^"}.isdisjoint(fields[0]):
        # the same in one field, which OpenSearch reads sooner
        settings = ({"query": word, "lenient": True, "boost": boost} for word, boost in boosts.items())
        return [{"match": {fields[0]: one}} for one in settings]
    ((kind, same),) = text_clause("", fields).items()
    if kind == "multi_match":  # made once for all words
        return [{kind: {**same, "query": word, "boost": boost}} for word, boost in boosts.items()]
    return [text_clause(word, fields, boost=boost) for word, boost in boosts.items()]


def named_without(own: Body) -> Body:
    """A clause that finds nothing, and by which hits that a query's ``own`` clause does not find say so."""
    # whether a named clause matches is looked up anew for each hit: of the own words, the fewest, and not of the others
    return plain_bool([{"bool": {"must_not": [own], "_name": WIDENED}}], must_not=[{"match_all": {}}])


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
            }
        }
        for word, others in near.items()
    ]
