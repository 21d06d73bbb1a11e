"""The clauses that a rewriting adds: words, similarity, nearest documents, judged documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import orjson

from resift.arrays import Floats
from resift.contracts.query_dsl import Body, JoinedFields, NestedField, VectorFields, vector_field_names
from resift.stop_words import FUNCTION_WORDS

SCRIPTS = {"cosine": "masked_cosine", "jaccard": "fuzzy_jaccard"}
# A nearest document scores this times its k-NN score (1 + product), beside BM25's scores of texts: about as one that
# has a word of the query.
KNN_BOOST = 4.0
FUNCTION_WORD_BOOST = 0.1
# Of a text's score in the fields of an index that are not its best one: a document about fire in its title and in its
# text has more of it than one that only names it in either.
TIE_BREAKER = 0.3
_PUNCTUATION = ".,;:?!\"'()"


def text_clause(text: str, fields: Sequence[str], **settings: Any) -> Body:
    """The query clause that asks for a text in an index's ``fields``, in all of them if it names none.

    Nested objects are documents of their own to the engine: of those at one path the best one counts.
    """
    nested: dict[str, list[str]] = {}
    for field in fields:
        if isinstance(field, NestedField):
            nested.setdefault(field.path, []).append(field)
    flat = [field for field in fields if not isinstance(field, NestedField)]
    clauses = [_multi_match(text, flat or ["*"], settings)] if flat or not fields else []
    for path, inner in nested.items():
        query = _multi_match(text, inner, settings)
        # of several indices one may have no such objects
        clauses.append({"nested": {"path": path, "query": query, "score_mode": "max", "ignore_unmapped": True}})
    if len(clauses) == 1:
        return clauses[0]
    return {"dis_max": {"queries": clauses, "tie_breaker": settings.get("tie_breaker", 0.0)}}


def _multi_match(text: str, fields: Sequence[str], settings: Mapping[str, Any]) -> Body:
    # lenient: of several indices one may have a number or a date where others have a text, and would refuse words
    return {"multi_match": {"query": text, "fields": list(fields), "lenient": True, **settings}}


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
    clauses = [
        text_clause(strong, fields, **several),
        text_clause(weak, fields, **several, boost=FUNCTION_WORD_BOOST),
    ]
    return {"bool": {"should": clauses}}


def _is_function_word(word: str, may_be_name: bool) -> bool:
    bare = word.strip(_PUNCTUATION)
    return bare.lower() in FUNCTION_WORDS and not (may_be_name and bare.isupper() and len(bare) > 1)


def word_clauses(terms: Mapping[str, float], fields: Sequence[str], length: float) -> list[Body]:
    """A clause for each of the expansion ``terms``, whose weights are for a query of length 1; this one's is
    ``length``."""
    return [text_clause(word, fields, boost=round(weight * length, 4)) for word, weight in terms.items()]


def rescore(window: int, query: Body, score_mode: str) -> Body:
    """A rescoring of the first ``window`` hits."""
    return {"window_size": window, "query": {"rescore_query": query, "score_mode": score_mode}}


def similarity_clause(
    similarity: str,
    fields: VectorFields,
    vector: Floats,
    mask: Floats | None,
    beta: float,
    query: Body | None = None,
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
            "lengths": _numbers(np.array(fields.lengths)),
            "queries": _parts(fields, vector),
        }
        params |= {} if mask is None else {"masks": _parts(fields, mask)}
    else:
        name = SCRIPTS[similarity]
        params |= {"field": fields, "query": _numbers(vector)}
        params |= {} if mask is None else {"mask": _numbers(mask)}
    # The script itself is sent, not the name of a stored one: so nothing has to be installed, and OpenSearch compiles
    # it once.
    script = {"lang": "painless", "source": script_source(name), "params": params}
    return {"script_score": {"query": query or {"match_all": {}}, "script": script}}


@cache
def script_source(name: str) -> str:
    """The text of one of our Painless files, such as ``masked_cosine``."""
    return (files("resift.rewriting") / "scripts" / f"{name}.painless").read_text("utf-8")


def fixed_score(documents: Body, score: float) -> Body:
    """The clause that gives the documents of another one this score."""
    return {"constant_score": {"filter": documents, "boost": float(np.float32(score))}}


def ids_clause(ids: Sequence[str]) -> Body:
    """The documents with these ids."""
    return {"ids": {"values": list(ids)}}


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
    return [_numbers(part) for part in np.split(vector, ends)]


def _numbers(vector: Floats) -> list[float]:
    # By way of orjson, which takes the fewest digits that tell 32-bit floats apart: half of those of the same numbers
    # as Python's floats, and a body is parsed several times on its way through a pipeline.
    numbers: list[float] = orjson.loads(orjson.dumps(np.asarray(vector, np.float32), option=orjson.OPT_SERIALIZE_NUMPY))
    return numbers
