"""What the service answers, as ``/openapi.json`` describes it. Answers are made elsewhere; tests hold them to this."""

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
Grade = Annotated[float, documented("1 relevant, -1 irrelevant, 0.5 clicked, -0.25 skipped, 0 taken back", ge=-1, le=1)]
Seconds = Annotated[float, documented("Unix time, in seconds")]
Title = Annotated[str, documented("the first line of the document's encoded text, cut at 80 characters")]
Address = Annotated[str, Meta(max_length=2000, pattern="^[Hh][Tt][Tt][Pp][Ss]?://")]
OutcomeCode = Annotated[
    str,
    documented(
        "what became of the search that was to be rewritten; the codes are stable",
        extra_json_schema={"enum": [outcome.code for outcome in Outcome]},
    ),
]
Source = Annotated[str, documented("whence a judgement comes", extra_json_schema={"enum": list(SOURCES)})]
DidYouMean = Annotated[
    str | UnsetType,
    documented("the query text, its misspelt words replaced; absent where none is known to be misspelt"),
]


class Reason(Struct):
    """The judged document that is most like the hit, if it explains the way that the hit went against the engine's own
    answer: a relevant one of a hit that is higher up, an irrelevant one of a hit that is further down."""

    index: str
    document: str
    grade: Grade
    title: Title
    similarity: Annotated[float, documented("of the hit and the judged document, under the mask")]
    moved: Annotated[
        int, documented("how many places the hit won against the engine's own answer; its sign is the grade's")
    ]


class Card(Struct):
    """What is shown of a document, in place of its _source."""

    title: Annotated[str, documented("of a document without one the first line of its text", max_length=500)]
    text: Annotated[str, documented("its beginning", max_length=400)]
    link: Address | UnsetType = UNSET
    image: Address | UnsetType = UNSET
    facts: Annotated[
        dict[str, Annotated[str, Meta(max_length=80)]] | UnsetType,
        documented("short values of other fields, by their names"),
    ] = UNSET


class HitReport(Struct):
    """On reranked hits similarity and because with reasons, and reranker with method late; card where it was asked
    for."""

    card: Card | UnsetType = UNSET
    similarity: Annotated[
        float | UnsetType | None,
        documented("with the query as the session moved it; null for a document without a vector"),
    ] = UNSET
    reranker: Annotated[Share | UnsetType, documented("by how much the trained reranker is for the hit")] = UNSET
    because: Annotated[
        Reason | UnsetType | None, documented("null where it stayed, or was moved by what others won or lost")
    ] = UNSET


class Hit(Struct):
    """A hit, as the engine gives it, and what there is to say of it."""

    _index: str
    _id: str
    _score: Annotated[
        float | None,
        documented(
            "the words' score · exp(beta · similarity), beta = alpha / (1 - alpha), at most 32, and 1 + similarity "
            "for a cosine; beyond the window the engine's own. With method late that times exp(beta · reranker), by "
            "the trained reranker's own weight"
        ),
    ]
    _source: Annotated[
        dict[str, Any] | UnsetType, documented("without resift_vector, unless it was asked for by name")
    ] = UNSET
    highlight: dict[str, list[str]] | UnsetType = UNSET
    matched_queries: Annotated[
        list[str] | UnsetType, documented("names of clauses that the hit matches; resift where the query was rewritten")
    ] = UNSET
    resift: HitReport | UnsetType = UNSET


class Total(Struct):
    """How many documents match."""

    value: int
    relation: Literal["eq", "gte"]


class HitList(Struct):
    """The hits of a page."""

    hits: list[Hit]
    total: Total | UnsetType = UNSET
    max_score: float | UnsetType | None = UNSET


class ValueCount(Struct):
    """A value or a range of a field, and how many documents have it; an end that is null is open."""

    count: Count
    value: str | float | bool | UnsetType = UNSET
    from_: Annotated[float | str | UnsetType | None, documented("the least value of a range")] = field(
        default=UNSET, name="from"
    )
    to: Annotated[float | str | UnsetType | None, documented("the first value beyond it")] = UNSET


class SearchReport(Struct):
    """What became of a search; ``model`` to ``session`` where it was reranked."""

    reranked: bool
    outcome: OutcomeCode
    model: Hash | UnsetType = UNSET
    method: Literal["vectors", "late"] | UnsetType = UNSET
    alpha: float | UnsetType = UNSET
    window: int | UnsetType = UNSET
    session: Annotated[str | UnsetType | None, documented("the session, if it has taught anything")] = UNSET
    interleaved: Annotated[
        Literal[True] | UnsetType, documented("the hits are those of a trial, and not in the order of their scores")
    ] = UNSET
    did_you_mean: DidYouMean = UNSET
    widened: Annotated[
        list[str] | UnsetType,
        documented("the query's own words find little: documents were looked for by these as well"),
    ] = UNSET
    facets: Annotated[
        dict[str, Annotated[list[ValueCount], Meta(max_length=8)]] | UnsetType,
        documented("of each field the most frequent values, or its ranges, and how many of what was found have them"),
    ] = UNSET
    reason: Annotated[
        str | UnsetType, documented("why the hits are in the engine's order, or what was left out, such as the session")
    ] = UNSET


class SearchResponse(Struct):
    """The engine's answer to the rewritten search; aggregations and all else that is not listed come back untouched.
    Where the search was widened, they and the total count the documents that came in by it too."""

    took: Annotated[int, documented("the engine's milliseconds")]
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
    documents: Annotated[Count, documented("how many the caller may read")]


class IndicesResponse(Struct):
    """The indices by name, and the methods that a search may name."""

    indices: Annotated[list[ListedIndex], Meta(max_length=200)]
    methods: Annotated[list[Literal["vectors", "late"]], documented("late where a trained reranker is in service")]


class ShownIndex(Struct):
    """The fields of an index and queries that find something in it."""

    index: str
    indices: Annotated[list[str], documented("the own names of all indices that the name stands for")]
    documents: Annotated[Count, documented("how many the caller may read")]
    fields: Annotated[list[str], documented("the text fields; none of an index of which nothing is recorded")]
    vectors: Annotated[bool, documented("whether it has vectors of ours; without, words alone count")]
    card: Annotated[dict[str, str | None], documented("the fields of title, text, link and image")]
    facets: Annotated[list[str], documented("fields by which hits can be narrowed down, the most useful first")]
    ranges: Annotated[
        dict[str, list[float | str]],
        documented("where the ranges of numbers and dates begin, all but the first"),
    ]
    facts: Annotated[list[str], documented("the fields whose values cards show, at most four")]
    examples: Annotated[list[str], documented("queries that find something", max_length=3)]


class Suggestions(Struct):
    """What a text that is being typed may become."""

    suggestions: Annotated[list[str], documented("most frequent words first, then titles", max_length=8)]


class RewriteReport(Struct):
    """What became of a body."""

    rewritten: Annotated[bool, documented("whether the body is another one")]
    outcome: OutcomeCode
    reason: Annotated[str | UnsetType, documented("why the body was left as it was, or in part, for people")] = UNSET


class RewriteResponse(Struct):
    """The body, rewritten or as it was."""

    body: Annotated[dict[str, Any] | str, documented("a text that holds its JSON, where as_text was asked for")]
    resift: RewriteReport


class Judgement(Struct):
    """A judgement of a session."""

    step: Positive
    at: Seconds
    query: str
    index: str
    document: str
    grade: Grade
    source: Source
    counts: Annotated[bool, documented("not where a later one took its place, or it took one back")]


class Because(Struct):
    """A judged document that counts, and those of its words that lie most in the direction in which it moves the
    query."""

    index: str
    document: str
    grade: Grade
    title: Title
    words: list[str]


class Learned(Struct):
    """What a session's judgements say, in words."""

    because: list[Because]
    towards: Annotated[list[str], documented("words that the query is moved towards")]
    away: Annotated[list[str], documented("words that it is moved away from; none without irrelevant documents")]
    asked: Annotated[list[str], documented("words that the engine is asked for too, heaviest first")]


class Session(Struct):
    """All that is kept of a session, and what was learned from it."""

    session: SessionId
    created: Seconds
    expires: Annotated[Seconds, documented("using the session puts it off")]
    steps: int
    judgements: list[Judgement]
    learned: Annotated[Learned | None, documented("null where nothing counts, or none of the documents is there")]


class MarkedSession(Struct):
    """A session after a mark. The judgements and what they taught are included if the request sets ``explain``."""

    session: SessionId
    created: Seconds
    expires: Annotated[Seconds, documented("using the session puts it off")]
    steps: int
    judgements: list[Judgement] | UnsetType = UNSET
    learned: Annotated[
        Learned | UnsetType | None, documented("null where nothing counts, or none of the documents is there")
    ] = UNSET


class Deleted(Struct):
    """A session is forgotten."""

    session: SessionId
    deleted: bool


class Recall(Struct):
    """How much of what is relevant was found, with a confidence of 95 %."""

    least: Share
    most: Share


class Progress(Struct):
    """How far a review is, by what persons judged."""

    total: Annotated[int, documented("how many documents there are")]
    read: int
    relevant: int
    recall: Recall
    target: Share
    p: Annotated[Share, documented("how likely it is that so few were found of late if the recall is below `target`")]
    may_stop: Annotated[bool, documented("whether `p` is at most 0.05")]
    cost: Annotated[int | None, documented("about how many documents have to be read now to find one more")]


class Sample(Struct):
    """A control sample."""

    drawn: int
    read: int
    relevant: int
    unread: Annotated[int, documented("of how many it was drawn")]
    least: Annotated[int | UnsetType, documented("how many of those are relevant, once all of it was read")] = UNSET
    most: int | UnsetType = UNSET


class Conflict(Struct):
    """A document that persons judged differently; the last of them counts."""

    document: str
    votes: dict[str, bool]


class Review(Struct):
    """A review, and how far it is."""

    review: str
    index: str
    topic: str
    query: dict[str, Any] | None
    progress: Progress
    judged_by_models: Annotated[int, documented("documents that no person has judged")]
    found_at: Annotated[list[int], documented("of each relevant document, how many had been read by then")]
    samples: list[Sample]
    conflicts: list[Conflict]


class ListedReview(Struct):
    """A review that was begun."""

    review: str
    index: str


class Reviews(Struct):
    """The reviews that were begun."""

    reviews: list[ListedReview]


class GivenDocument(Struct):
    """A document to be read."""

    id: str
    fields: dict[str, Any]
    words: Annotated[list[str], documented("words and pairs that speak most for it")]


class Batch(Struct):
    """The documents to be read next."""

    documents: list[GivenDocument]
    progress: Progress


class Judged(Struct):
    """How far the review is now."""

    progress: Progress


class DeletedReview(Struct):
    """A review is deleted, with its judgements."""

    review: str
    deleted: bool


class Result(Struct):
    """A document's relevance."""

    index: Annotated[int, documented("position in documents, from 0")]
    relevance_score: Annotated[
        Share, documented("(1 + similarity) / 2, in at most six digits; what is under 0.0001 is 0")
    ]
    document: Annotated[dict[str, str] | UnsetType, documented("its text, with return_documents")] = UNSET


class RerankResponse(Struct):
    """The best documents, best first."""

    model: str
    results: list[Result]


class Embedding(Struct):
    """A vector, or the base64 of its little-endian 32-bit floats."""

    object: Literal["embedding"]
    index: int
    embedding: Annotated[list[float], documented("as many numbers as the model has dimensions")] | str


class EmbeddingsResponse(Struct):
    """A vector for each text, in order."""

    object: Literal["list"]
    model: str
    data: list[Embedding]
    usage: Annotated[dict[str, Literal[0]], documented("nothing is counted")]


class UbiTaken(Struct):
    """How many events or queries were stored, and how many dropped."""

    stored: Count
    dropped: Annotated[
        dict[str, Positive], documented("by reason: malformed, too_large, too_many, flood, refused (by the engine)")
    ]


class Health(Struct):
    """Alive."""

    status: Literal["ok"]
    version: str
    model: str
    model_hash: Hash


class Readiness(Struct):
    """Ready."""

    status: Literal["ok"]
    engine: Annotated[str, documented("name and version")]


class Problem(Struct):
    """What is wrong."""

    code: Annotated[str, documented("stable: test this, not the message")]
    message: str
    value: Annotated[
        str | int | bool | UnsetType,
        documented("what was wrong, as text where it is no integer or boolean, cut at 200 characters"),
    ] = UNSET
    expected: str | UnsetType = UNSET
    request_id: Annotated[
        Annotated[str, Meta(pattern="^[!-~]{1,128}$")] | UnsetType,
        documented(
            "the request's X-Opaque-Id or X-Request-Id, or one that it was given: every answer has it as X-Request-Id"
        ),
    ] = UNSET


class Error(Struct):
    """Any error."""

    error: Problem
