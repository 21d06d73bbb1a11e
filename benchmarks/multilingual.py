"""Evaluate languages other than English: ``python benchmarks/multilingual.py TABLE COLLECTION...``.

TABLE is a table of word vectors in many languages, written by ``benchmarks/unpack_e5.py``. The collections are folders
of ``benchmarks/multilingual_texts.py``. Prints nDCG@10 x 100 of

- BM25 (of the embedded engine),
- resift-en and the table, without BM25,
- resift-en and the table with BM25 (``+``),
- resift-en and the table with BM25, adapted to the documents without labels (``ad. +``, see ``resift train self``).

"known" is the percentage of the documents' words (without numbers) that have a vector in the table. "across" is
cross-language retrieval: queries in the language, and English pages, without BM25. resift-en only knows words that are
spelt as in English.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

from resift.errors import BadInput
from resift.text import tokenize
from resift.vectors.packaged import DEFAULT_MODEL, load_vectors
from resift.vectors.table import WordVectors
from resift_lab.commands.served_search import ServedSearch
from resift_lab.evaluation.data import Collection, read_collection
from resift_lab.evaluation.protocol import Run, run_hybrid, run_retrieval
from resift_lab.evaluation.registry import build_system, load_system
from resift_lab.training.options import AdaptOptions
from resift_lab.training.self_supervised import adapt

HEADS = ("known", "BM25", "en", "table", "en +", "table +", "en ad. +", "ad. +", "across en", "across")


def known(table: WordVectors, texts: list[str]) -> float:
    """Return the percentage of the texts' words that have a vector."""
    counts = Counter(word for text in texts for word in tokenize(text) if not word.isdigit())
    return 100 * sum(n for word, n in counts.items() if word in table.index) / sum(counts.values())


def figure(run: Run) -> float:
    """Return nDCG@10 x 100 of a run."""
    return 100 * run.means()["ndcg@10"]


def adapted(name: str, collection: Collection) -> float:
    """Return nDCG@10 x 100 of BM25 with adapted vectors. NaN if there are too few documents to adapt to."""
    try:
        model = adapt(collection.documents, load_vectors(name), AdaptOptions())
    except BadInput:
        return float("nan")
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model"))
        return figure(run_hybrid(load_system(Path(folder, "model")), collection, None, ServedSearch)[0])


def table_row(folder: Path, name: str) -> list[float]:
    """Return the percentage of known words in a collection and its nDCG@10 x 100, in the order of HEADS."""
    collection, across = read_collection(folder), folder.with_name(f"{folder.name}-en")
    mixed, lexical, alone = run_hybrid(build_system("mean", name), collection, None, ServedSearch)
    english = run_hybrid(build_system("mean"), collection, None, ServedSearch)
    runs = (lexical, english[2], alone, english[0], mixed)
    values = [known(load_vectors(name), collection.documents), *map(figure, runs)]
    values += [adapted(start, collection) for start in (DEFAULT_MODEL, name)]
    if across.is_dir():
        pairs = read_collection(across)
        values += [figure(run_retrieval(build_system("mean", start), pairs)) for start in (DEFAULT_MODEL, name)]
    return values


if __name__ == "__main__":
    print(f"{'':12}", *(f"{head:>9}" for head in HEADS))
    for path in map(Path, sys.argv[2:]):
        print(f"{path.name:12}", *(f"{value:9.1f}" for value in table_row(path, sys.argv[1])), flush=True)
