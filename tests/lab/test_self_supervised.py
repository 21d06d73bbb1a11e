"""Tests of the adaptation to documents without labels."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_matrix

from resift import Model, WordVectors, build_model
from resift.arrays import Floats
from resift.encoders.registry import load_model
from resift.encoders.tables import build_table, plain_mean_table
from resift.errors import BadInput, MissingExtra
from resift.ingest.readers import Files
from resift.vectors.similarity import unit_rows
from resift.vectors.weights import ADAPTED_MAX_ALPHA, DEFAULT_ALPHA
from resift_lab.commands.served_search import ServedSearch
from resift_lab.commands.train_self import adapt_files, self_command
from resift_lab.evaluation.feedback.bench import BenchOptions, FeedbackBench
from resift_lab.evaluation.registry import build_system
from resift_lab.training.contrastive import fit_contrastive, info_nce_gradients
from resift_lab.training.documents import Documents, sample_words
from resift_lab.training.gate import Gate, GateResult
from resift_lab.training.options import AdaptOptions
from resift_lab.training.self_supervised import (
    adapt,
    adapt_if_better,
    build_adapted_model,
    build_mixed_model,
    truncated_model,
)
from resift_lab.training.spectral import concatenate_sources, initial_vectors, look_up_vectors, lsi_vectors
from resift_lab.training.systems import AdaptedSystem, system_builders

TOPICS = [[f"sea{i}" for i in range(30)], [f"law{i}" for i in range(30)]]
NOISE = [f"noise{i}" for i in range(40)]
MISSING = {"sea0", "law0"}
FAST = AdaptOptions(min_steps=40, batch=32)


def documents(count: int, seed: int) -> tuple[list[str], list[int]]:
    """Return texts of 10 words of a topic and 14 noise words, and the topic of each text, 0 or 1."""
    rng = np.random.default_rng(seed)
    texts = []
    for i in range(count):
        words = [*rng.choice(TOPICS[i % 2], 10), *rng.choice(NOISE, 14)]
        texts.append(" ".join(rng.permutation(words)))
    return texts, [i % 2 for i in range(count)]


@pytest.fixture(scope="module")
def table() -> WordVectors:
    """Return random vectors for all words but two."""
    words = [word for word in [*NOISE, *TOPICS[0], *TOPICS[1], "elsewhere"] if word not in MISSING]
    return build_table(words, np.random.default_rng(1).normal(size=(len(words), 16)).astype(np.float32), "zipf")


@pytest.fixture(scope="module")
def adapted(table: WordVectors) -> Model:
    """Return a model that was adapted to 160 documents."""
    return adapt(documents(160, 2)[0], table, FAST)


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let adapted models pass the gate, because two topics are too few to distinguish documents."""
    text, judged = np.zeros(20), iter([0.0, 1.0] * 3)

    def judge(gate: Gate, model: Model) -> GateResult:
        value = next(judged)
        return GateResult(value and DEFAULT_ALPHA, np.full(20, value), text, 0.01)

    monkeypatch.setattr(Gate, "judge", judge)


def contrast(model: Model) -> float:
    """Return the mean similarity within topics minus the mean similarity across topics, for new documents."""
    texts, topics = documents(60, 3)
    vectors = model.encode(texts)
    similarity, same = vectors @ vectors.T, np.equal.outer(topics, topics)
    return float(similarity[same & ~np.eye(60, dtype=bool)].mean() - similarity[~same].mean())


def test_documents_of_one_topic_come_closer(adapted: Model, table: WordVectors) -> None:
    assert contrast(adapted) > contrast(build_model("mean", table)) + 0.3
    evaluation = adapted.table.info["adapted"]
    assert (evaluation["documents"], evaluation["held_out"], evaluation["words"]) == (160, 16, 100)


def test_words_without_a_topic_lose_weight(adapted: Model) -> None:
    weights = dict(zip(adapted.table.words, adapted.table.weights, strict=True))
    assert np.mean([weights[word] for word in NOISE]) < 0.7 * np.mean([weights[w] for t in TOPICS for w in t])


def test_unknown_words_get_rows_and_known_ones_stay(adapted: Model) -> None:
    sea, law, rest = adapted.encode(["sea0", "law0", "sea1 sea2 sea3"])
    assert sea @ rest > law @ rest + 0.3
    assert np.linalg.norm(adapted.encode(["elsewhere"])) == pytest.approx(1, abs=1e-5)


def test_the_same_seed_gives_the_same_model(adapted: Model, table: WordVectors, tmp_path: Path) -> None:
    texts = documents(160, 2)[0]
    again = adapt(iter(texts), table, FAST)
    assert again.hash == adapted.hash
    loaded = load_model(again.save(tmp_path / "model"))
    assert loaded.hash == adapted.hash
    # sessions give adapted vectors a higher weight
    assert build_model("mean", table).max_alpha < loaded.max_alpha
    assert adapt(texts, table, AdaptOptions(min_steps=40, batch=32, seed=1)).hash != adapted.hash


def test_the_export_encodes_as_the_training(table: WordVectors) -> None:
    texts = documents(80, 4)[0]
    corpus = Documents(sample_words(texts, 100, 0))
    given = initial_vectors(corpus, table, 0)
    rows, weights = fit_contrastive(
        corpus, concatenate_sources(corpus, [given, lsi_vectors(corpus, 8, 0)]), corpus.idf, FAST
    )
    model = build_adapted_model(corpus, rows, weights, table, AdaptOptions(dim=24))
    means = corpus.mean_vectors(rows, weights)
    centred = means - means.mean(axis=0)
    trained = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    served = model.encode(texts)
    assert served.shape == (80, 24)
    np.testing.assert_allclose(served @ served.T, trained @ trained.T, atol=0.03)


def test_a_mixture_compares_by_the_mean_of_both_cosines(table: WordVectors) -> None:
    texts = documents(80, 4)[0]
    corpus = Documents(sample_words(texts, 100, 0))
    rows, weights = initial_vectors(corpus, table, 0), corpus.idf
    options = AdaptOptions(mixed=True, dim=32)
    model = build_mixed_model(corpus, rows, weights, table, options)
    assert (model.dim, model.blocks, model.max_alpha) == (32, 2, ADAPTED_MAX_ALPHA)
    trained = build_adapted_model(corpus, rows, weights, table, AdaptOptions(dim=16)).encode(texts)
    original, original_weights = look_up_vectors(corpus, corpus.words, table, 0)
    means = corpus.mean_vectors(original, original_weights)
    centred = unit_rows(means - means.mean(axis=0))
    served = model.encode(texts)
    expected = (trained @ trained.T + centred @ centred.T) / 2
    np.testing.assert_allclose(served @ served.T, expected, atol=0.03)
    np.testing.assert_allclose(model.encode_one(texts[0]), served[0], atol=1e-6)


def test_original_rows_are_those_of_the_table(table: WordVectors) -> None:
    corpus = Documents(sample_words(documents(80, 4)[0], 100, 0))
    words = [*corpus.words, "elsewhere"]
    rows, weights = look_up_vectors(corpus, words, table, 0)
    known = [position for position, word in enumerate(words) if word not in MISSING]
    table_rows = [table.index[words[position]] for position in known]
    np.testing.assert_array_equal(rows[known], table.rows(table_rows))
    np.testing.assert_array_equal(weights[known], table.weights[table_rows])
    missing = [words.index(word) for word in sorted(MISSING)]
    np.testing.assert_array_equal(weights[missing], np.float32(table.unknown_weight))
    lengths = np.linalg.norm(rows[known], axis=1).mean()
    np.testing.assert_allclose(np.linalg.norm(rows[missing], axis=1), lengths, rtol=0.6)


def test_a_mixture_has_no_codewords() -> None:
    with pytest.raises(BadInput, match="codewords and mixed"):
        AdaptOptions(mixed=True, codewords=4)


def test_gradients_are_the_derivatives() -> None:
    rng = np.random.default_rng(0)
    counts = csr_matrix(rng.integers(0, 3, size=(8, 6)).astype(np.float64))
    rows, log_weights = rng.normal(size=(6, 3)), rng.normal(size=6)

    def loss(values: Floats, weights: Floats) -> float:
        return info_nce_gradients(counts, values, weights, 0.5)[0]

    _, by_row, by_log = info_nce_gradients(counts, rows, log_weights, 0.5)
    step = 1e-3
    for i in range(6):
        moved = np.eye(6)[i] * step
        assert by_log[i] == pytest.approx(
            (loss(rows, log_weights + moved) - loss(rows, log_weights - moved)) / 2 / step, abs=1e-3
        )
        for j in range(3):
            aside = np.outer(np.eye(6)[i], np.eye(3)[j]) * step
            assert by_row[i, j] == pytest.approx(
                (loss(rows + aside, log_weights) - loss(rows - aside, log_weights)) / 2 / step, abs=1e-3
            )


def test_dimensions_codewords_and_progress(table: WordVectors) -> None:
    texts, steps = documents(40, 5)[0], []
    options: dict[str, Any] = {"min_steps": 5, "epochs": 1, "spectral": 4}
    assert adapt(texts, table, AdaptOptions(dim=6, **options)).dim == 6
    model = adapt(texts, table, AdaptOptions(codewords=5, **options), lambda *step: steps.append(step))
    assert (model.name, model.dim) == ("boew:5", 5)
    assert steps == [(done, 10) for done in range(1, 11)]


@pytest.mark.parametrize(("value", "dim"), [(1.0, 8), (0.5, 16)])
def test_fewer_dimensions_are_used_if_they_rank_as_well(
    table: WordVectors, monkeypatch: pytest.MonkeyPatch, value: float, dim: int
) -> None:
    values = iter([0.0, 1.0, value])  # of the untrained vectors, the adapted vectors, and their first dimensions

    def judge(gate: Gate, model: Model) -> GateResult:
        mean = next(values)
        return GateResult(mean and DEFAULT_ALPHA, np.full(20, mean), np.zeros(20), 0.01)

    monkeypatch.setattr(Gate, "judge", judge)
    model = adapt(documents(160, 2)[0], table, FAST, small_dim=8)
    assert model.dim == dim
    assert model.table.info["adapted"]["adapted"] == 1.0


@pytest.mark.parametrize("mixed", [False, True])
def test_the_first_dimensions_are_those_of_a_smaller_model(table: WordVectors, mixed: bool) -> None:
    texts, options = documents(60, 3)[0], replace(FAST, mixed=mixed)
    large, small = (adapt(documents(160, 2)[0], table, replace(options, dim=dim)) for dim in (16, 8))
    vectors, expected = truncated_model(large, 8).encode(texts), small.encode(texts)
    np.testing.assert_allclose(vectors @ vectors.T, expected @ expected.T, atol=0.02)


def test_empty_and_repeated_documents_are_accepted(table: WordVectors) -> None:
    texts = documents(20, 6)[0]
    model = adapt([*texts, "", "!", *[texts[0]] * 20], table, FAST)
    assert np.isfinite(model.encode([*texts, ""])).all()
    assert not model.encode([""]).any()


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "0 documents"),
        (["", "..."], "0 documents"),
        (["sea1 sea2 sea3 sea4 sea5"], "1 documents"),
        ([" ".join(f"w{i}x{j}" for j in range(6)) for i in range(20)], "no word occurs 2 times"),
        (["hippo lake mud hippo reed"] * 20, "has a vector"),
        (["sea1 sea2 sea3 sea4", 5], "text 1 is a int"),
    ],
)
def test_unusable_corpora_are_refused(table: WordVectors, texts: list[Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        adapt(texts, table, FAST)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("batch", 1),
        ("dim", 0),
        ("min_count", 0),
        ("spectral", 0),
        ("codewords", 0),
        ("limit", 1),
        ("seed", -1),
        ("rate", -1.0),
        ("rate", np.nan),
        ("temperature", 0.0),
        ("held_out", 0.0),
        ("held_out", 0.9),
    ],
)
def test_bad_options(name: str, value: Any) -> None:
    with pytest.raises(BadInput, match=name):
        AdaptOptions(**{name: value})


@pytest.mark.parametrize("package", ["scipy", "scipy.sparse"])
def test_missing_extra_names_the_pip_command(table: WordVectors, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=r"Adapting word vectors needs scipy: pip install 'resift\[adapt\]'"):
        adapt(documents(20, 6)[0], table, FAST)


def test_texts_are_sampled_evenly() -> None:
    texts = [str(i) for i in range(200)]
    drawn = [int(words[0]) for words in sample_words(iter(texts), 50, 0)]
    assert len(set(drawn)) == 50
    assert drawn == sorted(drawn)
    assert 70 < np.mean(drawn) < 130


@pytest.fixture
def corpus_file(tmp_path: Path) -> Path:
    """Return a file of 80 documents as JSON lines, and an invalid line."""
    path = tmp_path / "docs.jsonl"
    path.write_text("".join(json.dumps({"title": "", "text": text}) + "\n" for text in documents(80, 7)[0]) + "{\n")
    return path


@pytest.mark.usefixtures("passing")
def test_command(corpus_file: Path, table: WordVectors, tmp_path: Path) -> None:
    folder, out = table.save(tmp_path / "table"), tmp_path / "model"
    arguments = ["--corpus", str(corpus_file), "--vectors", str(folder), "--out", str(out)]
    result = CliRunner().invoke(self_command, [*arguments, "--set", "dim=8"])
    assert result.exit_code == 0, result.output
    assert "80 documents, 100 words" in result.output
    assert "nDCG@10 as served" in result.output
    assert load_model(out).dim == 8


def test_the_command_saves_no_model_without_an_improvement(
    corpus_file: Path, table: WordVectors, tmp_path: Path
) -> None:
    folder, out = table.save(tmp_path / "table"), tmp_path / "model"
    arguments = ["--corpus", str(corpus_file), "--vectors", str(folder), "--out", str(out), "--set", "epochs=1"]
    result = CliRunner().invoke(self_command, arguments)
    assert result.exit_code == 3
    assert "no better than the untrained vectors" in result.output
    assert not out.exists()
    model = adapt_files(Files([str(corpus_file)]), ["text"], out, str(folder))
    assert model.hash == load_model(out).hash == build_model("mean", table).hash


@pytest.mark.usefixtures("passing")
def test_adapted_vectors_can_be_evaluated_as_a_system(table: WordVectors) -> None:
    texts, topics = documents(160, 2)
    system = AdaptedSystem(table, AdaptOptions())
    rows, asked = system.fit(texts[:-1]), system.encode_queries(texts[-1:])
    similarity = rows @ asked[0]
    same = np.array(topics[:-1]) == topics[-1]
    assert similarity[same].mean() > similarity[~same].mean() + 0.3
    assert (system.note, system.max_alpha, "sea0" in system.table.index) == ("", ADAPTED_MAX_ALPHA, True)
    bench = FeedbackBench(AdaptedSystem(table, AdaptOptions()), texts, texts[:1], ServedSearch, BenchOptions(table.idf))
    assert (bench.alpha, bench.max_alpha) == (DEFAULT_ALPHA, ADAPTED_MAX_ALPHA)


@pytest.mark.usefixtures("passing")
@pytest.mark.parametrize(("name", "blocks"), [("adapted", 1), ("adapted:mixed", 2)])
def test_the_name_of_a_system_decides_whether_vectors_are_mixed(
    table: WordVectors, tmp_path: Path, name: str, blocks: int
) -> None:
    system = build_system(name, table.save(tmp_path / "table"), system_builders=system_builders())
    assert isinstance(system, AdaptedSystem)
    vectors = system.fit(documents(160, 2)[0])
    lengths = np.linalg.norm(vectors.reshape(len(vectors), 2, -1), axis=2)
    assert np.allclose(lengths, 0.5**0.5, atol=1e-5) == (blocks == 2)


@pytest.mark.usefixtures("passing")
def test_an_index_gets_mixed_vectors(table: WordVectors) -> None:
    model = adapt_if_better(documents(160, 2)[0], table, lambda done, total: None, lambda remark: None)
    assert model is not None
    assert model.blocks == 2
    assert model.table.info["adapted"]["options"]["mixed"]
    with pytest.raises(BadInput) as refused:
        plain_mean_table(model)
    assert refused.value.expected == "a model of kind mean without mixed vectors, such as resift train self writes"


def test_a_system_that_cannot_adapt_has_a_note(table: WordVectors) -> None:
    texts, _ = documents(5, 2)
    system, plain = AdaptedSystem(table, AdaptOptions()), build_model("mean", table)
    np.testing.assert_array_equal(system.fit(texts), plain.encode(texts))
    assert system.note.startswith("5 documents of")
    assert system.max_alpha == plain.max_alpha


def test_adapt_before_indexing(corpus_file: Path, table: WordVectors, tmp_path: Path) -> None:
    files, out = Files([str(corpus_file)]), tmp_path / "model"
    model = adapt_files(files, ["title", "text"], out, str(table.save(tmp_path / "table")))
    assert model.hash == load_model(out).hash
    assert files.position == 0
    assert len(list(files)) == 81
