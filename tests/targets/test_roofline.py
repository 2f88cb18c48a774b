"""Roofline estimates of a kernel's minimum time."""

from __future__ import annotations

import pytest

from tcexplore.events import Kernel
from tcexplore.targets.device_table import AllowedTf32, find_target, roofline_point


def kernel(**facts: object) -> Kernel:
    return Kernel(**{"graph": "0/0", "phase": "forward", "name": "k", "language": "triton", "source": "", **facts})  # type: ignore[arg-type]


def test_a_pointwise_kernel_is_memory_bound():
    point = roofline_point(kernel(bytes_read=4_800_000, bytes_written=0), find_target("h200"))
    assert point is not None
    assert (point.bound, point.intensity, point.flops) == ("memory", None, None)
    assert point.implied_us == pytest.approx(1.0)


def test_a_large_bf16_matmul_is_compute_bound():
    size = 8192
    product = kernel(
        language="extern", ops=("aten.mm",), source="bf16: bfloat16",
        bytes_read=2 * 2 * size**2, bytes_written=2 * size**2, flops=2 * size**3,
    )  # fmt: skip
    point = roofline_point(product, find_target("h200"))
    assert point is not None
    assert (point.bound, point.precision) == ("compute", "bf16")
    assert point.implied_us == pytest.approx(2 * size**3 / 989.4e12 * 1e6)


def test_an_fp32_matmul_uses_matrix_units_only_if_tf32_is_allowed():
    product = kernel(language="extern", ops=("aten.mm",), bytes_read=8, bytes_written=4, flops=2_000_000)
    a100 = find_target("a100")
    strict, allowed = roofline_point(product, a100), roofline_point(product, a100, AllowedTf32(matmul=True))
    assert strict is not None
    assert allowed is not None
    assert (strict.precision, allowed.precision) == ("fp32", "tf32")
    assert strict.implied_us == pytest.approx(8 * allowed.implied_us)


def test_a_convolution_has_its_own_setting_for_tf32():
    product = kernel(language="extern", ops=("aten.convolution",), bytes_read=8, bytes_written=4, flops=2_000_000)
    points = [
        roofline_point(product, find_target("h200"), allowed)
        for allowed in (AllowedTf32(convolution=True), AllowedTf32(matmul=True))
    ]
    assert [point and point.precision for point in points] == ["tf32", "fp32"]


@pytest.mark.parametrize(("line", "precision"), [("ALLOW_TF32 : tl.constexpr = False", "fp32"), ("", "tf32")])
def test_a_dot_of_triton_is_tf32_unless_its_source_forbids_it(line: str, precision: str):
    point = roofline_point(kernel(source=f"{line}\nacc += tl.dot(a, b)", bytes_read=8, flops=8), find_target("h200"))
    assert point is not None
    assert point.precision == precision


def test_a_library_call_has_the_peak_of_its_input_dtype():
    facts: dict[str, object] = {"language": "extern", "ops": ("aten.addmm",), "bytes_read": 8, "bytes_written": 4}
    points = [
        roofline_point(kernel(dtypes=(dtype,), **facts), find_target("h200"))
        for dtype in ("float16", "float32", "float64")
    ]
    assert [point and point.precision for point in points] == ["bf16", "fp32", "fp64_matrix"]
    vectors = roofline_point(kernel(dtypes=("bfloat16",), bytes_read=8), find_target("h200"))
    assert vectors is not None
    assert vectors.precision == "fp32", "pointwise ops do not use matrix units"


def test_there_is_no_point_without_byte_counts():
    assert roofline_point(kernel(), find_target("h200")) is None


def test_there_is_no_point_if_the_peak_rate_is_unknown():
    product = kernel(language="extern", ops=("aten.mm",), dtypes=("bfloat16",), bytes_read=8, flops=2_000_000)
    assert find_target("gb10").peaks.bf16 is None
    assert roofline_point(product, find_target("gb10")) is None
    assert roofline_point(product, find_target("b300")) is not None
