"""Tests of word2doc: training pairs, negatives, training, resuming, saving and the commands."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

import resift
from resift import WordVectors
from resift.cli.main import main
from resift.encoders.registry import load_model
from resift.encoders.word2doc import CONTEXT, Word2Doc
from resift.errors import BadInput, CorruptModel
from resift.ingest.readers import read_records
from resift_lab.training.options import Word2DocOptions
from resift_lab.training.word2doc import sample_negatives, train_word2doc
from resift_lab.training.word2doc_pairs import training_pairs
from resift_lab.training.word2doc_report import _retriever_ranks, evaluate, mean_ranks
from resift_lab.word2doc.documents import TitledTexts, read_titled_texts
from resift_lab.word2doc.keywords import NOISES
from resift_lab.word2doc.retriever import build_retriever

SMALL = Word2DocOptions(hidden=16, epochs=2, batch=32, keywords=6, rounds=1)


def corpus() -> TitledTexts:
    """Return forty documents of invented words, each with its own title and keywords."""
    rng = np.random.default_rng(0)
    syllables = ["ka", "lo", "mi", "ner", "pos", "tu", "vex", "zan", "bri", "del"]

    def word() -> str:
        return "".join(rng.choice(syllables, 3))

    titles = [f"{word()} {word()}" for _ in range(40)]
    bodies = [". ".join(f"the {word()} {word()} of the {word()}" for _ in range(4)) for _ in range(40)]
    return TitledTexts([f"d{place}" for place in range(40)], titles, bodies)


@pytest.fixture(scope="module")
def vectors() -> WordVectors:
    return WordVectors(["the", "of", "fire"], np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32))


@pytest.fixture(scope="module")
def trained(vectors: WordVectors) -> Word2Doc:
    return train_word2doc(corpus(), vectors, SMALL)[0]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_held_out_keywords_are_never_trained_on() -> None:
    documents = corpus()
    pairs = training_pairs(documents.titles, documents.bodies, 6)
    learnt = {query.lower() for query in pairs.queries}
    assert len(pairs.test_keywords) > 30
    assert not learnt & pairs.test_keywords.keys()
    assert not learnt & pairs.validation_keywords.keys()
    assert not pairs.validation_keywords.keys() & pairs.test_keywords.keys()
    for keyword, place in pairs.test_keywords.items():
        assert keyword in f"{documents.titles[place]} {documents.bodies[place]}".lower()
    assert set(pairs.documents) == set(range(len(documents.ids)))


def test_negatives_are_neither_target_nor_context() -> None:
    rng = np.random.default_rng(0)
    context = np.stack([rng.permutation(25)[:CONTEXT] for _ in range(200)])
    targets = rng.integers(25, size=200)
    negatives = sample_negatives(rng, context, targets, 10, 25)
    assert negatives.shape == (200, 10)
    for row, row_context, target in zip(negatives, context, targets, strict=True):
        assert not set(row.tolist()) & {*row_context.tolist(), int(target)}
    assert set(np.unique(negatives)) == set(range(25))


def test_the_exported_model_equals_the_network(vectors: WordVectors) -> None:
    torch.manual_seed(0)
    model, _ = train_word2doc(corpus(), vectors, SMALL)
    layers = {name: np.asarray(value, np.float64) for name, value in model.layers.items()}
    query = "kalomi nerpostu"
    network, retrieved = model.separate_scores([query])
    read = " ".join(model.speller.correct(query))
    joined = model.query_encoder.encode([read]) @ layers["query"] + layers["query_bias"]
    context = model.retriever.best_documents(read, CONTEXT)
    joined = (joined + layers["embeddings"][context].sum(axis=0)) / (1 + CONTEXT)
    hidden = np.maximum(joined @ layers["hidden"] + layers["hidden_bias"], 0)
    np.testing.assert_allclose(network, hidden @ layers["output"].T + layers["output_bias"], atol=1e-4)
    assert retrieved.max() in (0, 1)


def test_word2doc_beats_the_retriever_on_typing_errors(trained: Word2Doc) -> None:
    report = evaluate(trained)
    assert set(report["kinds"]) == set(NOISES)
    noisy = report["noisy"]
    assert noisy["word2doc@1"] > 1.5 * noisy["retriever@1"]
    assert noisy["wins"] - noisy["losses"] == pytest.approx(
        (noisy["word2doc@1"] - noisy["retriever@1"]) * 4 * report["queries"]
    )
    assert evaluate(trained) == report


def test_titles_are_trained_on(vectors: WordVectors) -> None:
    documents = corpus()
    model, _ = train_word2doc(documents, vectors, Word2DocOptions(hidden=32, epochs=30, batch=32, keywords=6, rounds=1))
    network, _ = model.separate_scores(documents.titles)
    assert (network.argmax(axis=1) == np.arange(len(documents.ids))).mean() > 0.5
    assert model.predict(documents.titles[3], 2)[0][0] == documents.ids[3]


def test_resuming_gives_the_same_model(tmp_path: Path, vectors: WordVectors) -> None:
    whole, _ = train_word2doc(corpus(), vectors, SMALL)

    class Stop(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done > total * 0.7:
            raise Stop

    with pytest.raises(Stop):
        train_word2doc(corpus(), vectors, SMALL, stop, tmp_path / "checkpoint")
    resumed, _ = train_word2doc(corpus(), vectors, SMALL, None, tmp_path / "checkpoint")
    assert resumed.hash == whole.hash
    others = WordVectors(vectors.words, vectors.rows() + 1)
    anew, _ = train_word2doc(corpus(), others, SMALL, None, tmp_path / "checkpoint")
    assert anew.hash == train_word2doc(corpus(), others, SMALL)[0].hash, "a checkpoint of another training is ignored"
    (tmp_path / "checkpoint").write_bytes(b"nothing")
    with pytest.raises(BadInput, match="checkpoint"):
        train_word2doc(corpus(), vectors, SMALL, None, tmp_path / "checkpoint")


def test_saved_and_loaded(tmp_path: Path, trained: Word2Doc) -> None:
    trained.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded, Word2Doc)
    queries = ["kalomi", "nerpostu zanbri", ""]
    np.testing.assert_array_equal(loaded.scores(queries), trained.scores(queries))
    assert loaded.hash == trained.hash
    np.save(tmp_path / "model" / "output_bias.npy", np.zeros(40, np.float32) + 1)
    with pytest.raises(CorruptModel):
        load_model(tmp_path / "model")


def texts_of(documents: TitledTexts) -> list[str]:
    """Return the texts as an index with the fields title and text has them."""
    return [f"{title}\n{body}" for title, body in zip(documents.titles, documents.bodies, strict=True)]


def test_vectors_rank_the_documents_of_the_training_as_the_network_does(trained: Word2Doc) -> None:
    documents = corpus()
    vectors = trained.encode(texts_of(documents))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    queries = [*documents.titles[:5], "kalomi", "nerpostu zanbrl"]
    network, _ = trained.separate_scores(queries)
    for row, query in zip(network, queries, strict=True):
        vector = trained.encode_query(query)
        np.testing.assert_allclose(np.linalg.norm(vector), 1, rtol=1e-5)
        similarities = trained.score(vector, vectors)
        # the similarity is the score of the network, divided by a constant
        np.testing.assert_allclose(similarities * (row[0] / similarities[0]), row, rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(
        trained.similarities(queries[:1])[0], trained.score(trained.encode_query(queries[0]), vectors), atol=1e-5
    )


def test_documents_are_recognised_by_their_words(trained: Word2Doc) -> None:
    documents = corpus()
    learned = trained.encode(texts_of(documents)[:1])
    reordered = f"{documents.bodies[0].upper()} -- {documents.titles[0]}!"
    np.testing.assert_array_equal(trained.encode([reordered]), learned)
    assert not trained.encode([f"{reordered} kalomi"]).any()  # another document, which the training did not see
    assert not trained.encode([""]).any()
    assert not trained.encode_query("").any()


def test_long_texts_are_read_up_to_a_limit(trained: Word2Doc) -> None:
    long = "kalomi " * 2000
    np.testing.assert_array_equal(trained.encode_query(long), trained.encode_query(f"{long} nerpostu"))
    typed = trained.encode_query(" ".join(["kalomii"] * 33))
    assert np.abs(typed - trained.encode_query(" ".join(["kalomi"] * 33))).max() > 0  # not corrected
    word = "kalomi" * 100
    np.testing.assert_array_equal(trained.encode_query(word), trained.encode_query(word[:64]))


def test_long_queries_have_the_same_spelling_in_all_searches(
    trained: Word2Doc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trained.speller, "correct", lambda query: pytest.fail("corrected"))
    query = " ".join(["kalomii"] * 33)
    network, _ = trained.separate_scores([query])
    vector = trained.encode_query(query)
    cosines = trained.similarities([query])[0]
    np.testing.assert_allclose(cosines * (network[0, 0] / cosines[0]), network[0], rtol=1e-2, atol=1e-3)
    assert vector.any()
    assert len(trained.predict(query, 3)) == 3


def test_documents_with_equal_scores_share_the_mean_of_their_ranks() -> None:
    scores = np.array([[1.0, 3, 3, 2], [0, 0, 0, 0], [5, 3, 3, 2]])
    assert mean_ranks(scores, [1, 2, 0]).tolist() == [1.5, 2.5, 1]


def test_the_retriever_ranks_equal_documents_as_the_other_systems_do(vectors: WordVectors) -> None:
    bodies = ["lomi kaner", "lomi kaner", *(f"postu{letter} vex" for letter in "abcdefghijkl")]
    retriever = build_retriever(bodies)
    assert _retriever_ranks(retriever, ["lomi kaner", "lomi kaner", "lomi"], [0, 1, 5]).tolist() == [1.5, 1.5, np.inf]


def test_the_network_answers_searches_of_an_index(here: Path, trained: Word2Doc) -> None:
    documents = corpus()
    sources = [
        {"id": id, "title": title, "text": body}
        for id, title, body in zip(documents.ids, documents.titles, documents.bodies, strict=True)
    ]
    with resift.open("resift.db", model=trained) as library:
        index = library.index("papers", fields=["title", "text"])
        index.add(sources)
        hits = index.search(documents.titles[7], size=40, reasons=True, alpha=0.5)
        scores = trained.similarities([documents.titles[7]])[0]
        found = {hit.id: hit["resift"]["similarity"] for hit in hits}
        assert found
        for id, similarity in found.items():
            assert similarity == pytest.approx(float(scores[documents.ids.index(id)]), abs=1e-3)
        session = index.session("anna")
        session.search(documents.titles[7])
        session.mark(relevant=["d7"], irrelevant=["d8"])
        assert session.search(documents.titles[7])[0].id == "d7"
        assert session.explain()["learned"]["towards"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"dropout": 2.0}, "dropout is 2"), ({"dropout": -0.1}, "dropout is -0.1"), ({"seed": -1}, "seed is -1")],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Word2DocOptions(**settings)


def test_fewer_documents_than_negatives_are_refused(vectors: WordVectors) -> None:
    documents = corpus()
    few = TitledTexts(documents.ids[:20], documents.titles[:20], documents.bodies[:20])
    with pytest.raises(BadInput, match="20 documents are too few to draw 10 negatives"):
        train_word2doc(few, vectors, SMALL)
    with pytest.raises(BadInput, match="no keywords"):
        train_word2doc(TitledTexts(["a"] * 30, [""] * 30, ["the of"] * 30), vectors, SMALL)


def test_the_commands(tmp_path: Path, vectors: WordVectors) -> None:
    documents = corpus()
    titles = documents.titles
    lines = [
        json.dumps({"_id": id, "title": title, "text": body})
        for id, title, body in zip(documents.ids, titles, documents.bodies, strict=True)
    ]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines), "utf-8")
    vectors.save(tmp_path / "vectors")
    options = ["--vectors", tmp_path / "vectors", "--set", "hidden=16", "--set", "epochs=1", "--set", "keywords=6"]
    ran = run("train", "word2doc", "--corpus", tmp_path / "corpus.jsonl", *options, "--out", tmp_path / "out")
    assert ran.exit_code == 0, ran.output
    assert "all errors, first document: " in ran.stdout
    assert not (tmp_path / "out.checkpoint").exists()
    report = json.loads(run("eval", "word2doc", tmp_path / "out", "--json").stdout)
    assert report["documents"] == 40
    assert 0 <= report["kinds"]["clean"]["index@1"] <= 1
    indexed = run(
        "index", tmp_path / "corpus.jsonl", "--index", "docs", "--model", tmp_path / "out", "--engine", tmp_path / "db"
    )
    assert "word2doc, accuracy of" in indexed.stderr
    found = run("search", "docs", titles[0], "--model", tmp_path / "out", "--engine", tmp_path / "db", "--json")
    assert json.loads(found.stdout)["resift"]["model"] == load_model(tmp_path / "out").hash
    answer = json.loads(run("eval", "word2doc", tmp_path / "out", "--query", titles[0]).stdout)
    assert len(answer["predictions"][titles[0]]) == 10
    ran = run("train", "word2doc", "--out", tmp_path / "none")
    assert "Missing option '--corpus'" in ran.stderr
    ran = run(
        "train", "word2doc", "--corpus", tmp_path / "corpus.jsonl", "--set", "keywords=2", "--out", tmp_path / "none"
    )
    assert "3 or more" in ran.stderr


def test_titles_are_separated_from_bodies() -> None:
    lines = [{"_id": "a", "title": "T", "text": "x", "label": "l", "year": 7}, {"id": "b", "text": "y", "more": "z"}]
    content = "\n".join(map(json.dumps, lines)) + "\n{broken"
    records = list(read_records(io.BytesIO(content.encode()), "jsonl", None))
    assert read_titled_texts(records) == TitledTexts(["a", "b"], ["T", ""], ["x", "y\nz"])
    assert read_titled_texts(records[:1], "text") == TitledTexts(["a"], ["x"], ["T"])
