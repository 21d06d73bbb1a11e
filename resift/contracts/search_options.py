"""What a search may say: over HTTP, in ``ext.ml_inference``, in Python and on the command line."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from resift.query.dsl import MAX_RESULTS, MAX_WINDOW
from resift.schema import documented

MAX_FACETS = 10  # fields whose values are counted for one search
MAX_TEXT = 1_000_000  # characters, where nothing else is configured

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


class RewritingOptions(Struct, frozen=True, kw_only=True):
    """What a search may say of how it is rewritten."""

    window: Annotated[
        Window | None,
        documented(
            "how many of the first hits on each shard are rescored; the rest keeps the engine's order",
            "100; 400 in a session that has learned something",
        ),
    ] = None
    alpha: Annotated[
        Alpha | None,
        documented(
            "weight of the similarity: 0 is the words alone, 1 the similarity alone",
            "[the model's](feedback.md#what-is-learned), such as 0.5",
        ),
    ] = None
    widen: Annotated[
        bool | None,
        documented(
            "whether [other words](rewriting.md#other-words), the session's strongest ones, and `knn` may find what "
            "the query itself does not match",
            "true for a text, else false",
        ),
    ] = None
    knn: Annotated[
        Nearest | None,
        documented(
            "how many nearest documents a widened search finds as well, where vectors have a graph; by default 100 "
            "where a query's own words [find little](rewriting.md#other-words)",
            "0",
        ),
    ] = None
    judged: Annotated[
        Judged,
        documented(
            "[what happens](rewriting.md#how-a-search-is-rewritten) to documents that the session has judged: `keep`, "
            "`demote`, `hide`"
        ),
    ] = "keep"
    without: Annotated[
        list[Name],
        documented(
            "words of the session that this search leaves out, as `learned.asked` names them", "none", max_length=100
        ),
    ] = field(default_factory=list)


class PipelineOptions(RewritingOptions, frozen=True, kw_only=True):
    """What a search body may say in ``ext.ml_inference``; other names in it are those of other processors."""

    text: Annotated[
        str | None, documented("the text that is asked for, where the body's own clauses do not say it")
    ] = field(default=None, name="query")
    session: Annotated[str | None, documented("the session whose judgements count")] = None


class Question(RewritingOptions, frozen=True):
    """What is asked for, and how much of it: these two may be given by their places."""

    query: Annotated[
        Text | dict[str, Any],
        documented(
            "a text; a query clause; or a whole search body (recognised by its key `query`)",
            title="a text or a search body",
        ),
    ]
    size: Annotated[
        int, documented("how many hits a [page](#pages) has; a body's own takes precedence", ge=0, le=MAX_RESULTS)
    ] = 10


class SearchOptions(Question, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a search may say in Python: all but its index and its session, which are objects there."""

    start: Annotated[
        int,
        documented("how many hits come before the [page](#pages); a body's own takes precedence", ge=0, le=MAX_RESULTS),
    ] = field(default=0, name="from")
    method: Annotated[
        Literal["auto", "vectors", "late"],
        documented(
            "`late`: the [trained reranker](rerankers.md) in service reads the hits' texts; `vectors`; `auto` is "
            "`late` if there is one for the index"
        ),
    ] = "auto"
    reasons: Annotated[
        bool, documented("hits tell their similarity with the query and, in a session, which judgement moved them")
    ] = False
    filter: Annotated[
        Clause | None,
        documented(
            "a query clause that every hit must match; what it keeps from whom: "
            "[rights by a filter](security.md#rights-by-a-filter)"
        ),
    ] = None
    highlight: Annotated[
        bool,
        documented(
            "highlight the words of a query that is a text, in the first 100,000 characters of a field: escaped HTML "
            "with `<em>` tags"
        ),
    ] = False
    documents: Annotated[
        Literal["source", "card", "none"],
        documented(
            "what hits show for a query that is a text: `_source`; a [`card`](#get-v1indices) in its place; or `none`. "
            "A body says it by its own `_source`"
        ),
    ] = "source"
    facets: Annotated[
        list[Name],
        documented(
            "up to ten fields, whose most frequent values, at most eight each, are counted among all documents found",
            "none",
            max_length=MAX_FACETS,
        ),
    ] = field(default_factory=list)


class SearchRequest(SearchOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A search of an index, for a session."""

    index: Annotated[
        Name,
        documented(
            "on OpenSearch also an alias, a pattern or a comma-separated list ([several indices](#several-indices))"
        ),
    ]
    session: Annotated[
        SessionId | None, documented("moves the query and adds words to it, by what this session has learned")
    ] = None


def is_session_id(value: object) -> bool:
    """Return whether a value can be the id of a session."""
    return isinstance(value, str) and _SESSION_ID.fullmatch(value) is not None
