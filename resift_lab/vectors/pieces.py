"""Split texts into word pieces with the tokenizer of a static model.

The rows of a static model belong to the pieces of its own tokenizer. When such a model is converted to a table of
words, the package ``tokenizers`` splits each word into these pieces.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput, needs_extra
from resift.text import tokenize

# Texts that are split at a time. The package allocates about a hundred bytes for each piece.
_BATCH = 256


class PieceTokenizer:
    """A tokenizer that splits texts into word pieces.

    Args:
        definition: The content of a ``tokenizer.json`` file in the format of Hugging Face's package ``tokenizers``, as
            UTF-8.

    Raises:
        BadInput: If the definition cannot be read.
        MissingExtra: If the package ``tokenizers`` is not installed.
    """

    def __init__(self, definition: bytes) -> None:
        with needs_extra("lab", "A table of word pieces"):
            from tokenizers import Tokenizer

        # The threads of the package do not survive in the processes that a server forks.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        self.definition = definition
        try:
            self._tokenizer = Tokenizer.from_str(definition.decode())
        except Exception as error:  # the package raises nothing narrower
            raise BadInput(f"the tokenizer cannot be read: {error}", expected="a tokenizer.json") from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def check_count(self, count: int) -> None:
        """Raise an error if the tokenizer has more pieces than there are vectors.

        Args:
            count: The number of vectors.

        Raises:
            BadInput: If a piece has no vector.
        """
        last = max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
        if last >= count:
            message = f"the tokenizer has {last + 1} pieces and the table {count} rows"
            raise BadInput(message, value=count, expected="a row for each piece")

    @property
    def unknown(self) -> int | None:
        """The id of the piece for unknown text, such as "[UNK]", or None if the tokenizer has no such piece."""
        model = json.loads(self.definition)["model"]
        # Depending on its kind, a model names the piece, or gives its id, or has neither.
        name, id = model.get("unk_token"), model.get("unk_id")
        return id if name is None else self._tokenizer.token_to_id(name)

    def ids(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Split texts into word pieces.

        Args:
            texts: The n texts.

        Returns:
            The piece ids of all texts, joined end to end, and the positions at which the pieces of each text start,
            shape (n + 1,).
        """
        piece_ids: list[list[int]] = []
        for start in range(0, len(texts), _BATCH):
            # The package rejects lone surrogates, so they are replaced.
            batch = [
                text if text.isascii() else text.encode("utf-8", "replace").decode()
                for text in texts[start : start + _BATCH]
            ]
            encodings = self._tokenizer.encode_batch_fast(batch, add_special_tokens=False)
            piece_ids += [encoding.ids for encoding in encodings]
        offsets = np.cumsum([0, *map(len, piece_ids)])
        return np.fromiter(chain.from_iterable(piece_ids), np.int32, int(offsets[-1])), offsets

    @cached_property
    def whole_words(self) -> dict[str, int]:
        """The words that consist of a single piece, with the id of the piece, in ascending order of the ids.

        A word is a text that :func:`resift.text.tokenize` returns as a single, unchanged token.
        """
        size = self._tokenizer.get_vocab_size(with_added_tokens=True)
        texts = [self._tokenizer.decode([id]).strip() for id in range(size)]
        ids, offsets = self.ids(texts)
        single = np.flatnonzero(np.diff(offsets) == 1).tolist()
        # A piece such as "##ing" decodes to a word, but the tokenizer splits that word into another piece.
        return {texts[id]: id for id in single if ids[offsets[id]] == id and tokenize(texts[id]) == [texts[id]]}
