"""Base classes of operations: plans, which can be shown before they are executed, progress reports, and results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from types import SimpleNamespace
from typing import Any

from resift.contracts.engine import Engine
from resift.errors import Interrupted
from resift.notebook import progress_bar
from resift.query.dsl import PLAIN
from resift.stopping import Stop


@dataclass(frozen=True)
class Step:
    """A report about a running operation: either the progress of its current step, or a remark.

    Attributes:
        text: The name of the current step, or the remark.
        done: The number of units that the step has completed. A unit is a document, for example.
        total: The total number of units of the step, or 0 if ``text`` is a remark.
    """

    text: str
    done: int = 0
    total: int = 0


Progress = Callable[[Step], None]


@contextmanager
def progress_bars(
    bar: Callable[[str], AbstractContextManager[Callable[[int, int], None]]], remark: Callable[[str], object]
) -> Iterator[Progress]:
    """Return a context manager that shows the progress of an operation, with a progress bar for each step.

    The context manager yields a function to call with progress reports (:class:`Step`). A report without a total is
    a remark, and is shown as text instead of a bar.

    Args:
        bar: A function that opens a progress bar with a label. The bar is updated by calling it with the number of
            completed units, such as documents, and the total number of units.
        remark: A function that shows a remark to the user. It is called with the text.
    """
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
def progress_function(progress: Progress | None) -> Iterator[Progress]:
    """Return a context manager that yields the function to call with progress reports.

    Args:
        progress: The function to yield. If it is None, the context manager yields a function that shows progress bars
            in the notebook or terminal, for steps that take more than two seconds.
    """
    if progress is not None:
        yield progress
        return
    with progress_bars(progress_bar, lambda text: None) as show:
        yield show


class Result(SimpleNamespace):
    """The result of an operation.

    Args:
        lines: Lines of text for the user.
        in_order: Whether everything is in order, so that the command exits with status 0.
        **values: Further values. They become attributes, and keys of the JSON output.
    """

    def __init__(self, lines: Sequence[str], in_order: bool = True, **values: Any) -> None:
        super().__init__(lines=lines, in_order=in_order, **values)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the result as a JSON object, without :attr:`lines`, the text for the user."""
        return {name: _to_json(value) for name, value in vars(self).items() if name != "lines"}


def _to_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    if isinstance(value, Result):
        return value.to_dict()
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


class Plan(ABC):
    """A planned operation, which can be shown to the user before it is executed. :meth:`run` executes it.

    Attributes:
        question: The question that the user must confirm before the plan is executed.
    """

    question = ""

    @abstractmethod
    def lines(self) -> list[str]:
        """Return the planned changes as lines of text, which are shown to the user before the plan is executed."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the planned changes as a JSON object."""

    def run(self, progress: Progress | None = None, stop: Stop | None = None) -> Result:
        """Execute the plan.

        Args:
            progress: A function that is called with progress reports. By default, progress bars are shown if tqdm is
                installed.
            stop: A flag to stop early.

        Returns:
            The result, with lines of text for the user and the values of the JSON output.

        Raises:
            Interrupted: If a stop is requested before the end. To continue, plan and run the operation again.
        """
        with progress_function(progress) as report:
            return self._run(report, stop or Stop())

    @abstractmethod
    def _run(self, progress: Progress, stop: Stop) -> Result:
        """Execute the plan.

        Subclasses implement this method. Users call :meth:`run`, which provides default values for the arguments.

        Args:
            progress: A function that is called with progress reports.
            stop: A flag to stop early.

        Returns:
            The result, with lines of text for the user and the values of the JSON output.
        """

    def __str__(self) -> str:
        return "\n".join(self.lines())


def raise_if_stopped(stop: Stop, message: str) -> None:
    """Raise Interrupted if the user has requested that a running operation stops.

    Args:
        stop: The flag that requests the stop.
        message: The message of the exception, which should say how to continue.
    """
    if stop.requested:
        raise Interrupted(message)


def start_step(progress: Progress, text: str, total: int) -> Callable[[int], None]:
    """Report the beginning of a step of an operation, and return a function that reports its progress.

    Args:
        progress: A function that is called with progress reports.
        text: The name of the step.
        total: The number of documents to process.

    Returns:
        A function to call with the number of documents that are finished.
    """
    progress(Step(text, 0, max(1, total)))
    return lambda done: progress(Step(text, done, max(1, total, done)))


def count_documents(engine: Engine, index: str) -> int:
    """Return the number of documents in an index, alias or pattern.

    The default search pipeline of the index has no effect. It may add a filter to searches.
    """
    result = engine.search(index, {"size": 0, "track_total_hits": True, **PLAIN})
    return int(result.response["hits"]["total"]["value"])
