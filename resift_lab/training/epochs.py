"""The choice of the number of epochs with held-out documents, for the trainings on labelled documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from resift_lab.training.options import ClusterOptions

Report = Callable[[int], None]
"""A function that is called after each step with the number of documents in the step."""

Save = Callable[[list[float]], None]
"""A function that is called after each epoch with the learning curve, to save the state of the training."""


class Training(Protocol):
    """A training run that can be continued epoch by epoch.

    Attributes:
        epochs: The number of completed epochs.
    """

    epochs: int

    def train_epoch(self, report: Report) -> None:
        """Train on all documents once.

        Args:
            report: A function that is called after each step with the number of documents in the step.
        """


def learning_curve(
    run: Training,
    quality: Callable[[], float],
    options: ClusterOptions,
    report: Report,
    start: Sequence[float] = (),
    save: Save | None = None,
) -> list[float]:
    """Train, and evaluate the run before the training and after each epoch.

    The training ends after ``options.epochs`` epochs, or earlier if the quality has not improved for
    ``options.patience`` epochs.

    Args:
        run: The training run, which is changed in place.
        quality: A function that returns the quality of the run in its present state, for example its mean average
            precision on held-out documents.
        options: The settings.
        report: A function that is called after each step with the number of documents in the step.
        start: The curve of the epochs before an interruption. Empty for a new run.
        save: A function that is called after each epoch with the curve.

    Returns:
        The quality before the training and after each epoch.
    """
    curve = list(start) or [quality()]
    while run.epochs < options.epochs and run.epochs - int(np.argmax(curve)) < options.patience:
        run.train_epoch(report)
        curve.append(quality())
        if save:
            save(curve)
    return curve


def best_epochs(curve: Sequence[float], options: ClusterOptions) -> int:
    """Return the number of epochs with the best quality, at least 1, or ``options.epochs`` if the curve is empty.

    Args:
        curve: The quality before the training and after each epoch, from :func:`learning_curve`.
        options: The settings.
    """
    return 1 + int(np.argmax(curve[1:])) if curve else options.epochs


def comparison(curve: Sequence[float], vectors: float, options: ClusterOptions) -> dict[str, Any]:
    """Compare the trained encoder with simpler encoders, for the summary of a training.

    Args:
        curve: The quality before the training and after each epoch, from :func:`learning_curve`.
        vectors: The quality of the means of the untrained vectors.
        options: The settings.

    Returns:
        A dictionary with two entries. ``map11`` contains the quality by encoder: ``vectors``, ``untrained`` and
        ``trained``. ``better`` tells whether the trained encoder has the highest value.
    """
    trained = curve[best_epochs(curve, options)]
    scores = {"vectors": vectors, "untrained": curve[0], "trained": trained}
    return {"map11": scores, "better": trained > max(vectors, curve[0])}
