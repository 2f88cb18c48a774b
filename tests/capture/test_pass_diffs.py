"""Every Inductor pass is recorded, and its hunks are exactly its changes."""

from __future__ import annotations

from itertools import pairwise
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcexplore.capture.fx_nodes import GraphText
from tcexplore.capture.inductor import pass_diffs
from tcexplore.capture.inductor.pass_diffs import Passes, hunks
from tcexplore.events import FactMissing, Hunk, PassRun

LINES = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=12)


def applied(before: list[str], changes: tuple[Hunk, ...]) -> list[str]:
    after = list(before)
    for hunk in reversed(changes):
        assert tuple(after[hunk.at : hunk.at + len(hunk.removed)]) == hunk.removed
        after[hunk.at : hunk.at + len(hunk.removed)] = hunk.added
    return after


@given(LINES, LINES)
def test_hunks_turn_one_text_into_the_other(before: list[str], after: list[str]):
    changes = hunks(before, after)
    assert applied(before, changes) == after
    assert bool(changes) == (before != after)
    for hunk in changes:
        assert before[hunk.at - len(hunk.above) : hunk.at] == list(hunk.above)


@pytest.mark.torch
def test_passes_of_a_training_compile():
    from tests.capture import compiling, constants

    compare = Passes._compare

    def checked(self: Passes, gm: object, name: str) -> None:
        compare(self, gm, name)
        assert self._open[-1].lines == GraphText().lines(gm.graph)  # type: ignore[attr-defined]

    model, inputs = constants.make()
    with mock.patch.object(Passes, "_compare", checked):
        events = compiling.captured(model, inputs, constants.__file__, train=True, modules=(pass_diffs,))
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
            stage_runs = [run for run in runs if (run.stage, run.phase) == (stage, phase)]
            assert all(a.nodes_after == b.nodes_before for a, b in pairwise(stage_runs))
