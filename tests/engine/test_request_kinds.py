"""What becomes of each kind of search request on a real node: through the index's pipeline, and through ``/v1/search``,
also where one is the default of the index.

The table of docs/rewriting.md says it, and is held to here. Every answer is compared with the plain one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opensearchpy import TransportError
from request_kinds import ASKED, BODIES, KINDS, QUERIES, TEXT, Body, default_pipeline, pages, search_body, served
from rewritten_node import COUNT, SESSION, Node

from resift.plugin.opensearch.engine import OpenSearchEngine

TABLE = Path(__file__).parents[2] / "docs" / "rewriting.md"
_SECTION = TABLE.read_text("utf-8").partition("## Kinds of requests")[2].partition("\n## ")[0]
_ROW = re.compile(r"^\| (?P<pipeline>[^|`]*) \| (?P<served>[^|`]*) \| (?P<kinds>`[^|]*`) \|$", re.MULTILINE)
ROWS = {
    kind: (row["pipeline"], row["served"])
    for row in _ROW.finditer(_SECTION)
    for kind in re.findall("`([^`]+)`", row["kinds"])
}


class Expected:
    """The scores of all documents by the definition: (their own + the words') · the similarity's factor.

    What the session adds does not depend on the kind of request, so each part is asked for by itself.
    """

    def __init__(self, node: Node, body: Body, **params: Any) -> None:
        stages = node.post("/v1/rewrite", body=body)["body"]["rescore"]
        *words, similarity = (stage["query"]["rescore_query"] for stage in stages)
        self.words = _scores(node, words[0], params) if words else {}
        self.factors = _scores(node, similarity, params)
        assert len(self.factors) >= COUNT

    def score(self, hit: Body, words_only: bool = False) -> float:
        """What a hit of the plain search has to score."""
        key = hit["_index"], hit["_id"]
        own: float = hit["_score"] + self.words.get(key, 0.0)
        return own if words_only else own * self.factors[key]


def _scores(node: Node, query: Body, params: Body) -> dict[tuple[str, str], float]:
    body = {"query": query, "size": 2 * COUNT, "_source": False}
    hits = node.plain(body, **{"index": f"{node.index},{node.other}", **params})["hits"]["hits"]
    return {(hit["_index"], hit["_id"]): hit["_score"] for hit in hits}


@pytest.fixture(scope="module")
def expectations(rewritten_node: Node) -> dict[str, Expected]:
    """The scores that hits of a kind have to have, under "" those of all the others."""
    dfs = Expected(rewritten_node, search_body({}), index=rewritten_node.index, search_type="dfs_query_then_fetch")
    # its URL says nothing of a session
    uri = Expected(rewritten_node, {"query": {"query_string": {"query": "text:fire"}}})
    return {"": Expected(rewritten_node, search_body({})), "dfs_query_then_fetch": dfs, "URI search": uri}


def asked_of(kinds: Iterable[str]) -> list[Any]:
    """Kinds of requests as parameters; one of them is younger than the oldest OpenSearch that does."""
    young = pytest.mark.since(3, "it has no combined_fields")
    return [pytest.param(kind, marks=young) if kind == "combined_fields" else kind for kind in kinds]


def test_the_table_names_every_kind() -> None:
    assert set(ROWS) == set(KINDS)


@pytest.mark.parametrize("kind", asked_of(KINDS))
def test_through_the_pipeline(rewritten_node: Node, expectations: dict[str, Expected], kind: str) -> None:
    node, outcome = rewritten_node, ROWS[kind][0]
    plain, failed = KINDS[kind].ask(node, "_none"), node.failed()
    node.rewritten.clear()
    answer = KINDS[kind].ask(node, node.pipeline)
    assert node.failed() == failed
    for rewritten in node.rewritten:
        reason = rewritten["resift"].get("reason", "")
        assert rewritten["resift"]["rewritten"] == (not outcome.startswith("left alone") or kind == "scroll")
        assert reason in outcome
    assert node.rewritten
    compare(plain, answer, outcome, expectations.get(kind) or expectations[""])


@pytest.mark.parametrize("kind", asked_of([kind for kind, one in KINDS.items() if one.served is not None]))
def test_through_the_service(rewritten_node: Node, expectations: dict[str, Expected], kind: str) -> None:
    node, outcome, ask = rewritten_node, ROWS[kind][1], KINDS[kind].served
    assert ask is not None
    plain, answer = KINDS[kind].ask(node, "_none"), ask(node)
    described = answer.pop("resift")
    assert described["reranked"] == (outcome in ("rescored", "in place"))
    assert described.get("reason", "") in outcome
    compare(plain, answer, outcome, expectations.get(kind) or expectations[""])


def compare(plain: Body, answer: Body, outcome: str, expected: Expected) -> None:
    """Assert that an answer is the plain one but for its order, which ``outcome`` names."""
    assert _all_but_hits(answer) == _all_but_hits(plain)
    before, after = plain["hits"]["hits"], answer["hits"]["hits"]
    if outcome.startswith("left alone"):
        assert [(_key(hit), hit["_score"]) for hit in after] == [(_key(hit), hit["_score"]) for hit in before]
    if "'collapse'" in outcome or outcome == "in place":
        return  # of each group another hit may be the best, and other documents the nearest
    assert sorted(map(_content, after)) == sorted(map(_content, before))
    if outcome == "rescored" and before and "_id" in before[0]:
        wanted = {_key(hit): expected.score(hit) for hit in before}
        scores = [wanted[_key(hit)] for hit in after]
        np.testing.assert_allclose([hit["_score"] for hit in after], scores, rtol=1e-4)
        assert scores == sorted(scores, reverse=True) or np.all(np.diff(scores) <= 1e-4 * np.array(scores[1:]))


@pytest.mark.parametrize("kind", ["collapse", "collapse with inner_hits"])
def test_groups_are_ordered_by_their_best_hits_with_the_sessions_words(
    rewritten_node: Node, expectations: dict[str, Expected], kind: str
) -> None:
    node, expected, served_by = rewritten_node, expectations[""], KINDS[kind].served
    best: dict[str, float] = {}
    for hit in node.plain(search_body({}))["hits"]["hits"]:
        tag = hit["_source"]["tag"]
        best[tag] = max(best.get(tag, 0.0), expected.score(hit, words_only=True))
    wanted = sorted(best.items(), key=lambda item: -item[1])
    assert served_by is not None
    for answer in (KINDS[kind].ask(node, node.pipeline), served_by(node)):
        hits = answer["hits"]["hits"]
        assert [hit["_source"]["tag"] for hit in hits] == [tag for tag, _ in wanted]
        np.testing.assert_allclose([hit["_score"] for hit in hits], [score for _, score in wanted], rtol=1e-4)


@pytest.mark.since(3, "what older ones do at such a page is not known")
def test_a_scroll_of_one_shard_goes_on_if_it_is_sorted_or_stated_or_names_no_pipeline(rewritten_node: Node) -> None:
    node = rewritten_node

    def pages_of(body: Body, pipeline: str) -> int:
        answer = node.search(search_body({"size": 2, **body}), pipeline, scroll="1m", preference="_shards:0")
        place, found = {"scroll_id": answer["_scroll_id"], "scroll": "1m"}, len(answer["hits"]["hits"])
        try:
            while page := node.client.scroll(body=place)["hits"]["hits"]:
                found += len(page)
        finally:
            node.client.clear_scroll(body={"scroll_id": [place["scroll_id"]]}, params={"ignore": 404})
        return found

    count = pages_of({}, "_none")
    assert count > 4
    for sort in (["_doc"], [{"tag": "desc"}]):
        assert pages_of({"sort": sort}, node.pipeline) == count
    stated = {"ml_inference": {**ASKED["ml_inference"], "scroll": True}}
    assert pages_of({"ext": stated}, node.pipeline) == count
    # once OpenSearch goes on with it the pages that warn of this have to change
    with pytest.raises(TransportError, match="rescoreDocIds"):
        pages_of({}, node.pipeline)


PAGED = ["match", "multi_match", "function_score", "knn", "collapse", "rescore of the caller's"]


@pytest.mark.parametrize("name", PAGED)
@pytest.mark.parametrize("widen", [False, True])
def test_pages_beyond_the_window_neither_lose_nor_repeat_a_hit(rewritten_node: Node, name: str, widen: bool) -> None:
    node, asked = rewritten_node, {**ASKED["ml_inference"], "window": 5, "widen": widen}
    body = search_body(
        {**({"query": QUERIES[name]} if name in QUERIES else BODIES[name]), "ext": {"ml_inference": asked}}
    )
    plain = {_key(hit) for hit in node.plain(body)["hits"]["hits"]}
    through = pages(node.search, body)["hits"]["hits"]
    of_service = pages(lambda page: served(node, page), body)["hits"]["hits"]
    assert [_key(hit) for hit in through] == [_key(hit) for hit in of_service]
    found = [_key(hit) for hit in through]
    assert len(found) == len(set(found))
    if name == "collapse":
        assert len(found) == len(plain)
    else:
        assert plain <= set(found) if widen else plain == set(found)


def test_an_index_with_our_pipeline_as_its_default_is_rewritten_once(rewritten_node: Node) -> None:
    node = rewritten_node
    plain = [hit["_id"] for hit in node.plain({"query": TEXT, "size": COUNT})["hits"]["hits"]]
    for options in ({}, {"alpha": 0}, {"alpha": 0.9, "session": SESSION}):
        asked = {"query": {"query": TEXT}, "size": COUNT, **options}
        answer = node.post("/v1/search", **asked)
        with default_pipeline(node, node.pipeline):
            by_default = node.post("/v1/search", **asked)
        ranked = [(hit["_id"], hit["_score"]) for hit in answer["hits"]["hits"]]
        assert [(hit["_id"], hit["_score"]) for hit in by_default["hits"]["hits"]] == ranked
        found = [id for id, _ in ranked]
        assert found == plain if options.get("alpha") == 0 else {*found} <= {*plain}


@pytest.fixture
def forgetful(cluster: OpenSearchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an index has as its default is asked for at each search."""
    monkeypatch.setattr(cluster._only_rewrites, "seconds", 0.0)


@pytest.mark.usefixtures("forgetful")
def test_rewritten_searches_bypass_the_default_pipeline(rewritten_node: Node) -> None:
    node = rewritten_node
    with default_pipeline(node, node.pipeline):
        asked = len(node.rewritten)
        served = node.post("/v1/search", query=TEXT, size=5)
        node.post("/v1/search", query=TEXT, size=5, session=SESSION, reasons=True)
        assert len(node.rewritten) == asked
        by_default = node.client.search(index=node.index, body={"query": TEXT, "size": 5})
        assert len(node.rewritten) == asked + 1
    found = [[hit["_id"] for hit in answer["hits"]["hits"]] for answer in (served, by_default)]
    assert found[0] == found[1]


@pytest.mark.usefixtures("forgetful")
def test_a_users_default_pipeline_is_preserved(rewritten_node: Node) -> None:
    node, name = rewritten_node, f"{rewritten_node.index}-own"
    path, only = f"/_search/pipeline/{name}", {"filter_query": {"query": {"term": {"tag": "t1"}}}}
    node.client.transport.perform_request("PUT", path, body={"request_processors": [only]})
    try:
        with default_pipeline(node, name):
            hits = node.post("/v1/search", query=TEXT, size=50)["hits"]["hits"]
    finally:
        node.client.transport.perform_request("DELETE", path)
    assert {hit["_source"]["tag"] for hit in hits} == {"t1"}


def _all_but_hits(answer: Body) -> Body:
    """Total, aggregations, suggestions and so on; of a profile, that there is one."""
    left_out = ("took", "hits", "profile", "pit_id", "_scroll_id")
    rest = {name: value for name, value in answer.items() if name not in left_out}
    return {**rest, "total": answer["hits"].get("total"), "profiled": "profile" in answer}


def _key(hit: Body) -> Any:
    return hit.get("_index"), hit.get("_id")


def _content(hit: Body) -> str:
    """A hit without what its place and its score say; the service leaves vectors out."""
    left_out = ("_score", "_explanation", "matched_queries", "resift", "sort")  # of which a score may be a part
    kept = {name: value for name, value in hit.items() if name not in left_out}
    kept["matched_queries"] = sorted({*hit.get("matched_queries", ())} - {"resift"})
    if "_source" in kept:
        kept["_source"] = {name: value for name, value in kept["_source"].items() if name != "resift_vector"}
    return json.dumps(kept, sort_keys=True)
