"""Output for notebooks: HTML tables and texts, data frames and progress bars."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

from resift.errors import BadInput

Progress = Callable[[int, int], None]
"""A function that is called with the number of finished items, and their total number (0 if unknown)."""

_MAX_CELL_LENGTH = 200
_DELAY = 2
"""Seconds before a progress bar is shown."""


@contextmanager
def progress_bar(label: str, progress: Progress | None = None) -> Iterator[Progress]:
    """Return a context manager that shows a progress bar in a notebook or terminal for work of over two seconds.

    The bar is drawn by tqdm, and can be disabled with ``TQDM_DISABLE=1``. If tqdm is not installed, nothing is shown.

    Args:
        label: The label of the bar.
        progress: A function to call with the number of finished items and the total number of items. If given, no bar
            is shown, and the context manager yields this function.

    Yields:
        A function to call with the number of finished items and the total number of items.
    """
    if progress is not None:
        yield progress
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield lambda done, total: None
        return
    with tqdm(desc=label, delay=_DELAY) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total or None
            bar.update(done - bar.n)

        yield show


def html_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """Return an HTML table. The text of each cell is escaped, and cut after 200 characters.

    Args:
        columns: The names of the columns.
        rows: The values of the cells, row by row.
        caption: The caption of the table.
    """

    def html_row(tag: str, cells: Sequence[Any]) -> str:
        shown = (escape(str(cell)[:_MAX_CELL_LENGTH]) for cell in cells)
        return f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in shown)}</tr>"

    body = html_row("th", columns) + "".join(html_row("td", row) for row in rows)
    return f"<table>{f'<caption>{escape(caption)}</caption>' if caption else ''}{body}</table>"


def data_frame(rows: list[dict[str, Any]], columns: Sequence[str] | None = None) -> Any:
    """Convert a list of dictionaries to a pandas data frame.

    Args:
        rows: A dictionary for each row.
        columns: The names of the columns, which are used if there are no rows.

    Raises:
        BadInput: If pandas is not installed.
    """
    try:
        from pandas import DataFrame
    except ImportError:
        raise BadInput("a data frame needs pandas", value="pandas", expected="pip install pandas") from None
    return DataFrame(rows or None, columns=None if rows else columns)


class NotebookText:
    """A mixin for objects that a notebook should display as preformatted text.

    The text is the ``repr`` of the object, shown in an HTML ``<pre>`` element.
    """

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


class NotebookTable:
    """A mixin for a list of hits that notebooks show as a table."""

    def to_pandas(self: Any) -> Any:
        """Convert the hits to a pandas data frame.

        Each hit becomes a row with the columns ``_id``, ``_score`` and the fields of ``_source``.
        """
        return data_frame([{"_id": hit.id, "_score": hit.score, **hit.source} for hit in self], ["_id", "_score"])

    def _repr_html_(self: Any) -> str:
        fields = list(self._fields) or list(dict.fromkeys(name for hit in self for name in hit.source))
        rows = [[rank, hit.id, hit.rounded_score] for rank, hit in enumerate(self, self._start + 1)]
        cells = [[*row, *(hit.source.get(name, "") for name in fields)] for row, hit in zip(rows, self, strict=True)]
        caption = f"did you mean: {self.did_you_mean}" if self.did_you_mean else ""
        return html_table(["", "_id", "_score", *fields], cells, caption)
