"""Build clauses that compare a query vector with the document vectors in Resift's vector field."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
import orjson

from resift.arrays import Floats
from resift.query.dsl import Body

_SCRIPTS = {"cosine": "masked_cosine", "jaccard": "fuzzy_jaccard"}
# The name of the script with a function that reads a stored vector. This function is put before every other script.
_READER = "stored_vector"
# The boost of the k-NN clause. The k-NN score of a document is 1 + the dot product. With this boost, the score is lower
# than the BM25 score of a document that contains a word of the query.
_KNN_BOOST = 1.0


class QueryVector(NamedTuple):
    """A query vector, and how it is compared with the vectors of documents.

    Attributes:
        similarity: ``cosine`` or ``jaccard``.
        field: The field of the documents' vectors.
        vector: The query vector, of shape (K,) for K dimensions.
        mask: Weights of the dimensions, of shape (K,), or None if all dimensions count alike.
    """

    similarity: str
    field: str
    vector: Floats
    mask: Floats | None = None


def similarity_clause(query_vector: QueryVector, beta: float, query: Body | None = None) -> Body:
    """Return a clause that scores documents by exp(beta · similarity), for a rescore stage that multiplies scores.

    The clause contains the whole script instead of the name of a stored script. So nothing has to be installed, and
    OpenSearch compiles the script once.

    The script is a function of a ``function_score`` clause, because OpenSearch refuses a ``script_score`` clause if the
    setting ``search.allow_expensive_queries`` is false. Both take the same time.

    Args:
        query_vector: The query vector. With ``cosine``, the similarity in the formula is 1 + cosine.
        beta: The weight of the similarity, 0 or more.
        query: A clause that matches the documents to score, or None for all documents.
    """
    similarity, field, vector, mask = query_vector
    params: Body = {"beta": round(beta, 6), "field": field, "query": json_numbers(vector)}
    if mask is not None:
        params["mask"] = json_numbers(mask)
    script = {"lang": "painless", "source": script_source(_SCRIPTS[similarity]), "params": params}
    matching = query or {"match_all": {}}
    return {"function_score": {"query": matching, "script_score": {"script": script}, "boost_mode": "replace"}}


def knn_clause(query_vector: QueryVector, count: int, conditions: Body | None) -> Body | None:
    """Return a ``knn`` clause for the documents nearest to a query vector, or None if the query vector is zero.

    With a mask and ``cosine``, documents are ranked by their dot product with mask² ⊙ vector, an elementwise product.
    This dot product equals that of the masked document vector and the masked query vector.

    Args:
        query_vector: The query vector.
        count: The number of nearest documents to find (``k`` of the clause).
        conditions: A clause that the documents must match, or None.

    Source:
        Passalis and Tefas (2018), eq. 8.
    """
    similarity, field, vector, mask = query_vector
    probe = vector if mask is None or similarity != "cosine" else mask**2 * vector
    if not probe.any():
        return None
    # ignore_unmapped: some of the searched indices may have no vectors.
    options: Body = {"vector": json_numbers(probe), "k": count, "ignore_unmapped": True, "boost": _KNN_BOOST}
    if conditions is not None:
        options["filter"] = conditions
    return {"knn": {field: options}}


@cache
def script_source(name: str) -> str:
    """Return the source code of one of Resift's Painless scripts, without comments.

    Every search contains the source code of its script. Comments would make the code two thirds longer.

    Args:
        name: The name of the script, for example ``masked_cosine``.
    """
    folder = files("resift.rewriting") / "scripts"
    texts = [(folder / f"{script}.painless").read_text("utf-8") for script in (_READER, name)]
    lines = [line.partition("//")[0].strip() for text in texts for line in text.splitlines()]
    return "\n".join(filter(None, lines))


def json_numbers(vector: Floats) -> list[float]:
    """Convert a vector to a list of numbers with as few digits as possible, to keep search bodies short.

    The numbers are rounded to the shortest decimal numbers that identify the 32-bit floats. Python would write about
    twice as many digits.

    Args:
        vector: The vector, of shape (n_dimensions,).
    """
    values: list[float] = orjson.loads(orjson.dumps(np.asarray(vector, np.float32), option=orjson.OPT_SERIALIZE_NUMPY))
    return values
