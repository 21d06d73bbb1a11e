"""Compare text analyzers in several languages: ``python benchmarks/analyzers.py COLLECTION...``.

The collections are folders of ``benchmarks/multilingual_texts.py``, whose names end in a language code. Prints nDCG@10
x 100 of lexical searches (BM25) in indices with the analyzers ``standard`` and ``english`` and with the analyzer of
the language.
"""

import sys
from functools import partial
from pathlib import Path

from multilingual import figure

from resift import load_model
from resift_lab.commands.served_search import ServedSearch
from resift_lab.evaluation.data import read_collection
from resift_lab.evaluation.protocol import run_hybrid
from resift_lab.evaluation.system import Encoder

ANALYZERS = {
    "ca": "catalan",
    "da": "danish",
    "de": "german",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nl": "dutch",
    "pt": "portuguese",
    "ru": "russian",
    "sv": "swedish",
}


def ndcg_by_analyzer(folder: Path) -> list[float]:
    """Return the nDCG@10 x 100 of a collection with each of the three analyzers."""
    collection, model = read_collection(folder), load_model()
    system = Encoder(model.encode, "cosine", model.table, 0.0, 0.0)
    analyzers = ("standard", "english", ANALYZERS[folder.name.split("-")[1]])
    return [
        figure(run_hybrid(system, collection, None, partial(ServedSearch, analyzer=analyzer))[0])
        for analyzer in analyzers
    ]


if __name__ == "__main__":
    print(f"{'':12}", *(f"{head:>9}" for head in ("standard", "english", "language")))
    for path in map(Path, sys.argv[1:]):
        print(f"{path.name:12}", *(f"{value:9.1f}" for value in ndcg_by_analyzer(path)), flush=True)
