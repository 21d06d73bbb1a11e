"""Static models of others as folders: model2vec's are read and written, sentence-transformers' are read.

Both are ``safetensors`` beside the ``tokenizer.json`` of the package ``tokenizers``. model2vec's have the tensor
``embeddings``, and may have a weight for each piece in ``weights``, and in ``mapping`` which row each piece has; pieces
that stand for unknown ones are left out of a text. sentence-transformers' ``StaticEmbedding`` has ``embedding.weight``,
and counts them.
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
from resift_lab.vectors.pieces import Pieces

TENSORS, TOKENIZER = "model.safetensors", "tokenizer.json"
_UNKNOWN, _OURS = "[UNK]", "resift.json"
_EXPECTED = f"a folder with {TENSORS} and {TOKENIZER}, of model2vec or a StaticEmbedding of sentence-transformers"
_EXPECTED += " (resift vectors distill takes transformers)"


def read_static(source: str | Path, words: Iterable[str] = ()) -> WordVectors:
    """The table of words in a folder of model2vec, or of sentence-transformers with a ``StaticEmbedding``.

    It has ``words`` first, then all that are one piece. A word has the sum of its pieces' weights, and their weighted
    mean as its row; so a text's vector is that of the folder's own package, but for what is no word, and words that are
    not among these. Raises BadInput if the folder holds no such model or something is wrong with it, and MissingExtra
    without the extra ``lab``.
    """
    with needs_extra("lab", "Reading a static model"):
        from safetensors.numpy import load_file

    folder = _holding(Path(source))
    try:
        tensors = load_file(folder / TENSORS)
        definition = (folder / TOKENIZER).read_bytes()
    except Exception as error:  # the package has errors of its own, and numpy lacks some of its dtypes
        raise _unreadable(source, str(error)) from error
    skips_unknown = "embeddings" in tensors
    rows = tensors.get("embeddings", tensors.get("embedding.weight"))
    if rows is None or rows.ndim != 2:
        raise _unreadable(source, f"its {len(tensors)} tensors are {', '.join(sorted(tensors)[:3])} …")
    rows = _by_piece(rows, tensors.get("mapping"), source)
    weights = np.ones(len(rows), np.float32)
    if (given := tensors.get("weights")) is not None:
        if given.shape != (len(rows),):
            raise _unreadable(source, f"weights of shape {given.shape} for {len(rows)} pieces")
        weights = given.astype(np.float32)
    if not (np.isfinite(rows).all() and np.isfinite(weights).all()):
        raise _unreadable(source, "it holds NaN or infinity")
    pieces = Pieces(definition)
    if skips_unknown and pieces.unknown is not None:
        weights[pieces.unknown] = 0
    pieces.check_count(len(rows))
    named = list(dict.fromkeys([*words, *pieces.whole_words]))
    ids, offsets = pieces.ids(named)
    owner = np.repeat(np.arange(len(named)), np.diff(offsets))
    totals = np.bincount(owner, weights[ids], len(named)).astype(np.float32)
    sums = np.zeros((len(named), rows.shape[1]), np.float32)
    np.add.at(sums, owner, weights[ids, None] * rows[ids].astype(np.float32))
    known = totals > 0
    info = {"source": Path(source).resolve().name, "weighting": "as given"}
    return WordVectors(list(compress(named, known)), sums[known] / totals[known, None], totals[known], info=info)


def _holding(folder: Path) -> Path:
    """Where in ``folder`` the tensors are: sentence-transformers may keep each of its modules in a folder."""
    try:
        modules = json.loads((folder / "modules.json").read_text("utf-8"))
        paths = [str(module["path"]) for module in modules]
    except (OSError, ValueError, LookupError, TypeError):
        paths = []
    for path in ("", *paths):
        if (folder / path / TENSORS).is_file() and (folder / path / TOKENIZER).is_file():
            return folder / path
    raise _unreadable(folder, f"it has no {TENSORS} beside a {TOKENIZER}")


def _unreadable(source: str | Path, what: str) -> BadInput:
    return BadInput(f"{source} holds no static model: {what}", value=str(source), expected=_EXPECTED)


def _by_piece(rows: NDArray[Any], mapping: NDArray[Any] | None, source: str | Path) -> NDArray[Any]:
    """A row for each piece, (V, D)."""
    if mapping is not None:
        if mapping.ndim != 1 or not (mapping.min(initial=0) >= 0 and mapping.max(initial=0) < len(rows)):
            raise _unreadable(source, f"its mapping leads beyond {len(rows)} rows")
        rows = rows[mapping]
    return rows


def write_model2vec(table: WordVectors, folder: str | Path) -> Path:
    """Write a table as model2vec's folder, whole or not at all; its path. An earlier one there is replaced.

    Its cosines are those of the table's weighted means. Words become a vocabulary of whole words, which is split off
    as :func:`resift.text.tokenize` does. Raises BadInput if the folder holds something else or cannot be written, and
    MissingExtra without the extra ``lab``.
    """
    with needs_extra("lab", "Writing a static model"):
        from safetensors.numpy import save_file

    definition, rows, weights = _with_tokenizer(table)
    config = {
        "model_type": "model2vec",
        "architectures": ["StaticModel"],
        "hidden_dim": table.dim,
        "normalize": True,
        "max_length": None,  # its default would leave out all but the first 512 pieces of a text
        "embedding_dtype": "float32",
    }
    modules = [
        {"idx": 0, "name": "0", "path": ".", "type": "sentence_transformers.models.StaticEmbedding"},
        {"idx": 1, "name": "1", "path": "1_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]
    # replaced is what has a file of ours: to take any model's folder for an earlier one would be the end of that model
    with replacing_folder(folder, _OURS) as fresh:
        (fresh / _OURS).write_text(json.dumps(table.info, indent=2, ensure_ascii=False) + "\n", "utf-8")
        # the rows hold their weights, which sentence-transformers does not look for
        save_file({"embeddings": np.ascontiguousarray(rows * weights[:, None])}, fresh / TENSORS)
        (fresh / TOKENIZER).write_bytes(definition)
        (fresh / "config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", "utf-8")
        (fresh / "modules.json").write_text(json.dumps(modules, indent=2) + "\n", "utf-8")
    return Path(folder)


def _with_tokenizer(table: WordVectors) -> tuple[bytes, Floats, Floats]:
    """A tokenizer's JSON, and the rows (V + 1, D) and weights (V + 1,) of its words."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    words = [_UNKNOWN, *table.words]
    tokenizer = Tokenizer(models.WordLevel(dict(zip(words, range(len(words)), strict=True)), _UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    lone = "".join(f"{chr(first)}-{chr(last)}" for first, last in UNSPACED_SCRIPTS)
    word = rf"[{lone}]|[\p{{L}}\p{{N}}\p{{M}}&&[^{lone}]]+"
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(word), "removed", invert=True)
    rows = np.concatenate([np.zeros((1, table.dim), np.float32), table.rows()])
    return tokenizer.to_str().encode(), rows, np.concatenate([np.zeros(1, np.float32), table.weights])
