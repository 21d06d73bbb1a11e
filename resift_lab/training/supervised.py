"""Training on labelled documents: the loop that RO-BoEW and RN-BoF share.

A part of the documents is held back first: after each epoch they are queries to the others, and the epoch with the
best mAP is chosen. Then the network starts again and sees all documents for as many epochs. After every epoch the
state can be saved; a run that was interrupted goes on from there to the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from resift_lab.training.boew import class_means, entropy
from resift_lab.training.checkpoint import Checkpoint, inputs_digest, network_state, restore_network
from resift_lab.training.documents import segment_counts
from resift_lab.training.labels import Label, class_shares, hold_back
from resift_lab.training.options import RoBoewOptions
from resift_lab.training.progress import Progress, StepCounter
from resift_lab.training.rnbof import untrained_network
from resift_lab.training.vocabulary import vocabulary

# the two stages of a training, as checkpoints name them
_CHOOSING, _FINAL = "held back", "all"


def train(
    texts: Sequence[str],
    labels: Sequence[Label],
    vectors: WordVectors,
    options: RoBoewOptions,
    progress: Progress | None = None,
    checkpoint: str | Path | None = None,
) -> tuple[Model, dict[str, Any]]:
    """Learn an encoder of the options' kind from labelled ``texts``; the model and a summary.

    ``labels``: the class of each text, or weights of classes (soft supervision). The classes need not be those that are
    searched for later. ``progress`` is called with the numbers of documents that were seen and that will be seen in
    all. The file ``checkpoint``, if one is given, holds the state after every epoch, from which the same training
    goes on to the same result; the caller removes it.

    In the summary, ``map11`` holds mean average precisions (0 to 1) of the held-back documents against the others:
    ``vectors``, of the given vectors' weighted mean, ``untrained`` and ``trained``, of this encoder; ``better`` says
    whether ``trained`` is the highest (None without held-back documents).

    Raises BadInput if there is not a label for each text, a label is none, nothing can be learned from the texts, or
    the checkpoint is damaged.
    """
    if len(texts) != len(labels) or not texts:
        raise BadInput(f"{len(texts)} texts and {len(labels)} labels", expected="a label for each text, not none")
    classes, targets = class_shares(labels)
    documents = _Documents(texts, targets, hold_back(targets.argmax(axis=1), options.validation, options.seed))
    saved = Checkpoint(checkpoint, inputs_digest(texts, vectors, options, targets.tobytes()))
    choosing = int((~documents.held).sum()) if documents.held.any() else 0
    steps = StepCounter(progress, options.epochs * (choosing + len(texts)))
    curve = _learning_curve(documents, vectors, options, saved, steps) if choosing else []
    epochs = 1 + int(np.argmax(curve[1:])) if curve else options.epochs
    steps.total = steps.done + epochs * len(texts)
    run = _run_on_all(documents, vectors, options, epochs, curve, saved, steps)
    summary: dict[str, Any] = {
        **asdict(options),
        "documents": len(texts),
        "classes": len(classes),
        "words": len(run.table),
        "held_back": int(documents.held.sum()),
        "epochs": epochs,
        **_comparison(documents, vectors, curve, epochs),
    }
    return run.network.export(run.table, vectors, summary), summary


@dataclass(frozen=True)
class _Documents:
    """Texts, their shares of the classes ``targets`` (N, C), and which of them are ``held`` back (N,)."""

    texts: Sequence[str]
    targets: Floats
    held: NDArray[np.bool_]

    def part(self, held: bool) -> list[str]:
        """The texts that are held back, or the others."""
        return [text for text, out in zip(self.texts, self.held, strict=True) if out == held]

    def mean_ap(self, queries: Floats, database: Floats) -> float:
        """mAP of the held-back documents' vectors against those of the others, by the main class of each."""
        main = self.targets.argmax(axis=1)
        return float(np.nanmean(same_class_scores(queries, database, main[self.held], main[~self.held]).map11))


class _Run:
    """One network in training, and how many epochs of it are done."""

    def __init__(self, texts: Sequence[str], targets: Floats, vectors: WordVectors, options: RoBoewOptions) -> None:
        self.options, self.epochs = options, 0
        self.table = vocabulary(texts, vectors, options.min_count, options.seed)
        self.network = untrained_network(self.table, options)
        self.counts, self.targets = self.count(texts), torch.from_numpy(targets)
        self.centres = torch.nn.Parameter(self._class_means(), requires_grad=options.tied)
        dense, sparse = self.network.parameter_groups(options.rate)
        dense.append({"params": [self.centres], "lr": options.rate / 10})
        self.optimizers = [torch.optim.Adam(dense), torch.optim.SparseAdam(sparse)]
        self.rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in self.optimizers]

    def _class_means(self) -> torch.Tensor:
        return torch.from_numpy(class_means(self.network.encode(self.counts), self.targets.numpy()))

    def count(self, texts: Sequence[str]) -> Any:
        """Counts of the trained words, (n · S, V), a row for each segment."""
        model = Model("", self.table, "mean", "cosine", Layers(segments=self.network.segments))
        return segment_counts(model, texts)

    def epoch(self, seen: Callable[[int], None]) -> None:
        """One pass over the documents, in an order that seed and epoch give; ``seen`` is called with each step's."""
        size, segments = len(self.targets), np.arange(self.network.segments)
        order = np.random.default_rng([self.options.seed, self.epochs]).permutation(size)
        # tied centres are trained; the others are the classes' means, which move with the vectors
        if self.epochs and not self.options.tied:
            self.centres.data.copy_(self._class_means())
        for start in range(0, size, self.options.batch):
            batch = order[start : start + self.options.batch]
            self._set_rates(1 - (self.epochs + start / size) / self.options.epochs)
            counts = self.counts[(batch[:, None] * len(segments) + segments).ravel()]
            self._step(entropy(self.network(counts), self.targets[batch], self.centres, self.options))
            seen(len(batch))
        self.epochs += 1

    def _set_rates(self, remaining: float) -> None:
        """Set every learning rate to this part of what it began with."""
        for optimizer, rates in zip(self.optimizers, self.rates, strict=True):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * remaining

    def _step(self, loss: torch.Tensor) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in self.optimizers:
            optimizer.step()

    def state(self) -> dict[str, Any]:
        """All that the next epoch depends on."""
        return {"epochs": self.epochs, "centres": self.centres.data, **network_state(self.network, self.optimizers)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where :meth:`state` was taken."""
        self.epochs = state["epochs"]
        self.centres.data.copy_(state["centres"])
        restore_network(state, self.network, self.optimizers)


def _learning_curve(
    documents: _Documents, vectors: WordVectors, options: RoBoewOptions, saved: Checkpoint, steps: StepCounter
) -> list[float]:
    """mAP of the held-back documents before training on the others and after each epoch, until patience ends."""
    curve: list[float] = saved.state.get("curve", [])
    if saved.state.get("stage") == _FINAL:
        return curve
    run = _Run(documents.part(held=False), documents.targets[~documents.held], vectors, options)
    if saved.state:
        run.restore(saved.state["run"])
    queries = run.count(documents.part(held=True))

    def quality() -> float:
        return documents.mean_ap(run.network.encode(queries), run.network.encode(run.counts))

    curve = curve or [quality()]
    while run.epochs < options.epochs and run.epochs - int(np.argmax(curve)) < options.patience:
        run.epoch(steps.advance)
        curve.append(quality())
        saved.save({"stage": _CHOOSING, "curve": curve, "run": run.state()})
    return curve


def _run_on_all(
    documents: _Documents,
    vectors: WordVectors,
    options: RoBoewOptions,
    epochs: int,
    curve: list[float],
    saved: Checkpoint,
    steps: StepCounter,
) -> _Run:
    """A network trained on all documents for so many epochs."""
    run = _Run(documents.texts, documents.targets, vectors, options)
    if saved.state.get("stage") == _FINAL:
        run.restore(saved.state["run"])
    while run.epochs < epochs:
        run.epoch(steps.advance)
        saved.save({"stage": _FINAL, "curve": curve, "run": run.state()})
    return run


def _comparison(documents: _Documents, vectors: WordVectors, curve: list[float], epochs: int) -> dict[str, Any]:
    """The summary's ``map11`` and ``better``."""
    if not curve:
        return {"map11": {}, "better": None}
    mean = build_model("mean", vectors)
    plain = documents.mean_ap(mean.encode(documents.part(held=True)), mean.encode(documents.part(held=False)))
    scores = {"vectors": plain, "untrained": curve[0], "trained": curve[epochs]}
    return {"map11": scores, "better": scores["trained"] > max(scores["vectors"], scores["untrained"])}
