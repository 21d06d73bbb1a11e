"""Tests of the documented way to an HNSW index: OpenSearch's ``_reindex`` through Resift's ingest pipeline."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attached_index import own, remove_pipelines, routed, run
from click.testing import CliRunner
from test_attach_models import Served, old

from resift.cli.main import main
from resift.plugin.cluster.client import Cluster
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.query.dsl import document_text

__all__ = ["old", "own"]

DOCUMENT = Path(__file__).parents[2] / "docs" / "graph.md"
TEXTS = ["fire bush forest", "army gun soldier", "rain river", "smoke flame tree", "war army", "fire smoke"]


class Page:
    """The steps in the documentation, with the names of this test."""

    def __init__(self, engine: OpenSearchEngine, model: str) -> None:
        self.cluster = Cluster(engine)
        self.old = f"blog-{uuid.uuid4().hex[:8]}"
        self.new, self.alias = f"{self.old}-2", f"{self.old}-posts"
        self._names = {"blog": self.old, "blog-2": self.new, "posts": self.alias, "resift-en": model}

    def steps(self) -> list[str]:
        """Return the commands and requests, in order."""
        _, text = DOCUMENT.read_text("utf-8").split("## An index without")
        blocks = re.findall(r"^```\n(.*?)\n```$", text, re.DOTALL | re.MULTILINE)
        return [re.sub(r"blog-2|blog|posts|resift-en", lambda name: self._names[name[0]], block) for block in blocks]

    def request(self, step: str) -> Any:
        """Send a request: a line with the method and the path, and a JSON body if there is one."""
        line, _, body = step.partition("\n")
        method, address = line.split()
        path, _, query = address.partition("?")
        parameters = dict(pair.split("=") for pair in query.split("&") if pair)
        return self.cluster.request(method, path, json.loads(body) if body else None, **parameters)


@pytest.fixture
def page(cluster: OpenSearchEngine, old: Served) -> Iterator[Page]:
    """Yield the page, and the index with which it begins."""
    page = Page(cluster, old.folder)
    properties = {"headline": {"type": "text"}, "body": {"type": "text"}}
    body = {"mappings": {"properties": properties}, "aliases": {page.alias: {}}}
    page.cluster.request("PUT", f"/{page.old}", body)
    for n, text in enumerate(TEXTS):
        document = {"headline": f"{text.split()[0]} news", "body": text}
        page.cluster.request("PUT", f"/{page.old}/_doc/{n}", document, refresh="true", **routed(n))
    yield page
    for name in (page.new, page.old):
        cluster.drop_if_exists(name)
        remove_pipelines(page.cluster, name)


def test_the_documented_steps_copy_an_index(
    cluster: OpenSearchEngine, page: Page, old: Served, opensearch_url: str
) -> None:
    refused = run("attach", page.old, opensearch_url, "--model", old.folder, "--graph", status=2).output
    assert "index.knn is not set" in refused
    assert "docs/graph.md" in refused
    run("attach", page.old, opensearch_url, "--model", old.folder)
    for step in page.steps():
        if step.startswith("resift "):
            ran = CliRunner().invoke(main, [*step.split()[1:], "--engine", opensearch_url, "--yes"])
            assert ran.exit_code == 0, ran.output
            continue
        answer = page.request(step)
        if "_reindex" in step:
            assert (answer["created"], answer["failures"]) == (len(TEXTS), [])
            assert cluster.client.count(index=page.new, body={"query": {"exists": {"field": "resift_vector"}}})[
                "count"
            ] == len(TEXTS)

    for n in range(len(TEXTS)):
        stored = page.cluster.request("GET", f"/{page.new}/_doc/{n}", **routed(n))
        assert stored["_source"].keys() == {"headline", "body", "resift_vector"}
        assert stored.get("_routing") == routed(n).get("routing")
    for document in cluster.scan(page.new, "resift_vector"):
        expected = old.model.encode_one(document_text(document.source, ["headline", "body"]))
        np.testing.assert_allclose(document.vector, expected, atol=1e-5)

    query = {"knn": {"resift_vector": {"vector": old.model.encode_one("fire bush forest").tolist(), "k": 3}}}
    first, *_ = cluster.search(page.alias, {"query": query, "search_pipeline": "_none"}).hits
    assert (first["_index"], first["_id"]) == (page.new, "0")
    page.cluster.request("PUT", f"/{page.alias}/_doc/new", {"body": "army war"}, refresh="true")
    (written,) = cluster.documents(page.new, ["new"], None, "resift_vector").values()
    np.testing.assert_allclose(written[1], old.model.encode_one("army war"), atol=1e-5)
