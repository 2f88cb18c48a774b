"""The arithmetic that a kernel really used, by its machine code, the names of its device functions, and its types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tcexplore import events as ev


class Arithmetic(NamedTuple):
    """A key of `RooflinePoint.peaks`, or why the kernel has none."""

    name: str = ""
    reason: str = ""


SPARSE = Arithmetic(reason="it uses structured sparsity, and the peaks are dense")
COMPLEX = Arithmetic(reason="torch counts the FLOPs of complex numbers as those of real ones")
FEWER_OPERATIONS = Arithmetic(reason="its algorithm (Winograd, FFT) needs fewer operations than torch counts")
EMULATED = Arithmetic(reason="it computes float32 in several products of a lower precision")
MAYBE_CAUSAL = Arithmetic(reason="torch counts the FLOPs of all scores, and a causal kernel skips half of them")
TF32_UNKNOWN = Arithmetic(reason="its functions' names do not tell whether float32 ran as TF32")
FP64_UNKNOWN = Arithmetic(reason="its functions' names do not tell whether float64 ran on the matrix units")

_FUNCTIONS: tuple[tuple[re.Pattern[str], Arithmetic], ...] = tuple(
    (re.compile(pattern), arithmetic)
    for pattern, arithmetic in (
        (r"sparse|spgemm|spmma", SPARSE),
        (r"winograd|fft", FEWER_OPERATIONS),
        (r"cf32|cf64|[_ ][cz]gemm|complex", COMPLEX),
        (r"tf32x3|3xtf32|bf16x[369]|fmha_cutlass\w*_f32", EMULATED),
        (r"e4m3|e5m2|float8|nvjet_(?:sm\d+_)?q", Arithmetic("fp8")),
        (r"s8_|s8s8|i16832|i8816|imma", Arithmetic("int8")),
        (r"tf32|_80_tensorop_s1688gemm", Arithmetic("tf32")),
        (r"f64f64.*tensor|tensorop_d|d884|dmma", Arithmetic("fp64_matrix")),
        (r"f64f64|dgemm|<double|, double", Arithmetic("fp64")),
        (r"bf16|bfloat16|f16|fp16|half|nvjet_(?:sm\d+_)?[th]|[hs](?:16816|884|1688)", Arithmetic("bf16")),
        (r"ffma|simt|sgemm|f32f32|<float|, float", Arithmetic("fp32")),
    )
)
"""Marks in the names of device functions of cuBLAS, cuDNN, CUTLASS, cuSPARSELt and torch; the first match counts.

`nvjet_tst`, `hsh`, `qqtst`: the first letter is the type of the inputs (bfloat16, float16, float8).
"""

_HELPER = re.compile(
    r"nchwToNhwc|nhwcToNchw|splitK|split_k|reduce_kernel|elementwise|init_device_workspace|Mem(?:cpy|set)"
)
"""Functions beside the product: copies, changes of layout, sums of partial results."""

_MATRIX_INSTRUCTION = re.compile(r"\b(?:wgmma\.mma_async\S*|w?mma\.sync\S*|[HQIDO]G?MMA[.\w]*|v_mfma_\w+)")
_INSTRUCTIONS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.I), name)
    for pattern, name in (
        (r"e4m3|e5m2|^QG?MMA|_fp8|_bf8", "fp8"),
        (r"tf32|xf32", "tf32"),
        (r"^I|\.s8|\.u8|_i8", "int8"),
        (r"^D|f64", "fp64_matrix"),
        (r"bf16|f16|^HG?MMA", "bf16"),
    )
)

_HALVES = frozenset({"float16", "bfloat16"})
_CAUSAL = re.compile(r"attention[\w.]*\([^\n]*\bTrue\b")


def arithmetic_used(
    kernel: ev.Kernel, functions: Sequence[str], assembled: ev.KernelAssembled | None, allowed: str
) -> Arithmetic:
    """Return the arithmetic of a kernel whose FLOPs torch counts.

    `functions` are its device functions in a profile; `allowed` is the fastest arithmetic that torch's settings allow.
    """
    if any(dtype.startswith("complex") for dtype in kernel.dtypes):
        return COMPLEX
    if _CAUSAL.search(kernel.source) and not kernel.generated:
        return MAYBE_CAUSAL
    shown = _of_code(kernel, assembled) if kernel.generated else _of_functions(functions)
    return shown or _of_types(kernel, allowed)


def _of_code(kernel: ev.Kernel, assembled: ev.KernelAssembled | None) -> Arithmetic | None:
    """Return what the matrix instructions of a generated kernel show; None without machine code."""
    text = next((s.text for s in assembled.stages if s.name in ("ptx", "sass", "amdgcn")), "") if assembled else ""
    if not text:
        return None
    if "tf32x3" in kernel.source or "bf16x" in kernel.source:
        return EMULATED
    instructions = _MATRIX_INSTRUCTION.findall(text)
    if not instructions:
        return Arithmetic("fp64" if "float64" in kernel.dtypes else "fp32")
    names = (next((name for mark, name in _INSTRUCTIONS if mark.search(i)), "fp32") for i in instructions)
    return _only(Arithmetic(name) for name in names)


def _of_functions(functions: Sequence[str]) -> Arithmetic | None:
    """Return what the names of device functions show; None if nothing."""
    products = [name for name in functions if not _HELPER.search(name)]
    marked = (next((used for mark, used in _FUNCTIONS if mark.search(name)), None) for name in products)
    return _only(used for used in marked if used is not None)


def _only(used: Iterable[Arithmetic]) -> Arithmetic | None:
    """Return the one arithmetic, or that there are several; None for none."""
    kinds = list(dict.fromkeys(used))
    if len(kinds) <= 1:
        return kinds[0] if kinds else None
    unusable = next((kind for kind in kinds if kind.reason), None)
    return unusable or Arithmetic(reason=f"it uses {' and '.join(kind.name for kind in kinds)}")


def _of_types(kernel: ev.Kernel, allowed: str) -> Arithmetic:
    """Return the arithmetic that follows from the types; those with two possible ones are not known."""
    if any(dtype.startswith("float8") for dtype in kernel.dtypes):
        return Arithmetic("fp8")
    if not _HALVES.isdisjoint(kernel.dtypes):
        return Arithmetic("bf16")
    if allowed == "tf32":
        return TF32_UNKNOWN
    return FP64_UNKNOWN if allowed == "fp64_matrix" else Arithmetic(allowed)
