"""Tests of progress reports of trainings with several stages."""

from __future__ import annotations

from resift_lab.training.progress import StepCounter


def test_stages_are_counted_one_after_the_other() -> None:
    reports: list[tuple[int, int]] = []
    steps = StepCounter(lambda *report: reports.append(report), 10)
    first = steps.next_stage()
    first(2, 4)
    first(4, 4)
    steps.advance(1)
    steps.next_stage()(3, 5)
    assert reports == [(2, 10), (4, 10), (5, 10), (8, 10)]


def test_progress_never_exceeds_the_total_which_may_change() -> None:
    reports: list[tuple[int, int]] = []
    steps = StepCounter(lambda *report: reports.append(report), 2)
    steps.advance(3)
    steps.total = 6
    steps.advance(3)
    assert reports == [(2, 2), (6, 6)]
    StepCounter(None, 2).advance(1)
