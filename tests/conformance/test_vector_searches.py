"""Searches by vectors and tokens with the options that OpenSearch documents, sent the same three ways.

Each of them is sent with the options ``judged`` and ``widen`` as well. Then other documents match, but the search must
not fail.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from known_differences import KnownDifferences
from test_clauses import (
    COUNT,
    KNN,
    KNN_OF_TAG,
    NEAR,
    SPARSE,
    TEXT,
    TOKENS,
    VECTOR,
    Body,
    Case,
    Indices,
    hybrid,
    query,
)
from test_clauses import indices as indices
from test_clauses import version as version
from three_ways import OpenSearchClient, ThreeWays

pytestmark = pytest.mark.filterwarnings("ignore::opensearchpy.exceptions.OpenSearchWarning")

OTHER: Body = {"match": {"title": "war peace"}}
TAG: Body = {"term": {"tag": "t1"}}
TAGS: Body = {"tags": {"terms": {"field": "tag"}}}
NESTED_KNN: Body = {"nested": {"path": "parts", "query": {"knn": {"parts.vector": {"vector": VECTOR, "k": COUNT}}}}}
BYTES = [50, 12, 0, 0, 0, 0, 0, 0]
OPTIONS: dict[str, Body] = {
    "hide": {"judged": "hide"},
    "demote": {"judged": "demote"},
    "widen": {"widen": True, "knn": 3},
}


def knn(field: str = "vector", **options: Any) -> Body:
    """Return a ``knn`` clause that finds all documents."""
    return {"knn": {field: {"vector": VECTOR, "k": COUNT, **options}}}


def radial(field: str = "vector", **options: Any) -> Body:
    """Return a ``knn`` clause that states a distance or a score in place of a number of documents."""
    return {"knn": {field: {"vector": VECTOR, **options}}}


def tokens(**options: Any) -> Body:
    """Return a ``neural_sparse`` clause for a ``rank_features`` field."""
    return {"neural_sparse": {"tokens": {"query_tokens": {"fire": 1.5, "forest": 0.5}, **options}}}


def sparse(**parameters: Any) -> Body:
    """Return a ``neural_sparse`` clause for a ``sparse_vector`` field."""
    options = {"query_tokens": {"1": 1.5, "2": 0.5}, "method_parameters": {"k": COUNT, **parameters}}
    return {"neural_sparse": {"sparse": options}}


def scripted(source: str) -> Body:
    """Return a ``script_score`` clause with a Painless script over vectors."""
    script = {"source": source, "params": {"vector": VECTOR}}
    return {"script_score": {"query": TEXT, "script": script}}


def rescore(clause: Body, **options: Any) -> Body:
    """Return a rescore stage."""
    return {"window_size": COUNT, "query": {"rescore_query": clause, **options}}


def mmr(clause: Body, **parts: Any) -> Case:
    """Return a search whose hits are reranked by maximal marginal relevance."""
    body = {**query(clause), "size": 5, "ext": {"mmr": {"diversity": 0.5, "candidates": COUNT}}, **parts}
    return Case(body, relevant=NEAR, vector=VECTOR, since=(3, 3))


# Queries of ``hybrid`` that match documents with the score 0, which ``hybrid`` leaves out.
SCORELESS: dict[str, Body] = {
    "a filter beside should": {"bool": {"filter": [TAG], "should": [TEXT]}},
    "a filter beside two should": {"bool": {"filter": [TAG], "should": [TEXT, OTHER]}},
    "a filter alone": {"bool": {"filter": [TEXT]}},
    "must of a score 0": {"bool": {"must": [{"term": {"tag": {"value": "t1", "boost": 0}}}], "should": [TEXT]}},
    "minimum_should_match 0": {"bool": {"should": [TEXT], "minimum_should_match": 0, "filter": [TAG]}},
    "a boost of 0": {"match": {"text": {"query": "fire forest", "boost": 0}}},
    "a weight of 0": {"function_score": {"query": TEXT, "functions": [{"filter": TAG, "weight": 0}]}},
    "a script": {"script_score": {"query": TEXT, "script": {"source": "doc['n'].value % 2 == 0 ? 0 : _score"}}},
    "a negation": {"simple_query_string": {"query": "fire | -war", "fields": ["text"]}},
    "a negated group": {"query_string": {"query": "fire OR (-war)", "default_field": "text"}},
    "an exclusion": {"query_string": {"query": "fire forest -war", "default_field": "text"}},
    "a negation alone": {"query_string": {"query": "-war", "default_field": "text"}},
    "dis_max of filters": {"dis_max": {"queries": [TEXT, {"bool": {"filter": [TAG]}}]}},
    "boosting of a filter": {
        "boosting": {
            "positive": {"bool": {"filter": [TAG], "should": [TEXT]}},
            "negative": OTHER,
            "negative_boost": 0.5,
        }
    },
    "nested of a filter": {
        "nested": {"path": "parts", "query": {"bool": {"filter": [{"match": {"parts.text": "fire forest"}}]}}}
    },
}

CASES: dict[str, Case] = {
    # knn
    "knn with ef_search": Case(query(knn(method_parameters={"ef_search": 60})), relevant=NEAR, vector=VECTOR),
    "knn with rescore": Case(query(knn(rescore={"oversample_factor": 2.0})), relevant=NEAR),
    "knn with a filter of bool": Case(
        query(knn(filter={"bool": {"must": [TAG], "must_not": [{"range": {"n": {"lt": 9}}}]}})),
        relevant=NEAR,
        vector=VECTOR,
    ),
    "knn with a filter of nested": Case(
        query(knn(filter={"nested": {"path": "parts", "query": {"match": {"parts.text": "fire"}}}})), relevant=NEAR
    ),
    "knn with a boost and a name": Case(query(knn(boost=2.0, _name="mine")), relevant=NEAR, vector=VECTOR),
    "knn of an unmapped field": Case(query(knn("absent", ignore_unmapped=True))),
    "knn of bytes": Case(query({"knn": {"bytes": {"vector": BYTES, "k": COUNT}}}), relevant=NEAR, vector=BYTES),
    "knn of two indices": Case(query(knn(ignore_unmapped=True)), index="INDEX,SPARSE", since=(3, 3)),
    "knn of an alias": Case(query(knn()), index="INDEX-alias"),
    "two knn": Case(query({"bool": {"should": [knn(), knn("cosine")]}}), relevant=NEAR, vector=VECTOR),
    "knn in dis_max": Case(query({"dis_max": {"queries": [TEXT, knn()]}}), relevant=NEAR, vector=VECTOR),
    "knn in boosting": Case(query({"boosting": {"positive": knn(), "negative": TEXT, "negative_boost": 0.3}})),
    "knn in constant_score": Case(query({"constant_score": {"filter": knn()}})),
    "knn in a filter": Case(query({"bool": {"must": [TEXT], "filter": [knn()]}})),
    "knn in must_not": Case(query({"bool": {"must": [TEXT], "must_not": [radial(max_distance=0.2)]}})),
    "knn in a function's filter": Case(
        query({"function_score": {"query": TEXT, "functions": [{"filter": radial(max_distance=0.8), "weight": 3}]}})
    ),
    "knn in post_filter": Case(query(TEXT, post_filter=radial(max_distance=1.0))),
    "knn in an aggregation": Case(query(TEXT, aggs={"near": {"filter": radial(max_distance=1.0)}})),
    "knn with named queries": Case(
        query({"bool": {"should": [{"match": {"text": {"query": "fire", "_name": "mine"}}}, knn(_name="other")]}})
    ),
    "knn with collapse": Case(query(KNN, collapse={"field": "tag"}), relevant=NEAR),
    "knn with collapse and inner hits": Case(
        query(KNN, collapse={"field": "tag", "inner_hits": {"name": "all", "size": COUNT}}), relevant=NEAR
    ),
    "knn with sort by score": Case(query(KNN, sort=["_score", {"n": "asc"}]), relevant=NEAR, vector=VECTOR),
    "knn with search_after": Case(query(KNN, sort=["_score", {"n": "asc"}], search_after=[0.4, 3])),
    "knn with from": Case({**query(KNN), "from": 5, "size": 5}, relevant=NEAR),
    "knn with explain": Case(query(KNN, explain=True), relevant=NEAR),
    "knn with profile": Case(query(KNN, profile=True), relevant=NEAR),
    "knn with rescore by text": Case(query(KNN, rescore=rescore(TEXT)), relevant=NEAR, vector=VECTOR),
    "text with rescore by knn": Case(query(TEXT, rescore=rescore(knn())), relevant=NEAR),
    "knn with indices_boost": Case(query(KNN, indices_boost=[{"INDEX": 2}]), relevant=NEAR),
    "knn with terminate_after": Case(query(KNN, terminate_after=20)),
    "knn with stored_fields none": Case(query(KNN, stored_fields="_none_"), relevant=NEAR),
    "knn with suggest": Case(query(KNN, suggest={"s": {"text": "fird", "term": {"field": "text"}}}), relevant=NEAR),
    "knn with scroll": Case({**query(KNN), "size": 7}, params=(("scroll", "1m"),), relevant=NEAR),
    "knn with dfs": Case(query(KNN), params=(("search_type", "dfs_query_then_fetch"),), relevant=NEAR),
    "radial knn by score": Case(query(radial(min_score=0.5))),
    "radial knn with a filter": Case(query(radial(max_distance=1.2, filter=TAG))),
    "radial knn beside a text": Case(query({"bool": {"should": [TEXT, radial(max_distance=0.8)]}})),
    "nested knn": Case(query(NESTED_KNN)),
    "nested knn with inner hits": Case(query({"nested": {**NESTED_KNN["nested"], "inner_hits": {}}})),
    "nested knn with expand_nested_docs": Case(
        query(
            {
                "nested": {
                    "path": "parts",
                    "query": knn("parts.vector", expand_nested_docs=True),
                    "score_mode": "max",
                    "inner_hits": {},
                }
            }
        )
    ),
    "nested knn beside a text": Case(query({"bool": {"should": [TEXT, NESTED_KNN]}})),
    "nested knn with a filter": Case(query({"bool": {"must": [NESTED_KNN], "filter": [TAG]}})),
    # scripts
    "script of l2Squared": Case(query(scripted("1 / (1 + l2Squared(params.vector, doc['vector']))"))),
    "script of cosineSimilarity": Case(query(scripted("1 + cosineSimilarity(params.vector, doc['vector'])"))),
    "knn_score of all": Case(
        query(
            {
                "script_score": {
                    "query": {"match_all": {}},
                    "script": {
                        "lang": "knn",
                        "source": "knn_score",
                        "params": {"field": "cosine", "query_value": VECTOR, "space_type": "cosinesimil"},
                    },
                }
            }
        ),
        relevant=NEAR,
        vector=VECTOR,
    ),
    "script_score around knn": Case(
        query({"script_score": {"query": knn(), "script": {"source": "_score * 2"}}}), relevant=NEAR, vector=VECTOR
    ),
    # maximal marginal relevance
    "mmr": mmr(KNN),
    "mmr with a filter": mmr(KNN_OF_TAG),
    "mmr with a name": Case(
        {**query(knn(_name="mine")), "size": 5, "ext": {"mmr": {"diversity": 0.5}}}, relevant=NEAR, since=(3, 3)
    ),
    "mmr with aggregations": mmr(KNN, aggs=TAGS),
    "mmr with _source": mmr(KNN, _source=["n"]),
    "mmr with rescore": mmr(KNN, rescore=rescore(TEXT)),
    "mmr of radial knn": Case(
        {**query(radial(max_distance=1.0)), "size": 5, "ext": {"mmr": {"diversity": 0.5}}}, since=(3, 3)
    ),
    "mmr of a text": Case({**query(TEXT), "ext": {"mmr": {"diversity": 0.5}}}, since=(3, 3)),
    "mmr of hybrid": Case({**hybrid(TEXT, KNN), "ext": {"mmr": {"diversity": 0.5}}}, since=(3, 3)),
    # hybrid
    "hybrid of one query": Case(hybrid(KNN), relevant=NEAR, vector=VECTOR),
    "hybrid of five queries": Case(hybrid(TEXT, KNN, OTHER, knn("cosine"), TOKENS), relevant=NEAR),
    "hybrid with pagination_depth": Case(
        {**query({"hybrid": {"queries": [TEXT, KNN], "pagination_depth": COUNT}}), "from": 5, "size": 10},
        relevant=NEAR,
        since=(2, 19),
    ),
    "hybrid with sort by score": Case(hybrid(TEXT, KNN, sort=["_score"]), relevant=NEAR),
    "hybrid with search_after": Case(hybrid(TEXT, KNN, sort=[{"n": "asc"}], search_after=[7])),
    "hybrid with explain": Case(hybrid(TEXT, KNN, explain=True), relevant=NEAR),
    "hybrid with profile": Case(hybrid(TEXT, KNN, profile=True), relevant=NEAR),
    "hybrid with min_score": Case(hybrid(TEXT, KNN, min_score=0.2)),
    "hybrid with rescore": Case(hybrid(TEXT, KNN, rescore=rescore(OTHER)), relevant=NEAR),
    "hybrid with a name and a boost": Case(
        query({"hybrid": {"queries": [TEXT, KNN], "_name": "mine", "boost": 1.0}}), relevant=NEAR
    ),
    "hybrid with named queries": Case(
        hybrid({"match": {"text": {"query": "fire", "_name": "mine"}}}, knn(_name="other")), relevant=NEAR
    ),
    "hybrid with track_total_hits false": Case(hybrid(TEXT, KNN, track_total_hits=False), relevant=NEAR),
    "hybrid with terminate_after": Case(hybrid(TEXT, KNN, terminate_after=15)),
    "hybrid with suggest": Case(hybrid(TEXT, KNN, suggest={"s": {"text": "fird", "term": {"field": "text"}}})),
    "hybrid with a nested knn": Case(hybrid(TEXT, NESTED_KNN), relevant=NEAR),
    "hybrid with radial knn": Case(hybrid(TEXT, radial(max_distance=0.8)), relevant=NEAR),
    "hybrid with a filtered text": Case(hybrid({"bool": {"must": [TEXT], "filter": [TAG]}}, KNN_OF_TAG)),
    "hybrid with knn in bool": Case(hybrid({"bool": {"must": [KNN], "filter": [TAG]}}, TEXT)),
    "hybrid with a text beside knn": Case(hybrid({"bool": {"should": [KNN, TEXT]}}, OTHER)),
    "hybrid with constant_score": Case(hybrid({"constant_score": {"filter": TEXT}}, KNN)),
    "hybrid with collapse and inner hits": Case(
        hybrid(TEXT, KNN, collapse={"field": "tag", "inner_hits": {"name": "all", "size": 3}}), since=(3, 2)
    ),
    "hybrid with match_none first, and knn": Case(hybrid({"match_none": {}}, KNN), relevant=NEAR),
    "hybrid with match_none last, and knn": Case(hybrid(KNN, {"match_none": {}}), relevant=NEAR),
    "hybrid of a word that is nowhere": Case(hybrid({"match": {"text": "absent"}}, KNN), relevant=NEAR),
    "hybrid of words that are nowhere": Case(hybrid({"match": {"text": "absent"}}, OTHER), relevant=NEAR),
    "hybrid of an alias": Case(hybrid(TEXT, KNN), index="INDEX-alias", since=(3, 0)),
    "hybrid with indices_boost of an alias": Case(
        hybrid(TEXT, KNN, indices_boost=[{"INDEX-alias": 3}]), index="INDEX-alias", since=(3, 0)
    ),
    "hybrid with indices_boost below 1": Case(hybrid(TEXT, KNN, indices_boost=[{"INDEX": 0.3}]), relevant=NEAR),
    "hybrid with dfs": Case(hybrid(TEXT, KNN), params=(("search_type", "dfs_query_then_fetch"),)),
    "hybrid with scroll": Case({**hybrid(TEXT, KNN), "size": 7}, params=(("scroll", "1m"),)),
    "hybrid inside hybrid": Case(hybrid({"hybrid": {"queries": [TEXT, KNN]}}, TEXT)),
    "hybrid inside dis_max": Case(query({"dis_max": {"queries": [{"hybrid": {"queries": [TEXT, KNN]}}]}})),
    "hybrid inside bool with a filter": Case(
        query({"bool": {"must": [{"hybrid": {"queries": [TEXT, KNN]}}], "filter": [TAG]}})
    ),
    "hybrid inside constant_score": Case(query({"constant_score": {"filter": {"hybrid": {"queries": [TEXT, KNN]}}}})),
    **{
        f"hybrid with highlights of type {kind}": Case(
            hybrid(TEXT, KNN, highlight={"fields": {"text": {"type": kind}}}), relevant=NEAR
        )
        for kind in ("unified", "plain")
    },
    **{
        f"highlights of type {kind} of a text beside {name}": Case(
            query(clause, highlight={"fields": {"text": {"type": kind}}, "require_field_match": False}), relevant=NEAR
        )
        for kind in ("unified", "plain")
        for name, clause in {
            "knn in must": {"bool": {"must": [KNN, TEXT]}},
            "knn in should": {"bool": {"should": [KNN, TEXT]}},
            "knn in dis_max": {"dis_max": {"queries": [KNN, TEXT]}},
            "radial knn": {"bool": {"should": [radial(max_distance=0.8), TEXT]}},
            "nested knn": {"bool": {"should": [NESTED_KNN, TEXT]}},
            "neural_sparse": {"bool": {"must": [TOKENS, TEXT]}},
        }.items()
    },
    **{f"hybrid with {name}": Case(hybrid(clause, OTHER), relevant=NEAR) for name, clause in SCORELESS.items()},
    # neural_sparse
    "neural_sparse with a boost and a name": Case(query(tokens(boost=2.0, _name="mine")), is_moved=True),
    "neural_sparse in must": Case(query({"bool": {"must": [TOKENS], "filter": [TAG]}}), is_moved=True),
    "neural_sparse in should": Case(query({"bool": {"should": [TOKENS, TEXT]}}), is_moved=True),
    "neural_sparse in a filter": Case(query({"bool": {"must": [TEXT], "filter": [TOKENS]}})),
    "neural_sparse in function_score": Case(query({"function_score": {"query": TOKENS, "weight": 2}}), is_moved=True),
    "neural_sparse with aggregations": Case(query(TOKENS, aggs=TAGS), is_moved=True),
    "neural_sparse with collapse": Case(query(TOKENS, collapse={"field": "tag"}), is_moved=True),
    "neural_sparse with min_score": Case(query(TOKENS, min_score=1.0)),
    "neural_sparse with a weight of 0": Case(query({"neural_sparse": {"tokens": {"query_tokens": {"fire": 0}}}})),
    "neural_sparse with a negative weight": Case(
        query({"neural_sparse": {"tokens": {"query_tokens": {"fire": -1, "forest": 1}}}})
    ),
    "neural_sparse of many tokens": Case(
        query({"neural_sparse": {"tokens": {"query_tokens": {"fire": 1, **{f"t{n}": 1 for n in range(900)}}}}})
    ),
    "neural_sparse of two indices": Case(query(TOKENS), index="INDEX,SPARSE", since=(3, 3)),
    "sparse_vector": Case(query(sparse()), index="SPARSE", since=(3, 3)),
    "sparse_vector with a filter": Case(
        query(sparse(filter={"range": {"n": {"lt": 20}}})), index="SPARSE", since=(3, 3)
    ),
    "sparse_vector with small k": Case(query(sparse(k=5)), index="SPARSE", since=(3, 3)),
    "sparse_vector with top_n": Case(query(sparse(top_n=1)), index="SPARSE", since=(3, 3)),
    "sparse_vector of many tokens": Case(
        query({"neural_sparse": {"sparse": {"query_tokens": {str(n): 1 + n / 10 for n in range(15)}}}}),
        index="SPARSE",
        since=(3, 3),
    ),
    "sparse_vector in bool": Case(
        query({"bool": {"must": [SPARSE], "filter": [{"range": {"n": {"lt": 20}}}]}}), index="SPARSE", since=(3, 3)
    ),
    "sparse_vector with aggregations": Case(
        query(SPARSE, aggs={"n": {"stats": {"field": "n"}}}), index="SPARSE", since=(3, 3)
    ),
    "sparse_vector of a text in hybrid": Case(
        hybrid(TEXT, {"neural_sparse": {"sparse": {"query_text": "fire forest", "analyzer": "bert-uncased"}}}),
        index="SPARSE",
        since=(3, 3),
    ),
}


@pytest.fixture(scope="module")
def sent(indices: Indices, three_ways: ThreeWays, version: tuple[int, int]) -> Callable[[str], Any]:
    """A function that returns the search of a case, unless the cluster is too old for it."""

    def search_of(name: str) -> Any:
        if version < CASES[name].since:
            pytest.skip(f"OpenSearch {version[0]}.{version[1]} does not have it")
        return indices.search(CASES[name])

    return search_of


@pytest.mark.parametrize("name", CASES)
def test_a_session_changes_only_scores(
    name: str, sent: Callable[[str], Any], three_ways: ThreeWays, known_differences: KnownDifferences
) -> None:
    search = f"vectors: {name}"
    differences = three_ways.compare(sent(name))
    known_differences.check([search], [(search, way, difference) for way, difference in differences])


@pytest.mark.parametrize("name", CASES)
def test_no_option_makes_a_search_fail(
    name: str, sent: Callable[[str], Any], three_ways: ThreeWays, opensearch_client: OpenSearchClient
) -> None:
    search = sent(name)
    plain = three_ways.send(search)
    failures = {}
    for option, values in OPTIONS.items():
        body, outcome = three_ways.rewritten(search, plain, **values)
        answer = three_ways.send(search, body)
        if (answer.is_success, answer.failed_shards) != (plain.is_success, plain.failed_shards):
            failures[option] = f"{outcome}: plain {plain.status}, rewritten {answer.body}, {json.dumps(body)[:2000]}"
    assert not failures
