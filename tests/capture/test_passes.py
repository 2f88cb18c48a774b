"""Every pass of Inductor's is seen, and what is said to have changed is what changed."""

from __future__ import annotations

from itertools import pairwise
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcexplore.capture.fx.fx_text import GraphText
from tcexplore.capture.inductor import pass_diffs as passes
from tcexplore.capture.inductor.pass_hunks import hunks
from tcexplore.events import FactMissing, Hunk, PassRun

LINES = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=12)


def applied(before: list[str], found: tuple[Hunk, ...]) -> list[str]:
    after = list(before)
    for hunk in reversed(found):
        assert tuple(after[hunk.at : hunk.at + len(hunk.removed)]) == hunk.removed
        after[hunk.at : hunk.at + len(hunk.removed)] = hunk.added
    return after


@given(LINES, LINES)
def test_hunks_lead_from_one_text_to_the_other(before: list[str], after: list[str]):
    found = hunks(before, after)
    assert applied(before, found) == after
    assert bool(found) == (before != after)
    for hunk in found:
        assert before[hunk.at - len(hunk.above) : hunk.at] == list(hunk.above)


@pytest.mark.torch
def test_passes_of_a_training_compile():
    from tests.capture import compiling, constants

    remembered = passes.Passes._look

    def checked(self: passes.Passes, gm: object, name: str) -> None:
        remembered(self, gm, name)
        assert self._open[-1].lines == GraphText().lines(gm.graph)  # type: ignore[attr-defined]

    model, inputs = constants.make()
    with mock.patch.object(compiling, "_ROOMS", (passes,)), mock.patch.object(passes.Passes, "_look", checked):
        events = compiling.captured(model, inputs, constants.__file__, train=True)
    assert [event for event in events if isinstance(event, FactMissing)] == []
    runs = [event for event in events if isinstance(event, PassRun)]
    assert {(run.stage, run.phase) for run in runs} >= {
        ("pre_grad", "forward"), ("joint", "forward"), ("post_grad", "forward"), ("post_grad", "backward"),
    }  # fmt: skip
    assert all(run.graph == "0/0" for run in runs)
    changed = [run for run in runs if run.hunks]
    assert changed
    assert len(changed) < len(runs)
    for stage in ("joint", "post_grad"):
        for phase in ("forward", "backward"):
            mine = [run for run in runs if (run.stage, run.phase) == (stage, phase)]
            assert all(a.after == b.before for a, b in pairwise(mine))
