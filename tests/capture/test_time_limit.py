"""Time limits for code that may never end."""

from __future__ import annotations

import time

import pytest

from tcexplore.capture.time_limit import TimeLimitError, time_limit, without_time_limit
from tcexplore.events import ScriptEnded
from tcexplore.worker.model_file import run_script


class InnerError(TimeLimitError):
    """The limit of an inner piece of code is over."""


def test_a_limit_that_was_not_reached_leaves_the_outer_one():
    with pytest.raises(TimeLimitError) as raised, time_limit(0.05):  # noqa: PT012
        with time_limit(60.0, InnerError):
            pass
        while True:
            pass
    assert type(raised.value) is TimeLimitError


def test_an_inner_limit_raises_its_own_error():
    with pytest.raises(InnerError), time_limit(60.0), time_limit(0.01, InnerError):  # noqa: PT012
        while True:
            pass


def test_time_without_a_limit_does_not_count():
    def take(seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pass

    with pytest.raises(TimeLimitError), time_limit(0.1):  # noqa: PT012
        with without_time_limit():
            take(0.3)
        while True:
            pass


def test_the_time_in_which_a_script_waited_is_not_its_own():
    sent: list[object] = []
    run_script(lambda: None, 0, lambda: None, sent.append)
    run_script(lambda: None, 0, lambda: None, sent.append, lambda: 3600.0)
    taken, without_waits = (event.seconds for event in sent if isinstance(event, ScriptEnded))
    assert 0 < taken < 3600
    assert without_waits == 0
