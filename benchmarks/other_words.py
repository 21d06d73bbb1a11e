"""Measure searches whose queries use other words than the documents.

    RESIFT_DATA=… python benchmarks/other_words.py          # recall@100 of BM25, the packaged vectors, and searches
    RESIFT_DATA=… python benchmarks/other_words.py ordinary # nDCG@10 of original queries, with and without widening
    OPENSEARCH_URL=… RESIFT_DATA=… python benchmarks/other_words.py cost     # recall@100, and search times on a node
    RESIFT_DATA=… python benchmarks/other_words.py make     # write benchmarks/data/other_words.json

The queries are titles of documents in Cranfield and CISI, for which only this document is relevant, and queries of
chorus with people's judgements. Each content word is replaced with the nearest word of another stem, by the mean cosine
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
# The collections whose original queries are searched, and the maximum number of queries of each collection.
ORIGINAL_COLLECTIONS, MAX_ORIGINAL_QUERIES = (*COLLECTIONS, "medline", "vaswani"), 150
QUERIES_PER_COLLECTION = 100
# A replacement is among the MAX_NEIGHBOURS nearest of the FREQUENT_WORDS most frequent words, has at least the cosine
# MIN_COSINE, and does not begin with the same SHARED_PREFIX letters.
FREQUENT_WORDS, MAX_NEIGHBOURS, MIN_COSINE, SHARED_PREFIX = 40_000, 12, 0.55, 5
# Replacements that are similar in general texts but mean something else in these texts: lines "word: replacements", or
# "all: words" for words that are never replaced.
REJECTED_FILE = FILE.parent / "refused_words.txt"


class NearestWord:
    """Finds the nearest word with another stem, by the mean cosine in two tables of word vectors.

    Args:
        folder: Folder of the tables.
    """

    def __init__(self, folder: Path) -> None:
        tables = [_table(folder / f"{name}.npz") for name in TABLES]
        index = [dict(zip(words[::-1], rows[::-1], strict=True)) for words, rows, _ in tables]
        frequent = tables[0][0][:FREQUENT_WORDS]
        self.words = [
            word
            for word in frequent
            if word.isalpha() and len(word) > 2 and word in index[1] and word not in FUNCTION_WORDS
        ]
        self.tables = [
            (rows, vectors, vectors[[rows[word] for word in self.words]])
            for rows, (_, _, vectors) in zip(index, tables, strict=True)
        ]

        self.rejected: dict[str, list[str]] = {"all": []}
        for line in REJECTED_FILE.read_text("utf-8").splitlines():
            word, _, replacements = line.partition(":")
            self.rejected.setdefault(word, []).extend(replacements.split())

    def __call__(self, word: str) -> str | None:
        """Return the replacement of a word, or None if the word has no near neighbour with another stem."""
        vectors_of_word = [
            (vectors[rows[word]], all_vectors) for rows, vectors, all_vectors in self.tables if word in rows
        ]
        if len(vectors_of_word) < len(TABLES):
            return None
        cosines = np.mean([all_vectors @ vector for vector, all_vectors in vectors_of_word], axis=0)
        if word in self.rejected["all"]:
            return None
        for row in np.argsort(-cosines)[:MAX_NEIGHBOURS]:
            candidate = self.words[row]
            has_same_stem = stem(candidate) == stem(word) or candidate[:SHARED_PREFIX] == word[:SHARED_PREFIX]
            if cosines[row] >= MIN_COSINE and not (has_same_stem or candidate in self.rejected.get(word, ())):
                return candidate
        return None


def _table(path: Path) -> tuple[list[str], Any, Any]:
    """Load a table of word vectors.

    Returns:
        The words, the row number of each word in the vectors, and the vectors, scaled to length 1.
    """
    stored = np.load(path)
    words = stored["words"].tobytes().decode().split("\n")
    vectors = stored["vectors"].astype(np.float32)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return words, stored["rows"] if "rows" in stored else np.arange(len(words)), vectors


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a gzipped file with a JSON object in each line."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def replace_words(text: str, nearest: NearestWord) -> str | None:
    """Replace the content words of a text with their nearest words.

    Returns:
        The replacements, or None if fewer than two thirds of the content words have a nearest word.
    """
    content_words = [word for word in tokenize(text) if word not in FUNCTION_WORDS and len(word) > 1]
    replacements = list(dict.fromkeys(filter(None, map(nearest, content_words))))
    return " ".join(replacements) if replacements and 3 * len(replacements) >= 2 * len(content_words) else None


def make(data: Path) -> dict[str, list[list[str]]]:
    """Make up to a hundred queries in other words for each collection.

    Returns:
        For each query: the id of the document or the original query, the original text, and the replacements.
    """
    nearest, queries = NearestWord(data / "vectors"), dict[str, list[list[str]]]()
    for name in COLLECTIONS:
        kind, field = ("queries", "text") if name == "chorus" else ("corpus", "title")
        texts = [(row["_id"], row[field]) for row in read(data / name / f"{kind}.jsonl.gz") if row.get(field)]
        random.Random(0).shuffle(texts)
        replaced = ((id, text, replace_words(text, nearest)) for id, text in texts)
        rows = [[id, text, replacement] for id, text, replacement in replaced if replacement]
        queries[name] = rows[:QUERIES_PER_COLLECTION]
    return queries


def recall(name: str, system_name: str, data: Path) -> float:
    """Measure how well a system finds relevant documents for queries in other words.

    Args:
        name: Name of the collection.
        system_name: Name of the system, as in ``resift eval --encoder``.
        data: Folder of all collections.

    Returns:
        The mean recall@100, times 100.
    """
    (collection, replaced), system = replaced_queries(name, data), build_system(system_name)
    database, queries = system.fit(collection.documents), system.encode_queries([query for query, _ in replaced])
    recalls = []
    for part, block in similarity_blocks(queries, database, system.similarity):
        for scores, (_, relevant) in zip(block, replaced[part], strict=True):
            best = np.argsort(-scores, kind="stable")[:100]
            recalls.append(len(relevant & set(best[scores[best] > 0].tolist())) / len(relevant))
    return 100 * float(np.mean(recalls))


def replaced_queries(name: str, data: Path) -> tuple[Any, list[tuple[str, set[int]]]]:
    """Read a collection and its queries in other words.

    Returns:
        The collection, and for each query its text and the positions of the relevant documents.
    """
    collection = read_collection(data / name)
    rows = {id: row for row, id in enumerate(collection.document_ids)}
    relevant_documents = {
        id: {row for row, grade in grades.items() if grade > 0}
        for id, grades in zip(collection.query_ids, collection.grades, strict=True)
    }
    queries = [
        (replaced, relevant_documents.get(id) if name == "chorus" else {rows[id]})
        for id, _, replaced in stored_queries(name)
    ]
    return collection, [(replaced, relevant) for replaced, relevant in queries if relevant]


@contextlib.contextmanager
def open_index(documents: Sequence[str]) -> Iterator[Index]:
    """Yield an index of the embedded engine with the given documents, whose ids are their positions."""
    with tempfile.TemporaryDirectory() as folder, resift.open(str(Path(folder) / "engine.db")) as library:
        index = library.index("documents", fields=["text"])
        index.add({"id": str(row), "text": text} for row, text in enumerate(documents))
        library.service.words.wait_seconds = 600.0
        yield index


def served_recall(name: str, data: Path) -> dict[str, float]:
    """Measure how well searches in the embedded engine find relevant documents for queries in other words.

    Args:
        name: Name of the collection.
        data: Folder of all collections.

    Returns:
        The mean recall@100, times 100, of lexical searches (``words``), of searches with vectors but without an HNSW
        index, as after ``resift attach --vectors`` (``vectors``), and of searches with approximate k-NN (``graph``).
    """
    collection, replaced = replaced_queries(name, data)
    with open_index(collection.documents) as index:
        searches: dict[str, dict[str, Any]] = {"words": {"alpha": 0.0, "knn": 0}, "vectors": {"knn": 0}, "graph": {}}
        recalls: dict[str, float] = {}
        for kind, options in searches.items():
            hits = [{int(hit.id) for hit in index.search(query, 100, **options)} for query, _ in replaced]
            shares = [
                len(hit_ids & relevant) / len(relevant) for hit_ids, (_, relevant) in zip(hits, replaced, strict=True)
            ]
            recalls[kind] = 100 * float(np.mean(shares))
        return recalls


def widening_gains(name: str, data: Path) -> Iterator[str]:
    """Measure how query expansion changes searches for original queries.

    Hits without a judgement are omitted for chorus, which has shallow pools (condensed nDCG).

    Yields:
        A line of text with the share of queries that were widened, nDCG@10 without widening, and the gain with its
        standard error.
    """
    collection = read_collection(data / name)
    judged_queries = [
        row for row, grades in enumerate(collection.grades) if any(grade > 0 for grade in grades.values())
    ]
    judged_queries = judged_queries[:: max(1, len(judged_queries) // MAX_ORIGINAL_QUERIES)]
    with open_index(collection.documents) as index:

        def ndcg(row: int, **options: Any) -> tuple[float, bool]:
            grades = collection.grades[row]
            hits = index.search(collection.queries[row], 100 if name == "chorus" else 10, **options)
            ids = [int(hit.id) for hit in hits if name != "chorus" or int(hit.id) in grades]
            value = ndcg_at([grades.get(id, 0) for id in ids], list(grades.values()), 10)
            return 100 * value, "widened" in hits.response["resift"]

        plain = np.array([ndcg(row, widen=False)[0] for row in judged_queries])
        for kind, options in {"vectors": {"knn": 0}, "graph": {}}.items():
            values = [ndcg(row, **options) for row in judged_queries]
            gains = np.array([gain for gain, _ in values]) - plain
            share, error = np.mean([is_widened for _, is_widened in values]), gains.std() / len(gains) ** 0.5
            yield f"{kind} {share:.0%} widened, {plain.mean():.2f} {gains.mean():+.2f} ± {error:.2f}"


def cost(data: Path, url: str, rounds: int = 10) -> dict[str, float]:
    """Measure search times for queries of chorus in OpenSearch, in an index with vectors.

    Args:
        data: Folder of all collections.
        url: Address of OpenSearch.
        rounds: Number of rounds, after three rounds to warm up.

    Returns:
        The share of widened queries, the median time of plain searches for the original queries, and the ratio of the
        median time of rewritten searches in other words to this time.
    """
    rows = list(read(data / "chorus" / "corpus.jsonl.gz"))
    engine, client, name = OpenSearchEngine(url, timeout=300), Client(url), "other-words"
    try:
        _index(engine, name, [(row["title"], row["text"]) for row in rows])
        resift.attach(url, name, vectors=True, force=True, adapt=False, fields=FIELDS).run()
        with tempfile.TemporaryDirectory() as folder:
            app = create_app(Config(store=str(Path(folder) / "sessions.db")), engine=engine, model=load_model())
            app.extensions["resift"].words.wait_seconds = 600.0
            post = app.test_client().post
            plain = [hits_body(text) for _, text, _ in stored_queries("chorus")]
            replaced = [hits_body(text) for _, _, text in stored_queries("chorus")]
            requests = [{**body, "ext": {"ml_inference": {"widen": True}}} for body in replaced]
            answers = [post("/v1/rewrite", json={"index": name, "body": body}).get_json()["body"] for body in requests]
        bodies = [{key: value for key, value in body.items() if key != "ext"} for body in answers]
        kinds, times = {"plain": plain, "other words": bodies}, dict[str, list[float]]()
        for turn in range(rounds + 3):
            for kind, sent_bodies in kinds.items():
                for body in sent_bodies:
                    duration = seconds(lambda body=body: client.post(f"/{name}/_search?search_pipeline=_none", body))
                    if turn >= 3:
                        times.setdefault(kind, []).append(duration)
        medians = {kind: float(np.median(durations)) for kind, durations in times.items()}
        return {
            "widened": sum(WIDENED_NAME in str(body) for body in bodies) / len(bodies),
            "plain ms": round(1000 * medians["plain"], 2),
            "ratio": round(medians["other words"] / medians["plain"], 3),
        }
    finally:
        engine.drop_if_exists(name)
        engine.close()


def stored_queries(name: str) -> list[list[str]]:
    """Return the stored queries of a collection.

    Returns:
        For each query: the id, the original text, and the text in other words.
    """
    stored: dict[str, list[list[str]]] = json.loads(FILE.read_text("utf-8"))
    return stored[name]


if __name__ == "__main__":
    folder = Path(os.environ["RESIFT_DATA"])
    if sys.argv[1:] == ["make"]:
        FILE.write_text(json.dumps(make(folder), indent=0, ensure_ascii=False) + "\n", "utf-8")
    if sys.argv[1:] == ["ordinary"]:
        for collection_name in ORIGINAL_COLLECTIONS:
            print(f"{collection_name:10}", "; ".join(widening_gains(collection_name, folder)), flush=True)
        sys.exit()
    for collection_name in COLLECTIONS:
        figures = (f"{system} {recall(collection_name, system, folder):.1f}" for system in ("bm25", "mean"))
        served_figures = (f"{kind} {figure:.1f}" for kind, figure in served_recall(collection_name, folder).items())
        print(f"{collection_name:10} recall@100:", ", ".join([*figures, *served_figures]), flush=True)
    if sys.argv[1:] == ["cost"]:
        print(json.dumps(cost(folder, os.environ["OPENSEARCH_URL"])))
