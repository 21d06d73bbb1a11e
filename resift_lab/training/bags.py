"""Training of RN-BoF on labelled documents that contain bags of vectors, such as the patches of images.

RN-BoF is a neural bag-of-features network (:mod:`resift_lab.training.rnbof`). A bag consists of one or more regions,
and each region is a list of vectors.

First, a part of the documents is held out. After each epoch, the held-out documents are queries, which rank the
training documents, and the number of epochs with the best mean average precision is chosen. Then a new network is
trained on all documents for this number of epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.bags import Bag, BagModel, check_bag, read_bag
from resift.errors import BadInput
from resift_lab.evaluation.data.labelled import required_label
from resift_lab.evaluation.data.lines import json_objects
from resift_lab.evaluation.same_class import same_class_scores
from resift_lab.training.boew import class_means, cluster_entropy
from resift_lab.training.epochs import Report, best_epochs, comparison, learning_curve
from resift_lab.training.labels import Label, class_shares, hold_out
from resift_lab.training.options import BagOptions
from resift_lab.training.progress import Progress, StepCounter
from resift_lab.training.rnbof import BagRnBof, Bags


def read_labelled_bags(path: str | Path, field: str) -> tuple[list[Bag], list[Any]]:
    """Read bags and labels of a training set from a file of JSON lines.

    Each line is an object with ``label`` and the field of the bag. A label is a string, an integer, or an object that
    maps classes to weights.

    Args:
        path: The path of the file, plain or gzipped.
        field: The name of the field with the bag.

    Returns:
        The bags, and their labels in the same order.

    Raises:
        BadInput: If a line has no label, its bag is missing, malformed or of another shape than the first bag, or if
            the file is empty or cannot be read.
    """
    bags: list[Bag] = []
    labels = []
    for number, record in json_objects(Path(path)):
        where = f"{path}, line {number}"
        if (id := record.get("_id", record.get("id"))) is not None:
            where = f"{where}, document {id!r}"
        labels.append(required_label(record, where))
        if record.get(field) is None:
            raise BadInput(f"{where} has no field {field!r}", value=field, expected="a list of vectors")
        try:
            bag = read_bag(record[field])
            check_bag(bag, *((len(bags[0]), bags[0][0].shape[1]) if bags else (len(bag), bag[0].shape[1])))
        except BadInput as error:
            raise BadInput(f"{where}, field {field!r}: {error.message}", expected=error.expected) from None
        bags.append(bag)
    if not bags:
        raise BadInput(f"{path} holds no document", value=str(path), expected=f'lines {{"{field}", "label"}}')
    return bags, labels


def train_bags(
    bags: Sequence[Bag],
    labels: Sequence[Label],
    field: str,
    options: BagOptions | None = None,
    progress: Progress | None = None,
) -> tuple[BagModel, dict[str, Any]]:
    """Train an RN-BoF encoder of bags of vectors on labelled documents, and compare it with an untrained encoder.

    Args:
        bags: The bag of each document, from :func:`resift.encoders.bags.read_bag`. All bags have the same number of
            regions, and vectors of the same length.
        labels: The class of each document, or a mapping of classes to weights (soft supervision).
        field: The name of the field with the bag of a document, which is saved with the model.
        options: The settings.
        progress: A function that is called with the number of processed documents and the total number.

    Returns:
        The trained model, and a summary of the training. The summary contains, among others:

        - ``map11``: the mean average precision (0 to 1) of searches in the training documents, where each held-out
          document is a query for documents of its class. There is a value for the means of the vectors of each region
          (``vectors``), for the ``untrained`` encoder and for the ``trained`` encoder.
        - ``better``: whether the value of ``trained`` is the highest. None if no document was held out.

    Raises:
        BadInput: If the numbers of bags and labels differ, a label is invalid, or a region has fewer vectors than
            codewords.
    """
    options = options or BagOptions()
    if len(bags) != len(labels) or not bags:
        raise BadInput(
            f"there are {len(bags)} bags and {len(labels)} labels",
            expected="a label for each bag, and at least one bag",
        )
    classes, targets = class_shares(labels)
    held_out = hold_out(targets.argmax(axis=1), options.validation, options.seed)
    steps = StepCounter(progress, options.epochs * (len(bags) + int((~held_out).sum()) * bool(held_out.any())))
    curve, compared = list[float](), dict[str, Any](map11={}, better=None)
    if held_out.any():
        curve, plain = _curve_and_baseline(bags, targets, held_out, options, steps)
        compared = comparison(curve, plain, options)
    epochs = best_epochs(curve, options)
    steps.total = steps.done + epochs * len(bags)
    run = BagTraining(Bags(bags), targets, options)
    while run.epochs < epochs:
        run.train_epoch(steps.advance)
    summary = {
        **asdict(options),
        "documents": len(bags),
        "classes": len(classes),
        "regions": len(bags[0]),
        "held_out": int(held_out.sum()),
        "epochs": epochs,
        **compared,
    }
    return run.network.export(field, summary), summary


class BagTraining:
    """A training run of RN-BoF on bags of vectors: the network, its optimiser and the centres of the classes.

    Args:
        bags: The bags of the N documents to train on.
        targets: The share of each of the C classes in each document, shape (N, C). Each row sums to 1.
        options: The settings.

    Attributes:
        epochs: The number of completed epochs.
        network: The network that is trained.
    """

    def __init__(self, bags: Bags, targets: Floats, options: BagOptions) -> None:
        self.bags, self.options, self.epochs = bags, options, 0
        self.targets = torch.from_numpy(targets)
        self.network = BagRnBof(bags, options)
        self.centres = torch.nn.Parameter(torch.from_numpy(class_means(self.network.encode(bags), targets)))
        rate, network = options.rate, self.network
        slow = [network.widths, self.centres]
        self.optimizer = torch.optim.Adam(
            [{"params": [network.codebooks, network.head], "lr": rate}, {"params": slow, "lr": rate / 10}]
        )
        self.rates = [group["lr"] for group in self.optimizer.param_groups]

    def train_epoch(self, report: Report) -> None:
        """Train on all documents once. The random choices depend only on the seed and the number of earlier epochs.

        Args:
            report: A function that is called after each step with the number of documents in the step.
        """
        options, size = self.options, len(self.targets)
        chance = np.random.default_rng([options.seed, self.epochs])
        order = chance.permutation(size)
        for start in range(0, size, options.batch):
            batch = order[start : start + options.batch]
            remaining = 1 - (self.epochs + start / size) / options.epochs
            for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
                group["lr"] = rate * remaining
            vectors = self.network(self.bags, batch, options.sample, chance)
            loss = cluster_entropy(vectors, self.targets[batch], self.centres, options)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            report(len(batch))
        self.epochs += 1


def _curve_and_baseline(
    bags: Sequence[Bag], targets: Floats, held_out: NDArray[np.bool_], options: BagOptions, steps: StepCounter
) -> tuple[list[float], float]:
    """Train on the documents that are not held out, and evaluate after each epoch with the held-out documents.

    Args:
        bags: The bags of all N documents.
        targets: The share of each of the C classes in each document, shape (N, C).
        held_out: True for each document that is excluded from training, shape (N,).
        options: The settings.
        steps: A counter of the processed documents, which reports the progress.

    Returns:
        A list of the mean average precision before training and after each epoch, and the mean average precision of a
        simpler encoder, the means of the vectors of each region.
    """
    queries, database = (Bags([bag for bag, out in zip(bags, held_out, strict=True) if out == part]) for part in (1, 0))
    main = targets.argmax(axis=1)

    def quality(query_vectors: Floats, vectors: Floats) -> float:
        return float(np.nanmean(same_class_scores(query_vectors, vectors, main[held_out], main[~held_out]).map11))

    run = BagTraining(database, targets[~held_out], options)
    curve = learning_curve(
        run, lambda: quality(run.network.encode(queries), run.network.encode(database)), options, steps.advance
    )
    return curve, quality(queries.mean_vectors(), database.mean_vectors())
