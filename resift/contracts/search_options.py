"""The options of a search: over HTTP, in ``ext.resift`` of a search body, in Python and on the command line.

Each option is declared once. HTTP, the library, the command line and the documentation use the same declaration. The
description of an option is Markdown. The second argument of ``documented`` describes a default that is no constant.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from resift.feedback.methods import MethodName
from resift.query.dsl import MAX_RESULTS, MAX_WINDOW
from resift.schema import documented

MAX_FACETS = 10
"""The number of fields whose values one search may count."""
MAX_TEXT = 1_000_000
"""The number of characters of a text, if the configuration states no other limit."""

Name = Annotated[str, Meta(min_length=1, title="a name")]
Text = Annotated[str, Meta(extra_json_schema={"maxLength": MAX_TEXT})]
SessionId = Annotated[
    str, Meta(title="1 to 128 letters, digits and _ . : -", extra_json_schema={"pattern": "^[A-Za-z0-9_.:-]{1,128}$"})
]
_SESSION_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
Alpha = Annotated[float, Meta(ge=0, le=1)]
Window = Annotated[int, Meta(ge=1, le=MAX_WINDOW)]
Nearest = Annotated[int, Meta(ge=0, le=MAX_WINDOW)]
Clause = Annotated[dict[str, Any], Meta(title="a query clause")]
Judged = Literal["keep", "demote", "hide"]
RankingMethod = Literal["auto", "vectors", "late", "dynamax"]


class RewritingOptions(Struct, frozen=True, kw_only=True):
    """Options that control how Resift rewrites a search."""

    window: Annotated[
        Window | None,
        documented(
            "number of hits on each shard that are rescored; later hits keep the order of the engine",
            "100; in a session that has learned something 400, or 500 in an index without our vectors",
        ),
    ] = None
    alpha: Annotated[
        Alpha | None,
        documented(
            "weight of the similarity, from 0 (only the words) to 1 (only the similarity)",
            "the weight of [the model](feedback.md#what-is-learned), such as 0.5",
        ),
    ] = None
    widen: Annotated[
        bool | None,
        documented(
            "whether [other words](rewriting.md#other-words), the session's strongest expansion words (if the query "
            "finds fewer than ten documents), and `knn` may find documents that the query itself does not match",
            "true for a text, otherwise false",
        ),
    ] = None
    knn: Annotated[
        Nearest | None,
        documented(
            "number of nearest documents that a widened search adds, if the vectors have an HNSW index",
            "0; 100 if the words of the query [find little](rewriting.md#other-words)",
        ),
    ] = None
    judged: Annotated[
        Judged,
        documented(
            "[what happens](rewriting.md#documents-that-were-judged) to documents that the session has judged: `keep`, "
            "`demote` or `hide`"
        ),
    ] = "keep"
    feedback: Annotated[
        MethodName | None,
        documented(
            "[method](feedback.md) by which this search learns from its session: `ridge+lexical`, `lexical` or `mask`",
            "`RESIFT_FEEDBACK`",
        ),
    ] = None
    without: Annotated[
        list[Name],
        documented(
            "expansion words that this search does not use, as `learned.asked` names them", "none", max_length=100
        ),
    ] = field(default_factory=list)


class PipelineOptions(RewritingOptions, frozen=True, kw_only=True):
    """Resift's options in the section ``ext.resift`` or ``ext.ml_inference`` of a search body.

    Unknown names are ignored, because in ``ext.ml_inference`` they may belong to other search processors. The reason in
    the response names them.
    """

    text: Annotated[
        str | None, documented("the text that the search is about, if the query of the body does not contain it")
    ] = field(default=None, name="query")
    session: Annotated[str | None, documented("the session whose judgements count")] = None
    scroll: Annotated[
        bool,
        documented("whether the search is a scroll, which a search body does not say, and OpenSearch cannot rescore"),
    ] = False


class Question(RewritingOptions, frozen=True):
    """The main arguments of a search: the query and the number of hits.

    In the Python library, both can be passed as positional arguments. All other options are keyword arguments.
    """

    query: Annotated[
        Text | dict[str, Any],
        documented(
            "a text, a query clause, or a whole search body (recognised by its key `query`)",
            title="a text or a search body",
        ),
    ]
    size: Annotated[
        int,
        documented("number of hits on a [page](#pages); the `size` of a body takes precedence", ge=0, le=MAX_RESULTS),
    ] = 10


class SearchOptions(Question, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a search in the Python library.

    The index and the session are not options, because they are represented by Python objects.
    """

    start: Annotated[
        int,
        documented(
            "number of hits before the [page](#pages); the `from` of a body takes precedence", ge=0, le=MAX_RESULTS
        ),
    ] = field(default=0, name="from")
    method: Annotated[
        RankingMethod,
        documented(
            "`late` lets the [trained reranker](rerankers.md) in service read the texts of the hits; `vectors` does "
            "not; `auto` is `late` if there is a reranker for the index; [`dynamax`](rerankers.md#dynamax) compares "
            "the words of the first hits with the query, in place of vectors"
        ),
    ] = "auto"
    reasons: Annotated[
        bool, documented("add to each hit its similarity with the query and, in a session, the judgement that moved it")
    ] = False
    filter: Annotated[
        Clause | None,
        documented(
            "a query clause that every hit must match; see [rights by a filter](security.md#rights-by-a-filter) for "
            "what it hides"
        ),
    ] = None
    highlight: Annotated[
        bool,
        documented(
            "highlight the words of a text query in the first 100,000 characters of each field, as escaped HTML with "
            "`<em>` tags"
        ),
    ] = False
    documents: Annotated[
        Literal["source", "card", "none"],
        documented(
            "what the hits of a text query contain: `source` for `_source`, `card` for a [card](#get-v1indices) in its "
            "place, or `none`; a body states it in its own `_source`"
        ),
    ] = "source"
    facets: Annotated[
        list[Name],
        documented(
            "up to ten fields whose most frequent values, at most eight each, are counted among all matching documents",
            "none",
            max_length=MAX_FACETS,
        ),
    ] = field(default_factory=list)


class SearchRequest(SearchOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A search request: an index, a query and options. It can name a session, whose judgements change the ranking."""

    index: Annotated[
        Name,
        documented(
            "an index; on OpenSearch also an alias, a pattern or a comma-separated list "
            "([several indices](#several-indices))"
        ),
    ]
    session: Annotated[
        SessionId | None, documented("the session whose judgements move the query and add words to it")
    ] = None


def is_session_id(value: object) -> bool:
    """Return whether a value is a well-formed session id: 1 to 128 letters, digits and the characters ``_ . : -``."""
    return isinstance(value, str) and _SESSION_ID.fullmatch(value) is not None
