"""What compiling did to the answer and to memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from tcexplore.events.base import Event

AccuracyVerdict = Literal[
    "not judged",
    "identical",
    "as accurate as eager",
    "close to eager",
    "less accurate than eager",
    "not close to eager",
    "wrong",
]
"""From best to worst. `identical` means bit-identical; the two with `close` are used without a float64 run."""

ACCURACY_VERDICTS: tuple[AccuracyVerdict, ...] = get_args(AccuracyVerdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """One tensor that both sides computed: an output, a gradient, an input or buffer that was changed.

    `name` says which (`output[0]`, `gradient of fc1.weight`). `max_abs` is the largest |compiled - eager|, `max_rel`
    that over the largest |eager|; None where one side is NaN or infinite and the other is not. The errors against
    float64 are the root mean square of the difference over that of the float64 values, None where there is no float64
    value to compare with.
    """

    name: str
    dtype: str
    elements: int
    verdict: AccuracyVerdict
    max_abs: float | None = None
    max_rel: float | None = None
    eager_vs_fp64: float | None = None
    compiled_vs_fp64: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy(Event):
    """Eager and compiled judged against a float64 run of a copy, on the same inputs and the same seed.

    `verdict` is that of the worst of `values`, or `wrong` if an entry of `differences` changes what the caller gets.
    `differences` are sentences about dtype, shape, stride, device, aliasing, mutated inputs. The figures are the worst
    of all values; see `Deviation`. `reason` says why nothing was judged, or why there was no float64 run. `random`
    tells that eager draws random numbers; then `fallback_random` tells that compiled was compiled once more for this,
    with `torch._inductor.config.fallback_random`, so that both draw the same ones. `calls` of the file's `of` calls
    were compared.
    """

    verdict: AccuracyVerdict
    max_abs: float | None = None
    max_rel: float | None = None
    eager_vs_fp64: float | None = None
    compiled_vs_fp64: float | None = None
    worst: str = ""
    values: tuple[Deviation, ...] = ()
    differences: tuple[str, ...] = ()
    random: bool = False
    fallback_random: bool = False
    calls: int = 0
    total_calls: int = 0
    train: bool = False
    reason: str = ""
    seconds: float = 0.0
    """How long the comparison took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(Event):
    """Bytes that one warm call takes beyond what is there before it, eager and compiled, by `method`.

    `weights` are parameters and buffers, `inputs` the input tensors. `compiling_adds` is what the process, or the
    device's allocator, holds after the compiling calls more than before them, by `compiling_method`.
    `saved` is what eager's forward keeps for the backward, weights and inputs left out (what compiled keeps is in
    `Partitioned`); None without training. A figure that could not be had is None, and `notes` say why.
    """

    device: str
    method: str
    weights: int
    inputs: int
    eager_peak: int | None = None
    compiled_peak: int | None = None
    compiling_adds: int | None = None
    compiling_method: str = ""
    saved_for_backward: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPart:
    """A part of one call. `kind` is `guards`, `dispatch`, `prologue`, `wrapper`, `epilogue`, `python` (outside every
    compiled region), or with a `name` one of `kernel`, `extern`, `outside` (an op outside every graph) and `device`
    (work of the device, beside the host's time). `us` are microseconds in all `count` of them in one call. `graph` is
    the compile id and phase of the graph that it belongs to (`0/0 forward`), empty outside and where it is unknown."""

    kind: str
    name: str
    count: int
    us: float
    graph: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProfiled(Event):
    """Where the time of one warm compiled unit goes, the mean of `times` of them under the profiler:
    the faster half, for what else the machine does only makes one longer.

    `total_us` is the host's time with the device waited for; the parts but those of the device add up to it.
    `busy_us` is how long the device works, `gaps_us` how long it waits between two pieces of work for the next launch;
    None without a device. The device does `works` pieces of work, which the host starts with `launches`; `replays` of
    them replay a CUDA graph each, and with these `replayed` pieces of work.
    """

    total_us: float
    repeats: int
    parts: tuple[CallPart, ...]
    device_busy_us: float | None = None
    launch_gaps_us: float | None = None
    device_tasks: int = 0
    launches: int = 0
    replays: int = 0
    replayed_tasks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCompiled(Event):
    """How long a kernel took to compile, by torch's own account. `graph` is the compile id of the frame."""

    graph: str
    name: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphScript(Event):
    """torch's own script (`fx_graph_runnable`) that compiles one of Inductor's graphs by itself, and can minify it.

    `graph` is the compile id; a graph with a backward has two.
    """

    graph: str
    source: str
