"""Values of a wrapper: what each kernel wrote, whether a second call wrote the same, and what a kernel may read."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

from tcexplore.numerics.lowered_graphs import BufferChange, LoweredGraph
from tcexplore.numerics.wrapper_values import ValueRecorder, WrapperCall, WrittenValue

WRAPPER = """
import torch

calls = 0


def fill():
    return torch.zeros(4)


def add(x, out):
    global calls
    calls += 1
    out += x * calls


def double(x, out):
    out.copy_(x * 2)


def square(x):
    return x * x


def call(args):
    x, = args
    buf0 = fill()
    add(x, buf0)
    buf2 = torch.empty(4)
    double(buf0, buf2)
    buf3 = buf0; del buf0
    buf4 = square(x)
    double(buf4, buf3)
    return buf2, buf3
"""


@pytest.fixture
def recorded(tmp_path: Path) -> WrapperCall:
    """Return the values of two calls, of which the second adds something else."""
    path = tmp_path / "wrapper.py"
    path.write_text(WRAPPER)
    spec = importlib.util.spec_from_file_location("wrapper", path)
    assert spec
    assert spec.loader
    wrapper: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(wrapper)
    module = torch.fx.symbolic_trace(lambda x: x)
    changes: dict[str, tuple[BufferChange, ...]] = {"buf0": (BufferChange("buf1", None),)}
    recorder = ValueRecorder(lambda _: 1 << 20)
    recorder.add(LoweredGraph(graph="0/0", phase="forward", module=module, wrapper=wrapper, nodes={}, changes=changes))
    for _ in range(2):
        wrapper.call([torch.ones(4)])
    recorder.close()
    return recorder.calls[str(path)]


def test_a_buffer_has_a_value_for_each_kernel_that_changed_it(recorded: WrapperCall):
    values = {name: [value.tolist() for value in values] for name, values in recorded.written.items()}
    assert values == {"buf0": [[0.0] * 4, [1.0] * 4], "buf2": [[2.0] * 4], "buf4": [[1.0] * 4], "buf3": [[2.0] * 4]}


def test_the_kernel_that_varies_is_the_one_whose_result_is_another_in_a_second_call(recorded: WrapperCall):
    filled, added, doubled = WrittenValue("buf0", 0), WrittenValue("buf0", 1), WrittenValue("buf2", 0)
    assert recorded.repeats([filled]) is True
    assert recorded.repeats([added]) is False
    assert recorded.repeats([doubled]) is None, "its input varied"
    assert recorded.varied[added].tolist() == [2.0] * 4
    assert filled not in recorded.varied


def test_a_kernel_may_read_the_buffers_that_its_call_names_and_those_whose_memory_they_took_over(
    recorded: WrapperCall,
):
    assert recorded.named_with([WrittenValue("buf2", 0)]) == frozenset({"buf0", "buf2"})
    assert recorded.named_with([WrittenValue("buf4", 0)]) == frozenset({"buf4"})
    assert recorded.named_with([WrittenValue("buf3", 0)]) == frozenset({"buf0", "buf3", "buf4"})
    assert recorded.named_with([WrittenValue("buf9", 0)]) is None
