"""Tests of ``resift eval``: systems, tasks, hybrid rankings, and invalid options."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from evaluation_fixtures import documents, loaded, run, write_lines

from resift import Model
from resift.cli.main import main
from resift.errors import BadInput
from resift_lab.commands.evaluate import CLASSES, RETRIEVAL, STS
from resift_lab.commands.served_search import ServedSearch
from resift_lab.evaluation.data import read_collection, read_labelled_documents, read_sentence_pairs
from resift_lab.evaluation.protocol import hybrid_scores, run_classes, run_hybrid, run_retrieval, z_score
from resift_lab.evaluation.registry import BASELINES, build_system, load_system
from resift_lab.evaluation.report import run_report, sts_report
from resift_lab.evaluation.sts import run_sts

pytestmark = pytest.mark.usefixtures("here")


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
    assert "1 queries with a label that no training" in run(
        "classes", *corpus[:2], "--test", extra, "--vectors", folder
    )
    only = write_lines(here / "t.jsonl", [{"id": 1, "text": "fire", "label": "new"}])
    assert "no test document's label" in run("classes", *corpus[:2], "--test", only, "--vectors", folder, status=2)


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


def test_saved_models_and_similarities(here: Path, corpus: list[str], pairs: str, folder: str, model: Model) -> None:
    saved = str(model.save(here / "saved"))
    own = loaded("classes", *corpus, "--vectors", folder)
    assert own["map11"] == loaded("classes", *corpus, "--model", saved)["map11"]
    assert own["map11"] == loaded("classes", *corpus, "--encoder", saved)["map11"]
    train, test = (read_labelled_documents(path) for path in corpus[1::2])
    other = run_classes(load_system(saved, "jaccard"), train, test)
    assert run_report(other, "jaccard", 0)["intervals"] != own["intervals"]
    pair = loaded("sts", pairs, "--encoder", "dynamax", "--compare", "sfbow", "--vectors", folder)
    assert (
        pair["spearman"]
        == sts_report(run_sts(load_system(saved, "dynamax"), [read_sentence_pairs(pairs)]), "", 0)["spearman"]
    )
    assert pair["compare"]["difference"]["pearson"] == pytest.approx(pair["pearson"] - pair["compare"]["pearson"])


def test_retrieval_metrics_of_a_worked_example(collection: str, folder: str) -> None:
    report = loaded("retrieval", collection, "--encoder", "bm25")
    assert (report["queries"], report["documents"], report["skipped"]) == (2, 8, 1)
    # Relevant documents of q1 ("bush fire") are 0 and 1, of q2 ("war") 5 and 3. Documents 1 and 3 contain no query
    # word, so BM25 does not return them.
    first, second = 1, 1 / np.log2(3)
    ndcg = [2 * first / (2 * first + second), first / (first + second)]
    assert report["ndcg@10"] == pytest.approx(np.mean(ndcg))
    assert (report["map"], report["recall@1"], report["recall@100"], report["mrr@10"]) == (0.5, 0.5, 0.5, 1)
    # There is a judgement of an irrelevant document, so the report has metrics that ignore hits without a judgement.
    assert report["condensed_ndcg@10"] == pytest.approx(np.mean(ndcg))
    assert 0 < report["judged@10"] <= 1
    printed = run("retrieval", collection, "--encoder", "bm25")
    assert "1 queries without a relevant document" in printed
    assert "judged@10" in printed


@pytest.mark.parametrize("name", ["mean", "tfidf"])
def test_classes_of_texts_without_a_known_word_warn(here: Path, folder: str, name: str) -> None:
    """Test a warning for queries whose similarities are all 0, so that hits are in the order of the file."""
    train = write_lines(here / "a.jsonl", [{"text": text, "label": text} for text in ("fire", "army")])
    rows = [{"text": "пожар", "label": "fire"}, {"text": "", "label": "army"}, {"text": "army", "label": "army"}]
    test = write_lines(here / "b.jsonl", rows)
    choice = ["classes", "--train", train, "--test", test, "--encoder", name, "--vectors", folder]
    assert loaded(*choice)["unknown"] == 2
    ran = CliRunner().invoke(main, ["eval", *choice])
    assert f"2 of 3 test documents have no word that {name} knows" in ran.stderr


def test_a_query_without_a_known_word_finds_nothing(here: Path, folder: str) -> None:
    """Test that equal similarities of 0 do not rank documents by their order in the file."""
    write_lines(here / "corpus.jsonl", [{"_id": str(row), "text": text} for row, text in enumerate(["army", "river"])])
    write_lines(here / "queries.jsonl", [{"_id": "q", "text": "пожар"}, {"_id": "r", "text": "army"}])
    (here / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\t0\t1\nr\t0\t1\n")
    for name in ("mean", "tfidf", "bm25"):
        assert loaded("retrieval", str(here), "--encoder", name, "--vectors", folder)["recall@100"] == 0.5
    assert loaded("retrieval", str(here), "--hybrid", "--vectors", folder)["alone"]["mean"]["map"] == 0.5


def test_hybrid_finds_what_either_misses(collection: str, folder: str) -> None:
    report = loaded("retrieval", collection, "--hybrid", "--vectors", folder, "--compare", "bm25")
    assert set(report["alone"]) == {"mean", "bm25"}
    assert report["compare"]["map"] == report["alone"]["bm25"]["map"]
    # Systems that count words are combined with BM25 by z-scores. A weight of 1 means the system alone.
    counted = loaded("retrieval", collection, "--hybrid", "--encoder", "tfidf", "--vectors", folder, "--alpha", "1")
    alone = counted["alone"]["tfidf"]
    assert set(RETRIEVAL) < set(alone)
    assert {key: counted[key] for key in alone} == alone
    assert "mean alone" in run("retrieval", collection, "--hybrid", "--vectors", folder)


def test_hybrid_evaluation_equals_the_services_search(here: Path, folder: str) -> None:
    texts = ["fire bush bush", "fire flame smoke", "army", "war gun"]
    write_lines(here / "corpus.jsonl", [{"_id": str(row), "text": text} for row, text in enumerate(texts)])
    write_lines(here / "queries.jsonl", [{"_id": "q", "text": "fire"}])
    (here / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\nq\t2\t1\n")
    read = read_collection(here)
    for alpha in (0.0, 0.5, 1.0):
        mixed, _, _ = run_hybrid(build_system("mean", folder), read, alpha, ServedSearch)
        # documents without the query word are not returned, even if their vectors are similar
        assert mixed.values["recall@100"].tolist() == [0.5]


def test_large_collections_combine_the_best_of_both_rankings(monkeypatch: pytest.MonkeyPatch) -> None:
    lexical, semantic = np.array([3.0, 2, 0, 0, 0, 0]), np.array([0, 0.1, 0.2, 0.9, 0.3, 0])
    np.testing.assert_allclose(hybrid_scores(lexical, semantic, 0.3), 0.7 * z_score(lexical) + 0.3 * z_score(semantic))
    monkeypatch.setattr("resift_lab.evaluation.protocol._WHOLE", 5)
    monkeypatch.setattr("resift_lab.evaluation.protocol._CANDIDATES", 2)
    found = hybrid_scores(lexical, semantic, 0.3)
    assert np.isfinite(found).tolist() == [True, True, False, True, True, False]
    kept = [0, 1, 3, 4]
    np.testing.assert_allclose(found[kept], 0.7 * z_score(lexical[kept]) + 0.3 * z_score(semantic[kept]))


def test_progress_is_reported_after_each_query(collection: str, folder: str) -> None:
    told: list[tuple[int, int]] = []
    run_hybrid(
        build_system("mean", folder),
        read_collection(collection),
        serve=ServedSearch,
        progress=lambda *step: told.append(step),
    )
    assert told == [(1, 2), (2, 2)]


def test_adapting_reports_progress_and_why_vectors_are_not_adapted(collection: str, folder: str) -> None:
    arguments = ["eval", "retrieval", collection, "--vectors", folder, "--encoder", "adapted"]
    ran = CliRunner().invoke(main, arguments)
    assert ran.exit_code == 0
    assert "adapting" in ran.stderr
    assert "the vectors are not adapted" in ran.stderr
    # an invalid system is reported before the adaptation starts
    ran = CliRunner().invoke(main, [*arguments, "--compare", "nothing"])
    assert ran.exit_code == 2
    assert "unknown encoder 'nothing'" in ran.stderr
    assert "adapting" not in ran.stderr


def test_alpha_without_hybrid_is_refused(collection: str) -> None:
    assert "--alpha 0.2 needs --hybrid" in run("retrieval", collection, "--alpha", "0.2", status=2)


def test_hybrid_evaluation_in_the_library(collection: str, model: Model, folder: str) -> None:
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
        (["--encoder", "dynamax"], "no vectors of documents"),
        (["--compare", "nothing"], "unknown encoder 'nothing'"),
    ],
)
def test_contradictory_options_are_refused(arguments: list[str], message: str, corpus: list[str], folder: str) -> None:
    vectors = [] if "--vectors" in arguments else ["--vectors", folder]
    output = run("classes", *corpus, *vectors, *arguments, status=2)
    assert message in output
    assert "expected: " in output


def test_unsupported_similarities_are_refused(corpus: list[str], folder: str) -> None:
    train = read_labelled_documents(corpus[1])
    for name, similarity, message in (
        ("mean", "euclid", "unknown similarity 'euclid'"),
        ("tfidf", "jaccard", "similarity 'jaccard' of word counts"),
    ):
        with pytest.raises(BadInput, match=message):
            run_classes(build_system(name, folder, 0, similarity), train, train)


def test_an_unknown_encoder_error_lists_the_baselines(corpus: list[str], folder: str) -> None:
    output = run("classes", *corpus, "--vectors", folder, "--encoder", "nothing", status=2)
    assert all(name in output for name in BASELINES)


def test_z_scores_are_finite() -> None:
    np.testing.assert_allclose(z_score(np.array([4.0, 1.0, 2.0])), (np.array([4, 1, 2]) - 7 / 3) / np.std([4, 1, 2]))
    assert z_score(np.zeros(0)).shape == (0,)
    for scores in ([0.0, 0.0], [2.0, 2.0], [3.0]):
        assert z_score(np.array(scores)).tolist() == [0] * len(scores)
