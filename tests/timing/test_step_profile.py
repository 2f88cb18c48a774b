"""Parts of a step from the ranges of a profile."""

from __future__ import annotations

import pytest

from tcexplore.timing.step_profile import PYTHON, ProfiledRange, step_parts

R = ProfiledRange

STEP = [
    R("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 10, -1, True),
    R("aten::stack", 2, 8, -1),
    R("tcexplore region 4", 10, 50, -1, True),
    R("TorchDynamo Cache Lookup", 11, 13, -1),
    R("Torch-Compiled Region: 0/0", 13, 49, -1),
    R("CompiledFunction", 15, 40, 27),
    R("## Call CompiledFxGraph abc ##", 16, 38, -1),
    R("aten::mm", 20, 30, -1),
    R("aten::relu", 42, 45, -1),
    R("aten::mse_loss", 52, 57, 28),
    R("autograd::engine::evaluate_function: MseLossBackward0", 60, 64, 28),
    R("autograd::engine::evaluate_function: CompiledFunctionBackward", 64, 90, 27),
    R("CompiledFunctionBackward", 65, 89, 27),
    R("Optimizer.step#SGD.step", 90, 98, -1, True),
    R("aten::_foreach_add_", 91, 97, -1),
]


def test_each_moment_counts_for_the_innermost_part():
    parts = step_parts([STEP], 100.0)
    assert parts.regions == {4: pytest.approx((25 + 24) / 100)}
    assert {name: round(100 * share) for name, share in parts.rest.items()} == {
        "loading data": 10,
        "region calls outside graphs": 40 - 25 - 3,
        "eager ops": 3 + 5,
        "backward outside graphs": 4 + 2,
        "optimizer": 8,
        PYTHON: 2 + 3 + 2,
    }
    assert sum(parts.regions.values()) + sum(parts.rest.values()) == pytest.approx(1.0)


def test_the_backward_of_a_gpu_runs_in_a_thread_of_its_own():
    backward = [each for each in STEP if "Backward" in each.name]
    main = [each for each in STEP if "Backward" not in each.name]
    assert step_parts([main, backward], 100.0) == step_parts([STEP], 100.0)


def test_without_inductor_the_whole_frame_is_the_graph():
    ranges = [
        R("tcexplore region 0", 0, 10, -1, True),
        R("Torch-Compiled Region: 0/0", 1, 9, -1),
        R("aten::mm", 2, 8, -1),
    ]
    assert step_parts([ranges], 10.0).regions == {0: pytest.approx(0.8)}


def test_a_profile_without_ranges_is_no_answer():
    with pytest.raises(ValueError, match="no range"):
        step_parts([], 1.0)
