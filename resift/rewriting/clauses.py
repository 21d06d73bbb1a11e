"""Clauses: the walk through those of a query, and those that rewritten queries are made of.

Of the latter are the similarity with our own vectors, nearest documents, and judged ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import orjson

from resift.arrays import Floats
from resift.contracts.query_dsl import Body, JoinedFields, VectorFields, vector_field_names

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
# A smallest score there decides what matches: nothing inside may score otherwise.
_NO_THRESHOLD = ("function_score", "script_score", "has_child")
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


def is_malformed(query: Any) -> bool:
    """Whether a query is no clause, or a ``hybrid`` one of nothing."""
    if not isinstance(query, Mapping) or len(query) != 1:
        return True
    inner = query.get("hybrid")
    queries = inner.get("queries") if isinstance(inner, Mapping) else None
    return inner is not None and not (isinstance(queries, list) and queries)


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


def changed(clause: Body, change: Callable[[Body], Any]) -> Body:
    """A clause whose inner ones, as far as they score, are what ``change`` makes of them; the same one if all are."""
    kind = kind_of(clause)
    inner = clause[kind] if kind else {}
    if kind in _NO_THRESHOLD and inner.get("min_score") is not None:
        return clause
    parts: Body = {}
    for name in SCORING.get(kind or "", ()):
        value = inner.get(name)
        if isinstance(value, list):
            made = [change(one) for one in value]
            same = all(new is old for new, old in zip(made, value, strict=True))
            parts |= {} if same else {name: made}
        elif value is not None and (one := change(value)) is not value:
            parts[name] = one
    return {kind: {**inner, **parts}} if kind and parts else clause


def vector_clauses(query: Any) -> Iterator[Body]:
    """The scoring clauses of a query that rank by vectors or tokens."""
    kind = kind_of(query)
    if kind is None:
        return
    if scores_by_vectors(query) or (kind in KINDS and kind != "hybrid"):
        yield query
        return
    for one in inner_clauses(query):
        yield from vector_clauses(one)


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


def is_named(query: Mapping[str, Any]) -> bool:
    """Whether a query, or one that a ``hybrid`` query is made of, is one of :func:`named_bool`; OpenSearch has filled
    in the defaults of one that comes back to us."""
    if isinstance(query.get("hybrid"), Mapping):
        parts = query["hybrid"].get("queries")
        return any(is_named(part) for part in parts if isinstance(part, Mapping)) if isinstance(parts, list) else False
    inner = query.get("bool")
    conditions = inner.get("filter") if isinstance(inner, Mapping) else None
    clauses = conditions if isinstance(conditions, list) else []
    everything = [one.get("match_all") for one in clauses if isinstance(one, Mapping)]
    return any(isinstance(one, Mapping) and one.get("_name") == NAME for one in everything)


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
    similarity: str, fields: VectorFields, vector: Floats, mask: Floats | None, beta: float, query: Body | None = None
) -> Body:
    """The clause that scores documents by exp(beta · similarity) of the vectors in one or several ``fields`` with one
    (K,), both under ``mask`` (K,).

    ``similarity``: ``cosine``, counted from 0 up as 1 + cosine, or ``jaccard``. ``query``: which documents are scored.
    """
    params: Body = {"beta": round(beta, 6)}
    if isinstance(fields, JoinedFields):
        name = "joined_cosine"
        params |= {
            "fields": list(fields.names),
            "lengths": numbers(np.array(fields.lengths)),
            "queries": _parts(fields, vector),
        }
        params |= {} if mask is None else {"masks": _parts(fields, mask)}
    else:
        name = SCRIPTS[similarity]
        params |= {"field": fields, "query": numbers(vector)}
        params |= {} if mask is None else {"mask": numbers(mask)}
    # The script itself is sent, not the name of a stored one: so nothing has to be installed, and OpenSearch compiles
    # it once.
    script = {"lang": "painless", "source": script_source(name), "params": params}
    return {"script_score": {"query": query or {"match_all": {}}, "script": script}}


@cache
def script_source(name: str) -> str:
    """The text of one of our Painless files, such as ``masked_cosine``, behind the function that they all read by."""
    texts = [(files("resift.rewriting") / "scripts" / f"{one}.painless").read_text("utf-8") for one in (_READER, name)]
    return "".join(texts)


def fixed_score(documents: Body, score: float) -> Body:
    """The clause that gives the documents of another one this score."""
    return {"constant_score": {"filter": documents, "boost": float(np.float32(score))}}


def nearest_clauses(
    similarity: str, fields: VectorFields, vector: Floats, mask: Floats | None, count: int, conditions: Body | None
) -> list[Body]:
    """For each of the ``fields`` the ``count`` documents whose vectors there are nearest to one (K,), or to its part,
    among those that meet ``conditions``.

    Under a mask (K,) those are nearest, for cosine, whose product with mask² ⊙ vector is largest: it is that of the
    masked vectors (Passalis and Tefas 2018, eq. 8).
    """
    probe = vector if mask is None or similarity != "cosine" else mask**2 * vector
    # ignore_unmapped: of several indices one may have no vectors, and the others' documents are wanted
    settings: Body = {"k": count, "ignore_unmapped": True, "boost": KNN_BOOST}
    if conditions is not None:
        settings["filter"] = conditions
    return [
        {"knn": {field: {"vector": numbers, **settings}}}
        for field, numbers in zip(vector_field_names(fields), _parts(fields, probe), strict=True)
        if any(numbers)
    ]


def _parts(fields: VectorFields, vector: Floats) -> list[list[float]]:
    """The part (Kᵢ,) of a vector (K,) that belongs to each of the ``fields``."""
    ends = [] if isinstance(fields, str) else np.cumsum(fields.dims)[:-1].tolist()
    return [numbers(part) for part in np.split(vector, ends)]


def numbers(vector: Floats) -> list[float]:
    """A vector (K,) as JSON has it."""
    # By way of orjson, which takes the fewest digits that tell 32-bit floats apart: half of those of the same numbers
    # as Python's floats, and a body is parsed several times on its way through a pipeline.
    values: list[float] = orjson.loads(orjson.dumps(np.asarray(vector, np.float32), option=orjson.OPT_SERIALIZE_NUMPY))
    return values
