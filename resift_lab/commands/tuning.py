"""The constants of an index's searches, chosen by its documents, a log of clicks, or judged queries."""

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
from resift.feedback.methods import DEFAULT_METHOD
from resift.notebook import Progress, progress_bar
from resift.service.connect import open_engine
from resift_lab.commands.proving import Replayed, nothing_in, observations, read_log, require_name
from resift_lab.commands.served_search import ServedSearch
from resift_lab.evaluation.metrics import Numbers
from resift_lab.log_replay.replay import Skipped
from resift_lab.log_replay.tuning import FACTORS, TRIALS, Chosen, Values, choose
from resift_lab.training.weighing import weigh_index

DOCUMENTS = "documents"
_MARKS = 5  # of a simulated user, where queries were judged


@dataclass(frozen=True)
class Tuned:
    """What an index's searches have in place of the usual constants, ``tuning``; whether that is ``new``; and why, or
    why not, in English."""

    tuning: Tuning
    new: bool
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
) -> Tuned:
    """Choose the constants of an index's searches, and have the index keep them if they are better; all that search it
    follow within seconds.

    Args:
        index: an index of the cluster or embedded engine at ``url``.
        source: what chooses. ``documents``: the vectors' weight without a session, by searches for documents in part of
            their own words. ``ubi``, or a CSV file of searches: the constants of sessions, by the log
            (:func:`resift.prove`). A folder in BEIR's layout: the same by judged queries, or by conversations with
            marks. None only shows what the index has.
        model: a model or its folder; by default the service's, or that which the index was attached with.
        undo: go back to the usual constants instead.
        progress: is told how many trials are done, and of how many; by default tqdm shows it, where that is installed.

    Raises BadInput for a source that says nothing, and what the engine raises.
    """
    require_name(index)
    with closing(open_engine(url)) as engine:
        encoder = index_model(engine, index, model)
        info = engine.info(index).for_search(encoder)
        if undo:
            engine.tune(index, None)
            return Tuned(DEFAULT_TUNING, True, [f"{index}: the usual constants"])
        if source is None:
            return Tuned(info.tuning, False, info.tuning.describe() or [f"{index}: the usual constants"])
        if str(source) == DOCUMENTS:
            return _weighed(engine, info, encoder)
        values, units = _values(engine, info, source, url, encoder)
        with progress_bar("trying constants", progress) as told:
            chosen = choose(_counting(values, told), info.tuning)
        return _kept(engine, info, chosen, units)


def _weighed(engine: Engine, info: IndexInfo, model: Model) -> Tuned:
    tuning = weigh_index(engine, info, model)
    if tuning is None:
        return Tuned(info.tuning, False, [f"{info.name}: too few documents to tell, or the extra 'lab' is missing"])
    return Tuned(tuning, True, tuning.describe())


def _values(engine: Engine, info: IndexInfo, source: str | Path, url: str, model: Model) -> tuple[Values, str]:
    """What constants are worth by a source, and what its units are."""
    if Path(source).is_dir():
        return _by_judged_queries(Path(source), model, info.tuning)
    searching = Replayed(engine, model, info.name)
    sample, log = read_log(engine, info.name, source, url)

    def values(tuning: Tuning) -> Numbers:
        searching.tuning = tuning
        found: dict[str, list[float]] = {}
        for one in observations(sample.of_client, log, searching, Skipped(), lambda done, total: None):
            found.setdefault(one.client, []).append(1 / one.with_session if one.with_session else 0.0)
        if not found:
            raise nothing_in(source)
        return np.array([np.mean(ranks) for ranks in found.values()])

    return values, "clients, mean reciprocal rank of what they clicked"


def _by_judged_queries(folder: Path, model: Model, start: Tuning) -> tuple[Values, str]:
    """The same by a folder in BEIR's layout, whose documents are indexed in an embedded engine."""
    from resift_lab.evaluation.data import read_collection, read_conversations
    from resift_lab.evaluation.feedback.bench import FeedbackBench
    from resift_lab.evaluation.feedback.graded import Graded
    from resift_lab.evaluation.feedback.options import FeedbackOptions
    from resift_lab.evaluation.feedback.runs import run_feedback
    from resift_lab.evaluation.feedback.turns import METRICS, run_turns
    from resift_lab.evaluation.registry import system_of
    from resift_lab.training.systems import LEARNERS

    has_turns = any(folder.glob("turns.jsonl*"))
    collection, turns = read_conversations(folder) if has_turns else (read_collection(folder), [])
    texts = [turn.text for conversation in turns for turn in conversation] or collection.queries
    bench = FeedbackBench(system_of(model, LEARNERS), collection.documents, texts, ServedSearch)
    bench.alpha = bench.alpha if start.alpha is None else start.alpha
    search, graded = bench.search, Graded(collection)
    assert isinstance(search, ServedSearch)

    def values(tuning: Tuning) -> Numbers:
        search.info = replace(search.info, tuning=tuning)
        if has_turns:
            return run_turns(bench, turns).values[METRICS[0]]
        ((after, _),) = run_feedback(bench, graded, FeedbackOptions(judgements=_MARKS))[DEFAULT_METHOD]
        return after.values["condensed_ndcg@10" if "condensed_ndcg@10" in graded.metrics else "ndcg@10"]

    return values, "turns, nDCG@5" if has_turns else f"queries, nDCG@10 of what is left after {_MARKS} marks"


def _counting(values: Values, progress: Progress) -> Values:
    done = iter(range(1, TRIALS + 1))

    def counted(tuning: Tuning) -> Numbers:
        found = values(tuning)
        progress(next(done), TRIALS)
        return found

    return counted


def _kept(engine: Engine, info: IndexInfo, chosen: Chosen, units: str) -> Tuned:
    """Have the index keep what was chosen, if that is better."""
    figures = f"{chosen.before:.4f} before, {chosen.held_out:.4f} by constants that the other half of them chose"
    why = f"{chosen.units} {units} {figures}, p {chosen.p:.4f}"
    if not chosen.better:
        return Tuned(info.tuning, False, [f"nothing is changed: {why}", *info.tuning.describe()])
    before = engine.info(info.name).tuning  # its weight may be of another model's vectors, and stays
    factors = {name: getattr(chosen.tuning, name) for name in FACTORS}
    tuning = structs.replace(before, **factors, why={**before.why, "session": why})
    engine.tune(info.name, tuning)
    return Tuned(tuning, True, tuning.describe())
