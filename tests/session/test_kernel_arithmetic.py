"""The arithmetic of library calls, by the functions that an H200 ran for them (torch 2.11), and shares of its peaks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tcexplore import events as ev
from tcexplore.session.kernel_facts import (
    ABOVE_PEAK,
    COMPLEX,
    EMULATED,
    MAYBE_CAUSAL,
    SPARSE,
    TF32_UNKNOWN,
    Arithmetic,
    KernelFacts,
    achieved,
    arithmetic_used,
)
from tcexplore.session.snapshot import start_snapshot
from tcexplore.targets.device_table import find_target

RAN: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("h200_functions.json").read_text())

EXPECTED = {
    "mm fp32 highest": "fp32", "mm fp32 high": "tf32", "addmm fp32 high": "tf32", "bmm fp32 high": "tf32",
    "mm fp32 medium": "tf32", "bmm fp32 highest": "fp32", "mv fp32": "fp32", "mm skinny fp32": "fp32",
    "conv fp32": "tf32", "conv fp32 channels_last": "tf32", "conv1x1 fp32": "tf32", "conv1d fp32": "tf32",
    "conv3d fp32": "tf32", "conv bfloat16": "bf16", "conv float16": "bf16", "conv fp32 no tf32": "fp32",
    "mm bfloat16": "bf16", "bmm bfloat16": "bf16", "mm float16": "bf16", "bmm float16": "bf16",
    "mm float64": "fp64_matrix", "bmm float64": "fp64_matrix", "mm bf16 8192 zeros": "bf16",
    "scaled_mm fp8": "fp8", "scaled_mm fp8 fast": "fp8", "int_mm": "int8",
    "sdpa bfloat16 FLASH_ATTENTION causal=False": "bf16", "sdpa float16 CUDNN_ATTENTION causal=False": "bf16",
    "sdpa bfloat16 EFFICIENT_ATTENTION causal=False": "bf16",
}  # fmt: skip

WITHOUT = {
    "mm complex64": COMPLEX, "semi-structured fp16": SPARSE,
    "sdpa float32 EFFICIENT_ATTENTION causal=False": EMULATED,
}  # fmt: skip


def call(**facts: Any) -> ev.Kernel:
    return ev.Kernel(**{"graph": "0/0", "phase": "forward", "name": "k", "language": "extern", "source": "", **facts})


@pytest.mark.parametrize("case", EXPECTED)
def test_names_of_device_functions_show_the_arithmetic(case: str):
    assert arithmetic_used(call(), RAN[case]["functions"], None, "unknown") == Arithmetic(EXPECTED[case])


@pytest.mark.parametrize("case", WITHOUT)
def test_arithmetic_without_a_peak_has_a_reason(case: str):
    assert arithmetic_used(call(), RAN[case]["functions"], None, "fp32") == WITHOUT[case]


def test_types_decide_where_no_name_does():
    assert arithmetic_used(call(dtypes=("bfloat16",)), ["kernel_1"], None, "bf16").name == "bf16"
    assert arithmetic_used(call(dtypes=("float32",)), ["kernel_1"], None, "fp32").name == "fp32", "TF32 is not allowed"
    assert arithmetic_used(call(dtypes=("float32",)), ["kernel_1"], None, "tf32") == TF32_UNKNOWN
    assert arithmetic_used(call(dtypes=("complex64",)), ["gemm_f32"], None, "fp32") == COMPLEX


def test_a_call_with_two_kinds_of_arithmetic_has_no_peak():
    functions = [*RAN["mm fp32 high"]["functions"], *RAN["mm fp32 highest"]["functions"]]
    assert arithmetic_used(call(), functions, None, "tf32").reason == "it uses tf32 and fp32"


def test_a_causal_kernel_does_less_than_torch_counts():
    source = "torch.ops.aten._scaled_dot_product_flash_attention.default(q, k, v, 0.0, True, scale=0.125)"
    functions = RAN["sdpa bfloat16 FLASH_ATTENTION causal=True"]["functions"]
    assert arithmetic_used(call(source=source), functions, None, "bf16") == MAYBE_CAUSAL
    assert arithmetic_used(call(source=source.replace("True", "False")), functions, None, "bf16").name == "bf16"


@pytest.mark.parametrize(
    ("instruction", "name"),
    [
        ("wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {%r1}", "tf32"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r1}", "bf16"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1}", "bf16"),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%r1}", "fp64_matrix"),
        ("wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {%r1}", "fp8"),
        ("HGMMA.64x128x8.F32.TF32 R24, gdesc[UR4]", "tf32"),
        ("HMMA.16816.F32.BF16 R4, R8, R12, R4 ;", "bf16"),
        ("HMMA.16816.F32 R4, R8, R12, R4 ;", "bf16"),
        ("QGMMA.64x64x32.F32.E4M3.E4M3 R24", "fp8"),
        ("FFMA R4, R8, R12, R4 ;", "fp32"),
    ],
)
def test_matrix_instructions_of_a_triton_kernel_show_the_arithmetic(instruction: str, name: str):
    stage = ev.KernelStage("ptx" if instruction[0].islower() else "sass", f"add\n  {instruction}\nret")
    made = ev.KernelAssembled(graph="0/0", phase="forward", kernel="k", target="native", config="", stages=(stage,))
    triton = call(language="triton", source="tl.dot(a, b)", dtypes=("float32",))
    assert arithmetic_used(triton, (), made, "tf32") == Arithmetic(name)
    assert arithmetic_used(triton, (), None, "tf32") == TF32_UNKNOWN, "without machine code"


def rates(case: str, *, moved: int = 1 << 30, faster: float = 1.0, precision: str = "tf32"):
    us, flops = RAN[case]["us"] / faster, RAN[case]["flops"]
    target = find_target("h200")
    peaks = tuple(
        (name, getattr(target.peaks, name)) for name in ("fp32", "fp64", "fp64_matrix", "tf32", "bf16", "fp8")
    )
    kernel = call(flops=flops, bytes_read=moved, bytes_written=0)
    point = ev.RooflinePoint(
        graph="0/0", phase="forward", kernel="k", target="native", bytes=moved, flops=flops, intensity=flops / moved,
        bound="compute", implied_us=1.0, memory_peak=target.peaks.memory, peak=dict(peaks)[precision],
        precision=precision, peaks=peaks, l2_bytes=target.properties.L2_cache_size,
    )  # fmt: skip
    timed = ev.CallPart(
        kind="kernel", name="k", graph="0/0", phase="forward", us=us, low_us=us, high_us=us, device="cuda",
        functions=tuple(RAN[case]["functions"]),
    )  # fmt: skip
    profile = ev.CallProfiled(total_us=us, repeats=5, parts=(timed,), device_busy_us=us)
    snapshot = start_snapshot(ev.Job(run=1, file="m.py", source="", config=ev.Config())).apply(replace(profile, run=1))
    reached = achieved(snapshot, kernel, KernelFacts(None, None, point))
    assert reached is not None
    return reached


@pytest.mark.parametrize("case", [case for case in RAN if "triton" not in case])
def test_no_share_is_above_one_and_each_absent_one_has_a_reason(case: str):
    for precision in ("fp32", "tf32", "fp64"):
        compute = rates(case, precision=precision).compute
        assert (compute.share is None) == bool(compute.reason)
        assert compute.share is None or 0 < compute.share <= 1


def test_the_peak_is_that_of_the_arithmetic_that_ran():
    strict, tf32 = rates("mm fp32 highest", precision="tf32"), rates("conv fp32", precision="fp32")
    assert (strict.arithmetic, tf32.arithmetic) == ("fp32", "tf32"), "not that of the settings"
    assert strict.compute.share == pytest.approx(51.4 / 67, rel=0.01)
    assert tf32.compute.share == pytest.approx(122.6 / 494.7, rel=0.01)
    assert rates("mm float64").compute.share == pytest.approx(63.2 / 67, rel=0.01), "on the matrix units"
    impossible = rates("mm bfloat16", faster=1.5).compute
    assert (impossible.share, impossible.reason) == (None, ABOVE_PEAK)


def test_bytes_that_fit_the_cache_have_no_share_of_the_memory():
    cached, large = rates("mv fp32", moved=60 << 20), rates("mv fp32", moved=61 << 20)
    assert (cached.memory.share, cached.memory.reason) == (None, "its bytes fit the L2 cache (60 MiB)")
    assert cached.memory.rate == pytest.approx((60 << 20) / 22.17e-6)
    assert large.memory.share == pytest.approx((61 << 20) / 22.17e-6 / 4.8e12)
    assert (cached.bound_share, large.bound_share) == (None, large.memory.share)
    fast = rates("mv fp32", moved=200 << 20)
    assert (fast.memory.share, fast.memory.reason) == (None, ABOVE_PEAK)
