"""Read sentence pairs with gold scores from tab-separated files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from resift.errors import BadInput
from resift_lab.evaluation.data.lines import numbered_lines, parse_finite_number, read_header, split_cells

_REQUIRED = ("score", "sentence1", "sentence2")


@dataclass(frozen=True)
class SentencePairs:
    """Pairs of sentences with human similarity scores, as four lists of the same length.

    Attributes:
        name: Name of the file without its extension.
        tasks: The task of each pair, by which results are grouped.
        scores: The human scores.
        left: The first sentences.
        right: The second sentences.
    """

    name: str
    tasks: list[str]
    scores: list[float]
    left: list[str]
    right: list[str]


def read_sentence_pairs(path: str | Path) -> SentencePairs:
    """Read sentence pairs from a tab-separated file with a header line.

    The file needs the columns ``score``, ``sentence1`` and ``sentence2``, and may have a column ``task``, in any order.
    Without ``task``, all pairs belong to a task with the name of the file. Quotes have no special meaning. Scores are
    finite numbers of any range.

    Args:
        path: The path of the file, plain or gzipped.

    Raises:
        BadInput: If a column is missing, a line is malformed, or the file is empty or cannot be read.
    """
    path = Path(path)
    lines = numbered_lines(path)
    header = read_header(lines)
    if missing := [column for column in _REQUIRED if column not in header]:
        raise BadInput(
            f"{path} has no column {', '.join(missing)}",
            value="\t".join(header),
            expected="a header line: task, score, sentence1, sentence2, tab-separated",
        )
    score, left, right = (header.index(column) for column in _REQUIRED)
    task = header.index("task") if "task" in header else None
    pairs = SentencePairs(path.name.removesuffix(".gz").removesuffix(".tsv"), [], [], [], [])
    for number, line in lines:
        where = f"{path}, line {number}"
        cells = split_cells(line, len(header), where)
        pairs.scores.append(parse_finite_number(cells[score], where))
        pairs.tasks.append(pairs.name if task is None else cells[task])
        pairs.left.append(cells[left])
        pairs.right.append(cells[right])
    if not pairs.scores:
        raise BadInput(f"{path} holds no pair", value=str(path), expected="lines below the header")
    return pairs
