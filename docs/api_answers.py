"""Types of the responses of the HTTP API, from which ``openapi.json`` is generated.

The service does not use these types. Tests check its responses against the generated schemas.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from resift.contracts.search_options import SessionId
from resift.feedback.judgements import SOURCES
from resift.rewriting.outcome import Outcome
from resift.schema import documented

Hash = Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(ge=0, le=1)]
Grade = Annotated[float, documented("1 relevant, -1 irrelevant, 0.5 clicked, -0.25 skipped, 0 withdrawn", ge=-1, le=1)]
Seconds = Annotated[float, documented("Unix time, in seconds")]
Title = Annotated[str, documented("the first line of the document's encoded text, cut at 80 characters")]
Address = Annotated[str, Meta(max_length=2000, pattern="^[Hh][Tt][Tt][Pp][Ss]?://")]
OutcomeCode = Annotated[
    str,
    documented(
        "the outcome of the rewriting; codes are stable",
        extra_json_schema={"enum": [outcome.code for outcome in Outcome]},
    ),
]
Source = Annotated[str, documented("the source of a judgement", extra_json_schema={"enum": list(SOURCES)})]
DidYouMean = Annotated[
    str | UnsetType,
    documented("the query text with misspelt words corrected; absent if no word is misspelt"),
]


class Reason(Struct):
    """The judged document that explains why a hit moved, relative to the engine's own ranking.

    It is the most similar relevant document if the hit moved up, and the most similar irrelevant document if it moved
    down. In a search without vectors, it is the relevant document with which the hit shares the most expansion words.
    """

    index: str
    document: str
    grade: Grade
    title: Title
    similarity: Annotated[
        float | None,
        documented(
            "similarity of the hit and the judged document, with the session's mask; null in a search without vectors"
        ),
    ]
    moved: Annotated[int, documented("number of ranks that the hit moved up; negative if it moved down")]
    words: Annotated[
        list[str] | UnsetType,
        documented("in a search without vectors, expansion words that the hit shares with the judged document"),
    ] = UNSET


class Card(Struct):
    """A short form of a document, in place of its `_source`."""

    title: Annotated[str, documented("the title, or the first line of the text", max_length=500)]
    text: Annotated[str, documented("the beginning of the text", max_length=400)]
    link: Address | UnsetType = UNSET
    image: Address | UnsetType = UNSET
    facts: Annotated[
        dict[str, Annotated[str, Meta(max_length=80)]] | UnsetType,
        documented("field → value, for other fields with short values"),
    ] = UNSET


class HitReport(Struct):
    """Information about a hit.

    `similarity` and `because` are returned for reranked hits if the request sets `reasons`, `reranker` for the method
    `late`, and `card` if the request asks for cards.
    """

    card: Card | UnsetType = UNSET
    similarity: Annotated[
        float | UnsetType | None,
        documented("similarity to the query vector, as moved by the session; null for a document without a vector"),
    ] = UNSET
    reranker: Annotated[Share | UnsetType, documented("relevance according to the trained reranker")] = UNSET
    because: Annotated[
        Reason | UnsetType | None, documented("null if the hit kept its rank, or if no judgement explains the move")
    ] = UNSET


class Hit(Struct):
    """A hit of the engine, with additional information in `resift`."""

    _index: str
    _id: str
    _score: Annotated[
        float | None,
        documented(
            "lexical score · exp(beta · similarity), with beta = alpha / (1 - alpha), at most 32 (for a cosine, "
            "1 + similarity replaces similarity). Hits beyond the window keep the engine's score. The method `late` "
            "multiplies this by exp(beta · reranker), with the trained reranker's own alpha"
        ),
    ]
    _source: Annotated[
        dict[str, Any] | UnsetType, documented("without `resift_vector`, unless the request names this field")
    ] = UNSET
    highlight: dict[str, list[str]] | UnsetType = UNSET
    matched_queries: Annotated[
        list[str] | UnsetType,
        documented("names of the clauses that the hit matches; `resift` if the query was rewritten"),
    ] = UNSET
    resift: HitReport | UnsetType = UNSET


class Total(Struct):
    """The number of documents that match."""

    value: int
    relation: Literal["eq", "gte"]


class HitList(Struct):
    """The hits of a page."""

    hits: list[Hit]
    total: Total | UnsetType = UNSET
    max_score: float | UnsetType | None = UNSET


class ValueCount(Struct):
    """A value or range of a field, and the number of documents with it. An end of a range that is null is open."""

    count: Count
    value: str | float | bool | UnsetType = UNSET
    from_: Annotated[float | str | UnsetType | None, documented("the lower bound of a range, inclusive")] = field(
        default=UNSET, name="from"
    )
    to: Annotated[float | str | UnsetType | None, documented("the upper bound of a range, exclusive")] = UNSET


class SearchReport(Struct):
    """The outcome of a search. `model`, `method`, `alpha`, `window` and `session` are returned if it was reranked."""

    reranked: bool
    outcome: OutcomeCode
    model: Hash | UnsetType = UNSET
    method: Annotated[
        Literal["vectors", "late", "dynamax", "lexical"] | UnsetType,
        documented("`lexical` if the index has no vectors of Resift, so that a session only adds words"),
    ] = UNSET
    alpha: float | UnsetType = UNSET
    window: int | UnsetType = UNSET
    session: Annotated[
        str | UnsetType | None, documented("the session, if it has learned something about the query")
    ] = UNSET
    interleaved: Annotated[
        Literal[True] | UnsetType, documented("the hits belong to a trial, and are not in the order of their scores")
    ] = UNSET
    did_you_mean: DidYouMean = UNSET
    widened: Annotated[
        list[str] | UnsetType,
        documented("further words that were searched for, since the query's own words have few hits"),
    ] = UNSET
    carried: Annotated[
        list[str] | UnsetType,
        documented("words of documents that were marked for earlier queries of the session, if they count here"),
    ] = UNSET
    facets: Annotated[
        dict[str, Annotated[list[ValueCount], Meta(max_length=8)]] | UnsetType,
        documented("field → its most frequent values or its ranges, with numbers of matching documents"),
    ] = UNSET
    reason: Annotated[
        str | UnsetType,
        documented("why the hits are in the engine's order, or which part of the rewriting was left out"),
    ] = UNSET


class SearchResponse(Struct):
    """The engine's response to the rewritten search. Aggregations and other parts are returned unchanged.

    If the search was widened, aggregations and the total include the additional documents.
    """

    took: Annotated[int, documented("duration in the engine, in milliseconds")]
    timed_out: bool
    hits: HitList
    resift: Annotated[
        SearchReport,
        Meta(
            extra_json_schema={
                "if": {"properties": {"reranked": {"const": True}}},
                "then": {"required": ["model", "method", "alpha", "window", "session"]},
                "else": {"required": ["reason"]},
            }
        ),
    ]
    _shards: dict[str, Any] | UnsetType = UNSET


class ListedIndex(Struct):
    """An index that can be searched."""

    index: str
    documents: Annotated[Count, documented("number of documents that the caller may read")]


class IndicesResponse(Struct):
    """The indices that can be searched, and the available search methods."""

    indices: Annotated[list[ListedIndex], Meta(max_length=200)]
    methods: Annotated[
        list[Literal["vectors", "late", "dynamax"]],
        documented("`late` is available if the service has a trained reranker"),
    ]


class ShownIndex(Struct):
    """Fields, facets and example queries of an index."""

    index: str
    indices: Annotated[list[str], documented("names of the concrete indices that the name refers to")]
    documents: Annotated[Count, documented("number of documents that the caller may read")]
    fields: Annotated[list[str], documented("the text fields; empty if Resift has not recorded any for the index")]
    vectors: Annotated[bool, documented("whether the index has vectors of Resift; if not, searches are lexical only")]
    card: Annotated[dict[str, str | None], documented("the fields that are shown as title, text, link and image")]
    facets: Annotated[list[str], documented("fields by which hits can be filtered, most useful first")]
    ranges: Annotated[
        dict[str, list[float | str]],
        documented("field → lower bounds of the ranges of numbers or dates; the first range has none"),
    ]
    facts: Annotated[list[str], documented("at most four further fields that cards show")]
    examples: Annotated[list[str], documented("example queries with hits", max_length=3)]


class Suggestions(Struct):
    """Completions of a text that a user is typing."""

    suggestions: Annotated[list[str], documented("completed words, most frequent first, then titles", max_length=8)]


class RewriteReport(Struct):
    """The outcome of rewriting a body."""

    rewritten: Annotated[bool, documented("whether the body was changed")]
    outcome: OutcomeCode
    reason: Annotated[str | UnsetType, documented("in English, why the body, or a part of it, was not rewritten")] = (
        UNSET
    )
    warning: Annotated[
        bool | UnsetType,
        documented("true if the client should log the reason: the session was not loaded, or an option is unknown"),
    ] = UNSET


class RewriteResponse(Struct):
    """The rewritten or unchanged body."""

    body: Annotated[dict[str, Any] | str, documented("a string of JSON if the request sets `as_text`")]
    resift: RewriteReport


class Judgement(Struct):
    """A judgement in a session."""

    step: Positive
    at: Seconds
    query: str
    index: str
    document: str
    grade: Grade
    source: Source
    counts: Annotated[
        bool, documented("false if a later judgement replaces this one, or if this one withdraws another")
    ]


class Because(Struct):
    """A judged document, and its words that contribute most to the direction in which it moves the query."""

    index: str
    document: str
    grade: Grade
    title: Title
    words: list[str]


class Codeword(Struct):
    """A dimension of the vectors whose weight a mask changed."""

    codeword: Annotated[int, documented("number of the dimension, from 0")]
    weight: Annotated[float, documented("weight of the dimension in the similarity; 1 without a mask")]
    words: Annotated[list[str], documented("nearest words of the vocabulary")]


class Mask(Struct):
    """The dimensions whose changed weights have the largest effect on the judged documents, largest effect first."""

    gained: list[Codeword]
    lost: list[Codeword]


class Learned(Struct):
    """The knowledge that a session's judgements teach, in words."""

    because: list[Because]
    towards: Annotated[list[str], documented("words towards which queries are moved")]
    away: Annotated[
        list[str], documented("words from which queries are moved away; empty without irrelevant documents")
    ]
    asked: Annotated[list[str], documented("expansion words that are added to queries, highest weight first")]
    mask: Annotated[Mask | None, documented("weights that the method `mask` learned; null for other methods")]


class Session(Struct):
    """A session: its judgements and what they taught."""

    session: SessionId
    created: Seconds
    expires: Annotated[Seconds, documented("Unix time, in seconds; postponed whenever the session is used")]
    steps: int
    judgements: list[Judgement]
    learned: Annotated[Learned | None, documented("null if no judgement counts, or none of the documents exists")]
    notes: Annotated[
        list[str] | UnsetType,
        documented("English sentences: why nothing was learned from the judgements, or why they are missing"),
    ] = UNSET


class MarkedSession(Struct):
    """A session after a mark. The judgements and what they taught are included if the request sets `explain`."""

    session: SessionId
    created: Seconds
    expires: Annotated[Seconds, documented("Unix time, in seconds; postponed whenever the session is used")]
    steps: int
    judgements: list[Judgement] | UnsetType = UNSET
    learned: Annotated[
        Learned | UnsetType | None, documented("null if no judgement counts, or none of the documents exists")
    ] = UNSET
    notes: Annotated[
        list[str] | UnsetType,
        documented("English sentences: why nothing was learned from the judgements, or why they are missing"),
    ] = UNSET


class Deleted(Struct):
    """Confirmation that a session was deleted."""

    session: SessionId
    deleted: bool


class Recall(Struct):
    """The share of relevant documents that were found: a confidence interval of 95 %."""

    least: Share
    most: Share


class Progress(Struct):
    """The progress of a review, according to judgements by people."""

    total: Annotated[int, documented("number of documents")]
    read: int
    relevant: int
    recall: Recall
    target: Share
    p: Annotated[Share, documented("probability of the recent results if the recall were below `target`")]
    may_stop: Annotated[bool, documented("whether `p` is at most 0.05")]
    cost: Annotated[int | None, documented("estimated number of documents to read to find another relevant one")]


class Sample(Struct):
    """A random sample of unread documents."""

    drawn: int
    read: int
    relevant: int
    unread: Annotated[int, documented("number of unread documents from which it was drawn")]
    least: Annotated[
        int | UnsetType, documented("lower bound of the relevant documents among them, once the whole sample was read")
    ] = UNSET
    most: int | UnsetType = UNSET


class Conflict(Struct):
    """A document that people judged differently. The last judgement counts."""

    document: str
    votes: dict[str, bool]


class Review(Struct):
    """A review and its progress."""

    review: str
    index: str
    topic: str
    query: dict[str, Any] | None
    progress: Progress
    judged_by_models: Annotated[int, documented("number of documents that models judged and no person has judged")]
    found_at: Annotated[list[int], documented("for each relevant document, the number of documents read by then")]
    samples: list[Sample]
    conflicts: list[Conflict]


class ListedReview(Struct):
    """The id and index of a review."""

    review: str
    index: str


class Reviews(Struct):
    """All reviews."""

    reviews: list[ListedReview]


class GivenDocument(Struct):
    """A document to read."""

    id: str
    fields: dict[str, Any]
    words: Annotated[list[str], documented("words and word pairs that suggest most strongly that it is relevant")]


class Batch(Struct):
    """The documents to read next."""

    documents: list[GivenDocument]
    progress: Progress


class Judged(Struct):
    """The review's progress after the judgement."""

    progress: Progress


class Released(Struct):
    """Confirmation that documents were given back."""

    review: str
    released: Annotated[int, documented("number of documents that were reserved for the reader")]


class DeletedReview(Struct):
    """Confirmation that a review and its judgements were deleted."""

    review: str
    deleted: bool


class Result(Struct):
    """The relevance of a document."""

    index: Annotated[int, documented("position in the request's `documents`, from 0")]
    relevance_score: Annotated[Share, documented("(1 + similarity) / 2, rounded to six digits; 0 below 0.0001")]
    document: Annotated[dict[str, str] | UnsetType, documented("the text, if the request sets `return_documents`")] = (
        UNSET
    )


class RerankResponse(Struct):
    """The documents, most relevant first."""

    model: str
    results: list[Result]


class Embedding(Struct):
    """A vector, as numbers or as base64 of little-endian 32-bit floats."""

    object: Literal["embedding"]
    index: int
    embedding: Annotated[list[float], documented("one number per dimension of the model")] | str


class EmbeddingsResponse(Struct):
    """A vector for each text, in the order of the request."""

    object: Literal["list"]
    model: str
    data: list[Embedding]
    usage: Annotated[dict[str, Literal[0]], documented("always 0: tokens are not counted")]


class UbiTaken(Struct):
    """The numbers of events or queries that were stored and dropped."""

    stored: Count
    dropped: Annotated[
        dict[str, Positive],
        documented("reason → number: `malformed`, `too_large`, `too_many`, `flood`, `refused` (by the engine)"),
    ]


class Health(Struct):
    """The service is running."""

    status: Literal["ok"]
    version: str
    model: str
    model_hash: Hash
    longest_wait: Annotated[
        float,
        documented("the longest time in seconds that a request of the last two to four seconds waited for a thread"),
    ]
    overloaded: Annotated[
        bool, documented("whether requests wait longer than 0.3 s, so that search bodies are answered unchanged")
    ]


class Readiness(Struct):
    """The service is running, and the engine answers."""

    status: Literal["ok"]
    engine: Annotated[str, documented("name and version")]


class Problem(Struct):
    """The description of an error."""

    code: Annotated[str, documented("stable; test the code, not the message")]
    message: str
    value: Annotated[
        str | int | bool | UnsetType,
        documented(
            "the invalid value; values other than integers and booleans are converted to text of at most 200 characters"
        ),
    ] = UNSET
    expected: str | UnsetType = UNSET
    request_id: Annotated[
        Annotated[str, Meta(pattern="^[!-~]{1,128}$")] | UnsetType,
        documented(
            "the request's header X-Opaque-Id or X-Request-Id, or a new id; also returned in the header X-Request-Id"
        ),
    ] = UNSET


class Error(Struct):
    """An error response."""

    error: Problem
