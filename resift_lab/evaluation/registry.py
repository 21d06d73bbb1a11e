"""Systems to evaluate, by name: Resift's encoders and the baselines.

=====================  =============================================================================================
``tfidf[:MIN_DF]``     Cosine of tf · (log((1 + N) / (1 + df)) + 1), for terms that occur in at least MIN_DF documents.
``tfidf-stop[:…]``     The same without English stop words.
``bm25``               BM25 (k1 = 1.2, b = 0.75) of Porter stems, without English stop words.
``lsi:K[,MIN_DF]``     The K largest singular vectors of ``tfidf-stop`` (Deerwester et al. 1990).
``pv-dbow:K``          Paragraph vectors, distributed bag of words (Le and Mikolov 2014; gensim).
``mean-plain``         Unweighted mean of word vectors.
``dynamax``            Fuzzy Jaccard similarity of word vectors (Zhelezniak et al. 2019). Sentence pairs only.
``dynamax-plain``      The same without words that have no vector, as in the paper.
``sfbow-counts``       Static fuzzy bag of words that multiplies memberships by word counts (Muffo et al. 2021, eq. 6).
``sif``                SIF-weighted mean without the first singular vector of the documents (Arora et al. 2017).
``model2vec``          Mean of word vectors times log(rank + 2), scaled to unit length (the pooling of model2vec).
``adapted``            Weighted mean of word vectors, adapted to the documents without labels (``resift train self``).
``adapted:mixed``      Half of the dimensions are original word vectors, as after ``resift index --adapt``.
``late``               Untrained late interaction with the idf of the documents
                       (:mod:`resift.encoders.late_interaction`).
``svm:T,FILE``         Class probabilities of a linear SVM on tf-idf, trained on the labelled documents of FILE, with
                       the softmax temperature T.
``st:FOLDER``          A sentence-transformers model.
path of a folder       A model or reranker that ``resift model`` or ``resift train`` has saved.
any other name         An untrained model, see :func:`resift.encoders.builders.build_model`.
=====================  =============================================================================================

``adapted`` and ``st:FOLDER`` need modules that this package does not import. Callers pass functions that build them
(:func:`resift_lab.training.systems.system_builders`).
"""

from __future__ import annotations

import re
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
from resift_lab.evaluation.baselines.dynamax import DynaMaxPairs
from resift_lab.evaluation.baselines.fuzzy_counts import FuzzyCounts
from resift_lab.evaluation.baselines.late_interaction import LateInteractionSystem
from resift_lab.evaluation.baselines.lsi import Lsi
from resift_lab.evaluation.baselines.means import mean_system
from resift_lab.evaluation.baselines.paragraph_vectors import ParagraphVectors
from resift_lab.evaluation.baselines.sif import Sif
from resift_lab.evaluation.baselines.svm import Svm
from resift_lab.evaluation.baselines.terms import without_stop_words
from resift_lab.evaluation.baselines.tfidf import TfIdf
from resift_lab.evaluation.system import Encoder, System, TeacherAndStudent


@dataclass(frozen=True)
class SystemSource:
    """The word vectors and the random seed from which a retrieval system is built.

    Attributes:
        vectors: Folder or name of the word vectors.
        seed: Seed of all random choices.
    """

    vectors: str | Path
    seed: int

    def table(self) -> WordVectors:
        """Load the word vectors.

        Raises:
            ModelNotFound: If the folder contains no word vectors.
            CorruptModel: If a file in the folder is damaged.
        """
        return load_vectors(self.vectors)


@dataclass(frozen=True)
class Baseline:
    """A kind of baseline, such as ``lsi``, with the function that builds it.

    Attributes:
        form: Name with placeholders for its parameters, such as ``lsi:K``, for error messages.
        build: Function that builds the system from a :class:`SystemSource` and the parameters, which are positive
            integers.
        min_parameters: Minimum number of parameters.
        max_parameters: Maximum number of parameters.
    """

    form: str
    build: Callable[..., System]
    min_parameters: int = 0
    max_parameters: int = 0


SystemBuilder = Callable[[SystemSource, str], System]
"""A function that builds a system from a :class:`SystemSource` and the text after the colon in the system's name."""

_BASELINES = {
    "tfidf": Baseline("tfidf[:MIN_DF]", lambda source, min_df=1: TfIdf(tokenize, min_df), 0, 1),
    "tfidf-stop": Baseline("tfidf-stop[:MIN_DF]", lambda source, min_df=1: TfIdf(without_stop_words, min_df), 0, 1),
    "bm25": Baseline("bm25", lambda source: BM25()),
    "lsi": Baseline("lsi:K[,MIN_DF]", lambda source, size, min_df=1: Lsi(size, min_df, source.seed), 1, 2),
    "pv-dbow": Baseline("pv-dbow:K", lambda source, size: ParagraphVectors(size, source.seed), 1, 1),
    "mean-plain": Baseline("mean-plain", lambda source: mean_system(source.table(), "none")),
    "dynamax": Baseline("dynamax", lambda source: DynaMaxPairs(source.table())),
    "dynamax-plain": Baseline("dynamax-plain", lambda source: DynaMaxPairs(source.table(), unknown=0)),
    "sfbow-counts": Baseline("sfbow-counts", lambda source: FuzzyCounts(source.table())),
    "sif": Baseline("sif", lambda source: Sif(source.table())),
    "model2vec": Baseline("model2vec", lambda source: mean_system(source.table(), "zipf")),
    "late": Baseline("late", lambda source: LateInteractionSystem(None, source.vectors)),
}
BASELINES = (*(baseline.form for baseline in _BASELINES.values()), "svm:T,FILE", "adapted[:mixed]", "st:FOLDER")
"""Names of the baselines, with placeholders for parameters."""


def build_system(
    name: str,
    vectors: str | Path = DEFAULT_MODEL,
    seed: int = 0,
    similarity: str | None = None,
    system_builders: Mapping[str, SystemBuilder] | None = None,
) -> System:
    """Build the system to evaluate from its name, such as ``bm25`` or ``lsi:100``.

    Args:
        name: Name of the system, see the table in the module's documentation.
        vectors: Folder or name of the word vectors.
        seed: Random seed.
        similarity: Name of a similarity that replaces the system's default. With ``dynamax``, sentences are compared by
            the word vectors of the named Resift encoder.
        system_builders: Functions that build the systems ``adapted`` and ``st``, by these names. The function ``st`` is
            also used to encode the documents of static query models.

    Raises:
        BadInput: If the name or the similarity is unknown, if a parameter in the name is invalid, or if a required
            function is missing in ``system_builders``.
        ModelNotFound: If the word vectors do not exist.
    """
    _check(similarity)
    kind, _, options = name.partition(":")
    source = SystemSource(vectors, seed)
    if (kind == "adapted" and options in ("", "mixed")) or (kind == "st" and options):
        system = _builder_of(kind, system_builders)(source, options)
    elif kind == "svm":
        system = _build_svm(name, options)
    elif kind in _BASELINES:
        system = _BASELINES[kind].build(source, *_parse_parameters(name, _BASELINES[kind]))
    else:
        return _build_encoder(name, source, similarity, system_builders)
    if similarity is not None:
        system.similarity = similarity
    return system


def load_system(
    folder: str | Path, similarity: str | None = None, system_builders: Mapping[str, SystemBuilder] | None = None
) -> System:
    """Load a saved model or reranker as a retrieval system that can be evaluated.

    Args:
        folder: Folder of the model.
        similarity: Name of a similarity that replaces the model's own similarity.
        system_builders: Functions that build systems of other kinds, by kind. For a model that encodes only queries,
            the function ``st`` is needed to encode documents.

    Raises:
        ModelNotFound: If the folder contains no model.
        CorruptModel: If a file of the model is damaged.
        BadInput: If the similarity is unknown, or a model encodes only queries and the teacher, which encodes
            documents, is not a local folder.
    """
    _check(similarity)
    if Path(folder, RERANKER_FILE).is_file():
        return LateInteractionSystem(LateInteraction.load(folder))
    model = load_model(folder)
    return (
        as_system(model, system_builders) if isinstance(model, StaticQueries) else _system_of_model(model, similarity)
    )


def as_system(model: Model, system_builders: Mapping[str, SystemBuilder] | None = None) -> Encoder:
    """Wrap a model as a retrieval system that can be evaluated.

    A model that encodes only queries (:class:`StaticQueries`) is combined with its teacher, which encodes the
    documents.

    Args:
        model: The model to wrap.
        system_builders: Functions that build systems of other kinds, by kind, such as ``st`` for sentence-transformers
            models.

    Raises:
        BadInput: If the model encodes only queries and its teacher is not a local folder.
    """
    if isinstance(model, StaticQueries):
        return pair_with_teacher(model, system_builders)
    return Encoder(model.encode, model.similarity, model.table, model.alpha, model.max_alpha)


def pair_with_teacher(model: StaticQueries, system_builders: Mapping[str, SystemBuilder] | None) -> Encoder:
    """Combine a model that encodes only queries with its teacher, the larger model that encodes the documents.

    Args:
        model: The model that encodes queries.
        system_builders: Functions that build systems, by kind. The function ``st``, for sentence-transformers models,
            loads the teacher.

    Raises:
        BadInput: If the teacher is not a local folder, or ``system_builders`` has no function ``st``.
    """
    if not Path(model.teacher).is_dir():
        message = f"the documents of model {model.hash} must be encoded by {model.teacher!r}, which is not a folder"
        raise BadInput(message, value=model.teacher, expected="the folder of a sentence-transformers model")
    teacher = _builder_of("st", system_builders)(SystemSource(DEFAULT_MODEL, 0), model.teacher)
    return TeacherAndStudent(
        teacher.fit, Encoder(model.encode, model.similarity, model.table, model.alpha, model.max_alpha)
    )


def _check(similarity: str | None) -> None:
    known = (*SIMILARITIES, "dot", "dynamax")
    if similarity is not None and similarity not in known:
        raise BadInput(f"unknown similarity {similarity!r}", value=similarity, expected=" | ".join(known))


def _builder_of(kind: str, system_builders: Mapping[str, SystemBuilder] | None) -> SystemBuilder:
    """Look up the function that builds systems of a given kind.

    Args:
        kind: The kind, such as ``st`` for sentence-transformers models.
        system_builders: The functions by kind, or None.

    Raises:
        BadInput: If there is no function for the kind.
    """
    if system_builders is None or kind not in system_builders:
        message = f"system {kind!r} cannot be built, because no function for it was passed"
        raise BadInput(message, value=kind, expected="an entry in the argument `system_builders`")
    return system_builders[kind]


def _build_svm(name: str, options: str) -> Svm:
    """Train the linear classifier that a system name of the form ``svm:T,FILE`` describes.

    Args:
        name: The name of the system, for error messages.
        options: The part of the name after the colon: the softmax temperature and the file of labelled documents.

    Raises:
        BadInput: If the temperature or the file is missing or invalid.
    """
    temperature, _, file = options.partition(",")
    if not file or not re.fullmatch(r"\d+(\.\d+)?|\.\d+", temperature):
        raise BadInput(f"unknown encoder {name!r}", value=name, expected="svm:T,FILE, with a number T above 0")
    return Svm(file, float(temperature))


def _parse_parameters(name: str, baseline: Baseline) -> list[int]:
    """Parse the numbers in the name of a baseline, such as the 100 and the 2 in ``lsi:100,2``.

    Args:
        name: The name of the baseline.
        baseline: The kind of baseline, which determines how many numbers are allowed.

    Returns:
        The numbers, integers of at least 1.

    Raises:
        BadInput: If a parameter is not a positive integer, or if there are too few or too many parameters.
    """
    _, _, options = name.partition(":")
    numbers = options.split(",") if options else []
    valid = all(number.isdecimal() and int(number) > 0 for number in numbers)
    if not valid or not baseline.min_parameters <= len(numbers) <= baseline.max_parameters:
        expected = f"{baseline.form}, with integers from 1" if baseline.max_parameters else baseline.form
        raise BadInput(f"unknown encoder {name!r}", value=name, expected=expected)
    return [int(number) for number in numbers]


def _build_encoder(
    name: str, source: SystemSource, similarity: str | None, system_builders: Mapping[str, SystemBuilder] | None = None
) -> System:
    """Load a saved model from a folder, or build an untrained model by its name.

    Args:
        name: Path of the folder, or name of the model, such as ``mean`` or ``boew:64``.
        source: Word vectors and random seed of an untrained model.
        similarity: Name of a similarity that replaces the model's own similarity.
        system_builders: Functions that build systems of other kinds, by kind, such as ``st`` for sentence-transformers
            models.
    """
    # a folder takes precedence: a folder that is named like a model, for example "mean", is probably intended
    if name == DEFAULT_MODEL or Path(name, "model.json").is_file() or Path(name, RERANKER_FILE).is_file():
        return load_system(name, similarity, system_builders)
    table = source.table()
    try:
        model = build_model(name, table, source.seed)
    except BadInput as error:
        raise BadInput(
            error.message, value=name, expected=f"{error.expected} | {' | '.join(BASELINES)} | the folder of a model"
        ) from error
    return _system_of_model(model, similarity)


def _system_of_model(model: Model, similarity: str | None) -> System:
    """Wrap a model as a retrieval system, and change the model's similarity on request.

    Args:
        model: The model. Its attribute ``similarity`` is replaced if ``similarity`` names another one.
        similarity: The similarity of the system, or None for that of the model. ``dynamax`` does not use the model's
            vectors of texts: it compares the word vectors of two sentences.
    """
    if similarity == "dynamax":
        return DynaMaxPairs(model.table)
    if similarity is not None:
        model.similarity = similarity
    return as_system(model)
