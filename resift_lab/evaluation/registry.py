"""Systems to evaluate, by name: our encoders, and the baselines that they are measured against.

=====================  =============================================================================================
``tfidf[:MIN_DF]``     tf · (log((1 + N) / (1 + df)) + 1), cosine; of terms in MIN_DF documents or more
``tfidf-stop[:…]``     the same without English stop words
``bm25``               BM25 (k1 1.2, b .75), stop words removed, Porter stems
``lsi:K[,MIN_DF]``     the K largest singular vectors of ``tfidf-stop`` (Deerwester et al. 1990)
``pv-dbow:K``          paragraph vectors, distributed bag of words (Le and Mikolov 2014; gensim)
``mean-plain``         unweighted mean of the words' vectors
``dynamax``            the words of both sentences as universe (Zhelezniak et al. 2019); sentence pairs only
``sif``                SIF-weighted mean, first singular vector of the documents removed (Arora et al. 2017)
``model2vec``          mean of the words' vectors times log(rank + 2), length 1 (model2vec's way of pooling)
``adapted``            the vectors' weighted mean, adapted to the documents without labels (``resift train self``)
``late``               words against words (:mod:`resift.encoders.late_interaction`), untrained, idf of the documents
``st:FOLDER``          a sentence-transformers model (extra ``distill``)
a model's folder       what ``resift model`` or ``resift train`` saved
anything else          an untrained model, as :func:`resift.encoders.builders.build_model` names them
=====================  =============================================================================================

``adapted`` and ``st:FOLDER`` need what this package does not import; who builds them hands it in
(:data:`resift_lab.training.systems.LEARNERS`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from resift.encoders.builders import build_model
from resift.encoders.late_interaction import RERANKER_FILE, LateInteraction
from resift.encoders.model import Model
from resift.encoders.queries import StaticQueries
from resift.encoders.registry import load_model
from resift.errors import BadInput
from resift.text import tokenize
from resift.vectors.packaged import DEFAULT_MODEL, load_vectors
from resift.vectors.similarity import SIMILARITIES
from resift.vectors.table import WordVectors
from resift_lab.evaluation.baselines.bm25 import BM25
from resift_lab.evaluation.baselines.dynamax import DynaMax
from resift_lab.evaluation.baselines.late_interaction import Late
from resift_lab.evaluation.baselines.lsi import Lsi
from resift_lab.evaluation.baselines.means import mean_system
from resift_lab.evaluation.baselines.paragraph_vectors import ParagraphVectors
from resift_lab.evaluation.baselines.sif import Sif
from resift_lab.evaluation.baselines.terms import without_stop_words
from resift_lab.evaluation.baselines.tfidf import TfIdf
from resift_lab.evaluation.system import Encoder, System, Taught


@dataclass(frozen=True)
class Source:
    """What a baseline is made from: the word vectors' folder, and the seed of what is drawn by chance."""

    vectors: str | Path
    seed: int

    def table(self) -> WordVectors:
        """The word vectors. Raises ModelNotFound or CorruptModel."""
        return load_vectors(self.vectors)


@dataclass(frozen=True)
class Baseline:
    """How a baseline is named and made.

    ``form`` is its name with what may follow it; ``make`` takes a :class:`Source` and between ``fewest`` and
    ``largest`` numbers from 1.
    """

    form: str
    make: Callable[..., System]
    fewest: int = 0
    largest: int = 0


Learner = Callable[[Source, str], System]
_BASELINES = {
    "tfidf": Baseline("tfidf[:MIN_DF]", lambda source, min_df=1: TfIdf(tokenize, min_df), 0, 1),
    "tfidf-stop": Baseline("tfidf-stop[:MIN_DF]", lambda source, min_df=1: TfIdf(without_stop_words, min_df), 0, 1),
    "bm25": Baseline("bm25", lambda source: BM25()),
    "lsi": Baseline("lsi:K[,MIN_DF]", lambda source, size, min_df=1: Lsi(size, min_df, source.seed), 1, 2),
    "pv-dbow": Baseline("pv-dbow:K", lambda source, size: ParagraphVectors(size, source.seed), 1, 1),
    "mean-plain": Baseline("mean-plain", lambda source: mean_system(source.table(), "none")),
    "dynamax": Baseline("dynamax", lambda source: DynaMax(source.table())),
    "sif": Baseline("sif", lambda source: Sif(source.table())),
    "model2vec": Baseline("model2vec", lambda source: mean_system(source.table(), "zipf")),
    "late": Baseline("late", lambda source: Late(None, source.vectors)),
}
BASELINES = (*(baseline.form for baseline in _BASELINES.values()), "adapted", "st:FOLDER")


def build_system(
    name: str,
    vectors: str | Path = DEFAULT_MODEL,
    seed: int = 0,
    similarity: str | None = None,
    learners: Mapping[str, Learner] | None = None,
) -> System:
    """A system by its name (see the module).

    Args:
        name: the system.
        vectors: the word vectors' folder.
        seed: of what is drawn by chance.
        similarity: in place of the system's own; ``dynamax`` compares sentences by the word table of any of our
            encoders.
        learners: what makes the systems ``adapted`` and ``st``, by these names, from a :class:`Source` and what follows
            the colon in ``name``; the documents of a model of queries are encoded by ``st``.

    Raises BadInput for an unknown name or similarity, for numbers that are none, and for a learner that was not handed
    in; ModelNotFound for missing vectors.
    """
    _check(similarity)
    kind, _, options = name.partition(":")
    source = Source(vectors, seed)
    if (kind == "adapted" and not options) or (kind == "st" and options):
        system = _learner(kind, learners)(source, options)
    elif kind in _BASELINES:
        system = _BASELINES[kind].make(source, *_numbers(name, _BASELINES[kind]))
    else:
        return _encoder(name, source, similarity, learners)
    if similarity is not None:
        system.similarity = similarity
    return system


def load_system(
    folder: str | Path, similarity: str | None = None, learners: Mapping[str, Learner] | None = None
) -> System:
    """A saved model or reranker as a system; ``learners`` are those of :func:`build_system`.

    Raises ModelNotFound, CorruptModel, or BadInput for the similarity, and for a model of queries whose teacher is no
    sentence-transformers folder.
    """
    _check(similarity)
    if Path(folder, RERANKER_FILE).is_file():
        return Late(LateInteraction.load(folder))
    model = load_model(folder)
    return system_of(model, learners) if isinstance(model, StaticQueries) else _of_model(model, similarity)


def system_of(model: Model, learners: Mapping[str, Learner] | None = None) -> Encoder:
    """A model as a system; static queries with the documents of their teacher. Raises what :func:`taught` raises."""
    if isinstance(model, StaticQueries):
        return taught(model, learners)
    return Encoder(model.encode, model.similarity, model.table, model.alpha, model.max_alpha)


def taught(model: StaticQueries, learners: Mapping[str, Learner] | None) -> Encoder:
    """Queries by the model, documents by its teacher. Raises BadInput if that is no sentence-transformers folder."""
    if not Path(model.teacher).is_dir():
        message = f"the documents of {model.hash} are encoded by {model.teacher}"
        raise BadInput(message, value=model.teacher, expected="a sentence-transformers folder, to encode them again")
    teacher = _learner("st", learners)(Source(DEFAULT_MODEL, 0), model.teacher)
    return Taught(teacher.fit, Encoder(model.encode, model.similarity, model.table, model.alpha, model.max_alpha))


def _check(similarity: str | None) -> None:
    known = (*SIMILARITIES, "dot", "dynamax")
    if similarity is not None and similarity not in known:
        raise BadInput(f"unknown similarity {similarity!r}", value=similarity, expected=" | ".join(known))


def _learner(kind: str, learners: Mapping[str, Learner] | None) -> Learner:
    if learners is None or kind not in learners:
        raise BadInput(f"nothing makes the system {kind!r}", value=kind, expected="learners, handed to build_system")
    return learners[kind]


def _numbers(name: str, baseline: Baseline) -> list[int]:
    """The numbers behind a baseline's name. Raises BadInput if there are too few or too many, or they are none."""
    _, _, options = name.partition(":")
    numbers = options.split(",") if options else []
    valid = all(number.isdecimal() and int(number) > 0 for number in numbers)
    if not valid or not baseline.fewest <= len(numbers) <= baseline.largest:
        expected = f"{baseline.form}, numbers from 1" if baseline.largest else baseline.form
        raise BadInput(f"unknown encoder {name!r}", value=name, expected=expected)
    return [int(number) for number in numbers]


def _encoder(
    name: str, source: Source, similarity: str | None, learners: Mapping[str, Learner] | None = None
) -> System:
    """A saved model by its folder, or an untrained one by its name."""
    # a folder wins over a name: who has a folder "mean" and asks for it has a reason
    if name == DEFAULT_MODEL or Path(name, "model.json").is_file() or Path(name, RERANKER_FILE).is_file():
        return load_system(name, similarity, learners)
    table = source.table()
    try:
        model = build_model(name, table, source.seed)
    except BadInput as error:
        raise BadInput(
            error.message, value=name, expected=f"{error.expected} | {' | '.join(BASELINES)} | a model's folder"
        ) from error
    return _of_model(model, similarity)


def _of_model(model: Model, similarity: str | None) -> System:
    if similarity == "dynamax":
        return DynaMax(model.table)
    if similarity is not None:
        model.similarity = similarity
    return system_of(model)
