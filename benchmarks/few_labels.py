"""Compare encoders that learn from few labels: ``RESIFT_DATA=… python benchmarks/few_labels.py [--table] [CORPUS...]``.

10, 50 or 200 random documents of each class of the train split are labelled (all documents of a smaller class). All
documents of the train split are the database, and 500 random documents of the test split are queries. Documents without
a text are left out. A hit is relevant if it has the class of the query. The table shows mAP x 100 as in
docs/results/boew.md, with the standard deviation over five draws of the labels (seeds 0 to 4):

- ``adapted vectors``: ``resift train self --set temperature=0.5`` on the texts of the database, without labels.
- ``linear SVM``: its class probabilities as vectors, with the softmax temperature T, trained on the labelled texts.
- ``classes``: ``resift train classes`` with the labelled texts and the adapted vectors. It chooses its settings by
  cross-validation on the labelled texts.
- ``classes − SVM``: the mean difference from the SVM with the better temperature, which is known from these queries.

Results are stored in .resift/few_labels, and an interrupted run continues. ``--table`` prints stored results.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from paper_tables import trained_class_rows
from papers import call

from resift.arrays import Floats
from resift.encoders.registry import load_model
from resift_lab.evaluation.baselines.svm import Svm
from resift_lab.evaluation.data.labelled import LabelledDocuments, read_labelled_documents
from resift_lab.evaluation.same_class import same_class_scores
from resift_lab.training.classes import train_classes

CORPORA = {"r8": "Reuters R8", "webkb": "WebKB", "20ng": "20 Newsgroups"}
NUMBERS, DRAWS, QUERIES = (10, 50, 200), range(5), 500
TEMPERATURES = (0.25, 0.1)
RESULTS = Path(".resift/few_labels")
Figures = dict[str, float]


def adapted_model(corpus: str) -> str:
    """Return the folder of the vectors that are adapted to a corpus without labels. Train them if it does not exist."""
    rows = trained_class_rows("", corpus, 64, {"RO-BoEW": (), "RO-BoEW, entropy": ()})
    train, _ = next(row for row in rows if row.name == "adapted for broad classes, no labels").commands(0)
    folder = train.rpartition(" ")[2]
    if not Path(folder, "model.json").exists():
        call(train)
    return folder


def draw(labels: Sequence[str], number: int, seed: int) -> list[int]:
    """Return the positions of ``number`` random documents of each class, or of all documents of a smaller class."""
    rng = np.random.default_rng(seed)
    names = np.array(labels)
    return [int(row) for name in np.unique(names) for row in rng.permutation(np.flatnonzero(names == name))[:number]]


def select_documents(documents: LabelledDocuments, rows: Sequence[int]) -> LabelledDocuments:
    """Return the labelled documents at some positions."""
    return LabelledDocuments(
        *([values[row] for row in rows] for values in (documents.ids, documents.texts, documents.labels))
    )


def without_empty_texts(file: Path) -> LabelledDocuments:
    """Read labelled documents, and leave out those without a text. WebKB has 31 of them."""
    documents = read_labelled_documents(file)
    return select_documents(documents, [row for row, text in enumerate(documents.texts) if text.strip()])


class Corpus:
    """A database and queries, of which the mAP of an encoder is measured.

    Args:
        name: The name of the corpus.
    """

    def __init__(self, name: str) -> None:
        data = Path(os.environ["RESIFT_DATA"])
        self.train, test = (without_empty_texts(data / f"{name}.{split}.jsonl.gz") for split in ("train", "test"))
        self.queries = select_documents(test, np.random.default_rng(0).permutation(len(test.texts))[:QUERIES].tolist())
        self.encoder = load_model(adapted_model(name))

    def quality(self, queries: NDArray[np.generic], database: NDArray[np.generic]) -> float:
        """Return the mean average precision x 100 of searches with these vectors."""
        scores = same_class_scores(queries, database, self.queries.labels, self.train.labels)
        return 100 * float(np.nanmean(scores.map11))

    def map_by_encoder(self, number: int, seed: int) -> Figures:
        """Return the mAP x 100 of each encoder that is trained on a draw of the labels."""
        rows = draw(self.train.labels, number, seed)
        labelled = select_documents(self.train, rows)
        texts, labels = labelled.texts, labelled.labels
        values: Figures = {}
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "few.jsonl")
            lines = (json.dumps({"text": text, "label": label}) for text, label in zip(texts, labels, strict=True))
            file.write_text("\n".join(lines), "utf-8")
            svm = Svm(file, 1)
        database, queries = svm.fit(self.train.texts), svm.encode_queries(self.queries.texts)
        for temperature in TEMPERATURES:
            # the softmax of scores / T is proportional to the softmax of the scores to the power of 1 / T
            values[f"linear SVM, T = {temperature}"] = self.quality(
                *(v.astype(float) ** (1 / temperature) for v in (queries, database))
            )
        model, summary = train_classes(texts, labels, self.encoder)
        values["classes"] = self.quality(model.encode(self.queries.texts), model.encode(self.train.texts))
        return values | {"weight": summary["weight"], "temperature": summary["temperature"]}


def measure(name: str) -> None:
    """Measure all draws of a corpus that have no stored result."""
    path = RESULTS / f"{name}.json"
    stored: dict[str, Figures] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    corpus = Corpus(name)
    if "adapted" not in stored:
        vectors: list[Floats] = [corpus.encoder.encode(texts) for texts in (corpus.queries.texts, corpus.train.texts)]
        stored["adapted"] = {"adapted vectors, no labels": corpus.quality(*vectors)}
    for seed in DRAWS:
        for number in NUMBERS:
            if f"{number} {seed}" not in stored:
                stored[f"{number} {seed}"] = corpus.map_by_encoder(number, seed)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(stored, indent=1), "utf-8")
                print(name, number, seed, stored[f"{number} {seed}"], file=sys.stderr, flush=True)


def cell(values: Sequence[float]) -> str:
    """Return a mean with the standard deviation of several values."""
    mean = round(float(np.mean(values)), 1) + 0.0  # 0.0 instead of -0.0
    return f"{mean:.1f}" + (f" ±{np.std(values, ddof=1):.1f}" if len(values) > 1 else "")


def print_table(names: Sequence[str]) -> None:
    """Print a row for each corpus and number of labels that has stored results."""
    ways = [f"linear SVM, T = {temperature}" for temperature in TEMPERATURES]
    head = ["", "labels per class", "draws", "adapted vectors, no labels", *ways, "classes", "classes − SVM"]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for name in names:
        path = RESULTS / f"{name}.json"
        stored: dict[str, Figures] = json.loads(path.read_text("utf-8")) if path.exists() else {}
        for number in NUMBERS:
            draws = [stored[f"{number} {seed}"] for seed in DRAWS if f"{number} {seed}" in stored]
            if draws:
                best = max(ways, key=lambda way: np.mean([values[way] for values in draws]))
                columns = [cell([values[way] for values in draws]) for way in (*ways, "classes")]
                columns.append(cell([values["classes"] - values[best] for values in draws]))
                unlabelled = cell(list(stored["adapted"].values()))
                print(f"| {' | '.join([CORPORA[name], str(number), str(len(draws)), unlabelled, *columns])} |")


def main(arguments: Sequence[str]) -> None:
    """Run the comparison on the corpora that the arguments name, and print the table."""
    names = [argument for argument in arguments if not argument.startswith("-")] or list(CORPORA)
    if "--table" not in arguments:
        for name in names:
            measure(name)
    print_table(names)


if __name__ == "__main__":
    main(sys.argv[1:])
