"""A real node, and a service that is installed to rewrite the searches of an index on it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from engine_documents import CONTENT_WORDS as WORDS
from flask import Flask, Response
from flask import request as flask_request
from listening import listening
from opensearch_fixture import service_host
from opensearchpy import OpenSearch
from service_app import post

from resift import Model
from resift.contracts.documents import Document
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.cluster.remote_model import RemoteModel
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.mappings import SETTINGS, mappings
from resift.reranker import Config, create_app

COUNT = 60
FIELDS = ["title", "text"]
SESSION = "anna"


@dataclass
class Node:
    """A node with two indices, and the service that rewrites searches of the first.

    Attributes:
        app: The service.
        client: Client of the node.
        installation: Name of the service's installation in the cluster.
        index: An index. Two of its documents are marked in the session ``SESSION``.
        other: An index without vectors.
        query_model: The id of ML Commons' model that encodes queries.
        rewritten: The service's responses to the search pipeline.
    """

    app: Flask
    client: OpenSearch
    installation: str
    index: str
    other: str
    query_model: str
    rewritten: list[dict[str, Any]] = field(default_factory=list, repr=False)

    @property
    def pipeline(self) -> str:
        """The search pipeline of the index."""
        return f"resift-{self.index}"

    def plain(self, body: dict[str, Any], **params: Any) -> dict[str, Any]:
        """Return the response to a search that is not rewritten."""
        return self.search(body, "_none", **params)

    def search(self, body: dict[str, Any], pipeline: str | None = None, **params: Any) -> dict[str, Any]:
        """Return the response to a search, by default through the pipeline of the index."""
        if "pit" not in body:
            params.setdefault("index", self.index)
        answer: dict[str, Any] = self.client.search(
            body=body, params={"search_pipeline": pipeline or self.pipeline}, **params
        )
        return answer

    def post(self, path: str, status: int = 200, **body: Any) -> dict[str, Any]:
        """Return the service's response to a request about the index."""
        return post(self.app.test_client(), path, status, **{"index": self.index, **body})

    def failed(self) -> int:
        """Return how many searches the pipeline of the index failed to rewrite."""
        stats = self.client.transport.perform_request("GET", "/_nodes/stats/search_pipeline")
        nodes = [node["search_pipeline"]["pipelines"][self.pipeline] for node in stats["nodes"].values()]
        processors = [pipeline["request_processors"][0][f"ml_inference:{self.installation}"] for pipeline in nodes]
        return sum(processor["stats"]["failed"] for processor in processors)


def sources() -> list[dict[str, Any]]:
    """Return COUNT documents. Their texts consist of words of the tests' model, in lengths from 4 to 26 words."""
    rng = np.random.default_rng(11)
    made = []
    for n in range(COUNT):
        words = rng.choice(WORDS, 6 + n % 23).tolist()
        comments = [{"by": "bob", "says": " ".join(rng.choice(WORDS[:4], 2))} for _ in range(n % 3)]
        made.append(
            {
                "title": " ".join(words[:2]),
                "text": " ".join(words[2:]),
                "n": n,
                "tag": f"t{n % 5}",
                "comments": comments,
            }
        )
    return made


@pytest.fixture(scope="module")
def rewritten_node(
    cluster: OpenSearchEngine, model: Model, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Node]:
    """Return the node. The last two documents of the index have no vector."""
    name, client = f"resift-{uuid.uuid4().hex[:8]}", cluster.client
    index, other, host = f"{name}-a", f"{name}-b", service_host(request.config)
    config = Config(
        engine=request.getfixturevalue("opensearch_url"),
        store=str(tmp_path_factory.mktemp("node") / "sessions.db"),
        ubi_events=f"{name}-events",
        ubi_queries=f"{name}-queries",
    )
    app, answers = create_app(config, engine=cluster, model=model), []

    @app.after_request
    def keep(response: Response) -> Response:
        if flask_request.path == "/v1/rewrite":
            answers.append(response.get_json())
        return response

    with listening(app, host) as url:
        _create(cluster, model, index, other)
        installer = Installer(cluster, Installation(name, model, tuple(FIELDS), url))
        try:
            installer.install()
            query_model = RemoteModel(installer.cluster, "query", installer.template_values).model_id
            node = Node(app, client, name, index, other, query_model, answers)
            node.post("/v1/feedback", session=SESSION, query="fire", relevant=["3"], irrelevant=["8"])
            yield node
            installer.uninstall()
        finally:
            made = f"{index},{other},{config.ubi_events},{config.ubi_queries}"
            client.indices.delete(index=made, params={"ignore_unavailable": "true"})


def _create(cluster: OpenSearchEngine, model: Model, index: str, other: str) -> None:
    mapped = mappings(FIELDS, model)
    mapped["properties"]["comments"] = {"type": "nested", "properties": {"says": {"type": "text"}}}
    settings = {**SETTINGS, "number_of_shards": 2, "number_of_replicas": 0}
    aliases = {f"{index}-alias": {}}
    cluster.client.indices.create(index=index, body={"mappings": mapped, "settings": settings, "aliases": aliases})
    cluster.client.indices.create(index=other)
    documents = sources()
    vectors = model.encode([f"{source['title']}\n{source['text']}" for source in documents])
    encoded = [Document(str(n), source, vectors[n]) for n, source in enumerate(documents[:-2])]
    assert cluster.bulk(index, encoded) == []
    for n, source in enumerate(documents[-2:], COUNT - 2):
        cluster.client.index(index=index, id=str(n), body=source)
    for n, source in enumerate(documents[:20]):
        cluster.client.index(index=other, id=f"b{n}", body={**source, "title": "rain"})
    cluster.refresh(f"{index},{other}")
