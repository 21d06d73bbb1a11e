"""The baselines: their formulas, and what learns and what repeats."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from evaluation_fixtures import TOPICS, documents, loaded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_transformer import save_sentence_transformer

from resift import WordVectors, build_model
from resift.arrays import Floats
from resift.errors import BadInput, MissingExtra
from resift_lab.evaluation.baselines.bm25 import BM25
from resift_lab.evaluation.baselines.dynamax import DynaMaxPairs
from resift_lab.evaluation.baselines.terms import porter_stemmer
from resift_lab.evaluation.registry import build_system

pytestmark = pytest.mark.usefixtures("here")


class Noted:
    """A system that notes what it was made of."""

    similarity = "cosine"

    def __init__(self, path: str, seed: int) -> None:
        self.path, self.seed = path, seed

    def fit(self, documents: Sequence[str]) -> Floats:
        """Zeros."""
        return self.encode_queries(documents)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Zeros."""
        return np.zeros((len(texts), 1), np.float32)


def test_bm25_by_its_formula() -> None:
    texts = ["whale whale sea", "sea boat", "boat boat boat boat"]
    bm25 = BM25(k1=1.2, b=0.75)
    rows = bm25.fit(texts)
    scores = (bm25.encode_queries(["the whale's sea", "sea sea"]) @ rows.T).toarray()

    def part(tf: int, length: int, df: int) -> float:
        return float(np.log(1 + (3 - df + 0.5) / (df + 0.5)) * tf / (tf + 1.2 * (0.25 + 0.75 * length / 3)))

    np.testing.assert_allclose(scores[0], [part(2, 3, 1) + part(1, 3, 2), part(1, 2, 2), 0], rtol=1e-6)
    np.testing.assert_allclose(scores[1], [2 * part(1, 3, 2), 2 * part(1, 2, 2), 0], rtol=1e-6)
    np.testing.assert_allclose(bm25.document_weights(texts).toarray(), rows.toarray())


def test_sif_takes_off_the_common_direction(folder: str) -> None:
    system = build_system("sif", folder)
    texts = [record["text"] for record in documents(30, 0)]
    rows = system.fit(texts)
    np.testing.assert_allclose(system.encode_queries(texts), rows, atol=1e-6)
    values = np.linalg.svd(rows, compute_uv=False)
    assert values[-1] < 1e-5 < values[-2]


def test_pooling_of_means(folder: str, vectors: WordVectors) -> None:
    rows, fire, the = vectors.rows(), vectors.index["fire"], vectors.index["the"]
    for name, weights in (("model2vec", np.log([fire + 2, the + 2])), ("mean-plain", (1, 1))):
        pooled = weights[0] * rows[fire] + 2 * weights[1] * rows[the]
        found = build_system(name, folder).encode_queries(["the fire the"])[0]
        np.testing.assert_allclose(found, pooled / np.linalg.norm(pooled), rtol=1e-5)


def test_fuzzy_counts_follow_equation_6(folder: str, vectors: WordVectors) -> None:
    system, rows = build_system("sfbow-counts", folder), vectors.rows() * vectors.weights[:, None]
    fire, the = rows[vectors.index["fire"]], rows[vectors.index["the"]]
    found = system.encode_queries(["the fire the", "fire", "qqq"])
    np.testing.assert_allclose(found[0], np.maximum(np.maximum(2 * the, fire), 0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], np.maximum(fire, 0), rtol=1e-5, atol=1e-6)
    assert not found[2].any()


def test_an_svm_encodes_texts_by_class_probabilities(tmp_path: Path) -> None:
    records = documents(60, 0)
    file = tmp_path / "labelled.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    texts, labels = ([record[name] for record in records] for name in ("text", "label"))
    sharp, soft = (build_system(f"svm:{temperature},{file}").encode_queries(texts) for temperature in (0.1, 1))
    np.testing.assert_allclose(sharp.sum(axis=1), 1, rtol=1e-5)
    classes = sorted(set(labels))
    assert sharp.shape == (60, len(classes))
    assert [classes[column] for column in sharp.argmax(axis=1)] == labels
    np.testing.assert_array_equal(sharp.argmax(axis=1), soft.argmax(axis=1))
    assert (sharp.max(axis=1) > soft.max(axis=1)).all()


@pytest.mark.parametrize("name", ["svm", "svm:1", "svm:0,{file}", "svm:x,{file}", "svm:1,{single}"])
def test_an_svm_needs_a_temperature_and_a_file_with_two_classes(tmp_path: Path, name: str) -> None:
    file, single = tmp_path / "labelled.jsonl", tmp_path / "single.jsonl"
    file.write_text('{"text": "fire fire", "label": "a"}\n{"text": "rain rain", "label": "b"}\n', "utf-8")
    single.write_text('{"text": "fire", "label": "a"}\n', "utf-8")
    with pytest.raises(BadInput, match=r"unknown encoder|temperature|single class"):
        build_system(name.format(file=file, single=single))


words_of_texts = st.lists(st.sampled_from(["bush", "fire", "army", "zzz", "xq7", "the"]), max_size=6).map(" ".join)


@given(words_of_texts, st.lists(words_of_texts, max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_words_without_vectors_match_only_themselves(vectors: WordVectors, text: str, others: list[str]) -> None:
    rows, weights = vectors.rows().astype(np.float64), vectors.weights.astype(np.float64)
    unknown = 0.25 * np.quantile(weights, 0.99) * np.sqrt((rows**2).sum(axis=1).mean())

    def product(first: str, second: str) -> float:
        ids = [vectors.index[word] for word in (first, second)]
        if min(ids) < 0:
            return float(unknown**2) if first == second and first != "the" else 0.0
        return float(rows[ids[0]] @ rows[ids[1]] * weights[ids[0]] * weights[ids[1]])

    expected = []
    for other in others:
        words, universe = (text.split(), other.split()), [*text.split(), *other.split()]
        a, b = ([max(0.0, *(product(word, one) for word in side), 0.0) for one in universe] for side in words)
        total = sum(map(max, a, b))
        expected.append(sum(map(min, a, b)) / total if total else 0.0)
    np.testing.assert_allclose(
        DynaMaxPairs(vectors).pair_similarities([text] * len(others), others), expected, atol=1e-5
    )


def test_plain_dynamax_leaves_out_words_without_vectors(folder: str) -> None:
    plain = build_system("dynamax-plain", folder)
    assert isinstance(plain, DynaMaxPairs)
    texts = (["bush zzz xq7"], ["bush zzz fire"])
    assert plain.pair_similarities(*texts) == plain.pair_similarities(["bush"], ["bush fire"])
    extended = build_system("dynamax", folder)
    assert isinstance(extended, DynaMaxPairs)
    assert extended.pair_similarities(*texts) != plain.pair_similarities(*texts)


def test_paragraph_vectors_are_reproducible_in_another_process(corpus: list[str]) -> None:
    code = "import sys; from resift_lab.commands.evaluate import evaluate; evaluate()"
    command = [sys.executable, "-c", code, "classes", *corpus, "--encoder", "pv-dbow:5", "--seed", "3", "--json"]
    assert json.loads(subprocess.run(command, capture_output=True, check=True).stdout) == loaded(*command[3:-1])
    assert loaded(*command[3:-1]) != loaded(*command[3:-1], "--seed", "4")


def test_the_seed_determines_the_codebook(corpus: list[str], folder: str, vectors: WordVectors) -> None:
    report = loaded("classes", *corpus, "--vectors", folder, "--encoder", "boew:3", "--seed", "5")
    assert report["seed"] == 5
    expected = build_model("boew:3", vectors, 5).encode(["fire"])
    np.testing.assert_array_equal(build_system("boew:3", folder, 5).encode_queries(["fire"]), expected)


def test_sentence_transformers(here: Path, pairs: str) -> None:
    save_sentence_transformer(here / "st", [*TOPICS["fire"], *TOPICS["war"]])
    report = loaded("sts", pairs, "--encoder", f"st:{here / 'st'}")
    assert -1 <= report["spearman"] <= 1


def test_systems_that_learn_need_a_function(folder: str) -> None:
    for name in ("adapted", "st:folder"):
        with pytest.raises(BadInput, match="no function for it was passed"):
            build_system(name, folder)
    made = build_system("st:folder", folder, 3, system_builders={"st": lambda source, path: Noted(path, source.seed)})
    assert isinstance(made, Noted)
    assert (made.path, made.seed) == ("folder", 3)


def test_stemming_needs_gensim(monkeypatch: pytest.MonkeyPatch) -> None:
    porter_stemmer.cache_clear()
    monkeypatch.setitem(sys.modules, "gensim.parsing.porter", None)
    with pytest.raises(MissingExtra, match=r"resift\[lab\]"):
        porter_stemmer()
