"""Tests of Resift's request processors in the bodies of search pipelines. No cluster is needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from resift.plugin.cluster.search_pipelines import Rewriter, read_rewriters, with_processor, without_processor

NATIVE = Rewriter(
    "", "logs-*,shop", defaults={"shop": "theirs", "logs-1": None}, base="theirs", urls=("http://a:8080",)
)
ML_INFERENCE = Rewriter("resift", "shop", model="0123", defaults={"shop": None}, base=None)


@pytest.mark.parametrize(
    "rewriter",
    [NATIVE, replace(NATIVE, urls=("http://a", "http://b")), replace(NATIVE, model="0123"), ML_INFERENCE],
    ids=str,
)
def test_everything_that_detaching_needs_is_in_the_processor(rewriter: Rewriter) -> None:
    body = {"request_processors": [rewriter.processor("model-id")[0]]}
    assert Rewriter.read(body) == rewriter
    assert Rewriter.read(body).is_native is (rewriter is not ML_INFERENCE)  # type: ignore[union-attr]


def test_a_single_url_is_not_a_list() -> None:
    assert NATIVE.processor("")[0]["resift"]["url"] == "http://a:8080"


@pytest.mark.parametrize(("old", "new"), [(ML_INFERENCE, NATIVE), (NATIVE, ML_INFERENCE)])
def test_the_processor_of_the_other_kind_is_replaced_in_its_place(old: Rewriter, new: Rewriter) -> None:
    script, filter_query = {"script": {"source": ""}}, {"filter_query": {"query": {}}}
    body = with_processor({"request_processors": [script, filter_query]}, old.processor("m")[0])
    moved = with_processor(body, new.processor("m")[0])
    assert [next(iter(processor)) for processor in moved["request_processors"]] == ["script", new.kind, "filter_query"]
    assert without_processor(moved) == {"request_processors": [script, filter_query]}


@pytest.mark.parametrize("description", [{}, {"description": None}, {"description": "calls Resift"}])
def test_a_processor_without_a_record_belongs_to_the_user(description: dict[str, Any]) -> None:
    body = {"request_processors": [{"resift": {"url": "http://a:8080", **description}}]}
    assert read_rewriters({"theirs": body}) == {}
    assert without_processor(body) == body
