"""Tests of training word vectors on pairs of a query and a document."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tiny_transformer import save_sentence_transformer

from resift.cli.main import main
from resift.errors import BadInput
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift_lab.corpus import sparse_counts
from resift_lab.training.device import Device
from resift_lab.training.pairs import (
    Pair,
    PairOptions,
    _draw_passages,
    _move_untrained_words,
    read_pairs,
    train_on_pairs,
)
from resift_lab.training.transformer import Transformer

TOPICS = 20
OPTIONS = PairOptions(epochs=12, batch=32, rate=0.02, sentence_weight=0, runs=1, levels=0)


def topic_words(side: str, topic: int) -> list[str]:
    """Return the five words that the queries (side ``q``) or the documents (side ``d``) of a topic consist of."""
    return [f"{side}{'abcdefghijklmnopqrstuvwxyz'[topic]}{letter}" for letter in "vwxyz"]


def topic_pairs(count: int, seed: int) -> list[Pair]:
    """Return pairs whose query and document have the same topic, but no word in common."""
    rng = np.random.default_rng(seed)
    pairs = []
    for number in range(count):
        query, document = (rng.choice(topic_words(side, number % TOPICS), 3).tolist() for side in "qd")
        pairs.append((" ".join(query), " ".join(document)))
    return pairs


@pytest.fixture(scope="module")
def start() -> WordVectors:
    """Return a table with random vectors of the words of all topics, and of a word that no pair contains."""
    words = [word for side in "qd" for topic in range(TOPICS) for word in topic_words(side, topic)]
    rows = np.random.default_rng(0).normal(size=(len(words) + 1, 16)).astype(np.float32)
    return WordVectors([*words, "unseen"], rows, np.linspace(1, 2, len(words) + 1).astype(np.float32))


def text_vectors(table: WordVectors, texts: list[str]) -> Any:
    """Return the unit vectors of texts, shape (n, D)."""
    counts = sparse_counts(*table.ids(texts), len(table))
    return unit_rows(counts @ (table.rows() * table.weights[:, None]))


def accuracy(table: WordVectors, pairs: list[Pair]) -> float:
    """Return how often the nearest document of a query has the topic of the query."""
    queries, documents = (text_vectors(table, list(side)) for side in zip(*pairs, strict=True))
    nearest = (queries @ documents.T).argmax(axis=1)
    return float((nearest % TOPICS == np.arange(len(pairs)) % TOPICS).mean())


def test_queries_of_held_out_pairs_find_their_documents(start: WordVectors) -> None:
    held_out = topic_pairs(100, seed=1)
    trained = train_on_pairs(start, [topic_pairs(800, seed=0)], [], OPTIONS)
    assert accuracy(start, held_out) < 0.2
    assert accuracy(trained, held_out) > 0.9
    assert trained.words == start.words
    assert (trained.weights != start.weights).any()
    assert "800 pairs of 1 sources" in trained.info["pairs"]


def test_sentences_keep_their_vectors(start: WordVectors) -> None:
    pairs, sentences = topic_pairs(800, seed=0), [document for _, document in topic_pairs(200, seed=2)]

    def change(weight: float) -> float:
        """Return the mean squared change of the sentences' cosines with each other."""
        options = replace(OPTIONS, sentence_weight=weight)
        after = text_vectors(train_on_pairs(start, [pairs], sentences, options), sentences)
        before = text_vectors(start, sentences)
        return float(((after @ after.T - before @ before.T) ** 2).mean())

    assert change(20) < 0.2 * change(0)


def test_the_same_seed_gives_the_same_table_and_another_seed_a_different_table(start: WordVectors) -> None:
    sources, sentences = [topic_pairs(100, seed=0), topic_pairs(60, seed=3)], ["qav qbw qcx dav"] * 20
    options = replace(OPTIONS, epochs=2, runs=2, sentence_weight=1, sentence_batch=8)
    progress: list[tuple[int, int]] = []
    table = train_on_pairs(start, sources, sentences, options, progress=lambda *counts: progress.append(counts))
    again = train_on_pairs(start, sources, sentences, options)
    other = train_on_pairs(start, sources, sentences, replace(options, seed=2))
    assert (table.rows() == again.rows()).all()
    assert (table.weights == again.weights).all()
    assert (table.rows() != other.rows()).any()
    assert progress == [(step, 20) for step in range(1, 21)]  # (3 + 2 batches) in 2 passes of 2 runs


def test_the_weights_are_the_geometric_mean_of_the_runs(start: WordVectors) -> None:
    pairs, options = topic_pairs(100, seed=0), replace(OPTIONS, epochs=2)
    single = [train_on_pairs(start, [pairs], [], replace(options, seed=seed)) for seed in (5, 6)]
    both = train_on_pairs(start, [pairs], [], replace(options, seed=5, runs=2))
    np.testing.assert_allclose(both.weights, np.sqrt(single[0].weights * single[1].weights), rtol=1e-5)


def test_unseen_words_follow_a_rotation_of_the_trained_words(start: WordVectors) -> None:
    rows = start.rows()
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(16, 16)))
    rotated = unit_rows(rows @ turn).astype(np.float32)
    trained = np.where(np.arange(len(start)) % 4 == 0, 0.0, 1.0)
    result = _move_untrained_words(start, np.where(trained[:, None] > 0, rotated, rows), trained)
    assert (result[trained > 0] == rotated[trained > 0]).all()
    assert ((result * rotated).sum(axis=1) > 0.99).all()


def test_vectors_are_rounded_to_the_number_of_levels(start: WordVectors) -> None:
    table = train_on_pairs(start, [topic_pairs(100, seed=0)], [], replace(OPTIONS, epochs=1, levels=3))
    steps = table.rows() / np.abs(table.rows()).max(axis=1, keepdims=True) * 3
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-5)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Transformer:
    """Return a sentence-transformers model of one layer, with random weights."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    letters = "abcdefghijklmnopqrstuvwxyz"
    save_sentence_transformer(folder, [*letters, *(f"##{letter}" for letter in letters)])
    return Transformer(folder, Device("cpu"))


def test_a_teacher_adds_the_words_that_several_texts_contain(start: WordVectors, teacher: Transformer) -> None:
    pairs = topic_pairs(80, seed=0)
    both = [(query, f"{document} lantern 1984") for query, document in pairs[:40]]
    rare = [(query, f"{document} unique") for query, document in pairs[:1]]
    product = [(query, f"{document} productname") for query, document in pairs[:40]]
    options = replace(OPTIONS, epochs=1, min_count=5)
    progress: list[tuple[int, int]] = []
    sources = [[*both, *product], [*both, *rare]]
    table = train_on_pairs(start, sources, [], options, teacher, lambda *counts: progress.append(counts))
    assert table.words == [*start.words, "lantern"]
    assert [done for done, _ in progress] == sorted(done for done, _ in progress)
    assert all(done <= total for done, total in progress)
    assert progress[0][0] == len(start) - 100 + 1, "the teacher encodes the new word and words of the table"
    assert progress[-1][0] == progress[-1][1]
    assert np.isfinite(table.rows()).all()
    # If there is only one source, a word may occur in it alone.
    alone = train_on_pairs(start, [[*both, *product, *rare]], [], options, teacher)
    assert set(alone.words) - set(start.words) == {"lantern", "productname"}
    most = train_on_pairs(start, [[*both, *product]], [], replace(options, new_words=1), teacher)
    assert len(most) == len(start) + 1


def test_passages_imitate_the_teacher(start: WordVectors, teacher: Transformer) -> None:
    pairs = topic_pairs(200, seed=0)
    passages = [text for pair in pairs for text in pair]
    encoded = unit_rows(teacher.encode(passages, 64))
    options = replace(OPTIONS, sentence_batch=64, new_words=0)

    def agreement(weight: float, limit: int = 200) -> float:
        """Return the correlation of the passages' cosines in the table with those of the teacher."""
        table = train_on_pairs(
            start, [pairs], [], replace(options, passage_weight=weight, passage_limit=limit), teacher
        )
        vectors = text_vectors(table, passages)
        return float(np.corrcoef((vectors @ vectors.T).ravel(), (encoded @ encoded.T).ravel())[0, 1])

    assert agreement(200) > agreement(0) + 0.2
    assert agreement(200) > agreement(200, limit=4)
    untaught = train_on_pairs(start, [pairs], [], options)
    unused = train_on_pairs(start, [pairs], [], replace(options, passage_weight=0), teacher)
    assert (untaught.rows() == unused.rows()).all(), "if the weight is 0, the teacher encodes no passages"


def test_passages_are_queries_and_the_beginnings_of_documents(start: WordVectors) -> None:
    pairs = [(query, f"{document} {'qav ' * 60}") for query, document in topic_pairs(40, seed=0)]
    passages = _draw_passages(start, [[*pairs, ("unknown", "words")], pairs[:3]], replace(OPTIONS, passage_limit=30))
    assert 2 * (30 + 3 - 1) <= len(passages) <= 2 * (30 + 3)
    assert {len(text.split()) for text in passages} == {3, 48}, "passages without known words are left out"


def test_too_few_pairs_or_sentences_are_refused(start: WordVectors) -> None:
    with pytest.raises(BadInput, match="only 0 pairs"):
        train_on_pairs(start, [[("unknown words", "of a language")] * 20], [], OPTIONS)
    with pytest.raises(BadInput, match="only 1 sentences"):
        train_on_pairs(start, [topic_pairs(40, seed=0)], ["qav", "words"], replace(OPTIONS, sentence_weight=1))


@pytest.mark.parametrize("setting", ["batch=1", "epochs=0", "runs=0", "temperature=0", "rate=-1", "seed=-1"])
def test_settings_out_of_range_are_refused(setting: str, tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text('{"query": "fire", "document": "flames"}\n', "utf-8")
    arguments = ["vectors", "pairs", str(file), "--set", setting, "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert setting.partition("=")[0] in result.output


@pytest.mark.parametrize("line", ["[]", "{", '{"query": "a"}', '{"query": "a", "document": 1}', '"text"', "[" * 9999])
def test_an_error_names_the_line_that_is_no_pair(line: str, tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text('{"query": "fire", "document": "flames"}\n\n' + line + "\n", "utf-8")
    with pytest.raises(BadInput, match=r"line 3 of .*pairs\.jsonl is not a pair"):
        read_pairs(file)


def test_an_error_names_the_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl.gz").write_text("not compressed", "utf-8")
    for name in ("missing.jsonl", "pairs.jsonl.gz"):
        with pytest.raises(BadInput, match=f"{name} cannot be read"):
            read_pairs(tmp_path / name)
    (tmp_path / "empty.jsonl").write_text("\n", "utf-8")
    with pytest.raises(BadInput, match="contains no pair"):
        read_pairs(tmp_path / "empty.jsonl")


def test_the_command_trains_on_files_and_saves_a_table(start: WordVectors, tmp_path: Path) -> None:
    start.save(tmp_path / "start")
    lines = [json.dumps({"query": query, "document": document}) for query, document in topic_pairs(800, seed=0)]
    (tmp_path / "plain.jsonl").write_text("\n".join(lines[:400]), "utf-8")
    with gzip.open(tmp_path / "packed.jsonl.gz", "wt", encoding="utf-8") as handle:
        handle.write("\n".join(lines[400:]))
    (tmp_path / "sentences.txt").write_text(
        "\n".join(" ".join(topic_words("q", topic)) for topic in range(10)), "utf-8"
    )
    files = [str(tmp_path / name) for name in ("plain.jsonl", "packed.jsonl.gz")]
    options = ["--sentences", str(tmp_path / "sentences.txt"), "--set", "sentence_weight=0.001"]
    options += ["--set", "epochs=12", "--set", "batch=32", "--set", "rate=0.02", "--set", "runs=1"]
    arguments = ["vectors", "pairs", *files, "--vectors", str(tmp_path / "start"), *options]
    result = CliRunner().invoke(main, [*arguments, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert f"{len(start)} words of 16 dimensions" in result.output
    assert accuracy(WordVectors.load(tmp_path / "out"), topic_pairs(100, seed=1)) > 0.9
