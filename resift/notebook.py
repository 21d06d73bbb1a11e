"""What a notebook shows: results as tables and texts in HTML, escaped, data frames, and how far something is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

from resift.errors import BadInput

Progress = Callable[[int, int], None]
"""Told how much is done, and of how much; the latter is 0 where nobody knows."""

_SHOWN = 200  # characters of a field
_QUICK = 2  # seconds, within which nobody wonders


@contextmanager
def shown_progress(label: str, progress: Progress | None = None) -> Iterator[Progress]:
    """``progress``, or where that is None a bar in the notebook or terminal of whatever takes more than two seconds.

    The bar is tqdm's, whose settings hold (``TQDM_DISABLE=1``); where that is not installed nothing is shown.
    """
    if progress is not None:
        yield progress
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield lambda done, total: None
        return
    with tqdm(desc=label, delay=_QUICK) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total or None
            bar.update(done - bar.n)

        yield show


def html_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """A table of texts, which are escaped and cut at 200 characters."""
    lines = [("th", columns), *(("td", row) for row in rows)]
    told = "".join(
        f"<tr>{''.join(f'<{tag}>{escape(str(cell)[:_SHOWN])}</{tag}>' for cell in row)}</tr>" for tag, row in lines
    )
    return f"<table>{f'<caption>{escape(caption)}</caption>' if caption else ''}{told}</table>"


def data_frame(rows: list[dict[str, Any]], columns: Sequence[str] | None = None) -> Any:
    """A pandas frame of rows; ``columns`` are those of an empty one. Raises BadInput where pandas is not installed."""
    try:
        from pandas import DataFrame
    except ImportError:
        raise BadInput("a data frame needs pandas", value="pandas", expected="pip install pandas") from None
    return DataFrame(rows or None, columns=None if rows else columns)


class Shown:
    """A result that notebooks show as the text that it prints."""

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


class HitTable:
    """What a page of hits is besides a list."""

    def to_pandas(self: Any) -> Any:
        """A pandas frame with a row for each hit: ``_id``, ``_score`` and the fields of its source."""
        return data_frame([{"_id": hit.id, "_score": hit.score, **hit.source} for hit in self], ["_id", "_score"])

    def _repr_html_(self: Any) -> str:
        fields = list(self._fields) or list(dict.fromkeys(name for hit in self for name in hit.source))
        rows = [[rank, hit.id, hit.rounded_score] for rank, hit in enumerate(self, self._start + 1)]
        cells = [[*row, *(hit.source.get(name, "") for name in fields)] for row, hit in zip(rows, self, strict=True)]
        meant = f"did you mean: {self.did_you_mean}" if self.did_you_mean else ""
        return html_table(["", "_id", "_score", *fields], cells, meant)
