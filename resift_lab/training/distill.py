"""Distillation of static word vectors from a sentence encoder.

The encoder encodes each word separately, with its own special tokens and pooling. The vectors are scaled to unit
length, centred, and projected onto principal components. The first d // 100 components of a d-dimensional model are
dropped, because they contain what most words share ("all but the top", Mu and Viswanath 2018). The next ``dim``
components are used without further scaling.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from resift.arrays import Floats
from resift.encoders.tables import build_table
from resift.errors import BadInput
from resift.text import tokenize
from resift.vectors.table import WordVectors
from resift_lab.training.principal import principal_components
from resift_lab.training.progress import Progress
from resift_lab.training.transformer import Transformer

TINY = np.finfo(np.float32).tiny
# Words between two progress reports on the CPU.
CHUNK = 8192


@dataclass(frozen=True)
class DistillOptions:
    """Settings of :func:`distill`, which computes word vectors from a sentence-transformers model.

    Attributes:
        dim: The number of dimensions of the word vectors.
        weighting: The name of the formula that computes word weights from frequency ranks, see
            :func:`resift.encoders.tables.weights_by_rank`.
        limit: The maximum number of words. None uses all usable words.
        levels: The number of positive values (and as many negative values) to which the numbers of a vector are
            rounded, see :func:`round_rows`. Vectors with few distinct values fit into int8 and compress well. None does
            not round.
        batch: The number of words that the CPU encodes at a time.
    """

    dim: int = 256
    weighting: str = "zipf"
    limit: int | None = None
    levels: int | None = 31
    batch: int = 256


def read_words(path: str | Path) -> Iterator[str]:
    """Yield the first word of each line of a text file, such as a list of words with frequencies.

    Args:
        path: The path of a UTF-8 file.

    Raises:
        BadInput: If the file cannot be read or contains no word.
    """
    any_word = False
    try:
        with Path(path).open(encoding="utf-8", newline="\n") as handle:
            for line in handle:
                if columns := line.split(maxsplit=1):
                    any_word = True
                    yield columns[0]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}", value=str(path), expected="a UTF-8 text file") from error
    if not any_word:
        raise BadInput(f"{path} contains no word", value=str(path), expected="a word on each line")


def round_rows(rows: Floats, levels: int) -> Floats:
    """Round the components of each vector to a small number of values, so that the vectors compress better.

    The values are multiples of a step, which is the vector's largest absolute component, divided by ``levels``.

    Args:
        rows: n vectors of D dimensions, shape (n, D).
        levels: The number of steps from 0 to the largest absolute component of a vector.

    Returns:
        Rounded vectors of shape (n, D), float32.
    """
    steps = np.maximum(np.abs(rows).max(axis=1, keepdims=True), TINY) / np.float32(levels)
    return np.asarray(np.rint(rows / steps) * steps, np.float32)


def distill(
    model: Transformer,
    words: Iterable[str],
    options: DistillOptions | None = None,
    progress: Progress | None = None,
) -> WordVectors:
    """Distil word vectors from a sentence-transformers model.

    The model encodes each word separately, and its vectors are reduced to their principal components. The result is the
    same for each call with the same arguments on the same machine. On a GPU, it differs from that of the CPU by
    rounding errors.

    Args:
        model: The model.
        words: The words, most frequent first. Words that :func:`resift.text.tokenize` would split or shorten are
            ignored.
        options: The settings of the distillation.
        progress: A function that is called with the number of encoded words and the total number.

    Returns:
        A table with float32 vectors of ``dim`` dimensions.

    Raises:
        BadInput: If no word is usable, or ``dim`` is too large for the model or for the number of words.
    """
    options = options or DistillOptions()
    usable, dim = _unsplit_words(words, options.limit), options.dim
    rows = model.encode(usable, options.batch, CHUNK, progress)
    drop = rows.shape[1] // 100
    largest = min(rows.shape[1] - drop, len(rows) - 1)
    if not 1 <= dim <= largest:
        raise BadInput(
            f"{dim} dimensions cannot be computed from {len(rows)} words", value=dim, expected=f"1 to {largest}"
        )
    rows = principal_components(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), TINY), dim, drop)
    info = {
        "source": model.folder.resolve().name,
        "licence": _licence(model.folder),
        "recipe": f"one pass a word, l2, centred, principal components {drop + 1} to {drop + dim}",
        "levels": options.levels,
        "weighting": options.weighting,
        "words": len(usable),
    }
    rows = round_rows(rows, options.levels) if options.levels else rows
    return build_table(usable, rows, options.weighting, info)


def _unsplit_words(words: Iterable[str], limit: int | None) -> list[str]:
    """Select the distinct words that :func:`resift.text.tokenize` does not split.

    Args:
        words: The words, in the order of preference.
        limit: Maximum number of words. None means no limit.

    Returns:
        The selected words, in the same order.

    Raises:
        BadInput: If no word is left.
    """
    usable: dict[str, None] = {}
    for word in words:
        tokens = tokenize(word)
        if len(tokens) == 1 and len(tokens[0]) == len(word):
            usable.setdefault(tokens[0])
            if len(usable) == limit:
                break
    if not usable:
        raise BadInput("there is no usable word to distill", expected="words of letters or digits")
    return list(usable)


def layer_vectors(
    model: Transformer, words: Iterable[str], layers: Sequence[int], progress: Progress | None = None
) -> list[WordVectors]:
    """Return word vectors from hidden layers of the transformer in a sentence-transformers model.

    The transformer reads each word separately. The vector of a word in a layer is the mean of the layer's outputs for
    the pieces of the word, without special tokens.

    Args:
        model: The model.
        words: The words, most frequent first. Words that :func:`resift.text.tokenize` would split or shorten are
            ignored.
        layers: The numbers of the layers: 0 for the token embeddings, 1 for the first layer and so on. Negative numbers
            count from the last layer, which is -1.
        progress: A function that is called with the number of encoded words and the total number.

    Returns:
        A table for each of ``layers``, with vectors of the transformer's hidden size and weights of 1.

    Raises:
        BadInput: If the model contains no transformer, a layer does not exist, or no word is usable.

    Source:
        Cakaloglu, Xu and Raghavan 2022 (EmBoost), section 3.2, which takes the layers' outputs for the words of a text.
    """
    import torch

    usable = _unsplit_words(words, None)
    transformer = getattr(model.model[0], "auto_model", None)
    if transformer is None:
        message = f"{model.folder} contains no transformer"
        raise BadInput(message, value=str(model.folder), expected="a model with hidden layers")
    count = transformer.config.num_hidden_layers + 1
    for layer in layers:
        if not -count <= layer < count:
            message = f"layer {layer} of {model.folder} does not exist"
            raise BadInput(message, value=layer, expected=f"0 to {count - 1}, or -{count} to -1")
    transformer.eval()

    def encode(batch: Sequence[str]) -> Floats:
        pieces = model.model.tokenizer(
            list(batch), padding=True, truncation=True, return_tensors="pt", return_special_tokens_mask=True
        ).to(model.device.torch_name)
        special = pieces.pop("special_tokens_mask")
        mask = ((1 - special) * pieces["attention_mask"]).float()[:, :, None]
        with torch.no_grad():
            hidden = transformer(**pieces, output_hidden_states=True).hidden_states
        means = [(hidden[layer] * mask).sum(1) / mask.sum(1).clamp(min=1) for layer in layers]
        return np.stack([mean.cpu().numpy() for mean in means], axis=1)

    vectors = model.run_in_batches(encode, usable, DistillOptions.batch, progress)
    name = model.folder.resolve().name
    info = {"licence": _licence(model.folder), "recipe": "mean of a hidden layer's outputs, one pass a word"}
    return [
        WordVectors(usable, np.ascontiguousarray(vectors[:, place]), info={"source": f"{name}@{layer}", **info})
        for place, layer in enumerate(layers)
    ]


def _licence(folder: Path) -> str | None:
    """Return the licence that is named in the README.md of a model, or None if no licence is named.

    Args:
        folder: The folder of the model.
    """
    card = folder / "README.md"
    match = re.search(r"^license:\s*(\S+)", card.read_text("utf-8") if card.is_file() else "", re.MULTILINE)
    return match and match[1]
