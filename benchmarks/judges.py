"""What a model's judgements of the first hits buy beside people's marks.

    RESIFT_DATA=DIR python benchmarks/judges.py

The judge is all-MiniLM-L6-v2, by its vectors in $RESIFT_DATA/minilm: a stand-in for a cross-encoder or a language
model, which judge better and cost more. Its score of a hit, -1 to 1, is by how many times two standard deviations its
cosine with the query lies above those of hits 11 to 100; no label has a part in it. nDCG@10 x 100 (chorus: condensed)
of the documents beyond the first ten hits, packaged vectors: before, with scores of the first 3, 5 and 10 hits, with
people's marks of those of the first 10 that were judged, and the gain of 10 scores in percent of theirs.
"""

import os
import sys
from pathlib import Path

import numpy as np

from resift import load_model
from resift_lab.commands.served_search import ServedSearch
from resift_lab.evaluation.data import read_collection
from resift_lab.evaluation.feedback.bench import FeedbackBench
from resift_lab.evaluation.feedback.graded import Graded
from resift_lab.evaluation.system import Encoder

COLLECTIONS, BUDGETS, FIRST, DEPTH = ("cranfield", "cisi", "medline", "vaswani", "chorus"), (3, 5, 10), 10, 100
HEADS = ("before", *(f"{budget} scores" for budget in BUDGETS), "10 marks", "part")


def row(name: str) -> list[float]:
    """A collection's figures, in the order of HEADS."""
    data, model = Path(os.environ["RESIFT_DATA"]), load_model()
    collection, teacher = read_collection(data / name), np.load(data / "minilm" / f"{name}.npz")
    places = {id: place for place, id in enumerate(teacher["document_ids"].tolist())}
    documents = teacher["documents"].astype(np.float32)[[places[id] for id in collection.document_ids]]
    asked = dict(zip(teacher["query_ids"].tolist(), teacher["queries"].astype(np.float32), strict=True))
    bench = FeedbackBench(
        Encoder(model.encode, "cosine", model.table), collection.documents, collection.queries, ServedSearch
    )
    people, found = Graded(collection), []
    column = people.metrics.index("condensed_ndcg@10") if "condensed_ndcg@10" in people.metrics else 0
    for query, id in enumerate(collection.query_ids):
        plain = bench.served(query)
        ranking = np.argsort(-plain, kind="stable")[: int(np.isfinite(plain).sum())]
        first, cosines = ranking[:FIRST].tolist(), documents[ranking[:DEPTH]] @ asked[id]
        others = cosines[FIRST:] if len(cosines) > 2 * FIRST else cosines
        scores = np.clip((cosines[:FIRST] - others.mean()) / max(2 * float(others.std()), 1e-6), -1, 1).tolist()
        marks = [(document, grade) for document, grade in people.judgements(query, ranking, FIRST) if document in first]
        sessions = [[], *(list(zip(first, scores, strict=True))[:budget] for budget in BUDGETS), marks]
        rankings = [
            bench.served(query, bench.judged_documents(collection.queries[query], one)) if one else plain
            for one in sessions
        ]
        found.append([people.measure(query, scores_, first)[column] for scores_ in rankings])
    means = (100 * np.nanmean(np.array(found), axis=0)).tolist()
    return [*means, 100 * (means[-2] - means[0]) / (means[-1] - means[0])]


if __name__ == "__main__":
    print(f"{'':12}", *(f"{head:>9}" for head in HEADS))
    for name in sys.argv[1:] or COLLECTIONS:
        print(f"{name:12}", *(f"{figure:9.1f}" for figure in row(name)), flush=True)
