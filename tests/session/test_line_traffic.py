"""Memory traffic of lines, from the kernels that they are part of."""

from __future__ import annotations

import pytest

from tcexplore.events import Kernel, KernelCall, Location
from tcexplore.session.line_times import line_traffic
from tests import fakes
from tests.snapshots.mlp_source import FILE, line

ONE, TWO = Location("/m.py", 1), Location("/m.py", 2)


def kernel(*calls: KernelCall, language: str = "cpp") -> Kernel:
    return Kernel(graph="0/0", phase="forward", name="k", language=language, source="", calls=calls)


def call(order: int, moved: int | None, *lines: Location) -> KernelCall:
    half = None if moved is None else moved // 2
    return KernelCall(order=order, source_lines=lines, bytes_read=half, bytes_written=half)


def test_a_fused_kernel_counts_in_full_for_each_of_its_lines():
    traffic = line_traffic([kernel(call(0, 60, ONE, TWO)), kernel(call(1, 40, TWO), language="extern")])
    assert traffic.bytes == 100
    assert traffic.lines["/m.py", 1].share == pytest.approx(0.6)
    assert traffic.lines["/m.py", 2].share == pytest.approx(1.0)
    assert not traffic.lines["/m.py", 2].extern


def test_each_call_of_a_kernel_counts_for_its_own_lines():
    traffic = line_traffic([kernel(call(0, 60, ONE), call(1, 40, TWO))])
    assert (traffic.lines["/m.py", 1].bytes, traffic.lines["/m.py", 2].bytes) == (60, 40)


def test_a_line_counts_once_per_call():
    assert line_traffic([kernel(call(0, 60, ONE, Location("/m.py", 1, "f")))]).lines["/m.py", 1].bytes == 60


def test_a_missing_size_is_unknown():
    traffic = line_traffic([kernel(call(0, None, ONE)), kernel(call(1, 40, ONE))]).lines["/m.py", 1]
    assert (traffic.calls, traffic.bytes, traffic.unknown) == (2, 40, 1)


def test_lines_of_extern_kernels_only_are_marked():
    run = fakes.complete()
    traffic = line_traffic(run.code.kernels)
    assert traffic.lines[FILE, line("self.fc1(x)")].extern
    assert not traffic.lines[FILE, line("self.fc2(h)")].extern, "it also has a generated kernel"
    assert traffic.bytes == sum((k.bytes_read or 0) + (k.bytes_written or 0) for k in run.code.kernels)
