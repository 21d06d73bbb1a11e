"""Static queries: word rows whose weighted mean lies where a transformer, the teacher, puts a short text.

An index whose documents have a transformer's vectors needs the same transformer for each query. Here it is asked once
for words and some thousand parts of the documents, and a word table learns to do without it
(:class:`resift.encoders.queries.StaticQueries`): queries then cost a few lookups.

The recipe: rows start as the teacher's vectors of single words, centred on their mean, weights as a / (a + p), a = 1e-3
(SIF, Arora et al. 2017, eq. 2, p being a word's share of the corpus). The cosine between the weighted mean of a text's
rows and the teacher's vector of it, less the mean of all of these, is trained
(:func:`resift_lab.training.fitting.fit_rows`), on parts of 2 to 40 words and, where their vectors are given, on whole
documents. Without the subtraction most of a cosine is what the vectors have in common, and nothing is learned of what
tells them apart. Words that are the given table's alone follow by a linear map.
Needs NumPy and SciPy beside the teacher.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.encoders.queries import QUERY_ALPHA, QUERY_MAX_ALPHA, StaticQueries
from resift.encoders.tables import quantized
from resift.errors import BadInput, needs_extra
from resift.text import tokenize, word_spans
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift.vectors.weights import alpha_from_beta, beta_from_alpha
from resift_lab.evaluation.significance import paired_randomization
from resift_lab.training.documents import Documents, word_counts
from resift_lab.training.fitting import fit_rows
from resift_lab.training.gate import ENOUGH, SIGNIFICANT, Gate
from resift_lab.training.options import MIN_DOCUMENTS, QueryOptions
from resift_lab.training.progress import Progress, StepCounter
from resift_lab.training.self_supervised import reciprocal_ranks
from resift_lab.training.teachers import Teacher
from resift_lab.training.unseen import LinearMap

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

SPREAD = 0.1  # of cosines with parts of documents, for which QUERY_ALPHA and QUERY_MAX_ALPHA were chosen
_LEAST_SPREAD = 1e-3
_SIF = 1e-3
_FEWEST_WORDS, _MOST_WORDS = 2, 40
_SHARE_OF_WORDS, _MAX_JUDGES, _ROUNDS, _CHECKED, _COMPARED = 1 / 3, 1000, 6, 16, 2000
_GATE_JUDGES, _GATE_ROUNDS, _GATE_DOCUMENTS = 200, 2, 5000
_LEAST_DISTANCE = 1e-3  # of vectors of length 1 from their mean; 16-bit floats are less exact


@dataclass(frozen=True)
class Part:
    """A few consecutive words of a text, as they stand there; ``home`` is the text's position."""

    text: str
    home: int


@dataclass(frozen=True)
class _Judges:
    """Documents that are held back: ``queries``, parts of each, and which of the ``candidates`` (m, D) is ``own`` (n,).

    ``taught`` (n, D) are the teacher's vectors of the first part of each.
    """

    queries: list[list[str]]
    taught: Floats
    candidates: Floats
    own: NDArray[np.int64]

    def of_model(self, model: Model) -> Floats:
        """Mean reciprocal rank of each document's own candidate, (n,), by a model's vectors of the document's parts."""
        ranks = self.reciprocal_ranks(model.encode([text for texts in self.queries for text in texts]))
        starts = np.cumsum([0, *map(len, self.queries)])
        # a value a document, not one a part: that several of its parts find it is no further document
        return np.asarray(np.add.reduceat(ranks, starts[:-1]) / np.diff(starts), np.float32)

    def reciprocal_ranks(self, vectors: Floats) -> Floats:
        """Reciprocal rank of each one's own candidate among all, by vectors (n or, part by part, q, D); ties half."""
        own = self.own if len(vectors) == len(self.own) else np.repeat(self.own, [len(each) for each in self.queries])
        return np.asarray(reciprocal_ranks(vectors @ self.candidates.T, own), np.float32)


def train_queries(
    texts: Sequence[str],
    teacher: Teacher,
    vectors: WordVectors,
    options: QueryOptions | None = None,
    documents: Floats | None = None,
    field: str | None = None,
    progress: Progress | None = None,
) -> StaticQueries:
    """A model of queries for documents whose vectors ``teacher`` has made.

    ``texts`` are documents, and ``documents`` (N, D) their vectors, if they are at hand, as those in the ``field`` of
    an index are. ``vectors`` is a table of general word vectors. Training runs twice: without the documents that are
    held back, to judge, and then on all. ``model.table.info["taught"]`` is as :func:`_judgement` and :class:`_Gate`
    have it. ``progress`` is called with the numbers of texts done and of all. A seed gives the same model again on the
    same machine. Raises BadInput if the documents are too few or their vectors are not the teacher's, MissingExtra
    without SciPy, and what the teacher raises.
    """
    with needs_extra("lab", "Learning static queries"):
        import scipy.sparse  # noqa: F401
    options = options or QueryOptions()
    rng = np.random.default_rng(options.seed)
    chosen = _usable(texts, options, rng)
    texts = [texts[row] for row in chosen]
    documents = None if documents is None else _teachers_own(teacher, texts, documents[chosen], options.seed)
    corpus = Documents(map(tokenize, texts), options.min_count)
    held = rng.permutation(len(texts))[: _judge_count(len(texts), options)]
    words = corpus.words[: round(options.texts * _SHARE_OF_WORDS)]
    asking = [draw_parts(texts, held[[row]], _ROUNDS, rng) for row in range(len(held))]
    gate = _Gate(texts, held, documents, options)
    left = options.texts - len(words) - 2 * len(held) - len(gate.asked)
    parts = draw_parts(texts, np.arange(len(texts)), left, rng)
    steps = StepCounter(progress, len(words) + len(parts) + 2 * len(held) + len(gate.asked))
    start = _start(corpus, _told_apart(teacher, words, steps), vectors)
    judges = _judges([found for found in asking if len(found) > 1], teacher, documents, steps)
    lessons = _Lessons(corpus, parts, _told_apart(teacher, [one.text for one in parts], steps), documents)
    served = partial(_model, corpus, vectors, teacher.name, field, lessons.centre)
    trial = served(*lessons.learned(*start, options, held))
    found = _judgement(judges, served(*start), trial, options)
    if found["worse"]:
        trial = served(*start)
    weigh(trial, found["spread"])
    found |= gate.judge(trial, teacher, steps)
    model = trial if found["worse"] else served(*lessons.learned(*start, options))
    weigh(model, found["spread"])
    model.alpha = found["alpha"]
    counts = {"documents": len(texts), "texts": steps.done, "words": len(corpus.words), "held_back": len(judges.own)}
    model.table.info["taught"] = {**counts, **found, "options": asdict(options)}
    return model


class _Gate:
    """The gate, over documents held back and others; ``asked`` are the texts that it needs the teacher for."""

    def __init__(
        self, texts: Sequence[str], held: NDArray[np.int64], documents: Floats | None, options: QueryOptions
    ) -> None:
        held = held[:_GATE_JUDGES]
        count = _GATE_DOCUMENTS if documents is not None else options.texts // 10  # which the teacher has to encode
        others = np.setdiff1d(np.arange(len(texts)), held)[:: max(1, len(texts) // count)]
        rows = np.concatenate([held, others])
        rounds = max(_GATE_ROUNDS, options.texts // 2000)  # where there are texts to spare, it tells more apart
        self._gate = Gate([tokenize(texts[row]) for row in rows], range(len(held)), options.seed, rounds)
        self._documents = None if documents is None else documents[rows]
        self.asked = [*self._gate.rests, *(() if documents is not None else (texts[row] for row in rows))]

    def judge(self, model: StaticQueries, teacher: Teacher, steps: StepCounter) -> dict[str, Any]:
        """``alpha``, the weight of a model that has not seen the documents held back, at most its own and 0 where a
        search is no better than by the text alone, and ``why``."""
        if not self.asked:  # documents of too few words to ask for
            return {"alpha": model.alpha, "why": "no document has words enough to tell"}
        taught, rests = teacher.vectors(self.asked, steps.stage()), len(self._gate.rests)
        documents = taught[rests:] if self._documents is None else self._documents
        verdict = self._gate.judge(model, documents, taught[:rests])
        return {"alpha": verdict.alpha if len(verdict.values) >= ENOUGH else model.alpha, "why": verdict.why}


def _taught(teacher: Teacher, parts: Sequence[Part], steps: StepCounter) -> Floats:
    return teacher.vectors([one.text for one in parts], steps.stage())


def _told_apart(teacher: Teacher, texts: Sequence[str], steps: StepCounter) -> Floats:
    """The teacher's vectors of different texts, (n, D). Raises BadInput if they are one and the same."""
    vectors = teacher.vectors(texts, steps.stage())
    if len(texts) > 1 and np.linalg.norm(vectors - vectors.mean(axis=0), axis=1).mean() < _LEAST_DISTANCE:
        raise teacher.refused(f"{len(texts)} texts one and the same vector", "vectors that differ between texts")
    return vectors


def _off_mean(vectors: Floats) -> tuple[Floats, Floats]:
    """Vectors (n, D) less their mean (D,), and it; a zero is no vector, is not counted and stays zero."""
    known: NDArray[np.bool_] = np.any(vectors, axis=1)
    mean: Floats = vectors[known].mean(axis=0)
    return np.where(known[:, None], vectors - mean, np.float32(0)), mean


def draw_parts(texts: Sequence[str], homes: NDArray[np.int64], count: int, rng: np.random.Generator) -> list[Part]:
    """At most ``count`` different parts of 2 to 40 words, in turn from the texts at ``homes``."""
    places = {home: found for home in homes.tolist() if len(found := word_spans(texts[home])) >= _FEWEST_WORDS}
    parts: dict[str, Part] = {}
    turns = list(places) * (-(-2 * count // max(len(places), 1)))  # the same part may be drawn twice
    for home in turns:
        if len(parts) == count:
            break
        words = places[home]
        length = int(rng.integers(_FEWEST_WORDS, min(_MOST_WORDS, len(words)) + 1))
        first = int(rng.integers(len(words) - length + 1))
        part = texts[home][words[first][0] : words[first + length - 1][1]]
        parts.setdefault(part, Part(part, home))
    return list(parts.values())


class _Lessons:
    """Texts as counts of the corpus' words, and the teacher's vectors of them, less the mean.

    Parts and documents have a mean each. ``centre`` (D,) is the parts' over the mean length of what is left
    (:class:`StaticQueries`).
    """

    def __init__(self, corpus: Documents, parts: Sequence[Part], targets: Floats, documents: Floats | None) -> None:
        from scipy.sparse import vstack

        ids = [[corpus.index[word] for word in tokenize(one.text) if word in corpus.index] for one in parts]
        self._counts: csr_matrix = word_counts([np.array(each, np.int32) for each in ids], len(corpus.words))
        told, mean = _off_mean(targets)
        lengths = np.linalg.norm(told, axis=1)
        self.centre = mean / lengths[lengths > 0].mean()
        self._targets, self._homes = unit_rows(told), np.array([one.home for one in parts])
        if documents is not None:
            self._counts = vstack([self._counts, corpus.counts]).tocsr()
            self._targets = np.concatenate([self._targets, unit_rows(_off_mean(documents)[0])])
            self._homes = np.concatenate([self._homes, np.arange(len(documents))])

    def learned(
        self, rows: Floats, weights: Floats, options: QueryOptions, held: NDArray[np.int64] | None = None
    ) -> tuple[Floats, Floats]:
        """Rows and weights trained on all texts but those of the documents that are ``held`` back."""
        chosen = np.flatnonzero(~np.isin(self._homes, [] if held is None else held))
        return fit_rows(
            self._counts[chosen],
            self._targets[chosen],
            rows,
            weights,
            epochs=options.epochs_for(len(chosen)),
            batch=options.batch,
            rate=options.rate,
            weight_rate=options.weight_rate,
            seed=options.seed,
        )


def _usable(texts: Sequence[str], options: QueryOptions, rng: np.random.Generator) -> NDArray[np.int64]:
    """Positions of at most ``limit`` texts that hold words."""
    usable = np.array([row for row, text in enumerate(texts) if len(tokenize(text)) >= _FEWEST_WORDS], np.int64)
    if len(usable) < MIN_DOCUMENTS:
        message = f"{len(usable)} documents of {_FEWEST_WORDS} words or more"
        raise BadInput(message, value=len(usable), expected=f"{MIN_DOCUMENTS} or more")
    if len(usable) <= options.limit:
        return usable
    return np.sort(rng.choice(usable, options.limit, replace=False))


def _teachers_own(teacher: Teacher, texts: Sequence[str], documents: Floats, seed: int) -> Floats:
    """The documents' vectors (N, D) at length 1. Raises BadInput unless the teacher finds most of some by them."""
    tried = np.random.default_rng(seed).permutation(len(texts))[:_CHECKED]
    encoded, held = teacher.vectors([texts[row] for row in tried]), unit_rows(documents[tried])
    if encoded.shape[1] != held.shape[1]:
        given = f"vectors of {encoded.shape[1]} dimensions, the documents have {held.shape[1]}"
        raise teacher.refused(given, "the model that made the documents' vectors")
    found = int((np.argmax(encoded @ held.T, axis=1) == np.arange(len(tried))).sum())
    if 2 * found < len(tried):
        given = f"vectors that find {found} of {len(tried)} documents by theirs"
        raise teacher.refused(given, "the model that made the documents' vectors, and the text fields it had")
    return unit_rows(documents)


def _judge_count(documents: int, options: QueryOptions) -> int:
    """How many documents are held back; at most a tenth of the texts are theirs."""
    return max(1, min(_MAX_JUDGES, round(options.held_back * documents), options.texts // 20))


def _judges(
    asking: Sequence[Sequence[Part]], teacher: Teacher, documents: Floats | None, steps: StepCounter
) -> _Judges:
    """Judges from parts of documents: all of them ask for their document; where this has no vector, for the last."""
    if not asking:
        message = "no document that is held back to judge has two different parts"
        raise BadInput(message, expected=f"documents of {_FEWEST_WORDS + 1} words or more")
    taught = _taught(teacher, [parts[0] for parts in asking], steps)
    if documents is not None:
        queries, candidates, own = asking, documents, np.array([parts[0].home for parts in asking])
    else:
        queries, own = [parts[:-1] for parts in asking], np.arange(len(asking))
        candidates = _taught(teacher, [parts[-1] for parts in asking], steps)
    return _Judges([[one.text for one in parts] for parts in queries], taught, candidates, own)


def _start(corpus: Documents, taught: Floats, vectors: WordVectors) -> tuple[Floats, Floats]:
    """Rows (V, D) and weights (V,) before training; ``taught`` (W, D) are the teacher's of the first W words."""
    rows = np.zeros((len(corpus.words), taught.shape[1]), np.float32)
    rows[: len(taught)] = _off_mean(taught)[0]
    general = LinearMap(vectors, corpus.words[: len(taught)], rows[: len(taught)], corpus.frequency[: len(taught)])
    further = np.array([vectors.index[word] for word in corpus.words[len(taught) :]], np.int64)
    if general.is_known:
        rows[len(taught) :][further >= 0] = general.rows(further[further >= 0])
    share = corpus.frequency / corpus.frequency.sum()
    return rows, (_SIF / (_SIF + share)).astype(np.float32)


def _model(
    corpus: Documents,
    vectors: WordVectors,
    teacher: str,
    field: str | None,
    centre: Floats,
    rows: Floats,
    weights: Floats,
) -> StaticQueries:
    general = LinearMap(vectors, corpus.words, rows, corpus.frequency)
    table = general.extended(corpus.words, rows, weights, {"source": vectors.info.get("source")})
    return StaticQueries(quantized(table), teacher, field, centre)


def _judgement(judges: _Judges, start: Model, trial: Model, options: QueryOptions) -> dict[str, Any]:
    """What the judges say of the models before and after training, and of the teacher.

    How well parts of a held-back document find it among the others (without documents' vectors: another part of it), as
    a mean reciprocal rank before training (``mrr_before``), after it and by the teacher's own queries
    (``mrr_teacher``); the mean ``cosine`` with these less their mean; how probable the difference is by chance (``p``,
    two-sided, a paired randomisation test); and the standard deviation of a part's cosines with all others
    (``spread``), by which the model is weighed against BM25. Where training made it ``worse`` (p < .05) the rows stay
    as they were before.
    """
    before, after = judges.of_model(start), judges.of_model(trial)
    teacher, first = judges.reciprocal_ranks(judges.taught), trial.encode([parts[0] for parts in judges.queries])
    mean = judges.taught.mean(axis=0)
    p = paired_randomization(after, before, np.random.default_rng(options.seed))
    return {
        "mrr_before": float(before.mean()),
        "mrr_after": float(after.mean()),
        "mrr_teacher": float(teacher.mean()),
        "cosine": float((unit_rows(first - mean) * unit_rows(judges.taught - mean)).sum(axis=1).mean()),
        "spread": float((first @ judges.candidates[:_COMPARED].T).std(axis=1).mean()),
        "worse": bool(after.mean() < before.mean() and p < SIGNIFICANT),
        "p": p,
    }


def weigh(model: StaticQueries, spread: float) -> None:
    """Set the weights against BM25 for a teacher whose cosines have this standard deviation.

    The less they differ, the more each difference counts: alpha / (1 - alpha) grows as they narrow.
    """
    scale = SPREAD / max(spread, _LEAST_SPREAD)
    model.alpha, model.max_alpha = (
        alpha_from_beta(scale * beta_from_alpha(each)) for each in (QUERY_ALPHA, QUERY_MAX_ALPHA)
    )
