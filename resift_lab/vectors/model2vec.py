"""Read the folders of static models of model2vec and sentence-transformers, and write folders for model2vec.

A static model has a fixed vector for each word piece, and the vector of a text is the weighted mean of the vectors of
its pieces. Both kinds of folders contain a ``model.safetensors`` and the ``tokenizer.json`` of the package
``tokenizers``:

- A model2vec model has the tensor ``embeddings``. It may also have ``weights``, a weight for each piece, and
  ``mapping``, the row of each piece. It ignores pieces that stand for unknown text.
- A ``StaticEmbedding`` of sentence-transformers has the tensor ``embedding.weight``. It uses the pieces for unknown
  text like any other piece.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput, needs_extra
from resift.text import UNSPACED_SCRIPTS
from resift.vectors.folder import replacing_folder
from resift.vectors.table import WordVectors
from resift_lab.vectors.pieces import PieceTokenizer

TENSORS = "model.safetensors"
TOKENIZER = "tokenizer.json"
# The word for unknown text in a tokenizer that we write.
_UNKNOWN = "[UNK]"
# A file that only folders written by us contain.
_MARKER = "resift.json"
_EXPECTED = (
    f"a folder with {TENSORS} and {TOKENIZER}, of model2vec or a StaticEmbedding of sentence-transformers"
    " (for a transformer, use resift vectors distill)"
)


def read_static(source: str | Path, words: Iterable[str] = ()) -> WordVectors:
    """Read a model2vec model, or a ``StaticEmbedding`` of sentence-transformers, as a table of word vectors.

    The model's vectors belong to the word pieces of its tokenizer. The vector of a word is the weighted mean of the
    vectors of its pieces, and the weight of the word is the sum of their weights. Texts therefore get the same vectors
    as from the original package, except for words that are not in the table and for text that is not a word.

    Args:
        source: The folder of the model.
        words: Words to put first in the table. All words that consist of a single piece follow.

    Raises:
        BadInput: If the folder does not contain a static model, or the model is damaged.
        MissingExtra: If the extra ``lab`` is not installed.
    """
    with needs_extra("lab", "Reading a static model"):
        from safetensors.numpy import load_file

    folder = _tensor_folder(Path(source))
    try:
        tensors = load_file(folder / TENSORS)
        definition = (folder / TOKENIZER).read_bytes()
    except Exception as error:  # the package has errors of its own, and NumPy lacks some of its dtypes
        raise _unreadable(source, str(error)) from error
    rows, weights = _piece_vectors(tensors, source)
    pieces = PieceTokenizer(definition)
    skips_unknown = "embeddings" in tensors
    if skips_unknown and pieces.unknown is not None:
        weights[pieces.unknown] = 0
    pieces.check_count(len(rows))
    all_words = list(dict.fromkeys([*words, *pieces.whole_words]))
    ids, offsets = pieces.ids(all_words)
    word_of_piece = np.repeat(np.arange(len(all_words)), np.diff(offsets))
    totals = np.bincount(word_of_piece, weights[ids], len(all_words)).astype(np.float32)
    sums = np.zeros((len(all_words), rows.shape[1]), np.float32)
    np.add.at(sums, word_of_piece, weights[ids, None] * rows[ids].astype(np.float32))
    known = totals > 0
    info = {"source": Path(source).resolve().name, "weighting": "as given"}
    return WordVectors(list(compress(all_words, known)), sums[known] / totals[known, None], totals[known], info=info)


def _tensor_folder(folder: Path) -> Path:
    """Find the folder that contains the tensors and the tokenizer of a model.

    Args:
        folder: The folder of the model. It contains the two files itself, or a subfolder for each module of the model.

    Returns:
        The folder itself or the subfolder of a module.

    Raises:
        BadInput: If no folder contains both files.
    """
    try:
        modules = json.loads((folder / "modules.json").read_text("utf-8"))
        paths = [str(module["path"]) for module in modules]
    except (OSError, ValueError, LookupError, TypeError):
        paths = []
    for path in ("", *paths):
        if (folder / path / TENSORS).is_file() and (folder / path / TOKENIZER).is_file():
            return folder / path
    raise _unreadable(folder, f"it has no {TENSORS} beside a {TOKENIZER}")


def _unreadable(source: str | Path, reason: str) -> BadInput:
    return BadInput(f"{source} contains no static model: {reason}", value=str(source), expected=_EXPECTED)


def _piece_vectors(tensors: dict[str, NDArray[Any]], source: str | Path) -> tuple[NDArray[Any], Floats]:
    """Return the vectors and weights of all word pieces of a static model.

    Args:
        tensors: The tensors of the model, by name.
        source: The folder of the model, for error messages.

    Returns:
        The vectors, of shape (V, D) for V pieces and D dimensions, and the weights, of shape (V,).

    Raises:
        BadInput: If a tensor is missing, has a wrong shape, or contains NaN or infinity.
    """
    rows = tensors.get("embeddings", tensors.get("embedding.weight"))
    if rows is None or rows.ndim != 2:
        raise _unreadable(source, f"its {len(tensors)} tensors are {', '.join(sorted(tensors)[:3])} …")
    rows = _vectors_by_piece(rows, tensors.get("mapping"), source)
    weights = np.ones(len(rows), np.float32)
    if (stored := tensors.get("weights")) is not None:
        if stored.shape != (len(rows),):
            raise _unreadable(source, f"it has weights of shape {stored.shape} for {len(rows)} pieces")
        weights = stored.astype(np.float32)
    if not (np.isfinite(rows).all() and np.isfinite(weights).all()):
        raise _unreadable(source, "it contains NaN or infinity")
    return rows, weights


def _vectors_by_piece(rows: NDArray[Any], mapping: NDArray[Any] | None, source: str | Path) -> NDArray[Any]:
    """Return the vector of each word piece of a static model. Several pieces may share a stored vector.

    Args:
        rows: The n stored vectors of D dimensions, shape (n, D).
        mapping: The row number of each of the V pieces, of shape (V,). None means that each piece has its own row, in
            the same order.
        source: The folder of the model, for error messages.

    Returns:
        Vectors of shape (V, D).

    Raises:
        BadInput: If ``mapping`` refers to a row that does not exist.
    """
    if mapping is None:
        return rows
    if mapping.ndim != 1 or not (mapping.min(initial=0) >= 0 and mapping.max(initial=0) < len(rows)):
        raise _unreadable(source, f"its mapping refers to rows outside of the {len(rows)} rows")
    return np.asarray(rows[mapping])


def write_model2vec(table: WordVectors, folder: str | Path) -> Path:
    """Write a table of word vectors as a model2vec model.

    The written model computes the same cosines of texts as the weighted means of the table's word vectors. Its
    tokenizer splits texts into whole words, as :func:`resift.text.tokenize` does. The folder is written completely or
    not at all. A folder that an earlier call wrote is replaced.

    Args:
        table: The table to write.
        folder: The path of the folder.

    Returns:
        The path of the folder.

    Raises:
        BadInput: If the folder exists and was not written by this function, or cannot be written.
        MissingExtra: If the extra ``lab`` is not installed.
    """
    with needs_extra("lab", "Writing a static model"):
        from safetensors.numpy import save_file

    definition, rows, weights = _build_tokenizer(table)
    config = {
        "model_type": "model2vec",
        "architectures": ["StaticModel"],
        "hidden_dim": table.dim,
        "normalize": True,
        "max_length": None,  # the default would ignore all but the first 512 pieces of a text
        "embedding_dtype": "float32",
    }
    modules = [
        {"idx": 0, "name": "0", "path": ".", "type": "sentence_transformers.models.StaticEmbedding"},
        {"idx": 1, "name": "1", "path": "1_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]
    # Only a folder with our marker file is replaced, so that no other model's folder is ever overwritten.
    with replacing_folder(folder, _MARKER) as fresh:
        (fresh / _MARKER).write_text(json.dumps(table.info, indent=2, ensure_ascii=False) + "\n", "utf-8")
        # The rows are multiplied by the weights, because sentence-transformers ignores the tensor "weights".
        save_file({"embeddings": np.ascontiguousarray(rows * weights[:, None])}, fresh / TENSORS)
        (fresh / TOKENIZER).write_bytes(definition)
        (fresh / "config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", "utf-8")
        (fresh / "modules.json").write_text(json.dumps(modules, indent=2) + "\n", "utf-8")
    return Path(folder)


def _build_tokenizer(table: WordVectors) -> tuple[bytes, Floats, Floats]:
    """Create a tokenizer for a table of word vectors, which splits texts into the words of the table.

    Args:
        table: The vectors of V words with D dimensions.

    Returns:
        The JSON of the tokenizer, the vectors of its pieces, of shape (V + 1, D), and their weights, of shape (V + 1,).
        The first piece stands for unknown words. Its vector and weight are zero.
    """
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    words = [_UNKNOWN, *table.words]
    tokenizer = Tokenizer(models.WordLevel(dict(zip(words, range(len(words)), strict=True)), _UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    # In scripts without spaces each character is a word; elsewhere a word is a run of letters, digits and marks.
    unspaced = "".join(f"{chr(first)}-{chr(last)}" for first, last in UNSPACED_SCRIPTS)
    word = rf"[{unspaced}]|[\p{{L}}\p{{N}}\p{{M}}&&[^{unspaced}]]+"
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(word), "removed", invert=True)
    rows = np.concatenate([np.zeros((1, table.dim), np.float32), table.rows()])
    return tokenizer.to_str().encode(), rows, np.concatenate([np.zeros(1, np.float32), table.weights])
