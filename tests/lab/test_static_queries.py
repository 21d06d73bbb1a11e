"""Tests of static queries: their training, the cache of a teacher's vectors, and the kinds of teachers."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tiny_transformer import save_sentence_transformer

from resift import WordVectors, build_model
from resift.arrays import Floats
from resift.cli.main import main
from resift.encoders.queries import StaticQueries
from resift.encoders.registry import load_model
from resift.encoders.tables import build_table, plain_mean_table
from resift.errors import BadInput, DimensionMismatch, TeacherUnavailable
from resift.vectors.similarity import unit_rows
from resift_lab.evaluation.registry import SystemSource, load_system
from resift_lab.training.options import QueryOptions
from resift_lab.training.queries import EncodedDocuments, draw_passages, train_queries
from resift_lab.training.systems import system_builders
from resift_lab.training.teachers import CALL, Teacher, endpoint_teacher

TOPICS = [[f"topic{topic}x{word}" for word in range(12)] for topic in range(8)]
NOISE = [f"noise{i}" for i in range(40)]
FAST = QueryOptions(texts=900, min_steps=60, batch=64)
RNG = np.random.default_rng(0)
# the teacher's vector of each word
MEANING = {word: RNG.normal(size=12) + 3 * (i == np.arange(12)) for i, topic in enumerate(TOPICS) for word in topic}
MEANING |= {word: 0.2 * RNG.normal(size=12) for word in NOISE}


def documents(count: int, seed: int) -> list[str]:
    """Return texts of 8 words of a topic and 12 noise words."""
    rng = np.random.default_rng(seed)
    drawn = ([*rng.choice(TOPICS[i % 8], 8), *rng.choice(NOISE, 12)] for i in range(count))
    return [" ".join(rng.permutation(words)) for words in drawn]


def teach(texts: Sequence[str]) -> Floats:
    """Return vectors that depend on the order of words and that all have positive components.

    A weighted mean of word vectors can only approximate them.
    """
    rows = []
    for text in texts:
        words = [MEANING.get(word, np.zeros(12)) for word in text.removeprefix("query: ").split()]
        rows.append(np.tanh(sum((word * 0.98**i for i, word in enumerate(words)), np.zeros(12))) + 1)
    return np.array(rows, np.float32)


@pytest.fixture(scope="module")
def table() -> WordVectors:
    """Return random vectors for all words of the documents but one, and for a word that is in no document."""
    words = [*NOISE, *(word for topic in TOPICS for word in topic if word != TOPICS[-1][-1]), "elsewhere"]
    return build_table(words, np.random.default_rng(1).normal(size=(len(words), 16)).astype(np.float32), "zipf")


@pytest.fixture(scope="module")
def taught(table: WordVectors) -> StaticQueries:
    """Return static queries that were trained on 160 documents with their vectors."""
    texts = documents(160, 2)
    return train_queries(EncodedDocuments(texts, teach(texts), "embedding"), Teacher("t", teach), table, FAST)


def test_query_vectors_come_close_to_the_teachers_vectors(taught: StaticQueries, tmp_path: Path) -> None:
    found = taught.table.info["taught"]
    assert not found["worse"]
    assert found["mrr_before"] < found["mrr_after"]
    assert 0 < found["p"] <= 1
    assert (found["documents"], found["words"], found["held_out"]) == (160, 136, 16)
    assert found["texts"] <= FAST.texts
    fresh = documents(40, 9)
    teacher = teach(fresh) / np.linalg.norm(teach(fresh), axis=1, keepdims=True)
    assert (taught.encode(fresh) * teacher).sum(axis=1).mean() > 0.9
    again = load_model(taught.save(tmp_path / "queries"))
    assert isinstance(again, StaticQueries)
    assert (again.hash, again.teacher, again.field, again.alpha) == (taught.hash, "t", "embedding", taught.alpha)


def test_the_hash_names_teacher_and_field(taught: StaticQueries) -> None:
    names = (("t", "embedding"), ("u", "embedding"), ("t", "v"))
    hashes = {StaticQueries(taught.table, *each, taught.centre).hash for each in names}
    assert len(hashes) == 3
    assert taught.hash in hashes
    assert StaticQueries(taught.table, "t", "embedding").hash not in hashes, "the centre is part of the hash"
    assert build_model("mean", taught.table).hash not in hashes


def test_the_same_seed_gives_the_same_queries(table: WordVectors) -> None:
    texts = documents(60, 3)
    first, second, other = (
        train_queries(
            EncodedDocuments(texts), Teacher("t", teach), table, QueryOptions(texts=300, min_steps=5, seed=seed)
        )
        for seed in (1, 1, 2)
    )
    assert first.hash == second.hash != other.hash
    assert first.field is None
    assert first.table.info["taught"]["mrr_teacher"] > 0.3, "a passage finds another passage of its document"


def test_words_of_the_general_table_have_a_vector(taught: StaticQueries) -> None:
    assert taught.encode_one("elsewhere").any()
    assert taught.encode_one(TOPICS[-1][-1]).any(), "the general table lacks the word, but a document contains it"
    assert not taught.encode_one("unheard").any()


def test_a_teacher_with_similar_vectors_teaches_as_much_with_more_weight(table: WordVectors, tmp_path: Path) -> None:
    """Test a teacher such as e5, whose cosines are all between 0.7 and 0.9."""
    texts, cone = documents(160, 2), np.full(12, 9, np.float32)

    def narrow(asked: Sequence[str]) -> Floats:
        return teach(asked) + cone

    wide = train_queries(EncodedDocuments(texts, teach(texts)), Teacher("t", teach), table, FAST)
    model = train_queries(EncodedDocuments(texts, narrow(texts)), Teacher("n", narrow), table, FAST)
    found, usual = model.table.info["taught"], wide.table.info["taught"]
    assert found["spread"] < usual["spread"] / 4
    assert found["mrr_after"] > 0.9 * usual["mrr_after"]
    fresh = documents(40, 9)
    cosines = {kind: each.encode(fresh) @ unit_rows(vectors(texts)).T for kind, each, vectors in
               (("wide", wide, teach), ("narrow", model, narrow))}  # fmt: skip
    weights = {"wide": wide.alpha / (1 - wide.alpha), "narrow": model.alpha / (1 - model.alpha)}
    weighed = {kind: weights[kind] * cosines[kind].std(axis=1).mean() for kind in cosines}
    assert weighed["narrow"] == pytest.approx(weighed["wide"], rel=0.15), "both weigh the same relative to BM25"
    assert model.alpha < model.max_alpha < 1
    again = load_model(model.save(tmp_path / "narrow"))
    assert (again.hash, again.alpha, again.max_alpha) == (model.hash, model.alpha, model.max_alpha)
    np.testing.assert_array_equal(again.encode(fresh), model.encode(fresh))


def test_a_centre_is_added_to_the_direction_of_a_text(taught: StaticQueries) -> None:
    assert taught.centre is not None
    texts = [*documents(3, 4), "unheard", "", " ".join(documents(400, 5))]
    plain = StaticQueries(taught.table, "t").encode(texts)
    expected = unit_rows(np.where(plain.any(axis=1, keepdims=True), plain + taught.centre, 0))
    np.testing.assert_allclose(taught.encode(texts), expected, atol=1e-6)
    one_by_one = np.array([taught.encode_one(text) for text in texts])
    np.testing.assert_allclose(one_by_one, expected, atol=1e-6)
    assert not expected[3:5].any()
    assert taught._encode_short(texts[0]) is not None, "the centre needs no slower method"
    assert not taught.is_plain_mean
    assert plain_mean_table(StaticQueries(taught.table, "t")) is taught.table
    with pytest.raises(BadInput, match="not means of word vectors"):
        plain_mean_table(taught)
    with pytest.raises(DimensionMismatch, match=r"centre has the shape \(3,\)"):
        StaticQueries(taught.table, "t", None, np.ones(3))


def test_a_query_model_refuses_to_encode_documents(taught: StaticQueries) -> None:
    with pytest.raises(BadInput, match=r"queries only.* vectors of t") as refused:
        taught.require_documents()
    assert "'embedding'" in str(refused.value)


def test_passages_are_consecutive_words_of_a_text() -> None:
    texts = ["One, two: three FOUR-five six.", "solo", "", "東京タワー と 京都", "a b c"]
    parts = draw_passages(texts, np.array([0, 1, 2, 3, 4]), 40, np.random.default_rng(0))
    assert {part.document for part in parts} == {0, 3, 4}
    assert all(part.text in texts[part.document] for part in parts)
    assert len({part.text for part in parts}) == len(parts)
    assert {"b c", "a b c"} <= {part.text for part in parts}
    assert not any(part.text[0] in " ,:-." or part.text[-1] in " ,:-." for part in parts)
    many = draw_passages([" ".join(NOISE)] * 3, np.arange(3), 50, np.random.default_rng(0))
    assert len(many) == 50
    assert {len(part.text.split()) for part in many} <= set(range(2, 41))
    assert [part.document for part in many[:3]] == [0, 1, 2], "texts take turns"


@pytest.mark.parametrize(
    ("texts", "vectors", "expected"),
    [
        (["fire"] * 40, None, "0 documents of 2 words or more"),
        (["noise0 noise1"] * 40, None, "no held-out document has two different passages"),
        (
            documents(40, 4),
            np.random.default_rng(5).normal(size=(40, 12)),
            "t returns vectors that find only . of 16 documents",
        ),
        (documents(40, 4), np.ones((40, 7)), "12 dimensions, but the documents' vectors have 7"),
    ],
)
def test_unusable_training_documents_are_refused(
    table: WordVectors, texts: list[str], vectors: Floats | None, expected: str
) -> None:
    with pytest.raises(BadInput, match=expected):
        train_queries(EncodedDocuments(texts, vectors), Teacher("t", teach), table, FAST)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (np.zeros(3), r"t returned vectors of shape .* for 2 texts"),
        (np.zeros((1, 4)), r"t returned vectors of shape .* for 2 texts"),
        (np.zeros((2, 0)), r"t returned vectors of shape .* for 2 texts"),
        (np.array([[1.0, 2], [1, np.nan]]), "t returned NaN or Infinity for 'b'"),
        (np.array([[1.0, np.inf], [1, 2]]), "t returned NaN or Infinity for 'a'"),
    ],
)
def test_a_teacher_without_vectors_is_refused(answer: Floats, expected: str) -> None:
    with pytest.raises(BadInput, match=expected):
        Teacher("t", lambda texts: answer).vectors(["a", "b"])


@pytest.mark.parametrize("scale", [1e-30, 1e-9, 1e5, 1e30])
def test_the_length_of_a_teachers_vectors_does_not_matter(tmp_path: Path, scale: float) -> None:
    texts = documents(4, 1)
    taught = Teacher("t", lambda texts: np.multiply(scale, teach(texts), dtype=np.float64), tmp_path / "memory")
    for _ in ("asked", "remembered"):
        np.testing.assert_allclose(taught.vectors(texts), unit_rows(teach(texts)), atol=1e-3)


def test_zero_vectors_teach_nothing(table: WordVectors) -> None:
    """Test a static teacher that does not know some words."""
    texts = documents(160, 2)

    def forgetful(asked: Sequence[str]) -> Floats:
        return teach(asked) * np.array([[not text.startswith("noise")] for text in asked], np.float32)

    model = train_queries(EncodedDocuments(texts), Teacher("t", forgetful), table, FAST)
    whole = train_queries(EncodedDocuments(texts), Teacher("t", teach), table, FAST)
    fresh = documents(40, 9)
    alike = [(each.encode(fresh) * unit_rows(teach(fresh))).sum(axis=1).mean() for each in (model, whole)]
    assert alike[0] > alike[1] - 0.02


def test_the_teachers_vectors_are_cached(tmp_path: Path) -> None:
    asked: list[str] = []

    def counted(texts: Sequence[str]) -> Floats:
        if len(asked) >= 2 * CALL:
            raise TeacherUnavailable("gone")
        asked.extend(texts)
        return teach(texts)

    texts = documents(3 * CALL, 6)
    with pytest.raises(TeacherUnavailable):
        Teacher("t", counted, tmp_path / "memory").vectors(texts)
    del asked[:CALL]
    found = Teacher("t", counted, tmp_path / "memory").vectors(texts)
    assert asked == texts[CALL:], "each text was encoded once, before the interruption or after it"
    np.testing.assert_allclose(found, Teacher("t", teach).vectors(texts), atol=1e-3)
    (tmp_path / "memory" / sorted(path.name for path in (tmp_path / "memory").iterdir())[0]).write_bytes(b"")
    asked.clear()
    np.testing.assert_array_equal(Teacher("t", counted, tmp_path / "memory").vectors(texts), found)
    assert len(asked) == CALL
    asked.clear()
    Teacher("other", counted, tmp_path / "memory").vectors(texts[:CALL])
    Teacher("t", counted, tmp_path / "memory", "query: ").vectors(texts[:CALL])
    assert len(asked) == 2 * CALL
    assert asked[-1].startswith("query: ")


@pytest.fixture
def endpoint() -> Iterator[tuple[str, list[int]]]:
    """Start an endpoint that needs a key and returns its rows in reverse order.

    Yields the URL, and a list of statuses to fail with before requests succeed.
    """
    busy: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        """A handler that answers like OpenAI's endpoint."""

        def do_POST(self) -> None:
            """Answer with vectors."""
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status = busy.pop() if busy else 200 if self.headers["Authorization"] == "Bearer secret" else 401
            rows = [{"index": i, "embedding": row.tolist()} for i, row in enumerate(teach(body["input"]))]
            answer = {"data": rows[::-1], "model": body["model"]} if status == 200 else {"error": "no"}
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1", busy
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_endpoint_teaches(endpoint: tuple[str, list[int]]) -> None:
    url, busy = endpoint
    busy.append(503)
    texts = documents(5, 7)
    np.testing.assert_allclose(endpoint_teacher(url, "m", "secret")(texts), teach(texts), rtol=1e-6)
    with pytest.raises(TeacherUnavailable, match=r"401.*no") as refused:
        endpoint_teacher(url, "m", "wrong")(texts)
    assert "wrong" not in str(refused.value)
    with pytest.raises(TeacherUnavailable, match="embeddings"):
        endpoint_teacher("http://127.0.0.1:1/v1", None, None)(texts)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (lambda texts: np.ones((len(texts), 12)), "the same vector for 136 different texts.*vectors that differ"),
        (lambda texts: np.ones((len(texts), 12)) * RNG.uniform(1, 9, (len(texts), 1)), "the same vector for"),
        (lambda texts: np.zeros((len(texts), 12)), "the same vector for"),
        (lambda texts: np.eye(CALL, 12 if "noise0" in texts else 13)[: len(texts)], "of 12 dimensions and of 13"),
    ],
)
def test_unusable_vectors_of_a_teacher_are_refused_and_not_cached(
    tmp_path: Path, table: WordVectors, endpoint: tuple[str, list[int]], monkeypatch: pytest.MonkeyPatch,
    rows: Callable[[Sequence[str]], Floats], expected: str,
) -> None:  # fmt: skip
    corpus, out = tmp_path / "corpus.jsonl", tmp_path / "queries"
    corpus.write_text("\n".join(json.dumps({"text": f"noise0 {text}"}) for text in documents(80, 8)), "utf-8")
    command = ["train", "queries", "--corpus", str(corpus), "--teacher", endpoint[0]]
    command += ["--teacher-model", "m", "--vectors", str(table.save(tmp_path / "small")), "--out", str(out)]
    monkeypatch.setattr(sys.modules[__name__], "teach", rows)
    monkeypatch.setenv("RESIFT_TEACHER_KEY", "secret")
    refused = CliRunner().invoke(main, command)
    assert refused.exit_code == 2, refused.output
    assert re.search(f"Error: {endpoint[0]} m returns.*{expected}", " ".join(refused.stderr.split())), refused.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.jsonl", "small"}


def test_the_command_learns_from_a_folder_and_is_measured_with_it(tmp_path: Path, table: WordVectors) -> None:
    words = [*NOISE, *(word for topic in TOPICS for word in topic)]
    teacher = str(save_sentence_transformer(tmp_path / "teacher", words))
    texts, corpus, out = documents(80, 8), tmp_path / "corpus.jsonl", tmp_path / "queries"
    corpus.write_text("\n".join(json.dumps({"text": text}) for text in texts), "utf-8")
    command = [
        "train",
        "queries",
        "--corpus",
        str(corpus),
        "--teacher",
        teacher,
        "--set",
        "texts=400",
        "--out",
        str(out),
    ]
    done = CliRunner().invoke(main, [*command, "--vectors", str(table.save(tmp_path / "small")), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["model"]["hash"] == load_model(out).hash
    assert not Path(f"{out}.teacher").exists(), "the cache is removed after the training"
    transformer = system_builders()["st"](SystemSource("", 0), teacher)
    model = StaticQueries(table, teacher)
    system = load_system(model.save(tmp_path / "model"), None, system_builders())
    np.testing.assert_allclose(system.fit(texts[:4]), transformer.fit(texts[:4]), atol=1e-6)
    np.testing.assert_allclose(system.encode_queries(texts[:4]), model.encode(texts[:4]))
    with pytest.raises(BadInput, match="expected the folder of a sentence-transformers model"):
        load_system(StaticQueries(table, "http://host/v1").save(tmp_path / "other"), None, system_builders())


def test_training_that_worsens_the_ranks_is_not_used(table: WordVectors) -> None:
    texts, harmful = documents(160, 3), replace(FAST, rate=3.0, weight_rate=3.0)
    kept = train_queries(EncodedDocuments(texts, teach(texts)), Teacher("t", teach), table, harmful)
    start = train_queries(
        EncodedDocuments(texts, teach(texts)), Teacher("t", teach), table, replace(FAST, rate=0.0, weight_rate=0.0)
    )
    assert kept.table.info["taught"]["worse"]
    assert not start.table.info["taught"]["worse"]
    np.testing.assert_allclose(kept.encode(texts), start.encode(texts), atol=1e-6)


def test_documents_of_unknown_words_can_be_learned_from(table: WordVectors) -> None:
    strange = build_table(["of", "another", "language"], np.eye(3, 8, dtype=np.float32))
    texts = documents(60, 3)
    model = train_queries(EncodedDocuments(texts, teach(texts)), Teacher("t", teach), strange, FAST)
    assert not model.table.info["taught"]["worse"]
    assert "language" not in model.table.index
    few = QueryOptions(texts=120, min_steps=5)
    assert few.texts / 3 < 136, "the teacher encodes only some of the words"
    assert train_queries(EncodedDocuments(texts), Teacher("t", teach), strange, few).encode_one(texts[0]).any()
    assert train_queries(EncodedDocuments(texts), Teacher("t", teach), table, few).encode_one(texts[0]).any()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "there are no documents"),
        (["--corpus", "a", "--index", "b", "--field", "c"], "--corpus and --index b are both set"),
        (["--index", "b"], "--index b is set without --field"),
        (["--corpus", "a", "--field", "c"], "--field c is set without --index"),
        (["--corpus", "a", "--set", "texts=3"], "texts"),
        (["--corpus", "nowhere.jsonl"], "teacher"),
        (["--corpus", "a", "--teacher", "opensearch:x"], "no cluster is set"),
    ],
)
def test_the_command_explains_invalid_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], expected: str
) -> None:
    for name in ("OPENSEARCH_URL", "RESIFT_ENGINE"):
        monkeypatch.delenv(name, raising=False)
    given = ["train", "queries", "--teacher", str(tmp_path / "teacher"), "--out", str(tmp_path / "out"), *arguments]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 2, done.output
    assert expected in done.output
    assert not (tmp_path / "out").exists()
