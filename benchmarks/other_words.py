"""Measure searches whose queries use other words than the documents.

    RESIFT_DATA=… python benchmarks/other_words.py          # recall@100 of BM25, the packaged vectors, and searches
    RESIFT_DATA=… python benchmarks/other_words.py ordinary # nDCG@10 of original queries, with and without widening
    OPENSEARCH_URL=… RESIFT_DATA=… python benchmarks/other_words.py cost     # recall@100, and search times on a node
    RESIFT_DATA=… python benchmarks/other_words.py make     # write benchmarks/data/other_words.json

The queries are titles of documents in Cranfield and CISI, for which only this document is relevant, and queries of
chorus with people's judgements. Each content word is replaced by the nearest word with another stem, by the mean cosine
of vectors of GloVe and spaCy, which searches do not use. refused_words.txt lists replacements that have another meaning
in these texts.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from compact_vectors import _index
from speed_cluster import FIELDS, Client, hits_body
from speed_timing import seconds

import resift
from resift import load_model
from resift.library import Index
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.porter import stem
from resift.reranker import Config, create_app
from resift.rewriting.clauses import WIDENED_NAME
from resift.text import FUNCTION_WORDS, tokenize
from resift_lab.evaluation.data import read_collection
from resift_lab.evaluation.metrics import ndcg_at
from resift_lab.evaluation.pairwise import similarity_blocks
from resift_lab.evaluation.registry import build_system

FILE = Path(__file__).parent / "data" / "other_words.json"
TABLES = ("glove.6B.50d", "en_core_web_md.300d")
COLLECTIONS = ("cranfield", "cisi", "chorus")
# collections whose original queries are searched, and the maximum number of queries of each
ORDINARY, QUERIES = (*COLLECTIONS, "medline", "vaswani"), 150
WANTED, FREQUENT, LEAST, SAME_BEGINNING, CONSIDERED = 100, 40_000, 0.55, 5, 12
# words that are similar in general texts but have another or the opposite meaning in these texts: "word: replacements",
# or "all: words" that are never replaced
REFUSED_FILE = FILE.parent / "refused_words.txt"


class Nearest:
    """A function that returns the nearest word with another stem, by the mean cosine in two tables.

    Args:
        folder: Folder of the tables.
    """

    def __init__(self, folder: Path) -> None:
        tables = [_table(folder / f"{name}.npz") for name in TABLES]
        index = [dict(zip(words[::-1], rows[::-1], strict=True)) for words, rows, _ in tables]
        frequent = tables[0][0][:FREQUENT]
        self.words = [
            word
            for word in frequent
            if word.isalpha() and len(word) > 2 and word in index[1] and word not in FUNCTION_WORDS
        ]
        self.tables = [
            (rows, vectors, vectors[[rows[word] for word in self.words]])
            for rows, (_, _, vectors) in zip(index, tables, strict=True)
        ]

        self.refused: dict[str, list[str]] = {"all": []}
        for line in REFUSED_FILE.read_text("utf-8").splitlines():
            word, _, others = line.partition(":")
            self.refused.setdefault(word, []).extend(others.split())

    def __call__(self, word: str) -> str | None:
        known = [(vectors[rows[word]], of_all) for rows, vectors, of_all in self.tables if word in rows]
        if len(known) < len(TABLES):
            return None
        cosines = np.mean([of_all @ vector for vector, of_all in known], axis=0)
        if word in self.refused["all"]:
            return None
        for row in np.argsort(-cosines)[:CONSIDERED]:
            other = self.words[row]
            alike = stem(other) == stem(word) or other[:SAME_BEGINNING] == word[:SAME_BEGINNING]
            if cosines[row] >= LEAST and not (alike or other in self.refused.get(word, ())):
                return other
        return None


def _table(path: Path) -> tuple[list[str], Any, Any]:
    stored = np.load(path)
    words = stored["words"].tobytes().decode().split("\n")
    vectors = stored["vectors"].astype(np.float32)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return words, stored["rows"] if "rows" in stored else np.arange(len(words)), vectors


def read(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def in_other_words(text: str, nearest: Nearest) -> str | None:
    """Replace the content words of a text by their nearest words.

    Returns:
        The words, or None if fewer than two thirds of the content words have a nearest word.
    """
    content = [word for word in tokenize(text) if word not in FUNCTION_WORDS and len(word) > 1]
    others = list(dict.fromkeys(filter(None, map(nearest, content))))
    return " ".join(others) if others and 3 * len(others) >= 2 * len(content) else None


def make(data: Path) -> dict[str, list[list[str]]]:
    """Return up to a hundred queries per collection: id (of the document or the query), text, and replaced words."""
    nearest, made = Nearest(data / "vectors"), dict[str, list[list[str]]]()
    for name in COLLECTIONS:
        kind, field = ("queries", "text") if name == "chorus" else ("corpus", "title")
        texts = [(row["_id"], row[field]) for row in read(data / name / f"{kind}.jsonl.gz") if row.get(field)]
        random.Random(0).shuffle(texts)
        others = ((id, text, in_other_words(text, nearest)) for id, text in texts)
        kept = [[id, text, other] for id, text, other in others if other]
        made[name] = kept[:WANTED]
    return made


def recall(name: str, system_name: str, data: Path) -> float:
    """Return the mean recall@100 x 100 of a system (``resift eval --encoder``) for queries in other words."""
    (collection, wanted), system = asked_of(name, data), build_system(system_name)
    database, queries = system.fit(collection.documents), system.queries([other for other, _ in wanted])
    found = []
    for part, block in similarity_blocks(queries, database, system.similarity):
        for scores, (_, relevant) in zip(block, wanted[part], strict=True):
            first = np.argsort(-scores, kind="stable")[:100]
            found.append(len(relevant & set(first[scores[first] > 0].tolist())) / len(relevant))
    return 100 * float(np.mean(found))


def asked_of(name: str, data: Path) -> tuple[Any, list[tuple[str, set[int]]]]:
    """Return a collection, and its queries in other words with the positions of relevant documents."""
    collection = read_collection(data / name)
    rows = {id: row for row, id in enumerate(collection.document_ids)}
    judged = {
        id: {row for row, grade in grades.items() if grade > 0}
        for id, grades in zip(collection.query_ids, collection.grades, strict=True)
    }
    asked = [(other, judged.get(id) if name == "chorus" else {rows[id]}) for id, _, other in queries_of(name)]
    return collection, [(other, relevant) for other, relevant in asked if relevant]


@contextlib.contextmanager
def opened(documents: Sequence[str]) -> Iterator[Index]:
    """Yield an index of the embedded engine with the documents. Their ids are their positions."""
    with tempfile.TemporaryDirectory() as folder, resift.open(str(Path(folder) / "engine.db")) as library:
        index = library.index("documents", fields=["text"])
        index.add({"id": str(row), "text": text} for row, text in enumerate(documents))
        library.service.words.wait_seconds = 600.0
        yield index


def served(name: str, data: Path) -> dict[str, float]:
    """Return the mean recall@100 x 100 of searches in the embedded engine for queries in other words.

    Returns:
        The values of lexical searches (``words``), of searches with vectors but without an HNSW index, the format of
        ``resift attach --vectors`` (``vectors``), and of searches with approximate k-NN (``graph``).
    """
    collection, wanted = asked_of(name, data)
    with opened(collection.documents) as index:
        kinds: dict[str, dict[str, Any]] = {"words": {"alpha": 0.0, "knn": 0}, "vectors": {"knn": 0}, "graph": {}}
        found: dict[str, float] = {}
        for kind, options in kinds.items():
            hits = [{int(hit.id) for hit in index.search(other, 100, **options)} for other, _ in wanted]
            shares = [len(ids & relevant) / len(relevant) for ids, (_, relevant) in zip(hits, wanted, strict=True)]
            found[kind] = 100 * float(np.mean(shares))
        return found


def ordinary(name: str, data: Path) -> Iterator[str]:
    """Yield the share of original queries that is widened, and the gain in nDCG@10 with its standard error.

    For chorus, which has shallow pools, hits without a judgement are omitted (condensed nDCG).
    """
    collection = read_collection(data / name)
    judged = [row for row, grades in enumerate(collection.grades) if any(grade > 0 for grade in grades.values())]
    judged = judged[:: max(1, len(judged) // QUERIES)]
    with opened(collection.documents) as index:

        def ndcg(row: int, **options: Any) -> tuple[float, bool]:
            grades = collection.grades[row]
            hits = index.search(collection.queries[row], 100 if name == "chorus" else 10, **options)
            ids = [int(hit.id) for hit in hits if name != "chorus" or int(hit.id) in grades]
            found = ndcg_at([grades.get(id, 0) for id in ids], list(grades.values()), 10)
            return 100 * found, "widened" in hits.response["resift"]

        plain = np.array([ndcg(row, widen=False)[0] for row in judged])
        for kind, options in {"vectors": {"knn": 0}, "graph": {}}.items():
            found = [ndcg(row, **options) for row in judged]
            gains = np.array([gain for gain, _ in found]) - plain
            share, error = np.mean([is_widened for _, is_widened in found]), gains.std() / len(gains) ** 0.5
            yield f"{kind} {share:.0%} widened, {plain.mean():.2f} {gains.mean():+.2f} ± {error:.2f}"


def cost(data: Path, url: str, rounds: int = 10) -> dict[str, float]:
    """Measure search times for chorus in OpenSearch, in an index with vectors.

    Returns:
        The share of widened queries, the median time of plain searches for a hundred titles with the original queries,
        and the ratio of the median time of rewritten searches in other words to it.
    """
    rows = list(read(data / "chorus" / "corpus.jsonl.gz"))
    engine, client, name = OpenSearchEngine(url, timeout=300), Client(url), "other-words"
    try:
        _index(engine, name, [(row["title"], row["text"]) for row in rows])
        resift.attach(url, name, vectors=True, adapt=False, fields=FIELDS).run()
        with tempfile.TemporaryDirectory() as folder:
            app = create_app(Config(store=str(Path(folder) / "sessions.db")), engine=engine, model=load_model())
            app.extensions["resift"].words.wait_seconds = 600.0
            post = app.test_client().post
            plain = [hits_body(text) for _, text, _ in queries_of("chorus")]
            other = [hits_body(text) for _, _, text in queries_of("chorus")]
            asked = [{**body, "ext": {"ml_inference": {"widen": True}}} for body in other]
            found = [post("/v1/rewrite", json={"index": name, "body": body}).get_json()["body"] for body in asked]
        bodies = [{key: value for key, value in body.items() if key != "ext"} for body in found]
        kinds, taken = {"plain": plain, "other words": bodies}, dict[str, list[float]]()
        for turn in range(rounds + 3):
            for kind, sent in kinds.items():
                for body in sent:
                    spent = seconds(lambda body=body: client.post(f"/{name}/_search?search_pipeline=_none", body))
                    if turn >= 3:
                        taken.setdefault(kind, []).append(spent)
        medians = {kind: float(np.median(spent)) for kind, spent in taken.items()}
        return {
            "widened": sum(WIDENED_NAME in str(body) for body in bodies) / len(bodies),
            "plain ms": round(1000 * medians["plain"], 2),
            "ratio": round(medians["other words"] / medians["plain"], 3),
        }
    finally:
        engine.drop_if_exists(name)
        engine.close()


def queries_of(name: str) -> list[list[str]]:
    """Return the stored queries of a collection: id, text, and the text in other words."""
    frozen: dict[str, list[list[str]]] = json.loads(FILE.read_text("utf-8"))
    return frozen[name]


if __name__ == "__main__":
    folder = Path(os.environ["RESIFT_DATA"])
    if sys.argv[1:] == ["make"]:
        FILE.write_text(json.dumps(make(folder), indent=0, ensure_ascii=False) + "\n", "utf-8")
    if sys.argv[1:] == ["ordinary"]:
        for collection_name in ORDINARY:
            print(f"{collection_name:10}", "; ".join(ordinary(collection_name, folder)), flush=True)
        sys.exit()
    for collection_name in COLLECTIONS:
        figures = (f"{system} {recall(collection_name, system, folder):.1f}" for system in ("bm25", "mean"))
        served_figures = (f"{kind} {figure:.1f}" for kind, figure in served(collection_name, folder).items())
        print(f"{collection_name:10} recall@100:", ", ".join([*figures, *served_figures]), flush=True)
    if sys.argv[1:] == ["cost"]:
        print(json.dumps(cost(folder, os.environ["OPENSEARCH_URL"])))
