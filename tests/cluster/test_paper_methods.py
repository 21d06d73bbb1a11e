"""Methods of the papers on an index of a real node, from a corpus to a search, by the commands of the documentation."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from service_app import TEXTS

import resift
from resift import WordVectors, build_model, load_model
from resift.cli.main import main
from resift.encoders.dynamax import DynaMax
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.vectors.packaged import DEFAULT_MODEL, load_vectors


class Index:
    """An index on the node, and the commands that use it.

    Attributes:
        name: The name of the index.
        url: The URL of the node.
    """

    def __init__(self, name: str, url: str) -> None:
        self.name, self.url = name, url

    def run(self, command: str, *arguments: str, model: str) -> str:
        """Run a command on this index, and return its standard output."""
        options = ["--engine", self.url, "--model", model]
        result = CliRunner().invoke(main, [command, *arguments, *options])
        assert result.exit_code == 0, result.output
        return result.stdout

    def search(self, query: str, *arguments: str, model: str) -> dict[str, Any]:
        """Search with ``resift search --json``, and return the response."""
        response: dict[str, Any] = json.loads(self.run("search", self.name, query, "--json", *arguments, model=model))
        return response


@pytest.fixture
def index(here: Path, opensearch_url: str) -> Iterator[Index]:
    """Return an index that does not exist yet. Afterwards it is dropped."""
    lines = [json.dumps({"id": id, "text": text}) for id, text in TEXTS.items()]
    (here / "docs.jsonl").write_text("\n".join(lines), "utf-8")
    name = f"resift-test-{uuid.uuid4().hex[:12]}"
    yield Index(name, opensearch_url)
    engine = OpenSearchEngine(opensearch_url)
    engine.drop_if_exists(name)
    engine.close()


def scores(response: dict[str, Any]) -> dict[str, float]:
    """Return the score of each hit by its id."""
    return {hit["_id"]: hit["_score"] for hit in response["hits"]["hits"]}


def test_a_session_of_codewords_learns_a_mask(index: Index, vectors: WordVectors) -> None:
    build_model("boew:4,1", vectors).save("boew")
    index.run("index", "docs.jsonl", "--index", index.name, model="boew")
    session = ("--session", "anna")
    index.run("mark", index.name, "fire", "bush", "tree", *session, model="boew")
    index.run("mark", index.name, "fire", "army", "--irrelevant", *session, model="boew")
    masked = index.search("fire", *session, "--feedback", "mask", model="boew")
    assert masked["resift"]["session"] == "anna"
    # the default method learns something else from the same marks
    assert scores(index.search("fire", *session, model="boew")) != scores(masked)
    with resift.open(index.url, model="boew") as library:
        searched = library.index(index.name)
        plain = scores(searched.search("fire", alpha=0.9).response)
        masked = searched.session("anna").search("fire", alpha=0.9, feedback="mask").response
    gains = {id: score / plain[id] for id, score in scores(masked).items()}
    assert min(gains["bush"], gains["tree"], gains["wood"]) > max(gains["army"], gains["war"])

    explaining = ("search", index.name, "fire", *session, "--feedback", "mask", "--explain")
    body = json.loads(index.run(*explaining, "--json", model="boew"))
    (stage,) = body["rescore"]
    similarity, _ = stage["query"]["rescore_query"]["bool"]["should"]  # the second moves the irrelevant document down
    assert len(similarity["function_score"]["script_score"]["script"]["params"]["mask"]) == 4
    explained = CliRunner().invoke(main, [*explaining, "--engine", index.url, "--model", "boew"]).stderr
    assert "gained weight: codeword " in explained
    assert "lost weight: codeword " in explained


def test_dynamax_compares_the_words_of_the_hits(index: Index) -> None:
    index.run("index", "docs.jsonl", "--index", index.name, model=DEFAULT_MODEL)
    answer = index.search("smoke of a burning tree", "--method", "dynamax", model=DEFAULT_MODEL)
    assert answer["resift"]["method"] == "dynamax"
    compared = DynaMax(load_vectors())
    hits = {hit["_id"]: hit["resift"]["similarity"] for hit in answer["hits"]["hits"]}
    expected = compared.scores("smoke of a burning tree", [TEXTS[id] for id in hits])
    assert list(hits.values()) == pytest.approx(expected.tolist(), abs=1e-4)
    assert next(iter(hits)) == "tree"


TITLES = ["bush smoke", "forest flame", "army gun", "soldier war", "river water", "rain cloud", "ceasefire peace"]


def write_titled_documents(path: Path) -> list[dict[str, str]]:
    """Write 28 documents with titles as JSON lines, each with a word of its own, and return them."""
    documents = [
        {
            "id": f"d{number}",
            "title": f"{TITLES[number % 7]} {chr(97 + number % 26) * 5}{number // 7}x",
            "text": f"The {TITLES[number % 7]} of the {chr(97 + number % 26) * 5}{number // 7}x. It was near the "
            f"{chr(98 + number % 24) * 4}ton. Then the {TITLES[(number + 1) % 7]} came to the town.",
        }
        for number in range(28)
    ]
    path.write_text("\n".join(map(json.dumps, documents)), "utf-8")
    return documents


def test_a_word2doc_network_answers_queries(index: Index, vectors: WordVectors) -> None:
    documents = write_titled_documents(Path("titled.jsonl"))
    vectors.save("vectors")
    training = ["train", "word2doc", "--corpus", "titled.jsonl", "--vectors", "vectors", "--out", "w2d"]
    for setting in ("hidden=16", "epochs=20", "batch=16"):
        training += ["--set", setting]
    trained = CliRunner().invoke(main, training)
    assert trained.exit_code == 0, trained.output
    model = load_model("w2d")
    index.run("index", "titled.jsonl", "--index", index.name, model="w2d")
    engine = OpenSearchEngine(index.url)
    stored = engine.documents(index.name, ["d3", "d9"])
    engine.close()
    texts = [f"{document['title']}\n{document['text']}" for document in documents]
    learned = model.encode(texts)
    for number in (3, 9):
        np.testing.assert_allclose(stored[f"d{number}"][1], learned[number], atol=1e-3)
    query = documents[9]["title"]
    with resift.open(index.url, model="w2d") as library:
        hits = library.index(index.name).search(query, size=28, alpha=0.5, reasons=True)
    similarities = {hit.id: hit["resift"]["similarity"] for hit in hits}
    expected = model.score(model.encode_query(query), learned)
    assert similarities == pytest.approx({id: expected[int(id[1:])] for id in similarities}, abs=1e-3)
    assert hits[0].id == "d9"
