"""Compare default settings with lexical search: ``RESIFT_DATA=DIR python benchmarks/gates.py [NAME...]``.

A default setting should never be worse than a lexical search (BM25). Resift decides by measurements on the documents
("gates") whether it uses vectors, adapted vectors or a reranker. $RESIFT_DATA contains collections in BEIR's layout.
Values are nDCG@10 x 100. If irrelevant documents are judged too, rankings are condensed, that is, documents without a
judgement are omitted (Sakai 2007). At most 1,000 queries per collection are used, drawn at random with seed 0.

The table has a row for each default setting: the value of lexical search, the value of the default, in brackets the
value of the same setting without its gate, and the reason of the gate's decision. The defaults are:

- ``packaged``: packaged vectors with the weight chosen by ``resift index``. In brackets: with their own weight.
- ``adapted``: the vectors chosen by ``resift index --adapt``, which are adapted to the documents or not. In brackets:
  adapted vectors.
- ``queries``: static queries with the weight chosen by ``resift train queries``. In brackets: with the weight by their
  spread. Needs $RESIFT_ST, a folder of all-MiniLM-L6-v2, and its vectors in $RESIFT_DATA/minilm.
- ``reranker``: a trained reranker with packaged vectors, if it passes its gate. In brackets: with the reranker in any
  case. Measured on the last 30 % of the judged queries, which are used neither by training nor by the gate.

A star marks a default that is worse than lexical search.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from resift import Model, load_model
from resift.encoders.late_interaction import score_factors
from resift.encoders.queries import StaticQueries
from resift.errors import BadInput
from resift.vectors.weights import DEFAULT_ALPHA
from resift_lab.commands.served_search import ServedSearch
from resift_lab.corpus import DocumentFrequencies
from resift_lab.evaluation.baselines.late_interaction import SPELLING, select_documents
from resift_lab.evaluation.data import Collection, block_split, read_collection, with_queries
from resift_lab.evaluation.data.parts import SplitCollection
from resift_lab.evaluation.metrics import ndcg_at
from resift_lab.evaluation.served import Served, search_function
from resift_lab.evaluation.system import Encoder, TeacherAndStudent
from resift_lab.training.late_interaction_selection import train_reranker
from resift_lab.training.options import AdaptOptions, LateInteractionOptions, QueryOptions
from resift_lab.training.queries import EncodedDocuments, set_similarity_weights, train_queries
from resift_lab.training.self_supervised import adapt
from resift_lab.training.teachers import Teacher, folder_teacher
from resift_lab.training.weighing import choose_weight
from resift_lab.vectors.mixture import mix_vectors

COLLECTIONS = ("cranfield", "cisi", "medline", "vaswani", "chorus", "mtrag-clapnq", "mtrag-govt", "mtrag-fiqa")
COLLECTIONS += ("squad-train-part", "wiki-titles")
QUERIES = 1000
# name of the default, value of lexical search, of the default, of the default without the gate, and the gate's reason
Row = tuple[str, float, float, float, str]


def ndcg(collection: Collection, rankings: list[list[int]]) -> float:
    """Return nDCG@10 x 100 of the rankings, condensed if the collection has irrelevant judgements."""
    pooled, values = any(grade <= 0 for grades in collection.grades for grade in grades.values()), []
    for ranking, grades in zip(rankings, collection.grades, strict=True):
        rows = [row for row in ranking if row in grades or not pooled]
        values.append(ndcg_at([grades.get(row, 0.0) for row in rows], list(grades.values())))
    return 100 * float(np.mean(values))


def searches(collection: Collection, model: Model, alpha: float, documents: np.ndarray | None = None) -> Served:
    """Return a function that searches with the vectors of a model and the weight ``alpha``."""
    system = Encoder(model.encode, "cosine", model.table, alpha, max(alpha, model.max_alpha))
    if documents is not None:
        system = TeacherAndStudent(lambda _: documents, system)
    return search_function(ServedSearch, system, collection.documents)


def figure(collection: Collection, model: Model, alpha: float, documents: np.ndarray | None = None) -> float:
    """Return nDCG@10 x 100 of searches with the vectors of a model and the weight ``alpha``."""
    served = searches(collection, model, alpha, documents)
    return ndcg(collection, [served(query).positions.tolist() for query in collection.queries])


def rows(name: str) -> Iterator[Row]:
    """Yield the rows of a collection."""
    whole, packaged = read_collection(Path(os.environ["RESIFT_DATA"]) / name), load_model()
    collection = whole
    if len(whole.queries) > QUERIES:
        drawn = np.random.default_rng(0).permutation(len(whole.queries))[:QUERIES]
        collection = with_queries(whole, drawn.tolist())
    choice = choose_weight(packaged, collection.documents)
    text, general = figure(collection, packaged, 0.0), figure(collection, packaged, packaged.alpha)
    alpha, why = packaged.alpha, "too few documents"
    if choice is not None:
        alpha, why = choice.alpha or 0.0, choice.why["alpha"]
    default = figure(collection, packaged, alpha)
    yield "packaged", text, default, general, f"{alpha:.2f}: {why}"
    model = adapt(collection.documents, packaged.table, AdaptOptions(mixed=True))
    gate = model.table.info["adapted"]
    own = figure(collection, model, model.alpha or DEFAULT_ALPHA)
    yield "adapted", text, own if gate["better"] else default, own, f"{gate['alpha']:.2f}: {gate['why']}"
    if "RESIFT_ST" in os.environ and (Path(os.environ["RESIFT_DATA"]) / "minilm" / f"{name}.npz").is_file():
        yield queries(name, collection, text)
    yield from reranker(whole, packaged, alpha)


def queries(name: str, collection: Collection, text: float) -> Row:
    """Return the row of static queries."""
    encoded = np.load(Path(os.environ["RESIFT_DATA"]) / "minilm" / f"{name}.npz")
    places = {id: place for place, id in enumerate(encoded["document_ids"].tolist())}
    documents = encoded["documents"].astype(np.float32)[[places[id] for id in collection.document_ids]]
    teacher = Teacher("minilm", folder_teacher(os.environ["RESIFT_ST"]), Path(".resift/gates"))
    model: StaticQueries = train_queries(
        EncodedDocuments(collection.documents, documents), teacher, load_model().table, QueryOptions()
    )
    gate, alpha = model.table.info["taught"], model.alpha
    set_similarity_weights(model, gate["spread"])
    own = figure(collection, model, model.alpha, documents)
    return "queries", text, figure(collection, model, alpha, documents), own, f"{alpha:.2f}: {gate['why']}"


def reranker(collection: Collection, packaged: Model, alpha: float) -> Iterator[Row]:
    """Yield the row of a reranker, if there are enough judged queries to train it."""
    try:
        outer = block_split(collection, (40, 30, 30))
        known = with_queries(collection, [*outer.train.tolist(), *outer.validation.tolist()])
        split = block_split(known, (60, 15, 25))
    except BadInput:
        return
    unseen = with_queries(collection, outer.test[:QUERIES].tolist())
    served, text = searches(collection, packaged, alpha), figure(unseen, packaged, 0.0)
    table = mix_vectors(
        [packaged.table], corpus=DocumentFrequencies.from_texts(collection.documents), spelling=SPELLING
    )
    model, report = train_reranker(SplitCollection(known, split, True), table, served, LateInteractionOptions())
    prepared, plain, reranked = model.prepare(collection.documents), [], []
    for query in unseen.queries:
        hits = served(query)
        plain.append(hits.positions.tolist())
        support = model.discounted_scores(query, select_documents(prepared, hits.window_positions))
        reranked.append(hits.reranked(score_factors(support, model.alpha)).tolist())
    own, p = ndcg(unseen, reranked), report["p"]["vectors"]["ndcg@10"]
    reason = f"{'passed' if report['better'] else 'refused'}, p {p:.4f} by {report['judges']} queries"
    yield "reranker", text, own if report["better"] else ndcg(unseen, plain), own, reason


if __name__ == "__main__":
    print(f"{'':27}  lexical  default  [without the gate]  reason")
    for name in sys.argv[1:] or COLLECTIONS:
        for kind, text, default, own, why in rows(name):
            mark = "*" if round(default, 1) < round(text, 1) else " "
            print(f"{name:17} {kind:9} {text:5.1f} {default:7.1f}{mark} [{own:5.1f}]  {why}", flush=True)
