"""Word pieces: static models of others split texts by a tokenizer of their own, whose rules their rows are for.

The package ``tokenizers`` does the splitting, where such a model is made a table of words.
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

_BATCH = 256  # texts: what the package tells of each piece takes a hundred bytes


class Pieces:
    """Splits texts into pieces of words as ``definition`` says, the JSON (UTF-8) of the package ``tokenizers``.

    Raises BadInput if it says nothing that can be understood, and MissingExtra without the package.
    """

    def __init__(self, definition: bytes) -> None:
        with needs_extra("lab", "A table of word pieces"):
            from tokenizers import Tokenizer

        # Its own threads would be lost in the processes that a server forks; a batch a thread of ours is as fast.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        self.definition = definition
        try:
            self._tokenizer = Tokenizer.from_str(definition.decode())
        except Exception as error:  # the package raises nothing narrower
            raise BadInput(f"the tokenizer cannot be read: {error}", expected="a tokenizer.json") from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def check_count(self, count: int) -> None:
        """Raise BadInput if there are more than ``count`` pieces."""
        last = max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
        if last >= count:
            message = f"the tokenizer has {last + 1} pieces and the table {count} rows"
            raise BadInput(message, value=count, expected="a row for each piece")

    @property
    def unknown(self) -> int | None:
        """The piece that stands for whatever the others cannot spell; None if there is none."""
        model = json.loads(self.definition)["model"]
        name, id = model.get("unk_token"), model.get("unk_id")  # by the kind of model one, the other or neither
        return id if name is None else self._tokenizer.token_to_id(name)

    def ids(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The pieces of all texts, end to end, and the n + 1 offsets at which each text's pieces start."""
        found: list[list[int]] = []
        for start in range(0, len(texts), _BATCH):
            # half of a surrogate pair is no text to the package
            batch = [
                text if text.isascii() else text.encode("utf-8", "replace").decode()
                for text in texts[start : start + _BATCH]
            ]
            found += [one.ids for one in self._tokenizer.encode_batch_fast(batch, add_special_tokens=False)]
        offsets = np.cumsum([0, *map(len, found)])
        return np.fromiter(chain.from_iterable(found), np.int32, int(offsets[-1])), offsets

    @cached_property
    def whole_words(self) -> dict[str, int]:
        """The words, as :func:`resift.text.tokenize` gives them, that are one piece each, in the pieces' order."""
        size = self._tokenizer.get_vocab_size(with_added_tokens=True)
        texts = [self._tokenizer.decode([id]).strip() for id in range(size)]
        ids, offsets = self.ids(texts)
        alone = np.flatnonzero(np.diff(offsets) == 1).tolist()
        # a piece such as "##ing" is written like a word, but a text that holds this word is split otherwise
        return {texts[id]: id for id in alone if ids[offsets[id]] == id and tokenize(texts[id]) == [texts[id]]}
