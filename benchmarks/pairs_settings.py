"""Choose the settings of training on pairs by leaving out one collection: step 3 of ``docs/resift-en.md``.

    RESIFT_DATA=… python benchmarks/pairs_settings.py [PAIRS SENTENCES VECTORS TEACHER]

The arguments are those of ``resift vectors pairs``: the folder of ``benchmarks/open_pairs.py``, the sentences of
``benchmarks/open_texts.py``, the table to start from (step 2), and the folder of the teacher, which provides the
vectors of new words. PACKAGED are the settings of the packaged table, with one run instead of three. PACKAGED is
trained with each of SEEDS. Each of SETTINGS changes one value of PACKAGED and is trained with seed 0. THREE_RUNS are
trained with three runs, which are averaged, as for the packaged table: once from each of FIRST_SEEDS.

The figures and the table of each training are stored in .resift/pairs_settings, and so is the table with the new words.
What is stored is not trained again. Without arguments, only the figures that are stored are printed:

- The first table shows the mean of STS 2012 to 2016 (``sts``), and the mean nDCG@10 x 100 of COLLECTIONS with the
  cosine alone and beside BM25, then each collection beside BM25. ``benchmarks/resift_en.py --retrieval`` explains them.
  But beside BM25, each collection has the better beta of 1 and 2.
- The second table leaves out each collection in turn. It chooses the setting with the largest mean beside BM25 of the
  other collections, among PACKAGED and the SETTINGS whose mean of STS is not below that of PACKAGED. It shows how far
  this mean is above that of PACKAGED (``others``), and how far the left-out collection is (``left out``). The figures
  of PACKAGED are means over its seeds. ``seeds`` is the difference between its best and its worst seed on the other
  collections.
- The third table is the same without the condition on STS.
- The fourth table chooses among THREE_RUNS, with the condition on STS. The figures are means over FIRST_SEEDS, and the
  first setting takes the place of PACKAGED.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from resift_en import MORE_YEARS, YEARS, Ranker, sts

from resift import load_model
from resift.ingest.readers import Files
from resift.vectors.table import WordVectors
from resift_lab.commands.corpus_texts import CorpusTexts
from resift_lab.training.device import Device
from resift_lab.training.pairs import PairOptions, read_pairs, train_on_pairs, with_new_words
from resift_lab.training.progress import StepCounter
from resift_lab.training.refine import draw_sentences
from resift_lab.training.transformer import Transformer

COLLECTIONS = ("cranfield", "cisi", "medline", "vaswani", "mtrag-govt", "mtrag-clapnq")
RESULTS = Path(".resift/pairs_settings")
SIDES = ("alone", "beside")  # rankings by the cosine alone, and beside BM25
SENTENCES = 100_000  # maximum number of sentences, as in ``resift vectors pairs``
PACKAGED = PairOptions(runs=1, passage_weight=0)
SEEDS = (0, 1, 2)
SETTINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 0.04},
    {"temperature": 0.1},
    {"sentence_weight": 5.0},
    {"sentence_weight": 60.0},
    {"limit": 3_000},
    {"rate": 0.001},
    {"rate": 0.004},
    {"epochs": 6},
    {"batch": 256},
)
# The packaged settings and the choices of the second table, with the number of runs of the packaged table.
THREE_RUNS: tuple[dict[str, Any], ...] = ({"runs": 3}, {"rate": 0.001, "runs": 3}, {"sentence_weight": 60.0, "runs": 3})
FIRST_SEEDS = (0, 3)
Figures = dict[str, Any]


def label(changes: dict[str, Any]) -> str:
    """Return the name of a setting, such as ``limit=3000``."""
    return " ".join(f"{name}={value:g}" for name, value in changes.items())


class Evaluation:
    """Evaluates tables on COLLECTIONS and on STS.

    Args:
        data: The folder of the evaluation data.
    """

    def __init__(self, data: Path) -> None:
        self.data = data
        self.rankers = {name: Ranker(data / name) for name in COLLECTIONS}

    def figures(self, table: WordVectors) -> Figures:
        """Return the mean of the STS years, and nDCG@10 x 100 alone and beside BM25 of each collection."""
        years = [sts(self.data / f"sts{year}.tsv.gz", table, "mean")[0] for year in (*YEARS, *MORE_YEARS)]
        pairs = {name: ranker.ndcg_without_and_with_bm25(table) for name, ranker in self.rankers.items()}
        alone = {name: values[0] for name, values in pairs.items()}
        beside = {name: max(values[1:]) for name, values in pairs.items()}
        return {"sts": float(np.mean(years)), "alone": alone, "beside": beside}


def train_settings(pairs: Path, sentence_file: str, vectors: str, teacher: str) -> None:
    """Train and evaluate PACKAGED and all SETTINGS, and store the figures of runs that are not stored yet."""
    sources = [read_pairs(path) for path in sorted(pairs.glob("*.jsonl.gz"))]
    sentences = draw_sentences([CorpusTexts(Files([sentence_file]), None)], SENTENCES, np.random.default_rng(0))
    if not (RESULTS / "start").exists():
        model = Transformer(teacher, Device())
        start = with_new_words(WordVectors.load(vectors), sources, model, PACKAGED, StepCounter(None, 0))
        start.save(RESULTS / "start")
    start, evaluation = WordVectors.load(RESULTS / "start"), Evaluation(Path(os.environ["RESIFT_DATA"]))
    if not stored("packaged"):
        store("packaged", evaluation.figures(load_model().table))
    singles = [*({"seed": seed} for seed in SEEDS), *SETTINGS]
    for changes in (*singles, *({**changes, "seed": seed} for seed in FIRST_SEEDS for changes in THREE_RUNS)):
        if not stored(label(changes)):
            table = train_on_pairs(start, sources, sentences, replace(PACKAGED, **changes))
            table.save(RESULTS / label(changes))
            store(label(changes), evaluation.figures(table))


def store(name: str, figures: Figures) -> None:
    """Write the figures of a run."""
    (RESULTS / f"{name}.json").write_text(json.dumps(figures), "utf-8")


def stored(name: str) -> Figures | None:
    """Return the stored figures of a run, or None if there are none."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def mean_beside(figures: Figures, names: list[str]) -> float:
    """Return the mean nDCG@10 x 100 beside BM25 of some collections."""
    return float(np.mean([figures["beside"][name] for name in names]))


def average(runs: list[Figures]) -> Figures:
    """Return the means of the figures of several runs."""
    sides = {side: {c: float(np.mean([run[side][c] for run in runs])) for c in COLLECTIONS} for side in SIDES}
    return {"sts": float(np.mean([run["sts"] for run in runs])), **sides}


def print_tables() -> None:
    """Print the figures of all stored trainings, and the choices with each collection left out."""
    packaged = seed_figures({}, SEEDS)
    singles = {"packaged settings": average(packaged), **{label(s): f for s in SETTINGS if (f := stored(label(s)))}}
    repeated = {label(changes): seed_figures(changes, FIRST_SEEDS) for changes in THREE_RUNS}
    averaged = {name: average(figures) for name, figures in repeated.items() if figures}
    rows = {f"seed={seed}": figures for seed, figures in zip(SEEDS, packaged, strict=False)} | singles
    for name, runs in repeated.items():
        rows |= {f"{name} seed={seed}": figures for seed, figures in zip(FIRST_SEEDS, runs, strict=False)}
    if table := stored("packaged"):
        rows = {"packaged table": table} | rows
    print(f"{'':32}", *(f"{head[:9]:>9}" for head in ("sts", *SIDES, *COLLECTIONS)))
    for name, figures in rows.items():
        means = [float(np.mean(list(figures[side].values()))) for side in SIDES]
        cells = [figures["sts"], *means, *figures["beside"].values()]
        print(f"{name:32}", *(f"{cell:9.2f}" for cell in cells))
    print_choices(without_losses(singles), packaged)
    print_choices(singles, packaged)
    print_choices(without_losses(averaged), repeated["runs=3"])


def seed_figures(changes: dict[str, Any], seeds: Sequence[int]) -> list[Figures]:
    """Return the stored figures of a setting with each of several seeds."""
    return [figures for seed in seeds if (figures := stored(label({**changes, "seed": seed})))]


def without_losses(candidates: dict[str, Figures]) -> dict[str, Figures]:
    """Return the candidates whose mean of STS is not below that of the first candidate."""
    least = next(iter(candidates.values()))["sts"]
    return {name: run for name, run in candidates.items() if run["sts"] >= least}


def print_choices(candidates: dict[str, Figures], seeds: list[Figures]) -> None:
    """Print the choice among candidates for each collection that is left out.

    Args:
        candidates: The figures of each candidate. The first one is compared with the choice.
        seeds: The figures of the first candidate with each of its seeds.
    """
    first = next(iter(candidates.values()))
    print(f"\n{'left out':16}{'choice':32}", *(f"{head:>9}" for head in ("others", "left out", "seeds")))
    for left_out in COLLECTIONS:
        others = [name for name in COLLECTIONS if name != left_out]
        choice = max(candidates, key=lambda name: mean_beside(candidates[name], others))
        ahead = [mean_beside(candidates[choice], names) - mean_beside(first, names) for names in (others, [left_out])]
        spread = float(np.ptp([mean_beside(run, others) for run in seeds]))
        print(f"{left_out:16}{choice:32}", *(f"{figure:9.2f}" for figure in (*ahead, spread)))


if __name__ == "__main__":
    RESULTS.mkdir(parents=True, exist_ok=True)
    if sys.argv[1:]:
        train_settings(Path(sys.argv[1]), *sys.argv[2:])
    elif not seed_figures(THREE_RUNS[-1], FIRST_SEEDS[-1:]):
        sys.exit(f"Not all trainings are stored in {RESULTS}. Name PAIRS, SENTENCES, VECTORS and TEACHER to train.")
    print_tables()
