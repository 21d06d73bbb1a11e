"""Compare a model's judgements with people's: ``RESIFT_DATA=DIR python benchmarks/judges.py [COLLECTION...]``.

The model is all-MiniLM-L6-v2, with its vectors in $RESIFT_DATA/minilm. It represents cross-encoders and language
models, which judge better but are more expensive. Its score of a hit is z / 2, limited to -1 to 1, where z is the
standard score of the hit's cosine with the query among the cosines of hits 11 to 100. No label is used.

Prints nDCG@10 x 100 (condensed for chorus) of the documents after the first ten hits, with packaged vectors:

- without judgements,
- with the model's scores of the first 3, 5 and 10 hits,
- with people's judgements of the first ten hits.

The last column is the gain by ten scores, in percent of the gain by people's judgements.
"""

import os
import sys
from pathlib import Path

import numpy as np

from resift import load_model
from resift_lab.commands.served_search import ServedSearch
from resift_lab.evaluation.data import read_collection
from resift_lab.evaluation.feedback.bench import FeedbackBench
from resift_lab.evaluation.feedback.graded import GradedFeedback
from resift_lab.evaluation.system import Encoder

COLLECTIONS, BUDGETS, FIRST, DEPTH = ("cranfield", "cisi", "medline", "vaswani", "chorus"), (3, 5, 10), 10, 100
HEADS = ("before", *(f"{budget} scores" for budget in BUDGETS), "10 marks", "part")


def row(name: str) -> list[float]:
    """Return the values of a collection, in the order of HEADS."""
    data, model = Path(os.environ["RESIFT_DATA"]), load_model()
    collection, teacher = read_collection(data / name), np.load(data / "minilm" / f"{name}.npz")
    places = {id: place for place, id in enumerate(teacher["document_ids"].tolist())}
    documents = teacher["documents"].astype(np.float32)[[places[id] for id in collection.document_ids]]
    query_vectors = dict(zip(teacher["query_ids"].tolist(), teacher["queries"].astype(np.float32), strict=True))
    bench = FeedbackBench(
        Encoder(model.encode, "cosine", model.table), collection.documents, collection.queries, ServedSearch
    )
    people, values = GradedFeedback(collection), []
    column = people.metrics.index("condensed_ndcg@10") if "condensed_ndcg@10" in people.metrics else 0
    for query, id in enumerate(collection.query_ids):
        plain = bench.search_scores(query)
        ranking = np.argsort(-plain, kind="stable")[: int(np.isfinite(plain).sum())]
        first, cosines = ranking[:FIRST].tolist(), documents[ranking[:DEPTH]] @ query_vectors[id]
        later = cosines[FIRST:] if len(cosines) > 2 * FIRST else cosines
        scores = np.clip((cosines[:FIRST] - later.mean()) / max(2 * float(later.std()), 1e-6), -1, 1).tolist()
        marks = [
            (document, grade)
            for document, grade in people.correct_judgements(query, ranking, FIRST)
            if document in first
        ]
        sessions = [[], *(list(zip(first, scores, strict=True))[:budget] for budget in BUDGETS), marks]
        rankings = [
            bench.search_scores(query, bench.judged_documents(collection.queries[query], judged)) if judged else plain
            for judged in sessions
        ]
        values.append([people.measure(query, ranked, first)[column] for ranked in rankings])
    means = (100 * np.nanmean(np.array(values), axis=0)).tolist()
    return [*means, 100 * (means[-2] - means[0]) / (means[-1] - means[0])]


if __name__ == "__main__":
    print(f"{'':12}", *(f"{head:>9}" for head in HEADS))
    for name in sys.argv[1:] or COLLECTIONS:
        print(f"{name:12}", *(f"{value:9.1f}" for value in row(name)), flush=True)
