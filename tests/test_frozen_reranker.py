"""A reranker that takes connections and never answers: searches go on in the engine's order, within seconds."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from engine_documents import documents
from opensearch_fixture import reranker_host
from opensearchpy import OpenSearch, TransportError

from resift import Model
from resift.plugin.cluster.install import Installer
from resift.plugin.opensearch.engine import OpenSearchEngine

SECONDS = 8  # ML Commons would wait for 10 to 60 by its own timeouts
FIRE = {"multi_match": {"query": "fire", "fields": ["title", "text"]}}


@pytest.fixture(scope="module")
def frozen(
    cluster: OpenSearchEngine, opensearch_url: str, packaged: Model, request: pytest.FixtureRequest
) -> Iterator[tuple[OpenSearch, str]]:
    """A client without patience, and the name of an installation and of an index whose reranker is frozen."""
    host, name = reranker_host(request.config), f"resift-{uuid.uuid4().hex[:8]}"
    impatient = OpenSearchEngine(opensearch_url, timeout=SECONDS)
    with socket.create_server(("" if host != "127.0.0.1" else host, 0)) as silent:
        port = silent.getsockname()[1]
        installer = Installer(cluster, packaged, ["title", "text"], f"http://{host}:{port}", name)
        cluster.create(name, ["title", "text"], packaged)
        installer.install()
        cluster.bulk(name, documents(packaged))
        cluster.refresh(name)
        yield impatient.client, name
        installer.uninstall()
        cluster.drop(name)
    impatient.close()


def hits(client: OpenSearch, index: str, pipeline: str, **body: Any) -> list[tuple[str, float]]:
    """Ids and scores of a plain ``_search``."""
    answer = client.search(index=index, body={"query": FIRE, **body}, params={"search_pipeline": pipeline})
    return [(hit["_id"], hit["_score"]) for hit in answer["hits"]["hits"]]


@pytest.mark.parametrize("which", ["of the index", "rerank"])
def test_the_engines_order_stands(frozen: tuple[OpenSearch, str], which: str) -> None:
    client, name = frozen
    ext: dict[str, Any] = {"rerank": {"query_context": {"query_text": "fire"}}}
    if which == "of the index":
        ext = {"ml_inference": {"query": "fire", "session": "anna"}}
    pipeline = f"{name}-{name if which == 'of the index' else which}"
    assert hits(client, name, pipeline, ext=ext) == hits(client, name, "_none")


def test_a_query_that_must_be_encoded_is_refused(frozen: tuple[OpenSearch, str]) -> None:
    client, name = frozen
    neural = {"neural": {"resift_vector": {"query_text": "fire", "k": 5}}}
    with pytest.raises(TransportError, match="Read timed out") as refused:
        hits(client, name, f"{name}-hybrid", query={"hybrid": {"queries": [FIRE, neural]}})
    assert refused.value.status_code == 500
