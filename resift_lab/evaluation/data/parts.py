"""Collections together with the split of their queries, as trainings on judged queries need them."""

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

    ``train_on_all`` says whether a last training may use all queries, once those of the test part have judged.
    """

    collection: Collection
    split: Split
    train_on_all: bool


def split_in_blocks(collection: Collection, shares: Sequence[float] | None) -> SplitCollection:
    """The collection, split by :func:`block_split`; without ``shares`` by DEFAULT_SHARES, and then ``train_on_all``."""
    return SplitCollection(collection, block_split(collection, shares or DEFAULT_SHARES), shares is None)


def read_split_collection(folder: str | Path, shares: Sequence[float] | None) -> SplitCollection:
    """A BEIR folder, split as its ``qrels/train.tsv``, ``dev.tsv`` and ``test.tsv`` say, or else in blocks.

    Where there is no ``dev.tsv``, a tenth of the training queries choose. Raises BadInput if ``shares`` are given for a
    folder with parts of its own.
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
    """The parts ``train`` and, where there are such, ``dev`` and ``test`` of one folder as one collection."""
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
