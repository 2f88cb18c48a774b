"""Roofline estimate: the minimum time of a kernel on a target from its bytes and FLOPs. Nothing is measured."""

from __future__ import annotations

import re

from tcexplore.events import Kernel
from tcexplore.events.target_events import RooflinePoint
from tcexplore.targets.device_table import Peaks, Target

_POINTER = re.compile(r"'\*(fp\d+|bf16|fp8\w+)'")
_TENSOR_CORE = re.compile(r"\btl\.dot\(")
_MATRIX_OPS = frozenset({"aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm", "aten.convolution", "aten._scaled_mm"})


def roofline_point(kernel: Kernel, target: Target, *, tf32: bool = False) -> RooflinePoint | None:
    """Return the roofline point of `kernel` on `target`, or None if its bytes or the target's peak rate are unknown.

    Bytes are the scheduler's, with each buffer counted once. torch has no FLOP count for pointwise and reduction
    kernels; they count as memory-bound.
    """
    if kernel.bytes_read is None and kernel.bytes_written is None:
        return None
    moved = (kernel.bytes_read or 0) + (kernel.bytes_written or 0)
    precision, peak = _peak(kernel, target.peaks, tf32)
    if peak is None:
        return None
    memory_time = moved / target.peaks.memory
    compute_time = kernel.flops / peak if kernel.flops else 0.0
    return RooflinePoint(
        graph=kernel.graph,
        phase=kernel.phase,
        kernel=kernel.name,
        target=target.key,
        bytes=moved,
        flops=kernel.flops,
        intensity=kernel.flops / moved if kernel.flops and moved else None,
        bound="compute" if compute_time > memory_time else "memory",
        implied_us=max(memory_time, compute_time) * 1e6,
        memory_peak=target.peaks.memory,
        peak=peak,
        precision=precision,
    )


def _peak(kernel: Kernel, peaks: Peaks, tf32: bool) -> tuple[str, float | None]:
    """Return precision and peak rate of the units that the kernel uses, matrix or vector units; None if unknown."""
    matrix = bool(_TENSOR_CORE.search(kernel.source)) or bool(_MATRIX_OPS.intersection(kernel.ops))
    element_types = set(_POINTER.findall(kernel.source))
    half = bool(element_types & {"bf16", "fp16"}) or "float16" in kernel.source
    half = half or not {"bfloat16", "float16"}.isdisjoint(kernel.dtypes)
    precision = "bf16" if matrix and half else "tf32" if matrix and tf32 else "fp32"
    precision = "fp64" if "float64" in kernel.dtypes else precision
    peak: float | None = getattr(peaks, precision)
    return ("fp32", peaks.fp32) if precision == "fp64" and peak is None else (precision, peak)
