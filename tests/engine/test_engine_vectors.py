"""Tests of replacing vectors on both engines: versions are respected, and documents fail independently."""

from __future__ import annotations

import numpy as np
from engine_documents import ids

from resift import Model
from resift.contracts.documents import Document
from resift.contracts.engine import Engine


def test_vectors_are_put_where_versions_still_hold(engine: Engine, indexed: str, model: Model) -> None:
    vector = model.encode(["army gun"])[0]
    stored = {id: engine.get(indexed, id) for id in ("0", "1", "2", "3")}
    assert engine.bulk(indexed, [Document("1", {"text": "changed"}, None)]) == []
    assert engine.delete(indexed, ["2"]) == 1
    changed = engine.put_vectors(indexed, [(id, version, vector) for id, (_, version) in stored.items()])
    assert [(one.position, one.id) for one in changed] == [(1, "1"), (2, "2")]
    assert {one.status for one in changed} <= {404, 409}
    engine.refresh(indexed)
    found = {one.id: one for one in engine.scan(indexed)}
    assert sorted(found) == ["0", "1", "3", "4"]
    assert found["1"].vector is None
    assert found["1"].source == {"text": "changed"}
    for id in ("0", "3"):
        np.testing.assert_allclose(found[id].vector, vector, rtol=1e-6)
        assert found[id].source == stored[id][0]
    assert ids(engine, indexed, {"match": {"text": "rain"}}) == ["3"]
    assert engine.put_vectors(indexed, []) == []


def test_deleting_counts_what_was_there(engine: Engine, indexed: str) -> None:
    assert engine.delete(indexed, []) == 0
    assert engine.delete(indexed, ["0", "none", "3"]) == 2
    engine.refresh(indexed)
    assert sorted(one.id for one in engine.scan(indexed)) == ["1", "2", "4"]


def test_a_scan_may_be_of_some_fields_and_some_documents(engine: Engine, indexed: str, model: Model) -> None:
    source, _ = engine.get(indexed, "1")
    assert engine.bulk(indexed, [Document("1", source, None)]) == []
    engine.refresh(indexed)
    (missing,) = engine.scan(indexed, fields=["title"], missing=True)
    assert (missing.id, missing.source, missing.vector) == ("1", {"title": source["title"]}, None)
    assert engine.put_vectors(indexed, [("1", missing.version, model.encode_one("rain"))]) == []
    engine.refresh(indexed)
    assert list(engine.scan(indexed, missing=True)) == []
    named = {one.id: one for one in engine.scan(indexed, fields=["year"], ids=["1", "3", "none"])}
    assert {id: list(one.source) for id, one in named.items()} == {"1": ["year"], "3": ["year"]}
    vector = named["1"].vector
    assert vector is not None
    np.testing.assert_allclose(vector, model.encode_one("rain"), atol=1e-4)
    assert list(engine.scan(indexed, ids=[])) == []
