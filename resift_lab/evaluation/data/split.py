"""Splits of a collection's queries into those that are learnt from, that choose and that judge."""

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
    """Positions of a collection's queries: ``train`` is learnt from, ``validation`` chooses, ``test`` judges."""

    train: Positions
    validation: Positions
    test: Positions


def block_split(collection: Collection, shares: Sequence[float]) -> Split:
    """Contiguous blocks of queries, ordered by their first relevant document's position in the collection.

    ``shares`` of training, validation and test, in any unit (60, 10, 30); that of test may be 0. A block ends where a
    document's queries end, so that no first document is on two sides. Raises BadInput if the shares are no such numbers
    or a part that has a share gets fewer than ten queries.
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
