"""Word vectors and weights adapt to a user's own documents, without labels.

The recipe: rows start as the given word vectors beside the corpus' own latent semantic indexing, both centred
(:mod:`resift_lab.training.spectral`), weights as idf. Then contrastive training makes
two parts of one document more similar than parts of different documents, at a high temperature, which also draws
documents on one subject together. At the end rows are centred on the documents' mean and turned to their principal
axes, and the words that only the given table knows follow by a linear map. Constants were chosen on Cranfield, CISI and
a part of 20 Newsgroups' training set. Needs NumPy and SciPy alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.contracts.engine import Engine
from resift.encoders.builders import build_model
from resift.encoders.model import Model
from resift.encoders.tables import quantized
from resift.errors import BadInput, needs_extra
from resift.query.dsl import document_text
from resift.vectors.table import WordVectors
from resift.vectors.weights import ADAPTED_MAX_ALPHA
from resift_lab.training.contrastive import MIN_WORDS, fit
from resift_lab.training.documents import Documents, sample_words
from resift_lab.training.gate import ENOUGH, JUDGES, Gate
from resift_lab.training.options import MIN_DOCUMENTS, AdaptOptions
from resift_lab.training.progress import Progress, StepCounter
from resift_lab.training.spectral import on_document_axes, rows_from_corpus, rows_from_vectors, side_by_side
from resift_lab.training.unseen import LinearMap

_PAGE, _PAGES = 10_000, 5  # documents that a model is learned from, where not all of an index are read


def adapt(
    texts: Iterable[str],
    vectors: WordVectors,
    options: AdaptOptions | None = None,
    progress: Progress | None = None,
) -> Model:
    """A model of kind ``mean`` (or ``boew``, with ``codewords``) whose word table is adapted to ``texts``.

    Training runs twice: without the documents that are held back, to judge, and then on all of them. What was found is
    in ``model.table.info["adapted"]``: nDCG@10 of the gate's queries (:mod:`resift_lab.training.gate`) by the ``text``
    alone and with the ``untrained`` and ``adapted`` vectors, ``p`` of the last against the first, and ``better``,
    whether the adapted ones are to be served. ``model.alpha`` is the weight that the gate chose. ``progress`` is
    called with the numbers of steps done and of all. A seed gives the same model again on the same machine.

    Raises BadInput if a text is not a string, the documents are too few, or ``vectors`` knows none of their words, and
    MissingExtra without SciPy.
    """
    with needs_extra("lab", "Adapting word vectors"):
        import scipy.sparse  # noqa: F401
    options = options or AdaptOptions()
    documents = [words for words in sample_words(texts, options.limit, options.seed) if len(words) >= MIN_WORDS]
    if len(documents) < MIN_DOCUMENTS:
        raise BadInput(
            f"{len(documents)} documents of {MIN_WORDS} words or more",
            value=len(documents),
            expected=f"{MIN_DOCUMENTS} or more",
        )
    rng = np.random.default_rng(options.seed)
    held = _held_back(len(documents), options, rng)
    seen = [words for words, out in zip(documents, held, strict=True) if not out]
    steps = StepCounter(progress, options.steps(len(seen)) + options.steps(len(documents)))
    trial = _trained(seen, vectors, options, steps.stage())
    found = _judgement(trial, documents, held, vectors, options)
    model = _trained(documents, vectors, options, steps.stage())
    model.alpha = found["alpha"]
    model.table.info["adapted"] = {
        "documents": len(documents),
        "held_back": int(held.sum()),
        "words": model.table.info.pop("trained"),
        **found,
        "options": asdict(options),
    }
    return model


def _held_back(documents: int, options: AdaptOptions, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which documents judge, (N,)."""
    held = np.zeros(documents, bool)
    count = min(JUDGES, max(MIN_WORDS, round(options.held_back * documents)))
    held[rng.choice(documents, count, replace=False)] = True
    return held


def _judgement(
    trial: Model,
    documents: Sequence[Sequence[str]],
    held: NDArray[np.bool_],
    vectors: WordVectors,
    options: AdaptOptions,
) -> dict[str, Any]:
    """What the gate says of ``trial``, which has not seen the documents ``held`` back, and of the untrained."""
    name = "mean" if options.codewords is None else f"boew:{options.codewords}"
    gate = Gate(documents, np.flatnonzero(held).tolist(), options.seed)
    before, after = gate.judge(build_model(name, vectors, options.seed)), gate.judge(trial)
    return {
        "text": float(after.text.mean()),
        "untrained": float(before.values.mean()),
        "adapted": float(after.values.mean()),
        "alpha": after.alpha,
        "better": after.replaces(before),
        "p": after.p,
        "why": after.why,
    }


def reciprocal_ranks(similarity: Floats, own: NDArray[np.int64]) -> NDArray[np.float64]:
    """Of each query's ``own`` (q,) candidate among all, by the ``similarity`` (q, m) with them; (q,), ties half."""
    found = similarity[np.arange(len(own)), own][:, None]
    return np.asarray(1 / (1 + (similarity > found).sum(axis=1) + ((similarity == found).sum(axis=1) - 1) / 2))


def _trained(
    documents: Sequence[Sequence[str]], vectors: WordVectors, options: AdaptOptions, progress: Progress
) -> Model:
    """The result of one training run."""
    corpus = Documents(documents, options.min_count)
    given = rows_from_vectors(corpus, vectors, options.seed)
    own = rows_from_corpus(corpus, options.spectral, options.seed)
    rows, weights = fit(corpus, side_by_side(corpus, [given, own]), corpus.idf, options, progress)
    return export(corpus, rows, weights, vectors, options)


def export(corpus: Documents, rows: Floats, weights: Floats, vectors: WordVectors, options: AdaptOptions) -> Model:
    """The model to serve: the corpus' words, then those that only ``vectors`` knows, rows in int8.

    ``rows`` (V, D) and ``weights`` (V,) are trained.
    """
    adapted = on_document_axes(corpus, rows, weights, min(options.dim or vectors.dim, rows.shape[1]))
    general = LinearMap(vectors, corpus.words, adapted, corpus.frequency)
    info = {"source": vectors.info.get("source"), "trained": len(corpus.words)}
    table = general.extended(corpus.words, adapted, weights, info)
    if options.codewords is None:
        model = Model("mean", quantized(table), "mean", "cosine")
    else:
        model = build_model(f"boew:{options.codewords}", table, options.seed)
    model.max_alpha = ADAPTED_MAX_ALPHA
    return model


def adapted_lines(found: dict[str, Any], seconds: float) -> list[str]:
    """What was found with the documents that were held back."""
    figures = "".join(f"{found[key]:11.3f}" for key in ("text", "untrained", "adapted"))
    return [
        f"{found['documents']} documents, {found['words']} words, {seconds:.0f} s",
        f"{'':21}text alone  untrained    adapted   ({found['held_back']} documents held back; p {found['p']:.4f})",
        f"{'nDCG@10 as served':20}{figures}",
        f"weight of the adapted vectors (alpha): {found['alpha']:.2f}",
    ]


def refusal(found: dict[str, Any]) -> str:
    """Why adapted vectors are not taken."""
    few = f": {found['held_back']} documents are too few to tell" if found["held_back"] < ENOUGH else ""
    return f"warning: no better than the untrained vectors{few}"


def adapt_if_better(
    texts: Sequence[str], vectors: WordVectors, progress: Progress, remark: Callable[[str], None]
) -> Model | None:
    """A model adapted to ``texts``; None, with a remark, if it is no better than the untrained ``vectors``."""
    started = time.perf_counter()
    model = adapt(texts, vectors, AdaptOptions(), progress)
    found = model.table.info["adapted"]
    lines = adapted_lines(found, time.perf_counter() - started)
    if not found["better"]:
        lines.append(f"{refusal(found)}; these are used")
    remark("\n".join(lines))
    return model if found["better"] else None


def index_texts(engine: Engine, indices: Iterable[tuple[str, Sequence[str], int]]) -> list[str]:
    """The texts of indices, each by its name, its text fields and the number of its documents, that a model is learned
    from: all of small indices, some of each larger one, drawn by chance."""
    texts: list[str] = []
    for name, fields, documents in indices:
        if documents <= _PAGE * _PAGES:
            texts += [document_text(one.source, fields) for one in engine.scan(name, fields=fields)]
            continue
        for seed in range(_PAGES):
            score = {"random_score": {"seed": seed, "field": "_seq_no"}}
            body = {"query": {"function_score": score}, "size": _PAGE, "_source": list(fields)}
            hits = engine.search(name, {**body, "search_pipeline": "_none", "track_total_hits": False}).hits
            texts += [document_text(hit["_source"], fields) for hit in hits]
    return list(dict.fromkeys(texts))
