"""Progress reports of trainings."""

from __future__ import annotations

from resift.notebook import Progress as Progress


class StepCounter:
    """Reports the progress of a training run with several stages as a single sequence of steps.

    Args:
        progress: A function that is called after each change with the number of finished steps (at most ``total``) and
            the total number of steps. None reports nothing.
        total: The total number of steps of all stages. The attribute may be changed during the training.
    """

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def advance(self, count: int) -> None:
        """Add finished steps to the counter, and report the progress of the training.

        Args:
            count: The number of steps that have been finished since the last call.
        """
        self._report(self.done + count)

    def next_stage(self) -> Progress:
        """Start the next stage of the training, and return a function that reports its progress.

        The function takes the number of finished steps of this stage. The counter adds the steps of earlier stages.
        """
        before = self.done
        return lambda done, _: self._report(before + done)

    def _report(self, done: int) -> None:
        self.done = done
        if self.progress:
            self.progress(min(done, self.total), self.total)
