"""Tests that run all commands of the pages about a running service, with small data and a real OpenSearch."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from listening import listening
from opensearchpy import OpenSearch, helpers
from page_commands import DOCS, Terminal, blocks
from page_files import save_vectors, topic_documents, write_lines

import resift
from resift import Model, build_model
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.reranker import Config, create_app

# Why commands are left out.
SERVE = "the service of the test runs already"
NO_WORKBENCH = "the node has no Search Relevance Workbench"


@pytest.fixture
def terminal(client: OpenSearch, opensearch_url: str, service: str, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a terminal in an empty folder. Its commands reach the cluster, and a service over it."""
    monkeypatch.setenv("OPENSEARCH_URL", opensearch_url)
    replaced = {
        "http://localhost:9200": opensearch_url,
        "http://127.0.0.1:8080": service,
        "resift attach blog": f"resift attach blog --service {service}",
        "resift install": f"resift install --service {service}",
    }
    return Terminal(monkeypatch, replaced)


def test_pages_that_use_the_index_news(terminal: Terminal, here: Path, client: OpenSearch) -> None:
    terminal.run_page("indexing.md", statuses={"resift index more.csv": 3})
    assert client.count(index="news")["count"] == 13
    assert client.count(index="news-2")["count"] == 10
    pair = {"550": "slip flow over a flat plate", "22": "slip flow near a body", "959": "a slip of paper"}
    write_lines(here / "docs.jsonl", [{"id": id, "title": f"document {id}", "text": text} for id, text in pair.items()])
    terminal.run_page("feedback.md")
    terminal.run_page("rewriting.md")
    terminal.run_page("faults.md", statuses={"resift doctor": 3})
    terminal.run_page("http.md")
    terminal.run_page("monitoring.md")
    terminal.run_page("clicks.md", left_out={"curl -X PUT": NO_WORKBENCH})
    assert json.loads((here / "judgments.json").read_text("utf-8"))
    assert terminal.run("resift mark news fire 3 --session anna")[0] == 0
    terminal.run_page("privacy.md")
    terminal.run_page(
        "security.md",
        left_out={
            "curl -u admin": "tests/cluster/test_rights.py creates the role",
            "RESIFT_INDICES=live resift serve": SERVE,
        },
    )
    assert terminal.run("resift mark news fire 3 --session anna")[0] == 0
    terminal.run_page(
        "serving.md",
        left_out={
            "resift serve": SERVE,
            "RESIFT_STORE=http://localhost:9200 resift serve": SERVE,
            "export RESIFT_API_KEY": "tests/compose runs the containers",
            "make native": "tests/compose runs the containers",
        },
    )
    terminal.run_page(
        "upgrade.md",
        left_out={
            "resift install --model": "tests/cluster/test_attach_models.py changes the model",
            "resift attach INDEX": "tests/cluster/test_attach_models.py changes the model",
            "resift detach INDEX": "tests/cluster/test_attach_models.py changes the model",
        },
    )
    assert terminal.run("resift index news.jsonl --index products")[0] == 0
    terminal.run_page("verify.md")


def test_the_page_about_attaching(terminal: Terminal, client: OpenSearch, opensearch_url: str, service: str) -> None:
    posts = {"1": "The union calls a strike", "2": "A lucky strike in the final", "3": "Trains stand still: strike"}
    vectors = {"type": "knn_vector", "dimension": 3, "method": {"name": "hnsw", "engine": "lucene"}}
    properties = {"body": {"type": "text"}, "embedding": vectors}
    settings = {"index.knn": True, "number_of_replicas": 0, "index.search.default_pipeline": "blog-hybrid"}
    normalized = {"phase_results_processors": [{"normalization-processor": {}}]}
    client.transport.perform_request("PUT", "/_search/pipeline/blog-hybrid", body=normalized)
    client.indices.create(index="blog", body={"settings": settings, "mappings": {"properties": properties}})
    actions = ({"_index": "blog", "_id": id, "body": text, "embedding": [0.1, 0.2, 0.3]} for id, text in posts.items())
    helpers.bulk(client, actions, refresh=True)
    terminal.replaced = {**terminal.replaced, "http://resift.example:8080": service}
    try:
        terminal.run_page(
            "attach.md",
            left_out={
                "export OPENSEARCH_URL=https": "tests/unit/test_credentials.py reads the user and the file",
                "export RESIFT_API_KEY": "tests/cluster/test_install_key.py installs a key",
                "pip install": "Resift is installed",
                "resift serve": SERVE,
            },
        )
        (answer,) = (text for command, text in terminal.transcript.items() if command.startswith("curl"))
        assert json.loads(answer)["hits"]["hits"][0]["_id"] == "3"
        assert terminal.run("resift detach blog")[0] == 0
    finally:
        client.indices.delete(index="blog")
        client.transport.perform_request("DELETE", "/_search/pipeline/blog-hybrid")
        resift.uninstall(opensearch_url).run()


def test_the_page_about_vectors_of_an_index(
    terminal: Terminal,
    here: Path,
    client: OpenSearch,
    cluster: OpenSearchEngine,
    opensearch_url: str,
    service: str,
    packaged: Model,
    request: pytest.FixtureRequest,
) -> None:
    from opensearch_fixture import service_host  # a plugin, which must not be imported before it is loaded

    records = topic_documents(150)
    counts = {"blog": 150, "products": 15}
    for index, count in counts.items():
        actions = (
            {"_index": index, "_id": record["id"], "headline": record["title"], "body": record["text"]}
            for record in records[:count]
        )
        helpers.bulk(client, actions, refresh=True)
    better = build_model("mean", save_vectors(here / "words", [record["text"] for record in records]))
    better.save("better-model")
    app = create_app(Config(store=str(here / "better.db")), engine=cluster, model=better)
    try:
        with listening(app, service_host(request.config)) as better_service:
            terminal.replaced = {
                "resift install": f"resift install --service {service}",
                "http://HOST:8081": better_service,
                "--engine URL": f"--engine {opensearch_url}",
                "HASH": packaged.hash,
            }
            assert terminal.run("resift install")[0] == 0
            assert terminal.run("resift attach products --vectors --no-adapt")[0] == 0
            terminal.run_page(
                "vectors.md",
                left_out={
                    "resift serve": "tests/cluster/test_attach_models.py searches with both models",
                    "resift attach reviews": "tests/cluster/test_second_model.py attaches a second index",
                    "resift install --model reviews-model": "tests/cluster/test_second_model.py installs it",
                },
            )
        (output,) = (text for command, text in terminal.transcript.items() if command.startswith("resift attach blog"))
        plan = next(text for text in blocks(DOCS / "vectors.md") if text.startswith("model: "))
        assert without_numbers(output).startswith(without_numbers(plan.strip().rstrip("…")))
        fields = {"blog": "resift_vector_int8", "products": f"resift_vector_int8_{better.hash[:8]}"}
        for index, field in fields.items():
            client.indices.refresh(index=index)
            hits = client.search(index=index, body={"size": 150})["hits"]["hits"]
            assert [[name for name in hit["_source"] if "vector" in name] for hit in hits] == [[field]] * counts[index]
        assert terminal.run("resift detach blog")[0] == 0
        assert terminal.run("resift detach products")[0] == 0
    finally:
        resift.uninstall(opensearch_url).run()
        resift.uninstall(opensearch_url, name="better").run()


def without_numbers(text: str) -> str:
    """Return a text with each number replaced by 0."""
    return re.sub(r"\d+", "0", text)


def test_the_page_of_the_embedded_engine(here: Path, packaged: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"1": "the pump is overheating", "2": "slip flow over a plate", "3": "a slip"}
    write_lines(here / "docs.jsonl", [{"id": id, "text": text} for id, text in texts.items()])
    Terminal(monkeypatch, {}).run_page("embedded.md")
    (block,) = re.findall(r"```json\n(.*?)```", (DOCS / "embedded.md").read_text("utf-8"), re.DOTALL)
    body = json.loads(block)
    body["query"]["hybrid"]["queries"][1]["knn"]["resift_vector"]["vector"] = packaged.encode_one("plate").tolist()
    with resift.open("resift.db") as library:
        assert {hit.id for hit in library.index("docs").search(body)} == {"1", "2", "3"}
