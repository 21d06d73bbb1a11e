"""Choice of the constants of an index's searches, by its documents, a click log, or judged queries."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from msgspec import structs

from resift.cli.options import index_model
from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine
from resift.contracts.tuning import DEFAULT_TUNING, Tuning
from resift.encoders.model import Model
from resift.errors import BadInput, needs_extra
from resift.feedback.methods import DEFAULT_METHOD
from resift.notebook import Progress, progress_bar
from resift.service.connect import open_engine
from resift_lab.commands.proving import (
    LogSource,
    ReplayedSearch,
    nothing_to_replay_error,
    read_log,
    replay_clients,
    require_name,
)
from resift_lab.commands.served_search import ServedSearch
from resift_lab.evaluation.metrics import Numbers
from resift_lab.log_replay.replay import SkippedClicks
from resift_lab.log_replay.tuning import FACTORS, TRIALS, Choice, QualityFunction, choose_constants
from resift_lab.training.weighing import weigh_index

# Value of the argument `source` that chooses the weight of the vectors by the documents of the index.
DOCUMENTS = "documents"
# Number of hits that the simulated user judges for each query.
_MARKS = 5


@dataclass(frozen=True)
class TuningResult:
    """The result of :func:`tune`, which chooses ranking constants for an index, such as the weight of the vectors.

    Attributes:
        tuning: The constants that are now stored in the index.
        changed: Whether :func:`tune` changed the constants.
        lines: An explanation of the choice, in English.
    """

    tuning: Tuning
    changed: bool
    lines: list[str]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def tune(
    index: str,
    source: str | Path | None = None,
    url: str = "resift.db",
    *,
    model: str | Path | Model | None = None,
    undo: bool = False,
    progress: Progress | None = None,
) -> TuningResult:
    """Choose ranking constants for the searches of an index, and store them if they improve the ranking.

    Running services use the stored constants within seconds.

    Args:
        index: The name of the index.
        source: The data by which constants are chosen:

            - ``documents`` chooses the weight of the vectors in searches without a session. Queries are drawn from the
              words of documents.
            - ``ubi``, or the path of a CSV file of searches, chooses the constants of sessions by a click log (see
              :func:`resift_lab.prove`).
            - A folder in BEIR's layout chooses the constants of sessions by judged queries, or by conversations with
              judgements.
            - None returns the present constants.
        url: The address of the cluster, or the file of the embedded engine.
        model: A model or its folder. None means the service's model, or the model that the index was attached with.
        undo: Whether to restore the default constants instead.
        progress: A function that is called with the number of finished trials and the total number. By default, tqdm
            shows a progress bar if it is installed.

    Returns:
        The constants of the index, and an explanation of the choice.

    Raises:
        BadInput: If the source is invalid or contains too little data.
        ResiftError: If a request to the engine fails.
    """
    require_name(index)
    if source is not None and not isinstance(source, (str, Path)):
        expected = f"{DOCUMENTS!r}, 'ubi', or the path of a click log or of a folder in BEIR's layout"
        raise BadInput(f"cannot choose constants by a {type(source).__name__}", value=source, expected=expected)
    with closing(open_engine(url)) as engine:
        encoder = index_model(engine, index, model)
        info = engine.info(index).for_search(encoder)
        if undo:
            engine.tune(index, None)
            return TuningResult(DEFAULT_TUNING, True, [f"{index}: the default constants"])
        if source is None:
            return TuningResult(info.tuning, False, info.tuning.describe() or [f"{index}: the default constants"])
        if str(source) == DOCUMENTS:
            return _tune_weight(engine, info, encoder)
        quality, units = _quality_function(engine, info, source, url, encoder)
        with progress_bar("trying constants", progress) as report_progress:
            choice = choose_constants(_with_progress(quality, report_progress), info.tuning)
        return _store_if_better(engine, info, choice, units)


def _tune_weight(engine: Engine, info: IndexInfo, model: Model) -> TuningResult:
    """Choose the weight of the vectors in searches without a session, and store it in the index.

    Args:
        engine: The engine with the index.
        info: A description of the index.
        model: The model of the index.

    Returns:
        The result with the new weight. If no weight can be chosen, the result explains why, and nothing is stored.

    Raises:
        MissingExtra: If SciPy is not installed, and the weight cannot be chosen without it.
    """
    chosen = weigh_index(engine, info.name, info.fields, model)
    if chosen is None:
        with needs_extra("adapt", "Choosing the weight of the vectors"):  # weigh_index ignores that it is missing
            import scipy.stats  # noqa: F401
        reason = "there are too few documents to choose a weight"
        return TuningResult(info.tuning, False, [f"{info.name}: {reason}"])
    tuning = info.tuning.with_weight(chosen)
    engine.tune(info.name, tuning)
    return TuningResult(tuning, True, tuning.describe())


def _quality_function(
    engine: Engine, info: IndexInfo, source: str | Path, url: str, model: Model
) -> tuple[QualityFunction, str]:
    """Return a function that measures the quality of searches in sessions, given the ranking constants.

    The constants determine how strongly the judgements of a session change the ranking.

    Args:
        engine: The engine with the index.
        info: A description of the index.
        source: The data to measure with: ``ubi`` for the click log, the path of a CSV file of clicks, or the path of a
            folder in BEIR's layout.
        url: The address of the cluster, or the file of the embedded engine.
        model: The model of the index.

    Returns:
        A function that takes constants and returns a value for each client or query, and a description of these values,
        such as "queries, residual nDCG@10".
    """
    if Path(source).is_dir():
        return _quality_by_judged_queries(Path(source), model, info.tuning)
    searching = ReplayedSearch(engine, model, info.name)
    clicks = LogSource(source, url)
    sample, log = read_log(engine, info.name, clicks)

    def quality(tuning: Tuning) -> Numbers:
        searching.tuning = tuning
        ranks_by_client: dict[str, list[float]] = {}
        for click in replay_clients(sample.events_by_client, log, searching, SkippedClicks(), lambda done, total: None):
            ranks_by_client.setdefault(click.client, []).append(1 / click.with_session if click.with_session else 0.0)
        if not ranks_by_client:
            raise nothing_to_replay_error(clicks, info.name)
        return np.array([np.mean(reciprocal_ranks) for reciprocal_ranks in ranks_by_client.values()])

    return quality, "clients, mean reciprocal rank of what they clicked"


def _quality_by_judged_queries(folder: Path, model: Model, start: Tuning) -> tuple[QualityFunction, str]:
    """Return a function that measures the quality of searches in sessions by judged queries.

    The documents are indexed in an embedded engine. If the folder contains conversations (``turns.jsonl``), their
    judgements are used. Otherwise, a simulated user judges some hits of each query. In both cases, documents that the
    session has judged already are ignored, because any session moves relevant ones to the top.

    Args:
        folder: A folder in BEIR's layout.
        model: The model of the index.
        start: The present constants, which determine the weight of the vectors.

    Returns:
        A function that takes constants and returns a value for each query or conversation, or NaN if no unjudged
        relevant document remains; and a description of these values.
    """
    from resift_lab.evaluation.data import read_collection, read_conversations
    from resift_lab.evaluation.feedback.bench import FeedbackBench
    from resift_lab.evaluation.feedback.graded import GradedFeedback
    from resift_lab.evaluation.feedback.options import FeedbackOptions
    from resift_lab.evaluation.feedback.runs import run_feedback
    from resift_lab.evaluation.feedback.turns import conversation_means
    from resift_lab.evaluation.registry import as_system
    from resift_lab.training.systems import system_builders

    has_turns = any(folder.glob("turns.jsonl*"))
    collection, turns = read_conversations(folder) if has_turns else (read_collection(folder), [])
    texts = [turn.text for conversation in turns for turn in conversation] or collection.queries
    bench = FeedbackBench(as_system(model, system_builders()), collection.documents, texts, ServedSearch)
    bench.alpha = bench.alpha if start.alpha is None else start.alpha
    search, graded = bench.search, GradedFeedback(collection)
    assert isinstance(search, ServedSearch)

    def quality(tuning: Tuning) -> Numbers:
        search.info = replace(search.info, tuning=tuning)
        if has_turns:
            return conversation_means(bench, turns, "ndcg@5_residual")
        ((after, _),) = run_feedback(bench, graded, FeedbackOptions(judgements=_MARKS))[DEFAULT_METHOD]
        return after.values["condensed_ndcg@10" if "condensed_ndcg@10" in graded.metrics else "ndcg@10"]

    return quality, "conversations, residual nDCG@5" if has_turns else f"queries, residual nDCG@10 after {_MARKS} marks"


def _with_progress(quality: QualityFunction, progress: Progress) -> QualityFunction:
    """Wrap a function that measures the quality of searches, so that each call reports progress.

    Args:
        quality: A function that takes ranking constants, such as the weight of the vector similarity, and returns a
            value of a metric for each query.
        progress: A function that is called with the number of finished evaluations and the total number, ``TRIALS``.

    Returns:
        A function with the same argument and result as ``quality``. It must be called at most ``TRIALS`` times.
    """
    done = iter(range(1, TRIALS + 1))

    def quality_with_progress(tuning: Tuning) -> Numbers:
        result = quality(tuning)
        progress(next(done), TRIALS)
        return result

    return quality_with_progress


def _store_if_better(engine: Engine, info: IndexInfo, choice: Choice, units: str) -> TuningResult:
    """Store the chosen ranking constants in the index, if they are significantly better than the current constants.

    Args:
        engine: The engine with the index.
        info: A description of the index.
        choice: The chosen constants and their evaluation.
        units: A description of the evaluated values for the explanation, such as "queries, residual nDCG@10".

    Returns:
        The constants that the index now has, and an explanation.
    """
    means = f"{choice.before:.4f} before, {choice.held_out:.4f} with constants chosen by the other half"
    reason = f"{choice.units} {units}: {means}, p {choice.p:.4f}"
    if not choice.better:
        return TuningResult(info.tuning, False, [f"nothing was changed: {reason}", *info.tuning.describe()])
    # Only the constants of sessions are replaced. The stored weight of the vectors may belong to another model.
    before = engine.info(info.name).tuning
    factors = {name: getattr(choice.tuning, name) for name in FACTORS}
    tuning = structs.replace(before, **factors, why={**before.why, "session": reason})
    engine.tune(info.name, tuning)
    return TuningResult(tuning, True, tuning.describe())
