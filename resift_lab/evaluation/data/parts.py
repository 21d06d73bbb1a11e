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
    """A test collection whose queries are divided into training, validation and test queries.

    Attributes:
        collection: The documents and all queries.
        split: The positions of training, validation and test queries.
        train_on_all: Whether the final model may also be trained on the test queries, after they were used to evaluate
            the training method.
    """

    collection: Collection
    split: Split
    train_on_all: bool


def split_in_blocks(collection: Collection, shares: Sequence[float] | None) -> SplitCollection:
    """Divide the queries of a collection into contiguous blocks for training, validation and test.

    Args:
        collection: The test collection to divide.
        shares: Shares of training, validation and test queries, such as (60, 10, 30). None uses ``DEFAULT_SHARES``, and
            allows training the final model on all queries (``train_on_all``).

    Returns:
        The collection, with the positions of the queries in each block.
    """
    return SplitCollection(collection, block_split(collection, shares or DEFAULT_SHARES), shares is None)


def read_split_collection(folder: str | Path, shares: Sequence[float] | None) -> SplitCollection:
    """Read a BEIR folder, and split its queries into training, validation and test queries.

    If the folder has ``qrels/train.tsv``, its files ``train.tsv``, ``dev.tsv`` and ``test.tsv`` define the split.
    Without ``dev.tsv``, a tenth of the training queries become validation queries. If the folder has no ``train.tsv``,
    its queries are split into contiguous blocks.

    Args:
        folder: A folder in BEIR's layout.
        shares: Shares of training, validation and test queries, or None for the default. Must be None for a folder with
            ``qrels/train.tsv``.

    Raises:
        BadInput: If ``shares`` is set for a folder with ``qrels/train.tsv``, or if a file is missing or malformed.
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
    """Join the separately judged parts of a test collection into a collection with a split.

    Args:
        parts: The collections ``train`` and optionally ``dev`` and ``test``, which have the same documents. Without
            ``dev``, a tenth of the training queries become validation queries. Without ``test``, the split has no test
            queries. Each part counts as skipped the queries of the other parts, too, because all share one file of
            queries. The joined collection counts the queries that have no relevant document in any part.
    """
    ends = np.cumsum([0, *(len(part.queries) for part in parts.values())])
    positions: dict[str, Positions] = {
        name: np.arange(start, end) for name, (start, end) in zip(parts, pairwise(ends), strict=True)
    }
    train, validation = positions["train"], positions.get("dev")
    if validation is None:
        blocks = block_split(parts["train"], (90, 10, 0))
        train, validation = blocks.train, blocks.validation
    query_ids = [id for part in parts.values() for id in part.query_ids]
    collection = replace(
        parts["train"],
        query_ids=query_ids,
        queries=[query for part in parts.values() for query in part.queries],
        grades=[grades for part in parts.values() for grades in part.grades],
        skipped=len(parts["train"].query_ids) + parts["train"].skipped - len(set(query_ids)),
    )
    return SplitCollection(collection, Split(train, validation, positions.get("test", np.zeros(0, np.int64))), False)
