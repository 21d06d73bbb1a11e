"""benchmarks/open_pairs.py reads pairs of texts from pages, textbooks and dictionaries."""

from __future__ import annotations

import gzip
import importlib
import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def open_pairs(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module benchmarks/open_pairs.py."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("open_pairs")


def sentence(number: int, words: int = 50) -> str:
    """Return a sentence with a given number of words."""
    return " ".join([f"Sentence{number}", *["word"] * (words - 2), "end."])


def test_a_markdown_page_yields_headings_with_plain_text(open_pairs: Any) -> None:
    page = """---
title: Storing files
description: "How to store a *file* in the archive."
---
<!-- a comment --> The [archive](a.md) keeps `files`.

## 2.1. Copying a large file

1. Open the archive.
2. Choose **Copy**.

```
## not a heading
```

| a | table |
|---|---|

## Notes

Copies are slow &amp; safe. ![picture](a.png)

## See also

Another page.
"""
    assert list(open_pairs.page_pairs(page)) == [
        ("Storing files", "How to store a file in the archive."),
        ("Storing files", "The archive keeps files."),
        ("Copying a large file", "Open the archive. Choose Copy."),
        ("Storing files Notes", "Copies are slow & safe."),
    ]


def test_an_html_page_yields_headings_with_plain_text(open_pairs: Any) -> None:
    page = """<html><head><title>T</title></head><body><nav>Home</nav>
<h1>Lessons In Circuits</h1><h1 id="a">Diodes and <b>rectifiers</b></h1><p>A diode conducts
in one direction.</p><h2>Introduction<a href="#a">¶</a></h2><pre>code</pre><p>It is a valve.</p></body></html>"""
    assert list(open_pairs.page_pairs(open_pairs.from_html(page))) == [
        ("Diodes and rectifiers", "A diode conducts in one direction."),
        ("Diodes and rectifiers Introduction", "It is a valve."),
    ]


def test_a_pep_yields_the_headings_of_its_sections_with_plain_text(open_pairs: Any) -> None:
    page = """PEP: 999
Title: Faster
 Loops
Author: A. Person <a@example.org>
Status: Final

Abstract
========

Loops [1]_ become ``faster``, see :pep:`8`::

    for x in y: pass

How loops are measured
----------------------

.. note:: An aside
   in two lines.

With a `clock <http://example.org>`_.
"""
    assert list(open_pairs.page_pairs(open_pairs.from_rst(page))) == [
        ("Faster Loops Abstract", "Loops become faster, see 8"),
        ("How loops are measured", "With a clock."),
    ]


def test_long_sections_are_split_into_passages_of_whole_sentences(open_pairs: Any) -> None:
    text = " ".join(sentence(number) for number in range(5))
    assert list(open_pairs.section_pairs("A heading", text)) == [
        ("A heading", f"{sentence(0)} {sentence(1)} {sentence(2)}"),
        (sentence(3), sentence(4)),
    ]
    assert [len(passage.split()) for passage in open_pairs.passages(sentence(0, 400))] == [150]
    assert open_pairs.passages("") == []


def test_a_textbook_yields_sections_terms_and_exercises(open_pairs: Any) -> None:
    module = ElementTree.fromstring("""<document xmlns="http://cnx.rice.edu/cnxml"><title>Cells</title><content>
<para>All <term>cells</term>, even small ones, divide.<figure>Figure</figure></para>
<section><title>Inside the cell</title><para>The nucleus
holds genes.</para><section><title>Summary</title><para>Cells are small.</para></section></section>
<exercise><problem><para>What divides?</para></problem><solution><para>Every cell does.</para></solution></exercise>
<exercise><problem><para>Why?</para></problem></exercise></content>
<glossary><definition><term>gene</term><meaning>a unit of heredity</meaning></definition></glossary></document>""")
    assert list(open_pairs.module_pairs(module)) == [
        ("Cells", "All cells, even small ones, divide."),
        ("Inside the cell", "The nucleus holds genes."),
        ("Cells Summary", "Cells are small."),
        ("gene", "a unit of heredity"),
        ("What divides?", "Every cell does."),
        ("Why?", ""),
    ]


def test_foldoc_yields_terms_and_first_sentences_of_paragraphs(open_pairs: Any, tmp_path: Path) -> None:
    folder = tmp_path / "usr/share/dictd"
    folder.mkdir(parents=True)
    entries = "byte\n\n   <data> Eight {bits}.  It can\n   hold a letter.\n\nhard disk\n\n   A disk.\n"
    (folder / "foldoc.dict.dz").write_bytes(gzip.compress(entries.encode()))
    assert [pair for pair in open_pairs.foldoc(tmp_path) if all(pair)] == [
        ("byte definition", "Eight bits. It can hold a letter."),
        ("Eight bits.", "It can hold a letter."),
        ("hard disk", "A disk."),
    ]


def test_repeated_and_unusable_pairs_are_dropped(open_pairs: Any) -> None:
    document = "The archive is a file that contains all of the documents"
    pairs = [
        ("an archive", document),
        ("another query", document.upper()),
        ("archive", f"{document} of one"),  # the query has one word
        ("short text", "too short to be used"),
        ("not English", "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn"),
        *(("a common query", f"{document} of year {number}") for number in range(5)),
    ]
    assert list(open_pairs.distinct(iter(pairs))) == [pairs[0], *pairs[5:8]]


def test_pairs_that_occur_in_a_test_collection_are_omitted(
    open_pairs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repeated = "The first words of this page are also in a document of the test collection, as a quotation."
    folder = tmp_path / "cncf/glossary/content/en"
    folder.mkdir(parents=True)
    (folder / "page.md").write_text(
        f"# A quoted page\n{repeated}\n# Another new heading\nThe rest is not in it at all.\n"
    )
    (tmp_path / "collections/one").mkdir(parents=True)
    line = json.dumps({"_id": "1", "text": f"As they say: {repeated}"})
    (tmp_path / "collections/one/corpus.jsonl.gz").write_bytes(gzip.compress(line.encode()))

    def extract(out: Path, *options: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", ["open_pairs.py", str(tmp_path), str(out), "cncf", *options])
        open_pairs.main()
        lines = gzip.decompress((out / "cncf.jsonl.gz").read_bytes()).splitlines()
        return [json.loads(line)["query"] for line in lines]

    assert extract(tmp_path / "all") == ["A quoted page", "Another new heading"]
    assert extract(tmp_path / "new", "--without", str(tmp_path / "collections")) == ["Another new heading"]
