"""Tests of the training of a reranker: gradients, splits, quality, rejections, and the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from tiny_transformer import save_sentence_transformer

from resift import WordVectors
from resift.cli.main import main
from resift.encoders.builders import build_model
from resift.encoders.late_interaction import LateInteraction
from resift.encoders.queries import StaticQueries
from resift.errors import BadInput
from resift.vectors.similarity import unit_rows
from resift_lab.commands.served_search import ServedSearch
from resift_lab.corpus import DocumentFrequencies
from resift_lab.evaluation.baselines.late_interaction import select_documents, untrained_reranker
from resift_lab.evaluation.data import Collection, block_split, read_collection, with_queries
from resift_lab.evaluation.data.parts import SplitCollection
from resift_lab.evaluation.served import Hits, Served, search_function
from resift_lab.evaluation.system import Encoder
from resift_lab.fingerprints import fingerprints, fingerprints_in
from resift_lab.training.judged_queries import bm25_candidates
from resift_lab.training.late_interaction import RerankerTrainer
from resift_lab.training.late_interaction_selection import ALPHAS, smallest_good_alpha, train_reranker
from resift_lab.training.options import LateInteractionOptions
from resift_lab.vectors.mixture import mix_vectors

PAIRS = 100
FILLER = ["lorem", "ipsum", "dolor", "sit", "amet", "elit"]


def collection() -> Collection:
    """Return documents in pairs on the same subject, with queries for each.

    A document of a pair contains a year, the other a place. Only the question word, "when" or "where", distinguishes
    the queries for them.
    """
    rng = np.random.default_rng(0)
    documents, queries, grades = [], [], []
    for subject in range(PAIRS):
        words = [f"s{subject}a", f"s{subject}b"]
        facts = {"when": f"year{subject % 7}", "where": f"place{subject % 7}"}
        for asks, fact in facts.items():
            documents.append(" ".join([*words, fact, *rng.choice(FILLER, 3)]))
            queries += [f"{asks} {words[0]}", f"{asks} was {words[1]}"]
            grades += [{len(documents) - 1: 1.0}] * 2
    ids = [f"d{place}" for place in range(len(documents))]
    return Collection("facts", ids, documents, [f"q{i}" for i in range(len(queries))], queries, grades, 0)


@pytest.fixture(scope="module")
def table() -> WordVectors:
    """Return word vectors in which years are similar, places are similar, and question words are random."""
    rng = np.random.default_rng(1)
    words = ["when", "where", "was", *FILLER, *(f"s{i}{side}" for i in range(PAIRS) for side in "ab")]
    rows = rng.normal(size=(len(words) + 14, 16))
    for kind in range(2):
        for place in range(7):
            rows[len(words) + 7 * kind + place] = 3 * np.eye(16)[kind] + 0.5 * rng.normal(size=16)
    words += [f"year{i}" for i in range(7)] + [f"place{i}" for i in range(7)]
    return WordVectors(words, rows.astype(np.float32))


@pytest.fixture(scope="module")
def served(table: WordVectors) -> Served:
    """Return searches of the collection with the mean of the word vectors."""
    model = build_model("mean", table)
    return search_function(ServedSearch, Encoder(model.encode, alpha=model.alpha), collection().documents)


@pytest.fixture(scope="module")
def mixed(table: WordVectors) -> WordVectors:
    return mix_vectors([table], corpus=DocumentFrequencies.from_texts(collection().documents))


def options(**changes: float) -> LateInteractionOptions:
    settings = {"epochs": 4, "batch": 8, "negatives": 8, "pool": 20, "rate": 0.003, "frequent": 5, "shift_rate": 0.05}
    return LateInteractionOptions(**{**settings, **changes})  # type: ignore[arg-type]


def folder(path: Path, judged: dict[str, list[int]]) -> Path:
    """Write :func:`collection` as a folder in BEIR's layout, with judgement files of some of its queries."""
    found = collection()
    (path / "qrels").mkdir(parents=True)
    lines = [json.dumps({"_id": i, "text": t}) for i, t in zip(found.document_ids, found.documents, strict=True)]
    (path / "corpus.jsonl").write_text("\n".join(lines), "utf-8")
    lines = [json.dumps({"_id": i, "text": t}) for i, t in zip(found.query_ids, found.queries, strict=True)]
    (path / "queries.jsonl").write_text("\n".join(lines), "utf-8")
    for name, places in judged.items():
        rows = [f"{found.query_ids[q]}\t{found.document_ids[d]}\t1" for q in places for d in found.grades[q]]
        (path / name).write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]), "utf-8")
    return path


def resift(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_the_gradient_equals_the_derivative_of_the_loss(mixed: WordVectors) -> None:
    found = collection()
    start = untrained_reranker(mixed, found.documents)
    held = start.prepare(found.documents)
    start.parameters = replace(start.parameters, threshold=0.02)
    given = (held, found.queries, [list(g) for g in found.grades], bm25_candidates(found, 20), options())
    trainer = RerankerTrainer(start, *given)
    parameters, gradient = trainer.parameters, trainer.gradient
    shifts = parameters.shifts
    shifts += np.random.default_rng(2).normal(size=shifts.shape).astype(np.float32) * 0.1
    query, chosen = 3, np.array([1, 0, 5, 17])
    words = trainer.queries[query]

    def loss() -> float:
        model, kappa = trainer.export(), float(np.exp(parameters.scalars[2, 0]))
        logits = kappa * model.scores(found.queries[query], select_documents(held, chosen)).astype(np.float64)
        return float(np.log(np.exp(logits - logits[0]).sum()))

    gradient.add_query(parameters, held, start.parameters.mean_length, words, chosen)
    row = parameters.rows[words[0]].copy()
    along = gradient.rows[words[0]] - (gradient.rows[words[0]] @ row) * row
    own = parameters.shift_rows[words[0]]
    cases = [(parameters.log_weights, (word,), gradient.log_weights[word]) for word in words]
    cases += [(parameters.scalars, (place, 0), gradient.scalars[place, 0]) for place in range(3)]
    cases += [(parameters.rows, (words[0], column), along[column]) for column in range(4)]
    cases += [(shifts, (own, column), gradient.shifts[own, column]) for column in range(4)]
    for values, place, expected in cases:
        before, step = values[place], 2e-3
        values[place] = before + step
        above = loss()
        values[place] = before - step
        below = loss()
        values[place] = before
        assert (above - below) / (2 * step) == pytest.approx(expected, rel=0.05, abs=0.01)
    assert max(abs(float(expected)) for _, _, expected in cases) > 0.05


def test_training_learns_the_meaning_of_question_words(mixed: WordVectors, served: Served) -> None:
    found = collection()
    split = block_split(found, (60, 10, 30))
    model, report = train_reranker(SplitCollection(found, split, False), mixed, served, options())
    systems = report["systems"]
    assert systems["trained"]["recall@1"] > 0.15 + max(systems["untrained"]["recall@1"], systems["vectors"]["recall@1"])
    assert report["better"]
    assert report["kept"] == "trained"
    assert report["p"]["vectors"]["ndcg@10"] < 0.01
    assert report["queries"]["test"] == report["judges"]
    asked = [found.queries[place] for place in np.concatenate([split.train, split.validation])]
    assert set(fingerprints_in(model.info)) == set(fingerprints(asked))


def test_the_same_seed_gives_the_same_reranker(mixed: WordVectors) -> None:
    found = collection()
    start = untrained_reranker(mixed, found.documents)
    held, hard = start.prepare(found.documents), bm25_candidates(found, 20)
    relevant = [list(grades) for grades in found.grades]
    first, again, other = (
        RerankerTrainer(start, held, found.queries, relevant, hard, options(epochs=1, seed=seed)).fit().hash
        for seed in (1, 1, 2)
    )
    assert first == again != other


def test_blocks_do_not_share_documents() -> None:
    found = collection()
    rng = np.random.default_rng(0)
    shuffled = with_queries(found, rng.permutation(len(found.queries)).tolist())
    split = block_split(shuffled, (60, 10, 30))
    documents = [{min(shuffled.grades[q]) for q in part} for part in (split.train, split.validation, split.test)]
    assert max(documents[0]) < min(documents[1])
    assert max(documents[1]) < min(documents[2])
    assert sorted(np.concatenate([split.train, split.validation, split.test])) == list(range(len(found.queries)))
    assert len(split.train) == pytest.approx(0.6 * len(found.queries), abs=4)
    assert len(block_split(shuffled, (9, 1, 0)).test) == 0


@pytest.mark.parametrize("shares", [(1, 0, 1), (0, 1, 1), (1, 1), (1, -1, 1), (1, float("nan"), 1)])
def test_invalid_shares_are_refused(shares: tuple[float, ...]) -> None:
    with pytest.raises(BadInput, match="split"):
        block_split(collection(), shares)


def test_a_reranker_is_compared_with_the_search_without_it(mixed: WordVectors) -> None:
    found = collection()
    split = block_split(found, (60, 10, 30))
    answers = {query: min(grades) for query, grades in zip(found.queries, found.grades, strict=True)}

    def right(query: str) -> Hits:
        return Hits(np.array([answers[query], answers[query] ^ 1]), np.array([1e9, 1.0]), 100)

    # the reranker is far better than BM25, but not better than the search without it
    _, report = train_reranker(SplitCollection(found, split, False), mixed, right, options())
    systems = report["systems"]
    assert systems["trained"]["ndcg@10"] == systems["vectors"]["ndcg@10"] == 1 > systems["bm25"]["ndcg@10"]
    assert not report["better"]


def test_an_insignificant_gain_does_not_count(mixed: WordVectors) -> None:
    found = collection()
    hits = {query: min(grades) for query, grades in zip(found.queries, found.grades, strict=True)}
    wrong = found.queries[-1]

    def nearly(query: str) -> Hits:
        # a single query can be improved
        ranking = [hits[query], hits[query] ^ 1][:: -1 if query == wrong else 1]
        return Hits(np.array(ranking), np.array([1.0, 0.999] if query == wrong else [1e9, 1.0]), 100)

    data = SplitCollection(found, block_split(found, (60, 10, 30)), False)
    _, report = train_reranker(data, mixed, nearly, options())
    quality = {name: means["ndcg@10"] for name, means in report["systems"].items()}
    assert quality[report["kept"]] > quality["vectors"]
    assert not report["better"]


def test_too_few_queries_or_documents(mixed: WordVectors, served: Served) -> None:
    found = collection()
    with pytest.raises(BadInput, match=r"validation queries of 20"):
        block_split(with_queries(found, list(range(20))), (60, 10, 30))
    split = block_split(found, (60, 10, 30))
    with pytest.raises(BadInput, match="200 documents are too few for 200 negatives"):
        train_reranker(SplitCollection(found, split, True), mixed, served, options(negatives=200, pool=200))


def test_queries_without_relevant_documents_or_negatives_are_refused(mixed: WordVectors) -> None:
    found = collection()
    start = untrained_reranker(mixed, found.documents)
    held = start.prepare(found.documents)
    with pytest.raises(BadInput, match="has no relevant document"):
        RerankerTrainer(start, held, ["when s0a"], [[]], [np.arange(5)], options()).fit()
    with pytest.raises(BadInput, match="all candidates of query"):
        RerankerTrainer(start, held, ["when s0a"], [[0, 1]], [np.array([1, 0])], options()).fit()
    nothing = RerankerTrainer(start, held, ["?", "unheard of"], [[0], [1]], [np.arange(5)] * 2, options()).fit()
    np.testing.assert_allclose(unit_rows(nothing.table.rows()), start.table.rows(), atol=1e-6)


def test_queries_without_irrelevant_candidates_are_skipped_and_counted(mixed: WordVectors, served: Served) -> None:
    found = collection()
    candidates = bm25_candidates(found, 20)
    for query in (0, 399):
        candidates[query] = np.array(list(found.grades[query]), np.int64)
    split = block_split(found, (60, 10, 30))
    _, report = train_reranker(SplitCollection(found, split, True), mixed, served, options(), candidates)
    assert report["unlearnable"] == 2
    none = [np.array(list(grades), np.int64) for grades in found.grades]
    with pytest.raises(BadInput, match="no training query has a candidate"):
        train_reranker(SplitCollection(found, split, True), mixed, served, options(), none)


def test_the_command_uses_the_parts_of_a_folder(tmp_path: Path, table: WordVectors) -> None:
    table.save(tmp_path / "vectors")
    parts = {"qrels/train.tsv": list(range(280)), "qrels/test.tsv": list(range(280, 400))}
    data, out = folder(tmp_path / "data", parts), tmp_path / "out"
    with (data / "queries.jsonl").open("a", encoding="utf-8") as file:
        file.write('\n{"_id": "odd", "text": "nobody judged this"}')
    train = ["train", "reranker", "--collection", data, "--vectors", tmp_path / "vectors", "--set", "pool=20"]
    ran = resift(*train, "--set", "negatives=8", "--set", "rate=0.003", "--out", out)
    assert ran.exit_code == 0, ran.output
    assert "120 held out" in ran.output
    assert "1 queries were not used, because no document is relevant to them" in ran.stderr
    model = LateInteraction.load(out)
    found = collection()
    assert set(fingerprints_in(model.info)) == set(fingerprints(found.queries[:280]))
    report = json.loads(resift("eval", "retrieval", data, "--model", out, "--json").stdout)
    assert report["queries"] == 120
    assert "trained_on" not in report
    assert report["recall@1"] > model.info["report"]["systems"]["untrained"]["recall@1"] + 0.1
    mixed = json.loads(resift("eval", "retrieval", data, "--model", out, "--hybrid", "--json").stdout)
    assert mixed["alpha"] == model.alpha


def test_a_reranker_is_judged_with_static_queries_and_their_teacher(
    tmp_path: Path, table: WordVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESIFT_RERANKER", str(tmp_path / "service"))
    table.save(tmp_path / "vectors")
    teacher, out = save_sentence_transformer(tmp_path / "teacher", list(table.words)), tmp_path / "out"
    model = StaticQueries(table, str(teacher))
    served = ["--model", model.save(tmp_path / "queries")]
    data = folder(tmp_path / "data", {"qrels/train.tsv": list(range(280)), "qrels/test.tsv": list(range(280, 400))})
    train = ["train", "reranker", "--collection", data, "--vectors", tmp_path / "vectors", *served, "--out", out]
    train += ["--set", "pool=20", "--set", "negatives=8", "--set", "epochs=2", "--set", "rate=0.003", "--json"]
    ran = resift(*train)
    assert ran.exit_code == 0, ran.output
    judged = json.loads(ran.stdout)["systems"]["vectors"]
    measured = json.loads(resift("eval", "retrieval", data, "--hybrid", *served, "--json").stdout)
    assert {name: judged[name] for name in ("recall@1", "ndcg@10")} == pytest.approx(
        {name: measured[name] for name in ("recall@1", "ndcg@10")}
    )
    assert LateInteraction.load(out).info["beside"] == model.hash
    monkeypatch.setenv("RESIFT_MODEL", "resift-en")
    assert f"with the vectors of model {model.hash}, but the service uses" in resift("reranker", "use", out).stderr
    monkeypatch.setenv("RESIFT_MODEL", str(tmp_path / "queries"))
    assert "evaluated with" not in resift("reranker", "use", out).stderr


def test_evaluation_leaves_out_training_queries(tmp_path: Path, table: WordVectors) -> None:
    table.save(tmp_path / "vectors")
    data, out = folder(tmp_path / "data", {"qrels.tsv": list(range(400))}), tmp_path / "out"
    train = ["train", "reranker", "--collection", data, "--vectors", tmp_path / "vectors", "--set", "pool=20"]
    train += ["--set", "negatives=8", "--set", "rate=0.003", "--out", out]
    assert resift(*train, "--split", "60,10,30").exit_code == 0
    report = json.loads(resift("eval", "retrieval", data, "--model", out, "--json").stdout)
    assert (report["queries"], report["trained_on"]) == (120, 280)
    assert (
        "280 queries that the model was trained on were skipped"
        in resift("eval", "retrieval", data, "--model", out).output
    )
    whole = json.loads(resift("eval", "retrieval", data, "--encoder", "late", "--split", "60,10,30", "--json").stdout)
    assert whole["queries"] == 120
    assert resift(*train).exit_code == 0
    ran = resift("eval", "retrieval", data, "--model", out, "--json")
    assert json.loads(ran.stdout)["trained_on"] == json.loads(ran.stdout)["queries"] == 400
    assert "trained on all" in ran.stderr


def test_a_reranker_that_does_not_help_is_not_written(tmp_path: Path, table: WordVectors) -> None:
    table.save(tmp_path / "vectors")
    data, out = folder(tmp_path / "data", {"qrels.tsv": list(range(400))}), tmp_path / "out"
    found = collection()
    same = [{"_id": found.query_ids[q], "text": found.documents[min(found.grades[q])]} for q in range(400)]
    (data / "queries.jsonl").write_text("\n".join(map(json.dumps, same)), "utf-8")
    train = ["train", "reranker", "--collection", data, "--vectors", tmp_path / "vectors", "--set", "pool=20"]
    ran = resift(*train, "--set", "negatives=8", "--out", out)
    assert ran.exit_code == 3
    assert "nothing was written" in ran.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--split", "a,b"], "--split is a,b"),
        (["--split", "60,40"], "split"),
        (["--set", "negatives=31"], "31 negatives cannot be drawn from 30"),
        (["--set", "epochs=0"], "epochs is 0"),
        (["--vectors", "resift-en=x"], "the weight in resift-en=x is not a number"),
        (["--set", "pool=200", "--set", "negatives=200"], "200 documents are too few for 200 negatives"),
    ],
)
def test_bad_options(tmp_path: Path, more: list[str], message: str) -> None:
    data = folder(tmp_path / "data", {"qrels.tsv": list(range(400))})
    ran = resift("train", "reranker", "--collection", data, "--out", tmp_path / "out", *more)
    assert ran.exit_code == 2
    assert message in ran.stderr


def test_a_second_split_and_queries_without_relevant_documents_are_refused(tmp_path: Path) -> None:
    data = folder(tmp_path / "data", {"qrels/train.tsv": list(range(400))})
    ran = resift("train", "reranker", "--collection", data, "--out", tmp_path / "out", "--split", "60,10,30")
    assert "one of them" in ran.stderr
    (data / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td0\t0\n", "utf-8")
    ran = resift("train", "reranker", "--collection", data, "--out", tmp_path / "out")
    assert "no query has a relevant document" in ran.stderr
    assert read_collection(folder(tmp_path / "other", {"qrels/test.tsv": [0, 1]})).query_ids == ["q0", "q1"]


def test_the_weight_is_not_chosen_by_noise() -> None:
    values = np.full((len(ALPHAS), 40), 0.5)
    values[-1, :2] = 0.9, 0.2
    assert smallest_good_alpha(values) == 0
    values[3:] += 0.2
    assert smallest_good_alpha(values) == 3
