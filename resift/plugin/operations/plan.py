"""What all operations share: a plan that is shown before it is run, what it tells meanwhile, and its result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from types import SimpleNamespace
from typing import Any

from resift.contracts.engine import Engine
from resift.errors import Interrupted
from resift.ingest.stopping import Stop
from resift.notebook import progress_bar


@dataclass(frozen=True)
class Step:
    """What an operation tells while it runs: how much of ``text`` is done; a remark has no ``total``."""

    text: str
    done: int = 0
    total: int = 0


Progress = Callable[[Step], None]


@contextmanager
def as_bars(
    bar: Callable[[str], AbstractContextManager[Callable[[int, int], None]]], remark: Callable[[str], object]
) -> Iterator[Progress]:
    """What shows an operation's progress: a ``bar`` for each step, and remarks by ``remark``."""
    with ExitStack() as open_bar:
        label, update = "", None

        def show(step: Step) -> None:
            nonlocal label, update
            if step.text != label:
                open_bar.close()
                label, update = step.text, None
            if not step.total:
                remark(step.text)
                return
            update = update or open_bar.enter_context(bar(step.text))
            update(step.done, step.total)

        yield show


@contextmanager
def shown_steps(progress: Progress | None) -> Iterator[Progress]:
    """``progress``, or where that is None a bar in the notebook or terminal for each step of more than two seconds."""
    if progress is not None:
        yield progress
        return
    with as_bars(progress_bar, lambda text: None) as shown:
        yield shown


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

    def run(self, progress: Progress | None = None, stop: Stop | None = None) -> Result:
        """Do it, and tell ``progress`` each step; without one, tqdm shows a bar where that is installed.

        Raises Interrupted where a ``stop`` is requested before the end: planned again, it goes on.
        """
        with shown_steps(progress) as shown:
            return self._run(shown, stop or Stop())

    @abstractmethod
    def _run(self, progress: Progress, stop: Stop) -> Result:
        """Do it, as :meth:`run` says."""

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
