"""Outcomes: what became of a search that was to be rewritten, as codes that answers and metrics share."""

from __future__ import annotations

from enum import Enum


class Outcome(str, Enum):
    """What became of a search. The codes are stable; :data:`ENGLISH` says the same to people."""

    REWRITTEN = "rewritten"
    IN_PART = "in_part"  # rewritten, and the answer says what was left out
    NOTHING_TO_ADD = "nothing_to_add"
    NO_TEXT = "no_text"
    NO_QUERY = "no_query"
    NO_HITS = "no_hits"
    MALFORMED = "malformed_query"
    KIND_NOT_SUPPORTED = "kind_not_supported"
    SLICED = "sliced_scroll"
    ALREADY_REWRITTEN = "already_rewritten"  # by the service, where the index has our pipeline as its default
    # Of these hits the words alone may count, and what is hidden is: their bodies may be others.
    COLLAPSED = "collapsed"
    SEARCH_AFTER = "search_after"
    SORTED = "sorted"
    FAILED = "failed"


# Where something belongs into the sentence, it stands in braces.
ENGLISH = {
    Outcome.REWRITTEN: "",
    Outcome.IN_PART: "",
    Outcome.NOTHING_TO_ADD: "there is nothing to add",
    Outcome.NO_TEXT: "the query has no text",
    Outcome.NO_QUERY: "there is no query",
    Outcome.NO_HITS: "no hits were asked for",
    Outcome.MALFORMED: "the query is malformed",
    Outcome.KIND_NOT_SUPPORTED: "the query is {!r}",
    Outcome.SLICED: "OpenSearch rescores no scroll",
    Outcome.ALREADY_REWRITTEN: "it is rewritten already",
    Outcome.COLLAPSED: "the search has 'collapse'",
    Outcome.SEARCH_AFTER: "the search has 'search_after'",
    Outcome.SORTED: "the search has 'sort'",
    Outcome.FAILED: "failed: {}",
}
