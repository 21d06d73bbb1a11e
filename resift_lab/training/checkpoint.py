"""The state of an unfinished training in a file, so that an interrupted run can go on to the same result."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from resift.errors import BadInput
from resift.vectors.folder import content_hash
from resift.vectors.table import WordVectors


class Checkpoint:
    """A file with the state of a training; without a path it reads and writes nothing.

    ``inputs`` identifies what the training starts from (:func:`inputs_digest`). ``state`` holds what the last
    :meth:`save` of the same training wrote; it is empty where there is no file, or one of another training, which
    begins anew. The caller removes the file once the result is safe.

    Raises BadInput for a damaged file.
    """

    def __init__(self, path: str | Path | None, inputs: str) -> None:
        self.path, self.inputs = Path(path) if path else None, inputs
        self.state: dict[str, Any] = {}
        if self.path is None or not self.path.exists():
            return
        try:
            state = torch.load(self.path, weights_only=True)
        except Exception as error:  # torch raises nearly anything on a damaged file
            raise BadInput(
                f"{path} is damaged: {error}", value=str(path), expected="a checkpoint, or no file there"
            ) from error
        self.state = state if state.get("inputs") == inputs else {}

    def save(self, state: dict[str, Any]) -> None:
        """Replace the file by this state."""
        if self.path:
            # written beside it first: an interruption while writing must not destroy the last good state
            fresh = self.path.with_name(self.path.name + ".new")
            torch.save({"inputs": self.inputs, **state}, fresh)
            os.replace(fresh, self.path)


def network_state(network: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, Any]:
    """The weights of a network and the moments of its optimizers."""
    return {"network": network.state_dict(), "optimizers": [optimizer.state_dict() for optimizer in optimizers]}


def restore_network(
    state: dict[str, Any], network: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer]
) -> None:
    """Set a network and its optimizers back to what :func:`network_state` gave."""
    network.load_state_dict(state["network"])
    for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)


def inputs_digest(texts: Sequence[str], vectors: WordVectors, options: Any, targets: bytes = b"") -> str:
    """64 hexadecimal digits that identify texts, word vectors, the options (a dataclass) and, if any, ``targets``."""
    digest = hashlib.sha256(json.dumps([asdict(options), type(options).__name__, *texts]).encode())
    digest.update(targets)
    digest.update(content_hash(vectors.info, vectors.words, vectors.arrays()).encode())
    return digest.hexdigest()
