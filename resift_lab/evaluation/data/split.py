"""Split the queries of a collection into training, validation and test queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput
from resift_lab.evaluation.data.collection import Collection

Positions = NDArray[np.int64]
MIN_QUERIES = 10


@dataclass(frozen=True)
class Split:
    """The positions of a collection's training, validation and test queries in ``Collection.queries``.

    Attributes:
        train: Positions of the queries to train models on.
        validation: Positions of the queries to choose between models.
        test: Positions of the queries to evaluate the chosen model.
    """

    train: Positions
    validation: Positions
    test: Positions


def block_split(collection: Collection, shares: Sequence[float]) -> Split:
    """Divide the queries of a collection into contiguous blocks for training, validation and test.

    Queries are sorted by the position of their first relevant document. Queries with the same first relevant document
    are always in the same block, so that a model is not tested on documents that it was trained to find.

    Args:
        collection: The test collection to divide.
        shares: Shares of training, validation and test queries in any unit, such as (60, 10, 30). The last may be 0.

    Raises:
        BadInput: If the shares are invalid, or a block whose share is not 0 gets fewer than ten queries.
    """
    if len(shares) != 3 or min(shares) < 0 or shares[0] <= 0 or shares[1] <= 0 or not np.isfinite(shares).all():
        raise BadInput(
            f"split {list(shares)}", value=list(shares), expected="training, validation and test, as 60,10,30"
        )
    first = np.array([min(document for document, grade in grades.items() if grade > 0) for grades in collection.grades])
    order = np.argsort(first, kind="stable")
    ends = np.round(np.cumsum(shares[:2]) / sum(shares) * len(order)).astype(int)
    cuts = [int(np.searchsorted(first[order], first[order[end - 1]], "right")) if end else 0 for end in ends]
    split = Split(order[: cuts[0]], order[cuts[0] : cuts[1]], order[cuts[1] :])
    for name, share in zip(("train", "validation", "test"), shares, strict=True):
        if share and len(getattr(split, name)) < MIN_QUERIES:
            raise BadInput(
                f"{len(getattr(split, name))} {name} queries of {len(order)}",
                value=len(order),
                expected=f"{MIN_QUERIES} or more in each part: more judged queries, or another split",
            )
    return split
