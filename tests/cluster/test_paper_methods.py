"""Methods of the papers on an index of a real node, from a corpus to a search, by the commands of the documentation."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from service_app import TEXTS

import resift
from resift import WordVectors, build_model
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
    assert len(stage["query"]["rescore_query"]["script_score"]["script"]["params"]["mask"]) == 4
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
