"""A line is as hot as the kernels that it takes part in, and no byte is given to a line that torch gave to none."""

from __future__ import annotations

import pytest

from tcexplore.events import Kernel, KernelCall, Location
from tcexplore.session.line_traffic import line_traffic
from tests import fakes
from tests.snapshots.mlp_source import FILE, line

ONE, TWO = Location("/m.py", 1), Location("/m.py", 2)


def kernel(*calls: KernelCall, language: str = "cpp") -> Kernel:
    return Kernel(graph="0/0", phase="forward", name="k", language=language, source="", calls=calls)


def call(order: int, moved: int | None, *lines: Location) -> KernelCall:
    half = None if moved is None else moved // 2
    return KernelCall(order=order, source_lines=lines, bytes_read=half, bytes_written=half)


def test_a_fused_kernel_counts_in_full_for_each_of_its_lines():
    found = line_traffic([kernel(call(0, 60, ONE, TWO)), kernel(call(1, 40, TWO), language="extern")])
    assert found.bytes == 100
    assert found.lines["/m.py", 1].share == pytest.approx(0.6)
    assert found.lines["/m.py", 2].share == pytest.approx(1.0)
    assert not found.lines["/m.py", 2].extern


def test_calls_of_one_kernel_are_of_their_own_lines():
    found = line_traffic([kernel(call(0, 60, ONE), call(1, 40, TWO))])
    assert (found.lines["/m.py", 1].bytes, found.lines["/m.py", 2].bytes) == (60, 40)


def test_a_line_that_stands_twice_in_one_call_counts_once():
    assert line_traffic([kernel(call(0, 60, ONE, Location("/m.py", 1, "f")))]).lines["/m.py", 1].bytes == 60


def test_a_size_that_torch_does_not_say_is_unknown():
    found = line_traffic([kernel(call(0, None, ONE)), kernel(call(1, 40, ONE))]).lines["/m.py", 1]
    assert (found.calls, found.bytes, found.unknown) == (2, 40, 1)


def test_extern_lines_are_told_apart():
    run = fakes.complete()
    found = line_traffic(run.code.kernels)
    assert found.lines[FILE, line("self.fc1(x)")].extern
    assert not found.lines[FILE, line("self.fc2(h)")].extern, "it has a kernel of its own, too"
    assert found.bytes == sum(k.bytes_read + k.bytes_written for k in run.code.kernels)
