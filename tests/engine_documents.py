"""Five documents that the tests of both engines search."""

from __future__ import annotations

from typing import Any

from resift import Model
from resift.arrays import Floats
from resift.contracts.documents import Document
from resift.contracts.engine import Engine
from resift.contracts.query_dsl import VECTOR_FIELD, Body

# Of which the tests' model knows the vectors, beside three that mean nothing.
CONTENT_WORDS = [
    "fire",
    "bush",
    "flame",
    "smoke",
    "forest",
    "tree",
    "army",
    "gun",
    "soldier",
    "war",
    "ceasefire",
    "peace",
    "rain",
    "river",
    "water",
]

TEXTS = [
    "Bush fires in the forest",
    "Army guns fire at soldiers",
    "Ceasefire after the war",
    "Rain fills the river with water",
    "The of a",
]


def documents(model: Model) -> list[Document]:
    """Five documents with a title, a text, a year and tags."""
    return [
        Document(
            str(i),
            {
                "title": f"title {i}",
                "text": text,
                "year": 2000 + i,
                "tags": ["odd"] if i % 2 else ["even", "none"],
            },
            model.encode([f"title {i}\n{text}"])[0],
        )
        for i, text in enumerate(TEXTS)
    ]


def knn_body(vector: Floats, size: int, filter: Body | None = None, source: Any = True) -> Body:
    """A search body for the ``size`` documents nearest to a vector (K,), among those that match ``filter``."""
    clause: Body = {"vector": vector.tolist(), "k": size, **({"filter": filter} if filter else {})}
    return {"query": {"knn": {VECTOR_FIELD: clause}}, "size": size, "_source": source}


def ids(engine: Engine, index: str, query: dict[str, Any], **body: Any) -> list[str]:
    """Ids of the hits, best first."""
    return [hit["_id"] for hit in engine.search(index, {"query": query, **body}).hits]
