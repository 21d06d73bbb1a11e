"""How a training reports how far it has come."""

from __future__ import annotations

from resift.notebook import Progress as Progress


class StepCounter:
    """Counts the steps of a training that has several stages, and reports them as those of one.

    ``progress`` is called after every change, with at most ``total`` steps done; None is called never. ``total`` may
    be corrected once it is known better.
    """

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def advance(self, count: int) -> None:
        """Count this many more steps."""
        self._report(self.done + count)

    def stage(self) -> Progress:
        """A report function for the next stage, which counts its own steps from 0."""
        before = self.done
        return lambda done, _: self._report(before + done)

    def _report(self, done: int) -> None:
        self.done = done
        if self.progress:
            self.progress(min(done, self.total), self.total)
