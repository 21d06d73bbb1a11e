"""Systems to evaluate, by name: our encoders, and the baselines that they are measured against.

====================  ==============================================================================================
``tfidf[:LEAST]``     tf · (log((1 + N) / (1 + df)) + 1), cosine; of terms in LEAST documents or more
``tfidf-stop[:L]``    the same without English stop words
``bm25``              BM25 (k1 1.2, b .75), stop words removed, Porter stems
``lsi:K[,LEAST]``     the K largest singular vectors of ``tfidf-stop`` (Deerwester et al. 1990)
``pv-dbow:K``         paragraph vectors, distributed bag of words (Le and Mikolov 2014; gensim)
``mean-plain``        unweighted mean of the words' vectors
``dynamax``           the words of both sentences as universe (Zhelezniak et al. 2019); sentence pairs only
``sif``               SIF-weighted mean, first singular vector of the documents removed (Arora et al. 2017)
``model2vec``         mean of the words' vectors times log(rank + 2), length 1 (model2vec's way of pooling)
``adapted``           the vectors' weighted mean, adapted to the documents without labels (``resift train self``)
``late``              words against words (:mod:`resift.ranking.late_interaction`), untrained, idf of the documents
``st:FOLDER``         a sentence-transformers model (extra ``distill``)
a model's folder      what ``resift model`` or ``resift train`` saved
anything else         an untrained model, as :func:`resift.encoders.registry.build_model` names them
====================  ==============================================================================================

What has to be learnt is learnt from the documents (the database), never from the queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.corpus import DocumentFrequencies
from resift.encoders.model import Model
from resift.encoders.registry import build_model, load_model
from resift.errors import BadInput
from resift.evaluation.baselines.lexical import Lexical, Lsi, TfIdf
from resift.evaluation.baselines.paragraphs import Paragraphs
from resift.evaluation.baselines.sif import Sif, _reweighted
from resift.evaluation.baselines.terms import without_stop_words
from resift.evaluation.pairwise import Matrix
from resift.ranking.late_interaction import ALPHA, FILE, SPELLING, CollectionScorer, LateInteraction, untrained
from resift.text import tokenize
from resift.vectors.mixture import mix_vectors
from resift.vectors.packaged import DEFAULT, load_vectors
from resift.vectors.similarity import SIMILARITIES, dynamax, unit_rows
from resift.vectors.table import WordVectors, weights_by_rank

BASELINES = (
    "tfidf[:LEAST]",
    "tfidf-stop[:LEAST]",
    "bm25",
    "lsi:K[,LEAST]",
    "pv-dbow:K",
    "mean-plain",
    "dynamax",
    "sif",
    "model2vec",
    "adapted",
    "late",
    "st:FOLDER",
)
_SCORED_WHOLE, _CANDIDATES = 20_000, 1000


class System(Protocol):
    """Turns texts into rows that ``similarity``, a name or a function of two sets of rows, compares."""

    similarity: Any

    def fit(self, documents: Sequence[str]) -> Matrix:
        """Learn what has to be learnt from the documents; their rows, (N, K)."""

    def queries(self, texts: Sequence[str]) -> Matrix:
        """Rows of other texts, (n, K), after ``fit``."""


class Encoder:
    """A Model, or anything else that encodes each text by itself."""

    def __init__(
        self,
        encode: Callable[[Sequence[str]], Floats],
        similarity: str = "cosine",
        table: WordVectors | None = None,
        max_alpha: float = 0.6,
    ) -> None:
        self.queries, self.similarity, self.table, self.max_alpha = encode, similarity, table, max_alpha

    def fit(self, documents: Sequence[str]) -> Floats:
        """Nothing is learnt."""
        return self.queries(documents)


class Adapted:
    """Word vectors adapted to the documents, or as they were where that gains nothing; ``note`` then says why."""

    similarity = "cosine"

    def __init__(self, vectors: WordVectors, seed: int) -> None:
        self.seed, self.note = seed, ""
        self._model = build_model("mean", vectors)

    @property
    def table(self) -> WordVectors:
        """The word table, adapted after ``fit``."""
        return self._model.table

    @property
    def max_alpha(self) -> float:
        """The model's, see :attr:`resift.encoders.model.Model.max_alpha`."""
        return self._model.max_alpha

    def fit(self, documents: Sequence[str]) -> Floats:
        """Adapt, where there are documents enough."""
        from resift.training.self_supervised import AdaptOptions, adapt

        try:
            found = adapt(documents, self.table, AdaptOptions(seed=self.seed))
        except BadInput as error:
            self.note = error.message
        else:
            if found.table.info["adapted"]["better"]:
                self._model = found
            else:
                self.note = "adapting made nothing better"
        return self.queries(documents)

    def queries(self, texts: Sequence[str]) -> Floats:
        """Encoded."""
        return self._model.encode(texts)


class Late:
    """Late interaction: a text's row is its place, and places are compared by a reranker's scores.

    ``model`` None: an untrained one, over ``vectors`` and the documents' idf. Above 20,000 documents only BM25's best
    1,000 are scored, the others have 0.
    """

    def __init__(self, model: LateInteraction | None, vectors: str | Path = DEFAULT) -> None:
        self.model, self.vectors = model, vectors
        self.similarity: Any = self._compare

    @property
    def seen(self) -> Sequence[str]:
        """Fingerprints of the queries that the reranker was trained on."""
        return () if self.model is None else self.model.seen

    @property
    def alpha(self) -> float:
        """The scores' part in a mix with BM25."""
        return ALPHA if self.model is None else self.model.alpha

    def fit(self, documents: Sequence[str]) -> NDArray[np.int64]:
        """Prepare the documents."""
        if self.model is None:
            mixed = mix_vectors(
                [load_vectors(self.vectors)], idf=DocumentFrequencies.from_texts(documents), spelling=SPELLING
            )
            self.model = untrained(mixed, documents)
        self._bm25 = Lexical() if len(documents) > _SCORED_WHOLE else None
        if self._bm25 is None:
            self._ranking = CollectionScorer(self.model, documents)
        else:
            self._terms, self._held = self._bm25.fit(documents), self.model.prepare(documents)
        return self._places(len(documents))

    def queries(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Keep the queries."""
        self._texts = list(texts)
        return self._places(len(texts))

    def _places(self, count: int) -> NDArray[np.int64]:
        width = self.model.table.dim if self.model else 1
        return np.broadcast_to(np.arange(count)[:, None], (count, width))

    def _compare(self, queries: NDArray[Any], documents: NDArray[Any]) -> Floats:
        texts = [self._texts[place] for place in queries[:, 0]]
        if self._bm25 is None:
            return self._ranking.scores(texts)
        assert self.model is not None
        found = np.zeros((len(texts), len(documents)), np.float32)
        lexical = (self._terms @ self._bm25.queries(texts).T).T.toarray()
        for line, text, scores in zip(found, texts, lexical, strict=True):
            best = np.argpartition(-scores, _CANDIDATES)[:_CANDIDATES]
            line[best] = self.model.scores(text, self._held.take(best))
        return found


class DynaMax:
    """Sentence pairs by :func:`resift.vectors.similarity.dynamax`, of words' weighted rows, repeated words too."""

    similarity = "dynamax"

    def __init__(self, model: Model) -> None:
        self.model = model

    def fit(self, documents: Sequence[str]) -> Floats:
        """There is no vector of a text alone: BadInput."""
        raise BadInput("dynamax has no vectors of documents", value="dynamax", expected="sentence pairs (eval sts)")

    queries = fit

    def pairs(self, left: Sequence[str], right: Sequence[str]) -> NDArray[np.float64]:
        """Similarity of each of ``left`` with the same of ``right``, (n,)."""
        sides = zip(self.model.word_rows(left), self.model.word_rows(right), strict=True)
        return np.array([dynamax(a, b) for a, b in sides], np.float64)


def build_system(name: str, vectors: str | Path = DEFAULT, seed: int = 0, similarity: str | None = None) -> System:
    """A system by its name (see the module). ``vectors``: word vectors' folder; ``similarity`` in place of its own.

    The similarity ``dynamax`` compares sentences by the word table of any of our encoders.
    Raises BadInput for an unknown name or one whose numbers are no numbers, ModelNotFound for missing vectors.
    """
    _check(similarity)
    system = _baseline(name, vectors, seed)
    if system is None:
        return _encoder(name, vectors, seed, similarity)
    if similarity is not None:
        system.similarity = similarity
    return system


def _check(similarity: str | None) -> None:
    known = (*SIMILARITIES, "dot", "dynamax")
    if similarity is not None and similarity not in known:
        raise BadInput(f"unknown similarity {similarity!r}", value=similarity, expected=" | ".join(known))


def _baseline(name: str, vectors: str | Path, seed: int) -> System | None:
    kind, _, options = name.partition(":")
    if kind == "st" and options:
        return _sentence_transformer(options)
    plain: dict[str, Callable[[], System]] = {
        "bm25": Lexical,
        "adapted": lambda: Adapted(load_vectors(vectors), seed),
        "late": lambda: Late(None, vectors),
        "sif": lambda: Sif(load_vectors(vectors)),
        "dynamax": lambda: DynaMax(build_model("mean", load_vectors(vectors))),
        "mean-plain": lambda: _mean(load_vectors(vectors), "none"),
        "model2vec": lambda: _mean(load_vectors(vectors), "zipf"),
    }
    if kind in plain and not options:
        return plain[kind]()
    sized: dict[str, tuple[int, int, Callable[..., System]]] = {
        "tfidf": (0, 1, lambda least=1: TfIdf(tokenize, least)),
        "tfidf-stop": (0, 1, lambda least=1: TfIdf(without_stop_words, least)),
        "lsi": (1, 2, lambda size, least=1: Lsi(size, least, seed)),
        "pv-dbow": (1, 1, lambda size: Paragraphs(size, seed)),
    }
    if kind not in sized:
        return None
    fewest, most, make = sized[kind]
    numbers = options.split(",") if options else []
    if not fewest <= len(numbers) <= most or not all(number.isdecimal() and int(number) > 0 for number in numbers):
        expected = next(form for form in BASELINES if form.partition(":")[0].partition("[")[0] == kind)
        raise BadInput(f"unknown encoder {name!r}", value=name, expected=f"{expected}, numbers from 1")
    return make(*map(int, numbers))


def _encoder(name: str, vectors: str | Path, seed: int, similarity: str | None) -> System:
    if name == DEFAULT or Path(name, "model.json").is_file() or Path(name, FILE).is_file():
        return load_system(name, similarity)
    try:
        model = build_model(name, load_vectors(vectors), seed)
    except BadInput as error:
        raise BadInput(
            error.message, value=name, expected=f"{error.expected} | {' | '.join(BASELINES)} | a model's folder"
        ) from error
    return _of_model(model, similarity)


def load_system(folder: str | Path, similarity: str | None = None) -> System:
    """A saved model or reranker as a system. Raises ModelNotFound or CorruptModel."""
    _check(similarity)
    if Path(folder, FILE).is_file():
        return Late(LateInteraction.load(folder))
    return _of_model(load_model(folder), similarity)


def _of_model(model: Model, similarity: str | None) -> System:
    if similarity == "dynamax":
        return DynaMax(model)
    if similarity is not None:
        model.similarity = similarity
    return Encoder(model.encode, model.similarity, model.table, model.max_alpha)


def _mean(vectors: WordVectors, weighting: str) -> System:
    table = _reweighted(vectors, weights_by_rank(len(vectors), weighting))
    return Encoder(Model("mean", table, "mean", "cosine").encode)


def _sentence_transformer(folder: str) -> System:
    from resift.training.distill import load

    model = load(folder)

    def encode(texts: Sequence[str]) -> Floats:
        found: Any = model.encode(list(texts), batch_size=32, convert_to_numpy=True, show_progress_bar=False)
        return unit_rows(found)

    return Encoder(encode)
