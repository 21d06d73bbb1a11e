"""``resift eval``: readers, baselines and the three commands, on small files."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner

from resift import Model, WordVectors, build_model
from resift.cli.evaluate import CLASSES, RETRIEVAL, STS, evaluate
from resift.cli.main import Resift
from resift.errors import BadInput
from resift.evaluation.baselines.bm25 import BM25
from resift.evaluation.data import read_classes, read_collection, read_pairs
from resift.evaluation.protocol import hybrid_scores, run_hybrid, run_retrieval
from resift.evaluation.registry import BASELINES, build_system
from resift.evaluation.sts import StsTask, intervals, significance, summary
from resift.ranking.fusion import z_score

TOPICS = {"fire": ["fire", "bush", "flame", "smoke", "forest", "tree"], "war": ["army", "gun", "soldier", "war"]}


@click.group(cls=Resift)
def main() -> None:
    """As resift.cli.main has it."""


main.add_command(evaluate)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def folder(here: Path, vectors: WordVectors) -> str:
    """Saved word vectors."""
    return str(vectors.save(here / "vectors"))


def run(*arguments: str, status: int = 0) -> str:
    """What ``resift eval …`` prints, an error's message if it fails."""
    result = CliRunner().invoke(main, ["eval", *arguments])
    assert result.exit_code == status, result.output
    return result.stdout if status == 0 else result.output


def loaded(*arguments: str) -> dict[str, Any]:
    """The one JSON object that ``--json`` prints."""
    found: dict[str, Any] = json.loads(run(*arguments, "--json"))
    return found


def write_lines(path: Path, records: list[dict[str, Any]]) -> str:
    """JSON lines, packed if the name says so."""
    data = "".join(f"{json.dumps(record)}\n" for record in records).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def documents(count: int, seed: int) -> list[dict[str, Any]]:
    """Labelled documents of a topic's words, with words of no topic."""
    rng = np.random.default_rng(seed)
    return [
        {
            "id": f"d{i}",
            "text": " ".join([*rng.choice(TOPICS[label], 4), *rng.choice(["the", "of", "a"], 4)]),
            "label": label,
        }
        for i, label in enumerate(rng.choice(list(TOPICS), count))
    ]


@pytest.fixture
def corpus(here: Path) -> list[str]:
    """--train and --test."""
    train = write_lines(here / "train.jsonl.gz", documents(40, 0))
    return ["--train", train, "--test", write_lines(here / "test.jsonl", documents(15, 1))]


@pytest.fixture
def pairs(here: Path) -> str:
    """Sentence pairs of two tasks."""
    rng = np.random.default_rng(3)
    lines = ["task\tscore\tsentence1\tsentence2"]
    for i in range(40):
        first, second = rng.choice(list(TOPICS), 2)
        left, right = (" ".join(rng.choice(TOPICS[topic], 3)) for topic in (first, second))
        lines.append(f'{"ab"[i % 2]}\t{4 * (first == second) + rng.random():.2f}\t{left} "the\t{right}')
    path = here / "own.tsv.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return str(path)


@pytest.fixture
def collection(here: Path) -> str:
    """A BEIR folder with a query without judgements; some relevant documents share no word with the query."""
    folder = here / "beir"
    (folder / "qrels").mkdir(parents=True)
    texts = [
        "fire in the bush",
        "flame and smoke",
        "tree of the forest",
        "army",
        "a gun",
        "soldier at war",
        "",
        "river",
    ]
    write_lines(folder / "corpus.jsonl", [{"_id": str(i), "title": "", "text": text} for i, text in enumerate(texts)])
    asked = [{"_id": "q1", "text": "bush fire"}, {"_id": "q2", "text": "war"}, {"_id": "q3", "text": "unjudged"}]
    write_lines(folder / "queries.jsonl.gz", asked)
    judged = [("q1", "0", 2), ("q1", "1", 1), ("q1", "3", 0), ("q2", "3", 1), ("q2", "5", 1)]
    rows = "".join(f"{query}\t{document}\t{score}\n" for query, document, score in judged)
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    return str(folder)


def test_classes(corpus: list[str], folder: str) -> None:
    report = loaded("classes", *corpus, "--vectors", folder, "--compare", "tfidf")
    assert {*CLASSES, "precision_recall", "precision_scope"} <= set(report)
    assert (report["queries"], report["documents"], report["classes"], report["skipped"]) == (15, 40, 2, 0)
    assert report["map11"] > 0.9
    low, high = report["intervals"]["map11"]
    assert 0 <= low <= report["map11"] <= high <= 1
    compare = report["compare"]
    assert compare["difference"]["map11"] == pytest.approx(report["map11"] - compare["map11"])
    assert 0 < compare["p"]["map11"] <= 1
    assert len(report["precision_recall"]) == 11
    assert np.mean(report["precision_recall"]) == pytest.approx(report["map11"])
    table = run("classes", *corpus, "--vectors", folder, "--compare", "tfidf")
    assert f"{report['map11']:.4f}" in table
    assert f"{compare['p']['map11']:.4f}" in table


def test_unknown_labels_are_left_out(here: Path, corpus: list[str], folder: str) -> None:
    extra = write_lines(here / "t.jsonl", [*documents(5, 1), {"id": 1, "text": "fire", "label": "new"}])
    report = loaded("classes", *corpus[:2], "--test", extra, "--vectors", folder)
    assert (report["queries"], report["skipped"]) == (5, 1)
    assert "1 queries of a label that no training" in run("classes", *corpus[:2], "--test", extra, "--vectors", folder)
    only = write_lines(here / "t.jsonl", [{"id": 1, "text": "fire", "label": "new"}])
    assert "no test document's label" in run("classes", *corpus[:2], "--test", only, "--vectors", folder, status=1)


SYSTEMS = (
    "mean",
    "boew:3",
    "sfbow",
    "tfidf",
    "tfidf:2",
    "tfidf-stop",
    "bm25",
    "lsi:2",
    "lsi:500,1",
    "pv-dbow:5",
    "mean-plain",
    "sif",
    "model2vec",
)


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_on_every_task(
    name: str, corpus: list[str], pairs: str, collection: str, folder: str, here: Path
) -> None:
    empty = write_lines(here / "more.jsonl", [*documents(20, 1), {"id": "e", "text": "", "label": "war"}])
    choice = ["--encoder", name, "--vectors", folder]
    runs = (["classes", *corpus[:2], "--test", empty], ["sts", pairs], ["retrieval", collection])
    for arguments, metrics in zip(runs, (CLASSES, STS, RETRIEVAL), strict=True):
        report = loaded(*arguments, *choice)
        assert all(-1 <= report[metric] <= 1 for metric in metrics)
        assert report == loaded(*arguments, *choice)


def test_repeats_in_another_process(corpus: list[str]) -> None:
    code = "import sys; from resift.cli.evaluate import evaluate; evaluate()"
    command = [sys.executable, "-c", code, "classes", *corpus, "--encoder", "pv-dbow:5", "--seed", "3", "--json"]
    assert json.loads(subprocess.run(command, capture_output=True, check=True).stdout) == loaded(*command[3:-1])
    assert loaded(*command[3:-1]) != loaded(*command[3:-1], "--seed", "4")


def test_saved_models_and_similarities(here: Path, corpus: list[str], pairs: str, folder: str, model: Model) -> None:
    saved = str(model.save(here / "saved"))
    own = loaded("classes", *corpus, "--vectors", folder)
    assert own["map11"] == loaded("classes", *corpus, "--model", saved)["map11"]
    assert own["map11"] == loaded("classes", *corpus, "--encoder", saved)["map11"]
    other = loaded("classes", *corpus, "--model", saved, "--similarity", "jaccard")["intervals"]
    assert other != own["intervals"]
    pair = loaded("sts", pairs, "--model", saved, "--similarity", "dynamax", "--compare", "sfbow", "--vectors", folder)
    assert pair["spearman"] == loaded("sts", pairs, "--encoder", "dynamax", "--vectors", folder)["spearman"]
    assert pair["compare"]["difference"]["pearson"] == pytest.approx(pair["pearson"] - pair["compare"]["pearson"])


def test_sts_averages(here: Path, pairs: str, folder: str) -> None:
    (here / "plain.tsv").write_text("score\tsentence2\tsentence1\n5\tfire\tfire\n0\tfire\tgun\n4\tarmy\tsoldier\n")
    report = loaded("sts", pairs, "plain.tsv", "--vectors", folder)
    assert set(report["files"]) == {"own", "plain"}
    assert set(report["tasks"]) == {"own/a", "own/b", "plain/plain"}
    assert report["pairs"] == 43
    tasks = report["tasks"].values()
    weights = [task["pairs"] for task in tasks]
    assert report["spearman"] == pytest.approx(np.average([task["spearman"] for task in tasks], weights=weights))
    files = report["files"].values()
    weights = [file["pairs"] for file in files]
    assert report["spearman_all"] == pytest.approx(np.average([f["spearman_all"] for f in files], weights=weights))
    plain = report["files"]["plain"]
    assert plain["spearman"] == plain["spearman_all"]
    low, high = report["intervals"]["spearman"]
    assert low <= report["spearman"] <= high
    table = run("sts", pairs, "plain.tsv", "--vectors", folder)
    assert "own/a" in table


def test_tasks_of_one_pair_have_no_correlation() -> None:
    tasks = [StsTask("f", "one", np.array([0.5]), np.array([1.0])), StsTask("f", "two", np.arange(9.0), np.arange(9.0))]
    found = summary(tasks)
    assert found["spearman"] == pytest.approx(1)
    assert found["pairs"] == 10
    assert found["tasks"]["f/one"]["spearman"] is None
    assert intervals(tasks, 0)["pearson"] == pytest.approx((1, 1))


def test_significance_of_correlations() -> None:
    rng = np.random.default_rng(0)
    gold = rng.random(200)
    good, poor = gold + 0.1 * rng.random(200), gold + 5 * rng.random(200)
    first, second = [StsTask("f", "t", good, gold)], [StsTask("f", "t", poor, gold)]
    assert significance(first, second, 0)["spearman"] < 0.01
    assert significance(first, first, 0) == {"spearman": 1, "pearson": 1}
    rescaled = [StsTask("f", "t", 3 * good - 7, gold)]
    assert significance(first, rescaled, 0) == {"spearman": 1, "pearson": 1}


def test_retrieval_by_hand(collection: str, folder: str) -> None:
    report = loaded("retrieval", collection, "--encoder", "bm25")
    assert (report["queries"], report["documents"], report["skipped"]) == (2, 8, 1)
    # q1 "bush fire": document 0 first, 1 has no term and follows by position; q2 "war": 5, then 3 after 0, 1, 2.
    discount = 1 / np.log2(np.arange(10) + 2)
    ndcg = [1.0, (discount[0] + discount[4]) / (discount[0] + discount[1])]
    assert report["ndcg@10"] == pytest.approx(np.mean(ndcg))
    assert report["map"] == pytest.approx(np.mean([1, (1 + 2 / 5) / 2]))
    assert (report["recall@1"], report["recall@5"], report["mrr@10"]) == (0.5, 1, 1)
    assert "1 queries without a relevant document" in run("retrieval", collection, "--encoder", "bm25")


def test_hybrid_finds_what_either_misses(collection: str, folder: str) -> None:
    report = loaded("retrieval", collection, "--hybrid", "--vectors", folder, "--compare", "bm25")
    assert set(report["alone"]) == {"mean", "bm25"}
    assert report["map"] >= max(alone["map"] for alone in report["alone"].values())
    assert report["compare"]["map"] == report["alone"]["bm25"]["map"] < report["map"]
    alphas = {a: loaded("retrieval", collection, "--hybrid", "--vectors", folder, "--alpha", a) for a in ("0", "1")}
    for alpha, name in (("0", "bm25"), ("1", "mean")):
        assert {key: alphas[alpha][key] for key in RETRIEVAL} == alphas[alpha]["alone"][name]
    assert "mean alone" in run("retrieval", collection, "--hybrid", "--vectors", folder)


def test_mix_of_large_collections_considers_either_ranking(monkeypatch: pytest.MonkeyPatch) -> None:
    lexical, semantic = np.array([3.0, 2, 0, 0, 0, 0]), np.array([0, 0.1, 0.2, 0.9, 0.3, 0])
    np.testing.assert_allclose(hybrid_scores(lexical, semantic, 0.3), 0.7 * z_score(lexical) + 0.3 * z_score(semantic))
    monkeypatch.setattr("resift.evaluation.protocol._WHOLE", 5)
    monkeypatch.setattr("resift.evaluation.protocol._CANDIDATES", 2)
    found = hybrid_scores(lexical, semantic, 0.3)
    assert np.isfinite(found).tolist() == [True, True, False, True, True, False]
    kept = [0, 1, 3, 4]
    np.testing.assert_allclose(found[kept], 0.7 * z_score(lexical[kept]) + 0.3 * z_score(semantic[kept]))


def test_hybrid_in_the_library(collection: str, model: Model, folder: str) -> None:
    read = read_collection(collection)
    mixed, bm25, vectors = run_hybrid(build_system("mean", folder), read, 0.3)
    np.testing.assert_array_equal(bm25.values["map"], run_retrieval(build_system("bm25"), read).values["map"])
    np.testing.assert_array_equal(
        vectors.values["map"], run_retrieval(build_system("mean", folder), read).values["map"]
    )
    assert mixed.facts["alpha"] == 0.3
    with pytest.raises(BadInput, match="itself"):
        run_hybrid(build_system("bm25"), read)
    with pytest.raises(BadInput, match="alpha"):
        run_hybrid(build_system("mean", folder), read, 1.5)


def test_bm25_by_its_formula() -> None:
    texts = ["whale whale sea", "sea boat", "boat boat boat boat"]
    bm25 = BM25(k1=1.2, b=0.75)
    rows = bm25.fit(texts)
    scores = (bm25.queries(["the whale's sea", "sea sea"]) @ rows.T).toarray()

    def part(tf: int, length: int, df: int) -> float:
        return float(np.log(1 + (3 - df + 0.5) / (df + 0.5)) * tf / (tf + 1.2 * (0.25 + 0.75 * length / 3)))

    np.testing.assert_allclose(scores[0], [part(2, 3, 1) + part(1, 3, 2), part(1, 2, 2), 0], rtol=1e-6)
    np.testing.assert_allclose(scores[1], [2 * part(1, 3, 2), 2 * part(1, 2, 2), 0], rtol=1e-6)
    np.testing.assert_allclose(bm25.documents(texts).toarray(), rows.toarray())


def test_sif_takes_off_the_common_direction(folder: str) -> None:
    system = build_system("sif", folder)
    texts = [record["text"] for record in documents(30, 0)]
    rows = system.fit(texts)
    np.testing.assert_allclose(system.queries(texts), rows, atol=1e-6)
    values = np.linalg.svd(rows, compute_uv=False)
    assert values[-1] < 1e-5 < values[-2]


def test_pooling_of_means(folder: str, vectors: WordVectors) -> None:
    rows, fire, the = vectors.rows(), vectors.index["fire"], vectors.index["the"]
    for name, weights in (("model2vec", np.log([fire + 2, the + 2])), ("mean-plain", (1, 1))):
        pooled = weights[0] * rows[fire] + 2 * weights[1] * rows[the]
        found = build_system(name, folder).queries(["the fire the"])[0]
        np.testing.assert_allclose(found, pooled / np.linalg.norm(pooled), rtol=1e-5)


def test_sentence_transformers(here: Path, pairs: str) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *TOPICS["fire"], *TOPICS["war"]]
    (here / "vocab.txt").write_text("\n".join(words))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what torch, transformers and their like say on import
        torch = pytest.importorskip("torch")
        transformers = pytest.importorskip("transformers")
        models = pytest.importorskip("sentence_transformers.models")
        sentence_transformers = pytest.importorskip("sentence_transformers")
        torch.manual_seed(0)
        config = transformers.BertConfig(
            vocab_size=len(words),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=32,
        )
        transformers.BertModel(config).save_pretrained(here / "bert")
        transformers.BertTokenizer(str(here / "vocab.txt")).save_pretrained(here / "bert")
        parts = [models.Transformer(str(here / "bert")), models.Pooling(16)]
        sentence_transformers.SentenceTransformer(modules=parts, device="cpu").save(str(here / "st"))
    report = loaded("sts", pairs, "--encoder", f"st:{here / 'st'}")
    assert -1 <= report["spearman"] <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--encoder", "nothing"], "unknown encoder 'nothing'"),
        (["--encoder", "lsi"], "unknown encoder 'lsi'"),
        (["--encoder", "lsi:0"], "unknown encoder 'lsi:0'"),
        (["--encoder", "pv-dbow:ten"], "unknown encoder"),
        (["--encoder", "bm25:3"], "unknown encoder"),
        (["--encoder", "st:nowhere"], "nowhere"),
        (["--encoder", "mean", "--vectors", "nowhere"], "no vectors.json in nowhere"),
        (["--model", "nowhere"], "no model.json in nowhere"),
        (["--model", "x", "--encoder", "mean"], "--model and --encoder"),
        (["--similarity", "euclid"], "unknown similarity 'euclid'"),
        (["--encoder", "tfidf", "--similarity", "jaccard"], "similarity 'jaccard' of word counts"),
        (["--encoder", "dynamax"], "no vectors of documents"),
        (["--compare", "nothing"], "unknown encoder 'nothing'"),
    ],
)
def test_choices_that_make_no_sense(arguments: list[str], message: str, corpus: list[str], folder: str) -> None:
    vectors = [] if "--vectors" in arguments else ["--vectors", folder]
    output = run("classes", *corpus, *vectors, *arguments, status=1)
    assert message in output
    assert "expected: " in output


def test_baselines_are_told(corpus: list[str], folder: str) -> None:
    output = run("classes", *corpus, "--vectors", folder, "--encoder", "nothing", status=1)
    assert all(name in output for name in BASELINES)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no document"),
        (b'{"text": "a"}\n', "line 1: no label"),
        (b'{"text": "a", "label": null}\n', "line 1: no label"),
        (b'\n{"text": 3, "label": "x"}\n', "line 2: no text"),
        (b'{"text": "a", "label": "x"}\n[1]\n', "line 2 is no JSON object"),
        (b"{broken\n", "line 1: "),
        (b"\xff\xfe", "cannot be read"),
        (gzip.compress(b'{"text": "a", "label": "x"}\n')[:-6], "cannot be read"),
    ],
)
def test_malformed_classes(here: Path, content: bytes, message: str) -> None:
    (here / "bad.jsonl").write_bytes(content)
    with pytest.raises(BadInput, match=message) as caught:
        read_classes(here / "bad.jsonl")
    assert caught.value.expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no column score, sentence1, sentence2"),
        ("task\tscore\tsentence1\n", "no column sentence2"),
        ("score\tsentence1\tsentence2\n", "holds no pair"),
        ("score\tsentence1\tsentence2\n1\ta\n", "line 2: 2 columns"),
        ("score\tsentence1\tsentence2\nhigh\ta\tb\n", "line 2: score 'high'"),
        ("score\tsentence1\tsentence2\nnan\ta\tb\n", "line 2: score 'nan'"),
    ],
)
def test_malformed_pairs(here: Path, content: str, message: str) -> None:
    (here / "bad.tsv").write_text(content)
    with pytest.raises(BadInput, match=message) as caught:
        read_pairs(here / "bad.tsv")
    assert caught.value.expected


def test_pairs_that_cannot_be_judged(here: Path, pairs: str, folder: str) -> None:
    (here / "one.tsv").write_text("score\tsentence1\tsentence2\n1\ta\tb\n")
    assert "no task has two pairs" in run("sts", "one.tsv", "--vectors", folder, status=1)
    assert "two files of the same name" in run("sts", pairs, pairs, "--vectors", folder, status=1)
    assert "missing.tsv cannot be read" in run("sts", "missing.tsv", "--vectors", folder, status=1)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("qrels/test.tsv", None, "has no qrels.tsv"),
        ("corpus.jsonl", None, "has no corpus.jsonl"),
        ("corpus.jsonl", "", "is empty"),
        ("corpus.jsonl", '{"_id": "0", "text": "a"}\n{"_id": "0", "text": "b"}\n', "'0' was there before"),
        ("corpus.jsonl", '{"text": "a"}\n', "no _id"),
        ("corpus.jsonl", '{"_id": "0", "title": 3, "text": "a"}\n', "no title"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\t99\t1\n", "document '99' is not in the corpus"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq9\t1\t1\n", "query 'q9' is not among the queries"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\t1\n", "2 columns"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\t1\t0\n", "no query has a relevant document"),
        ("qrels/test.tsv", "q1\t0\t1\n", "its first line"),
    ],
)
def test_malformed_collections(collection: str, name: str, content: str | None, message: str) -> None:
    path = Path(collection, name)
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with pytest.raises(BadInput, match=message) as caught:
        read_collection(collection)
    assert caught.value.expected


def test_qrels_beside_the_corpus_and_titles(collection: str) -> None:
    folder = Path(collection)
    rows = gzip.compress(b"query-id\tcorpus-id\tscore\nq2\t7\t1\n")
    (folder / "qrels.tsv.gz").write_bytes(rows)
    write_lines(folder / "corpus.jsonl", [{"_id": 7, "title": "Rain", "text": "falls"}, {"_id": "8", "text": "x"}])
    found = read_collection(folder)
    assert found.documents == ["Rain falls", "x"]
    assert (found.query_ids, found.grades, found.skipped, found.name) == (["q2"], [{0: 1.0}], 2, "beir")


def test_the_seed_reaches_the_codebook(corpus: list[str], folder: str, vectors: WordVectors) -> None:
    report = loaded("classes", *corpus, "--vectors", folder, "--encoder", "boew:3", "--seed", "5")
    assert report["seed"] == 5
    expected = build_model("boew:3", vectors, 5).encode(["fire"])
    np.testing.assert_array_equal(build_system("boew:3", folder, 5).queries(["fire"]), expected)
