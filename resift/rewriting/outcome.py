"""Outcomes: what became of a search that was to be rewritten."""

from __future__ import annotations

from enum import Enum


class Outcome(Enum):
    """What became of a search: a stable ``code``, which answers and metrics share, and ``english`` for people.

    Where something belongs into the sentence, it stands in braces; it is "" where there is nothing to tell.
    """

    REWRITTEN = "rewritten", ""
    IN_PART = "in_part", ""  # rewritten, and notes say what was left out
    NOTHING_TO_ADD = "nothing_to_add", "there is nothing to add"
    NO_TEXT = "no_text", "the query has no text"
    NO_QUERY = "no_query", "there is no query"
    NO_HITS = "no_hits", "no hits were asked for"
    MALFORMED = "malformed_query", "the query is malformed"
    KIND_NOT_SUPPORTED = "kind_not_supported", "the query is {!r}"
    SLICED = "sliced_scroll", "OpenSearch rescores no scroll"
    # by the service, where the index has our pipeline as its default
    ALREADY_REWRITTEN = "already_rewritten", "it is rewritten already"
    # of these hits the words alone may count, and what is hidden stays hidden
    COLLAPSED = "collapsed", "the search has 'collapse'"
    SEARCH_AFTER = "search_after", "the search has 'search_after'"
    SORTED = "sorted", "the search has 'sort'"
    FAILED = "failed", "failed: {}"

    def __init__(self, code: str, english: str) -> None:
        self.code, self.english = code, english
