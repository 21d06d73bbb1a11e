"""What the bodies of requests may say, but for a search's, which :mod:`resift.contracts.search_options` has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from resift.contracts.search_options import Clause, Name, SessionId, Text
from resift.errors import TextTooLong
from resift.schema import documented
from resift.sessions.sessions import MAX_DOCUMENT_ID, MAX_JUDGEMENTS, MAX_QUERY
from resift.text import tokenize

MAX_INPUTS = 2048  # texts of an embeddings request: OpenAI's own limit
MAX_DOCUMENTS = 10_000  # of a rerank request: as many as a search can have hits
MAX_WORD_PAIRS = 40_000_000  # of words that are compared with each other: two seconds of one processor

DocumentId = Annotated[str, Meta(min_length=1, title="a document's id", extra_json_schema={"maxLength": 512})]
Ids = Annotated[list[DocumentId], Meta(max_length=MAX_JUDGEMENTS, title="a list of document ids, which are strings")]
Whole = Annotated[int, Meta(ge=0, le=10**9)]
SameModel = Annotated[
    str | None, documented("name or hash; another than the one at work is refused", "the one at work")
]
Truncate = Annotated[bool, documented("cut long texts instead of refusing them")]


class TextObject(Struct):
    """A document as some clients send it."""

    text: str | None = None


_Item = str | TextObject | None


class RewriteRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A search body that is to be rewritten."""

    index: Annotated[Name, documented("what is searched")]
    body: Annotated[
        dict[str, Any], documented("a search body; its `ext.ml_inference` says what is wanted", title="a search body")
    ]
    model: SameModel = None
    as_text: Annotated[bool, documented("whether the body comes back as a string that holds its JSON")] = False
    hide_vectors: Annotated[
        bool, documented("whether the body's `_source` leaves out the fields `resift_vector*`, unless it names one")
    ] = False


class FeedbackRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """At least one and at most 100 documents must be marked, and none twice."""

    session: Annotated[SessionId, documented("1 to 128 letters, digits and `_ . : -`; the first feedback begins it")]
    index: Annotated[
        Name,
        documented(
            "where the documents are: best the name that was searched ([several indices](#several-indices)); at most "
            "1024 bytes"
        ),
    ]
    query: Annotated[Text, documented(f"what was searched for; {MAX_QUERY} characters of it are stored")] = ""
    relevant: Annotated[
        Ids, documented(f"ids of documents, grade 1; an id has at most {MAX_DOCUMENT_ID} bytes", "none")
    ] = field(default_factory=list)
    irrelevant: Annotated[Ids, documented("ids of documents, grade -1", "none")] = field(default_factory=list)
    clicked: Annotated[Ids, documented("ids of hits that were opened, grade 0.5", "none")] = field(default_factory=list)
    skipped: Annotated[Ids, documented("ids of hits above an opened one that were not opened, grade -0.25", "none")] = (
        field(default_factory=list)
    )
    neutral: Annotated[Ids, documented("ids whose earlier judgements are withdrawn, grade 0", "none")] = field(
        default_factory=list
    )
    scores: Annotated[
        dict[str, Annotated[float, Meta(ge=-1, le=1)]],
        documented(
            'what a model judged: numbers from -1 to 1 by id, `{"4": 0.9, "1": -0.3}`; the sign says which way, the '
            "size how much it counts ([an example](agents.md#judgements-by-models))",
            "none",
            max_length=MAX_JUDGEMENTS,
            title="numbers from -1 to 1 by document id",
            extra_json_schema={"propertyNames": {"minLength": 1, "maxLength": 512}},
        ),
    ] = field(default_factory=dict)
    explain: Annotated[
        bool,
        documented("answer all judgements of the session and what they taught, which takes several engine requests"),
    ] = False


class RerankRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Documents that are to be ordered by their similarity with a query."""

    query: Annotated[Text, documented("a text")]
    documents: Annotated[
        str | Annotated[list[_Item], Meta(max_length=MAX_DOCUMENTS)],
        documented("texts, or objects with a `text`", title="a list of strings"),
    ]
    top_n: Annotated[Whole | None, documented("how many results", "all")] = None
    method: Annotated[
        Literal["auto", "vectors", "late"],
        documented(
            "`late`: the [trained reranker](rerankers.md) in service; `vectors`; `auto` is `late` where there is one"
        ),
    ] = "auto"
    return_documents: Annotated[bool, documented("put the texts into the results")] = False
    model: SameModel = None
    truncate: Truncate = False


def check_word_pairs(query: str, documents: Sequence[str]) -> None:
    """Raises TextTooLong where too many words would be compared: the query's with those of each document."""
    # no text has more words than characters, which is soon known and mostly enough
    if len(query) * sum(map(len, documents)) <= MAX_WORD_PAIRS:
        return
    count = len(tokenize(query)) * sum(len(tokenize(text)) for text in documents)
    if count > MAX_WORD_PAIRS:
        raise TextTooLong(
            f"{count} pairs of words would be compared",
            value=count,
            expected=f"at most {MAX_WORD_PAIRS}: shorter or fewer documents, or the method vectors",
        )


class EmbeddingsRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Texts whose vectors are asked for."""

    input: Annotated[
        str | Annotated[list[_Item], Meta(max_length=MAX_INPUTS)],
        documented("a text or a list of texts", title="a list of strings"),
    ]
    encoding_format: Annotated[
        Literal["float", "base64"],
        documented("or `base64`, of the little-endian 32-bit floats: two thirds of the bytes, and sooner read"),
    ] = "float"
    dimensions: Annotated[Whole | None, documented("only the model's own number", "none")] = None
    model: SameModel = None
    truncate: Truncate = False


_By = Annotated[str, Meta(max_length=128), documented("who reads and judges", "the key's name")]
_Model = Annotated[bool, documented("whether a model judges, whose judgements help to rank and count for no recall")]


class ReviewRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """What is to be reviewed."""

    index: Annotated[Name, documented("where the documents are")]
    topic: Annotated[Text, documented("what is looked for, in words: its best hits are read first")] = ""
    query: Annotated[Clause | None, documented("which documents", "all of the index")] = None
    fields: Annotated[list[Name], documented("what is read of a document", "all its texts")] = field(
        default_factory=list
    )
    by: _By = ""
    target: Annotated[float, Meta(gt=0, lt=1), documented("the recall at which it may stop")] = 0.95


_Batch = Annotated[int, Meta(ge=1, le=1000)]


class BatchRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """How many documents somebody wants to read."""

    size: Annotated[
        _Batch | None, documented("how many documents", "a tenth of those read, 10 to 100; of a sample 10")
    ] = None
    by: _By = ""
    model: _Model = False
    sample: Annotated[bool, documented("drawn at random, as a control of how many relevant ones are missed")] = False


class JudgementsRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """At least one document must be judged, and none twice."""

    relevant: Annotated[list[DocumentId], documented("ids of documents", "none", max_length=1000)] = field(
        default_factory=list
    )
    irrelevant: Annotated[list[DocumentId], documented("ids of documents", "none", max_length=1000)] = field(
        default_factory=list
    )
    by: _By = ""
    model: _Model = False


class UndoRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Whose last judgement is taken back."""

    by: _By = ""
