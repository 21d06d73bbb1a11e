"""Sessions inside knn, hybrid and collapsed requests: the embedded engine ranks as OpenSearch does, marks included."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from differential import SENTENCES

import resift
from resift import Model
from resift.query.dsl import VECTOR_FIELD
from resift.service.connect import open_engine

pytestmark = pytest.mark.since(3, "scores of words are 2.2 times as high")
_TEXTS = [
    "fire in the bush with smoke",
    "fire in the forest with flame",
    "fire of tree and forest and smoke and bush",
    "fire of the army with a gun",
    "fire of a soldier in the war",
    "rain water in the river",
    "flame and smoke over the river",
    "the army left, ceasefire and peace",
]
DOCUMENTS = [
    {"_id": f"d{number}", "text": text, "place": f"p{number % 3}"}
    for number, text in enumerate([*_TEXTS, *SENTENCES[:40]])
]
MATCH = {"match": {"text": "fire"}}
RRF = {"score-ranker-processor": {"combination": {"technique": "rrf"}}}


def requests(vector: list[float]) -> dict[str, dict[str, Any]]:
    near = {"knn": {VECTOR_FIELD: {"vector": vector, "k": 8}}}
    hybrid = {"hybrid": {"queries": [MATCH, near], "pagination_depth": 20}}
    min_max, rrf = ({"phase_results_processors": [one]} for one in ({"normalization-processor": {}}, RRF))
    return {
        "knn": {"query": near},
        "min-max": {"query": hybrid, "search_pipeline": min_max, "highlight": {"fields": {"text": {}}}},
        "rrf": {"query": hybrid, "search_pipeline": rrf},
        "filter": {"query": {"bool": {"must": [near], "filter": [{"term": {"place": "p1"}}]}}},
        "collapsed": {"query": MATCH, "collapse": {"field": "place"}},
        "collapsed hybrid": {"query": hybrid, "search_pipeline": min_max, "collapse": {"field": "place"}},
    }


@pytest.mark.parametrize("judged", ["keep", "hide"])
@pytest.mark.parametrize("kind", ["knn", "min-max", "rrf", "filter", "collapsed", "collapsed hybrid"])
def test_marks_move_a_request_on_both_engines_alike(
    kind: str, judged: Any, opensearch_url: str, tmp_path: Path, model: Model
) -> None:
    index, body = f"resift-test-{uuid.uuid4().hex[:12]}", requests(model.encode_one("fire").tolist())[kind]
    found = []
    for place in (str(tmp_path / "engine.db"), opensearch_url):
        with resift.open(place, model, sessions=str(tmp_path / f"sessions-{len(found)}.db")) as library:
            documents = library.index(index, fields=["text"])
            documents.add(DOCUMENTS)
            session = documents.session("anna")
            before = session.search(body)
            session.mark(relevant=["d1"], irrelevant=["d4"], query="fire")
            after = session.search(body, judged=judged)
            found.append([[(hit.id, hit.score, hit.get("highlight")) for hit in hits] for hits in (before, after)])
        open_engine(place).drop(index)
    embedded, cluster = found
    assert embedded[0] != embedded[1]
    for ours, theirs in zip(embedded, cluster, strict=True):
        assert {hit[0]: hit[1] for hit in ours} == pytest.approx({hit[0]: hit[1] for hit in theirs}, rel=1e-4, abs=1e-5)
        assert {hit[0]: hit[2] for hit in ours} == {hit[0]: hit[2] for hit in theirs}
