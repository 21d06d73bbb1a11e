"""Test of an ingest pipeline that encodes bags of vectors: documents of any client get their vectors."""

from __future__ import annotations

import json
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from bag_documents import FIELD, MALFORMED, bag_model, pictures
from listening import listening
from opensearch_fixture import service_host

from resift.encoders.bags import BagModel
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Record
from resift.ingest.verify import verify
from resift.plugin.cluster.index_pipelines import update_pipelines
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.doctor import status_rows
from resift.reranker import Config, create_app

PICTURES = pictures(6)


@pytest.fixture(scope="module")
def bagged() -> BagModel:
    """Return a model that no other test has."""
    return bag_model(zlib.crc32(Path(__file__).name.encode()))


@pytest.fixture(scope="module")
def installer(
    cluster: OpenSearchEngine,
    bagged: BagModel,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Installer]:
    """Yield an installation of a service with the model."""
    store = tmp_path_factory.mktemp("bags") / "sessions.db"
    with listening(
        create_app(Config(store=str(store)), engine=cluster, model=bagged), service_host(request.config)
    ) as url:
        installer = Installer(cluster, Installation(f"bags-{uuid.uuid4().hex[:8]}", bagged, ("title",), url))
        installer.install()
        yield installer
        installer.uninstall()


@pytest.fixture
def index(cluster: OpenSearchEngine, bagged: BagModel, installer: Installer, tmp_path: Path) -> Iterator[str]:
    """Yield an index with a picture and its pipelines."""
    name = f"pictures-{uuid.uuid4().hex[:8]}"
    Indexer(cluster, bagged, name, DeadLetters(tmp_path / "dead")).run([Record("f", 1, "0", PICTURES["0"])], ["title"])
    assert update_pipelines(installer.cluster, name)
    yield name
    cluster.drop(name)


def test_documents_written_through_the_pipeline_have_the_vectors_of_their_bags(
    cluster: OpenSearchEngine, index: str, bagged: BagModel
) -> None:
    sources = {**PICTURES, "none": {"title": "a fire without a picture"}}
    sources |= {f"odd-{name}": {"title": "an odd picture", FIELD: bag} for name, (bag, _) in MALFORMED.items()}
    lines = [line for id, source in sources.items() for line in ({"index": {"_id": id}}, source)]
    body = "".join(json.dumps(line) + "\n" for line in lines)
    answer = cluster.client.bulk(body=body, index=index, params={"pipeline": f"resift-{index}", "refresh": "true"})
    written = {item["index"]["_id"] for item in answer["items"] if item["index"]["status"] in (200, 201)}
    # The mapping of the field is an object, so OpenSearch itself refuses a number and a plain vector.
    assert written >= sources.keys() - {"odd-number", "odd-vector"}
    stored = cluster.documents(index, list(sources))
    expected, _ = bagged.encode_bags([source[FIELD] for source in PICTURES.values()])
    for id, vector in zip(PICTURES, expected, strict=True):
        np.testing.assert_allclose(stored[id][1], vector, atol=1e-5)
        assert stored[id][0] == PICTURES[id]
    assert not np.any(stored["none"][1])
    assert not np.any(stored["odd-ragged"][1])
    result = verify(cluster, bagged, index)
    assert (result.missing, result.stale) == (0, len(written) - len(PICTURES) - 1)


def test_doctor_finds_the_installation_in_order(installer: Installer, index: str) -> None:
    states = {row.name: row.state for row in status_rows(installer) if row.name.startswith(installer.name)}
    assert states
    assert set(states.values()) == {"ok"}
