"""The estimate of a kernel's least time."""

from __future__ import annotations

import pytest

from tcexplore.events import Kernel
from tcexplore.targets.device_table import find
from tcexplore.targets.roofline import point, ridge


def kernel(**facts: object) -> Kernel:
    return Kernel(**{"graph": "0/0", "phase": "forward", "name": "k", "language": "triton", "source": "", **facts})  # type: ignore[arg-type]


def test_a_pointwise_kernel_stands_under_the_memory_roof():
    found = point(kernel(bytes_read=4_800_000, bytes_written=0), find("h200"))
    assert found is not None
    assert (found.bound, found.intensity, found.flops) == ("memory", None, None)
    assert found.implied_us == pytest.approx(1.0)


def test_a_large_product_in_bf16_is_bound_by_the_matrix_units():
    size = 8192
    product = kernel(
        language="extern", ops=("aten.mm",), source="bf16: bfloat16",
        bytes_read=2 * 2 * size**2, bytes_written=2 * size**2, flops=2 * size**3,
    )  # fmt: skip
    found = point(product, find("h200"))
    assert found is not None
    assert (found.bound, found.precision) == ("compute", "bf16")
    assert found.implied_us == pytest.approx(2 * size**3 / 989.4e12 * 1e6)


def test_a_product_in_fp32_takes_the_matrix_units_only_where_tf32_is_allowed():
    product = kernel(language="extern", ops=("aten.mm",), bytes_read=8, bytes_written=4, flops=2_000_000)
    strict, allowed = point(product, find("a100")), point(product, find("a100"), tf32=True)
    assert strict is not None
    assert allowed is not None
    assert (strict.precision, allowed.precision) == ("fp32", "tf32")
    assert strict.implied_us == pytest.approx(8 * allowed.implied_us)


def test_a_library_call_has_the_rate_of_what_it_reads():
    facts: dict[str, object] = {"language": "extern", "ops": ("aten.addmm",), "bytes_read": 8, "bytes_written": 4}
    found = [point(kernel(dtypes=(dtype,), **facts), find("h200")) for dtype in ("float16", "float32", "float64")]
    assert [one and one.precision for one in found] == ["bf16", "fp32", "fp64"]
    vectors = point(kernel(dtypes=("bfloat16",), bytes_read=8), find("h200"))
    assert vectors is not None
    assert vectors.precision == "fp32", "no matrix units without a product"


def test_nothing_is_said_where_torch_counts_no_bytes():
    assert point(kernel(), find("h200")) is None


def test_ridge():
    assert ridge(find("h200"), "bf16") == pytest.approx(989.4e12 / 4.8e12)
