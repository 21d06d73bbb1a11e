"""Sentence pairs with gold scores: tab-separated lines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from resift.errors import BadInput
from resift_lab.evaluation.data.lines import cells_of, finite_number, header_of, numbered_lines

_REQUIRED = ("score", "sentence1", "sentence2")


@dataclass(frozen=True)
class SentencePairs:
    """The pairs of a file, four lists of one length; ``tasks`` names the part of the file that each pair belongs to."""

    name: str
    tasks: list[str]
    scores: list[float]
    left: list[str]
    right: list[str]


def read_pairs(path: str | Path) -> SentencePairs:
    """Sentence pairs from tab-separated lines, no quoting, with a header line.

    The columns are ``score``, ``sentence1``, ``sentence2`` and perhaps ``task``, in any order; without ``task`` all
    pairs are one task, named as the file. Scores are finite numbers of any range. Raises BadInput if a column is
    missing, a line is malformed, or the file holds no pair or cannot be read.
    """
    path = Path(path)
    lines = numbered_lines(path)
    header = header_of(lines)
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
        cells = cells_of(line, len(header), where)
        pairs.scores.append(finite_number(cells[score], where))
        pairs.tasks.append(pairs.name if task is None else cells[task])
        pairs.left.append(cells[left])
        pairs.right.append(cells[right])
    if not pairs.scores:
        raise BadInput(f"{path} holds no pair", value=str(path), expected="lines below the header")
    return pairs
