"""``resift eval feedback``: simulated users, residual rankings, baselines and two-topic sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from resift import WordVectors, build_model
from resift.cli.main import main
from resift.evaluation.data import Classes, Collection
from resift.evaluation.feedback.bench import FeedbackBench
from resift.evaluation.feedback.graded import Graded
from resift.evaluation.feedback.methods import NAMES, scores_after
from resift.evaluation.feedback.options import FeedbackOptions
from resift.evaluation.feedback.runs import run_feedback, run_topics
from resift.evaluation.feedback.same_class import SameClass
from resift.evaluation.system import Encoder

TOPICS = {"fire": ["fire", "bush", "flame", "smoke", "forest", "tree"], "war": ["army", "gun", "soldier", "war"]}


def drawn(count: int, seed: int) -> Classes:
    """Documents of one of two topics, two words of it and two of any."""
    rng = np.random.default_rng(seed)
    labels = [str(label) for label in rng.choice(list(TOPICS), count)]
    anything = [word for words in TOPICS.values() for word in words]
    texts = [" ".join([*rng.choice(TOPICS[label], 2), *rng.choice(anything, 2)]) for label in labels]
    return Classes([str(i) for i in range(count)], texts, labels)


@pytest.fixture
def classes(vectors: WordVectors) -> tuple[FeedbackBench, SameClass]:
    """60 documents, 20 queries."""
    train, test = drawn(60, 0), drawn(20, 1)
    task, model = SameClass(train, test), build_model("mean", vectors)
    return FeedbackBench(
        Encoder(model.encode, "cosine", model.table), train.texts, task.queries, model.table.zipf_idf
    ), task


@pytest.fixture
def graded(vectors: WordVectors) -> tuple[FeedbackBench, Graded]:
    """40 documents, queries of one word each; a topic's documents are relevant."""
    found, model = drawn(40, 2), build_model("mean", vectors)
    queries = ["fire", "bush", "smoke", "army", "war"]
    topic = {word: name for name, words in TOPICS.items() for word in words}
    grades = [
        {row: 1.0 + row % 2 for row, label in enumerate(found.labels) if label == topic[word]} for word in queries
    ]
    task = Graded(Collection("c", found.ids, found.texts, queries, queries, grades, 0))
    return FeedbackBench(Encoder(model.encode, "cosine", model.table), found.texts, queries, model.table.zipf_idf), task


def test_marks_help_and_wrong_marks_harm(classes: tuple[FeedbackBench, SameClass]) -> None:
    found = {noise: run_feedback(*classes, FeedbackOptions(noise=noise)) for noise in (0.0, 1.0)}
    ((right, before),), ((wrong, _),) = (entry["ridge+lexical"] for entry in found.values())
    assert right.means()["residual_map11"] > before.means()["residual_map11"] + 0.02
    assert wrong.means()["residual_map11"] < before.means()["residual_map11"] - 0.05


def test_half_of_the_marks_are_relevant(classes: tuple[FeedbackBench, SameClass]) -> None:
    bench, task = classes
    scores = task.first(bench, 0)
    marks = task.judge(0, scores, [], FeedbackOptions(judgements=7), np.random.default_rng(0))
    assert sorted(grade for _, grade in marks) == [-1.0] * 3 + [1.0] * 4
    order = np.argsort(-scores, kind="stable").tolist()
    assert max(order.index(document) for document, _ in marks) < 30
    more = task.judge(0, scores, marks, FeedbackOptions(judgements=7), np.random.default_rng(0))
    assert not {document for document, _ in marks} & {document for document, _ in more}


@pytest.mark.parametrize("method", NAMES)
def test_every_method_ranks(graded: tuple[FeedbackBench, Graded], method: str) -> None:
    (pair,) = run_feedback(*graded, FeedbackOptions(judgements=5), [method])[method]
    after, before = (run.means()["ndcg@10"] for run in pair)
    assert 0 < after <= 1
    assert (after == before) == (method == "none")


def test_judged_documents_are_left_out(graded: tuple[FeedbackBench, Graded]) -> None:
    bench, task = graded
    scores = task.first(bench, 0)
    relevant = [row for row in np.argsort(-scores) if row in task._grades[0]]
    perfect = np.zeros(len(scores))
    perfect[relevant] = [3.0 + task._grades[0][row] for row in relevant]
    assert task.measure(0, perfect, relevant[:3])[0] == pytest.approx(1)
    perfect[relevant[:3]] = -9
    assert task.measure(0, perfect, relevant[:3])[0] == pytest.approx(1)
    assert np.isnan(task.measure(0, perfect, relevant)).all()


def test_alpha_one_is_of_vectors_alone(graded: tuple[FeedbackBench, Graded]) -> None:
    bench, task = graded
    bench.alpha = 1.0
    judged = task.judge(0, task.first(bench, 0), [], FeedbackOptions(), np.random.default_rng(0))
    both, alone = (scores_after(bench, method, 0, judged, np.zeros(40)) for method in ("ridge+lexical", "ridge"))
    np.testing.assert_array_equal(np.argsort(-both, kind="stable"), np.argsort(-alone, kind="stable"))


def test_rounds_go_on_from_each_other(graded: tuple[FeedbackBench, Graded]) -> None:
    rounds = run_feedback(*graded, FeedbackOptions(judgements=3, rounds=3))["ridge+lexical"]
    assert len(rounds) == 3
    assert len({run.means()["map"] for run, _ in rounds}) == 3


def test_another_topic_is_not_poisoned(graded: tuple[FeedbackBench, Graded]) -> None:
    found = run_topics(*graded, FeedbackOptions(judgements=6))
    means = {kind: {name: run.means()["ndcg@10"] for name, run in entry.items()} for kind, entry in found.items()}
    assert means["unrelated"]["whole"] < means["unrelated"]["before"] - 0.05
    assert means["unrelated"]["after"] > means["unrelated"]["whole"] + 0.05
    assert means["unrelated"]["after"] == pytest.approx(means["unrelated"]["before"], abs=0.02)
    assert means["related"]["after"] != means["related"]["before"]


def run(*arguments: str, status: int = 0) -> str:
    """What ``resift eval feedback`` prints."""
    result = CliRunner().invoke(main, ["eval", "feedback", *arguments])
    assert result.exit_code == status, result.output
    return result.stdout if status == 0 else result.output


def lines(path: Path, records: list[dict[str, Any]]) -> str:
    """JSON lines."""
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return str(path)


def test_command_line(tmp_path: Path, vectors: WordVectors) -> None:
    words = str(vectors.save(tmp_path / "vectors"))
    files = []
    for name, count in (("train", 60), ("test", 12)):
        found = drawn(count, count)
        rows = [{"text": text, "label": label} for text, label in zip(found.texts, found.labels, strict=True)]
        files += [f"--{name}", lines(tmp_path / f"{name}.jsonl", rows)]
    arguments = [*files, "--vectors", words, "--queries", "5"]
    report = json.loads(run(*arguments, "--first", "boew:3", "--method", "mask", "--method", "ridge", "--json"))
    assert (report["system"], report["queries"], report["documents"]) == ("mask", 5, 60)
    assert set(report["baselines"]) == {"ridge", "rocchio", "rm3", "more_like_this"}
    assert set(report["compare"]["p"]) == {"map11", "p@10", "ip@10", "residual_map11", "residual_ip@10"}
    assert report["encoder"] == "adapted"
    plain = json.loads(run(*arguments, "--first", "boew:3", "--encoder", "mean", "--method", "ridge", "--json"))
    assert plain["encoder"] == "mean"
    assert plain["compare"]["map11"] == report["compare"]["map11"]  # both begin with the same ranking
    assert "ridge+lexical" in run(*arguments, "--noise", "0.3", "--rounds", "2")
    carried = json.loads(run(*arguments, "--topics", "--json"))
    assert set(carried["related"]) == {"queries", "before", "after", "whole"}
    assert "unrelated" in run(*arguments, "--topics")
    for wrong in (["--method", "magic"], ["--noise", "2"], ["--rounds", "0"], ["--compare", "bm25"]):
        assert "expected" in run(*arguments, *wrong, status=2)
    assert "expected" in run("--vectors", words, status=2)
