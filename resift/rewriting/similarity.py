"""What our own vectors add to a search: clauses of similarity, of nearest documents, and of judged ones."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np
import orjson

from resift.arrays import Floats
from resift.contracts.query_dsl import Body, JoinedFields, VectorFields, vector_field_names

_READER = "stored_vector"
SCRIPTS = {"cosine": "masked_cosine", "jaccard": "fuzzy_jaccard"}
# A nearest document scores this times its k-NN score (1 + product), beside BM25's scores of texts: about as one that
# has a word of the query.
KNN_BOOST = 4.0
# By how much all others of the window go ahead of a demoted document, which still stays ahead of what is beyond it:
# otherwise it would be the last hit of each page.
PROMOTED = 1000.0


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
