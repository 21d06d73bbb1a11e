"""Kinds of query clauses that Resift knows, and their parts that contain other clauses.

The tables decide how :mod:`resift.query.tree` parses a clause. A kind that is missing here is opaque: Resift does not
know what its contents mean, and never changes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Role(Enum):
    """The role that a clause plays in a query.

    Attributes:
        SCORING: The score of the clause is part of the score of a hit.
        VECTOR: A scoring clause that compares a query vector with the vectors in a field.
        SPARSE: A scoring clause that compares the weights of query tokens with the token weights in a field.
        FILTER: The clause only decides which documents match. Its score is ignored.
        EXCLUDED: Documents that match the clause are left out, or get a lower score.
        OPAQUE: The clause is malformed, or Resift does not know this type of clause.
    """

    SCORING = "scoring"
    VECTOR = "vector"
    SPARSE = "sparse"
    FILTER = "filter"
    EXCLUDED = "excluded"
    OPAQUE = "opaque"


# Clauses that search for a text in a single field.
SINGLE_FIELD_TEXT_KINDS = frozenset({"match", "match_phrase", "match_phrase_prefix", "match_bool_prefix"})
# Clauses that search for a text in several fields.
MULTI_FIELD_TEXT_KINDS = frozenset({"multi_match", "query_string", "simple_query_string", "combined_fields"})
TEXT_KINDS = SINGLE_FIELD_TEXT_KINDS | MULTI_FIELD_TEXT_KINDS
VECTOR_KINDS = frozenset({"knn", "neural"})
SPARSE_KIND = "neural_sparse"
HYBRID_KIND = "hybrid"
# Clauses whose query text is encoded by a model of the cluster.
MODEL_KINDS = frozenset({"neural", SPARSE_KIND})
# Clauses that join documents, and score a document by the documents joined to it.
JOINING_KINDS = frozenset({"nested", "has_child", "has_parent"})

# The parts of compound clauses. Parts are visited in the order of this table. The order in the body may differ from the
# order that the client wrote, because OpenSearch reorders the parts of a clause before it passes a body on. The filters
# in the options of ``knn`` and in the functions of ``function_score`` are not listed, because Resift never changes
# them.
PARTS: Mapping[str, Mapping[str, Role]] = {
    "bool": {"must": Role.SCORING, "should": Role.SCORING, "filter": Role.FILTER, "must_not": Role.EXCLUDED},
    "dis_max": {"queries": Role.SCORING},
    "boosting": {"positive": Role.SCORING, "negative": Role.EXCLUDED},
    "constant_score": {"filter": Role.FILTER},
    "function_score": {"query": Role.SCORING},
    "script_score": {"query": Role.SCORING},
    "nested": {"query": Role.SCORING},
    "has_child": {"query": Role.SCORING},
    "has_parent": {"query": Role.SCORING},
    HYBRID_KIND: {"queries": Role.SCORING, "filter": Role.FILTER},
}

# Kinds without scoring clauses inside. Spans and intervals contain rules, which are no clauses.
LEAF_KINDS = frozenset(
    {
        "match_all",
        "match_none",
        "term",
        "terms",
        "terms_set",
        "ids",
        "exists",
        "range",
        "prefix",
        "wildcard",
        "regexp",
        "fuzzy",
        "more_like_this",
        "intervals",
        "span_containing",
        "span_field_masking",
        "field_masking_span",
        "span_first",
        "span_multi",
        "span_near",
        "span_not",
        "span_or",
        "span_term",
        "span_within",
        "geo_bounding_box",
        "geo_distance",
        "geo_polygon",
        "geo_shape",
        "xy_shape",
        "rank_feature",
        "distance_feature",
        "parent_id",
        "percolate",
        "script",
    }
)
KNOWN_KINDS = frozenset({*PARTS, *TEXT_KINDS, *VECTOR_KINDS, SPARSE_KIND, *LEAF_KINDS})
