"""The demonstration: what its transcript claims."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from transcripts import assert_prints

from resift.cli.lab.transcript import QUESTION, corpus_file, load_questions
from resift.cli.main import main
from resift.ingest.readers import Files, Record

pytestmark = pytest.mark.usefixtures("here")
RANKINGS = ("BM25 alone", "with vectors", "in the session")


def demo(*arguments: str, status: int = 0) -> str:
    """The output of ``resift demo --no-serve``."""
    result = CliRunner().invoke(main, ["demo", "--no-serve", *arguments])
    assert result.exit_code == status, result.output
    return result.output


def table(output: str, title: str) -> dict[str, list[float]]:
    """The numbers below a title, by the names of the rankings."""
    lines = output[output.index(title) :].splitlines()[1:4]
    return {
        name: [float(number) for number in re.findall(r"[\d.]+", line.removeprefix(f"  {name}"))]
        for name, line in zip(RANKINGS, lines, strict=True)
    }


def hits(output: str, title: str) -> list[str]:
    """The hits below a title, as they are shown."""
    lines = output[output.index(f"\n{title}\n") :].splitlines()[2:]
    return [re.sub(r"^  \d\. ", "", line) for line in lines[:6]]


@pytest.fixture(scope="module")
def transcript() -> Iterator[str]:
    """What the command prints without options."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("RESIFT_"):
                patch.delenv(name)
        yield demo()


def test_the_session_finds_more_that_people_judged_relevant(transcript: str) -> None:
    ranks = table(transcript, "ranks of the ✓")
    assert len(ranks["in the session"]) > max(len(ranks["BM25 alone"]), len(ranks["with vectors"]))
    assert ranks["in the session"][:3] == [1, 2, 3]


def test_the_session_finds_more_for_most_questions(transcript: str) -> None:
    means = table(transcript, "the number of ✓")
    assert means["in the session"][0] > 1.5 * means["BM25 alone"][0] > 0
    assert means["in the session"][0] > 1.4 * means["with vectors"][0] > 1.4 * means["BM25 alone"][0]
    gains, losses = map(int, re.findall(r"(\d+) questions gain from the session, (\d+) lose", transcript)[0])
    (asked,) = map(int, re.findall(r"the first questions of (\d+) conversations", transcript))
    assert gains > asked / 2
    assert gains > 3 * losses


def test_marked_hits_are_relevant_and_do_not_come_again(transcript: str) -> None:
    first, again = (
        hits(transcript, f'"{QUESTION}"'),
        hits(transcript, "the same search in this session, without the marked hits"),
    )
    (marked,) = re.findall(r"marks these as relevant: ([\d ]+)", transcript)
    assert [int(rank) for rank in marked.split()] == [rank for rank, hit in enumerate(first, 1) if hit.startswith("✓")]
    assert not {hit for hit in first if hit.startswith("✓")} & set(again)


def test_the_ticks_are_the_judgements(transcript: str) -> None:
    assert "people judged the passage relevant" in transcript
    (question,) = (one for one in load_questions() if one.text == QUESTION)
    passages = [record for record in Files([corpus_file()]) if isinstance(record, Record)]
    for hit in hits(transcript, f'"{QUESTION}"'):
        title = hit[2:].split(" | ")[0].rstrip("…")
        assert (hit[0] == "✓") in {
            one.id in question.relevant for one in passages if one.source["title"].startswith(title)
        }


def test_the_page_of_the_demo_shows_how_the_transcript_ends(transcript: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "five-minutes.md").read_text("utf-8")
    (shown,) = re.findall(r"^ranks of the ✓.*?(?=\n```)", page, re.MULTILINE | re.DOTALL)
    assert_prints(transcript[transcript.index("ranks of the ✓") :].rstrip(), shown)


def test_every_judged_passage_is_in_the_corpus() -> None:
    ids = {record.id for record in Files([corpus_file()]) if isinstance(record, Record)}
    questions = load_questions()
    assert (len(ids), len(questions)) == (447, 214)
    assert all(one.relevant <= ids for one in questions)
    assert len({one.opening for one in questions}) > 20
