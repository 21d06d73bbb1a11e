"""Checkpoints: files with the state of a training run.

A training run that was interrupted continues from its checkpoint and gives the same result as without the interruption.
"""

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
    """A file with the state of a training run, from which an interrupted run can continue.

    The file is read when the object is created. The caller removes the file after it has saved the result of the
    training.

    Args:
        path: The path of the file. If None, nothing is read or written.
        inputs: A hash of the texts, word vectors and settings of the training, from :func:`inputs_digest`.

    Attributes:
        state: The state that was read from the file. It is empty if the file does not exist, or if it belongs to a
            training with other inputs.

    Raises:
        BadInput: If the file is damaged.
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
                f"checkpoint {path} is damaged: {error}",
                value=str(path),
                expected="a checkpoint; remove the file to start anew",
            ) from error
        self.state = state if state.get("inputs") == inputs else {}

    def save(self, state: dict[str, Any]) -> None:
        """Replace the content of the file with a new state. Do nothing if there is no path.

        Args:
            state: The state of the training, from which the next run continues.
        """
        if self.path:
            # An interruption while writing must not destroy the last state, so the state goes to another file first.
            fresh = self.path.with_name(self.path.name + ".new")
            torch.save({"inputs": self.inputs, **state}, fresh)
            os.replace(fresh, self.path)


def network_state(network: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, Any]:
    """Return the weights of a network and the states of its optimisers, to save them in a checkpoint.

    Args:
        network: The PyTorch network.
        optimizers: The optimisers.
    """
    return {"network": network.state_dict(), "optimizers": [optimizer.state_dict() for optimizer in optimizers]}


def restore_network(
    state: dict[str, Any], network: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer]
) -> None:
    """Load weights and optimiser states into a network and its optimisers, which are changed in place.

    Args:
        state: The state that :func:`network_state` returned.
        network: The PyTorch network.
        optimizers: The optimisers.
    """
    network.load_state_dict(state["network"])
    for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)


def inputs_digest(texts: Sequence[str], vectors: WordVectors, options: Any, targets: bytes = b"") -> str:
    """Return a hash of the inputs of a training run, by which a checkpoint recognises the run to which it belongs.

    Args:
        texts: The texts to train on.
        vectors: The word vectors to start from.
        options: The settings, an instance of a dataclass.
        targets: The training targets, such as labels, as bytes. Empty for a training run without targets.

    Returns:
        64 hexadecimal digits.
    """
    digest = hashlib.sha256(json.dumps([asdict(options), type(options).__name__, *texts]).encode())
    digest.update(targets)
    digest.update(content_hash(vectors.info, vectors.words, vectors.arrays()).encode())
    return digest.hexdigest()
