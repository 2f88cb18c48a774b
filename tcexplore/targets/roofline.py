"""The least time that a kernel can take on a target, from what it moves and computes: an estimate, not measured."""

from __future__ import annotations

import re

from tcexplore.events import Kernel
from tcexplore.events.target_events import RooflinePoint
from tcexplore.targets.device_table import Peaks, Target

_POINTER = re.compile(r"'\*(fp\d+|bf16|fp8\w+)'")
_TENSOR_CORE = re.compile(r"\btl\.dot\(")
_MATRIX_OPS = frozenset({"aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm", "aten.convolution", "aten._scaled_mm"})


def point(kernel: Kernel, target: Target, *, tf32: bool = False) -> RooflinePoint | None:
    """Where `kernel` stands under the roof of `target`; None where torch does not say what it moves.

    Bytes are the scheduler's, each buffer counted once. Pointwise and reduction kernels have no FLOP count in torch;
    they stand under the memory roof.
    """
    if kernel.bytes_read is None and kernel.bytes_written is None:
        return None
    moved = (kernel.bytes_read or 0) + (kernel.bytes_written or 0)
    precision, peak = _peak(kernel, target.peaks, tf32)
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


def ridge(target: Target, precision: str) -> float:
    """The intensity, in FLOP per byte, from which on `precision` and not memory is the bound."""
    return (getattr(target.peaks, precision) or target.peaks.fp32) / target.peaks.memory


def _peak(kernel: Kernel, peaks: Peaks, tf32: bool) -> tuple[str, float]:
    """The rate that its arithmetic could reach: the matrix units' where it uses them, else the vector units'."""
    matrix = bool(_TENSOR_CORE.search(kernel.source)) or bool(_MATRIX_OPS.intersection(kernel.ops))
    kinds = set(_POINTER.findall(kernel.source))
    half = bool(kinds & {"bf16", "fp16"}) or "float16" in kernel.source
    half = half or not {"bfloat16", "float16"}.isdisjoint(kernel.dtypes)
    wanted = "bf16" if matrix and half else "tf32" if matrix and tf32 else "fp32"
    wanted = "fp64" if "float64" in kernel.dtypes else wanted
    found: float | None = getattr(peaks, wanted)
    return (wanted, found) if found else ("fp32", peaks.fp32)
