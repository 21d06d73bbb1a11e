"""Adaptation of word vectors and weights to a user's documents, without labels.

1. Initial word vectors are the original word vectors, concatenated with vectors from latent semantic indexing of the
   documents (:mod:`resift_lab.training.spectral`). Initial weights are inverse document frequencies.
2. Contrastive training makes two parts of the same document more similar than parts of different documents
   (:mod:`resift_lab.training.contrastive`). Its high temperature also moves documents on the same subject closer to
   each other.
3. The word vectors are centred on the mean of the documents and projected onto the documents' principal axes.
4. A linear map computes the vectors of the words that occur only in the original table
   (:mod:`resift_lab.training.unseen`).

The constants were chosen on Cranfield, CISI and a part of the training set of 20 Newsgroups. Needs only NumPy and
SciPy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.contracts.engine import Engine
from resift.encoders.builders import build_model
from resift.encoders.model import Layers, Model
from resift.encoders.tables import quantize_table
from resift.errors import BadInput, needs_extra
from resift.query.dsl import document_text
from resift.vectors.table import WordVectors
from resift.vectors.weights import ADAPTED_MAX_ALPHA
from resift_lab.training.contrastive import MIN_WORDS, fit_contrastive
from resift_lab.training.documents import Documents, sample_words
from resift_lab.training.gate import MAX_TEST_DOCUMENTS, MIN_TEST_DOCUMENTS, Gate, GateResult
from resift_lab.training.options import MIN_DOCUMENTS, AdaptOptions
from resift_lab.training.progress import Progress, StepCounter
from resift_lab.training.spectral import (
    concatenate_sources,
    initial_vectors,
    look_up_vectors,
    lsi_vectors,
    project_on_document_axes,
)
from resift_lab.training.unseen import UnseenWordPredictor

# Sampling of a large index: random documents per search, and the number of searches.
_PAGE = 10_000
_PAGES = 5


def require_packages() -> None:
    """Check that SciPy is installed, which adapting word vectors requires.

    Raises:
        MissingExtra: If SciPy is not installed.
    """
    with needs_extra("adapt", "Adapting word vectors"):
        import scipy.sparse  # noqa: F401


def adapt(
    texts: Iterable[str],
    vectors: WordVectors,
    options: AdaptOptions | None = None,
    progress: Progress | None = None,
    small_dim: int | None = None,
) -> Model:
    """Adapt a table of word vectors to documents.

    Training runs twice: first without some documents, on which the adaptation is then evaluated
    (:mod:`resift_lab.training.gate`), and then on all documents. The same seed gives the same model on the same
    machine.

    Args:
        texts: The texts of the documents.
        vectors: The word vectors to adapt.
        options: The settings of the adaptation.
        progress: A function that is called with the number of finished steps and the total number.
        small_dim: A smaller number of dimensions. The model gets this number of dimensions if vectors of this size rank
            the held-out documents equally well. None always uses ``options.dim``.

    Returns:
        A model of the kind ``mean``, or ``boew`` if ``options.codewords`` is set. ``model.alpha`` is the weight against
        BM25 that the evaluation has chosen. ``model.table.info["adapted"]`` contains the evaluation:

        - ``text``, ``untrained``, ``adapted``: nDCG@10 by BM25 alone, and by BM25 with the untrained and with the
          adapted vectors.
        - ``p``: the p-value of the difference between ``adapted`` and ``text``.
        - ``better``: whether the adapted vectors should be used.

    Raises:
        BadInput: If a text is not a string, there are too few documents, or ``vectors`` contains none of their words.
        MissingExtra: If SciPy is not installed.
    """
    require_packages()
    options = options or AdaptOptions()
    documents = [words for words in sample_words(texts, options.limit, options.seed) if len(words) >= MIN_WORDS]
    if len(documents) < MIN_DOCUMENTS:
        raise BadInput(
            f"{len(documents)} documents of {MIN_WORDS} words or more are too few",
            value=len(documents),
            expected=f"{MIN_DOCUMENTS} or more",
        )
    rng = np.random.default_rng(options.seed)
    held_out = _hold_out(len(documents), options, rng)
    training_documents = [words for words, excluded in zip(documents, held_out, strict=True) if not excluded]
    steps = StepCounter(progress, options.steps(len(training_documents)) + options.steps(len(documents)))
    trial = _train_model(training_documents, vectors, options, steps.next_stage())
    gate = Gate(documents, np.flatnonzero(held_out).tolist(), options.seed)
    name = "mean" if options.codewords is None else f"boew:{options.codewords}"
    before, result = gate.judge(build_model(name, vectors, options.seed)), gate.judge(trial)
    if small_dim is not None and small_dim < trial.dim:
        small_result = gate.judge(truncated_model(trial, small_dim))
        if small_result.is_no_worse_than(result):
            result, options = small_result, replace(options, dim=small_dim)
    evaluation = _comparison(before, result)
    model = _train_model(documents, vectors, options, steps.next_stage())
    model.alpha = evaluation["alpha"]
    model.table.info["adapted"] = {
        "documents": len(documents),
        "held_out": int(held_out.sum()),
        "words": model.table.info.pop("trained"),
        **evaluation,
        "options": asdict(options),
    }
    return model


def _hold_out(documents: int, options: AdaptOptions, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Choose random documents to hold out for evaluation. The model that is evaluated is trained without them.

    Args:
        documents: The number N of documents.
        options: The settings of the adaptation.
        rng: The source of random numbers.

    Returns:
        A Boolean array of shape (N,), True for the held-out documents.
    """
    held_out = np.zeros(documents, bool)
    count = min(MAX_TEST_DOCUMENTS, max(MIN_WORDS, round(options.held_out * documents)))
    held_out[rng.choice(documents, count, replace=False)] = True
    return held_out


def truncated_model(model: Model, dim: int) -> Model:
    """Return a copy of a ``mean`` model with fewer dimensions.

    The vectors of a model may consist of blocks, such as adapted and original word vectors. The copy has the first
    dimensions of each block, in which the documents vary most.

    Args:
        model: A model with adapted word vectors (see :func:`resift_lab.training.spectral.project_on_document_axes`).
        dim: The total number of dimensions of the copy, which is divided equally among the blocks.
    """
    table, blocks = model.table, model.blocks
    rows = table.rows().reshape(len(table.words), blocks, -1)[:, :, : dim // blocks].reshape(len(table.words), -1)
    return Model("mean", WordVectors(table.words, rows, table.weights), "mean", "cosine", layers=Layers(blocks=blocks))


def _comparison(before: GateResult, after: GateResult) -> dict[str, Any]:
    """Compare searches with adapted word vectors to searches with the original vectors, and to BM25 alone.

    Args:
        before: The result of :class:`Gate` for the original vectors.
        after: The result for a model that was trained without the held-out documents.

    Returns:
        A dictionary with nDCG@10 by BM25 alone (``text``), with the original vectors (``untrained``) and with the
        adapted vectors (``adapted``), the best weight of the adapted vectors (``alpha``), whether they should be used
        (``better``), the p-value of their improvement over BM25 (``p``), and an explanation (``why``).
    """
    return {
        "text": float(after.ndcg_bm25.mean()),
        "untrained": float(before.ndcg_with_vectors.mean()),
        "adapted": float(after.ndcg_with_vectors.mean()),
        "alpha": after.alpha,
        "better": after.should_replace(before),
        "p": after.p,
        "why": after.explanation,
    }


def reciprocal_ranks(similarity: Floats, correct: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the reciprocal rank of each query's correct candidate, when the candidates are sorted by similarity.

    Another candidate with the same similarity adds 0.5 to the rank.

    Args:
        similarity: The similarities of q queries to m candidates, shape (q, m).
        correct: The position of each query's correct candidate, shape (q,).

    Returns:
        Values from 0 to 1, shape (q,).
    """
    correct_similarity = similarity[np.arange(len(correct)), correct][:, None]
    higher = (similarity > correct_similarity).sum(axis=1)
    equal = (similarity == correct_similarity).sum(axis=1) - 1
    return np.asarray(1 / (1 + higher + equal / 2))


def _train_model(
    documents: Sequence[Sequence[str]], vectors: WordVectors, options: AdaptOptions, progress: Progress
) -> Model:
    """Train word vectors on documents, and build a model from them.

    Args:
        documents: The words of each document.
        vectors: The word vectors to start from.
        options: The settings of the adaptation.
        progress: A function that is called with the number of finished steps and the total number.
    """
    build = build_mixed_model if options.mixed else build_adapted_model
    corpus = Documents(documents, options.min_count)
    return build(corpus, *train_word_vectors(corpus, vectors, options, progress), vectors, options)


def train_word_vectors(
    corpus: Documents, vectors: WordVectors, options: AdaptOptions, progress: Progress | None = None
) -> tuple[Floats, Floats]:
    """Train word vectors and weights on documents, from word vectors and latent semantic indexing.

    Args:
        corpus: The documents, with a vocabulary of V words.
        vectors: The word vectors to start from.
        options: The settings of the adaptation.
        progress: A function that is called with the number of finished steps and the total number.

    Returns:
        The trained vectors of D dimensions, shape (V, D), and the trained weights, shape (V,).
    """
    original = initial_vectors(corpus, vectors, options.seed)
    spectral = lsi_vectors(corpus, options.spectral, options.seed)
    return fit_contrastive(corpus, concatenate_sources(corpus, [original, spectral]), corpus.idf, options, progress)


def build_adapted_model(
    corpus: Documents, rows: Floats, weights: Floats, vectors: WordVectors, options: AdaptOptions
) -> Model:
    """Build a model from word vectors that were trained on documents.

    The model contains the words of the corpus, followed by the other words of ``vectors``. It averages word vectors,
    which are compressed to int8. If ``options.codewords`` is set, it is a bag of embedded words (BoEW) instead.

    Args:
        corpus: The documents, with a vocabulary of V words.
        rows: The trained vectors of V words with D dimensions, shape (V, D).
        weights: The trained word weights, shape (V,).
        vectors: The original word vectors.
        options: The settings of the adaptation.
    """
    table = _adapted_table(corpus, rows, weights, vectors, min(options.dim or vectors.dim, rows.shape[1]))
    if options.codewords is None:
        model = Model("mean", quantize_table(table), "mean", "cosine")
    else:
        model = build_model(f"boew:{options.codewords}", table, options.seed)
    model.max_alpha = ADAPTED_MAX_ALPHA
    return model


def build_mixed_model(
    corpus: Documents, rows: Floats, weights: Floats, vectors: WordVectors, options: AdaptOptions
) -> Model:
    """Build a model that combines word vectors that were trained on documents with the original word vectors.

    The vector of a text has two blocks of the same length. The first block is the mean of the trained vectors. The
    second block is the mean of the original vectors with their original weights, minus the mean vector of the
    documents. Both are projected onto the principal axes of the documents. The cosine of two texts is the mean of the
    cosines by either kind of vectors. The arguments are those of :func:`build_adapted_model`.
    """
    dim = min(max(1, (options.dim or vectors.dim) // 2), rows.shape[1], vectors.dim)
    table = _adapted_table(corpus, rows, weights, vectors, dim)
    original, original_weights = look_up_vectors(corpus, table.words, vectors, options.seed)
    known, further_rows = np.split(original, [len(corpus.words)])
    projected = project_on_document_axes(corpus, known, original_weights[: len(known)], dim, further_rows)
    # A word has a single weight in a table, so the rows contain the quotient of both weights.
    projected *= (original_weights / table.weights)[:, None]
    adapted = table.rows()
    # Blocks are scaled to the same length, so this factor only makes their rounding errors in int8 similar.
    projected *= np.linalg.norm(adapted, axis=1).mean() / max(float(np.linalg.norm(projected, axis=1).mean()), 1e-9)
    mixture = WordVectors(table.words, np.hstack([adapted, projected]), table.weights, info=table.info)
    model = Model("mean", quantize_table(mixture), "mean", "cosine", layers=Layers(blocks=2))
    model.max_alpha = ADAPTED_MAX_ALPHA
    return model


def _adapted_table(corpus: Documents, rows: Floats, weights: Floats, vectors: WordVectors, dim: int) -> WordVectors:
    """Project trained word vectors onto the principal axes of the documents, and add the other words of a table.

    Args:
        corpus: The documents, with a vocabulary of V words.
        rows: The trained vectors of V words with D dimensions, shape (V, D).
        weights: The trained word weights, shape (V,).
        vectors: The original word vectors.
        dim: The number of dimensions of the projected vectors.
    """
    adapted = project_on_document_axes(corpus, rows, weights, dim)
    general = UnseenWordPredictor(vectors, corpus.words, adapted, corpus.frequency)
    info = {"source": vectors.info.get("source"), "trained": len(corpus.words)}
    return general.completed_table(corpus.words, adapted, weights, info)


def report_lines(evaluation: dict[str, Any], seconds: float) -> list[str]:
    """Describe the evaluation of adapted word vectors in lines of text.

    Args:
        evaluation: The evaluation that training has stored in the model, as ``model.table.info["adapted"]``.
        seconds: The duration of the training.
    """
    values = "".join(f"{evaluation[key]:11.3f}" for key in ("text", "untrained", "adapted"))
    held_out, p = evaluation["held_out"], evaluation["p"]
    return [
        f"{evaluation['documents']} documents, {evaluation['words']} words, {seconds:.0f} s",
        f"{'':21}text alone  untrained    adapted   ({held_out} documents held out; p {p:.4f})",
        f"{'nDCG@10 as served':20}{values}",
        f"weight of the adapted vectors (alpha): {evaluation['alpha']:.2f}",
    ]


def rejection_warning(evaluation: dict[str, Any]) -> str:
    """Return a warning that explains why adapted word vectors are not used.

    Args:
        evaluation: The evaluation that training has stored in the model, as ``model.table.info["adapted"]``.
    """
    warning = "warning: no better than the untrained vectors"
    if evaluation["held_out"] < MIN_TEST_DOCUMENTS:
        warning += f": {evaluation['held_out']} documents are too few to tell"
    return warning


def adapt_if_better(
    texts: Sequence[str],
    vectors: WordVectors,
    progress: Progress,
    remark: Callable[[str], None],
    small_dim: int | None = None,
) -> Model | None:
    """Adapt word vectors to documents, and return the model only if it ranks them better than the original vectors.

    Half of the model's dimensions contain the original word vectors (see :func:`build_mixed_model`), because adapted
    vectors that pass the test can rank real queries worse than the original vectors.

    Args:
        texts: The texts of the documents.
        vectors: The word vectors to adapt.
        progress: A function that is called with the number of finished steps and the total number.
        remark: A function that is called once with a description of the evaluation in English, for example to print it.
        small_dim: A smaller number of dimensions, which the model gets if such vectors rank the held-out documents
            equally well. None does not try a smaller number.

    Returns:
        The model with adapted vectors, or None if the original vectors are at least as good.
    """
    started = time.perf_counter()
    model = adapt(texts, vectors, AdaptOptions(mixed=True), progress, small_dim)
    evaluation = model.table.info["adapted"]
    lines = report_lines(evaluation, time.perf_counter() - started)
    if small_dim is not None:
        lines.append(f"dimensions: {model.dim}")
    if not evaluation["better"]:
        lines.append(f"{rejection_warning(evaluation)}; the untrained vectors are used")
    remark("\n".join(lines))
    return model if evaluation["better"] else None


def index_texts(engine: Engine, indices: Iterable[tuple[str, Sequence[str], int]]) -> list[str]:
    """Read the texts of indices, to train on them.

    If an index has more than 50,000 documents, a random sample is read.

    Args:
        engine: The search engine.
        indices: A tuple for each index: its name, its text fields and its number of documents.

    Returns:
        The distinct texts.
    """
    texts: list[str] = []
    for name, fields, documents in indices:
        if documents <= _PAGE * _PAGES:
            texts += [document_text(document.source, fields) for document in engine.scan(name, fields=fields)]
            continue
        for seed in range(_PAGES):
            score = {"random_score": {"seed": seed, "field": "_seq_no"}}
            body = {"query": {"function_score": score}, "size": _PAGE, "_source": list(fields)}
            hits = engine.search(name, {**body, "search_pipeline": "_none", "track_total_hits": False}).hits
            texts += [document_text(hit["_source"], fields) for hit in hits]
    return list(dict.fromkeys(texts))
