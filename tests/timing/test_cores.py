"""One core is left to the terminal app where there are cores to spare."""

from __future__ import annotations

import os

import pytest

from tcexplore.timing import core_affinity as cores

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinities")


@pytest.mark.parametrize(("own", "threads", "left"), [(8, 4, 7), (4, 3, 3), (4, 4, None), (3, 1, None)])
def test_the_last_core_where_torch_does_not_need_it(
    monkeypatch: pytest.MonkeyPatch, own: int, threads: int, left: int | None
):
    kept: dict[int, set[int]] = {}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(own)))
    monkeypatch.setattr(os, "sched_setaffinity", kept.__setitem__)
    assert cores.keep_off_one(threads) == left
    if left is None:
        assert kept == {}
    else:
        assert os.getpid() in kept
        assert all(allowed == set(range(own)) - {left} for allowed in kept.values())
