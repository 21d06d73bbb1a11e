"""Tests of the demonstration: the claims of its transcript."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from transcripts import assert_prints

from resift.cli.main import main
from resift.cli.transcript import PASSAGES, PRODUCTS, Demo, corpus_file, load_questions
from resift.ingest.readers import Files, Record

pytestmark = pytest.mark.usefixtures("here")
RANKINGS = ("BM25 alone", "with vectors", "in the session")
READ = "ranks of the ✓ among the first 10 hits"


def demo(*arguments: str, status: int = 0) -> str:
    """Return the output of ``resift demo --no-serve``."""
    result = CliRunner().invoke(main, ["demo", "--no-serve", *arguments])
    assert result.exit_code == status, result.output
    return result.output


def table(output: str, title: str) -> dict[str, list[float]]:
    """Return the numbers below a title by the names of the rankings."""
    lines = output[output.index(title) :].splitlines()[1:4]
    return {
        name: [float(number) for number in re.findall(r"[\d.]+", line.removeprefix(f"  {name}"))]
        for name, line in zip(RANKINGS, lines, strict=True)
    }


def hits(output: str, title: str) -> list[str]:
    """Return the hits below a title as they are printed."""
    lines = output[output.index(f"\n{title}") :].splitlines()[2:]
    return [re.sub(r"^  \d\. ", "", line) for line in lines[:6]]


@pytest.fixture(scope="module", params=[PASSAGES, PRODUCTS], ids=["passages", "shop"])
def shown(request: pytest.FixtureRequest) -> Demo:
    """Return each demonstration in turn."""
    found: Demo = request.param
    return found


@pytest.fixture(scope="module")
def transcript(shown: Demo) -> Iterator[str]:
    """Return the output of the demonstration without environment settings."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("RESIFT_"):
                patch.delenv(name)
        yield demo("shop" if shown is PRODUCTS else "passages")


def test_the_session_finds_more_for_most_questions(transcript: str) -> None:
    best, means = table(transcript, READ), table(transcript, "mean number of ✓")
    assert len(best["in the session"]) > len(best["with vectors"])
    # The marked hits come from the search with vectors and are not counted, so its mean may be below that of BM25.
    assert min(means["with vectors"][0], means["BM25 alone"][0]) > 0
    assert means["in the session"][0] > 1.4 * max(means["with vectors"][0], means["BM25 alone"][0])
    gains, losses = map(int, re.findall(r"raises the ✓ for (\d+) questions, and lowers them for (\d+)", transcript)[0])
    (asked,) = map(int, re.findall(r"over (\d+) questions", transcript))
    assert asked > 30
    assert gains > asked * 3 / 4
    assert ("loses most" in transcript) == (losses > 0)


def test_marked_hits_are_relevant_and_do_not_come_again(transcript: str) -> None:
    first, again = (
        hits(transcript, '"'),
        hits(transcript, "the same search in this session, without the marked hits"),
    )
    (marked,) = re.findall(r"marks these as relevant: ([\d ]+)", transcript)
    assert [int(rank) for rank in marked.split()] == [rank for rank, hit in enumerate(first, 1) if hit.startswith("✓")]
    assert not {hit for hit in first if hit.startswith("✓")} & set(again)


def test_the_ticks_are_the_judgements_of_that_very_question(transcript: str, shown: Demo) -> None:
    (text, opening) = re.findall(r'^"(.+)", \w.*?(?:began "|wants one )(.+?)"?$', transcript, re.MULTILINE)[0]
    (question,) = (one for one in load_questions(shown) if (one.text, one.opening) == (text, opening))
    documents = [record for record in Files([corpus_file(shown)]) if isinstance(record, Record)]
    for hit in hits(transcript, '"'):
        title = hit[2:].split(" | ")[0].rstrip("…")
        named = {one.id in question.relevant for one in documents if one.source["title"].startswith(title)}
        assert (hit[0] == "✓") in named


def test_the_page_of_the_demo_shows_how_the_transcript_ends(transcript: str, shown: Demo) -> None:
    if shown is PASSAGES:
        page = (Path(__file__).parents[2] / "docs" / "five-minutes.md").read_text("utf-8")
        (part,) = re.findall(r"^the question that gains most.*?(?=\n```)", page, re.MULTILINE | re.DOTALL)
        assert_prints(transcript[transcript.index("the question that gains most") :].rstrip(), part)


def test_the_products_are_what_the_script_writes(tmp_path: Path) -> None:
    folder = Path(corpus_file(PRODUCTS)).parent
    script = Path(__file__).parents[2] / "benchmarks" / "make_products.py"
    subprocess.run([sys.executable, script, tmp_path], check=True)
    for name in (PRODUCTS.documents, PRODUCTS.questions):
        assert gzip.decompress((tmp_path / name).read_bytes()) == gzip.decompress((folder / name).read_bytes())
    assert sum((folder / name).stat().st_size for name in (PRODUCTS.documents, PRODUCTS.questions)) < 60_000


def test_every_judged_passage_is_in_the_corpus() -> None:
    ids = {record.id for record in Files([corpus_file()]) if isinstance(record, Record)}
    questions = load_questions()
    assert (len(ids), len(questions)) == (447, 214)
    assert all(one.relevant <= ids for one in questions)
    assert len({one.opening for one in questions}) > 20
