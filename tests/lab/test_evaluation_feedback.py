"""Tests of ``resift eval feedback``: simulated users, residual rankings, baselines and sessions on two subjects."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from resift import WordVectors, build_model
from resift.cli.main import main
from resift.contracts.documents import Document
from resift.contracts.tuning import DEFAULT_TUNING
from resift.embedded.database import SqliteSessionStore
from resift.embedded.engine import SqliteEngine
from resift.errors import BadInput
from resift.feedback.judgements import JudgedDocument, Judgement, Mark
from resift.service.bodies import Search
from resift.service.config import Config
from resift.service.search_service import SearchService
from resift.sessions.sessions import Sessions
from resift_lab.commands.served_search import ServedSearch
from resift_lab.commands.tuning import _quality_by_judged_queries
from resift_lab.evaluation.data import Collection, LabelledDocuments, read_conversations
from resift_lab.evaluation.feedback.bench import BenchOptions, FeedbackBench
from resift_lab.evaluation.feedback.graded import GradedFeedback
from resift_lab.evaluation.feedback.methods import NAMES, scores_after
from resift_lab.evaluation.feedback.options import FeedbackOptions
from resift_lab.evaluation.feedback.runs import run_feedback, run_topics
from resift_lab.evaluation.feedback.same_class import SameClassFeedback
from resift_lab.evaluation.feedback.turns import METRICS, conversation_means, run_turns
from resift_lab.evaluation.served import Hits, SimulatedSearch
from resift_lab.evaluation.system import Encoder

TOPICS = {"fire": ["fire", "bush", "flame", "smoke", "forest", "tree"], "war": ["army", "gun", "soldier", "war"]}


def drawn(count: int, seed: int) -> LabelledDocuments:
    """Return documents of two words on a topic and two random words."""
    rng = np.random.default_rng(seed)
    labels = [str(label) for label in rng.choice(list(TOPICS), count)]
    anything = [word for words in TOPICS.values() for word in words]
    texts = [" ".join([*rng.choice(TOPICS[label], 2), *rng.choice(anything, 2)]) for label in labels]
    return LabelledDocuments([str(i) for i in range(count)], texts, labels)


@pytest.fixture
def classes(vectors: WordVectors) -> tuple[FeedbackBench, SameClassFeedback]:
    """Return labelled documents: 60 to search and 20 queries."""
    train, test = drawn(60, 0), drawn(20, 1)
    task, model = SameClassFeedback(train, test), build_model("mean", vectors)
    system = Encoder(model.encode, "cosine", model.table, model.alpha, model.max_alpha)
    return FeedbackBench(
        system, train.texts, task.queries, ServedSearch, BenchOptions(model.table.idf, whole=True)
    ), task


@pytest.fixture
def graded(vectors: WordVectors) -> tuple[FeedbackBench, GradedFeedback]:
    """Return 40 documents with queries of a single word. Documents on the word's topic are relevant."""
    found, model = drawn(40, 2), build_model("mean", vectors)
    queries = ["fire", "bush", "smoke", "army", "war"]
    topic = {word: name for name, words in TOPICS.items() for word in words}
    grades = [
        {row: 1.0 + row % 2 for row, label in enumerate(found.labels) if label == topic[word]} for word in queries
    ]
    task = GradedFeedback(Collection("c", found.ids, found.texts, queries, queries, grades, 0))
    system = Encoder(model.encode, "cosine", model.table, model.alpha, model.max_alpha)
    return FeedbackBench(system, found.texts, queries, ServedSearch, BenchOptions(model.table.idf)), task


def test_marks_improve_and_inverted_marks_worsen_the_ranking(classes: tuple[FeedbackBench, SameClassFeedback]) -> None:
    found = {noise: run_feedback(*classes, FeedbackOptions(noise=noise)) for noise in (0.0, 1.0)}
    ((right, before),), ((wrong, _),) = (entry["ridge+lexical"] for entry in found.values())
    assert right.means()["residual_map11"] > before.means()["residual_map11"] + 0.02
    assert wrong.means()["residual_map11"] < before.means()["residual_map11"] - 0.05


def test_unknown_numbers_do_not_reduce_the_weight_of_adapted_vectors(vectors: WordVectors) -> None:
    model = build_model("mean", vectors)
    model.max_alpha = 0.75
    texts = ["fire of 1999 and 2001", "fire bush", "army war", "smoke 18"]
    rows = model.encode(texts)
    search = ServedSearch(texts, rows, model.similarity, model.table.idf)
    marked = [JudgedDocument(Judgement("", "0", 1.0, "fire"), rows[0], texts[0])]
    asked = SimulatedSearch("fire", model.encode_one("fire"), model.alpha, model.max_alpha, marked)
    without, with_part = (search.hits(replace(asked, known_share=part)) for part in (None, model.known_share))
    np.testing.assert_array_equal(without.scores, with_part.scores)


def test_a_document_that_is_too_long_for_the_engine_is_searched_as_the_service_does(vectors: WordVectors) -> None:
    model = build_model("mean", vectors)
    # punctuation divides a word of an encoded attachment into many terms, more than an engine allows
    attachment = " ".join("-".join(f"{chr(97 + i % 26)}{i}{j}" for i in range(40)) for j in range(50))
    texts = ["fire bush", "army war", "smoke"]
    search = ServedSearch(texts, model.encode(texts), model.similarity, model.table.idf)
    hits = search.hits(SimulatedSearch("war " * 9 + attachment, model.encode_one("war"), model.alpha, model.max_alpha))
    assert hits.positions[0] == 1


def test_half_of_the_marks_are_relevant(classes: tuple[FeedbackBench, SameClassFeedback]) -> None:
    bench, task = classes
    scores = task.initial_scores(bench, 0)
    marks = task.judge(0, scores, [], FeedbackOptions(judgements=7), np.random.default_rng(0))
    assert sorted(grade for _, grade in marks) == [-1.0] * 3 + [1.0] * 4
    order = np.argsort(-scores, kind="stable").tolist()
    assert max(order.index(document) for document, _ in marks) < 30
    more = task.judge(0, scores, marks, FeedbackOptions(judgements=7), np.random.default_rng(0))
    assert not {document for document, _ in marks} & {document for document, _ in more}


@pytest.mark.parametrize("method", NAMES)
def test_every_method_ranks(graded: tuple[FeedbackBench, GradedFeedback], method: str) -> None:
    (pair,) = run_feedback(*graded, FeedbackOptions(judgements=5), [method])[method]
    after, before = (run.means()["ndcg@10"] for run in pair)
    assert 0 < after <= 1
    assert (after == before) == (method == "none")


def test_residual_metrics_leave_out_judged_documents(graded: tuple[FeedbackBench, GradedFeedback]) -> None:
    bench, task = graded
    scores = task.initial_scores(bench, 0)
    relevant = [row for row in np.argsort(-scores) if row in task._grades[0]]
    perfect = np.zeros(len(scores))
    perfect[relevant] = [3.0 + task._grades[0][row] for row in relevant]
    assert task.measure(0, perfect, relevant[:3])[0] == pytest.approx(1)
    perfect[relevant[:3]] = -9
    assert task.measure(0, perfect, relevant[:3])[0] == pytest.approx(1)
    assert np.isnan(task.measure(0, perfect, relevant)).all()


@pytest.mark.parametrize("judged", [(), (0, 1, 5)])
def test_feedback_is_measured_with_the_services_searches(
    graded: tuple[FeedbackBench, GradedFeedback], vectors: WordVectors, tmp_path: Path, judged: tuple[int, ...]
) -> None:
    """Test that hits are in the order of the service, without and with a session."""
    bench, _ = graded
    model, path = build_model("mean", vectors), str(tmp_path / "engine.db")
    with closing(SqliteEngine(path)) as engine, closing(SqliteSessionStore(path)) as store:
        engine.create("docs", ["text"], model)
        rows = enumerate(zip(bench.documents, bench.vectors, strict=True))
        engine.bulk("docs", [Document(str(row), {"text": text}, vector) for row, (text, vector) in rows])
        service = SearchService(engine, model, Sessions(store), Config())
        marks = {str(row): Mark(1.0) for row in judged}
        if marks:
            service.marks.add("person", "docs", bench.queries[1], marks)
        for query, text in enumerate(bench.queries):
            served = service.search(Search(text, index="docs", session="person", size=40))
            found = {int(hit["_id"]): hit["_score"] for hit in served.result.hits}
            ranks = bench.search_scores(query, bench.judged_documents(bench.queries[1], [(row, 1.0) for row in judged]))
            assert np.isfinite(ranks).sum() == len(found) > 0
            # compared by scores, because rounding decides the order of equal scores
            scores = [found[row] for row in np.argsort(-ranks, kind="stable")[: len(found)]]
            np.testing.assert_allclose(scores, sorted(scores, reverse=True), rtol=1e-5)


@pytest.mark.parametrize("method", ["rm3", "more_like_this"])
def test_lexical_baselines_do_not_return_documents_without_their_words(
    graded: tuple[FeedbackBench, GradedFeedback], method: str
) -> None:
    """Test that baselines do not rank documents without any of their words by the order of the file."""
    bench, _ = graded
    scores = scores_after(bench, method, 1, [], bench.search_scores(1))
    assert np.isfinite(scores).tolist() == ["bush" in text.split() for text in bench.documents]


def test_each_round_continues_from_the_previous_ranking(graded: tuple[FeedbackBench, GradedFeedback]) -> None:
    rounds = run_feedback(*graded, FeedbackOptions(judgements=3, rounds=3))["ridge+lexical"]
    assert len(rounds) == 3
    assert len({run.means()["map"] for run, _ in rounds}) == 3


def test_a_round_without_remaining_relevant_documents_is_refused(graded: tuple[FeedbackBench, GradedFeedback]) -> None:
    bench, _ = graded
    row = next(row for row, text in enumerate(bench.documents) if "fire" in text)
    task = GradedFeedback(Collection("c", ["0"] * 40, list(bench.documents), ["q"], ["fire"], [{row: 1.0}], 0))
    with pytest.raises(BadInput, match="all relevant documents of all queries are judged after round 1"):
        run_feedback(bench, task, FeedbackOptions(judgements=40))


def test_queries_without_remaining_relevant_documents_are_counted(graded: tuple[FeedbackBench, GradedFeedback]) -> None:
    """Test that the report counts the queries that are not part of the means."""
    bench, task = graded
    found = bench.documents.index(next(text for text in bench.documents if "fire" in text))
    task._grades[0] = {found: 1.0}
    task._relevant[0] = {found}
    (pair,) = run_feedback(bench, task, FeedbackOptions(judgements=38))["ridge+lexical"]
    measured = np.isfinite(pair[0].values["map"]).sum()
    assert pair[0].facts == {"queries": 5, "all_judged": 5 - measured}
    assert 0 < measured < 5


def test_classes_of_a_single_document_have_no_residual_metrics(tmp_path: Path, vectors: WordVectors) -> None:
    """Test that residual metrics of a class of a single document are undefined, and unknown labels reported."""
    train = [{"text": text, "label": text} for text in ("bush fire", "army gun", "forest tree")]
    test = [*train, {"text": "smoke", "label": "of none"}]
    files = ["--train", lines(tmp_path / "train.jsonl", train), "--test", lines(tmp_path / "test.jsonl", test)]
    words = ["--vectors", str(vectors.save(tmp_path / "vectors")), "--encoder", "mean"]
    report = json.loads(run(*files, *words, "--json"))
    assert (report["queries"], report["all_judged"], report["skipped"]) == (3, 3, 1)
    assert (report["map11"], report["residual_map11"], report["residual_ip@10"]) == (1.0, None, None)
    assert "1 queries without a relevant document were skipped" in run(*files, *words)


def test_feedback_does_not_harm_a_query_on_another_topic(graded: tuple[FeedbackBench, GradedFeedback]) -> None:
    found = run_topics(*graded, FeedbackOptions(judgements=6))
    means = {kind: {name: run.means()["ndcg@10"] for name, run in entry.items()} for kind, entry in found.items()}
    assert means["unrelated"]["whole"] < means["unrelated"]["before"] - 0.05
    assert means["unrelated"]["after"] > means["unrelated"]["whole"] + 0.05
    assert means["unrelated"]["after"] == pytest.approx(means["unrelated"]["before"], abs=0.02)
    assert means["related"]["after"] != means["related"]["before"]


TURNS = [
    ("a", 2, "smoke", {"3": 1, "2": -1}),
    ("a", 1, "fire", {"0": 1, "4": -1, "gone": 1}),
    ("b", 1, "war", {"5": -1}),
    ("b", 2, "army", {}),
    ("a", 3, "tree", {}),
]


@pytest.fixture
def conversations(tmp_path: Path) -> Path:
    """Return two conversations. Only turns 2 and 3 of the first follow a passage that was marked as relevant."""
    texts = ["bush fire", "flame of a forest", "smoke", "forest tree smoke", "army gun", "war soldier"]
    lines(tmp_path / "corpus.jsonl", [{"_id": str(row), "text": text} for row, text in enumerate(texts)])
    lines(tmp_path / "queries.jsonl", [{"_id": f"{who}{turn}", "text": text} for who, turn, text, _ in TURNS])
    relevant = {"a1": "0", "a2": "3", "a3": "1", "b1": "5", "b2": "4"}
    rows = "".join(f"{query}\t{document}\t1\n" for query, document in relevant.items())
    (tmp_path / "qrels.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    turns = [
        {"_id": f"{who}{turn}", "conversation": who, "turn": turn, "text": text, "marks": marks}
        for who, turn, text, marks in TURNS
    ]
    lines(tmp_path / "turns.jsonl", turns)
    return tmp_path


def test_metrics_of_turns_in_a_worked_example(conversations: Path, vectors: WordVectors) -> None:
    asked: list[SimulatedSearch] = []

    class Fixed:
        """A search whose first hits are 3 and 1 in a session, and others without a session."""

        def hits(self, search: SimulatedSearch) -> Hits:
            asked.append(search)
            ranking = np.array([3, 1, 0, 2, 4, 5] if search.judged else [0, 2, 3, 4, 5, 1])
            return Hits(ranking, np.linspace(6, 1, 6), 6)

    collection, turns = read_conversations(conversations)
    model = build_model("mean", vectors)
    texts = [turn.text for one in turns for turn in one]
    system = Encoder(model.encode, "cosine", model.table)
    bench = FeedbackBench(system, collection.documents, texts, lambda *settings: Fixed(), BenchOptions(model.table.idf))
    assert conversation_means(bench, turns, "ndcg@5") == pytest.approx([(1 + 1 / np.log2(3)) / 2])
    means = run_turns(bench, turns).means()
    second, third = 1 / np.log2(3), 1 / np.log2(4)  # the gains at ranks 2 and 3
    assert means == pytest.approx(
        {
            "ndcg@5": (1 + second) / 2,
            "ndcg@5_without_session": (third + 0) / 2,
            "ndcg@5_residual": 1.0,
            "ndcg@5_without_session_residual": second,
            "condensed_ndcg@5": 1.0,
            "condensed_ndcg@5_without_session": (second + 1) / 2,
            "judged@10": (2 / 6 + 1 / 6) / 2,
            "judged@10_without_session": (2 / 6 + 1 / 6) / 2,
        }
    )
    del asked[:4]  # of conversation_means
    assert [search.text for search in asked] == ["smoke", "smoke", "tree", "tree"]
    marks = [[(one.judgement.document, one.judgement.query) for one in search.judged] for search in asked]
    assert marks == [
        [("0", "fire"), ("4", "fire")],
        [],
        [("0", "fire"), ("4", "fire"), ("3", "smoke"), ("2", "smoke")],
        [],
    ]


def test_tuning_by_conversations_counts_each_once_without_the_marked_documents(
    conversations: Path, vectors: WordVectors
) -> None:
    with (conversations / "qrels.tsv").open("a") as file:
        file.write("a2\t0\t1\n")  # the user has marked document 0 in the first turn
    model = build_model("mean", vectors)
    quality, units = _quality_by_judged_queries(conversations, model, DEFAULT_TUNING)
    values = quality(DEFAULT_TUNING)
    assert units == "conversations, residual nDCG@5"
    collection, turns = read_conversations(conversations)
    texts = [turn.text for conversation in turns for turn in conversation]
    system = Encoder(model.encode, "cosine", model.table, model.alpha, model.max_alpha)
    by_turn = run_turns(FeedbackBench(system, collection.documents, texts, ServedSearch), turns).values
    assert len(by_turn["ndcg@5_residual"]) == 2
    assert by_turn["ndcg@5_residual"].mean() != by_turn["ndcg@5"].mean()
    assert values == pytest.approx([by_turn["ndcg@5_residual"].mean()])


def test_conversations(conversations: Path, vectors: WordVectors) -> None:
    words = str(vectors.save(conversations / "vectors"))
    arguments = ["--turns", str(conversations), "--vectors", words, "--encoder", "mean"]
    report = json.loads(run(*arguments, "--json"))
    assert (report["queries"], report["conversations"], report["documents"]) == (2, 2, 6)
    assert {*METRICS} < set(report)
    assert all(0 <= report[name] <= 1 for name in METRICS)
    assert "ndcg@5_without_session_residual" in run(*arguments)
    told = [{"_id": "a2", "text": "forest tree"}, {"_id": "a3", "text": "war"}]
    lines(conversations / "rewritten.jsonl", told)
    texts = [turn.text for one in read_conversations(conversations, rewritten=True)[1] for turn in one]
    assert texts == ["fire", "forest tree", "war", "war", "army"]
    assert json.loads(run(*arguments, "--rewritten", "--json"))["rewritten"]
    assert "--turns DIR" in run("--rewritten", status=2)
    for wrong in (["--topics"], [str(conversations)]):
        assert "--turns" in run(*arguments, *wrong, status=2)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"turn": "1", "text": "fire", "marks": {}}, "turn is '1'"),
        ({"turn": 1, "text": "fire", "marks": {"0": 2}}, "marks are"),
        ({"turn": 1, "text": "fire", "marks": [0]}, "marks are"),
        ({"turn": 1, "marks": {}}, "no text"),
        (None, "is empty"),
    ],
)
def test_malformed_turns(conversations: Path, line: dict[str, Any] | None, message: str) -> None:
    lines(conversations / "turns.jsonl", [] if line is None else [line])
    output = run("--turns", str(conversations), status=2)
    assert message in output
    assert "expected: " in output


def run(*arguments: str, status: int = 0) -> str:
    """Run ``resift eval feedback`` and return its output."""
    result = CliRunner().invoke(main, ["eval", "feedback", *arguments])
    assert result.exit_code == status, result.output
    return result.stdout if status == 0 else result.output


def lines(path: Path, records: list[dict[str, Any]]) -> str:
    """Write rows as JSON lines, and return the path."""
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return str(path)


def test_command_line(tmp_path: Path, vectors: WordVectors) -> None:
    words = str(vectors.save(tmp_path / "vectors"))
    files = []
    for name, count in (("train", 60), ("test", 12)):
        found = drawn(count, count)
        rows = [{"text": text, "label": label} for text, label in zip(found.texts, found.labels, strict=True)]
        files += [f"--{name}", lines(tmp_path / f"{name}.jsonl", rows)]
    arguments = [*files, "--vectors", words, "--set", "queries=5"]
    report = json.loads(run(*arguments, "--method", "mask", "--method", "ridge", "--json"))
    assert (report["system"], report["queries"], report["documents"]) == ("mask", 5, 60)
    assert set(report["baselines"]) == {"ridge", "rocchio", "rm3", "more_like_this"}
    assert set(report["compare"]["p"]) == {"map11", "p@10", "ip@10", "residual_map11", "residual_ip@10"}
    assert report["encoder"] == "adapted"
    plain = json.loads(run(*arguments, "--encoder", "mean", "--method", "ridge", "--json"))
    assert plain["encoder"] == "mean"
    assert "ridge+lexical" in run(*arguments, "--set", "noise=0.3", "--set", "rounds=2")
    carried = json.loads(run(*arguments, "--topics", "--json"))
    assert set(carried["related"]) == {"queries", "all_judged", "before", "after", "whole"}
    assert "unrelated" in run(*arguments, "--topics")
    # reported before the adaptation, which takes a while
    assert "unknown method 'magic'" in run("--train", "nowhere", "--test", "nowhere", "--method", "magic", status=2)
    for wrong in (["--method", "magic"], ["--set", "noise=2"], ["--set", "rounds=0"]):
        assert "expected" in run(*arguments, *wrong, status=2)
    assert "expected" in run("--vectors", words, status=2)


def test_unjudged_documents_are_skipped_in_a_pool() -> None:
    texts, ranking = ["fire"] * 6, np.arange(6)
    pool, complete = {1: 2.0, 3: 0.0, 5: 1.0}, {1: 2.0, 5: 1.0}

    def task(grades: dict[int, float], unjudged: str | None = None) -> GradedFeedback:
        return GradedFeedback(Collection("c", list("abcdef"), texts, ["q"], ["fire"], [grades], 0), unjudged)

    assert task(pool).correct_judgements(0, ranking, 2) == [(1, 1.0), (3, -1.0)]
    assert task(pool, "irrelevant").correct_judgements(0, ranking, 2) == [(0, -1.0), (1, 1.0)]
    assert task(complete).correct_judgements(0, ranking, 2) == [(0, -1.0), (1, 1.0)]
    assert task(complete, "skip").correct_judgements(0, ranking, 9) == [(1, 1.0), (5, 1.0)]
    assert [task(pool).unjudged, task(complete).unjudged] == ["skip", "irrelevant"]
    with pytest.raises(BadInput, match="unknown treatment of unjudged hits: 'never'"):
        task(pool, "never")


def test_condensed_metrics_leave_out_unjudged_documents() -> None:
    grades = {0: 0.0, 2: 1.0, 4: 1.0}
    task = GradedFeedback(Collection("c", [str(i) for i in range(14)], ["fire"] * 14, ["q"], ["fire"], [grades], 0))
    scores = np.r_[14.0:1.0:-1, -np.inf]  # in the order of the file, without the last document
    figures = dict(zip(task.metrics, task.measure(0, scores, [2]), strict=True))
    assert figures["condensed_ndcg@10"] == pytest.approx(1 / np.log2(3))  # rank 2 of 0 and 4
    assert figures["ndcg@10"] == pytest.approx(1 / np.log2(5))  # rank 4 of 0, 1, 3 and 4
    assert figures["judged@10"] == pytest.approx(0.2)
