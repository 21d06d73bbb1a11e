"""Read collections together with a split of their queries, for training on judged queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from resift.errors import BadInput
from resift_lab.evaluation.data.collection import Collection, has_part, read_collection
from resift_lab.evaluation.data.split import Positions, Split, block_split

DEFAULT_SHARES = (70.0, 10.0, 20.0)


@dataclass(frozen=True)
class SplitCollection:
    """A collection and the split of its queries.

    Attributes:
        collection: The collection.
        split: The split.
        train_on_all: Whether the final training may use all queries, after the test queries have judged the method.
    """

    collection: Collection
    split: Split
    train_on_all: bool


def split_in_blocks(collection: Collection, shares: Sequence[float] | None) -> SplitCollection:
    """Split a collection by :func:`block_split`.

    Args:
        collection: The collection.
        shares: Shares of the three parts. None takes DEFAULT_SHARES, and allows to train on all queries in the end.
    """
    return SplitCollection(collection, block_split(collection, shares or DEFAULT_SHARES), shares is None)


def read_split_collection(folder: str | Path, shares: Sequence[float] | None) -> SplitCollection:
    """Read a BEIR folder and its split.

    If the folder has ``qrels/train.tsv``, its parts are the split. Without ``dev.tsv``, a tenth of the training queries
    become validation queries. Otherwise the queries are split in blocks.

    Raises:
        BadInput: If ``shares`` are given for a folder with its own parts.
    """
    if not has_part(folder, "train"):
        return split_in_blocks(read_collection(folder), shares)
    if shares is not None:
        raise BadInput(
            "--split, and qrels/train.tsv", value=str(folder), expected="one of them: the folder has its own split"
        )
    parts = {name: read_collection(folder, name) for name in ("train", "dev", "test") if has_part(folder, name)}
    return join_parts(parts)


def join_parts(parts: dict[str, Collection]) -> SplitCollection:
    """Join the parts ``train`` and, if they exist, ``dev`` and ``test`` of one folder."""
    ends = np.cumsum([0, *(len(part.queries) for part in parts.values())])
    positions: dict[str, Positions] = {
        name: np.arange(start, end) for name, (start, end) in zip(parts, pairwise(ends), strict=True)
    }
    train, validation = positions["train"], positions.get("dev")
    if validation is None:
        blocks = block_split(parts["train"], (90, 10, 0))
        train, validation = blocks.train, blocks.validation
    collection = replace(
        parts["train"],
        query_ids=[id for part in parts.values() for id in part.query_ids],
        queries=[query for part in parts.values() for query in part.queries],
        grades=[grades for part in parts.values() for grades in part.grades],
        skipped=0,
    )
    return SplitCollection(collection, Split(train, validation, positions.get("test", np.zeros(0, np.int64))), False)
