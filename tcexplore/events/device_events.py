"""What the device in the machine said of itself and of the run's kernels: measured, not estimated."""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore.events.base import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts(Event):
    """The GPU that the run uses, as the driver describes it at this moment; each one replaces the last.

    Clocks are in MHz, now and at most; `slowed_by` are the driver's reasons for a clock below the highest, empty where
    it gives none. Memory is in bytes: `memory_used` is what the driver counts for this process, `memory_reserved` what
    torch's allocator holds of it. None is what the driver does not tell here.
    """

    name: str
    capability: str
    driver: str = ""
    sm_clock: int | None = None
    sm_clock_max: int | None = None
    memory_clock: int | None = None
    memory_clock_max: int | None = None
    slowed_by: tuple[str, ...] = ()
    temperature: int | None = None
    """Degrees Celsius."""
    power: float | None = None
    """Watts, and the limit that is enforced."""
    power_limit: float | None = None
    memory_total: int | None = None
    memory_free: int | None = None
    memory_used: int | None = None
    memory_reserved: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTimed(Event):
    """How long one kernel of the run works in one warm call, under torch's profiler: `us` microseconds in all its
    `count` launches together, on the `device` (`cuda`: the device's own time; `cpu`: the host's).

    `functions` are the device's functions that it was, several for one call of a library. `replayed` tells that a
    CUDA graph launched it. `us` is the median of a few calls. `graph`, `phase`, `kernel` and `target` are those of the
    `Kernel`.
    """

    graph: str
    phase: str
    kernel: str
    us: float
    launches: int
    device: str
    functions: tuple[str, ...] = ()
    replayed: bool = False
    target: str = "native"


@dataclass(frozen=True, slots=True)
class TuningChoice:
    """One way to run something that torch chose among. `us` is what it measured, None where it was not measured: left
    out, failed, or spilling registers. `kind` is `configuration`, `template` or `extern`."""

    name: str
    kind: str
    us: float | None = None
    chosen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Autotuned(Event):
    """torch measured several ways to run something, and took one.

    `what` is `configurations` (of a generated Triton `kernel`, at its first launch), `coordinate descent` (the same,
    step by step from the best of those) or `algorithms` (of `op` at the post-grad `node`: templates against library
    calls). `sizes` are those of the op's inputs. The choice that is `taken` was the fastest; of algorithms a later
    fusion may still pick another.
    """

    graph: str
    phase: str
    method: str
    choices: tuple[TuningChoice, ...]
    kernel: str = ""
    op: str = ""
    node: str = ""
    input_sizes: tuple[str, ...] = ()
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaGraphRecorded(Event):
    """A part of a graph was recorded as a CUDA graph: from now on one launch replays it.

    `number` counts recordings, `part` is the function that was recorded (`partition_0`), `parent` the recording that
    must have run before it, None for the first of a row. `phase` is `forward` or `backward`. Inputs whose place in
    memory is not fixed are copied before each replay: `copied` of them, `copied_bytes` in all. `peak` is the most
    memory that the row held while this one was recorded, beyond what was there before its first: the recording keeps
    that memory for its replays.
    """

    graph: str
    phase: str
    number: int
    part: str
    parent: int | None = None
    inputs_copied: int = 0
    inputs_copied_bytes: int = 0
    peak_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaGraphSkipped(Event):
    """Something is not replayed from a CUDA graph, and why, in torch's words.

    `nodes` are the scheduler nodes that were left out, empty where the reason holds for the whole graph. `phase` is
    empty where torch does not say which.
    """

    graph: str
    reason: str
    phase: str = ""
    nodes: tuple[str, ...] = ()
