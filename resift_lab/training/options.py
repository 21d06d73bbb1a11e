"""Settings of every training, kept apart from them: the command line shows the defaults without torch or SciPy."""

from __future__ import annotations

import math
from dataclasses import dataclass

from resift.encoders.residual import NETWORKS
from resift.errors import BadInput

ENTROPIES = ("spherical", "euclidean")
MIN_DOCUMENTS = 8
_MIN_BATCH, _MIN_STEPS, _MAX_EPOCHS = 8, 150, 20


def at_least(least: int, settings: object, *names: str) -> None:
    """Raise BadInput where a setting of these names is less than ``least``, or not finite; None is let pass."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and not least <= value < math.inf:
            raise BadInput(f"{name} is {value}", value=value, expected=f"{least} or more")


def _check_held_back(part: float) -> None:
    """Raise BadInput unless ``part`` of the documents can be held back."""
    if not 0 < part <= 0.5:
        raise BadInput(f"held_back is {part}", value=part, expected="more than 0, at most 0.5")


@dataclass(frozen=True)
class RoBoewOptions:
    """Settings of RO-BoEW and of its training; the defaults were chosen on parts of three training sets.

    Attributes:
        codewords: K, the size of the codebook.
        sigma: the width σ of a codeword's membership before training.
        fuzziness: m of the clusters; smaller is harder. None stands for 0.1 where clusters are ``tied``, else for 0.05,
            or 0.01 with Euclidean distances.
        entropy: the clusters' distance, ``spherical`` (1 - cosine) or ``euclidean``.
        tied: whether each class has a cluster of its own, or clusters only have to be pure, as in the paper.
        epochs: passes over the documents, at most.
        batch: documents of one step.
        rate: Adam's learning rate, which falls to 0 over the epochs; word weights learn with three times that, σ and
            the centres with a tenth of it.
        min_count: words of fewer documents are not trained.
        validation: the part of the documents, 0 to 0.5, that is held back to choose the number of epochs and to judge.
        patience: epochs without a gain after which training stops.
        seed: of all that is drawn by chance.

    Raises BadInput for values that are out of range.
    """

    codewords: int = 64
    sigma: float = 0.5
    fuzziness: float | None = None
    entropy: str = "spherical"
    tied: bool = True
    epochs: int = 10
    batch: int = 100
    rate: float = 0.01
    min_count: int = 2
    validation: float = 0.1
    patience: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        if self.fuzziness is None:
            untied = 0.01 if self.entropy == "euclidean" else 0.05
            object.__setattr__(self, "fuzziness", 0.1 if self.tied else untied)
        at_least(1, self, "codewords", "epochs", "batch", "min_count", "patience")
        at_least(0, self, "seed")
        for name in ("sigma", "fuzziness", "rate"):
            if not 0 < (value := getattr(self, name)) < math.inf:
                raise BadInput(f"{name} is {value}", value=value, expected="more than 0")
        if not 0 <= self.validation <= 0.5:
            raise BadInput(f"validation is {self.validation}", value=self.validation, expected="0 to 0.5")
        if self.entropy not in ENTROPIES:
            raise BadInput(f"entropy {self.entropy!r}", value=self.entropy, expected=" | ".join(ENTROPIES))


@dataclass(frozen=True)
class RnBofOptions(RoBoewOptions):
    """Settings of RN-BoF: those of RO-BoEW, with ``sigma`` in units of the codewords' mean distance.

    The paper starts at 0.1 of that distance; with rows of 256 dimensions wider functions train better. The head learns
    more slowly than a codebook alone, so there are twice as many epochs.

    Attributes:
        size: R, the dimensions of a text's vector.
        segments: S, the consecutive parts of a text that are pooled separately.
    """

    epochs: int = 20
    size: int = 16
    segments: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(1, self, "size", "segments")


@dataclass(frozen=True)
class AdaptOptions:
    """Settings of adapting word vectors to documents without labels; the defaults were chosen on Cranfield, CISI and a
    part of 20 Newsgroups' training set.

    Attributes:
        epochs: passes over the documents, at least.
        most_epochs: passes at most, where ``epochs`` of them make fewer than ``min_steps`` steps; more than these would
            learn a small corpus by heart.
        min_steps: steps that are made of more epochs in a small corpus.
        batch: documents of one step.
        rate: Adam's learning rate for the word rows, which falls to nearly 0.
        weight_rate: the same for the log weights of the words.
        temperature: of the softmax; a high one draws documents on one broad subject together.
        dim: dimensions of the result; None stands for those of the given vectors.
        spectral: dimensions of latent semantic indexing that the rows start with, beside the given vectors.
        min_count: words that occur less often in all are not trained.
        limit: documents to train on, at most; of more so many are drawn by chance.
        held_back: the part of the documents, up to 0.5, that judges.
        codewords: if given, a BoEW model with a codebook of this size is made, else the weighted mean.
        seed: of all that is drawn by chance.

    Raises BadInput for values that are out of range.
    """

    epochs: int = 5
    most_epochs: int = 20
    min_steps: int = 200
    batch: int = 128
    rate: float = 0.004
    weight_rate: float = 0.05
    temperature: float = 0.3
    dim: int | None = None
    spectral: int = 60
    min_count: int = 2
    limit: int = 50_000
    held_back: float = 0.1
    codewords: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(1, self, "epochs", "most_epochs", "spectral", "min_count", "dim", "codewords")
        at_least(2, self, "batch")
        at_least(0, self, "min_steps", "rate", "weight_rate", "seed")
        at_least(MIN_DOCUMENTS, self, "limit")
        if not 0 < self.temperature < math.inf:
            raise BadInput(f"temperature is {self.temperature}", value=self.temperature, expected="more than 0")
        _check_held_back(self.held_back)

    def steps_per_epoch(self, documents: int) -> int:
        """Steps of one pass over so many documents."""
        return max(1, documents // self.batch)

    def steps(self, documents: int) -> int:
        """Steps of the whole training on so many documents."""
        epoch = self.steps_per_epoch(documents)
        return epoch * max(self.epochs, min(self.most_epochs, -(-self.min_steps // epoch)))


@dataclass(frozen=True)
class LateInteractionOptions:
    """Settings of training a reranker; the defaults were chosen on the first 70 % of the questions of a SQuAD part.

    Attributes:
        epochs: passes over the queries; where they make fewer than 150 steps, up to 20.
        batch: queries of one step; fewer where there are few (see :meth:`batch_size`).
        negatives: documents against each relevant one, drawn anew in every epoch.
        pool: the engine's best candidates, from which negatives are drawn.
        rate: Adam's learning rate for the word rows, which falls to nearly 0.
        weight_rate: the same for the log weights of words, the threshold and the length penalty.
        shift_rate: the same for the shifts of query words.
        frequent: a word of so many training queries gets a shift of its own in queries.
        seed: of all that is drawn by chance.

    Raises BadInput for values that are out of range, and for more negatives than candidates.
    """

    epochs: int = 3
    batch: int = 64
    negatives: int = 12
    pool: int = 30
    rate: float = 5e-4
    weight_rate: float = 0.01
    shift_rate: float = 1e-3
    frequent: int = 30
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(1, self, "epochs", "batch", "negatives", "pool", "frequent")
        at_least(0, self, "rate", "weight_rate", "shift_rate", "seed")
        if self.negatives > self.pool:
            raise BadInput(f"{self.negatives} negatives of {self.pool} candidates", expected="at most as many")

    def batch_size(self, queries: int) -> int:
        """Queries of one step when there are so many in all: at most a hundredth of them, but at least 8."""
        return min(self.batch, max(_MIN_BATCH, queries // 100))

    def epochs_for(self, queries: int) -> int:
        """Passes over so many queries: ``epochs``, or as many up to 20 as make 150 steps."""
        steps = -(-queries // self.batch_size(queries))
        return max(self.epochs, min(_MAX_EPOCHS, -(-_MIN_STEPS // steps)))


@dataclass(frozen=True)
class QueryOptions:
    """Settings of learning static queries; the defaults were chosen on Cranfield and CISI.

    Attributes:
        texts: what the teacher encodes, at most: words, parts of documents to learn from, and parts that judge.
        epochs: passes over the texts, at least.
        most_epochs: passes at most, where ``epochs`` of them make fewer than ``min_steps`` steps.
        min_steps: steps that are made of more epochs where there are few texts.
        batch: texts of one step.
        rate: Adam's learning rate for the word rows, which falls to nearly 0.
        weight_rate: the same for the log weights of the words.
        min_count: words that occur less often in all are not trained.
        limit: documents to draw texts from, at most; of more so many are drawn by chance.
        held_back: the part of the documents, up to 0.5, that judges.
        seed: of all that is drawn by chance.

    Raises BadInput for values that are out of range.
    """

    texts: int = 10_000
    epochs: int = 5
    most_epochs: int = 40
    min_steps: int = 200
    batch: int = 256
    rate: float = 2e-3
    weight_rate: float = 2e-2
    min_count: int = 2
    limit: int = 100_000
    held_back: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(100, self, "texts")
        at_least(1, self, "epochs", "most_epochs", "batch", "min_count", "limit")
        at_least(0, self, "min_steps", "rate", "weight_rate", "seed")
        _check_held_back(self.held_back)

    def epochs_for(self, texts: int) -> int:
        """Passes over so many texts: ``epochs``, or as many up to ``most_epochs`` as make ``min_steps`` steps."""
        return max(self.epochs, min(self.most_epochs, -(-self.min_steps * self.batch // max(texts, 1))))


@dataclass(frozen=True)
class EmBoostOptions:
    """Settings of EmBoost's training.

    The paper has batches of 2,000, a rate of 0.001 and a scale of 0.05; the larger rate and scale here were better on
    validation questions.

    Attributes:
        network: ``fcrr`` (fully connected) or ``convrr`` (convolutional).
        epochs: passes over the queries, at most.
        batch: queries of one step.
        rate: Adam's learning rate.
        decay: Adam's weight decay.
        margin: the triplet loss's margin.
        scale: weight of the residual against the mixture of word vectors.
        seed: of all that is drawn by chance.

    Raises BadInput for an unknown network, less than one epoch, or fewer than two queries a step.
    """

    network: str = "convrr"
    epochs: int = 8
    batch: int = 256
    rate: float = 3e-3
    decay: float = 1e-3
    margin: float = 1.0
    scale: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.network not in NETWORKS:
            raise BadInput(f"unknown network {self.network!r}", value=self.network, expected=" | ".join(NETWORKS))
        if self.epochs < 1 or self.batch < 2:
            raise BadInput(f"{self.epochs} epochs, batch {self.batch}", expected="1 epoch, 2 queries a step, or more")
        at_least(0, self, "rate", "scale", "seed")


@dataclass(frozen=True)
class Word2DocOptions:
    """Settings of word2doc's training; the thesis has 512 hidden units, dropout 0.3, a rate of 0.001, ten negatives.

    Attributes:
        hidden: size of the hidden layers.
        epochs: passes over all pairs of a keyword and its document.
        batch: pairs of one step.
        rate: Adam's learning rate.
        dropout: the part of the hidden units that is left out in a step.
        negatives: documents that are pushed down for each query.
        keywords: keywords of a document, at most; two of them are held back.
        rounds: how often each pair is drawn, each time with a typo of its own, when contexts are looked up.
        seed: of all that is drawn by chance.

    Raises BadInput for values that are out of range.
    """

    hidden: int = 512
    epochs: int = 8
    batch: int = 128
    rate: float = 5e-3
    dropout: float = 0.3
    negatives: int = 10
    keywords: int = 20
    rounds: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(1, self, "hidden", "epochs", "batch", "negatives", "rounds")
        at_least(0, self, "rate")
        if self.keywords < 3:
            raise BadInput(f"keywords is {self.keywords}", value=self.keywords, expected="3 or more: two are held back")
