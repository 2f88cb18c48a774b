"""Time limits for code that may never end."""

from __future__ import annotations

import pytest

from tcexplore.capture.time_limit import TimeLimitError, time_limit


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
