"""Sentence-transformers models on the CPU or a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from resift.arrays import Floats, batched
from resift.errors import BadInput, MissingExtra
from resift_lab.training.device import Device
from resift_lab.training.progress import Progress

# Maximum number of tokens that a GPU encodes together, including padding. The activations of a base-sized model
# (feed-forward layers of 3,072 numbers) then need less than 2 GiB.
_MAX_TOKENS = 2**16
# Special tokens around each text.
_SPECIAL_TOKENS = 2


class Transformer:
    """A sentence-transformers model from a local folder, on a device. Nothing is downloaded.

    Args:
        folder: The folder of the model.
        device: The device to run the model on. None means a GPU if torch finds one, and the CPU otherwise.

    Attributes:
        folder: The folder of the model.
        device: The device of the model.
        model: The ``SentenceTransformer``.

    Raises:
        MissingExtra: If sentence-transformers is not installed.
        BadInput: If the folder contains no model.
    """

    def __init__(self, folder: str | Path, device: Device | None = None) -> None:
        self.folder, self.device = Path(folder), device or Device()
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            # needs_extra would print the name of the module, sentence_transformers, instead of the package's name.
            raise MissingExtra("transformers need sentence-transformers: pip install 'resift[lab]'") from error
        try:
            if not any(Path(folder, name).is_file() for name in ("modules.json", "config.json")):
                raise FileNotFoundError("there is no modules.json and no config.json")
            self.model: Any = SentenceTransformer(str(folder), device=self.device.torch_name, local_files_only=True)
        except Exception as error:  # its loaders raise nearly anything on a damaged folder
            raise BadInput(
                f"{folder} cannot be loaded: {error}",
                value=str(folder),
                expected="the folder of a sentence-transformers model",
            ) from error

    def encode(
        self, texts: Sequence[str], batch: int, call: int | None = None, progress: Progress | None = None
    ) -> Floats:
        """Encode texts.

        Args:
            texts: The n texts, which may be single words.
            batch: The number of texts that the CPU encodes together. A GPU uses larger batches
                (:meth:`run_in_batches`).
            call: The number of texts that the CPU sorts by length and then divides into batches. None sorts all texts
                together.
            progress: A function that is called with the number of encoded texts and the total number.

        Returns:
            Vectors of shape (n, D) for a model of D dimensions, float32.
        """

        def encode(batch_texts: Sequence[str]) -> Floats:
            size = len(batch_texts) if self.device.is_gpu else batch
            vectors: Floats = self.model.encode(
                batch_texts, batch_size=size, convert_to_numpy=True, show_progress_bar=False
            )
            return vectors

        return self.run_in_batches(encode, texts, call or max(len(texts), 1), progress)

    def run_in_batches(
        self, encode: Callable[[Sequence[str]], Floats], texts: Sequence[str], size: int, progress: Progress | None
    ) -> Floats:
        """Call a function that uses the model for batches of texts.

        On a GPU, texts of similar length are in the same batch, so that little padding is needed. A batch contains as
        many texts as fit into a fixed number of tokens.

        Args:
            encode: A function that encodes a batch of n texts with the model. The first dimension of its result is n.
            texts: The texts.
            size: The number of texts in each batch on the CPU, where batches are in the order of the texts.
            progress: A function that is called with the number of encoded texts and the total number.

        Returns:
            The results of all batches in the order of the texts, float32.
        """
        if self.device.is_gpu:
            batches = list(token_batches(texts, self.model.max_seq_length))
        else:
            batches = list(batched(range(len(texts)), size))
        parts, done = [], 0
        for batch in batches:
            parts.append(self.device.encode(encode, [texts[row] for row in batch]))
            done += len(batch)
            if progress:
                progress(done, len(texts))
        vectors = np.concatenate(parts)
        in_order = np.empty_like(vectors)
        in_order[np.concatenate(batches)] = vectors
        return in_order


def token_batches(
    texts: Sequence[str], max_length: int | None = None, max_tokens: int = _MAX_TOKENS
) -> Iterator[list[int]]:
    """Divide texts into batches of similar length and a limited number of tokens, longest texts first.

    A text has at most as many tokens as UTF-8 bytes, plus special tokens. This bound is used in place of the number of
    tokens, because splitting all texts into tokens twice would slow a GPU down.

    Args:
        texts: The texts.
        max_length: The number of tokens to which the model truncates texts, or None.
        max_tokens: The maximum number of tokens of a batch, including padding. A longer text is a batch of its own.

    Yields:
        The positions of the texts of a batch.
    """
    lengths = np.array([len(text.encode("utf-8", "replace")) + _SPECIAL_TOKENS for text in texts], np.int64)
    if max_length is not None:
        lengths = np.minimum(lengths, max_length)
    order = np.argsort(-lengths, kind="stable").tolist()
    start = 0
    while start < len(order):
        count = max(1, max_tokens // int(lengths[order[start]]))
        yield order[start : start + count]
        start += count
