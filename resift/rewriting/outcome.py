"""Outcomes: what became of a search that was to be rewritten."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


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
    SLICED = "sliced_scroll", "OpenSearch rescores no scroll"
    # by the service, where the index has our pipeline as its default
    ALREADY_REWRITTEN = "already_rewritten", "it is rewritten already"
    # of these hits the words alone may count, and what is hidden stays hidden
    COLLAPSED = "collapsed", "the search has 'collapse'"
    SEARCH_AFTER = "search_after", "the search has 'search_after'"
    SORTED = "sorted", "the search has 'sort'"
    # of a clause that ranks by vectors or tokens of the index's own, which stays as it came
    THRESHOLD = "threshold", "a smallest score or a largest distance decides what matches"
    NOT_MOVED = "vectors_not_moved", "the vectors of {!r} are nested, binary, or not in the mapping"
    NO_VECTORS = "no_vectors", "no marked document has anything in {!r}"
    OTHER_DIMENSION = "other_dimension", "the query's vector has another dimension than those of {!r}"
    MODEL_UNAVAILABLE = "model_unavailable", "what the query's model makes of it for {!r} could not be had"
    # of what the search has otherwise
    NOT_DEMOTED = "not_demoted", "judged documents cannot be put last where lists are mixed"
    MARKS_GONE = "marks_gone", "marked documents that are gone: {}"
    FAILED = "failed", "failed: {}"

    def __init__(self, code: str, english: str) -> None:
        self.code, self.english = code, english


class Note(NamedTuple):
    """What could not be done, and the ``detail`` that belongs into its sentence, such as the name of a field."""

    outcome: Outcome
    detail: object = ""
