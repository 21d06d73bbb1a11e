"""Settings of simulated relevance feedback, in a module of their own so that the command line can show the defaults."""

from __future__ import annotations

from dataclasses import dataclass

from resift.errors import BadInput
from resift_lab.training.options import at_least


@dataclass(frozen=True)
class FeedbackOptions:
    """How much is judged, and how well.

    Attributes:
        queries: how many queries are drawn; all if there are fewer.
        judgements: documents that are judged in a round, at most.
        rounds: how often the ranking is judged and made anew.
        noise: the chance, 0 to 1, that a judgement is the opposite of what it should be.
        seed: of the queries that are drawn and of the noise.

    Raises BadInput for values that are out of range.
    """

    queries: int = 300
    judgements: int = 10
    rounds: int = 1
    noise: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(1, self, "queries", "judgements", "rounds")
        if not 0 <= self.noise <= 1:
            raise BadInput(f"noise is {self.noise}", value=self.noise, expected="a number from 0 to 1")
