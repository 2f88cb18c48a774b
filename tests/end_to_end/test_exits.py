"""Ways to end the app at moments that the other tests do not cover; `tests/benchmarks/exits.py` has all pairs."""

from __future__ import annotations

import pytest

from tests.end_to_end.exits import problems

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

PAIRS = (
    ("q", "importing"),
    ("ctrl-c", "start"),
    ("SIGTERM", "compiling"),
    ("SIGKILL", "importing"),
    ("crash", "start"),
)


@pytest.mark.parametrize(("way", "moment"), PAIRS)
def test_the_app_ends_at_once_and_leaves_nothing(way: str, moment: str):
    assert problems(way, moment) == []
