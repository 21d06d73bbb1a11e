"""Read the texts of documents from files, with a progress bar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from resift.cli.output import progress_bar
from resift.cli.text_fields import Fields, Records, choose_fields
from resift.ingest.readers import BadLine, Files, Record
from resift.query.dsl import document_text


def read_with_progress(records: Iterable[Record | BadLine], files: Files, label: str) -> Iterator[Record | BadLine]:
    """Yield records unchanged, and show a progress bar of the bytes that have been read.

    Args:
        records: The documents and the malformed lines of ``files``.
        files: The files that are being read. This object provides the total size and the current position.
        label: The text in front of the progress bar.
    """
    with progress_bar(label) as progress:
        for record in records:
            progress(files.position, files.total)
            yield record


class CorpusTexts:
    """An iterable over the texts of the documents in one or several files. Each iteration reads the files again.

    Args:
        files: The paths of the files.
        fields: The names of the text fields. If None, they are guessed from the first documents.
        label: The text in front of the progress bar. If None, no progress bar is shown.

    Attributes:
        left_out: The number of malformed lines that have been skipped so far, in all iterations.
    """

    def __init__(self, files: Files, fields: Fields | None, label: str | None = None) -> None:
        self._files, self._fields, self._label = files, fields, label
        self.left_out = 0

    def __iter__(self) -> Iterator[str]:
        fields, records = choose_fields(self._files, self._fields)
        if self._label is not None:
            records = read_with_progress(records, self._files, self._label)
        for record in self._count_malformed(records):
            if isinstance(record, Record):
                yield document_text(record.source, fields)

    def _count_malformed(self, records: Records) -> Records:
        """Yield all records, and add the number of malformed lines to :attr:`left_out`.

        If there are malformed lines, print a warning after the last record.
        """
        first = ""
        for record in records:
            if isinstance(record, BadLine):
                self.left_out += 1
                first = first or f"line {record.line} of {record.file}: {record.reason}"
            yield record
        if self.left_out:
            click.echo(f"warning: {self.left_out} lines contain no document and were skipped: {first}", err=True)
