"""Training of static queries: word vectors whose weighted mean replaces a transformer's vector of a short text.

If the documents of an index have vectors from a transformer, each query needs the same transformer. Here the
transformer, the teacher, encodes words and some thousand passages of the documents once, and a table of word vectors
learns to predict the teacher's vectors (:class:`resift.encoders.queries.StaticQueries`). A query then needs only a few
look-ups.

1. The initial word vectors are the teacher's vectors of single words, centred. The initial weights are a / (a + p) with
   a = 0.001, where p is the share of a word in the corpus (SIF, Arora et al. 2017, equation 2).
2. :func:`resift_lab.training.fitting.fit_rows` trains vectors and weights so that the weighted mean of a text's words
   has a high cosine with the teacher's vector of the text. The mean of all the teacher's vectors is subtracted first.
   Otherwise most of each cosine would come from what the vectors have in common. The texts are passages of 2 to 40
   words and, if their vectors are available, whole documents.
3. A linear map computes the vectors of words that occur only in the general table of word vectors.

Needs only NumPy and SciPy besides the teacher.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.encoders.queries import QUERY_ALPHA, QUERY_MAX_ALPHA, StaticQueries
from resift.encoders.tables import quantize_table
from resift.errors import BadInput, needs_extra
from resift.text import tokenize, word_spans
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift.vectors.weights import alpha_from_beta, beta_from_alpha
from resift_lab.evaluation.significance import paired_randomization
from resift_lab.training.documents import Documents, word_counts
from resift_lab.training.fitting import FitOptions, fit_rows
from resift_lab.training.gate import MIN_TEST_DOCUMENTS, SIGNIFICANT, Gate
from resift_lab.training.options import MIN_DOCUMENTS, QueryOptions
from resift_lab.training.progress import Progress, StepCounter
from resift_lab.training.self_supervised import reciprocal_ranks
from resift_lab.training.teachers import Teacher
from resift_lab.training.unseen import UnseenWordPredictor

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# The weights QUERY_ALPHA and QUERY_MAX_ALPHA were chosen for a model whose cosines have the standard deviation SPREAD.
# Smaller standard deviations than _MIN_SPREAD are raised to it (see set_similarity_weights).
SPREAD = 0.1
_MIN_SPREAD = 1e-3
# The constant a of SIF weights.
_SIF = 1e-3
# Minimum and maximum number of words in a passage.
_MIN_WORDS = 2
_MAX_WORDS = 40
# Share of the teacher's texts that are single words.
_SHARE_OF_WORDS = 1 / 3
# Maximum number of held-out documents, and the number of passages drawn from each.
_MAX_HELD_OUT = 1000
_PASSAGES_PER_HELD_OUT = 6
# Number of documents that are encoded again, to check that their vectors were computed by the teacher.
_CHECKED = 16
# Number of candidates whose cosines are used to compute the spread (standard deviation).
_COMPARED = 2000
# Sizes of the gate: held-out documents, queries for each, and all documents.
_GATE_TEST_DOCUMENTS = 200
_GATE_ROUNDS = 2
_GATE_DOCUMENTS = 5000
# Smallest mean distance of unit vectors from their mean. If the distance is smaller, all texts have the same vector up
# to the precision of 16-bit floats.
_MIN_DISTANCE = 1e-3


@dataclass(frozen=True)
class EncodedDocuments:
    """Documents, and optionally the vectors that a transformer model has computed for them.

    Attributes:
        texts: The texts of the N documents.
        vectors: The vectors of the documents with D dimensions, shape (N, D), or None if they are not available.
        field: The field of the index that contains the vectors, or None.
    """

    texts: Sequence[str]
    vectors: Floats | None = None
    field: str | None = None


@dataclass(frozen=True)
class Passage:
    """A short run of consecutive words from a document, which serves as a training query.

    Attributes:
        text: The words in their original form.
        document: The position of the document.
    """

    text: str
    document: int


@dataclass(frozen=True)
class _HeldOutQueries:
    """Evaluation queries: passages of n documents that were held out from training.

    A search for a passage ranks m candidates. It should return its correct candidate first: the document of the
    passage, or another passage of this document. All vectors have D dimensions.

    Attributes:
        queries: The passages of each document.
        teacher_vectors: The teacher's vectors of the first passage of each document, shape (n, D).
        candidates: The vectors of the candidates, shape (m, D).
        correct: For each document, the position of the correct candidate of its passages, shape (n,).
    """

    queries: list[list[str]]
    teacher_vectors: Floats
    candidates: Floats
    correct: NDArray[np.int64]

    def mean_reciprocal_ranks(self, model: Model) -> Floats:
        """Encode all passages with a model, and measure how well these vectors retrieve the correct candidates.

        Args:
            model: The model that encodes the passages.

        Returns:
            For each document, the mean reciprocal rank of the correct candidate over its passages, shape (n,).
        """
        ranks = self.reciprocal_ranks(model.encode([text for texts in self.queries for text in texts]))
        starts = np.cumsum([0, *map(len, self.queries)])
        # The passages of a document are not independent, so there is a single value for each document.
        return np.asarray(np.add.reduceat(ranks, starts[:-1]) / np.diff(starts), np.float32)

    def reciprocal_ranks(self, vectors: Floats) -> Floats:
        """Rank all candidates by their similarity to each query vector, and measure the rank of the correct candidate.

        Args:
            vectors: Vectors of queries with D dimensions: either a vector for each of the n documents, shape (n, D), or
                a vector for each of the q passages of all documents, shape (q, D).

        Returns:
            The reciprocal rank of the correct candidate for each query vector, shape (n,) or (q,). Another
            candidate with the same similarity adds 0.5 to the rank.
        """
        correct = self.correct
        if len(vectors) != len(correct):
            correct = np.repeat(correct, [len(texts) for texts in self.queries])
        return np.asarray(reciprocal_ranks(vectors @ self.candidates.T, correct), np.float32)


def train_queries(
    documents: EncodedDocuments,
    teacher: Teacher,
    vectors: WordVectors,
    options: QueryOptions | None = None,
    progress: Progress | None = None,
) -> StaticQueries:
    """Train static queries: word vectors that predict the vectors that a transformer, the teacher, gives to queries.

    Training runs twice: first without some documents, which are used for evaluation, and then on all documents. The
    same seed gives the same model on the same machine.

    Args:
        documents: The documents, with their vectors if available.
        teacher: The model that encoded the documents.
        vectors: General word vectors, for words that do not occur in the documents.
        options: The settings of the training.
        progress: A function that is called with the number of encoded texts and the total number.

    Returns:
        The trained model. ``model.table.info["taught"]`` contains the evaluation (see :func:`_evaluate`), the weight
        ``alpha`` of the similarity relative to BM25, and ``why``, an explanation of this weight. The weight is chosen
        by :mod:`resift_lab.training.gate`.

    Raises:
        BadInput: If there are too few documents, or their vectors were not computed by the teacher.
        MissingExtra: If SciPy is not installed.
        TeacherUnavailable: If the teacher does not respond, or its response contains no vectors.
    """
    with needs_extra("lab", "Learning static queries"):
        import scipy.sparse  # noqa: F401
    training = _QueryTraining(documents, teacher, vectors, options or QueryOptions(), progress)
    return training.run()


class _QueryTraining:
    """A training run of word vectors that encode queries like a larger model, the teacher, but much faster.

    Creating the object draws all random samples: the documents for evaluation, and the passages to train on.

    Args:
        documents: The documents, and optionally the teacher's vectors of the documents.
        teacher: The model that encodes the texts.
        vectors: General word vectors, for words that the documents do not contain.
        options: The settings of the training.
        progress: A function that is called with the number of encoded texts and the total number, or None.
    """

    def __init__(
        self,
        documents: EncodedDocuments,
        teacher: Teacher,
        vectors: WordVectors,
        options: QueryOptions,
        progress: Progress | None,
    ) -> None:
        self.teacher, self.vectors, self.field, self.options = teacher, vectors, documents.field, options
        rng = np.random.default_rng(options.seed)
        chosen = _select_texts(documents.texts, options, rng)
        texts = [documents.texts[row] for row in chosen]
        self.document_vectors = None
        if documents.vectors is not None:
            self.document_vectors = _checked_vectors(teacher, texts, documents.vectors[chosen], options.seed)
        self.corpus = Documents(map(tokenize, texts), options.min_count)
        self.document_count = len(texts)
        self.held_out = rng.permutation(len(texts))[: _held_out_count(len(texts), options)]
        self.words = self.corpus.words[: round(options.texts * _SHARE_OF_WORDS)]
        self.held_out_passages = [
            draw_passages(texts, self.held_out[[row]], _PASSAGES_PER_HELD_OUT, rng) for row in range(len(self.held_out))
        ]
        self.gate = _TeacherGate(texts, self.held_out, self.document_vectors, options)
        reserved = len(self.words) + 2 * len(self.held_out) + len(self.gate.teacher_texts)
        self.passages = draw_passages(texts, np.arange(len(texts)), options.texts - reserved, rng)
        self.steps = StepCounter(progress, reserved + len(self.passages))

    def run(self) -> StaticQueries:
        """Train twice: first without the held-out documents to evaluate the training, then on all documents.

        Returns:
            The trained model. If the evaluation on the held-out documents shows that training makes the ranking
            significantly worse, a model with the untrained word vectors is returned instead.
        """
        options, steps = self.options, self.steps
        start = self._initial_vectors(_distinct_vectors(self.teacher, self.words, steps))
        passages_of = [passages for passages in self.held_out_passages if len(passages) > 1]
        held_out = _held_out_queries(passages_of, self.teacher, self.document_vectors, steps)
        passage_vectors = _distinct_vectors(self.teacher, [passage.text for passage in self.passages], steps)
        training_texts = _TrainingTexts(self.corpus, self.passages, passage_vectors, self.document_vectors)
        centre = training_texts.centre
        untrained = self._build_model(centre, *start)
        trial = self._build_model(centre, *training_texts.fit(*start, options, self.held_out))
        evaluation = _evaluate(held_out, untrained, trial, options)
        if evaluation["worse"]:
            trial = self._build_model(centre, *start)
        set_similarity_weights(trial, evaluation["spread"])
        evaluation |= self.gate.choose_weight(trial, self.teacher, steps)
        model = trial if evaluation["worse"] else self._build_model(centre, *training_texts.fit(*start, options))
        set_similarity_weights(model, evaluation["spread"])
        model.alpha = evaluation["alpha"]
        model.table.info["taught"] = {
            "documents": self.document_count,
            "texts": steps.done,
            "words": len(self.corpus.words),
            "held_out": len(held_out.correct),
            **evaluation,
            "options": asdict(options),
        }
        return model

    def _initial_vectors(self, word_vectors: Floats) -> tuple[Floats, Floats]:
        """Compute the vectors and weights with which the training of the V words of the corpus starts.

        Args:
            word_vectors: The teacher's vectors of the W most frequent words with D dimensions, shape (W, D).

        Returns:
            The word vectors, shape (V, D), and the weights, shape (V,). The vectors of less frequent words are
            predicted from the general word vectors. A word without a general word vector gets a zero vector.
        """
        corpus, count = self.corpus, len(word_vectors)
        rows = np.zeros((len(corpus.words), word_vectors.shape[1]), np.float32)
        rows[:count] = _subtract_mean(word_vectors)[0]
        general = UnseenWordPredictor(self.vectors, corpus.words[:count], rows[:count], corpus.frequency[:count])
        further = np.array([self.vectors.index[word] for word in corpus.words[count:]], np.int64)
        if general.has_known_words:
            rows[count:][further >= 0] = general.predict(further[further >= 0])
        share = corpus.frequency / corpus.frequency.sum()
        return rows, (_SIF / (_SIF + share)).astype(np.float32)

    def _build_model(self, centre: Floats, rows: Floats, weights: Floats) -> StaticQueries:
        """Build a model from the word vectors of the corpus, and add the words that only the general table contains.

        Args:
            centre: The mean vector of texts with D dimensions, shape (D,). The model adds it to the vector of each
                query.
            rows: The vectors of the V words of the corpus, shape (V, D).
            weights: The weights of the V words, shape (V,).
        """
        general = UnseenWordPredictor(self.vectors, self.corpus.words, rows, self.corpus.frequency)
        info = {"source": self.vectors.info.get("source")}
        table = general.completed_table(self.corpus.words, rows, weights, info)
        return StaticQueries(quantize_table(table), self.teacher.name, self.field, centre)


class _TeacherGate:
    """A test of whether a model's query vectors improve the ranking of documents that the teacher has encoded.

    The test is :class:`resift_lab.training.gate.Gate`, applied to some of the documents.

    Args:
        texts: The texts of all N documents.
        held_out: The positions of the documents that were held out from training.
        documents: The teacher's vectors of all documents with D dimensions, shape (N, D), or None if they are not
            available.
        options: The settings of the training.

    Attributes:
        teacher_texts: The texts that the teacher has to encode for the test.
    """

    def __init__(
        self, texts: Sequence[str], held_out: NDArray[np.int64], documents: Floats | None, options: QueryOptions
    ) -> None:
        test_documents = held_out[:_GATE_TEST_DOCUMENTS]
        # Without vectors, the teacher has to encode the documents, so there are fewer.
        count = _GATE_DOCUMENTS if documents is not None else options.texts // 10
        background = np.setdiff1d(np.arange(len(texts)), test_documents)[:: max(1, len(texts) // count)]
        rows = np.concatenate([test_documents, background])
        # More queries make the result more precise, if the number of texts allows it.
        rounds = max(_GATE_ROUNDS, options.texts // 2000)
        self._gate = Gate([tokenize(texts[row]) for row in rows], range(len(test_documents)), options.seed, rounds)
        self._documents = None if documents is None else documents[rows]
        self.teacher_texts = list(self._gate.reduced_texts)
        if documents is None:
            self.teacher_texts += [texts[row] for row in rows]

    def choose_weight(self, model: StaticQueries, teacher: Teacher, steps: StepCounter) -> dict[str, Any]:
        """Choose the weight of the vector similarity relative to BM25, for searches with a model's query vectors.

        The weight is measured with queries that are drawn from test documents.

        Args:
            model: A model that was trained without the test documents.
            teacher: The model that encoded the documents.
            steps: A counter of the texts that the teacher encodes, which reports the progress.

        Returns:
            A dictionary with the weight ``alpha`` and ``why``, an explanation in English. The weight is 0 if the
            vectors do not improve the ranking of BM25, and at most ``model.alpha``. If there are too few test documents
            to measure the weight, it is ``model.alpha``.
        """
        if not self.teacher_texts:
            return {"alpha": model.alpha, "why": "no document has words enough to tell"}
        vectors, reduced = teacher.vectors(self.teacher_texts, steps.next_stage()), len(self._gate.reduced_texts)
        documents = vectors[reduced:] if self._documents is None else self._documents
        result = self._gate.judge(model, documents, vectors[:reduced])
        alpha = result.alpha if len(result.ndcg_with_vectors) >= MIN_TEST_DOCUMENTS else model.alpha
        return {"alpha": alpha, "why": result.explanation}


def _distinct_vectors(teacher: Teacher, texts: Sequence[str], steps: StepCounter) -> Floats:
    """Encode texts with the teacher, and check that different texts have different vectors.

    Args:
        teacher: The model that encodes the texts.
        texts: The n distinct texts.
        steps: A counter of the encoded texts, which reports the progress.

    Returns:
        Vectors of shape (n, D) for D dimensions.

    Raises:
        BadInput: If the vectors of different texts are nearly the same.
        TeacherUnavailable: If the teacher does not respond.
    """
    vectors = teacher.vectors(texts, steps.next_stage())
    if len(texts) > 1 and np.linalg.norm(vectors - vectors.mean(axis=0), axis=1).mean() < _MIN_DISTANCE:
        raise teacher.reject(f"the same vector for {len(texts)} different texts", "vectors that differ between texts")
    return vectors


def _subtract_mean(vectors: Floats) -> tuple[Floats, Floats]:
    """Subtract the mean vector from all vectors. Zero vectors are ignored and stay zero.

    Args:
        vectors: n vectors of D dimensions, shape (n, D). At least one of them is not zero.

    Returns:
        The centred vectors (n, D), and the mean of the vectors that are not zero (D,).
    """
    known: NDArray[np.bool_] = np.any(vectors, axis=1)
    mean: Floats = vectors[known].mean(axis=0)
    return np.where(known[:, None], vectors - mean, np.float32(0)), mean


def draw_passages(
    texts: Sequence[str], documents: NDArray[np.int64], count: int, rng: np.random.Generator
) -> list[Passage]:
    """Draw distinct passages of 2 to 40 consecutive words at random, from each document in turn.

    Args:
        texts: The texts of all documents.
        documents: The positions of the documents to draw from.
        count: The maximum number of passages.
        rng: The source of random numbers.
    """
    spans_of = {document: word_spans(texts[document]) for document in documents.tolist()}
    spans_of = {document: spans for document, spans in spans_of.items() if len(spans) >= _MIN_WORDS}
    passages: dict[str, Passage] = {}
    # The same passage may be drawn twice, so there are more turns than passages.
    turns = list(spans_of) * (-(-2 * count // max(len(spans_of), 1)))
    for document in turns:
        if len(passages) == count:
            break
        spans = spans_of[document]
        length = int(rng.integers(_MIN_WORDS, min(_MAX_WORDS, len(spans)) + 1))
        first = int(rng.integers(len(spans) - length + 1))
        text = texts[document][spans[first][0] : spans[first + length - 1][1]]
        passages.setdefault(text, Passage(text, document))
    return list(passages.values())


class _TrainingTexts:
    """The texts to train on: passages and documents as word counts, with the teacher's vectors as targets.

    The mean of the teacher's vectors is subtracted from the targets, separately for passages and documents.

    Args:
        corpus: The N documents.
        passages: The n passages.
        passage_vectors: The teacher's vectors of the passages, shape (n, D).
        documents: The teacher's vectors of the documents, shape (N, D), or None if they are not available. Without
            them, training uses only the passages.

    Attributes:
        centre: The mean of the passages' vectors, divided by the mean length of the centred vectors, shape (D,). See
            :class:`resift.encoders.queries.StaticQueries`.
    """

    def __init__(
        self, corpus: Documents, passages: Sequence[Passage], passage_vectors: Floats, documents: Floats | None
    ) -> None:
        from scipy.sparse import vstack

        ids = [[corpus.index[word] for word in tokenize(passage.text) if word in corpus.index] for passage in passages]
        self._counts: csr_matrix = word_counts([np.array(passage, np.int32) for passage in ids], len(corpus.words))
        centred, mean = _subtract_mean(passage_vectors)
        lengths = np.linalg.norm(centred, axis=1)
        self.centre = mean / lengths[lengths > 0].mean()
        self._targets = unit_rows(centred)
        self._document_of = np.array([passage.document for passage in passages])
        if documents is not None:
            self._counts = vstack([self._counts, corpus.counts]).tocsr()
            self._targets = np.concatenate([self._targets, unit_rows(_subtract_mean(documents)[0])])
            self._document_of = np.concatenate([self._document_of, np.arange(len(documents))])

    def fit(
        self, rows: Floats, weights: Floats, options: QueryOptions, held_out: NDArray[np.int64] | None = None
    ) -> tuple[Floats, Floats]:
        """Train word vectors and weights on all training texts, except texts from held-out documents.

        The training texts are documents and passages (short runs of words from documents).

        Args:
            rows: The initial vectors of V words with D dimensions, shape (V, D).
            weights: The initial word weights, shape (V,).
            options: The settings of the training.
            held_out: The positions of the held-out documents. None trains on all texts.

        Returns:
            The trained word vectors, shape (V, D), and weights, shape (V,).
        """
        chosen = np.flatnonzero(~np.isin(self._document_of, [] if held_out is None else held_out))
        fit_options = FitOptions(
            epochs=options.epochs_for(len(chosen)),
            batch=options.batch,
            rate=options.rate,
            weight_rate=options.weight_rate,
            seed=options.seed,
        )
        return fit_rows(self._counts[chosen], self._targets[chosen], rows, weights, fit_options)


def _select_texts(texts: Sequence[str], options: QueryOptions, rng: np.random.Generator) -> NDArray[np.int64]:
    """Select the texts with at least two words, or a random sample of these texts.

    Args:
        texts: The texts of all documents.
        options: The settings of the training. ``options.limit`` is the maximum size of the sample.
        rng: Random generator that draws the sample.

    Returns:
        The positions of the selected texts.

    Raises:
        BadInput: If too few texts have two words.
    """
    usable = np.array([row for row, text in enumerate(texts) if len(tokenize(text)) >= _MIN_WORDS], np.int64)
    if len(usable) < MIN_DOCUMENTS:
        message = f"{len(usable)} documents of {_MIN_WORDS} words or more are too few"
        raise BadInput(message, value=len(usable), expected=f"{MIN_DOCUMENTS} or more")
    if len(usable) <= options.limit:
        return usable
    return np.sort(rng.choice(usable, options.limit, replace=False))


def _checked_vectors(teacher: Teacher, texts: Sequence[str], documents: Floats, seed: int) -> Floats:
    """Check that the stored vectors of documents were computed by the teacher, and scale the vectors to unit length.

    The teacher encodes a sample of the documents again. For at least half of the sample, the most similar stored vector
    must be the vector of the same document.

    Args:
        teacher: The model that should have encoded the documents.
        texts: The texts of the N documents.
        documents: The stored vectors of the documents with D dimensions, shape (N, D).
        seed: The seed of the sample.

    Returns:
        The scaled vectors, shape (N, D).

    Raises:
        BadInput: If the vectors were not computed by the teacher.
    """
    sample = np.random.default_rng(seed).permutation(len(texts))[:_CHECKED]
    encoded, stored = teacher.vectors([texts[row] for row in sample]), unit_rows(documents[sample])
    if encoded.shape[1] != stored.shape[1]:
        problem = f"vectors of {encoded.shape[1]} dimensions, but the documents' vectors have {stored.shape[1]}"
        raise teacher.reject(problem, "the model that encoded the documents")
    matches = int((np.argmax(encoded @ stored.T, axis=1) == np.arange(len(sample))).sum())
    if 2 * matches < len(sample):
        problem = f"vectors that find only {matches} of {len(sample)} documents by the documents' own vectors"
        raise teacher.reject(problem, "the model that encoded the documents, and the same text fields")
    return unit_rows(documents)


def _held_out_count(documents: int, options: QueryOptions) -> int:
    """Return the number of documents that are held out from training, for evaluation.

    The number is limited so that at most a tenth of the texts that the teacher encodes are used for evaluation.

    Args:
        documents: Total number of documents.
        options: The settings of the training, with the share of documents to hold out.
    """
    return max(1, min(_MAX_HELD_OUT, round(options.held_out * documents), options.texts // 20))


def _held_out_queries(
    passages_of: Sequence[Sequence[Passage]], teacher: Teacher, documents: Floats | None, steps: StepCounter
) -> _HeldOutQueries:
    """Make evaluation queries from passages of held-out documents.

    If the vectors of the documents are available, each passage is a query for its document. Otherwise, the last passage
    of a document takes the place of the document, and the other passages are queries for the last passage.

    Args:
        passages_of: The passages of each held-out document, at least two for each document.
        teacher: The model that encoded the documents.
        documents: The teacher's vectors of all documents, or None if they are not available.
        steps: A counter of the texts that the teacher encodes, which reports the progress.

    Raises:
        BadInput: If there are no passages.
    """
    if not passages_of:
        message = "no held-out document has two different passages"
        raise BadInput(message, expected=f"documents of {_MIN_WORDS + 1} words or more")
    teacher_vectors = teacher.vectors([passages[0].text for passages in passages_of], steps.next_stage())
    if documents is not None:
        queries, candidates = passages_of, documents
        correct = np.array([passages[0].document for passages in passages_of])
    else:
        queries, correct = [passages[:-1] for passages in passages_of], np.arange(len(passages_of))
        candidates = teacher.vectors([passages[-1].text for passages in passages_of], steps.next_stage())
    texts = [[passage.text for passage in passages] for passages in queries]
    return _HeldOutQueries(queries=texts, teacher_vectors=teacher_vectors, candidates=candidates, correct=correct)


def _evaluate(held_out: _HeldOutQueries, untrained: Model, trained: Model, options: QueryOptions) -> dict[str, Any]:
    """Evaluate trained static queries: search for passages of held-out documents, and compare with untrained vectors.

    Args:
        held_out: The passages and their candidates.
        untrained: The model before training.
        trained: The model after training without the held-out documents.
        options: The settings of the training.

    Returns:
        A dictionary with these entries:

        - ``mrr_before``, ``mrr_after``, ``mrr_teacher``: the mean reciprocal rank of the correct candidate with the
          untrained model, the trained model, and the teacher's query vectors.
        - ``cosine``: the mean cosine of the model's and the teacher's query vectors, after the mean of the teacher's
          vectors was subtracted from both.
        - ``p``: the p-value of the difference between ``mrr_before`` and ``mrr_after``, from a two-sided paired
          randomisation test.
        - ``spread``: the standard deviation of a query's cosines with the candidates, see
          :func:`set_similarity_weights`.
        - ``worse``: whether training made the ranks significantly worse, so that the untrained word vectors should be
          used.
    """
    before, after = held_out.mean_reciprocal_ranks(untrained), held_out.mean_reciprocal_ranks(trained)
    teacher_vectors = held_out.teacher_vectors
    teacher_ranks = held_out.reciprocal_ranks(teacher_vectors)
    vectors = trained.encode([texts[0] for texts in held_out.queries])
    mean = teacher_vectors.mean(axis=0)
    p = paired_randomization(after, before, np.random.default_rng(options.seed))
    return {
        "mrr_before": float(before.mean()),
        "mrr_after": float(after.mean()),
        "mrr_teacher": float(teacher_ranks.mean()),
        "cosine": float((unit_rows(vectors - mean) * unit_rows(teacher_vectors - mean)).sum(axis=1).mean()),
        "spread": float((vectors @ held_out.candidates[:_COMPARED].T).std(axis=1).mean()),
        "worse": bool(after.mean() < before.mean() and p < SIGNIFICANT),
        "p": p,
    }


def set_similarity_weights(model: StaticQueries, spread: float) -> None:
    """Choose how much a model's cosine similarities count relative to BM25 scores in searches.

    If the cosines of a query with all documents are nearly equal (a small spread), even small differences matter. The
    similarities then get a larger weight alpha, from 0 to 1: alpha / (1 - alpha) is proportional to 1 / spread.

    Args:
        model: The model, whose weights ``alpha`` and ``max_alpha`` are changed.
        spread: The standard deviation of a query's cosines with documents.
    """
    scale = SPREAD / max(spread, _MIN_SPREAD)
    model.alpha = alpha_from_beta(scale * beta_from_alpha(QUERY_ALPHA))
    model.max_alpha = alpha_from_beta(scale * beta_from_alpha(QUERY_MAX_ALPHA))
