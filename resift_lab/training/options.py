"""Settings of all trainings.

They have a module of their own, so that the command line can show the defaults without importing torch or SciPy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from resift.encoders.residual import NETWORKS
from resift.errors import BadInput

# Distances that the clusters of RO-BoEW may use.
ENTROPIES = ("spherical", "euclidean")
# Ways to choose the negative documents of EmBoost's triplets.
NEGATIVES = ("hardest", "semi-hard")
# Steps of EmBoost's training in the paper.
_PAPER_STEPS = 400
# Smallest number of documents for training without labels.
MIN_DOCUMENTS = 8
# Training of a reranker: minimum number of queries per step, minimum number of steps, and maximum number of epochs to
# reach this number of steps.
_MIN_BATCH = 8
_MIN_STEPS = 150
_MAX_EPOCHS = 20


def check_minimum(minimum: int, settings: object, *names: str) -> None:
    """Check that numeric settings of a training are finite and not below a minimum. None is accepted.

    Args:
        minimum: The smallest valid value.
        settings: The object that has the settings as attributes.
        names: The names of the settings to check.

    Raises:
        BadInput: If a setting is below the minimum or not finite.
    """
    for name in names:
        value = getattr(settings, name)
        if value is not None and not minimum <= value < math.inf:
            raise BadInput(f"{name} is {value}", value=value, expected=f"{minimum} or more")


def _check_held_out(share: float) -> None:
    """Check the share of documents to hold out from training, for evaluation.

    Args:
        share: The share, which must be above 0 and at most 0.5.

    Raises:
        BadInput: If the share is out of range.
    """
    if not 0 < share <= 0.5:
        raise BadInput(f"held_out is {share}", value=share, expected="more than 0, at most 0.5")


@dataclass(frozen=True)
class ClusterOptions:
    """Settings of the networks that learn from labelled documents by forming pure clusters of documents.

    Attributes:
        codewords: The size K of a codebook.
        sigma: The width σ of the codewords' membership function before training.
        fuzziness: The fuzziness m of the document clusters. Smaller values assign documents to clusters more strictly.
            None means 0.1 for ``tied`` clusters, and otherwise 0.01 for Euclidean and 0.05 for spherical distances.
        entropy: The distance of documents from clusters: ``spherical`` (1 - cosine) or ``euclidean``.
        tied: If true, each cluster belongs to a class, and training moves documents into the cluster of their class. If
            false, clusters only have to be pure, as in the paper.
        epochs: The maximum number of passes over the documents. 0 requires a ``validation`` of 0, and returns the
            untrained network.
        batch: The number of documents per step.
        rate: Adam's learning rate, which falls to 0 over the epochs. Word weights are trained with three times this
            rate. σ and the cluster centres are trained with a tenth of it.
        validation: The share of the documents, 0 to 0.5, that is held out to choose the number of epochs and to
            evaluate the result.
        patience: The number of epochs without improvement after which training stops.
        seed: The seed of all random choices.

    Raises:
        BadInput: If a value is out of range.

    Source:
        Passalis and Tefas 2018, sections 3.2 and 3.3.
    """

    codewords: int = 64
    sigma: float = 0.5
    fuzziness: float | None = None
    entropy: str = "spherical"
    tied: bool = True
    epochs: int = 10
    batch: int = 100
    rate: float = 0.01
    validation: float = 0.1
    patience: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        if self.fuzziness is None:
            untied = 0.01 if self.entropy == "euclidean" else 0.05
            object.__setattr__(self, "fuzziness", 0.1 if self.tied else untied)
        check_minimum(1, self, "codewords", "batch", "patience")
        check_minimum(0, self, "epochs", "seed")
        for name in ("sigma", "fuzziness", "rate"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise BadInput(f"{name} is {value}", value=value, expected="more than 0")
        if not 0 <= self.validation <= 0.5:
            raise BadInput(f"validation is {self.validation}", value=self.validation, expected="0 to 0.5")
        if not self.epochs and self.validation:
            message = f"epochs is 0, but validation is {self.validation}"
            raise BadInput(message, value=self.epochs, expected="1 epoch or more, or a validation of 0")
        if self.entropy not in ENTROPIES:
            raise BadInput(f"unknown entropy {self.entropy!r}", value=self.entropy, expected=" | ".join(ENTROPIES))


@dataclass(frozen=True)
class RoBoewOptions(ClusterOptions):
    """Settings of RO-BoEW and of its training: the settings of :class:`ClusterOptions`, and two others.

    The defaults were chosen on parts of three training sets.

    Attributes:
        min_count: The minimum document frequency of a word that is trained. None means 2, or 1 if ``published`` is
            true.
        published: If true, training follows Algorithm 1 of the paper: clusters are not tied, the cluster centres are
            the class means before training, all words have the weight 1, and the learning rates are constant. Word
            vectors are not scaled to unit length, and words without a vector get random vectors with mean 1 and
            standard deviation 1. The remaining differences are listed in :mod:`resift_lab.training.boew`.
    """

    min_count: int | None = None
    published: bool = False

    def __post_init__(self) -> None:
        if self.published:
            object.__setattr__(self, "tied", False)
        super().__post_init__()
        check_minimum(1, self, "min_count")

    @property
    def min_documents(self) -> int:
        """The minimum document frequency of a word: ``min_count``, or its default, which depends on ``published``."""
        return self.min_count or (1 if self.published else 2)


@dataclass(frozen=True)
class RnBofOptions(RoBoewOptions):
    """Settings of RN-BoF on texts and of its training: the settings of RO-BoEW, ``size`` and ``segments``.

    Unlike for RO-BoEW, ``sigma`` is multiplied by the mean distance between codewords. The paper starts with widths of
    0.1, but wider membership functions train better with word vectors of 256 dimensions. The default number of epochs
    is twice that of RO-BoEW, because the last layer learns more slowly than the codebook.

    Attributes:
        size: The number of dimensions R of a text's vector.
        segments: The number S of consecutive segments of a text that are pooled separately.

    Source:
        Passalis and Tefas 2017, sections 3.2 and 3.3.
    """

    epochs: int = 20
    size: int = 16
    segments: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_minimum(1, self, "size", "segments")


@dataclass(frozen=True)
class BagOptions(ClusterOptions):
    """Settings of RN-BoF on bags of vectors and of its training.

    ``sigma`` is multiplied by the mean distance between the codewords of a region.

    Attributes:
        size: The number of dimensions R of a document's vector.
        sample: The number of vectors of a document that are used in a step, drawn anew for each step. It is divided
            equally among the regions of the bags.

    Source:
        Passalis and Tefas 2017, sections 3.2 and 3.3.
    """

    sigma: float = 0.1
    epochs: int = 100
    patience: int = 20
    size: int = 16
    sample: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        check_minimum(1, self, "size", "sample")


@dataclass(frozen=True)
class ClassOptions:
    """Settings of the training of an encoder of class probabilities from few labels.

    Attributes:
        folds: The number of parts of the documents in the cross-validation. Each part is held out once.
        seed: The seed of all random choices.

    Raises:
        BadInput: If a value is out of range.
    """

    folds: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        check_minimum(2, self, "folds")
        check_minimum(0, self, "seed")


@dataclass(frozen=True)
class AdaptOptions:
    """Settings of the adaptation of word vectors to documents without labels.

    The defaults were chosen on Cranfield, CISI and a part of the training set of 20 Newsgroups.

    Attributes:
        epochs: The minimum number of passes over the documents.
        most_epochs: The maximum number of passes over a small corpus. More passes would overfit.
        min_steps: The minimum number of steps. On a small corpus, the number of passes is increased up to
            ``most_epochs`` to reach it.
        batch: The number of documents per step.
        rate: Adam's learning rate for the word vectors, which falls to 2 % of its value.
        weight_rate: Adam's learning rate for the logarithms of the word weights.
        temperature: The temperature of the softmax in the loss. A high temperature moves documents on the same broad
            subject closer to each other.
        dim: The number of dimensions of the adapted word vectors. None keeps the number of the original word vectors.
        spectral: The number of dimensions from latent semantic indexing that are appended to the original word vectors
            before training.
        min_count: The minimum frequency of a word that is trained, counted over all documents.
        limit: The maximum number of documents to train on. From a larger corpus, a random sample is drawn.
        held_out: The share of the documents that is excluded from training and used for evaluation, more than 0 and at
            most 0.5.
        codewords: The size of the codebook of a BoEW model (bag of embedded words), or None for a model that averages
            word vectors.
        mixed: Whether half of the dimensions contain the original word vectors, projected onto the principal axes of
            the documents. Both halves count alike in the similarity of two texts. Not possible with ``codewords``.
        seed: The seed of all random choices.

    Raises:
        BadInput: If a value is out of range, or both ``codewords`` and ``mixed`` are set.
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
    held_out: float = 0.1
    codewords: int | None = None
    mixed: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check_minimum(1, self, "epochs", "most_epochs", "spectral", "min_count", "dim", "codewords")
        if self.mixed and self.codewords is not None:
            raise BadInput("codewords and mixed are both set", value=self.codewords, expected="either of them")
        check_minimum(2, self, "batch")
        check_minimum(0, self, "min_steps", "rate", "weight_rate", "seed")
        check_minimum(MIN_DOCUMENTS, self, "limit")
        if not 0 < self.temperature < math.inf:
            raise BadInput(f"temperature is {self.temperature}", value=self.temperature, expected="more than 0")
        _check_held_out(self.held_out)

    def steps_per_epoch(self, documents: int) -> int:
        """Return the number of training steps in a pass over all documents, with ``batch`` documents per step.

        Args:
            documents: The number of documents.
        """
        return max(1, documents // self.batch)

    def steps(self, documents: int) -> int:
        """Return the total number of training steps. On a small corpus, the passes are repeated to reach ``min_steps``.

        Args:
            documents: The number of documents.
        """
        epoch = self.steps_per_epoch(documents)
        return epoch * max(self.epochs, min(self.most_epochs, -(-self.min_steps // epoch)))


@dataclass(frozen=True)
class LateInteractionOptions:
    """Settings of the training of a reranker.

    The defaults were chosen on the first 70 % of the questions of a part of SQuAD.

    Attributes:
        epochs: The number of passes over the queries. It is increased to at most 20 if a training run would have fewer
            than 150 steps.
        batch: The maximum number of queries per step. With few queries, a step has 1 % of them, but at least 8.
        negatives: The number of irrelevant documents that are compared with each relevant document. They are drawn
            anew in each epoch.
        pool: The number of BM25's best documents from which the irrelevant documents are drawn.
        rate: Adam's learning rate for the word vectors, which falls to 2 % of its value.
        weight_rate: Adam's learning rate for the logarithms of the word weights, the threshold and the length penalty.
        shift_rate: Adam's learning rate for the shifts. The shift of a frequent query word is a vector that is added to
            its word vector in queries.
        frequent: The minimum number of training queries that contain a word with a shift.
        seed: The seed of all random choices.

    Raises:
        BadInput: If a value is out of range, or ``negatives`` is larger than ``pool``.
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
        check_minimum(1, self, "epochs", "batch", "negatives", "pool", "frequent")
        check_minimum(0, self, "rate", "weight_rate", "shift_rate", "seed")
        if self.negatives > self.pool:
            raise BadInput(
                f"{self.negatives} negatives cannot be drawn from {self.pool} candidates",
                value=self.negatives,
                expected=f"at most {self.pool} negatives, or a larger pool",
            )

    def batch_size(self, queries: int) -> int:
        """Return the number of queries per training step.

        This is 1 % of the training queries, but at least 8 and at most ``batch``.

        Args:
            queries: The number of training queries.
        """
        return min(self.batch, max(_MIN_BATCH, queries // 100))

    def epochs_for(self, queries: int) -> int:
        """Return how many times to pass over the training queries.

        With many queries, this is ``epochs``. With few queries, there are more passes, so that the training has at
        least 150 steps, but at most 20 passes.

        Args:
            queries: The number of training queries.
        """
        steps = -(-queries // self.batch_size(queries))
        return max(self.epochs, min(_MAX_EPOCHS, -(-_MIN_STEPS // steps)))


@dataclass(frozen=True)
class QueryOptions:
    """Settings of the training of static queries (word vectors that replace a transformer for queries).

    The defaults were chosen on Cranfield and CISI.

    Attributes:
        texts: The maximum number of texts that the teacher encodes: words, passages to train on, and passages for
            evaluation.
        epochs: The minimum number of passes over the texts.
        most_epochs: The maximum number of passes if there are few texts.
        min_steps: The minimum number of steps. If there are few texts, the number of passes is increased up to
            ``most_epochs`` to reach it.
        batch: The number of texts per step.
        rate: Adam's learning rate for the word vectors, which falls to 2 % of its value.
        weight_rate: Adam's learning rate for the logarithms of the word weights.
        min_count: The minimum frequency of a word that is trained, counted over all documents.
        limit: The maximum number of documents to draw texts from. From a larger corpus, a random sample is drawn.
        held_out: The share of the documents that is excluded from training and used for evaluation, more than 0 and at
            most 0.5.
        seed: The seed of all random choices.

    Raises:
        BadInput: If a value is out of range.
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
    held_out: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        check_minimum(100, self, "texts")
        check_minimum(1, self, "epochs", "most_epochs", "batch", "min_count", "limit")
        check_minimum(0, self, "min_steps", "rate", "weight_rate", "seed")
        _check_held_out(self.held_out)

    def epochs_for(self, texts: int) -> int:
        """Return how many times to pass over the training texts.

        With many texts, this is ``epochs``. With few texts, there are more passes, so that the training has at least
        ``min_steps`` steps, but at most ``most_epochs`` passes.

        Args:
            texts: The number of texts.
        """
        return max(self.epochs, min(self.most_epochs, -(-self.min_steps * self.batch // max(texts, 1))))


@dataclass(frozen=True)
class EmBoostOptions:
    """Settings of the training of EmBoost's networks.

    Settings that are None have the values of the paper if ``paper`` is true. Otherwise, they have values that gave
    better results on validation questions: a larger rate and scale, and smaller batches.

    Attributes:
        network: ``fcrr`` (fully connected) or ``convrr`` (convolutional).
        layers: The number of layers of the network. The paper has a "series of convolutional components".
        negatives: The choice of a query's negative document in the batch. ``hardest`` chooses the nearest document that
            is not relevant. ``semi-hard`` chooses the nearest irrelevant document that is farther from the query than
            the relevant document. If there is none, it chooses the farthest irrelevant document.
        paper: Whether to train as in the paper. Settings that are None then have the values of the paper, the weights
            of the sources of word vectors are fixed, and validation queries do not choose the epoch.
        epochs: The maximum number of passes over the queries. None means 8, or with ``paper`` as many as 400 steps
            need.
        batch: The number of queries per step. None means 256, or with ``paper`` 2,000.
        rate: Adam's learning rate. None means 0.003, or with ``paper`` 0.001.
        decay: Adam's weight decay.
        margin: The margin of the triplet loss.
        scale: The factor by which the network's output is multiplied before it is added to the mean of the word
            vectors. None means 0.5, or with ``paper`` 0.05.
        seed: The seed of all random choices.

    Raises:
        BadInput: If the network is unknown or another value is out of range.

    Source:
        Cakaloglu, Xu and Raghavan 2022 (EmBoost), section 4.3.2.
    """

    network: str = "convrr"
    layers: int = 1
    negatives: str = "hardest"
    paper: bool = False
    epochs: int | None = None
    batch: int | None = None
    rate: float | None = None
    decay: float = 1e-3
    margin: float = 1.0
    scale: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.network not in NETWORKS:
            raise BadInput(f"unknown network {self.network!r}", value=self.network, expected=" | ".join(NETWORKS))
        if self.negatives not in NEGATIVES:
            expected = " | ".join(NEGATIVES)
            raise BadInput(f"unknown negatives {self.negatives!r}", value=self.negatives, expected=expected)
        check_minimum(1, self, "layers", "epochs")
        check_minimum(2, self, "batch")
        check_minimum(0, self, "rate", "decay", "margin", "scale", "seed")

    @property
    def batch_size(self) -> int:
        """The number of queries per training step: ``batch``, or its default, which depends on ``paper``."""
        return self.batch or (2000 if self.paper else 256)

    @property
    def learning_rate(self) -> float:
        """Adam's learning rate: ``rate``, or its default, which depends on ``paper``."""
        return self.rate if self.rate is not None else (1e-3 if self.paper else 3e-3)

    @property
    def output_scale(self) -> float:
        """The factor of the network's output: ``scale``, or its default, which depends on ``paper``."""
        return self.scale if self.scale is not None else (0.05 if self.paper else 0.5)

    def epochs_for(self, queries: int) -> int:
        """Return the maximum number of passes over the training queries.

        Args:
            queries: The number of training queries.
        """
        if self.epochs is not None:
            return self.epochs
        steps_per_epoch = max(1, queries // min(self.batch_size, queries))
        return -(-_PAPER_STEPS // steps_per_epoch) if self.paper else 8


@dataclass(frozen=True)
class Word2DocOptions:
    """Settings of the training of word2doc.

    The number of hidden units, the dropout and the number of negatives are those of the thesis. The thesis trains for
    30 epochs with batches of 2,096, a learning rate of 0.001, at most six keywords of each document, and no errors.

    Attributes:
        hidden: The size of the hidden layers.
        epochs: The number of passes over all training examples.
        batch: The number of examples per step.
        rate: Adam's learning rate.
        dropout: The share of hidden units that is set to zero in a step.
        negatives: The number of wrong documents that are drawn for each query.
        keywords: The maximum number of keywords of a document. Two of them are excluded from training and used for
            evaluation.
        rounds: The number of training examples that are made from each pair of a query and its document. The examples
            have different random typing errors, or none.
        seed: The seed of all random choices.

    Raises:
        BadInput: If a value is out of range.

    Source:
        word2doc (thesis, 2018), table 4.1.
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
        check_minimum(1, self, "hidden", "epochs", "batch", "negatives", "rounds")
        check_minimum(0, self, "rate", "seed")
        if not 0 <= self.dropout < 1:
            raise BadInput(f"dropout is {self.dropout}", value=self.dropout, expected="at least 0 and less than 1")
        if self.keywords < 3:
            raise BadInput(
                f"keywords is {self.keywords}", value=self.keywords, expected="3 or more, because two are held out"
            )
