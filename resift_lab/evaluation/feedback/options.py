"""Options of simulated relevance feedback.

The module imports neither SciPy nor scikit-learn, so that the help of a command can show the defaults quickly.
"""

from __future__ import annotations

from dataclasses import dataclass

from resift.errors import BadInput
from resift_lab.training.options import check_minimum


@dataclass(frozen=True)
class FeedbackOptions:
    """Options of a simulated user who judges the hits of queries.

    Attributes:
        queries: Maximum number of queries. If there are more, they are drawn at random.
        judgements: Maximum number of documents that the user judges in a round.
        rounds: Number of rounds. In each round, the user judges a ranking, and the documents are ranked again.
        noise: Probability, 0 to 1, that the user gives the opposite of the right judgement.
        seed: Seed for drawing the queries and for the noise.

    Raises:
        BadInput: If a value is out of range.
    """

    queries: int = 300
    judgements: int = 10
    rounds: int = 1
    noise: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_minimum(1, self, "queries", "judgements", "rounds")
        if not 0 <= self.noise <= 1:
            raise BadInput(f"noise {self.noise} is out of range", value=self.noise, expected="a number from 0 to 1")
