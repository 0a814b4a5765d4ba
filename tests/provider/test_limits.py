"""How often somebody may ask."""

from __future__ import annotations

import pytest

from tacit.provider.service.limits import RateLimits, Window
from tacit.provider.service.problems import Problem


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_minute_is_counted_and_then_forgotten() -> None:
    clock = Clock()
    limits = RateLimits(per_device=2, anonymous=1, _window=Window(clock))
    limits.check("one")
    limits.check("one")
    limits.check("other")
    clock.now += 20.5
    with pytest.raises(Problem) as refused:
        limits.check("one")
    assert (refused.value.code, refused.value.headers["Retry-After"]) == ("too-many-requests", "40")
    limits.check_anonymous()
    with pytest.raises(Problem):
        limits.check_anonymous()
    clock.now += 39.5
    limits.check("one")
    limits.check_anonymous()


def test_zero_is_no_limit() -> None:
    limits = RateLimits(per_device=0)
    for _ in range(1000):
        limits.check("one")


def test_memory_is_given_back() -> None:
    clock = Clock()
    window = Window(clock)
    for number in range(1000):
        window.hit(str(number))
    clock.now += 60
    window.hit("new")
    assert len(window._counts) == 1
