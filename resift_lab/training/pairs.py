"""Training of word vectors and weights for retrieval, on pairs of a query and a document that answers it.

Natural pairs need no judgements: a title and its abstract, a question and its answer, a term and its definition. The
vector of a text is the weighted sum of its words' vectors. The loss of a batch is InfoNCE over the pairs
(:func:`resift_lab.training.contrastive.info_nce_gradients`). Each query has to find its own document among all
documents of the batch, and each document its query. All pairs of a batch come from the same source, such as a textbook
or a manual, because documents on similar subjects are harder to distinguish.

This loss alone would make the vectors worse at comparing sentences. Therefore a second term of the loss keeps the
vectors of sentences close to their vectors before the training (:func:`resift_lab.training.fitting.cosine_gradients`).

A teacher, a sentence-transformers model, helps in two ways. It encodes single words of the pairs that are not in the
table, and a linear map brings their vectors into the space of the table. It also encodes a sample of the queries and of
the beginnings of documents. A third term of the loss moves the vectors of these passages towards the teacher's vectors,
which are rotated into the space of the table (:func:`resift_lab.training.refine.procrustes_map`).

The result is the mean of several training runs with different seeds (model soups, Wortsman et al. 2022), so that it
depends less on the order of the pairs. Afterwards, another linear map moves the vectors of words that occur in no pair
and in no sentence.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift_lab.corpus import count_documents, document_frequency, sparse_counts
from resift_lab.training.adam import Adam, rate_factor
from resift_lab.training.contrastive import info_nce_gradients
from resift_lab.training.distill import CHUNK, DistillOptions, round_rows
from resift_lab.training.documents import used_columns
from resift_lab.training.fitting import cosine_gradients
from resift_lab.training.progress import Progress, StepCounter
from resift_lab.training.refine import procrustes_map
from resift_lab.training.transformer import Transformer
from resift_lab.training.unseen import UnseenWordPredictor

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Pair = tuple[str, str]
"""A query and a document."""

# Smallest number of pairs and of sentences to train on.
_MIN_PAIRS = 8
_MIN_SENTENCES = 8
# Maximum number of words of a document. The first words usually state the subject.
_MAX_WORDS = 300
# Number of words of a document that the teacher reads. A transformer needs time for each word.
_PASSAGE_WORDS = 48
# Number of queries and documents that the CPU encodes together, and between two progress reports.
_TEACHER_BATCH = 64
_TEACHER_CHUNK = 2048
# Number of words of the table that the linear map from the teacher's space is fitted on. The most frequent words are
# left out, because the teacher's vectors of single function words mean little.
_MAPPED_WORDS = 8000
_SKIPPED_WORDS = 100
_TINY = 1e-9
_EXPECTED_LINE = '{"query": "...", "document": "..."}'


@dataclass(frozen=True)
class PairOptions:
    """Settings for training word vectors on pairs of queries and documents.

    The defaults were chosen on Cranfield, CISI, MEDLINE, Vaswani and STS 2012 to 2016.
    ``benchmarks/pairs_settings.py`` compares most of them with other values by leaving one collection out.

    Attributes:
        epochs: The number of passes over the pairs.
        batch: The approximate number of pairs per step. A pass divides the pairs of a source into equal batches.
        limit: The maximum number of pairs from a source per pass. From a larger source, each pass draws this number at
            random.
        rate: Adam's initial learning rate for the word vectors, which falls during the training. Before training, the
            word vectors are scaled to a root mean square length of 1.
        weight_rate: Adam's initial learning rate for the logarithms of the word weights, which falls in the same way.
        temperature: The temperature of the softmax in the InfoNCE loss.
        sentence_weight: The weight of the loss that keeps sentences close to their vectors before the training. If it
            is 0, no sentences are used.
        sentence_batch: The number of sentences per step, and the number of passages.
        passage_weight: The weight of the loss that moves queries and the beginnings of documents towards the teacher's
            vectors. If it is 0, or if there is no teacher, no passages are used.
        passage_limit: The maximum number of pairs from a source whose query and document the teacher encodes.
        min_count: The minimum number of texts (queries and documents) that contain a word that the table lacks. With
            fewer texts, the word is not added.
        new_words: The maximum number of words that are added. Words are only added if there is a teacher.
        runs: The number of training runs, whose results are averaged.
        seed: The seed of the first run. The next runs use the next integers.
        levels: The number of steps on either side of 0 to which the components of a vector are rounded, see
            :func:`resift_lab.training.distill.round_rows`. 0 means no rounding.

    Raises:
        BadInput: If a value is out of range.
    """

    epochs: int = 3
    batch: int = 512
    limit: int = 8_000
    rate: float = 0.002
    weight_rate: float = 0.02
    temperature: float = 0.06
    sentence_weight: float = 20.0
    sentence_batch: int = 256
    passage_weight: float = 20.0
    passage_limit: int = 1_000
    min_count: int = 5
    new_words: int = 16_000
    runs: int = 3
    seed: int = 0
    levels: int = 31

    def __post_init__(self) -> None:
        lowest = {"batch": 2, "levels": 0, "new_words": 0, "passage_weight": 0, "seed": 0, "sentence_weight": 0}
        for name in ("epochs", "limit", "sentence_batch", "passage_limit", "min_count", "runs", *lowest):
            if getattr(self, name) < lowest.get(name, 1):
                raise BadInput(f"{name} is {getattr(self, name)}", expected=f"{lowest.get(name, 1)} or more")
        for name in ("rate", "weight_rate", "temperature"):
            if getattr(self, name) <= 0:
                raise BadInput(f"{name} is {getattr(self, name)}", expected="a number above 0")


@dataclass(frozen=True)
class CountedPairs:
    """The n pairs of a source, as word counts.

    Attributes:
        queries: The frequency of each of V words in each query, shape (n, V).
        documents: The frequency of each word in the document of each query, shape (n, V).
    """

    queries: csr_matrix
    documents: csr_matrix

    def __len__(self) -> int:
        return int(self.queries.shape[0])

    @classmethod
    def from_texts(cls, vectors: WordVectors, pairs: Sequence[Pair]) -> CountedPairs:
        """Count the words of pairs. Pairs in which the query or the document has no word of the table are left out.

        Args:
            vectors: The table whose V words are counted.
            pairs: The queries with their documents. Only the first 300 words of a document are counted.
        """
        queries = _counts(vectors, [query for query, _ in pairs])
        documents = _counts(vectors, [" ".join(document.split()[:_MAX_WORDS]) for _, document in pairs])
        usable = np.flatnonzero((np.diff(queries.indptr) > 0) & (np.diff(documents.indptr) > 0))
        return cls(queries[usable], documents[usable])


def _text_vectors(vectors: WordVectors, counts: csr_matrix) -> Floats:
    """Return the unit vectors of texts.

    Args:
        vectors: The table of V words with D dimensions.
        counts: The frequency of each word in each of n texts, shape (n, V).
    """
    return unit_rows(counts @ (vectors.rows() * vectors.weights[:, None]))


def _draw_passages(vectors: WordVectors, sources: Sequence[Sequence[Pair]], options: PairOptions) -> list[str]:
    """Draw queries and the beginnings of documents that have a word in the table.

    Args:
        vectors: The table.
        sources: The pairs of each source.
        options: The settings of the training, which limit the number of pairs from a source.
    """
    rng = np.random.default_rng(options.seed)
    texts: list[str] = []
    for pairs in sources:
        for position in rng.permutation(len(pairs))[: options.passage_limit]:
            query, document = pairs[position]
            texts += [query, " ".join(document.split()[:_PASSAGE_WORDS])]
    return [texts[row] for row in np.flatnonzero(np.diff(_counts(vectors, texts).indptr))]


def _counts(vectors: WordVectors, texts: Sequence[str]) -> csr_matrix:
    return sparse_counts(*vectors.ids(texts), len(vectors))


def read_pairs(path: str | Path) -> list[Pair]:
    """Read pairs from a file with a JSON object ``{"query": ..., "document": ...}`` on each line.

    Args:
        path: The path of the file in UTF-8. It is compressed with gzip if its name ends in ``.gz``. Empty lines are
            skipped.

    Returns:
        The pairs, in the order of the file.

    Raises:
        BadInput: If the file cannot be read, contains no pair, or a line is not such an object.
    """
    opener = gzip.open if str(path).endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8", newline="\n") as handle:
            pairs = [
                _parse_pair(line, f"line {number} of {path}") for number, line in enumerate(handle, 1) if line.strip()
            ]
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise BadInput(f"{path} cannot be read: {error}", value=str(path), expected="JSON lines in UTF-8") from error
    if not pairs:
        raise BadInput(f"{path} contains no pair", value=str(path), expected=_EXPECTED_LINE)
    return pairs


def _parse_pair(line: str, place: str) -> Pair:
    """Parse a line of a file of pairs, a JSON object with a query and its document.

    Args:
        line: The line.
        place: The name of the line in an error message.

    Raises:
        BadInput: If the line is not an object with the texts ``query`` and ``document``.
    """
    try:
        pair = json.loads(line)
        texts = pair["query"], pair["document"]
    except (ValueError, TypeError, KeyError, RecursionError):
        texts = None, None
    if not all(isinstance(text, str) for text in texts):
        raise BadInput(f"{place} is not a pair", value=line[:200], expected=_EXPECTED_LINE)
    return texts


def train_on_pairs(
    vectors: WordVectors,
    sources: Sequence[Sequence[Pair]],
    sentences: Sequence[str],
    options: PairOptions | None = None,
    teacher: Transformer | None = None,
    progress: Progress | None = None,
) -> WordVectors:
    """Train word vectors and weights so that queries have vectors similar to those of their documents.

    The result is the same for each call with the same arguments on the same machine.

    Args:
        vectors: The word vectors to start from.
        sources: The pairs of each source. Pairs in which the query or the document has no word with a vector are
            ignored, and so are sources with a single usable pair. All sources together need at least eight usable
            pairs.
        sentences: The sentences that should keep their vectors. At least eight need a word with a vector. Not used if
            ``options.sentence_weight`` is 0.
        options: The settings of the training.
        teacher: A model that provides vectors for words of the pairs that the table does not contain, and for queries
            and the beginnings of documents, which the word vectors are trained to imitate. Without it, no words are
            added, and the teacher's term of the loss is left out.
        progress: A function that is called with the number of finished steps and the total number. Each text that the
            teacher encodes is a step, and each batch of pairs.

    Returns:
        A table of the same words, followed by the new words, with float32 vectors of the same number of dimensions. The
        vectors have unit length before they are rounded.

    Raises:
        BadInput: If there are too few pairs or sentences.
    """
    options, steps = options or PairOptions(), StepCounter(progress, 0)
    if teacher is not None:
        vectors = with_new_words(vectors, sources, teacher, options, steps)
    counted_sources = [source for pairs in sources if len(source := CountedPairs.from_texts(vectors, pairs)) > 1]
    count = sum(map(len, counted_sources))
    if count < _MIN_PAIRS:
        raise BadInput(
            f"only {count} pairs have a query and a document with known words",
            value=count,
            expected=f"{_MIN_PAIRS} or more",
        )
    rows = vectors.rows()
    start = WordVectors(vectors.words, rows / np.sqrt((rows**2).sum(axis=1).mean()), vectors.weights)
    targets: list[_TextTargets] = []
    if options.sentence_weight:
        targets.append(_TextTargets.from_sentences(start, sentences, options.sentence_weight))
    if teacher is not None and options.passage_weight:
        texts = _draw_passages(start, sources, options)
        steps.total = 2 * (steps.done + len(texts))  # an estimate, because the training steps are counted below
        encoded = teacher.encode(texts, _TEACHER_BATCH, _TEACHER_CHUNK, steps.next_stage())
        if texts:
            targets.append(_TextTargets.from_passages(start, texts, encoded, options.passage_weight))
    seeds = range(options.seed, options.seed + options.runs)
    trainings = [_PairTraining(start, counted_sources, targets, options, seed) for seed in seeds]
    steps.total = steps.done + sum(len(training.plan) for training in trainings)
    runs = [training.fit(steps.advance) for training in trainings]
    matrices = [side for source in counted_sources for side in (source.queries, source.documents)]
    matrices += [target.counts for target in targets]
    frequency = np.sum([document_frequency(counts) for counts in matrices], axis=0)
    rows = _move_untrained_words(start, unit_rows(np.mean([rows for rows, _ in runs], axis=0)), frequency)
    weights = np.exp(np.mean([log_weights for _, log_weights in runs], axis=0)).astype(np.float32)
    info = {
        **vectors.info,
        "weighting": "learned",
        "levels": options.levels,
        "words": len(vectors),
        "pairs": f"on {count} pairs of {len(counted_sources)} sources, {options.runs} runs from seed {options.seed}",
    }
    rows = round_rows(rows, options.levels) if options.levels else rows
    return WordVectors(vectors.words, rows, weights, info=info)


def with_new_words(
    vectors: WordVectors,
    sources: Sequence[Sequence[Pair]],
    teacher: Transformer,
    options: PairOptions,
    steps: StepCounter,
) -> WordVectors:
    """Add words of the pairs to a table, with the teacher's vectors in the space of the table.

    The linear map into the space of the table is fitted on frequent words of the table. The weight of a new word is the
    median weight of the table.

    Args:
        vectors: The table.
        sources: The pairs of each source.
        teacher: The model that encodes the words.
        options: The settings of the training, which limit the number of new words.
        steps: A counter of the words that the teacher encodes. Its total is set to twice the number of these words,
            because the number of training steps is not known yet.

    Returns:
        A table of the same words, followed by the new words, most frequent first. The table itself if there are no new
        words.
    """
    words = _new_words(vectors, sources, options)
    if not words:
        return vectors
    mapped = vectors.words[_SKIPPED_WORDS : _SKIPPED_WORDS + _MAPPED_WORDS] or vectors.words
    steps.total = 2 * (len(mapped) + len(words))
    encoded = teacher.encode([*mapped, *words], DistillOptions.batch, CHUNK, steps.next_stage())
    rows = unit_rows(vectors.rows())
    mapped_rows = rows[[vectors.index[word] for word in mapped]]
    linear_map = UnseenWordPredictor(WordVectors([*mapped, *words], encoded), mapped, mapped_rows, np.ones(len(mapped)))
    new_rows = unit_rows(linear_map.predict(np.arange(len(mapped), len(encoded))))
    new_weights = np.full(len(words), np.median(vectors.weights), np.float32)
    return WordVectors(
        [*vectors.words, *words],
        np.concatenate([rows, new_rows]),
        np.concatenate([vectors.weights, new_weights]),
        info=vectors.info,
    )


def _new_words(vectors: WordVectors, sources: Sequence[Sequence[Pair]], options: PairOptions) -> list[str]:
    """Return the words of the pairs that should be added to a table, most frequent first.

    A new word contains a letter and occurs in at least ``min_count`` different texts. If there are several sources, it
    occurs in at least two of them. This condition excludes names that only one source uses, such as those of a product.

    Args:
        vectors: The table.
        sources: The pairs of each source.
        options: The settings of the training.
    """
    frequency: Counter[str] = Counter()
    source_count: Counter[str] = Counter()
    for pairs in sources:
        _, counts = count_documents(dict.fromkeys(chain.from_iterable(pairs)))
        frequency.update(counts)
        source_count.update(counts.keys())
    return [
        word
        for word, count in frequency.most_common()
        if count >= options.min_count
        and source_count[word] >= min(len(sources), 2)
        and vectors.index[word] < 0
        and any(map(str.isalpha, word))
    ][: options.new_words]


@dataclass(frozen=True)
class _TextTargets:
    """Texts with target vectors. Training keeps the weighted sum of a text's word vectors close to its target.

    Attributes:
        counts: The frequency of each of V words in each of n texts, shape (n, V).
        units: The target of each text, a unit vector of D dimensions, shape (n, D).
        weight: The weight of this term of the loss.
    """

    counts: csr_matrix
    units: Floats
    weight: float

    @classmethod
    def from_sentences(cls, vectors: WordVectors, texts: Sequence[str], weight: float) -> _TextTargets:
        """Create targets for sentences whose vectors training should not change.

        Sentences without known words are left out.

        Args:
            vectors: The table before the training.
            texts: The sentences.
            weight: The weight of this term of the loss.

        Raises:
            BadInput: If there are too few sentences with known words.
        """
        counts = _counts(vectors, texts)
        counts = counts[np.flatnonzero(np.diff(counts.indptr))]
        if counts.shape[0] < _MIN_SENTENCES:
            raise BadInput(
                f"only {counts.shape[0]} sentences have known words",
                value=counts.shape[0],
                expected=f"{_MIN_SENTENCES} or more, or sentence_weight=0",
            )
        return cls(counts, _text_vectors(vectors, counts), weight)

    @classmethod
    def from_passages(cls, vectors: WordVectors, texts: Sequence[str], encoded: Floats, weight: float) -> _TextTargets:
        """Create targets for passages whose vectors training should move towards those of a teacher, a larger model.

        The teacher's vectors are rotated into the space of the word vectors.

        Args:
            vectors: The table before the training.
            texts: The n passages. Each contains a word of the table.
            encoded: The teacher's vectors of the passages with T dimensions, shape (n, T).
            weight: The weight of this term of the loss.
        """
        counts, units = _counts(vectors, texts), unit_rows(encoded)
        rotation = procrustes_map(units, _text_vectors(vectors, counts))
        return cls(counts, unit_rows(units @ rotation), weight)

    def batches(self, size: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        """Yield batches of texts without end. Each pass over the texts has another order.

        Args:
            size: The number of texts in a batch. Each batch is an array of their positions, shape (size,).
            rng: The source of random numbers.
        """
        order = np.zeros(0, np.int64)
        while True:
            while len(order) < size:
                order = np.concatenate([order, rng.permutation(self.counts.shape[0])])
            yield order[:size]
            order = order[size:]


class _PairTraining:
    """A training run of word vectors on pairs of a query and its document. Several runs are averaged afterwards.

    Args:
        start: The table of word vectors before the training.
        sources: The pairs of each source.
        targets: The sentences and passages with the vectors that they should have.
        options: The settings of the training.
        seed: The seed of the order of pairs and sentences.

    Attributes:
        plan: The batches of all passes, in the order of training. A batch consists of the position of its source in
            ``sources``, and the positions of its pairs in the source.
    """

    def __init__(
        self,
        start: WordVectors,
        sources: Sequence[CountedPairs],
        targets: Sequence[_TextTargets],
        options: PairOptions,
        seed: int,
    ) -> None:
        self.start, self.sources, self.targets, self.options = start, sources, targets, options
        self.rng = np.random.default_rng(seed)
        self.plan = [batch for _ in range(options.epochs) for batch in self._shuffled_batches()]

    def _shuffled_batches(self) -> list[tuple[int, NDArray[np.int64]]]:
        """Return the batches of a pass over all pairs, in random order.

        Returns:
            A pair for each batch: the position of its source in ``sources``, and the positions of its pairs.
        """
        batches: list[tuple[int, NDArray[np.int64]]] = []
        for number, source in enumerate(self.sources):
            order = self.rng.permutation(len(source))[: self.options.limit]
            chunks = np.array_split(order, max(round(len(order) / self.options.batch), 1))
            batches += [(number, chunk) for chunk in chunks]
        return [batches[position] for position in self.rng.permutation(len(batches))]

    def fit(self, advance: Callable[[int], None]) -> tuple[Floats, Floats]:
        """Train the word vectors and weights on all batches of ``plan``.

        Args:
            advance: A function that is called with 1 after each step.

        Returns:
            The trained word vectors, shape (V, D), and the logarithms of the weights, shape (V,).
        """
        from scipy.sparse import vstack

        options = self.options
        table = self.start.rows().copy()
        log_weights = np.log(np.maximum(self.start.weights, _TINY)).astype(np.float32)
        row_adam, weight_adam = Adam(table, options.rate), Adam(log_weights, options.weight_rate)
        target_batches = [target.batches(options.sentence_batch, self.rng) for target in self.targets]
        for step, (number, positions) in enumerate(self.plan):
            source, pair_texts = self.sources[number], 2 * len(positions)
            drawn = [next(batches) for batches in target_batches]
            texts = [source.queries[positions], source.documents[positions]]
            texts += [target.counts[batch] for target, batch in zip(self.targets, drawn, strict=True)]
            words, counts = used_columns(vstack(texts, format="csr"))
            rows, logs = table[words], log_weights[words]
            _, by_row, by_log = info_nce_gradients(counts[:pair_texts], rows, logs, options.temperature)
            start = pair_texts
            for target, batch in zip(self.targets, drawn, strict=True):
                end = start + len(batch)
                _, target_by_row, target_by_log = cosine_gradients(counts[start:end], target.units[batch], rows, logs)
                by_row = by_row + np.float32(target.weight) * target_by_row
                by_log = by_log + np.float32(target.weight) * target_by_log
                start = end
            remaining = rate_factor(step, len(self.plan))
            row_adam.update(words, by_row, step + 1, remaining)
            weight_adam.update(words, by_log, step + 1, remaining)
            advance(1)
        return table, log_weights


def _move_untrained_words(start: WordVectors, rows: Floats, frequency: NDArray[np.float64]) -> Floats:
    """Apply the change that training made to the trained word vectors to the words that were not trained.

    The change is a linear map from the vectors before to the vectors after the training, fitted on the trained words.

    Args:
        start: The table before the training.
        rows: The unit vectors of V words after the training, with D dimensions, shape (V, D).
        frequency: The number of training texts that contain each word, shape (V,). Words with 0 were not trained.

    Returns:
        The unit vectors of all words, shape (V, D).
    """
    is_trained = frequency > 0
    trained, unseen = np.flatnonzero(is_trained), np.flatnonzero(~is_trained)
    linear_map = UnseenWordPredictor(start, [start.words[row] for row in trained], rows[trained], frequency[trained])
    moved = np.array(rows, np.float32)
    moved[unseen] = unit_rows(linear_map.predict(unseen))
    return moved
