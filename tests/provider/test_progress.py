from __future__ import annotations

import json

from tacit.provider.store.runs import Trace
from tacit.provider.training.orders import DATA, DONE, FIT, ITERATION, message
from tacit.provider.training.progress import Progress


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def said(progress: Progress, about: str, **content: object) -> None:
    progress.hear(json.loads(message(about, **content)))


def test_progress_is_due_once_a_second_and_tells_what_is_new() -> None:
    clock = Clock()
    progress = Progress(5.0, clock)
    assert progress.changes_due() == {}
    said(progress, DATA, reports=7, devices=2)
    assert progress.changes_due() == {"reports": 7, "devices": 2, "seconds": 5.0}
    said(progress, FIT)
    said(progress, ITERATION, number=1, objective=2.0, likelihood=-3.0)
    assert progress.changes_due() == {}
    clock.now += 1
    due = progress.changes_due()
    assert (due["trace"], due["iterations"]) == (Trace((2.0,), (-3.0,)), 1)
    assert "reports" not in due


def test_the_end_tells_everything_even_what_was_written_down_just_before() -> None:
    clock = Clock()
    progress = Progress(clock=clock)
    said(progress, DATA, reports=7, devices=2)
    said(progress, DONE, objective=[2.0, 1.0], likelihood=[-3.0, -2.0], quality={"rmse": 1.0}, memory=5)
    clock.now += 2
    assert progress.changes_due()["quality"] == {"rmse": 1.0}
    at_the_end = progress.changes()
    assert at_the_end.pop("seconds") == 2
    assert at_the_end == {
        "reports": 7,
        "devices": 2,
        "quality": {"rmse": 1.0},
        "memory": 5,
        "trace": Trace([2.0, 1.0], [-3.0, -2.0]),
        "iterations": 2,
    }
