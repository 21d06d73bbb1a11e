"""The commands of docs/papers.md run on a real OpenSearch, in their order, with a small corpus."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from opensearchpy import OpenSearch
from page_commands import DOCS, Terminal, blocks, words_of
from page_files import save_vectors, write_lines
from ports import free_port
from served import serving
from tiny_transformer import save_sentence_transformer

import resift

PAGE = DOCS / "papers.md"
# models that the page trains or builds, but does not use in an index; the test indexes documents with them, too
OTHERS = ("published", "euclidean", "sfbow-pca", "sfbow-kmeans")
INDICES = sorted({*re.findall(r"--index (\S+)", "\n".join(blocks(PAGE))), *(f"resift-{name}" for name in OTHERS)})
# word classes without a common meaning, so that only the labels show which words belong together
CLASSES = {
    "a": ["violin", "iron", "monday", "butter", "planet", "soldier"],
    "b": ["apple", "justice", "winter", "engine", "poetry", "harbour"],
    "c": ["spider", "market", "window", "doctor", "desert", "music"],
}
NOISE = ["paper", "river", "garden", "machine", "letter", "mountain", "school", "bridge", "island", "kitchen", "horse"]


@dataclass
class ServingTerminal(Terminal):
    """A terminal whose command ``resift serve`` starts a process.

    Attributes:
        port: The port of the service.
        stack: Stops the service.
    """

    port: int = field(default_factory=free_port)
    stack: ExitStack = field(default_factory=ExitStack)

    def run(self, command: str) -> tuple[int, str]:
        """Run a command, and return its exit status and its output."""
        match words_of(command):
            case ["resift", "serve", *options, "&"]:
                url = os.environ["OPENSEARCH_URL"]
                self.stack.enter_context(serving(Path.cwd(), *options, port=self.port, OPENSEARCH_URL=url))
                return 0, ""
        return super().run(command)


def documents() -> list[dict[str, Any]]:
    """Return 150 labelled documents, each with three words of its class and five other words.

    Full stops separate the words into keywords of two words, which word2doc learns from.
    """
    rng = random.Random(1)
    made = []
    for number in range(150):
        label = "abc"[number % 3]
        words = rng.sample(CLASSES[label], 3) + rng.sample(NOISE, 5)
        rng.shuffle(words)
        text = ". ".join(" ".join(words[i : i + 2]) for i in range(0, len(words), 2))
        made.append({"id": str(number), "title": " ".join(words[:2]), "text": text, "label": label})
    return made


@pytest.fixture
def corpus(here: Path) -> None:
    """Write the files that the page names to the working directory."""
    rng, made = random.Random(2), documents()
    write_lines(here / "docs.jsonl", made)
    save_vectors(here / "words", [document["text"] for document in made])
    write_lines(here / "pictures.jsonl", pictures())
    questions, judgements = [], ["query-id\tcorpus-id\tscore"]
    for number in range(4 * len(made)):
        # noise words of other documents, which a network can learn to ignore
        document = made[number % len(made)]
        content = [word for word in document["text"].replace(".", "").split() if word not in NOISE]
        questions.append({"_id": f"q{number}", "text": " ".join([*content, *rng.sample(NOISE, 3)])})
        judgements.append(f"q{number}\t{document['id']}\t1")
    folder = here / "questions"
    folder.mkdir()
    write_lines(folder / "corpus.jsonl", [{"_id": document["id"], **document} for document in made])
    write_lines(folder / "queries.jsonl", questions)
    (folder / "qrels.tsv").write_text("\n".join(judgements) + "\n", "utf-8")
    letters = "abcdefghijklmnopqrstuvwxyz"
    save_sentence_transformer(here / "transformer", [*letters, *(f"##{letter}" for letter in letters)])
    pairs = [f"t\t{score}\t{made[i]['text']}\t{made[i + score]['text']}" for i in range(20) for score in (0, 3)]
    (here / "pairs.tsv").write_text("\n".join(["task\tscore\tsentence1\tsentence2", *pairs]) + "\n", "utf-8")


def pictures() -> list[dict[str, Any]]:
    """Return 90 labelled documents with a bag of six vectors each.

    Two vectors of a bag are near the centre of the document's class. The other four do not depend on the class.
    """
    rng = random.Random(3)
    # the mean of a bag says little about its class, because the common vectors are long
    centres: dict[str, list[float]] = {label: [rng.gauss(0, 1) for _ in range(5)] for label in CLASSES}
    common = {f"common {number}": [rng.gauss(0, 3) for _ in range(5)] for number in range(6)}
    centres |= common
    made = []
    for number in range(90):
        label = "abc"[number % 3]
        sources = [label, label, *rng.choices(list(common), k=4)]
        patches = [[value + rng.gauss(0, 0.3) for value in centres[source]] for source in sources]
        made.append({"id": str(number), "title": f"picture of {label}", "patches": patches, "label": label})
    return made


@pytest.fixture
def client(opensearch_url: str) -> Iterator[OpenSearch]:
    """Yield a client of the cluster, and remove afterwards what the page installs and creates."""
    client = OpenSearch(opensearch_url)
    yield client
    client.indices.delete(index=",".join(INDICES), params={"ignore_unavailable": "true"})
    with suppress(resift.ResiftError):
        resift.uninstall(opensearch_url).run()
    client.close()


@pytest.fixture
def terminal(corpus: None, opensearch_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServingTerminal]:
    """Yield a terminal in the folder of the corpus, whose commands reach the cluster and their own service."""
    terminal = ServingTerminal(monkeypatch, {})
    service = f"127.0.0.1:{terminal.port}"
    terminal.replaced = {
        "http://localhost:9200": opensearch_url,
        "127.0.0.1:8080": service,
        "resift install": f"resift install --service http://{service}",
        # With all packaged vectors, these commands would take ten times as long. `resift train emboost` without
        # network=fcrr still trains with them.
        "layers=0.5 resift-en": "layers=0.5 words",
        "--set network=fcrr": "--set network=fcrr --vectors words",
    }
    with terminal.stack:
        yield terminal


def test_the_commands_of_the_page_take_a_corpus_to_a_search(terminal: ServingTerminal, client: OpenSearch) -> None:
    terminal.run_page(PAGE.name)
    for name in OTHERS:
        for command in (
            f"resift index docs.jsonl --index resift-{name} --model {name}",
            f"resift search resift-{name} 'violin iron' --model {name}",
        ):
            status, output = terminal.run(command)
            assert status == 0, output
    answers = [json.loads(output) for output in terminal.transcript.values() if output.startswith('{"took"')]
    assert len(answers) >= 6
    assert all(answer["hits"]["hits"] for answer in answers), answers
    nearest_pictures = next(answer for answer in answers if answer["hits"]["hits"][0]["_index"] == "resift-faces")
    assert [hit["_source"]["title"] for hit in nearest_pictures["hits"]["hits"]] == ["picture of a"] * 10
    check_indices(client)


def check_indices(client: OpenSearch) -> None:
    """Check that every index of the page has a k-NN field, and that every document with text has a vector."""
    for name, entry in client.indices.get(index=",".join(INDICES)).items():
        assert entry["mappings"]["properties"]["resift_vector"]["type"] == "knn_vector", name
        have = {"query": {"exists": {"field": "resift_vector"}}}
        assert client.count(index=name, body=have)["count"] >= (90 if name == "resift-faces" else 150), name
    assert client.exists(index="resift-boew", id="new")
