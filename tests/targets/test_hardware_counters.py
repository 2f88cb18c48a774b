"""The report of Nsight Compute of two kernels on an H100, joined to the machine code of one of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tcexplore.events import Kernel, KernelAssembled
from tcexplore.targets.assembly_stages import make_stage
from tcexplore.targets.hardware_counters import Launch, read_launches, to_counters

REPORT = Path(__file__).with_name("nsight_compute")
FILE = "cli2p73azijpxesmxo7l2fgdnld5itkgksz2a5kcwfengwdht6yi.py"
LOAD_WAITED_FOR = 24
"""Line of the file whose first instruction uses what was loaded."""


def launches() -> list[Launch]:
    return read_launches((REPORT / "raw.csv").read_text(), (REPORT / "source.csv").read_text())


def kernel(name: str) -> Kernel:
    return Kernel(graph="0/0", phase="forward", name=name, language="triton", source="")


def code(added_lines: int = 0) -> KernelAssembled:
    stage = make_stage("sass", (REPORT / "relu.sass").read_text(), FILE, added_lines)
    return KernelAssembled(
        graph="0/0", phase="forward", kernel="triton_poi_fused_relu_2", target="native", config="", stages=(stage,)
    )


def test_the_page_of_launches_has_durations_in_microseconds_and_shares_of_one():
    _, relu = launches()
    assert (relu.kernel, relu.us) == ("triton_poi_fused_relu_2", 11.008)
    assert relu.shares == pytest.approx({
        "compute_share": 0.13228404, "memory_share": 0.45688696, "dram_share": 0.45688696, "l2_share": 0.7334176,
        "l1_share": 0.26638437, "occupancy": 0.76756944,
    })  # fmt: skip


def test_a_metric_that_this_gpu_does_not_count_is_unknown():
    raw = (REPORT / "raw.csv").read_text().replace('"0.', '"n/a').replace('"73.341760"', '"n/a"')
    _, relu = read_launches(raw, "")
    assert relu.shares["l2_share"] is None
    assert relu.shares["l1_share"] is not None


def test_the_counters_of_instructions_add_up_by_statement():
    _, relu = launches()
    counters = to_counters(kernel(relu.kernel), relu, code())
    assert not counters.missing
    assert sum(one.instructions for one in counters.statements) == sum(i.executed for i in relu.instructions)
    assert sum(one.samples for one in counters.statements) == sum(i.samples for i in relu.instructions)
    most = max(counters.statements, key=lambda one: one.samples)
    assert most.line == LOAD_WAITED_FOR
    assert most.stalls[0] == ("long_sb", 980), "samples of warps that could issue are not counted twice"


def test_lines_are_those_of_the_displayed_source():
    _, relu = launches()
    counters = to_counters(kernel(relu.kernel), relu, code(added_lines=10))
    assert max(counters.statements, key=lambda one: one.samples).line == LOAD_WAITED_FOR - 10


def test_the_code_of_another_kernel_is_not_joined():
    copy, _ = launches()
    counters = to_counters(kernel(copy.kernel), copy, code())
    assert not counters.statements
    assert counters.missing
    assert counters.us == copy.us


@pytest.mark.parametrize("known", [None, replace(code(), stages=(), missing="no nvdisasm")])
def test_without_machine_code_the_reason_stands_in_place_of_statements(known: KernelAssembled | None):
    _, relu = launches()
    counters = to_counters(kernel(relu.kernel), relu, known)
    assert not counters.statements
    assert counters.missing == ("no nvdisasm" if known else "the machine code of the kernel is not known")


def test_an_empty_report_has_no_launches():
    assert read_launches("", "") == []
    assert read_launches("==WARNING== No kernels were profiled.\n", "") == []
