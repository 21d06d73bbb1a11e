"""Compare reviews with asreview and buscarpy: ranking, stopping, and the time of a batch.

    pip install asreview==2.2 buscarpy==0.0.2
    RESIFT_DATA=DIR python benchmarks/reviews.py ranking | test | stopping | vectors | large | other | time

    ranking   WSS@95 and RRF@10 of simulated reviews in batches of ten (seeds 0 to 4), for Resift and for ELAS u4, the
              default model of asreview, with the same first judgements
    test      largest difference between 1,000 p-values of Resift and of buscarpy, for generated reviews
    stopping  100 simulated reviews: how many had reached a recall of 95 % when they stopped, and the share of documents
              that was read, by the stopping rules of Resift and of buscarpy for the same order of documents
    vectors   WSS@95 and RRF@10 of Resift (seeds 0 and 1), without and with an additional ridge regression on the
              packaged vectors, used if it predicts held-out judgements better than words and stems
    large     WSS@95 and RRF@10 of Resift (seed 0), with all documents in memory, and with 200 documents in memory at a
              time from an index (OPENSEARCH_URL, or embedded), retrieved lexically and also by vectors
    other     WSS@95 and RRF@10 of Resift and of ELAS u4 (seeds 0 to 2) on data without tuning: the five queries of
              MEDLINE and of CISI with the most relevant documents
    time      milliseconds from ten judgements to the next batch of ten (median and maximum of ten), with generated
              documents of 150 words, and milliseconds of a single judgement

`ranking` and `other` need asreview, `test` and `stopping` buscarpy.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from collections.abc import Collection as Among
from dataclasses import replace
from functools import cache
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from resift.embedded.database import SqliteSessionStore
from resift.reviews.log import ReviewLog
from resift.reviews.ranking import DocumentSet
from resift.reviews.review import Review
from resift.reviews.stopping import CONFIDENCE, p_value
from resift.reviews.stored import StoredSet
from resift_lab.evaluation.data import Collection, read_collection
from resift_lab.evaluation.reviews import simulate_review

SETS, BATCH, TARGET = {"tar-nudging": 34, "tar-wilson": 33, "tar-kitchenham": 33}, 10, 0.95


class ElasU4(DocumentSet):
    """A document set that ELAS u4, the default model of asreview, ranks instead of Resift.

    Args:
        collection: Collection with the documents.
    """

    def __init__(self, collection: Collection) -> None:
        import pandas as pd
        from asreview.learner import ActiveLearningCycle
        from asreview.models.models import get_ai_config

        super().__init__(collection.document_ids, collection.documents)
        self._cycle = ActiveLearningCycle.from_meta(get_ai_config("elas_u4")["value"])
        texts = pd.DataFrame({"title": collection.documents, "abstract": ""})
        self._features = self._cycle.transform(texts).tocsr()

    def _order(self, labels: Mapping[str, bool], read: Among[str]) -> list[str]:
        rows = [self.places[id] for id in labels]
        self._cycle.fit(self._features[rows], np.array(list(labels.values()), int))
        ranked = (self.ids[place] for place in self._cycle.rank(self._features))
        return [id for id in ranked if id not in read]


class WithVectors(DocumentSet):
    """A document set that is also ranked by vectors, if vectors predict judgements better than words do.

    Args:
        collection: Collection with the documents.
        vectors: Vectors of the N documents with K dimensions, shape (N, K).
    """

    def __init__(self, collection: Collection, vectors: np.ndarray) -> None:
        super().__init__(collection.document_ids, collection.documents)
        self._vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)

    def _order(self, labels: Mapping[str, bool], read: Among[str]) -> list[str]:
        order, (rows, targets) = super()._order(labels, read), self._training_data(labels)
        if min(targets.sum(), (~targets).sum()) < 2:
            return order
        by_words = max(
            classifier.cross_validate(rows, targets) for classifier in (self._word_classifier, self._stem_classifier)
        )
        folds, scores = np.empty(len(rows), int), np.empty(len(rows))
        for side in (targets, ~targets):
            folds[side] = np.arange(side.sum()) % 5
        for fold in range(5):
            is_held_out = folds == fold
            scores[is_held_out] = self._vectors[rows[is_held_out]] @ self._direction(
                rows[~is_held_out], targets[~is_held_out]
            )
        lead = roc_auc_score(targets, scores) - by_words
        if lead <= 0:
            return order
        similar = self._vectors[[self.places[id] for id in order]] @ self._direction(rows, targets)
        places, weight = np.argsort(np.argsort(-similar, kind="stable")), np.exp(20 * lead)
        merged = np.minimum((np.arange(len(order)) + 1) / weight, (places + 1) * weight)
        return [order[position] for position in np.argsort(merged, kind="stable")]

    def _direction(self, rows: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Fit a ridge regression in which both classes have the same total weight.

        Args:
            rows: Positions of the n judged documents, shape (n,).
            targets: Whether each of them is relevant, shape (n,).

        Returns:
            The coefficients, shape (K,).
        """
        known, weights = self._vectors[rows], np.where(targets, 1 / targets.sum(), 1 / (~targets).sum())
        gram = (known * weights[:, None]).T @ known + 0.02 * np.eye(known.shape[1])
        return np.linalg.solve(gram, known.T @ (weights * np.where(targets, 1.0, -1.0)))


@cache
def read_documents(name: str) -> tuple[Collection, DocumentSet]:
    """Read a collection of $RESIFT_DATA, and create its document set, which Resift ranks."""
    collection = read_collection(Path(os.environ["RESIFT_DATA"]) / name)
    return collection, DocumentSet(collection.document_ids, collection.documents)


def compare_ranking() -> None:
    """Print the ranking quality of Resift and of ELAS u4."""
    print(f"{'':16}{'Resift':>14}{'ELAS u4':>14}")
    for name in SETS:
        (collection, documents_of_resift), cells = read_documents(name), []
        for documents in (documents_of_resift, ElasU4(collection)):
            runs = [simulate_review(collection, seed, BATCH, TARGET, documents).measures(TARGET) for seed in range(5)]
            cells.append(" / ".join(f"{np.mean([run[figure] for run in runs]):.1f}" for figure in ("wss@95", "rrf@10")))
        print(f"{name:16}{cells[0]:>14}{cells[1]:>14}", flush=True)


def compare_vectors() -> None:
    """Print the ranking quality of Resift without and with vectors."""
    from resift import open as open_library

    with tempfile.TemporaryDirectory() as folder:
        model = open_library(f"{folder}/docs.db").service.model
    for name in SETS:
        (collection, documents_of_resift), cells = read_documents(name), []
        for documents in (documents_of_resift, WithVectors(collection, model.encode(collection.documents))):
            runs = [simulate_review(collection, seed, BATCH, TARGET, documents).measures(TARGET) for seed in range(2)]
            cells.append(" / ".join(f"{np.mean([run[key] for run in runs]):.1f}" for key in ("wss@95", "rrf@10")))
        print(f"{name:16}{cells[0]:>14}{cells[1]:>14}", flush=True)


def compare_memory() -> None:
    """Print the ranking quality with all documents in memory, and with only a part of them."""
    from resift import open as open_library
    from resift.contracts.documents import Document
    from resift.reviews import large as large_sets

    large_sets.MAX_LOADED = 200
    with tempfile.TemporaryDirectory() as folder:
        service = open_library(os.environ.get("OPENSEARCH_URL", f"{folder}/docs.db")).service
        for name in SETS:
            (collection, all_in_memory), index = read_documents(name), f"benchmark-{name}"
            texts, vectors = collection.documents, service.model.encode(collection.documents)
            rows = zip(collection.document_ids, texts, vectors, strict=True)
            documents = [Document(id, {"text": text}, vector) for id, text, vector in rows]
            service.engine.drop_if_exists(index)
            service.engine.create(index, ["text"], service.model)
            for start in range(0, len(documents), 500):
                assert service.engine.bulk(index, documents[start : start + 500]) == []
            service.engine.refresh(index)
            stored = StoredSet(service.engine, index, fields=lambda: ["text"])
            by_vectors = large_sets.LargeSet(stored, {"match_all": {}})
            by_words = large_sets.LargeSet(stored, {"match_all": {}})
            by_words._knn_clause = lambda labels: None  # type: ignore[method-assign]
            cells = []
            for ranked in (all_in_memory, by_words, by_vectors):
                measures = simulate_review(collection, 0, BATCH, TARGET, ranked).measures(TARGET)
                cells.append(f"{measures['wss@95']:.1f} / {measures['rrf@10']:.1f}")
            print(f"{name:16}{cells[0]:>14}{cells[1]:>14}{cells[2]:>14}", flush=True)
            service.engine.drop(index)


def compare_untuned() -> None:
    """Print the ranking quality of Resift and of ELAS u4 for queries with many relevant documents."""
    for name in ("medline", "cisi"):
        collection = read_collection(Path(os.environ["RESIFT_DATA"]) / name)
        systems = (DocumentSet(collection.document_ids, collection.documents), ElasU4(collection))
        relevant = [sum(grade > 0 for grade in grades.values()) for grades in collection.grades]
        for query in sorted(range(len(relevant)), key=lambda query: -relevant[query])[:5]:
            single_query, cells = replace(collection, grades=[collection.grades[query]]), []
            for documents in systems:
                reviews = [simulate_review(single_query, seed, BATCH, TARGET, documents) for seed in range(3)]
                runs = [review.measures(TARGET) for review in reviews]
                cells.append(" / ".join(f"{np.mean([run[key] for run in runs]):.1f}" for key in ("wss@95", "rrf@10")))
            print(f"{name:8}{relevant[query]:4} relevant{cells[0]:>14}{cells[1]:>14}", flush=True)


def compare_p_values() -> None:
    """Print the largest difference between p-values of Resift and of buscarpy, for rankings of different quality."""
    from buscarpy import calculate_h0, generate_dataset

    rng, differences = np.random.default_rng(0), []
    for seed in range(1000):
        total, target = int(rng.integers(20, 2000)), float(rng.choice([0.8, 0.9, 0.95, 0.99]))
        order = generate_dataset(total, rng.uniform(0.01, 0.3), rng.uniform(1, 30), seed)["relevant"].to_numpy()
        read = order[: rng.integers(1, total)].astype(int)
        # NaN stands for a p-value of 0
        expected = float(np.nan_to_num(calculate_h0(read, total, target)))
        differences.append(abs(expected - p_value(read.astype(bool).tolist(), total, target)))
    print(f"{len(differences)} reviews: {max(differences):.1e}")


def stops(run: tuple[str, int]) -> tuple[str, dict[str, tuple[bool, float]]]:
    """Simulate a review, and apply the stopping rules of Resift and of buscarpy to the same order of documents.

    Args:
        run: Name of the collection, and seed of the simulation.

    Returns:
        The name of the collection, and for each rule whether the recall was reached at the stop, and the percentage of
        documents that was read.
    """
    from buscarpy import calculate_h0

    name, seed = run
    collection, documents = read_documents(name)
    review = simulate_review(collection, seed, BATCH, TARGET, documents)
    total, read = len(review.labels), review.labels.astype(int)
    ends = (*range(BATCH, total, BATCH), total)
    stop_of_buscarpy = next(
        end for end in ends if end == total or calculate_h0(read[:end], total, TARGET) <= 1 - CONFIDENCE
    )
    return name, {
        rule: (bool(read[:end].sum() >= TARGET * read.sum()), 100 * end / total)
        for rule, end in (("Resift", review.stop), ("buscarpy", stop_of_buscarpy))
    }


def compare_stopping() -> None:
    """Print how often both stopping rules reach the recall, and how much they make a person read."""
    runs = [(name, seed) for name, seeds in SETS.items() for seed in range(seeds)]
    with Pool() as pool:
        results = pool.map(stops, runs, chunksize=1)
    for name in (*SETS, "all"):
        for rule in ("Resift", "buscarpy"):
            ends = [by_rule[rule] for collection, by_rule in results if name in (collection, "all")]
            reached, read = sum(reached for reached, _ in ends), np.mean([percentage for _, percentage in ends])
            print(f"{name:16}{rule:10}{reached:4} of {len(ends):3} reached {TARGET:.0%}, {read:5.1f} % read")


def batch_times(total: int) -> tuple[list[float], list[float]]:
    """Measure the time that a person waits in a review of generated documents.

    Args:
        total: Number of documents.

    Returns:
        Milliseconds from the judgements of a batch to the next batch, for ten batches, and milliseconds of ten single
        judgements after a fifth of all documents were judged.
    """
    rng = np.random.default_rng(0)
    words = np.array([f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in map(str, range(500))])
    word_numbers = np.minimum(rng.zipf(1.2, (total, 150)) - 1, len(words) - 1)
    ids = [str(number) for number in range(total)]
    with tempfile.TemporaryDirectory() as folder:
        log = ReviewLog(SqliteSessionStore(f"{folder}/reviews.db"), "r")
        first_event = {"kind": "begin", "by": "", "at": 0.0, "index": "docs", "topic": "", "query": None}
        log.append(lambda: [first_event], "docs")
        review = Review(log, DocumentSet(ids, [" ".join(row) for row in words[word_numbers]]), first_event)
        judged = rng.choice(total, 1000, replace=False).astype(str).tolist()
        review.judge(judged[:100], judged[100:])
        batch, batch_milliseconds = review.next(BATCH), []
        for _ in range(10):
            start = time.perf_counter()
            review.judge(batch[:1], batch[1:])
            batch = review.next(BATCH)
            batch_milliseconds.append(1000 * (time.perf_counter() - start))
        unread = [id for id in ids if id not in review.state().read][: total // 5]
        for position in range(0, len(unread), 1000):
            review.judge([], unread[position : position + 1000])
        single_milliseconds = []
        for id in rng.choice(total, 10, replace=False).astype(str):
            start = time.perf_counter()
            review.judge([], [id])
            single_milliseconds.append(1000 * (time.perf_counter() - start))
    return batch_milliseconds, single_milliseconds


def print_times() -> None:
    """Print the times of batches and judgements, without the features, which are computed once."""
    for total in (5_000, 100_000):
        batch, single = batch_times(total)
        print(
            f"{total:7} documents, 1,000 of them read: {np.median(batch):.0f} ms, maximum {max(batch):.0f} ms;"
            f" a judgement after {total // 5:,} more: {np.median(single):.0f} ms, maximum {max(single):.0f} ms",
            flush=True,
        )


if __name__ == "__main__":
    commands: dict[str, Callable[[], None]] = {
        "ranking": compare_ranking,
        "test": compare_p_values,
        "stopping": compare_stopping,
        "vectors": compare_vectors,
    }
    commands |= {"large": compare_memory, "other": compare_untuned, "time": print_times}
    commands[sys.argv[1]]()
