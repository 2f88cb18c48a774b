"""Timing of the perceptron: single calls, interleaved pairs, the estimate."""

from __future__ import annotations

import random

from tcexplore.events import Accuracy, CallMade, Deviation, Memory, PairsMeasured, PhaseTimed, TimingEstimate
from tcexplore.events.timing_events import MemoryReturned, MemoryState, TimedProcess, TimingVerdict

CALLS = (
    CallMade(index=0, variant="eager", seconds=0.004),
    CallMade(index=1, variant="compiled", seconds=1.93, compiles=2),
    CallMade(index=2, variant="compiled", seconds=0.00042),
)

PHASES = (
    PhaseTimed(name="compile_file", seconds=0.98, graph="0/0", depth=2),
    PhaseTimed(name="backend_compile", seconds=1.41, graph="0/0", depth=1),
    PhaseTimed(name="entire_frame_compile", seconds=1.62, graph="0/0", depth=0),
    PhaseTimed(name="compile_file", seconds=0.12, graph="1/0", depth=1),
    PhaseTimed(name="entire_frame_compile", seconds=0.29, graph="1/0", depth=0),
)


ACCURACY = Accuracy(
    verdict="as accurate as eager", max_abs=2.7e-7, max_rel=3.5e-7, eager_vs_fp64=3.7e-7, compiled_vs_fp64=3.6e-7,
    worst="output", calls=1, total_calls=1, differences=("output has stride [64, 1] eagerly, [1, 64] compiled",),
    values=(
        Deviation(
            name="output", dtype="f32", elements=4096, verdict="as accurate as eager", max_abs=2.7e-7, max_rel=3.5e-7,
            eager_vs_fp64=3.7e-7, compiled_vs_fp64=3.6e-7,
        ),
    ),
)  # fmt: skip

MEMORY = Memory(
    device="cpu", method="tensors of one call, without weights and inputs, as torch.profiler records",
    weights=4_208_640, inputs=131_072, eager_peak=786_432, compiled_peak=393_216, compiling_adds=15_708_160,
    compiling_method="resident memory of the worker process",
)  # fmt: skip


def pairs(count: int = 40, eager: float = 412.0, compiled: float = 314.0) -> PairsMeasured:
    """Return measured pairs around two medians, the same on every call."""
    rng = random.Random(7)
    return PairsMeasured(
        eager_us=tuple(eager * rng.lognormvariate(0, 0.02) for _ in range(count)),
        compiled_us=tuple(compiled * rng.lognormvariate(0, 0.016) for _ in range(count)),
    )


def control(count: int = 5) -> PairsMeasured:
    """Return pairs of eager with eager."""
    rng = random.Random(8)
    both = [tuple(412.0 * rng.lognormvariate(0, 0.02) for _ in range(count)) for _ in range(2)]
    return PairsMeasured(eager_us=both[0], compiled_us=both[1], control=True)


RETURNED = MemoryReturned(
    processes=2, eager_us=2070.0, compiled_us=1420.0, speedup=1.46, low=1.31, high=1.6, verdict="faster",
    eager_page_faults=941.0, compiled_page_faults=12.0, differs=True,
)  # fmt: skip
"""A timing with the allocator's defaults that differs from that with memory kept."""


def process(speedup: float, low: float, high: float, memory: MemoryState = "memory kept") -> TimedProcess:
    """Return a process with forty pairs."""
    return TimedProcess(
        memory=memory, pairs=40, speedup=speedup, low=low, high=high, eager_us=412.0, compiled_us=412.0 / speedup,
        eager_page_faults=0.0, compiled_page_faults=0.0,
    )  # fmt: skip


PROCESSES = (process(1.31, 1.28, 1.34), process(1.29, 1.26, 1.32), process(1.46, 1.31, 1.6, "memory returned"))


def estimate(verdict: TimingVerdict = "faster", speedup: float = 1.31) -> TimingEstimate:
    """Return the estimate after forty pairs."""
    return TimingEstimate(
        eager_us=412.0, eager_spread_us=6.1, compiled_us=412.0 / speedup, compiled_spread_us=4.2, speedup=speedup,
        low=speedup - 0.03, high=speedup + 0.03, noise_floor=0.009, pairs=40, verdict=verdict, threads=2, device="cpu",
        block=4, notes=("2 of 40 pairs are outliers and were kept",),
    )  # fmt: skip
