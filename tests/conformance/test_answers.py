"""The comparison of two answers, and the list of known differences."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from answers import Answer, Difference, differences, exact_differences
from known_differences import KnownDifferences

PLAIN: dict[str, Any] = {
    "took": 3,
    "timed_out": False,
    "_shards": {"total": 2, "successful": 2, "skipped": 0, "failed": 0},
    "hits": {
        "total": {"value": 2, "relation": "eq"},
        "max_score": 2.0,
        "hits": [
            {"_index": "i", "_id": "1", "_score": 2.0, "_source": {"a": 1}, "highlight": {"a": ["<em>x</em>"]}},
            {"_index": "i", "_id": "2", "_score": 1.0, "_source": {"a": 2}, "matched_queries": ["mine"]},
        ],
    },
    "aggregations": {
        "best": {
            "hits": {
                "total": {"value": 1, "relation": "eq"},
                "max_score": 2.0,
                "hits": [{"_index": "i", "_id": "1", "_score": 2.0, "_source": {"a": 1}}],
            }
        },
        "tags": {"buckets": [{"key": "x", "doc_count": 2}]},
    },
    "suggest": {"s": [{"text": "x", "options": []}]},
}


def changed(**parts: Any) -> Answer:
    """Return the plain answer with other values: path with double underscores → value."""
    body = copy.deepcopy(PLAIN)
    for path, value in parts.items():
        *steps, last = (int(step) if step.isdigit() else step for step in path.split("__"))
        inner: Any = body
        for step in steps:
            inner = inner[step]
        inner[last] = value
    return Answer(200, body)


def in_session(answer: Answer) -> list[str]:
    """Return what differs from the plain answer in a session."""
    return [difference.comparison for difference in differences(Answer(200, PLAIN), answer, {})]


def test_scores_and_their_order_may_change() -> None:
    answer = changed(
        took=9,
        hits__max_score=7.0,
        hits__hits__0___score=5.0,
        hits__hits__1__matched_queries=["mine", "resift"],
        aggregations__best__hits__hits__0___score=9.0,
        aggregations__best__hits__max_score=9.0,
    )
    answer.hits.reverse()
    assert in_session(answer) == []


@pytest.mark.parametrize(
    ("part", "path", "value"),
    [
        ("total", "hits__total", {"value": 3, "relation": "eq"}),
        ("shards", "_shards__failed", 1),
        ("end", "timed_out", True),
        ("aggregations", "aggregations__tags__buckets__0__doc_count", 1),
        ("aggregations", "aggregations__best__hits__hits__0___source", {}),
        ("suggestions", "suggest__s__0__text", "y"),
        ("documents", "hits__hits__1___id", "3"),
        ("highlights", "hits__hits__0__highlight", {}),
        ("sources", "hits__hits__1___source", {}),
        ("inner hits", "hits__hits__1__inner_hits", {"x": {"hits": {"total": 1, "max_score": 1.0, "hits": []}}}),
        ("other parts", "hits__hits__1__matched_queries", ["resift"]),
        ("other parts", "hits__hits__0__fields", {"a": [1]}),
    ],
)
def test_everything_else_must_stay(part: str, path: str, value: Any) -> None:
    assert in_session(changed(**{path: value})) == [part]


def test_an_empty_aggregation_may_count_the_documents_of_more_shards() -> None:
    def answer(documents: int, background: int) -> Answer:
        return changed(aggregations__tags={"doc_count": documents, "bg_count": background, "buckets": []})

    assert differences(answer(0, 65), answer(0, 123), {}) == []
    assert [one.comparison for one in differences(answer(1, 65), answer(1, 123), {})] == ["aggregations"]


def test_a_missing_document_counts_only_on_a_complete_page() -> None:
    more = {"value": 20, "relation": "eq"}
    plain, answer = changed(hits__total=more), changed(hits__total=more, hits__hits__1___id="3")
    assert differences(plain, answer, {}) == []


def test_hits_without_ids_are_compared_by_their_content() -> None:
    def answer(*numbers: int) -> Answer:
        hits = [{"_index": "i", "_score": 1.0 / at, "fields": {"n": [number]}} for at, number in enumerate(numbers, 1)]
        return Answer(200, {"hits": {"total": {"value": len(hits), "relation": "eq"}, "hits": hits}})

    assert differences(answer(1, 2), answer(2, 1), {}) == []
    assert [one.comparison for one in differences(answer(1, 2), answer(1, 3), {})] == ["documents"]


def test_hits_that_are_not_ordered_by_score_keep_their_order() -> None:
    def ordered(*ids: str) -> Answer:
        hits = [{"_index": "i", "_id": id, "_score": None, "sort": [id]} for id in ids]
        return Answer(200, {"hits": {"total": {"value": 50, "relation": "eq"}, "hits": hits}})

    assert differences(ordered("1", "2"), ordered("1", "2"), {}) == []
    assert [one.comparison for one in differences(ordered("1", "2"), ordered("2", "1"), {})] == ["documents"]


def test_groups_of_collapsed_hits_may_show_other_documents() -> None:
    def collapsed(id: str, group: str) -> Answer:
        hits = [{"_index": "i", "_id": id, "_score": 1.0, "fields": {"g": [group]}}]
        return Answer(200, {"hits": {"total": {"value": 5, "relation": "eq"}, "hits": hits}})

    body = {"collapse": {"field": "g"}}
    assert differences(collapsed("1", "a"), collapsed("2", "a"), body) == []
    changes = differences(collapsed("1", "a"), collapsed("2", "b"), body)
    assert [one.comparison for one in changes] == ["documents"]
    assert differences(collapsed("1", "a"), collapsed("2", "b"), {**body, "from": 1}) == []


def test_a_failure_names_its_reason() -> None:
    error = {"error": {"root_cause": [{"reason": "too many clauses"}]}}
    (difference,) = differences(Answer(200, PLAIN), Answer(500, error), {})
    assert difference == Difference("status", "status: plain 200, rewritten 500 (too many clauses)")


def test_without_a_session_scores_must_be_identical() -> None:
    plain, other = Answer(200, PLAIN), changed(took=9, hits__hits__0___score=5.0)
    assert [one.comparison for one in exact_differences(plain, other)] == ["hits"]
    assert exact_differences(plain, changed(took=9)) == []


def test_new_and_resolved_differences_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "known.yml"
    file.write_text(
        '- {searches: ["a, search 1"], way: in a session, comparisons: [total], why: words}\n'
        '- {searches: ["a, search 2"], way: in a session, comparisons: [total], why: words, versions: ["2."]}\n'
    )
    known = KnownDifferences("3.6.0", file)
    listed = ("a, search 1", "in a session", Difference("total", "total: plain 1, rewritten 2"))
    known.check(["a, search 1", "a, search 2"], [listed])
    known.check(["b, search 1"], [])
    with pytest.raises(AssertionError, match="no longer occur"):
        known.check(["a, search 1"], [])
    with pytest.raises(AssertionError, match="not listed"):
        known.check(["a, search 1"], [listed, ("a, search 1", "in a session", Difference("status", "status: …"))])
    with pytest.raises(AssertionError, match="not listed"):
        KnownDifferences("2.19.1", file).check(["a, search 1"], [listed, ("a, search 3", *listed[1:])])


def test_a_difference_of_a_generated_body_needs_a_listed_cause(tmp_path: Path) -> None:
    file = tmp_path / "known.yml"
    case = "{searches: [hybrid of knn], way: in a session, comparisons: [total], why: words}"
    cause = "{generated: [hybrid, knn], like: hybrid of knn, way: in a session, comparisons: [total], why: words}"
    file.write_text(f"- {case}\n- {cause}\n")
    known = KnownDifferences("3.6.0", file)
    with_cause, without = {"query": {"hybrid": {"queries": [{"knn": {}}]}}}, {"query": {"knn": {}}}
    difference = ("generated body 1", "in a session", Difference("total", "total: plain 1, rewritten 2"))
    known.check_generated({"generated body 1": with_cause}, [difference])
    known.check_generated({"generated body 1": without}, [])
    with pytest.raises(AssertionError, match="no cause"):
        known.check_generated({"generated body 1": without}, [difference])
    file.write_text(f"- {cause}\n")
    with pytest.raises(ValueError, match="no longer listed"):
        KnownDifferences("3.6.0", file)
