"""Formats of exported judgements: CSV, RIS and TREC's qrels.

Ids, names and texts come from documents and callers. They must not add records to a file, and must not be formulas.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from resift.arrays import batched
from resift.reviews.log import Event

Texts = Callable[[Sequence[str]], Mapping[str, str]]
_BATCH = 1000  # number of documents whose texts are in memory at the same time
# Characters with which a formula begins in a spreadsheet. The last four are full-width forms.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
# Characters that end a line or a column. An id with a percent sign is escaped, too, so that ids stay different.
_SEPARATORS = re.compile(r"[\s%\x00-\x1f\x7f]")


def qrels_lines(review: str, labels: Mapping[str, bool]) -> Iterator[str]:
    """Yield the judgements of a review as lines of a qrels file, TREC's format for judgements.

    A line contains the id of the review, 0, the id of the document, and 1 (relevant) or 0, separated by spaces.

    Args:
        review: The id of the review.
        labels: The judged documents, with True for relevant documents.
    """
    for id, relevant in labels.items():
        yield f"{review} 0 {escaped_id(id)} {int(relevant)}\n"


def ris_records(ids: Sequence[str], texts: Texts) -> Iterator[str]:
    """Yield documents as RIS records for reference managers.

    The first line of a text is the title. The other lines are the abstract.

    Args:
        ids: The ids of the documents.
        texts: A function that takes document ids and returns the texts of the documents, by id.
    """
    for batch in batched(ids, _BATCH):
        batch_texts = texts(batch)
        for id in batch:
            title, _, abstract = batch_texts.get(id, "").partition("\n")
            lines = (f"ID  - {escaped_id(id)}", f"TI  - {_in_one_line(title)}", f"AB  - {_in_one_line(abstract)}")
            yield "\n".join(("TY  - GEN", *lines, "ER  - ", "\n"))


def csv_table(decisions: Mapping[str, Sequence[Event]], texts: Texts) -> Iterator[str]:
    """Yield the judgements of a review as a CSV table.

    The table has a row for each judgement. Its columns are ``document`` (the id), ``relevant`` (0 or 1), ``by`` (the
    person or model), ``key`` (the name of the API key), ``at`` (the time), ``source`` and ``text``.

    Args:
        decisions: The decisions on each document, by document id.
        texts: A function that takes document ids and returns the texts of the documents, by id.
    """
    yield _rows([("document", "relevant", "by", "key", "at", "source", "text")])
    for batch in batched(decisions, _BATCH):
        batch_texts = texts(batch)
        yield _rows(
            [
                (id, int(event["relevant"]), event["by"], event.get("key") or "", event["at"], event["source"], text)
                for id in batch
                for text in [batch_texts.get(id, "")]
                for event in decisions[id]
            ]
        )


def escaped_id(id: str) -> str:
    r"""Percent-encode white space, control characters and percent signs in a document id.

    The id then fits into a line or a column of an exported file.

    >>> escaped_id("a b\n50%")
    'a%20b%0A50%25'
    """
    return _SEPARATORS.sub(lambda match: quote(match[0], safe=""), id)


def _rows(rows: Sequence[Sequence[Any]]) -> str:
    file = io.StringIO()
    csv.writer(file).writerows([_escaped_cell(value) for value in row] for row in rows)
    return file.getvalue()


def _escaped_cell(value: Any) -> Any:
    """Escape a value for a CSV file, so that spreadsheets do not interpret it as a formula."""
    return f"'{value}" if isinstance(value, str) and value.lstrip(" ").startswith(_FORMULA) else value


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
