"""One way through a search: how many of our files a warm rewrite enters."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from flask.testing import FlaskClient
from reranker_app import RECORDS, post
from reranker_app import plain as plain

import resift
from resift.ingest.indexing import DeadLetters, Indexer
from resift.reranker import Config

ROOT = Path(resift.__file__).parent
MOST = 15  # files; a new one is a reason to ask what belongs together


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """The usual settings: one that is named saves files."""
    return Config(store=str(tmp_path / "sessions.db"))


def test_a_warm_rewrite_in_a_session_enters_few_files(plain: FlaskClient, tmp_path: Path) -> None:
    service = plain.application.extensions["resift"]
    Indexer(service.engine, service.model, "i", DeadLetters(tmp_path / "dead")).run(RECORDS, ["text"])
    post(plain, "/v1/feedback", session="anna", index="i", query="fire", relevant=["bush"], irrelevant=["army"])
    body = {"query": {"match": {"text": "fire"}}, "ext": {"ml_inference": {"session": "anna"}}}
    entered: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            entered.add(path.relative_to(ROOT).as_posix())

    def rewrite() -> dict[str, Any]:
        return post(plain, "/v1/rewrite", index="i", body=body)

    first = rewrite()
    sys.setprofile(note)
    try:
        answer = rewrite()
    finally:
        sys.setprofile(None)
    assert answer == first
    assert answer["resift"]["outcome"] == "rewritten"
    assert len(entered) <= MOST, sorted(entered)
