"""The sample of an index that a session's documents are compared with, on both engines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from engine_documents import documents

from resift import Model
from resift.contracts.documents import Document
from resift.contracts.engine import Engine
from resift.errors import EngineUnavailable
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.sessions.samples import BackgroundSampler
from resift.vectors.similarity import unit_rows


def test_it_holds_vectors_of_the_index_and_is_remembered(engine: Engine, indexed: str, model: Model) -> None:
    assert engine.bulk(indexed, [Document("1", engine.get(indexed, "1")[0], None)]) == []
    engine.refresh(indexed)
    samples, info = BackgroundSampler(engine), engine.info(indexed)
    sample = samples.draw(info)
    expected = [one.vector for one in documents(model) if one.id != "1" and one.vector is not None]
    np.testing.assert_allclose(
        sorted(sample.vectors.tolist()), sorted(unit_rows(np.stack(expected)).tolist()), atol=1e-4
    )
    engine.delete(indexed, ["0"])
    engine.refresh(indexed)
    assert samples.draw(info) is sample
    assert len(samples.draw(info, {"authorization": "another"}).vectors) == 3


def test_of_an_index_without_vectors_there_is_none(engine: Engine, indexed: str) -> None:
    info = replace(engine.info(indexed), model=None, dim=None)
    assert len(BackgroundSampler(engine).draw(info).vectors) == 0


def test_of_documents_without_vectors_there_is_none(engine: Engine, index: str, model: Model) -> None:
    engine.create(index, ["text"], model)
    engine.bulk(index, [Document("1", {"text": "fire"}, None)])
    engine.refresh(index)
    assert len(BackgroundSampler(engine).draw(engine.info(index)).vectors) == 0


def test_an_engine_that_was_away_is_asked_again(engine: Engine, indexed: str) -> None:
    info, away = engine.info(indexed), OpenSearchEngine("http://127.0.0.1:9", timeout=1)
    samples = BackgroundSampler(away)
    with pytest.raises(EngineUnavailable):
        samples.draw(info)
    away.close()
    samples.engine = engine
    assert len(samples.draw(info).vectors) == 5
    # where it answers, and gives none, there is none
    assert len(samples.draw(replace(info, name="gone")).vectors) == 0
