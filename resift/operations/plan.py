"""What all operations share: a plan that is shown before it is run, what it tells meanwhile, and its result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from types import SimpleNamespace
from typing import Any

from resift.contracts.engine import Engine
from resift.errors import Interrupted
from resift.ingest.stopping import Stop


@dataclass(frozen=True)
class Step:
    """What an operation tells while it runs: how much of ``text`` is done; a remark has no ``total``."""

    text: str
    done: int = 0
    total: int = 0


Progress = Callable[[Step], None]


def silent(step: Step) -> None:
    """The progress of whoever does not want to know."""


class Result(SimpleNamespace):
    """What came of an operation: ``lines`` for people, whether all is ``in_order``, and an attribute for each figure of
    ``--json``."""

    def __init__(self, lines: Sequence[str], in_order: bool = True, **figures: Any) -> None:
        super().__init__(lines=lines, in_order=in_order, **figures)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def to_dict(self) -> dict[str, Any]:
        """All but the lines, for programs."""
        return {name: _plain(value) for name, value in vars(self).items() if name != "lines"}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, Result):
        return value.to_dict()
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


class Plan(ABC):
    """What an operation is about to do; nothing is changed before :meth:`run`, of which ``question`` asks."""

    question = ""

    @abstractmethod
    def lines(self) -> list[str]:
        """What is to be done, for people."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """What is to be done, for programs."""

    @abstractmethod
    def run(self, progress: Progress = silent, stop: Stop | None = None) -> Result:
        """Do it. Raises Interrupted where a ``stop`` is requested before the end: planned again, it goes on."""

    def __str__(self) -> str:
        return "\n".join(self.lines())


def end_if(stop: Stop, message: str) -> None:
    """Raise Interrupted, which says how to go on, where a stop is requested."""
    if stop.requested:
        raise Interrupted(message)


def counting(progress: Progress, text: str, total: int) -> Callable[[int], None]:
    """What is told how many documents of one step are done; the step has begun."""
    progress(Step(text, 0, max(1, total)))
    return lambda done: progress(Step(text, done, max(1, total, done)))


def count_documents(engine: Engine, index: str) -> int:
    """How many documents an index has."""
    counted = engine.search(index, {"size": 0, "track_total_hits": True})
    return int(counted.response["hits"]["total"]["value"])
