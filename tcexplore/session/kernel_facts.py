"""Facts about one kernel beyond its source: machine code, resources, arithmetic, roofline, measured rates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from tcexplore import events as ev
from tcexplore.session.call_account import CallAccount
from tcexplore.session.code import Code
from tcexplore.session.identity_cache import by_identity
from tcexplore.session.snapshot import Snapshot
from tcexplore.targets.target_names import NATIVE


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


# ---- facts


class OfKernel(Protocol):
    """An event about one kernel."""

    @property
    def graph(self) -> str: ...
    @property
    def phase(self) -> str: ...
    @property
    def kernel(self) -> str: ...


KernelEvent = TypeVar("KernelEvent", bound=OfKernel)


class KernelFacts(NamedTuple):
    """Machine code and roofline of a kernel; None if unknown."""

    assembled: ev.KernelAssembled | None
    """For the configuration that runs, else the first one."""
    not_assembled: ev.KernelNotAssembled | None
    roofline: ev.RooflinePoint | None


def kernel_facts(code: Code, kernel: ev.Kernel) -> KernelFacts:
    """Return the facts about a kernel of this code."""
    return KernelFacts(
        _first(code.assembled, kernel), _first(code.not_assembled, kernel), _first(code.roofline, kernel)
    )


def kernel_loops(code: Code, kernel: ev.Kernel) -> tuple[ev.LoopVectorized, ...]:
    """Return the last form of each loop nest of a C++ kernel."""
    if kernel.language != "cpp":
        return ()
    own = set(kernel.scheduler_nodes)
    loops = {
        loop.nodes: loop
        for loop in code.vectorized
        if (loop.graph, loop.phase) == (kernel.graph, kernel.phase) and own.issuperset(loop.nodes)
    }
    return tuple(loops.values())


def _first(events: Iterable[KernelEvent], kernel: ev.Kernel) -> KernelEvent | None:
    wanted = (kernel.graph, kernel.phase, kernel.name)
    return next((event for event in events if (event.graph, event.phase, event.kernel) == wanted), None)


class PeakShare(NamedTuple):
    """A measured rate as a share of the device's peak."""

    rate: float | None
    """Bytes or FLOP per second; None if torch does not count them, or for other sizes."""
    share: float | None = None
    """0 to 1; None if the peak that applies is not known."""
    reason: str = ""
    """Why there is no share, or no rate."""


class Achieved(NamedTuple):
    """Measured rates of a kernel over all launches in one call."""

    measured: ev.CallPart
    memory: PeakShare
    compute: PeakShare
    arithmetic: str = ""
    """The arithmetic that `compute` is a share of; empty if unknown."""
    peak: float | None = None
    """FLOP per second of this arithmetic."""
    bound_share: float | None = None
    """The share of the peak that takes longer to reach: of memory, or of arithmetic."""


def measured_time(snapshot: Snapshot, kernel: ev.Kernel) -> ev.CallPart | None:
    """Return the part of a call that a kernel takes on the device of this machine."""
    if snapshot.call_account is None or kernel.target != NATIVE:
        return None
    wanted = ("kernel", kernel.graph, kernel.phase, kernel.name)
    parts = (p for p in snapshot.call_account.parts if (p.kind, p.graph, p.phase, p.name) == wanted)
    return next(parts, None)


def idle_graphs(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the compile ids of graphs that no measured call runs, in order; empty without a measured call."""
    if snapshot.call_account is None or snapshot.code.target != NATIVE:
        return ()
    return _idle_graphs(snapshot.call_account, snapshot.captured_calls, snapshot.code.kernels)


@by_identity(2)
def _idle_graphs(
    account: CallAccount, captured_calls: tuple[ev.CallExamined, ...], kernels: tuple[ev.Kernel, ...]
) -> tuple[str, ...]:
    profiles = [account.profile, *(call.profile for call in captured_calls)]
    ran = {part.graph for profile in profiles if profile is not None for part in profile.parts if part.graph}
    own = dict.fromkeys(kernel.graph for kernel in kernels)
    return tuple(graph for graph in own if graph not in ran) if ran else ()


def kernels_that_run(snapshot: Snapshot) -> tuple[ev.Kernel, ...]:
    """Return the kernels of the graphs that the measured calls run; all without a measured call."""
    idle = idle_graphs(snapshot)
    return tuple(kernel for kernel in snapshot.code.kernels if kernel.graph not in idle)


def traced_sizes(snapshot: Snapshot, graphs: Iterable[str]) -> str:
    """Return `s23=4`: symbolic sizes of graphs as they were traced, for which bytes and FLOPs are counted."""
    known = _sizes_by_graph(snapshot.symbols)
    sizes = [*dict.fromkeys(size for graph in dict.fromkeys(graphs) for size in known.get(graph, ()))]
    return ", ".join([*sizes[:SIZES], *(["…"] if len(sizes) > SIZES else [])])


SIZES = 3
"""Symbolic sizes that are named."""


@by_identity(4)
def _sizes_by_graph(symbols: tuple[ev.GraphSymbols, ...]) -> dict[str, tuple[str, ...]]:
    return {
        of.graph: tuple(f"{symbol.name}={symbol.hint}" for symbol in of.symbols if _is_size(symbol)) for of in symbols
    }


def _is_size(symbol: ev.Symbol) -> bool:
    """Return whether a symbol is a size that a graph was traced with, not a number of the program."""
    of_size = not symbol.sources or any(source.kind == "size" for source in symbol.sources)
    return symbol.hint.isdecimal() and of_size and not symbol.specialized


def is_call_of_traced_sizes(snapshot: Snapshot) -> bool:
    """Return whether the measured calls have the sizes that the graphs were traced with.

    Those of a script, of a trace, or of a file that makes several, may have others.
    """
    calls = snapshot.timing.calls if snapshot.timing is not None else len(snapshot.entry.calls) if snapshot.entry else 1
    return not snapshot.is_script and not snapshot.trace and calls == 1


def achieved(snapshot: Snapshot, kernel: ev.Kernel, facts: KernelFacts) -> Achieved | None:
    """Return the rates of a kernel; None if it was not measured."""
    time = measured_time(snapshot, kernel)
    if time is None or time.us <= 0:
        return None
    if not is_call_of_traced_sizes(snapshot) and traced_sizes(snapshot, (kernel.graph,)):
        return Achieved(time, PeakShare(None, None, OTHER_SIZES), PeakShare(None, None, OTHER_SIZES))
    runs = _runs(snapshot, kernel, time)
    moved = None if kernel.bytes_read is None else kernel.bytes_read + (kernel.bytes_written or 0)
    memory, compute = _rate(moved, time.us / runs), _rate(kernel.flops, time.us / runs)
    point = facts.roofline
    if point is None or time.device == "cpu":
        return Achieved(time, PeakShare(memory, None, NO_PEAKS), PeakShare(compute, None, NO_PEAKS))
    used = arithmetic_used(kernel, time.functions, facts.assembled, point.precision) if kernel.flops else Arithmetic()
    peak = dict(point.peaks or ((point.precision, point.peak),)).get(used.name)
    unknown = used.reason or f"the device table has no peak of {used.name}"
    of_memory = _share(memory, point.memory_peak, _in_cache(point))
    of_compute = _share(compute, peak, "" if peak else unknown)
    memory_us = point.bytes / point.memory_peak * 1e6
    compute_bound = kernel.flops and (peak is None or kernel.flops / peak * 1e6 >= memory_us)
    return Achieved(
        measured=time,
        memory=of_memory,
        compute=of_compute,
        arithmetic=used.name if peak else "",
        peak=peak,
        bound_share=of_compute.share if compute_bound else of_memory.share,
    )


OTHER_SIZES = "bytes and FLOPs are counted for the sizes that the graph was traced with; the call may have others"
NO_PEAKS = "the device table has no peaks of this device"
ABOVE_PEAK = "the rate is above the vendor's peak: what it does is not what is counted"


def _in_cache(point: ev.RooflinePoint) -> str:
    """Return why the bytes of a kernel need not come from the memory; empty if they do."""
    if point.l2_bytes is None or point.bytes > point.l2_bytes:
        return ""
    return f"its bytes fit the L2 cache ({point.l2_bytes / (1 << 20):.0f} MiB)"


def _share(rate: float | None, peak: float | None, unknown: str) -> PeakShare:
    """Return the share of a peak; none if the peak is `unknown`, or if the rate is above it."""
    if not rate:
        return PeakShare(None)
    if unknown or not peak:
        return PeakShare(rate, None, unknown)
    return PeakShare(rate, rate / peak) if rate <= peak else PeakShare(rate, None, ABOVE_PEAK)


def _runs(snapshot: Snapshot, kernel: ev.Kernel, part: ev.CallPart) -> float:
    """Return how often one call runs the kernel's graph; the kernel's bytes and FLOPs are of one run."""
    calls = snapshot.call_account.calls if snapshot.call_account is not None else 1
    return part.launches / len(kernel.calls) / calls if kernel.calls else 1 / calls


def _rate(amount: int | None, microseconds: float) -> float | None:
    return amount / microseconds * 1e6 if amount else None
