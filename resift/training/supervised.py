"""Training on labelled documents: what RO-BoEW and RN-BoF share.

A part of the documents is held back first: after each epoch they are queries to the others, and the epoch with the
best mAP is chosen. Then the network starts again and sees all documents for as many epochs. After every epoch the
state can be saved; a run that was interrupted goes on from there to the same result.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.encoders.registry import build_model
from resift.errors import BadInput
from resift.evaluation.metrics import same_class_scores
from resift.training.boew import class_means, entropy, vocabulary
from resift.training.options import RoBoewOptions
from resift.training.rnbof import untrained_network
from resift.vectors.folder import content_hash
from resift.vectors.table import WordVectors

Label = str | int | Mapping[str, float]
Progress = Callable[[int, int], None]


def shares(labels: Sequence[Label]) -> tuple[list[str], Floats]:
    """The classes, sorted, and each document's shares of them, (N, C) float32, rows summing to 1.

    A label is the name of a class, or names with weights. Raises BadInput, with the document's number, for anything
    else, and where there are fewer than two classes.
    """
    entries: list[dict[str, float]] = []
    for number, label in enumerate(labels, 1):
        try:
            found = {str(k): float(v) for k, v in label.items()} if isinstance(label, Mapping) else {str(label): 1.0}
            total = sum(found.values())
            if label is None or "" in found or min(found.values()) < 0 or not 0 < total < np.inf:
                raise ValueError
        except (TypeError, ValueError):
            raise BadInput(
                f"document {number} has the label {label!r}", value=label, expected="a class, or classes with weights"
            ) from None
        entries.append({name: weight / total for name, weight in found.items() if weight})
    classes = sorted({name for entry in entries for name in entry})
    if len(classes) < 2:
        raise BadInput(f"all documents are of class {classes}", value=classes, expected="two classes or more")
    places, table = {name: place for place, name in enumerate(classes)}, np.zeros((len(entries), len(classes)))
    for row, entry in zip(table, entries, strict=True):
        for name, weight in entry.items():
            row[places[name]] = weight
    return classes, table.astype(np.float32)


def held_back(classes: NDArray[np.int64], part: float, seed: int) -> NDArray[np.bool_]:
    """Which documents (N,) judge: about ``part`` of each class by chance, never a class's only one."""
    chance = np.random.default_rng(seed).random(len(classes))
    order = np.lexsort((chance, classes))
    order = order[np.bincount(classes)[classes[order]] > 1]
    held = np.zeros(len(classes), bool)
    if part > 0:
        held[order[:: max(2, round(1 / part))]] = True
    return held


class _Training:
    """One network in training, from its start or from a saved state."""

    def __init__(self, texts: Sequence[str], targets: Floats, vectors: WordVectors, options: RoBoewOptions) -> None:
        self.options, self.done = options, 0
        self.table = vocabulary(texts, vectors, options.min_count, options.seed)
        self.network = untrained_network(self.table, options)
        self.counts, self.targets = self.count(texts), torch.from_numpy(targets)
        self.centres = torch.nn.Parameter(self._means(), requires_grad=options.tied)
        dense, lazy = self.network.groups(options.rate)
        dense.append({"params": [self.centres], "lr": options.rate / 10})
        self.optimizers = [torch.optim.Adam(dense), torch.optim.SparseAdam(lazy)]
        self.rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in self.optimizers]

    def _means(self) -> torch.Tensor:
        return torch.from_numpy(class_means(self.network.encode(self.counts), self.targets.numpy()))

    def count(self, texts: Sequence[str]) -> Any:
        """Counts of the trained words, (n · S, V)."""
        return Model("", self.table, "mean", "cosine", segments=self.network.segments).counts(texts)

    def epoch(self, step: Callable[[int], None]) -> None:
        """One pass over the documents, in an order that seed and epoch give; ``step`` hears how many were seen."""
        options, size, parts = self.options, len(self.targets), np.arange(self.network.segments)
        order = np.random.default_rng([options.seed, self.done]).permutation(size)
        if self.done and not options.tied:
            self.centres.data.copy_(self._means())
        for start in range(0, size, options.batch):
            batch = order[start : start + options.batch]
            left = 1 - (self.done + start / size) / options.epochs
            for optimizer, rates in zip(self.optimizers, self.rates, strict=True):
                for group, rate in zip(optimizer.param_groups, rates, strict=True):
                    group["lr"] = rate * left
                optimizer.zero_grad()
            counts = self.counts[(batch[:, None] * len(parts) + parts).ravel()]
            entropy(self.network(counts), self.targets[batch], self.centres, options).backward()
            for optimizer in self.optimizers:
                optimizer.step()
            step(len(batch))
        self.done += 1

    def state(self) -> dict[str, Any]:
        """All that the next epoch depends on."""
        return {
            "done": self.done,
            "network": self.network.state_dict(),
            "centres": self.centres.data,
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where :meth:`state` was taken."""
        self.done = state["done"]
        self.network.load_state_dict(state["network"])
        self.centres.data.copy_(state["centres"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)


class _Checkpoint:
    """A file with one run's state and the mAP after each epoch so far; without a path it does nothing."""

    def __init__(self, path: Path | None, inputs: str, resume: bool) -> None:
        self.path, self.inputs, self.saved = path, inputs, dict[str, Any]()
        if path and resume and path.exists():
            try:
                self.saved = torch.load(path, weights_only=True)
            except Exception as error:  # torch raises nearly anything on a damaged file
                raise BadInput(f"{path}: {error}", value=str(path), expected="a checkpoint") from error
            if self.saved.get("inputs") != inputs:
                raise BadInput(
                    f"{path} is of other documents, vectors or options", value=str(path), expected="the same as before"
                )

    def write(self, stage: str, curve: list[float], run: _Training) -> None:
        """Replace the file at once."""
        if self.path:
            fresh = self.path.with_name(self.path.name + ".new")
            torch.save({"inputs": self.inputs, "stage": stage, "curve": curve, "run": run.state()}, fresh)
            os.replace(fresh, self.path)


def train(
    texts: Sequence[str],
    labels: Sequence[Label],
    vectors: WordVectors,
    options: RoBoewOptions,
    progress: Progress | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
) -> tuple[Model, dict[str, Any]]:
    """Learn an encoder of the options' kind from labelled ``texts``; the model and a summary.

    ``labels``: a class each, or weights of classes (soft supervision). Classes need not be those that are searched
    for later. ``progress`` is told how many of how many documents were seen. With ``checkpoint``, a file, the state is
    kept after every epoch, and ``resume`` goes on from it, for the same inputs; the caller removes it.

    The summary's ``map11`` are of the held-back documents against the others (0 to 1): ``vectors``, the given
    vectors' weighted mean, ``untrained`` and ``trained``, this encoder; ``better`` says that ``trained`` is the
    highest (None without held-back documents). Raises BadInput on inputs that nothing can be learned from.
    """
    if len(texts) != len(labels) or not texts:
        raise BadInput(f"{len(texts)} texts and {len(labels)} labels", expected="a label for each text, not none")
    classes, targets = shares(labels)
    main = targets.argmax(axis=1)
    held = held_back(main, options.validation, options.seed)
    file = _Checkpoint(Path(checkpoint) if checkpoint else None, _inputs(texts, targets, vectors, options), resume)
    curve: list[float] = file.saved.get("curve", [])
    seen, total = 0, options.epochs * int((~held).sum() * held.any() + len(texts))

    def step(count: int) -> None:
        nonlocal seen
        seen += count
        if progress:
            progress(min(seen, total), total)

    best = options.epochs
    if held.any():
        kept = [text for text, out in zip(texts, held, strict=True) if not out]
        queries = [text for text, out in zip(texts, held, strict=True) if out]
        if file.saved.get("stage") != "all":
            run = _Training(kept, targets[~held], vectors, options)
            if file.saved:
                run.restore(file.saved["run"])
            asked = run.count(queries)

            def judge() -> float:
                scores = same_class_scores(
                    run.network.encode(asked), run.network.encode(run.counts), main[held], main[~held]
                )
                return float(np.nanmean(scores.map11))

            curve = curve or [judge()]
            while run.done < options.epochs and run.done - int(np.argmax(curve)) < options.patience:
                run.epoch(step)
                curve.append(judge())
                file.write("held back", curve, run)
        best = 1 + int(np.argmax(curve[1:]))
        total = seen + best * len(texts)
    run = _Training(texts, targets, vectors, options)
    if file.saved.get("stage") == "all":
        run.restore(file.saved["run"])
    while run.done < best:
        run.epoch(step)
        file.write("all", curve, run)
    summary: dict[str, Any] = {
        **asdict(options),
        "documents": len(texts),
        "classes": len(classes),
        "words": len(run.table),
        "held_back": int(held.sum()),
        "epochs": best,
        "map11": {},
        "better": None,
    }
    if curve:
        mean = build_model("mean", vectors)
        plain = same_class_scores(mean.encode(queries), mean.encode(kept), main[held], main[~held]).map11
        scores = {"vectors": float(np.nanmean(plain)), "untrained": curve[0], "trained": curve[best]}
        summary |= {"map11": scores, "better": scores["trained"] > max(scores["vectors"], scores["untrained"])}
    return run.network.export(run.table, vectors, summary), summary


def _inputs(texts: Sequence[str], targets: Floats, vectors: WordVectors, options: RoBoewOptions) -> str:
    digest = hashlib.sha256(json.dumps([asdict(options), type(options).__name__, *texts]).encode())
    digest.update(targets.tobytes())
    digest.update(content_hash(vectors.info, vectors.words, vectors.arrays()).encode())
    return digest.hexdigest()
