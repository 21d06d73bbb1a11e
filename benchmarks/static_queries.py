"""Evaluate static query models: ``RESIFT_DATA=DIR python benchmarks/static_queries.py TEACHER``.

TEACHER is a sentence-transformers folder. Prints nDCG@10 x 100 on four collections, as mean and standard deviation over
three seeds (``--seeds N``), of searches with BM25 and vectors, and of vectors alone:

- BM25 alone.
- Static queries trained on files (``resift train queries --corpus``).
- Static queries trained on an index with document vectors (``--index``).
- The teacher's own queries, with the weights of static queries.

``--prefix TEXT`` is prepended to queries, ``--document-prefix TEXT`` to documents. ``--feedback`` instead prints
nDCG@10 without the marked documents, after ten marks and after a single mark, for static queries trained on an index
(docs/results/feedback.md).

The teacher runs in bfloat16, and its vectors are cached in .resift/static-queries. The parameters were chosen on
Cranfield and CISI, with all-MiniLM-L6-v2 and bge-small-en-v1.5.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from resift import load_model
from resift.arrays import Floats
from resift.encoders.queries import StaticQueries
from resift.feedback.methods import DEFAULT_METHOD
from resift_lab.commands.served_search import ServedSearch
from resift_lab.evaluation.data import Collection, read_collection
from resift_lab.evaluation.feedback.bench import FeedbackBench
from resift_lab.evaluation.feedback.graded import GradedFeedback
from resift_lab.evaluation.feedback.methods import BASELINES
from resift_lab.evaluation.feedback.options import FeedbackOptions
from resift_lab.evaluation.feedback.runs import run_feedback
from resift_lab.evaluation.protocol import run_hybrid
from resift_lab.evaluation.system import Encoder, System, TeacherAndStudent
from resift_lab.training.device import Device
from resift_lab.training.options import QueryOptions
from resift_lab.training.queries import EncodedDocuments, train_queries
from resift_lab.training.teachers import CALL, Encode, Teacher
from resift_lab.training.transformer import Transformer

COLLECTIONS = ("cranfield", "cisi", "medline", "vaswani")
MEMORY = Path(".resift/static-queries")


def teacher_of(folder: str) -> tuple[str, Encode]:
    """Return the name of a teacher, and a function that encodes texts."""
    model = Transformer(folder, Device("cpu")).model.bfloat16()

    def encode(texts: Sequence[str]) -> Floats:
        vectors = model.encode(list(texts), batch_size=CALL, convert_to_numpy=False, show_progress_bar=False)
        return np.asarray(torch.stack(vectors).float().numpy())

    return Path(folder).resolve().name, encode


@dataclass
class Taken:
    """A collection with the teacher's vectors.

    Attributes:
        collection: The collection.
        documents: Vectors of the documents, (N, D).
        queries: Vectors of the queries, (Q, D).
        asking: Teacher with the prefix of queries.
    """

    collection: Collection
    documents: Floats
    queries: Floats
    asking: Teacher

    @classmethod
    def read(cls, name: str, called: str, encode: Encode, options: argparse.Namespace) -> Taken:
        """Read a collection from $RESIFT_DATA, and encode texts that are not in the teacher's cache."""
        collection = read_collection(Path(os.environ["RESIFT_DATA"]) / name)
        asking, telling = (
            Teacher(called, encode, MEMORY, prefix) for prefix in (options.prefix, options.document_prefix)
        )
        return cls(collection, telling.vectors(collection.documents), asking.vectors(collection.queries), asking)

    def static(self, seed: int, documents: Floats | None) -> StaticQueries:
        """Train a static query model on passages of the documents, and on the document vectors unless they are None."""
        encoded = EncodedDocuments(self.collection.documents, documents)
        return train_queries(encoded, self.asking, load_model().table, QueryOptions(seed=seed))

    def taught(self, model: StaticQueries) -> TeacherAndStudent:
        """Return the system with queries by the model and documents by the teacher."""
        return TeacherAndStudent(
            lambda _: self.documents, Encoder(model.encode, "cosine", model.table, model.alpha, model.max_alpha)
        )


def systems(taken: Taken, seed: int) -> Iterator[tuple[str, System]]:
    """Yield the systems by name."""
    known = taken.static(seed, taken.documents)
    yield "static queries, from files", taken.taught(taken.static(seed, None))
    yield "static queries, from an index", taken.taught(known)
    yield (
        "the teacher's queries",
        TeacherAndStudent(
            lambda _: taken.documents, Encoder(lambda _: taken.queries, "cosine", None, known.alpha, known.max_alpha)
        ),
    )


def hybrid(taken: Taken, seed: int) -> Iterator[tuple[str, str, float]]:
    """Yield nDCG@10 of each system: its name, the kind of search, and the value."""
    for name, system in systems(taken, seed):
        served, lexical, alone = run_hybrid(system, taken.collection, serve=ServedSearch)
        yield "BM25", "by itself", lexical.means()["ndcg@10"]
        yield name, "with BM25", served.means()["ndcg@10"]
        yield name, "alone", alone.means()["ndcg@10"]


def feedback(taken: Taken, seed: int) -> Iterator[tuple[str, str, float]]:
    """Yield nDCG@10 after marks, for static queries trained on an index."""
    name, system = "static queries, from an index", taken.taught(taken.static(seed, taken.documents))
    bench = FeedbackBench(system, taken.collection.documents, taken.collection.queries, ServedSearch)
    for marks, methods in ((10, (DEFAULT_METHOD, *BASELINES)), (1, (DEFAULT_METHOD,))):
        options = FeedbackOptions(judgements=marks)
        for method, rounds in run_feedback(bench, GradedFeedback(taken.collection), options, methods).items():
            after, before = rounds[0]
            if method == DEFAULT_METHOD:
                yield name, f"before {marks} marks", before.means()["ndcg@10"]
            yield name, f"{marks} marks, {method}", after.means()["ndcg@10"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teacher")
    parser.add_argument("--prefix", default="")
    parser.add_argument("--document-prefix", default="")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--feedback", action="store_true")
    options = parser.parse_args()
    table: dict[tuple[str, str], list[list[float]]] = {}
    teacher = teacher_of(options.teacher)
    for column, name in enumerate(COLLECTIONS):
        taken = Taken.read(name, *teacher, options)
        for seed in range(options.seeds):
            for system, what, value in (feedback if options.feedback else hybrid)(taken, seed):
                row = table.setdefault((system, what), [[] for _ in COLLECTIONS])
                row[column].append(100 * value)
        print(f"{name}: {len(taken.collection.documents)} documents", flush=True)
    print(f"{'':48}{''.join(f'{name:>14}' for name in COLLECTIONS)}{'mean':>8}")
    for (system, what), row in table.items():
        cells = "".join(f"{f'{np.mean(cell):.1f} ± {np.std(cell):.1f}':>14}" for cell in row)
        print(f"{system + ', ' + what:48}{cells}{np.mean([np.mean(cell) for cell in row]):8.1f}")


if __name__ == "__main__":
    main()
