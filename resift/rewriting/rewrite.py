"""The rewriting of a search: a parsed body, knowledge and options → the body that the engine runs.

Hits are scored

    (BM25 of the query's words + BM25 of the expansion words) · exp(beta · similarity)

where ``beta`` is alpha / (1 - alpha). The query scores as before. Expansion words and similarity come in as rescore
stages over a window of the first hits. So the query matches the same documents, and totals, aggregations and filters
stay the same, unless the query may be widened. The product needs no statistics of a page, unlike a mean of normalised
scores, and so depends neither on the size of the page nor on the number of shards.
"""

from __future__ import annotations

from resift.query.body import Query
from resift.query.dsl import Body
from resift.rewriting.clauses import named_bool
from resift.rewriting.in_place import rewrite_in_place
from resift.rewriting.knowledge import Knowledge
from resift.rewriting.obstacles import rewrite_obstacle
from resift.rewriting.options import Options
from resift.rewriting.outcome import Rewritten
from resift.rewriting.rescored import rewrite_rescored


def rewrite(query: Query, knowledge: Knowledge, options: Options) -> Rewritten:
    """Rewrite a search body.

    The body of the query is not changed. Everything in it that does not concern the order of the hits is the same in
    the rewritten body.

    Args:
        query: The parsed search body.
        knowledge: What is known about the search.
        options: The options of the rewriting.
    """
    in_place = query.root.ranks_by_meaning or _takes_words(query, knowledge, options)
    obstacle = rewrite_obstacle(query, knowledge, in_place)
    if obstacle is not None:
        return Rewritten(body=query.body, outcome=obstacle, knowledge=knowledge, options=options, is_changed=False)
    if in_place:
        return rewrite_in_place(query, knowledge, options)
    return rewrite_rescored(query, knowledge, options)


def _takes_words(query: Query, knowledge: Knowledge, options: Options) -> bool:
    """Return whether only expansion words are added, and the text clauses of the query take them.

    OpenSearch does not rescore a scroll, and fails at the second page of a scroll that reads a single shard.
    """
    if knowledge.vector is not None or not knowledge.expansion_words or options.widen or "min_score" in query.body:
        return False
    return query.root.searched_fields is not None


def named_query(query: Query) -> Body:
    """Return the query of a body with the name of a rewritten query, and otherwise unchanged.

    A ``hybrid`` query stays as it is, because it cannot be inside another query.
    """
    return query.root.raw if "hybrid" in query.root.raw else named_bool(must=[query.root.raw])
