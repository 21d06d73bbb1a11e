"""Tests of damaged model folders: loading raises CorruptModel, and running servers are not affected."""

from __future__ import annotations

import io
import json
import shutil
import urllib.request
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from worker_memory import serving

from resift import Model, WordVectors, build_model, load_model
from resift.encoders.class_model import Classifier, ClassModel
from resift.encoders.late_interaction import LateInteraction
from resift.encoders.model import Layers
from resift.encoders.residual import Residual
from resift.encoders.tables import quantize_table
from resift.encoders.word2doc import NGRAM_DIM, QueryEncoder, Word2Doc, text_keys
from resift.errors import BadInput, CorruptModel, ModelNotFound
from resift.spelling import Speller
from resift.vectors.folder import content_hash
from resift_lab.word2doc.retriever import build_retriever

TEXTS = ["bush fire", "army gun", "river water"]
WORDS = ["fire", "gun", "water", "é"]
LOADERS: dict[str, Callable[[Path], Any]] = {
    "vectors": WordVectors.load,
    "model": load_model,
    "head": load_model,
    "residual": load_model,
    "reranker": LateInteraction.load,
    "word2doc": load_model,
    "classes": load_model,
}
# Parts that may change without damage: provenance, names, and data that a residual network does not read.
_FREE = {"kind", "alpha", "max_alpha", "source", "weighting", "name", "tokenizer", "unknown_words", "segments"}
FREE_SETTINGS = _FREE | {"vectors", "mix", "length", "mean_length", "shifted"}
UNREAD = {
    "residual": {"mask", "pool", "similarity"},
    "word2doc": {"known", "mask", "pool", "similarity", "ids", "training"},
    "classes": {"mask", "pool", "similarity"},
}
JSON = {"vectors": "vectors.json", "reranker": "reranker.json"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a small folder of each kind."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("saved")

    def floats(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    table = WordVectors(WORDS, floats(4, 3))
    small = quantize_table(table)
    layers = {"query": floats(3 + NGRAM_DIM, 2), "query_bias": floats(2), "embeddings": floats(3, 2)}
    layers |= {
        "hidden": floats(2, 2),
        "hidden_bias": floats(2),
        "output": floats(3, 2),
        "output_bias": floats(3),
    }
    classifier = Classifier(np.array([0, 3], np.int32), floats(2), floats(2, 3), floats(3, 3), floats(3))
    kinds: dict[str, Any] = {
        "classes": ClassModel(table, classifier, ["a", "b", "c"]),
        "vectors": small,
        "model": build_model("mean", table),
        "head": Model("rn-bof", table, "mean", "cosine", Layers(head=np.abs(floats(6, 2)), segments=2)),
        "residual": Residual("fcrr", table, floats(1, 3, 3), floats(3), 0.05),
        "reranker": LateInteraction("late", small, {"fire": floats(3)}),
        "word2doc": Word2Doc(
            ["a", "b", "c"],
            QueryEncoder(table),
            build_retriever(TEXTS),
            Speller({"fire": 1, "gun": 1}),
            layers,
            text_keys(TEXTS),
        ),
    }
    return {name: kind.save(folder / name) for name, kind in kinds.items()}


@pytest.fixture(params=list(LOADERS))
def kind(request: pytest.FixtureRequest) -> str:
    """Return each kind of folder in turn."""
    return str(request.param)


@pytest.fixture
def folder(saved: dict[str, Path], kind: str, tmp_path: Path) -> Path:
    """Return a folder of this kind to damage."""
    return Path(shutil.copytree(saved[kind], tmp_path / "damaged"))


def settings_of(folder: Path, kind: str) -> tuple[Path, dict[str, Any]]:
    file = folder / JSON.get(kind, "model.json")
    return file, json.loads(file.read_text("utf-8"))


def sign(folder: Path, kind: str) -> None:
    """Write the hash of the folder's current content into it, as a user's own program could do."""
    file, info = settings_of(folder, kind)
    arrays = {stem: np.load(folder / f"{stem}.npy") for stem in info["arrays"]}
    settings = {name: value for name, value in info.items() if name not in ("format", "hash", "arrays")}
    info["hash"] = content_hash(settings, (folder / "words.txt").read_text("utf-8").split("\n"), arrays)
    file.write_text(json.dumps(info), "utf-8")


def refused(folder: Path, kind: str) -> str:
    """Return the error message of loading a folder, which names the folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns when it repairs a header
        with pytest.raises(CorruptModel) as caught:
            LOADERS[kind](folder)
    assert str(folder) in caught.value.message
    return caught.value.message


def test_every_flipped_bit_is_noticed_or_harmless(folder: Path, kind: str) -> None:
    sound = LOADERS[kind](folder)
    known = sound.save(folder.with_name("again"))
    for file in sorted(folder.iterdir()):
        raw = file.read_bytes()
        # most of the structure, and a sample of the numbers
        for place in [*range(0, min(len(raw), 160), 2), *range(160, len(raw), max(97, len(raw) // 60))]:
            damaged = bytearray(raw)
            damaged[place] ^= 1 << place % 8
            file.write_bytes(damaged)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    loaded = LOADERS[kind](folder)
                except (CorruptModel, ModelNotFound):
                    continue
            saved_again = loaded.save(folder.with_name("again"))
            for name in [path.name for path in known.iterdir()]:
                assert (saved_again / name).read_bytes() == (known / name).read_bytes(), (file.name, place)
        file.write_bytes(raw)


def test_a_file_that_is_cut_or_missing(folder: Path, kind: str) -> None:
    for file in sorted(folder.iterdir()):
        raw = file.read_bytes()
        for length in {0, 1, 2, len(raw) // 2, len(raw) - 2}:
            file.write_bytes(raw[:length])
            refused(folder, kind)
        file.write_bytes(raw + b"\0")
        refused(folder, kind)
        if file.suffix != ".json":
            file.unlink()
            refused(folder, kind)
        file.write_bytes(raw)
    LOADERS[kind](folder)


def arrays_of(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.npy"))


def test_nan_with_a_valid_hash_is_refused(folder: Path, kind: str) -> None:
    floats = [stem for stem in arrays_of(folder) if np.load(folder / f"{stem}.npy").dtype.kind == "f"]
    assert floats
    for stem in floats:
        array = np.load(folder / f"{stem}.npy")
        for value in (np.nan, np.inf):
            wrong = array.copy()
            wrong.flat[-1] = value
            np.save(folder / f"{stem}.npy", wrong)
            sign(folder, kind)
            assert f"{stem} contains NaN or infinity" in refused(folder, kind)
        np.save(folder / f"{stem}.npy", array)


def test_wrong_shapes_and_dtypes_with_the_right_hash(folder: Path, kind: str) -> None:
    for stem in set(arrays_of(folder)) - UNREAD.get(kind, set()):
        array = np.load(folder / f"{stem}.npy")
        wrong = [array[:-1], array[None], array[:0], np.concatenate([array, array]), array.astype(complex)]
        for one in [*wrong, array.astype(bool), array.astype(str), array.astype(object)]:
            np.save(folder / f"{stem}.npy", one, allow_pickle=True)
            if one.dtype.kind not in "Ob":
                sign(folder, kind)
            refused(folder, kind)
        np.save(folder / f"{stem}.npy", array)


@pytest.mark.parametrize("shape", [(10**12, 3), (10**30, 3), (-4, -3), (-4, 3), (40, 3), (), (4, 2)])
def test_a_header_that_claims_what_the_file_has_not(saved: dict[str, Path], tmp_path: Path, shape: Any) -> None:
    folder = Path(shutil.copytree(saved["model"], tmp_path / "damaged"))
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": shape})
    (folder / "vectors.npy").write_bytes(header.getvalue() + bytes(48))
    assert "vectors.npy" in refused(folder, "model")


@pytest.mark.parametrize(
    "words", ["fire\nfire\nwater\né", "fire\ngun\nwater", "fire\ngun\nwater\né\n", "", "fire gun water é"]
)
@pytest.mark.parametrize("kind", ["vectors", "model", "head", "residual", "reranker"], indirect=True)
def test_other_words_with_the_right_hash(folder: Path, kind: str, words: str) -> None:
    (folder / "words.txt").write_text(words, "utf-8")
    sign(folder, kind)
    assert "words and a matrix" in (message := refused(folder, kind)) or "'fire' occurs more than once" in message


def test_settings_that_are_missing_or_of_another_kind(folder: Path, kind: str) -> None:
    file, info = settings_of(folder, kind)
    read = [name for name in info if kind != "vectors" or name in ("format", "hash", "arrays")]
    for name in read:
        for value in (None, -7, "x", [1], {"a": 1}, float("nan")):
            changed = {**info, name: value} if value is not None else {k: v for k, v in info.items() if k != name}
            file.write_text(json.dumps(changed), "utf-8")
            if name not in ("format", "hash", "arrays"):
                sign(folder, kind)
            try:
                LOADERS[kind](folder)
            except (CorruptModel, ModelNotFound):
                continue
            assert name in FREE_SETTINGS | UNREAD.get(kind, set()), (name, value)
    for text in ("[]", '"x"', "7", "null", "{", "[" * 100_000):
        file.write_text(text)
        refused(folder, kind)


def test_a_folder_that_cannot_be_written_stays_as_it_was(saved: dict[str, Path], tmp_path: Path) -> None:
    model = load_model(saved["model"])
    (tmp_path / "file").write_text("mine")
    for target in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/none/model"), tmp_path / ("x" * 300)):
        with pytest.raises(BadInput, match=r"cannot be written|contains other files"):
            model.save(target)
    table = WordVectors(["a\nb"], np.ones((1, 2), np.float32))
    with pytest.raises(BadInput, match="cannot be saved as a line"):
        table.save(tmp_path / "table")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_files_that_change_under_a_running_server(saved: dict[str, Path], tmp_path: Path) -> None:
    """A server keeps the model and reranker that it loaded when their files are overwritten, truncated or replaced."""
    model, reranker = tmp_path / "model", tmp_path / "reranker"
    shutil.copytree(saved["model"], model)
    shutil.copytree(saved["reranker"], reranker)
    body = {"query": "fire gun", "documents": ["fire water", "gun"]}
    with serving(tmp_path, RESIFT_MODEL=str(model), RESIFT_RERANKER=str(reranker)) as server:

        def answers() -> list[Any]:
            late = server.post("/v1/rerank", {**body, "method": "late"})
            return [server.post("/v1/embeddings", {"input": WORDS}), server.post("/v1/rerank", body), late]

        before = answers()
        assert {status for status, _ in before} == {200}
        for folder in (model, reranker):
            for file in folder.glob("*.npy"):
                with file.open("r+b") as opened:  # the same inode, as after cp and truncate
                    opened.truncate(10)
        assert answers() == before
        shutil.copytree(saved["head"], model, dirs_exist_ok=True)
        assert answers() == before
        build_model("mean", WordVectors(["other"], np.ones((1, 3), np.float32))).save(model)
        assert answers() == before
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/healthz", timeout=30) as answer:
            health = json.loads(answer.read())
        assert health["model_hash"] == load_model(saved["model"]).hash != load_model(model).hash
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        assert int(children.read_text().split()[0]) == server.worker, "the worker was started again"
