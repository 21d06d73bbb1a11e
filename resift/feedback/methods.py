"""The methods by which a session learns from its judged documents.

==================  ================================================================================================
method              what it learns
==================  ================================================================================================
``mask``            A weight of each dimension: Adam minimises the spherical entropy around one centre for the relevant
                    and one centre for the irrelevant documents. Source: Passalis and Tefas 2018, section 3.4,
                    Algorithm 2.
``lexical``         Expansion words: the engine also searches for weighted words of the relevant documents, by
                    Rocchio's formula for term weights. Source: Rocchio 1971.
``ridge+lexical``   The default. Expansion words, and a ridge regression that moves the query vector.
==================  ================================================================================================

:mod:`resift_lab.evaluation.feedback` compares these methods with other methods of the literature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from resift.errors import BadInput

MethodName = Literal["mask", "lexical", "ridge+lexical"]
"""The names of the methods."""


@dataclass(frozen=True)
class Method:
    """A method of learning from judged documents. Each attribute switches one technique on or off.

    Attributes:
        masked: Learn a mask: weights of the vector dimensions that separate relevant from irrelevant documents.
        ridge: Move the query vector by a ridge regression on the judged documents.
        expands: Add characteristic words of relevant documents to the query (query expansion).
    """

    masked: bool = False
    ridge: bool = False
    expands: bool = False


METHODS: dict[MethodName, Method] = {
    "mask": Method(masked=True),
    "lexical": Method(expands=True),
    "ridge+lexical": Method(ridge=True, expands=True),
}
"""The methods by name."""

DEFAULT_METHOD: MethodName = "ridge+lexical"


def resolve_method(method: str | Method) -> Method:
    """Return the feedback method with the given name.

    Args:
        method: A name in METHODS, or a :class:`Method`, which is returned unchanged.

    Raises:
        BadInput: If there is no method of this name.
    """
    if isinstance(method, Method):
        return method
    if method not in METHODS:
        raise BadInput(f"unknown method {method!r}", value=method, expected=" | ".join(METHODS))
    return METHODS[method]
