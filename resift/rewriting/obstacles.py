"""Reasons why a search cannot be rewritten, or not be rescored."""

from __future__ import annotations

from resift.query.body import Query
from resift.query.kinds import VECTOR_KINDS
from resift.query.scores import replaces_scores
from resift.query.tree import HybridClause, SemanticClause
from resift.rewriting.knowledge import Knowledge
from resift.rewriting.outcome import Outcome


def rewrite_obstacle(query: Query, knowledge: Knowledge, in_place: bool) -> Outcome | None:
    """Return the reason why a search cannot be rewritten, or None if it can be rewritten.

    Args:
        query: The parsed search body.
        knowledge: The user's relevance judgements and other knowledge for this search.
        in_place: Whether only the clauses of the query would be changed. Otherwise rescore stages would be added, which
            OpenSearch does not support for every search.
    """
    body = query.body
    if not in_place and not knowledge.text and knowledge.feedback is None and not knowledge.judged:
        return Outcome.NO_TEXT
    fixed = _form_obstacle(query)
    if fixed is not None:
        return fixed
    if body.get("size", 10) == 0:
        return Outcome.NO_HITS
    if not in_place and query.is_sliced_scroll:
        return Outcome.SLICED
    if "query" not in body and "suggest" in body:
        return Outcome.NO_QUERY
    return Outcome.ALREADY_REWRITTEN if query.is_rewritten else None


def _form_obstacle(query: Query) -> Outcome | None:
    """Return the reason why clauses cannot be added to a query, or None if they can.

    Rewriting adds clauses to a query, or makes the query part of a larger query. This is not possible if the query is
    malformed or contains an unknown clause, for example.

    Args:
        query: The parsed search body.
    """
    root = query.root
    if query.is_malformed:
        return Outcome.MALFORMED
    if all(clause.has_unknown for clause in (root.queries if isinstance(root, HybridClause) else [root])):
        return Outcome.UNKNOWN_CLAUSE
    if query.has_inner_hybrid:
        return Outcome.INNER_HYBRID
    if not query.has_mmr:
        return None
    if not isinstance(root, SemanticClause) or root.kind not in VECTOR_KINDS:
        return Outcome.MMR
    if root.field is None:
        return Outcome.MALFORMED
    # The name of the clause marks it as rewritten, and must not replace the user's own name.
    has_own_name = root.options.get("_name") is not None and not root.is_rewritten
    return Outcome.MMR if has_own_name else None


def rescore_obstacle(query: Query, is_scroll: bool) -> Outcome | None:
    """Return the reason why the hits of a search cannot be rescored, or None if they can.

    For example, OpenSearch does not rescore a search that is sorted by a field. A search whose scores come from
    functions only is not rescored either, because the client chose this order.

    Args:
        query: The parsed search body.
        is_scroll: Whether the search is a scroll. The search body does not show this.
    """
    if is_scroll:
        return Outcome.SLICED
    if query.has_mmr:
        return Outcome.MMR
    if "collapse" in query.body:
        return Outcome.COLLAPSED
    if "search_after" in query.body:
        return Outcome.SEARCH_AFTER
    if not query.is_sorted_by_score():
        return Outcome.SORTED
    # OpenSearch could rescore the hits, but the order that the client chose must not change.
    return Outcome.SCORES_REPLACED if replaces_scores(query.root) else None


def is_ranked_by_query(query: Query) -> bool:
    """Return whether the scores of the query decide the order of the hits, perhaps with further sort criteria.

    Args:
        query: The parsed search body.
    """
    return query.is_sorted_by_score(allow_further_criteria=True) and not replaces_scores(query.root)
