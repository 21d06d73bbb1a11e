"""The rewriting of a search: a parsed body, knowledge and options → the body that the engine runs.

Hits are scored

    (BM25 of the query's words + BM25 of the expansion words) · exp(beta · similarity)

where ``beta`` is alpha / (1 - alpha), and ``similarity`` is 1 + cosine or the fuzzy Jaccard similarity. Without
vectors, the last factor is missing.

The query itself scores as before. Expansion words and similarity are added in rescore stages for the first hits. So the
query matches the same documents, and totals, aggregations and filters stay the same, unless the query may be widened.

The two parts are multiplied, because a mean would need normalised scores. These depend on the size of a page and on the
number of shards. The product does not.
"""

from __future__ import annotations

from resift.query.body import Query
from resift.query.dsl import Body
from resift.query.scores import replaces_scores
from resift.rewriting.clauses import marked_bool
from resift.rewriting.in_place import rewrite_in_place
from resift.rewriting.knowledge import Knowledge
from resift.rewriting.obstacles import rescore_obstacle, rewrite_obstacle
from resift.rewriting.options import Options
from resift.rewriting.outcome import Rewritten
from resift.rewriting.rescored import rewrite_rescored


def rewrite(query: Query, knowledge: Knowledge, options: Options) -> Rewritten:
    """Rewrite a search body so that the ranking of its hits follows the user's relevance judgements.

    The original body is not modified. Filters, aggregations and other parts that do not affect the ranking stay the
    same.

    Args:
        query: The parsed search body.
        knowledge: The user's relevance judgements and other knowledge for this search.
        options: The options of the rewriting, with all defaults filled in.

    Returns:
        The rewritten search body and the outcome. If the search cannot be rewritten, the result contains the original
        body, and the outcome is the reason.
    """
    in_place = query.root.ranks_by_meaning or _adds_words_to_text_clauses(query, knowledge, options)
    obstacle = rewrite_obstacle(query, knowledge, in_place)
    if obstacle is not None:
        return Rewritten(body=query.body, outcome=obstacle, knowledge=knowledge, options=options, is_changed=False)
    if in_place:
        return rewrite_in_place(query, knowledge, options)
    return rewrite_rescored(query, knowledge, options)


def _adds_words_to_text_clauses(query: Query, knowledge: Knowledge, options: Options) -> bool:
    """Return whether expansion words are added to each text clause of the query rather than in a rescore stage.

    Expansion words are words that the session learned from relevant documents. The result is True if these conditions
    are met:

    - There are expansion words for the query.
    - OpenSearch cannot rescore the search, for example because the search is a scroll.
    - The query has text clauses whose scores count, and the body has no ``min_score``.
    - The index has no vectors of Resift. In an index with such vectors, expansion words are searched in all text
      fields, whether or not the query has text clauses.
    - The options do not allow the query to be widened.

    Args:
        query: The parsed search body.
        knowledge: The knowledge about the search, which includes the expansion words.
        options: The options of the rewriting.
    """
    if knowledge.vector is not None or not knowledge.expansion_words or options.widen or "min_score" in query.body:
        return False
    if query.root.searched_fields is None or replaces_scores(query.root):
        return False
    return query.is_sliced_scroll or rescore_obstacle(query, options.scroll) is not None


def marked_query(query: Query) -> Body:
    """Mark the query of a search body as rewritten, by wrapping it in a ``bool`` clause with a named filter.

    The search pipeline of an index recognises the name of the filter, and does not rewrite the search again. The filter
    matches all documents, so hits and scores stay the same. A query that OpenSearch does not allow inside another
    query, such as ``hybrid``, is returned as it is.

    Args:
        query: The parsed search body.
    """
    return query.root.raw if query.must_not_be_wrapped else marked_bool(must=[query.root.raw])
