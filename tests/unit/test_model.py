"""Tests of the encoders: vectors, similarities, unknown words, invalid options, and saved models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resift import Model, WordVectors, build_model, load_model, load_vectors
from resift.encoders.codebook import learn_codebook, membership
from resift.encoders.model import Layers
from resift.encoders.tables import build_table, quantize_table
from resift.errors import BadInput, CorruptModel, DimensionMismatch, ModelNotFound
from resift.text import tokenize
from resift.vectors import compiled
from resift.vectors.weights import DEFAULT_ALPHA, Alphas

TRAINED = ["mask", "segments", "head", "segments and head", "blocks", "mask and blocks"]
NAMES = ["mean", "sfbow", "sfbow:signed", "sfbow:pca3", "sfbow:kmeans4", "boew:4", "boew:4,0.7", *TRAINED]
TEXTS = ["Bush fire!", "", "zzz", "army gun the the the", "forest " * 500, "fire zzz"]


def reference_vector(model: Model, text: str) -> np.ndarray:
    """Encode a text from the definition, in 64 bits."""
    rows = [model.table.index[word] for word in tokenize(text) if word in model.table.index]
    weights, words = model.table.weights.astype(np.float64), model.table.rows().astype(np.float64)
    if not rows:
        return np.zeros(model.dim)
    if model.pool == "max":
        return np.maximum((words[rows] * weights[rows, None]).max(axis=0), 0) * model.mask
    parts: list[list[int]] = [[] for _ in range(model.segments)]
    for position, row in enumerate(rows):
        parts[position * model.segments // len(rows)].append(row)
    means = [np.average(words[part], axis=0, weights=weights[part]) if part else 0 * words[0] for part in parts]
    vector = np.concatenate(means) * model.mask
    if model.head is not None:
        vector = np.maximum(model.head.T.astype(np.float64) @ vector, 0)
    for block in np.split(vector, model.blocks):
        block /= np.linalg.norm(block) or 1
    return vector / (np.linalg.norm(vector) or 1)


@pytest.fixture(scope="module")
def models(vectors: WordVectors) -> dict[str, Model]:
    """Return encoders of all kinds, with different word weights."""
    weighted = WordVectors(vectors.words, vectors.matrix, np.linspace(0.5, 2, len(vectors)))
    models = {name: build_model(name, weighted) for name in NAMES if name not in TRAINED}
    rng, table = np.random.default_rng(0), models["boew:4"].table
    for name in TRAINED:
        segments = 3 if "segments" in name else 1
        head = rng.normal(size=(4 * segments, 5)) + 0.2 if "head" in name else None
        mask = None if name == "blocks" else rng.random(4 * segments)
        layers = Layers(mask, head, segments, blocks=2 if "blocks" in name else 1)
        models[name] = Model(name, table, "mean", "cosine", layers)
    return models


@pytest.fixture(params=["compiled", "python"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with compiled loops for texts of any length, and without compiled loops."""
    monkeypatch.setattr(compiled, "MIN_CHARACTERS", 0 if request.param == "compiled" else 10**9)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("name", NAMES)
def test_encode_follows_the_definition(models: dict[str, Model], name: str) -> None:
    encoded = models[name].encode(TEXTS)
    assert encoded.dtype == np.float32
    expected = [reference_vector(models[name], text) for text in TEXTS]
    np.testing.assert_allclose(encoded, expected, atol=1e-6)
    np.testing.assert_allclose([models[name].encode_one(text) for text in TEXTS], expected, atol=1e-6)


@pytest.mark.usefixtures("path")
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(alphabet="abefghimnorstuw .é\n", max_size=60), max_size=5))
def test_encode_follows_the_definition_for_any_texts(models: dict[str, Model], texts: list[str]) -> None:
    for model in models.values():
        encoded = model.encode(texts)
        assert encoded.shape == (len(texts), model.dim)
        expected = np.array([reference_vector(model, text) for text in texts]).reshape(len(texts), model.dim)
        np.testing.assert_allclose(encoded, expected, atol=1e-5)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("pool", ["mean", "max"])
@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "int8", "columns first"])
def test_encode_follows_the_definition_for_tables_of_any_dtype(vectors: WordVectors, kind: str, pool: str) -> None:
    table = WordVectors(vectors.words, vectors.matrix, np.linspace(0.5, 2, len(vectors)))
    if kind == "int8":
        table = quantize_table(table)
    else:
        table.matrix = np.asfortranarray(table.matrix) if kind == "columns first" else table.matrix.astype(kind)
    model = Model("x", table, pool, "cosine" if pool == "mean" else "jaccard")
    np.testing.assert_allclose(model.encode(TEXTS), [reference_vector(model, text) for text in TEXTS], atol=1e-6)


def test_batches_keep_the_order_and_are_read_lazily(model: Model) -> None:
    texts, read = [f"fire {'gun ' * (i % 7)}" for i in range(200)], 0

    def stream() -> Iterator[str]:
        nonlocal read
        for text in texts:
            read += 1
            yield text

    batches = model.encode_batches(stream(), batch_size=5)
    encoded = [next(batches)]
    assert read == 5
    encoded += batches
    np.testing.assert_array_equal(np.concatenate(encoded), model.encode(texts))
    with pytest.raises(BadInput, match="text 150 is a int"):
        model.encode([*texts[:150], 7], batch_size=10)  # type: ignore[list-item]


def test_batches_of_long_texts_have_fewer_texts(model: Model) -> None:
    shapes = [len(batch) for batch in model.encode_batches(["fire " * 400_000] * 5 + ["gun"] * 3)]
    assert shapes == [3, 5]


def test_encode_accepts_any_iterable_and_batch_size(model: Model) -> None:
    def stream() -> Iterator[str]:
        yield from TEXTS * 3

    np.testing.assert_array_equal(model.encode(stream(), batch_size=4), model.encode(TEXTS * 3))
    first = next(model.encode_batches(iter(lambda: "fire", None), batch_size=2))
    assert first.shape == (2, model.dim)
    assert model.encode([]).shape == (0, model.dim)


def test_encode_refuses_texts_that_are_not_strings(model: Model) -> None:
    with pytest.raises(BadInput, match="a single string"):
        model.encode("fire")
    with pytest.raises(BadInput, match="text 3 is a NoneType"):
        model.encode(["a", "b", "c", None], batch_size=2)  # type: ignore[list-item]
    with pytest.raises(BadInput, match="text 0 is a int"):
        model.encode_one(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_texts_of_unknown_words_have_similarity_0(models: dict[str, Model], name: str) -> None:
    model = models[name]
    empty, full = model.encode(["zzz", "fire"])
    assert not empty.any()
    scores = model.score(empty, np.stack([empty, full]))
    np.testing.assert_array_equal(scores, [0, 0])
    np.testing.assert_allclose(model.score(full, np.stack([empty, full])), [0, 1], atol=1e-6)


def test_boew_memberships_follow_the_definition(vectors: WordVectors) -> None:
    model = build_model("boew:4,0.5", vectors)
    np.testing.assert_allclose(model.table.rows().sum(axis=1), 1, rtol=1e-5)
    codebook = learn_codebook(vectors, 4)
    words = vectors.rows() / np.linalg.norm(vectors.rows(), axis=1, keepdims=True)
    distance = np.linalg.norm(words[:, None] - codebook, axis=2)
    d = np.exp(-distance / 0.5**2)
    np.testing.assert_allclose(model.table.rows(), d / d.sum(axis=1, keepdims=True), atol=1e-5)


def test_memberships_are_harder_for_smaller_sigma() -> None:
    words, codebook = np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32)
    np.testing.assert_allclose(membership(words, codebook, 0.01), np.eye(2), atol=1e-6)
    np.testing.assert_allclose(membership(words, codebook, 100), np.full((2, 2), 0.5), atol=1e-3)


def test_heads_and_segments_determine_the_dimensions(models: dict[str, Model]) -> None:
    assert [models[name].dim for name in TRAINED] == [4, 12, 5, 5, 4, 4]
    both = models["segments and head"]
    assert "rain" in both.nearest_words(both.encode(["rain rain rain"])[0], 3)


@pytest.mark.parametrize(
    ("pool", "mask", "head", "segments"),
    [
        ("mean", 3, None, 1),
        ("mean", 9, None, 2),
        ("mean", 4, 8, 1),
        ("mean", None, 4, 2),
        ("mean", None, None, 0),
        ("max", None, None, 2),
        ("max", None, 4, 1),
        ("median", None, None, 1),
    ],
)
def test_incompatible_layers_are_refused(
    models: dict[str, Model], pool: str, mask: int | None, head: int | None, segments: int
) -> None:
    arrays = [None if shape is None else np.ones(shape) for shape in (mask, head and (head, 2))]
    with pytest.raises(BadInput):
        Model("x", models["boew:4"].table, pool, "cosine", Layers(*arrays, segments))


@pytest.mark.parametrize(
    ("pool", "similarity", "blocks"),
    [("mean", "cosine", 0), ("mean", "cosine", 3), ("mean", "jaccard", 2), ("max", "cosine", 2)],
)
def test_incompatible_blocks_are_refused(models: dict[str, Model], pool: str, similarity: str, blocks: int) -> None:
    with pytest.raises(BadInput, match=rf"^{blocks} blocks of 4 dimensions"):
        Model("x", models["boew:4"].table, pool, similarity, Layers(blocks=blocks))


def test_errors_name_the_incompatible_layer(vectors: WordVectors) -> None:
    with pytest.raises(BadInput, match=r"^0 segments"):
        Model("x", vectors, "mean", "cosine", Layers(segments=0))
    with pytest.raises(DimensionMismatch, match="mask and head"):
        Model("x", vectors, "mean", "cosine", Layers(head=np.ones((vectors.dim, 2, 2))))


def test_encode_one_applies_the_head(vectors: WordVectors) -> None:
    head = np.random.default_rng(0).normal(size=(vectors.dim, 3))
    model = Model("x", vectors, "mean", "cosine", Layers(head=head))
    for text in ("fire", "gun war"):
        np.testing.assert_allclose(model.encode_one(text), reference_vector(model, text), atol=1e-6)
    all_masked = Model("x", vectors, "mean", "cosine", Layers(np.zeros(vectors.dim)))
    assert not all_masked.encode_one("fire").any()


@pytest.mark.parametrize("setting", ["alpha", "max_alpha"])
def test_alphas_are_from_0_to_1_and_saved(vectors: WordVectors, tmp_path: Path, setting: str) -> None:
    for value in (-0.01, 1.01, float("nan")):
        with pytest.raises(BadInput, match=rf"^{setting} is"):
            Alphas(**{setting: value})
    for value in (0.0, 1.0):
        model = Model("x", vectors, "mean", "cosine", alphas=Alphas(**{setting: value}))
        loaded = load_model(model.save(tmp_path / str(value)))
        assert {setting: getattr(loaded, setting)} == {setting: value}
        assert loaded.alpha + loaded.max_alpha == value + DEFAULT_ALPHA


@pytest.mark.parametrize(
    ("pool", "similarity", "message"),
    [
        ("sum", "cosine", r"pool is 'sum' \(expected mean \| max\)"),
        ("mean", "dot", r"similarity is 'dot' \(expected cosine \| jaccard\)"),
    ],
)
def test_the_wrong_setting_is_named(models: dict[str, Model], pool: str, similarity: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Model("x", models["boew:4"].table, pool, similarity)


@pytest.mark.parametrize(("pool", "similarity"), [("mean", "jaccard"), ("max", "cosine"), ("max", "jaccard")])
def test_pools_and_similarities_can_be_combined(vectors: WordVectors, pool: str, similarity: str) -> None:
    table = WordVectors(vectors.words, vectors.matrix, np.linspace(0.5, 2, len(vectors)))
    model = Model("x", table, pool, similarity)
    rows = table.matrix[[table.index["fire"], table.index["gun"]]].astype(np.float64)
    weights = np.array([table.weights[table.index[word]] for word in ("fire", "gun")])
    mean, largest = weights @ rows / weights.sum(), np.maximum((rows * weights[:, None]).max(0), 0)
    expected = mean if pool == "mean" else largest
    if similarity == "cosine":
        expected = expected / np.linalg.norm(expected)
    np.testing.assert_allclose(model.encode(["fire gun"])[0], expected, atol=1e-6)
    np.testing.assert_allclose(model.encode_one("Fire, gun!"), expected, atol=1e-6)
    assert model.space_type == ("innerproduct" if similarity == "cosine" else "l2")


@pytest.mark.parametrize("segments", [1, 2, 4])
def test_texts_are_split_into_segments(vectors: WordVectors, tmp_path: Path, segments: int) -> None:
    model = Model("x", vectors, "mean", "cosine", Layers(segments=segments))
    texts = ["fire bush gun war rain", "gun", ""]
    expected = [reference_vector(model, text) for text in texts]
    np.testing.assert_allclose(model.encode(texts), expected, atol=1e-6)
    np.testing.assert_allclose([model.encode_one(text) for text in texts], expected, atol=1e-6)
    loaded = load_model(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(loaded.encode(texts), model.encode(texts))


@pytest.mark.parametrize("segments", [1, 2])
def test_a_text_whose_words_cancel_out_has_the_zero_vector(segments: int) -> None:
    table = build_table(["hot", "cold"], np.array([[1, 2], [-1, -2]], np.float32))
    table.weights[:] = 1
    model = Model("x", table, "mean", "cosine", Layers(segments=segments))
    text = "hot cold cold hot"
    assert not model.encode_one(text).any()
    np.testing.assert_array_equal(model.encode([text])[0], model.encode_one(text))


def test_models_without_layers_keep_the_first_saved_format(tmp_path: Path, model: Model) -> None:
    saved = json.loads((model.save(tmp_path / "m") / "model.json").read_text())
    assert "segments" not in saved
    assert saved["arrays"] == ["mask", "vectors", "weights"]


def test_the_mask_weights_dimensions(vectors: WordVectors) -> None:
    mask = np.zeros(vectors.dim)
    mask[2] = 1
    model = Model("masked", vectors, "mean", "cosine", Layers(mask))
    encoded = model.encode(["fire"])[0]
    assert np.flatnonzero(encoded).tolist() == [2]


def test_score_applies_a_mask_and_checks_dimensions(model: Model) -> None:
    query, documents = model.encode(["fire"])[0], model.encode(["bush", "gun"])
    mask = np.linspace(0, 1, model.dim)
    a, b = query * mask, documents * mask
    expected = b @ a / np.linalg.norm(a) / np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(model.score(query, documents, mask), expected, rtol=1e-5)
    with pytest.raises(DimensionMismatch):
        model.score(query[:3], documents)


@pytest.mark.parametrize("similarity", ["cosine", "jaccard"])
@pytest.mark.parametrize("count", [0, 511, 512, 513, 1300])
def test_scores_do_not_depend_on_the_number_of_documents(vectors: WordVectors, similarity: str, count: int) -> None:
    rng = np.random.default_rng(count)
    model = Model("any", vectors, "mean", similarity)
    query, mask = rng.random((2, model.dim), np.float32)
    documents = rng.random((count, model.dim), np.float32)
    for weights in (None, mask):
        scores = model.score(query, documents, weights)
        assert (scores.shape, scores.dtype) == ((count,), np.float32)
        single_scores = [model.score(query, row[None], weights)[0] for row in documents]
        np.testing.assert_allclose(scores, single_scores, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_loading_restores_what_was_saved(tmp_path: Path, models: dict[str, Model], name: str) -> None:
    model = models[name]
    loaded = load_model(model.save(tmp_path / "m"))
    assert (loaded.hash, loaded.name, loaded.dim, loaded.space_type) == (
        model.hash,
        name,
        model.dim,
        model.space_type,
    )
    np.testing.assert_array_equal(loaded.encode(TEXTS), model.encode(TEXTS))


def test_different_models_have_different_hashes(models: dict[str, Model], vectors: WordVectors) -> None:
    assert len({model.hash for model in models.values()}) == len(models)
    assert build_model("boew:4", vectors, seed=0).hash == build_model("boew:4", vectors, seed=0).hash
    assert build_model("boew:4", vectors, seed=0).hash != build_model("boew:4", vectors, seed=1).hash


def test_damaged_and_missing_models_are_refused(tmp_path: Path, model: Model) -> None:
    folder = model.save(tmp_path / "m")
    np.save(folder / "mask.npy", np.full(model.dim, 2, np.float32))
    with pytest.raises(CorruptModel):
        load_model(folder)
    with pytest.raises(ModelNotFound):
        load_model(tmp_path / "none")


@pytest.mark.parametrize(
    "name", ["", "men", "mean:3", "boew", "boew:0", "boew:x", "boew:999", "boew:4,0", "boew:4,nan"]
)
def test_unknown_encoder_names_are_refused(vectors: WordVectors, name: str) -> None:
    with pytest.raises(BadInput, match="unknown encoder"):
        build_model(name, vectors)


def test_nearest_words_have_the_largest_cosine(vectors: WordVectors) -> None:
    model = build_model("mean", vectors)
    row = vectors.rows()[vectors.index["gun"]]
    assert model.nearest_words(row, 1) == ["gun"]
    similar = vectors.rows() @ row / np.linalg.norm(vectors.rows(), axis=1)
    assert model.nearest_words(row) == [vectors.words[i] for i in np.argsort(-similar)[:5]]
    assert len(model.nearest_words(row, 999)) == len(vectors)
    memberships = np.repeat(np.eye(2, dtype=np.float32), 5, axis=0)[::-1]
    boew = Model("boew:2", build_table([*"abcdefghij"], memberships), "mean", "cosine")
    assert boew.nearest_words(np.array([1, 0]), 3) == ["f", "g", "h"]


def test_the_packaged_model_relates_words_of_similar_meaning() -> None:
    model = load_model()
    query = model.encode(["doctor treats patient"])[0]
    scores = model.score(query, model.encode(["a physician in the hospital", "a goal in the football match"]))
    assert scores[0] > scores[1] + 0.2
    assert len(load_vectors()) >= 20_000
    assert load_model().hash == model.hash
