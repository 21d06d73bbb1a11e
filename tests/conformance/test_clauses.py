"""Searches of OpenSearch's plugins and other searches that the REST tests lack, sent the same three ways."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from answers import Answer
from known_differences import KnownDifferences
from three_ways import OpenSearchClient, Search, ThreeWays

Body = dict[str, Any]

pytestmark = pytest.mark.filterwarnings("ignore::opensearchpy.exceptions.OpenSearchWarning")

COUNT = 40
ATTRIBUTES = 60
# Documents of a topic have its words, and vectors near the topic's own axis. A session moves a query vector only if the
# marked documents are much nearer to it than most documents are.
TOPICS = [
    "fire bush forest smoke flame",
    "army gun soldier war peace",
    "river rain water valley lake",
    "sale shop price market coin",
    "song choir piano violin drum",
    "goal team match player coach",
    "court judge lawyer trial crime",
    "bread salt soup kitchen oven",
]
DIMENSION = len(TOPICS)
VECTOR = [1.0, 0.25, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
NEAR = ("0", "8", "16")  # documents of the first topic
MANY = ("0", "1", "2", "3", "4")  # documents of several topics, from which a session learns many words
FACTORIES = "cluster.search.enabled_system_generated_factories"
TEXT: Body = {"match": {"text": "fire forest"}}
# k is the number of documents, so that a moved vector finds the same documents
KNN: Body = {"knn": {"vector": {"vector": VECTOR, "k": COUNT}}}
FILTERED_KNN: Body = {"knn": {"vector": {"vector": VECTOR, "k": COUNT, "filter": TEXT}}}
KNN_OF_TAG: Body = {"knn": {"vector": {"vector": VECTOR, "k": COUNT, "filter": {"term": {"tag": "t1"}}}}}
RADIAL_KNN: Body = {"knn": {"vector": {"vector": VECTOR, "max_distance": 0.8}}}
AGENTIC: Body = {"agentic": {"query_text": "fire in the forest"}}
UNKNOWN: Body = {"clause_of_a_plugin": {"text": {"query": "fire"}}}
TOKENS: Body = {"neural_sparse": {"tokens": {"query_tokens": {"fire": 1.5, "forest": 0.5}}}}
TOKENS_OF_TEXT: Body = {"neural_sparse": {"tokens": {"query_text": "fire forest", "analyzer": "bert-uncased"}}}
SPARSE: Body = {"neural_sparse": {"sparse": {"query_tokens": {"1": 1.5, "2": 0.5}, "method_parameters": {"k": COUNT}}}}
SPARSE_OF_TEXT: Body = {"neural_sparse": {"sparse": {"query_text": "fire forest", "analyzer": "bert-uncased"}}}
ATTRIBUTES_OF_TEXT: Body = {"multi_match": {"query": "fire forest", "fields": ["attr_*"]}}
ALL_FIELDS: Body = {"multi_match": {"query": "fire forest", "fields": ["*"], "lenient": True}}
PARTS: Body = {"match": {"parts.text": "fire forest"}}
RANGE: Body = {"range": {"day": {"lt": "2025-01-12"}}}
PLAIN_HIGHLIGHT: Body = {"fields": {"text": {"type": "plain"}}}
NONE: Body = {"match_none": {}}


@dataclass(frozen=True)
class Case:
    """A search of the index that has vectors, if nothing else is named.

    Attributes:
        body: The search body.
        index: The searched index: INDEX stands for the index with vectors and SPARSE for the one with sparse vectors.
        params: Query parameters of the URL.
        marked_query: The query for which documents are marked, or "" for the text of the search itself.
        relevant: Ids of the documents that are marked, or () for some of the search's own hits.
        is_moved: Whether a session must change the body.
        vector: A query vector that a session must move, or ().
        fixed: The path of a part of the body that a session must leave as and where it is, or ().
        since: The oldest version, major and minor, that has what is searched.
    """

    body: Body
    index: str = "INDEX"
    params: tuple[tuple[str, Any], ...] = ()
    marked_query: str = ""
    relevant: Sequence[str] = ()
    is_moved: bool = False
    vector: Sequence[float] = ()
    fixed: tuple[str | int, ...] = ()
    since: tuple[int, int] = (2, 0)


def query(clause: Body, **parts: Any) -> Body:
    """Return a body whose page has all documents."""
    return {"query": clause, "size": COUNT, **parts}


def hybrid(*clauses: Body, **parts: Any) -> Body:
    """Return a body of a hybrid query."""
    return query({"hybrid": {"queries": list(clauses)}}, **parts)


def terms(count: int) -> list[Body]:
    """Return ``term`` clauses of different words."""
    return [{"term": {"text": f"word{number}"}} for number in range(count - 1)] + [{"term": {"text": "fire"}}]


MISSING = (("ignore_unavailable", True),)
CASES: dict[str, Case] = {
    "knn": Case(query(KNN), relevant=NEAR, vector=VECTOR),
    "knn, marked for a text": Case(query(KNN), marked_query="soldiers at war", relevant=NEAR, vector=VECTOR),
    "knn with a text filter": Case(query(FILTERED_KNN), relevant=NEAR, vector=VECTOR),
    "knn with a text filter, marked for a text": Case(
        query(FILTERED_KNN), marked_query="soldiers at war", relevant=NEAR, vector=VECTOR
    ),
    "knn with a term filter": Case(query(KNN_OF_TAG), relevant=NEAR, vector=VECTOR),
    "radial knn": Case(query(RADIAL_KNN)),
    "knn in bool": Case(query({"bool": {"must": [TEXT], "should": [KNN]}}), relevant=NEAR, vector=VECTOR),
    "knn in function_score": Case(query({"function_score": {"query": KNN, "weight": 2}})),
    "knn with min_score": Case(query(KNN, min_score=0.4)),
    "knn with aggregations": Case(query(KNN, aggs={"tags": {"terms": {"field": "tag"}}})),
    "knn_score script": Case(
        query(
            {
                "script_score": {
                    "query": TEXT,
                    "script": {
                        "lang": "knn",
                        "source": "knn_score",
                        "params": {"field": "vector", "query_value": VECTOR, "space_type": "l2"},
                    },
                }
            }
        ),
        relevant=NEAR,
        vector=VECTOR,
    ),
    "mmr around knn": Case(
        {**query(KNN), "size": 5, "ext": {"mmr": {"diversity": 0.5, "candidates": 10}}}, since=(3, 3)
    ),
    "hybrid": Case(hybrid(TEXT, KNN), relevant=NEAR, vector=VECTOR),
    "hybrid with a filtered knn": Case(hybrid(TEXT, FILTERED_KNN), relevant=NEAR, vector=VECTOR),
    "hybrid with a filter": Case(
        query({"hybrid": {"queries": [TEXT, KNN], "filter": {"term": {"tag": "t1"}}}}), since=(3, 0)
    ),
    "hybrid with indices_boost": Case(hybrid(TEXT, KNN, indices_boost=[{"INDEX": 2}])),
    "hybrid of two indices with indices_boost": Case(
        hybrid(TEXT, {"match": {"title": "fire"}}, indices_boost=[{"INDEX": 2}, {"SPARSE": 0.5}]),
        index="INDEX,SPARSE",
        since=(3, 3),
    ),
    "hybrid with match_none": Case(hybrid(TEXT, NONE)),
    "hybrid that begins with match_none": Case(hybrid(NONE, TEXT)),
    "hybrid of match_none alone": Case(hybrid(NONE, NONE)),
    "hybrid with match_all": Case(hybrid(TEXT, {"match_all": {}})),
    "hybrid with sort": Case(hybrid(TEXT, KNN, sort=[{"n": "asc"}])),
    "hybrid with aggregations and post_filter": Case(
        hybrid(TEXT, KNN, aggs={"tags": {"terms": {"field": "tag"}}}, post_filter={"term": {"tag": "t1"}})
    ),
    "hybrid with highlight": Case(hybrid(TEXT, KNN, highlight={"fields": {"text": {}}})),
    "hybrid with collapse": Case(hybrid(TEXT, KNN, collapse={"field": "tag"}), since=(3, 1)),
    "hybrid with inner hits": Case(
        hybrid(TEXT, {"nested": {"path": "parts", "query": PARTS, "inner_hits": {}}}),
        since=(3, 0),
    ),
    "hybrid with nested of score_mode none": Case(
        hybrid({"match": {"text": "bread"}}, {"nested": {"path": "parts", "query": PARTS, "score_mode": "none"}}),
        relevant=NEAR,
    ),
    "highlight of a range": Case(query(RANGE, highlight=PLAIN_HIGHLIGHT)),
    "highlight of a text beside a range": Case(
        query({"bool": {"must": [TEXT], "filter": [RANGE]}}, highlight=PLAIN_HIGHLIGHT), is_moved=True
    ),
    "highlight of a text beside knn": Case(query({"bool": {"must": [KNN, TEXT]}}, highlight=PLAIN_HIGHLIGHT)),
    "hybrid inside bool": Case(query({"bool": {"must": [{"hybrid": {"queries": [TEXT, KNN]}}]}})),
    "hybrid inside function_score": Case(query({"function_score": {"query": {"hybrid": {"queries": [TEXT, KNN]}}}})),
    "hybrid of wildcard fields": Case(hybrid(ATTRIBUTES_OF_TEXT, KNN), relevant=MANY, is_moved=True),
    "hybrid of all fields": Case(hybrid(ALL_FIELDS, KNN), relevant=MANY),
    "multi_match of wildcard fields": Case(query(ATTRIBUTES_OF_TEXT), relevant=MANY, is_moved=True),
    "multi_match of all fields": Case(query(ALL_FIELDS), relevant=MANY),
    "query_string of all fields": Case(
        query({"query_string": {"query": "fire forest", "lenient": True}}), relevant=MANY
    ),
    "simple_query_string of all fields": Case(query({"simple_query_string": {"query": "fire forest"}}), relevant=MANY),
    "neural_sparse of tokens": Case(query(TOKENS), is_moved=True),
    "neural_sparse of a text": Case(query(TOKENS_OF_TEXT), since=(3, 0)),
    "hybrid with neural_sparse": Case(hybrid(TEXT, TOKENS), is_moved=True),
    "neural_sparse of tokens, sparse_vector": Case(query(SPARSE), index="SPARSE", since=(3, 3)),
    "neural_sparse of a text, sparse_vector": Case(query(SPARSE_OF_TEXT), index="SPARSE", since=(3, 3)),
    "hybrid with neural_sparse, sparse_vector": Case(hybrid(TEXT, SPARSE), index="SPARSE", since=(3, 3)),
    "bool of 1,020 terms": Case(query({"bool": {"should": terms(1020)}})),
    "bool of 1,020 terms in a filter": Case(
        query({"bool": {"must": [TEXT], "filter": [{"bool": {"should": terms(1020)}}]}})
    ),
    "hybrid with a bool of 1,020 terms": Case(hybrid({"bool": {"should": terms(1020)}}, KNN)),
    "terms of 5,000 values": Case(query({"bool": {"must": [TEXT], "filter": [{"terms": {"n": list(range(5000))}}]}})),
    "match of 1,000 words": Case(query({"match": {"text": " ".join(f"fire word{number}" for number in range(500))}})),
    "agentic": Case(query(AGENTIC), fixed=("query",)),
    "agentic in bool": Case(
        query({"bool": {"must": [TEXT], "should": [AGENTIC]}}), fixed=("query", "bool", "should", 0)
    ),
    "agentic in hybrid": Case(hybrid(TEXT, AGENTIC), fixed=("query", "hybrid", "queries", 1)),
    "unknown clause": Case(query(UNKNOWN), fixed=("query",)),
    "unknown clause in bool": Case(
        query({"bool": {"must": [TEXT], "should": [UNKNOWN]}}), fixed=("query", "bool", "should", 0)
    ),
    "unknown clause in hybrid": Case(hybrid(TEXT, UNKNOWN), fixed=("query", "hybrid", "queries", 1)),
    "missing index": Case(query(TEXT), index="INDEX,missing-INDEX", params=MISSING),
    "missing index alone": Case(query(TEXT), index="missing-INDEX", params=MISSING),
    "pattern without an index": Case(query(TEXT), index="missing-INDEX*"),
    "pattern without an index, beside an index": Case(query(TEXT), index="INDEX,missing-INDEX*"),
    "filtered alias": Case(query(TEXT), index="INDEX-alias"),
}


def _words(number: int, random: np.random.Generator) -> list[str]:
    """Return the words of a document: most are of its topic, and two are of any."""
    words = random.choice(TOPICS[number % len(TOPICS)].split(), 6).tolist()
    return words + random.choice(" ".join(TOPICS).split(), 2).tolist()


def document(number: int, random: np.random.Generator) -> Body:
    """Return a document of the index with vectors."""
    words = _words(number, random)
    attributes = {f"attr_{at:02}": " ".join(random.choice(words, 2)) for at in range(ATTRIBUTES)}
    vector = 0.1 * random.normal(size=DIMENSION) + np.eye(DIMENSION)[number % len(TOPICS)]
    return {
        "title": " ".join(words[:2]),
        "text": " ".join(words[2:]),
        "tag": f"t{number % 3}",
        "n": number,
        "day": f"2025-01-{number % 28 + 1:02}",
        "parts": [{"text": word, "vector": vector.tolist()} for word in words[:2]],
        "vector": vector.tolist(),
        "cosine": vector.tolist(),
        "bytes": np.rint(50 * vector).astype(int).tolist(),
        "tokens": {word: float(weight) for word, weight in zip(words, random.uniform(0.1, 3, 8), strict=True)},
        **attributes,
    }


def sparse_document(number: int, random: np.random.Generator) -> Body:
    """Return a document of the index with sparse vectors, whose tokens are numbers."""
    words = _words(number, random)
    tokens = {str(token): float(random.uniform(0.1, 3)) for token in random.choice(20, 6, replace=False)}
    return {"title": " ".join(words[:2]), "text": " ".join(words[2:]), "n": number, "sparse": tokens}


def vectors(space: str, **options: Any) -> Body:
    """Return the mapping of a field with vectors and an HNSW index."""
    method = {"name": "hnsw", "engine": "lucene", "space_type": space}
    return {"type": "knn_vector", "dimension": DIMENSION, "method": method, **options}


MAPPING: Body = {
    "title": {"type": "text"},
    "text": {"type": "text"},
    "tag": {"type": "keyword"},
    "n": {"type": "integer"},
    "day": {"type": "date"},
    "parts": {"type": "nested", "properties": {"text": {"type": "text"}, "vector": vectors("l2")}},
    "vector": vectors("l2"),
    "cosine": vectors("cosinesimil"),
    "bytes": vectors("l2", data_type="byte"),
    "tokens": {"type": "rank_features"},
    **{f"attr_{at:02}": {"type": "text"} for at in range(ATTRIBUTES)},
}
SPARSE_MAPPING: Body = {
    "title": {"type": "text"},
    "text": {"type": "text"},
    "n": {"type": "integer"},
    "sparse": {"type": "sparse_vector", "method": {"name": "seismic", "parameters": {"approximate_threshold": 1}}},
}


@dataclass(frozen=True)
class Indices:
    """The indices that the cases search, and a search pipeline that normalises the scores of ``hybrid``."""

    index: str
    sparse: str
    pipeline: str

    def search(self, case: Case) -> Search:
        """Return the search of a case."""
        body = {**case.body}
        if "indices_boost" in body:
            body["indices_boost"] = [
                {self._name(name): boost for name, boost in entry.items()} for entry in body["indices_boost"]
            ]
        params = {**dict(case.params), "search_pipeline": self.pipeline if "hybrid" in str(body) else "_none"}
        return Search(
            self._name(case.index),
            body,
            params,
            marked_query=case.marked_query,
            relevant=case.relevant,
            is_moved=case.is_moved,
            vector=case.vector,
            fixed=case.fixed,
        )

    def _name(self, expression: str) -> str:
        return expression.replace("INDEX", self.index).replace("SPARSE", self.sparse)


@pytest.fixture(scope="module")
def version(opensearch_version: str) -> tuple[int, int]:
    """The major and the minor version of the cluster."""
    major, minor, *_ = opensearch_version.split(".")
    return int(major), int(minor)


@pytest.fixture(scope="module")
def indices(opensearch_client: OpenSearchClient, version: tuple[int, int]) -> Iterator[Indices]:
    """The filled indices, in a cluster whose MMR processors are enabled."""
    name = f"resift-test-{uuid.uuid4().hex[:12]}"
    indices = Indices(name, f"{name}-sparse", f"{name}-pipeline")

    def request(method: str, path: str, body: Any = None, **params: Any) -> Answer:
        answer = opensearch_client.request(method, path, body, **params)
        assert answer.status == 200, answer.body
        return answer

    def fill(index: str, documents: Callable[[int, np.random.Generator], Body]) -> None:
        random = np.random.default_rng(5)
        lines = [line for at in range(COUNT) for line in ({"index": {"_id": str(at)}}, documents(at, random))]
        assert not request("POST", f"{index}/_bulk", lines, refresh=True).body["errors"]

    normalisation = {"normalization-processor": {}}
    request("PUT", f"_search/pipeline/{indices.pipeline}", {"phase_results_processors": [normalisation]})
    settings = {"index.knn": True, "number_of_shards": 2, "number_of_replicas": 0}
    aliases = {f"{name}-alias": {"filter": {"term": {"tag": "t1"}}}}
    request("PUT", name, {"settings": settings, "mappings": {"properties": MAPPING}, "aliases": aliases})
    fill(name, document)
    if version >= (3, 3):
        settings = {"index.sparse": True, "number_of_shards": 1, "number_of_replicas": 0}
        request("PUT", indices.sparse, {"settings": settings, "mappings": {"properties": SPARSE_MAPPING}})
        fill(indices.sparse, sparse_document)
        factories = ["mmr_over_sample_factory", "mmr_rerank_factory"]
        request("PUT", "_cluster/settings", {"persistent": {FACTORIES: factories}})
    yield indices
    if version >= (3, 3):
        request("PUT", "_cluster/settings", {"persistent": {FACTORIES: None}})
    request("DELETE", f"{name}*")
    request("DELETE", f"_search/pipeline/{indices.pipeline}")


@pytest.mark.parametrize("name", CASES)
def test_a_session_changes_only_scores(
    name: str,
    indices: Indices,
    version: tuple[int, int],
    three_ways: ThreeWays,
    known_differences: KnownDifferences,
) -> None:
    case = CASES[name]
    if version < case.since:
        pytest.skip(f"OpenSearch {version[0]}.{version[1]} does not have it")
    search = f"clauses: {name}"
    differences = three_ways.compare(indices.search(case))
    known_differences.check([search], [(search, way, difference) for way, difference in differences])
