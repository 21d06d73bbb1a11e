"""Vectors that documents are given later, on both engines: by version, one document's failure to itself."""

from __future__ import annotations

import numpy as np
import pytest
from engine_documents import ids

from resift import Model
from resift.errors import EngineError
from resift.plugin.documents import Document
from resift.plugin.engine import Engine


def test_vectors_are_put_where_versions_still_hold(engine: Engine, indexed: str, model: Model) -> None:
    vector = model.encode(["army gun"])[0]
    stored = {id: engine.get(indexed, id) for id in ("0", "1", "2", "3")}
    assert engine.put(indexed, Document("1", {"text": "changed"}, None), stored["1"][1])
    assert engine.delete(indexed, ["2"]) == 1
    changed = engine.put_vectors(indexed, [(id, version, vector) for id, (_, version) in stored.items()])
    assert sorted(changed) == ["1", "2"]
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


def test_a_document_is_put_whole_or_not_at_all(engine: Engine, indexed: str) -> None:
    source, version = engine.get(indexed, "1")
    for unfit in ({"text": float("nan")}, {"text": "\ud800"}):
        with pytest.raises(EngineError) as refused:
            engine.put(indexed, Document("1", unfit, None), version)
        assert (refused.value.status, refused.value.value) == (400, "1")
    assert engine.get(indexed, "1") == (source, version)
    assert engine.put(indexed, Document("1", {"text": "whole"}, None), version)
    again, newer = engine.get(indexed, "1")
    assert again == {"text": "whole"}
    assert newer != version
    assert not engine.put(indexed, Document("1", {"text": "late"}, None), version)


def test_deleting_counts_what_was_there(engine: Engine, indexed: str) -> None:
    assert engine.delete(indexed, []) == 0
    assert engine.delete(indexed, ["0", "none", "3"]) == 2
    engine.refresh(indexed)
    assert sorted(one.id for one in engine.scan(indexed)) == ["1", "2", "4"]
