"""Types of the request bodies of the HTTP API.

The type for searches is in :mod:`resift.contracts.search_options`. The descriptions of fields are printed in
``docs/http.md`` and ``openapi.json``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct, field

from resift.contracts.documents import MAX_ID_BYTES
from resift.contracts.search_options import Clause, Name, RankingMethod, SessionId, Text
from resift.encoders.dynamax import MAX_WORDS
from resift.errors import TextTooLong
from resift.reviews.reviews import MAX_FIELDS
from resift.schema import documented
from resift.sessions.sessions import MAX_JUDGEMENTS, MAX_QUERY
from resift.text import tokenize

MAX_INPUTS = 2048
"""Maximum number of texts or bags in an embeddings request. OpenAI has the same limit."""
MAX_DOCUMENTS = 10_000
"""Maximum number of documents in a rerank request. A search has the same maximum number of hits."""
MAX_TOPIC = 10_000
"""Maximum number of characters in a review's topic."""
MAX_WORD_PAIRS = 40_000_000
"""Maximum number of word pairs that a trained reranker or DynaMax compares for a request.

Comparing this number of pairs takes two seconds on one core.
"""

DocumentId = Annotated[str, Meta(min_length=1, title="a document's id", extra_json_schema={"maxLength": 512})]
Ids = Annotated[list[DocumentId], Meta(max_length=MAX_JUDGEMENTS, title="a list of document ids (strings)")]
Whole = Annotated[int, Meta(ge=0, le=10**9)]
SameModel = Annotated[
    str | None,
    documented("name or hash of the model; a request for a model that is not in service fails", "the model in service"),
]
Truncate = Annotated[bool, documented("whether to cut long texts instead of refusing the request")]


class TextObject(Struct):
    """A document in a rerank request, for clients that send an object with a field `text` instead of a string."""

    text: str | None = None


_Item = str | TextObject | None


class RewriteRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A search body to rewrite."""

    index: Annotated[Name, documented("the searched index, alias, pattern or comma-separated list")]
    body: Annotated[
        dict[str, Any],
        documented("a search body, with options in `ext.resift` or `ext.ml_inference`", title="a search body"),
    ]
    model: SameModel = None
    as_text: Annotated[bool, documented("whether to return the body as a string of JSON")] = False
    hide_vectors: Annotated[
        bool,
        documented(
            "whether to exclude the fields `resift_vector*` in the body's `_source`, unless it names one of them"
        ),
    ] = False
    scroll: Annotated[
        bool,
        documented("whether the search is a scroll, which a search body does not say, and OpenSearch cannot rescore"),
    ] = False


class UnparsedRewriteRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A request to rewrite a search body, with the fields of :class:`RewriteRequest`.

    The search body is still JSON text. The service can therefore return a search body that needs no rewriting without
    parsing it.
    """

    index: Name
    body: Raw
    model: str | None = None
    as_text: bool = False
    hide_vectors: bool = False
    scroll: bool = False


class FeedbackRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Relevance judgements of at least one and at most 100 documents. Each document may occur only once."""

    session: Annotated[
        SessionId, documented("1 to 128 letters, digits and `_ . : -`; the first mark starts the session")
    ]
    index: Annotated[
        Name,
        documented(
            "the index of the documents, best under the name that was searched ([several indices](#several-indices)); "
            "at most 1024 bytes"
        ),
    ]
    query: Annotated[
        Text,
        documented(
            f"the query text, of which the first {MAX_QUERY} characters are stored; a mark without a query counts as "
            "made [for another query](conversations.md)"
        ),
    ] = ""
    relevant: Annotated[
        Ids, documented(f"ids of relevant documents (grade 1); an id has at most {MAX_ID_BYTES} bytes", "none")
    ] = field(default_factory=list)
    irrelevant: Annotated[Ids, documented("ids of documents that are not relevant (grade -1)", "none")] = field(
        default_factory=list
    )
    clicked: Annotated[Ids, documented("ids of hits that were opened (grade 0.5)", "none")] = field(
        default_factory=list
    )
    skipped: Annotated[
        Ids, documented("ids of hits above an opened hit that were not opened (grade -0.25)", "none")
    ] = field(default_factory=list)
    neutral: Annotated[Ids, documented("ids of documents whose earlier judgements are withdrawn (grade 0)", "none")] = (
        field(default_factory=list)
    )
    scores: Annotated[
        dict[str, Annotated[float, Meta(ge=-1, le=1)]],
        documented(
            'judgements by a model: numbers from -1 (not relevant) to 1 (relevant) by id, `{"4": 0.9, "1": -0.3}`; the '
            "absolute value is the judgement's weight ([an example](agents.md#judgements-by-models))",
            "none",
            max_length=MAX_JUDGEMENTS,
            title="numbers from -1 to 1 by document id",
            extra_json_schema={"propertyNames": {"minLength": 1, "maxLength": 512}},
        ),
    ] = field(default_factory=dict)
    explain: Annotated[
        bool,
        documented(
            "whether to return the session's judgements and what they taught, which takes further engine requests"
        ),
    ] = False


class RerankRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Documents to rank by their similarity to a query."""

    query: Annotated[Text, documented("the query text")]
    documents: Annotated[
        str | Annotated[list[_Item], Meta(max_length=MAX_DOCUMENTS)],
        documented("texts, or objects with a field `text`", title="a list of strings"),
    ]
    top_n: Annotated[Whole | None, documented("maximum number of results", "all")] = None
    method: Annotated[
        RankingMethod,
        documented(
            "`late` (the [trained reranker](rerankers.md)), `vectors`, [`dynamax`](rerankers.md#dynamax), or `auto`: "
            "`late` if there is a trained reranker, otherwise `vectors`"
        ),
    ] = "auto"
    return_documents: Annotated[bool, documented("whether to include the texts in the results")] = False
    model: SameModel = None
    truncate: Truncate = False


def check_word_pairs(query: str, documents: Sequence[str]) -> None:
    """Check that a trained reranker would not have to compare too many pairs of words.

    The reranker compares each word of a document with each word of the query.

    Args:
        query: The query text.
        documents: The texts of the documents.

    Raises:
        TextTooLong: If there are too many pairs.
    """
    # A text has no more words than characters. Counting characters is faster, and almost always sufficient.
    if len(query) * sum(map(len, documents)) <= MAX_WORD_PAIRS:
        return
    count = len(tokenize(query)) * sum(len(tokenize(text)) for text in documents)
    if count > MAX_WORD_PAIRS:
        raise TextTooLong(
            f"the query and documents have {count} pairs of words",
            value=count,
            expected=f"at most {MAX_WORD_PAIRS}: send shorter or fewer documents, or use the method vectors",
        )


def check_dynamax_pairs(query: str, documents: Sequence[str]) -> None:
    """Check that DynaMax would not have to compare too many pairs of words.

    For each document, DynaMax compares each word of the query and of the document with all words of both. It reads at
    most MAX_WORDS words of a text. The words are not counted but estimated: a text of c characters has at most
    (c + 1) / 2 words.

    Args:
        query: The query text.
        documents: The texts of the documents.

    Raises:
        TextTooLong: If there may be too many pairs.
    """
    query_words = min(MAX_WORDS, (len(query) + 1) // 2)
    count = sum((query_words + min(MAX_WORDS, (len(text) + 1) // 2)) ** 2 for text in documents)
    if count > MAX_WORD_PAIRS:
        raise TextTooLong(
            f"the query and documents may have {count} pairs of words",
            value=count,
            expected=f"at most {MAX_WORD_PAIRS}: send shorter or fewer documents, or use the method vectors",
        )


class EmbeddingsRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Texts, or bags of vectors, to encode as vectors."""

    input: Annotated[
        str | Annotated[list[_Item | list[Any]], Meta(max_length=MAX_INPUTS)],
        documented(
            "a text or a list of texts; for a model of [bags of vectors](models.md#bags-of-vectors) a list of bags "
            "(lists of vectors, or JSON text of such lists)",
            title="a list of strings, or of bags of vectors",
        ),
    ]
    encoding_format: Annotated[
        Literal["float", "base64"],
        documented("`float`, or `base64` of little-endian 32-bit floats, which is a third smaller and faster to parse"),
    ] = "float"
    input_type: Annotated[
        Literal["document", "query"],
        documented("kind of the texts; models of the kind word2doc encode queries differently from documents"),
    ] = "document"
    dimensions: Annotated[Whole | None, documented("must be the model's number of dimensions", "none")] = None
    model: SameModel = None
    truncate: Annotated[
        bool,
        documented(
            "whether to cut long texts, and to return zero vectors for malformed bags, instead of refusing the request"
        ),
    ] = False


_By = Annotated[str, Meta(max_length=128), documented("name of the reader", "the name of the API key")]
_Model = Annotated[
    bool,
    documented("whether the reader is a model; its judgements improve the ranking but do not count for the recall"),
]


class ReviewRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A set of documents to review."""

    index: Annotated[Name, documented("the index of the documents")]
    topic: Annotated[
        str, Meta(max_length=MAX_TOPIC), documented("description of relevant documents; its best hits are read first")
    ] = ""
    query: Annotated[
        Clause | None, documented("a query clause that selects the documents", "all documents of the index")
    ] = None
    fields: Annotated[
        list[Name],
        documented(
            "names of the fields that the reader reads, without patterns", "all text fields", max_length=MAX_FIELDS
        ),
    ] = field(default_factory=list)
    by: _By = ""
    target: Annotated[float, Meta(gt=0, lt=1), documented("the recall at which the review may stop")] = 0.95


_Batch = Annotated[int, Meta(ge=1, le=1000)]


class BatchRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A request for documents to read."""

    size: Annotated[
        _Batch | None,
        documented("number of documents", "a tenth of the documents read so far, 10 to 100; for a sample 10"),
    ] = None
    by: _By = ""
    model: _Model = False
    sample: Annotated[
        bool,
        documented("whether to draw unread documents at random, to estimate how many relevant documents were missed"),
    ] = False


class JudgementsRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Judgements of documents in a review. At least one document must be judged, and none may occur twice."""

    relevant: Annotated[list[DocumentId], documented("ids of relevant documents", "none", max_length=1000)] = field(
        default_factory=list
    )
    irrelevant: Annotated[
        list[DocumentId], documented("ids of documents that are not relevant", "none", max_length=1000)
    ] = field(default_factory=list)
    by: _By = ""
    model: _Model = False


class UndoRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of a request to undo the last judgement of a reader in a review."""

    by: _By = ""
    model: _Model = False


class ReaderRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of a request to release the documents that are reserved for a reader."""

    by: _By = ""
