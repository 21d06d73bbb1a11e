"""Training of RO-BoEW and RN-BoF on labelled documents.

First, a part of the documents is held out. After each epoch, the held-out documents are queries, which rank the
training documents, and the number of epochs with the best mean average precision is chosen. Then a new network is
trained on all documents for this number of epochs. The state can be saved after each epoch. An interrupted training
continues from the saved state and gives the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.builders import build_model
from resift.encoders.model import Layers, Model
from resift.errors import BadInput
from resift.vectors.table import WordVectors
from resift_lab.evaluation.same_class import same_class_scores
from resift_lab.training.boew import class_means, cluster_entropy
from resift_lab.training.checkpoint import Checkpoint, inputs_digest, network_state, restore_network
from resift_lab.training.documents import segment_counts
from resift_lab.training.epochs import Report, best_epochs, comparison, learning_curve
from resift_lab.training.labels import Label, class_shares, hold_out
from resift_lab.training.options import RoBoewOptions
from resift_lab.training.progress import Progress, StepCounter
from resift_lab.training.rnbof import untrained_network
from resift_lab.training.vocabulary import initial_vocabulary

# Names of the two stages in checkpoints: with held-out documents, and on all documents.
_CHOOSING = "held out"
_FINAL = "all"


def train_on_labels(
    texts: Sequence[str],
    labels: Sequence[Label],
    vectors: WordVectors,
    options: RoBoewOptions,
    progress: Progress | None = None,
    checkpoint: str | Path | None = None,
) -> tuple[Model, dict[str, Any]]:
    """Train a RO-BoEW or RN-BoF encoder on labelled documents, and compare it with untrained vectors.

    Args:
        texts: The texts of the documents.
        labels: The class of each document, or a mapping of classes to weights (soft supervision).
        vectors: The word vectors to start from.
        options: The settings. ``RnBofOptions`` trains an RN-BoF network, and ``RoBoewOptions`` a RO-BoEW network.
        progress: A function that is called with the number of processed documents and the total number.
        checkpoint: A file in which the state is saved after each epoch. If it exists, the training continues from it,
            with the same result as an uninterrupted training. The caller removes the file.

    Returns:
        The trained model, and a summary of the training. The summary contains, among others:

        - ``map11``: the mean average precision (0 to 1) of searches in the training documents, where each held-out
          document is a query for documents of its class. There is a value for the mean of the original word vectors
          (``vectors``), for the ``untrained`` encoder and for the ``trained`` encoder.
        - ``better``: whether the value of ``trained`` is the highest. None if no documents were held out.

    Raises:
        BadInput: If the numbers of texts and labels differ, a label is invalid, the texts have no usable words, or the
            checkpoint is damaged.
    """
    if len(texts) != len(labels) or not texts:
        raise BadInput(
            f"there are {len(texts)} texts and {len(labels)} labels",
            expected="a label for each text, and at least one text",
        )
    classes, targets = class_shares(labels)
    documents = _LabelledDocuments(texts, targets, hold_out(targets.argmax(axis=1), options.validation, options.seed))
    saved = Checkpoint(checkpoint, inputs_digest(texts, vectors, options, targets.tobytes()))
    choosing = int((~documents.held_out).sum()) if documents.held_out.any() else 0
    steps = StepCounter(progress, options.epochs * (choosing + len(texts)))
    curve = _curve_on_held_out(documents, vectors, options, saved, steps) if choosing else []
    epochs = best_epochs(curve, options)
    steps.total = steps.done + epochs * len(texts)
    run = _TrainingRun(documents.texts, documents.targets, vectors, options)
    _train_on_all(run, epochs, curve, saved, steps)
    summary: dict[str, Any] = {
        **asdict(options),
        "documents": len(texts),
        "classes": len(classes),
        "words": len(run.table),
        "held_out": int(documents.held_out.sum()),
        "epochs": epochs,
        **_comparison(documents, vectors, curve, options),
    }
    return run.network.export(run.table, vectors, summary), summary


@dataclass(frozen=True)
class _LabelledDocuments:
    """Labelled documents, some of which are excluded from training for evaluation.

    Attributes:
        texts: The texts of the N documents.
        targets: The share of each of the C classes in each document, shape (N, C).
        held_out: True for each excluded document, shape (N,).
    """

    texts: Sequence[str]
    targets: Floats
    held_out: NDArray[np.bool_]

    def texts_of(self, held_out: bool) -> list[str]:
        """Return the texts of either the held-out documents or the training documents.

        Args:
            held_out: True for the documents that are held out from training, False for all other documents.
        """
        return [text for text, flag in zip(self.texts, self.held_out, strict=True) if flag == held_out]

    def mean_ap(self, queries: Floats, database: Floats) -> float:
        """Return the mean average precision of searches in the training documents.

        The documents that are excluded from training serve as queries. Documents with the same main class as the query
        are relevant.

        Args:
            queries: The vectors of the q excluded documents with K dimensions, shape (q, K).
            database: The vectors of the n other documents, shape (n, K).
        """
        main = self.targets.argmax(axis=1)
        scores = same_class_scores(queries, database, main[self.held_out], main[~self.held_out])
        return float(np.nanmean(scores.map11))


class _TrainingRun:
    """A training run of RO-BoEW or RN-BoF: the network, its optimisers and the centres of the classes.

    Args:
        texts: The N texts to train on.
        targets: The probability of each of the C classes for each text, shape (N, C). Each row sums to 1.
        vectors: The word vectors to start from.
        options: The settings.

    Attributes:
        epochs: The number of completed epochs.
        table: The words to train, with their initial vectors.
        network: The network that is trained.
    """

    def __init__(self, texts: Sequence[str], targets: Floats, vectors: WordVectors, options: RoBoewOptions) -> None:
        self.options, self.epochs = options, 0
        self.table = initial_vocabulary(texts, vectors, options.min_documents, options.seed, options.published)
        self.network = untrained_network(self.table, options)
        self.counts, self.targets = self.count_words(texts), torch.from_numpy(targets)
        self.centres = torch.nn.Parameter(self._class_means(), requires_grad=options.tied)
        dense, sparse = self.network.parameter_groups(options.rate)
        dense.append({"params": [self.centres], "lr": options.rate / 10})
        self.optimizers = [torch.optim.Adam(dense), torch.optim.SparseAdam(sparse)]
        self.rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in self.optimizers]

    def _class_means(self) -> torch.Tensor:
        return torch.from_numpy(class_means(self.network.encode(self.counts), self.targets.numpy()))

    def count_words(self, texts: Sequence[str]) -> Any:
        """Count the words of the vocabulary in texts.

        Args:
            texts: The n texts, which are divided into S segments each.

        Returns:
            The count of each of the V words in each segment, a sparse matrix of shape (n · S, V).
        """
        model = Model("", self.table, "mean", "cosine", Layers(segments=self.network.segments))
        return segment_counts(model, texts)

    def train_epoch(self, report: Report) -> None:
        """Train on all documents once. The random order depends only on the seed and the number of earlier epochs.

        Args:
            report: A function that is called after each step with the number of documents in the step.
        """
        size, segments = len(self.targets), np.arange(self.network.segments)
        order = np.random.default_rng([self.options.seed, self.epochs]).permutation(size)
        # Tied centres are trained. Other centres are the means of the classes. They change with the vectors of the
        # texts, so they are computed again. In the paper they are computed only once.
        if self.epochs and not (self.options.tied or self.options.published):
            self.centres.data.copy_(self._class_means())
        for start in range(0, size, self.options.batch):
            batch = order[start : start + self.options.batch]
            if not self.options.published:
                self._set_rates(1 - (self.epochs + start / size) / self.options.epochs)
            counts = self.counts[(batch[:, None] * len(segments) + segments).ravel()]
            self._step(cluster_entropy(self.network(counts), self.targets[batch], self.centres, self.options))
            report(len(batch))
        self.epochs += 1

    def _set_rates(self, factor: float) -> None:
        """Multiply the initial learning rates of all parameters by a factor.

        Args:
            factor: The factor, 0 to 1.
        """
        for optimizer, rates in zip(self.optimizers, self.rates, strict=True):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor

    def _step(self, loss: torch.Tensor) -> None:
        """Compute the gradient of a batch's loss, and update the trained parameters with all optimisers.

        Args:
            loss: The mean loss of the batch, a tensor with a single value.
        """
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in self.optimizers:
            optimizer.step()

    def state(self) -> dict[str, Any]:
        """Return the network, the optimisers and the class centres, to save them in a checkpoint."""
        return {"epochs": self.epochs, "centres": self.centres.data, **network_state(self.network, self.optimizers)}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue an interrupted training: load the network, the optimisers and the class centres.

        Args:
            state: The state that :meth:`state` returned.
        """
        self.epochs = state["epochs"]
        self.centres.data.copy_(state["centres"])
        restore_network(state, self.network, self.optimizers)


def _curve_on_held_out(
    documents: _LabelledDocuments, vectors: WordVectors, options: RoBoewOptions, saved: Checkpoint, steps: StepCounter
) -> list[float]:
    """Train on the documents that are not held out, and evaluate after each epoch with the held-out documents.

    Args:
        documents: The labelled documents, some of which are held out from training.
        vectors: The word vectors to start from.
        options: The settings.
        saved: The checkpoint, to continue from and to save the state to.
        steps: A counter of the processed documents, which reports the progress.

    Returns:
        The mean average precision before training and after each epoch. The held-out documents serve as queries.
    """
    curve: list[float] = saved.state.get("curve", [])
    if saved.state.get("stage") == _FINAL:
        return curve
    run = _TrainingRun(documents.texts_of(held_out=False), documents.targets[~documents.held_out], vectors, options)
    if saved.state:
        run.restore(saved.state["run"])
    queries = run.count_words(documents.texts_of(held_out=True))

    def quality() -> float:
        return documents.mean_ap(run.network.encode(queries), run.network.encode(run.counts))

    def save(curve: list[float]) -> None:
        saved.save({"stage": _CHOOSING, "curve": curve, "run": run.state()})

    return learning_curve(run, quality, options, steps.advance, curve, save)


def _train_on_all(run: _TrainingRun, epochs: int, curve: list[float], saved: Checkpoint, steps: StepCounter) -> None:
    """Continue training on all documents until the network has been trained for a number of epochs.

    Args:
        run: The network to train, which is changed in place.
        epochs: The total number of epochs, including epochs before an interruption.
        curve: The learning curve of the evaluation, which is saved to the checkpoint as well.
        saved: The checkpoint file, from which the training continues and to which its state is saved.
        steps: A counter of the processed documents, which reports the progress.
    """
    if saved.state.get("stage") == _FINAL:
        run.restore(saved.state["run"])
    while run.epochs < epochs:
        run.train_epoch(steps.advance)
        saved.save({"stage": _FINAL, "curve": curve, "run": run.state()})


def _comparison(
    documents: _LabelledDocuments, vectors: WordVectors, curve: list[float], options: RoBoewOptions
) -> dict[str, Any]:
    """Compare the trained encoder with untrained encoders, for the summary that :func:`train_on_labels` returns.

    Args:
        documents: The labelled documents, some of which are held out from training.
        vectors: The untrained word vectors. One of the untrained models averages them.
        curve: Mean average precision before training (first value) and after each epoch of training. May be empty.
        options: The settings.

    Returns:
        The dictionary of :func:`resift_lab.training.epochs.comparison`. If the curve is empty, ``map11`` is empty, and
        ``better`` is None.
    """
    if not curve:
        return {"map11": {}, "better": None}
    mean = build_model("mean", vectors)
    queries, database = documents.texts_of(held_out=True), documents.texts_of(held_out=False)
    return comparison(curve, documents.mean_ap(mean.encode(queries), mean.encode(database)), options)
