"""Indices that the engine makes on OpenSearch, as other clients write to them."""

from __future__ import annotations

import pytest
from engine_documents import ids

from resift import Model
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.query_dsl import GUARD_FIELD


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
def test_what_the_ingest_pipeline_writes_is_taken(engine: OpenSearchEngine, index: str, model: Model) -> None:
    engine.create(index, ["text"], model)
    engine.client.index(index=index, id="1", body={"text": "fire", GUARD_FIELD: [0, {}]}, refresh=True)
    assert ids(engine, index, {"match": {"text": "fire"}}) == ["1"]
    assert engine.get(index, "1")[0] == {"text": "fire"}


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
def test_other_texts_are_whole_values_however_long(engine: OpenSearchEngine, index: str, model: Model) -> None:
    engine.create(index, ["text"], model)
    tags = {"1": "Blue sky", "2": "é" * 8191, "3": "é" * 8192}
    for id, tag in tags.items():
        engine.client.index(index=index, id=id, body={"text": "fire", "tag": tag}, refresh=True)
    for id, found in (("1", ["1"]), ("2", ["2"]), ("3", [])):
        assert ids(engine, index, {"term": {"tag": tags[id]}}) == found
    assert ids(engine, index, {"term": {"tag": "blue"}}) == []
