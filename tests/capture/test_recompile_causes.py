from __future__ import annotations

import contextlib

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.events import Recompiled
from tests.capture import recompile_cases
from tests.capture.dynamo import at, broken, of, watching

pytestmark = pytest.mark.torch

CASES = recompile_cases.all_cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_cause_is_named_with_its_line_and_both_values(case: recompile_cases.Case):
    if case.name.startswith("global"):
        recompile_cases.FACTOR = int(case.old)
    with watching(recompile_cases.__file__) as events:
        compiled = torch.compile(case.program, backend="eager")
        compiled(*case.first)
        case.change()
        with torch.no_grad() if case.no_grad else contextlib.nullcontext():
            compiled(*case.second)
    assert broken(events) == []
    (found,) = of(Recompiled, events)
    assert (found.kind, found.old, found.new) == (case.kind, case.old, case.new)
    assert found.location == at(case.function, case.line)


def test_there_are_thirty_of_ten_causes():
    assert len(CASES) == 30
    assert len({case.name.split()[0] for case in CASES}) == 10
