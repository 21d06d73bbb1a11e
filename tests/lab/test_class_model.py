"""Tests of the encoder of class probabilities and its training from few labels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from resift import WordVectors, load_model
from resift.encoders.builders import build_model
from resift.encoders.class_model import Classifier, ClassModel
from resift.encoders.tables import build_table
from resift.errors import BadInput, DimensionMismatch
from resift.text import tokenize
from resift_lab.commands.train import train as train_commands
from resift_lab.training.classes import _EncodedDocuments, _WordClassifier, stratified_folds, train_classes
from resift_lab.training.options import ClassOptions

TOPICS = {
    "music": ["violin", "cello", "opera", "sonata", "choir", "tenor", "organ", "flute"],
    "metal": ["iron", "steel", "copper", "zinc", "alloy", "rust", "anvil", "forge"],
    "sea": ["wave", "tide", "reef", "harbour", "sail", "coral", "shore", "anchor"],
}
NOISE = ["the", "of", "and", "with", "from", "many"]


def word_vectors(deviation: float) -> WordVectors:
    """Return word vectors of 8 dimensions. Those of a topic differ from each other by this standard deviation."""
    words = [*NOISE, *(word for topic in TOPICS.values() for word in topic)]
    centres = [np.zeros(8)] * len(NOISE) + [row for row in np.eye(8)[:3] for _ in range(8)]
    noise = np.random.default_rng(0).normal(0, deviation, (len(words), 8))
    return build_table(words, np.array(centres) + noise, "none")


@pytest.fixture(scope="module")
def table() -> WordVectors:
    """Return word vectors that separate the topics."""
    return word_vectors(0.2)


def texts_of(words: slice, count: int, seed: int) -> tuple[list[str], list[str]]:
    """Return ``count`` texts of each topic, with three of these words of the topic and noise, and their labels."""
    rng = np.random.default_rng(seed)
    pairs = [
        (" ".join([*rng.choice(topic[words], 3), *rng.choice(NOISE, 4)]), name)
        for _ in range(count)
        for name, topic in TOPICS.items()
    ]
    return [text for text, _ in pairs], [name for _, name in pairs]


def test_the_vector_is_the_softmax_of_both_scores() -> None:
    table = WordVectors(["a", "b", "c"], np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], np.float32))
    classifier = Classifier(
        ids=np.array([0, 2], np.int32),
        idf=np.array([2.0, 3.0], np.float32),
        words=np.array([[1.0, -1.0, 0.5], [0.25, 2.0, -1.0]], np.float32),
        head=np.array([[0.5, 0.0, 1.0], [-1.0, 0.5, 0.0]], np.float32),
        bias=np.array([0.1, 0.2, 0.3], np.float32),
    )
    model = ClassModel(table, classifier, ["x", "y", "z"])
    terms = np.array([(1 + np.log(2)) * 2, 3])  # "a" occurs twice, "b" has no weight
    mean = np.array([2 + 0 + 1, 0 + 1 + 1]) / 4
    scores = terms / np.linalg.norm(terms) @ classifier.words
    scores = scores + mean / np.linalg.norm(mean) @ classifier.head + classifier.bias
    expected = np.exp(scores) / np.linalg.norm(np.exp(scores))
    vectors = model.encode(["a b a c", "unknown words", "", "c"])
    np.testing.assert_allclose(vectors[0], expected, rtol=1e-5)
    assert not vectors[1].any()
    assert not vectors[2].any()
    np.testing.assert_allclose(vectors[3], model.word_vectors([2])[0], rtol=1e-5)
    np.testing.assert_allclose(model.encode_one("a b a c"), expected, rtol=1e-5)


def test_a_saved_model_encodes_the_same_vectors(table: WordVectors, tmp_path: Path) -> None:
    texts, labels = texts_of(slice(8), 6, 0)
    model, _ = train_classes(texts, labels, build_model("mean", table))
    loaded = load_model(model.save(tmp_path / "model"))
    assert isinstance(loaded, ClassModel)
    assert (loaded.hash, loaded.classes, loaded.dim) == (model.hash, ["metal", "music", "sea"], 3)
    assert np.array_equal(loaded.encode(texts), model.encode(texts))


def test_documents_whose_words_have_no_label_are_classified_by_their_vectors(table: WordVectors) -> None:
    texts, labels = texts_of(slice(0, 4), 8, 0)
    others, classes = texts_of(slice(4, 8), 8, 1)
    model, summary = train_classes(texts, labels, build_model("mean", table))
    best = [model.classes[column] for column in model.encode(others).argmax(axis=1)]
    assert best == classes
    assert (summary["held_out"], summary["map11"]["trained"]) == (24, 1)


def test_word_scores_are_those_of_scikit_learn(table: WordVectors) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.svm import LinearSVC

    texts, labels = texts_of(slice(8), 10, 2)
    numbers = np.unique(labels, return_inverse=True)[1]
    documents = _EncodedDocuments(texts, numbers, 3, build_model("mean", table))
    part = _WordClassifier(documents, np.arange(20))
    vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, analyzer=tokenize)
    machine = LinearSVC(C=1.0, random_state=0).fit(vectorizer.fit_transform(texts[:20]), labels[:20])
    expected = machine.decision_function(vectorizer.transform(texts[20:]))
    np.testing.assert_allclose(part.scores(documents.counts[20:]), expected, atol=1e-3)


def test_two_classes_have_two_opposite_scores(table: WordVectors) -> None:
    texts, labels = texts_of(slice(8), 6, 3)
    pairs = [(text, label) for text, label in zip(texts, labels, strict=True) if label != "sea"]
    model, _ = train_classes([text for text, _ in pairs], [label for _, label in pairs], build_model("mean", table))
    assert model.classes == ["metal", "music"]
    assert model.encode(["iron steel alloy", "opera choir tenor"]).argmax(axis=1).tolist() == [0, 1]


def test_folds_have_equal_shares_of_each_class_and_spare_single_documents() -> None:
    labels = np.array([0] * 10 + [1] * 4 + [2])
    folds = stratified_folds(labels, 5, 0)
    assert [np.bincount(folds[:10]).tolist(), sorted(folds[10:14].tolist()), folds[14]] == [[2] * 5, [0, 1, 2, 3], -1]


def test_a_document_per_class_is_enough_but_cannot_be_evaluated(table: WordVectors) -> None:
    model, summary = train_classes(
        ["opera choir", "iron steel", "wave tide"], ["music", "metal", "sea"], build_model("mean", table)
    )
    assert (summary["better"], summary["map11"], summary["held_out"], summary["words"]) == (None, {}, 0, 0)
    assert model.encode(["violin cello", "rust"]).argmax(axis=1).tolist() == [1, 0]


def test_invalid_input_is_named(table: WordVectors) -> None:
    mean = build_model("mean", table)
    with pytest.raises(BadInput, match=r"there are 1 texts and 2 labels"):
        train_classes(["opera"], ["music", "metal"], mean)
    with pytest.raises(BadInput, match="model sfbow does not average word vectors"):
        train_classes(["opera", "iron"], ["music", "metal"], build_model("sfbow", table))
    with pytest.raises(BadInput, match="folds is 1"):
        ClassOptions(folds=1)
    empty = Classifier(np.array([99], np.int32), np.ones(1), np.ones((1, 2)), np.ones((8, 2)), np.ones(2))
    with pytest.raises(DimensionMismatch):
        ClassModel(table, empty, ["a", "b"])
    with pytest.raises(BadInput, match="two classes or more"):
        ClassModel(table, empty, ["a"])


def run_command(folder: Path, vectors: WordVectors) -> Result:
    """Run the command on 18 documents with a model of these word vectors. It writes to ``folder``/out."""
    encoder = str(build_model("mean", vectors).save(folder / "encoder"))
    lines = [json.dumps({"text": text, "label": label}) for text, label in zip(*texts_of(slice(8), 6, 0), strict=True)]
    (folder / "few.jsonl").write_text("\n".join(lines), "utf-8")
    options = ["--train", str(folder / "few.jsonl"), "--model", encoder, "--out", str(folder / "out")]
    return CliRunner().invoke(train_commands, ["classes", *options])


def test_the_command_writes_a_model_and_says_how_good_it_is(tmp_path: Path) -> None:
    result = run_command(tmp_path, word_vectors(1))
    assert result.exit_code == 0, result.output
    assert "18 documents of 3 classes" in result.output
    assert "mAP of 18 documents, each held out from a training:" in result.output
    assert "classes:3, 3 dimensions, hash" in result.output
    assert load_model(tmp_path / "out").encode(["iron steel alloy"]).argmax() == 0


def test_the_command_writes_nothing_if_the_vectors_already_separate_the_classes(
    tmp_path: Path, table: WordVectors
) -> None:
    result = run_command(tmp_path, table)
    assert (result.exit_code, (tmp_path / "out").exists()) == (3, False), result.output
    assert "warning: no better than without training" in result.output
