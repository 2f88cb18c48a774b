"""Timing of a script: its own steps, eager and compiled in turns, while it runs."""

from __future__ import annotations

import math
import os
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from itertools import cycle
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from tcexplore.capture.compiled_regions import (
    STEP_FUNCTION,
    Region,
    in_backward,
    records_cuda_graph,
    skip_in_dynamo,
)
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.module_paths import module_of
from tcexplore.capture.step_signals import (
    DataLoaders,
    OptimizerUpdates,
    Shapes,
    is_one_of_several_ranks,
    shapes_of,
)
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import (
    RunFact,
    StepPart,
    StepRegion,
    StepsTimed,
    StepTimeline,
    TimingEstimate,
    TimingSkipped,
)
from tcexplore.quantities import count
from tcexplore.timing.allocator import page_fault_counter
from tcexplore.timing.blocks import (
    CPU_BLOCK_NS,
    FIRST_GPU_BLOCK_NS,
    GPU_BLOCK_NS,
    RESOLUTIONS,
    Clock,
    SystemClock,
)
from tcexplore.timing.estimate import has_enough_pairs, make_estimate
from tcexplore.timing.memory_room import MemoryRoom
from tcexplore.timing.sampler import RESIZE_FACTOR, BlockSize, PlannedPair, block_sizes, planned_pairs
from tcexplore.timing.samples import Block, Conditions, Pairs, Samples, median
from tcexplore.timing.steady_state import (
    CACHED_CALLS,
    FULL_SPEED_S,
    MAX_CALLS,
    MAX_SPREAD,
    MAX_WARM_UP_S,
    ROUNDS,
    report_interval,
)
from tcexplore.timing.step_finder import USUAL_SHARE, CallKind, StepFinder
from tcexplore.timing.step_profile import StepParts, StepProfile
from tcexplore.timing.timed_machine import (
    OtherProcesses,
    compile_counter,
    device_name,
    frequency_governor,
    make_synchronizer,
)
from tcexplore.timing.timing_run import DOUBLINGS, PATIENCE_S
from tcexplore.timing.timing_verdict import (
    MIN_CONTROL_PAIRS,
    MIN_SLOW_PAIRS,
    Decision,
    decide_verdict,
    estimate_speedup,
)

if TYPE_CHECKING:
    from tcexplore.timing.eager_steps import EagerSteps  # imported with the first step that is recorded

FACT, SYMBOL = "eager and compiled steps", "tcexplore.timing"
PROFILE_FACT, PROFILER = "parts of a step", "torch.profiler:profile"
ENDED_BEFORE = "the script ended before its steps were timed, and a step is profiled after that"
EAGER_FACT, DISPATCH_MODE = "eager lines and modules of a step", "torch.utils._python_dispatch:TorchDispatchMode"

MOST_KINDS = 1000
"""Kinds and shapes of calls that are told apart; further ones run as their step does."""

EAGER_WARM_UP, MOST_EAGER_WARM_UP = 2, 6
"""Eager steps before the first that is timed: the first one also initializes what only eager code uses.

Other programs may make a step a hundred times as long: there are more until the two fastest agree.
"""

NEWEST_STEPS = 5
"""Steps that end the warm-up if the fastest of them is less than `MAX_SPREAD` faster than all before."""

SETTLING_STEPS, SETTLING_NS = 3, 10_000_000
"""Untimed steps after a change between eager and compiled, at most, and the time that is enough of them.

The caches and the allocator of the other side make the first two or three steps of a few milliseconds up to twice as
long, beside other programs more than on a quiet machine. Both sides are longer by about the same time, so the ratio
would be nearer to 1 than that of a script which does not change sides.
"""

MOST_FIRST_STEPS = 8
"""Most steps of a first block, unless it needs more for its length. To take as long as one eager step, a block of steps
that are thirty times as fast would need most of a short script."""

FIRST_STEPS = 3
"""Steps of the first blocks on a GPU, unless `GPU_BLOCK_NS` has fewer. Many scripts that try something have
one to three hundred steps of a few milliseconds."""

LONGEST_OWN_NS = 1_000_000_000
"""A step with more of tcexplore's own work is left out on a GPU: its work ended meanwhile, nobody knows when."""

SETTLED_NS = 100_000_000
"""A step that is longer than this is longer by less than a percent."""

STEPS_PER_QUERY, IDLE_QUERIES = 8, 8
"""How often it is asked whether a GPU is idle at a position of a step, and how many answers count."""

PROFILED_STEPS = 2

RECORDED_STEPS = 3
"""Eager steps whose ops are recorded; the faster half counts."""

MOST_UNUSUAL = 8
"""Steps by which those that differ may outnumber the usual ones, which are not usual any more then."""

RECENT_STEPS = 40
"""Newest steps, among which calls may come once in a few steps."""

WAIT_SHARE = 0.02
"""If a compiled step waits longer than this share for batches, the loader's workers limit it."""

STEPS_FOR_VERDICT = CACHED_CALLS + EAGER_WARM_UP + 2 * (MIN_CONTROL_PAIRS + MIN_SLOW_PAIRS)
"""Steps after the compile that a verdict needs at least, without those that settle."""

CHANGES_FOR_VERDICT = 3 * MIN_SLOW_PAIRS // 2
"""Changes between eager and compiled: one within each pair, and one before every second pair."""

ALL, NONE = None, frozenset[int]()
"""Regions that run eagerly in a step: all, or none."""

Eager = frozenset[int] | None

COMPILED_AUTOGRAD = (
    "compiled autograd compiles the backward of the forward that ran: eager steps would make it compile more"
)
DISTRIBUTED = "the script is one rank of a distributed job, in which all ranks would have to switch at the same step"
OWN_CUDA_GRAPH = "the script records its calls in a CUDA graph of its own, which replays them without Python"
MORE_CALLS = 4
"""Factor by which a thread has made more calls than the one whose steps are timed, to be timed instead."""

COMPILED_OPS = "torch compiles parts of an eager step itself, as for torch.cond: their ops cannot be recorded"
COMPILES_EAGERLY = "its eager steps compile something each time, as torch.cond does outside compiled code"
FORCED_EAGER = "force_eager"


class OtherStepsError(Exception):
    """The steps have other calls or sizes than those that were timed so far, as after a change of the image size."""


class NextStep(NamedTuple):
    """How the step that begins runs."""

    eager: Eager = NONE
    synchronize: bool = False
    """Whether the device is waited for at its end."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step that ended."""

    ns: int
    calls: frozenset[tuple[CallKind, int]]
    """The kinds of its calls, each with its number."""
    shapes: Shapes
    """Shapes of the inputs of its calls."""
    compiled: bool
    """Whether something was compiled in it."""
    waited_ns: int
    """Time that it waited for batches."""
    batches: int
    """Batches that it took from DataLoaders."""

    @property
    def size(self) -> int:
        """Elements in the inputs of its calls."""
        return sum(map(math.prod, self.shapes))


Program = Generator[NextStep, Step, None]
"""The course of the timing: it is resumed between two steps, and says how the next one runs."""


@dataclass(slots=True)
class _StepInProgress:
    began_ns: int
    calls: Counter[CallKind] = field(default_factory=Counter)
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    graphs: int = 0
    compiles: int = 0
    own_ns: list[int] = field(default_factory=list)
    """Times of tcexplore's own work, in the order in which it was done."""
    waited_ns: int = 0
    batches: int = 0
    uncomparable: bool = False
    """Whether the user's own stance has its regions run eagerly, or the script waited for a study beside a GPU."""


class StepTiming:
    """Alternates eager and compiled steps in a running script, and emits pairs, estimates and `StepsTimed`.

    A region runs eagerly by a call of what it compiles. `torch.compiler.set_stance("force_eager")` does the same, but
    for all threads, for torch's own compiles in an eager call, and for all regions at once.
    """

    def __init__(
        self,
        hooks: Hooks,
        *,
        user_files: UserFiles | None = None,
        time_for: float | None,
        function: str | None = None,
        alternate: bool = True,
        wait: Callable[[], object] = lambda: None,
        entered: Callable[[], None] = lambda: None,
        timeline: Callable[[bytes], StepTimeline] | None = None,
        clock: Clock | None = None,
        seed: int = 0,
        front_end: int | None = None,
    ) -> None:
        """Without `user_files`, eager steps are not split into lines and modules.

        `time_for` is as in `measure_timing`, `function` names the function or region whose call is a step.

        `wait` is called between pairs, and may have the script wait. `entered` is called when the alternation begins.
        `timeline` makes the timeline of a Chrome trace of warm steps; without it, none is made. `front_end` is as in
        `OtherProcesses`.
        """
        self._hooks = hooks
        self._emit = hooks.emit
        """Also emits while the hooks are silenced, since the script runs again."""
        self._time_for = time_for
        self._function = function
        self._alternate = alternate
        self._wait_for_turn = wait
        self._entered = entered
        self._timeline = timeline
        """None once there is a timeline, or cannot be."""
        self._clock = clock or SystemClock()
        self._optimizers = OptimizerUpdates()
        self._loaders = DataLoaders()
        self._finder = StepFinder(self._optimizers)
        self._compiles = compile_counter(hooks.emit)
        self._room: MemoryRoom | None = None
        self._others = OtherProcesses(front_end)
        self._thread: int | None = None
        self._calls_of_threads: Counter[int] = Counter()
        self._regions: dict[int, Region] = {}
        self._over = False
        self._program: Program | None = None
        self._step: _StepInProgress | None = None
        self._next = NextStep()
        self._compiled_calls: set[tuple[CallKind, bool, Shapes | None]] = set()
        """What was called compiled: of which region, whether for training, and the shapes; also without them."""
        self._inside_function = False
        self._synchronize: Callable[[], None] = lambda: None
        self._idle: dict[tuple[Eager, int], deque[bool]] = {}
        """Whether the GPU had nothing to do after own work: by what runs eagerly, and the position in the step."""
        self._device = torch.device("cpu")
        self._usual: frozenset[tuple[CallKind, int]] | None = None
        self._usual_shapes: Shapes | None = None
        self._recent: deque[Step] = deque(maxlen=RECENT_STEPS)
        self._unusual = 0
        """By how much timed steps that are not usual outnumber those that are."""
        self._samples = Samples()
        self._page_faults = page_fault_counter()
        self._alone: dict[int, Pairs] = {}
        """Pairs in which one region alone runs eagerly."""
        self._plan = planned_pairs(seed)
        self._side: Eager = NONE
        """The side of the last step."""
        self._began_ns = 0
        self._due_s = 0.2
        self._doublings = 0
        self._decision: Decision | None = None
        self._first_blocks = True
        """Whether there are not enough pairs for a verdict yet."""
        self._fastest = self._sized_for = (0.0, 0.0)
        self._sizes = BlockSize(1, 0), BlockSize(1, 0)
        self._spread = 0.0
        self._drain = 0
        """Untimed steps before a block, until the batches are used that workers prepared during the block before."""
        self._watch_random = False
        self._random_before: tuple[torch.Tensor, ...] = ()
        self._user_files = user_files
        """None once eager steps are recorded, or cannot be."""
        self._recording: EagerSteps | None = None
        """The recorder of the step in progress."""
        self._profile: StepProfile | None = None
        self._parts: StepParts | None = None
        self._batches: tuple[int, int] = (0, 0)
        """Batches, and the steps that took them."""
        self._counts = StepsTimed(border="region", step="", steps=0, warm_up=0, eager=0, timed=0)
        self.stopped = ""

    def install(self) -> None:
        """Start to watch optimizers and DataLoaders, and tell whether steps can be alternated."""
        if not self._alternate:
            self._stop("--no-eager-steps leaves the script as it is")
        elif self._time_for == 0:
            self._stop("timing is switched off for this run")
        elif int(os.environ.get("WORLD_SIZE", "1") or 1) > 1:
            self._stop(DISTRIBUTED)
        else:
            self._optimizers.install(self._hooks)
            self._loaders.install(self._hooks)

    # ---- calls of regions

    def begin_call(self, region: Region, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether a call outside all other regions runs eagerly; it may begin a step."""
        if self._over:
            return False
        if region.kind == "compiled autograd":
            self._stop(COMPILED_AUTOGRAD)
            return False
        if in_backward():
            return self._runs_eagerly(region)
        if records_cuda_graph():
            self._stop(OWN_CUDA_GRAPH)
            return False
        entered, thread = self._clock.now_ns(), threading.get_ident()
        self._calls_of_threads[thread] += 1
        if self._thread is None:
            self._thread = thread
            self._use_device(device_of(args, kwargs))
        elif self._thread != thread and not self._follow(thread):
            return False
        self._regions[region.number] = region
        kind = CallKind(region.number, torch.is_grad_enabled())
        if self._begins_step(region, kind):
            self._guarded(partial(self._next_step, entered))
        shapes, eager = shapes_of(args, kwargs), self._runs_eagerly(region)
        compiles = not self._was_compiled(region, kind, shapes) and eager
        if (step := self._step) is not None:
            step.calls[kind] += 1
            step.shapes += shapes
            step.uncomparable = step.uncomparable or compiles or stance() == FORCED_EAGER
        if self._profile is not None:
            self._profile.begin_call(region.number)
        if self._watch_random:
            self._random_before = random_states(self._device)
        return eager and not compiles

    def _was_compiled(self, region: Region, kind: CallKind, shapes: Shapes) -> bool:
        """Return whether a call like this one ran compiled; if not, note that it does now.

        It may compile: in an eager step, the graph of its shape, or of an evaluation, would be missing.
        """
        training = bool(getattr(module_of(region.target), "training", False))
        varying = self._usual is not None and self._usual_shapes is None
        known = (kind, training, None if varying else shapes) in self._compiled_calls
        if known or len(self._compiled_calls) >= MOST_KINDS:
            return True
        self._compiled_calls |= {(kind, training, None), (kind, training, shapes)}
        return False

    def _follow(self, thread: int) -> bool:
        """Return whether the steps are those of another thread from now on, which makes most of the calls.

        The thread that calls first compiles, and threads that serve requests call meanwhile.
        """
        own = self._calls_of_threads[self._thread or 0]
        if self._counts.warm_up or self._calls_of_threads[thread] < MORE_CALLS * own:
            return False
        self._begin_again()
        self._thread = thread
        self._regions.clear()
        self._finder = StepFinder(self._optimizers, calls_are_steps=self._finder.border != "optimizer")
        return True

    def end_call(self, graphs: int) -> None:
        """Note how many graphs were compiled in a call outside all other regions."""
        if self._step is not None:
            self._step.graphs += graphs
        if self._over or in_backward() or threading.get_ident() != self._thread:
            return
        if self._profile is not None:
            self._profile.end_call()
        if self._watch_random and self._random_before:
            drew = any(map(differ, self._random_before, random_states(self._device)))
            self._counts = replace(self._counts, random=self._counts.random or (drew and not fallback_random()))

    def ran_out_of_memory(self) -> None:
        """Stop: an eager call failed for want of memory, and is made again, compiled."""
        self._stop("an eager call ran out of memory, and was made again, compiled")
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def compiles_eagerly(self) -> None:
        """Record no eager steps: torch compiles something in them, and cannot do so in a dispatch mode."""
        if self._user_files is not None:
            self._user_files = None
            self._end_recording()
            self._hooks.report_missing(EAGER_FACT, DISPATCH_MODE, COMPILED_OPS)

    def begin_own_work(self) -> int:
        """Return the clock's time for `end_own_work`; 0 outside steps."""
        return self._clock.now_ns() if self._step is not None else 0

    def end_own_work(self, began_ns: int) -> None:
        """Take the time since `begin_own_work` out of the step, as far as the script waited for it, and of the timing.

        It may be long: in the app, a script waits while a study runs.
        """
        if not began_ns or (step := self._step) is None:
            return
        own_ns = self._clock.now_ns() - max(began_ns, step.began_ns)
        if self._device.type == "cuda":
            self._ask_whether_idle(len(step.own_ns))
            step.uncomparable = step.uncomparable or own_ns > LONGEST_OWN_NS
        step.own_ns.append(own_ns)
        if self._began_ns:
            self._began_ns += own_ns

    def _ask_whether_idle(self, position: int) -> None:
        """Note in some steps whether the GPU has nothing to do at this position of the step: a query takes 30 µs."""
        idle = self._idle.get((self._next.eager, position))
        if idle is not None and (self._counts.steps - position) % STEPS_PER_QUERY:
            return
        if records_cuda_graph():  # a query would end the capture
            return
        idle = self._idle.setdefault((self._next.eager, position), deque(maxlen=IDLE_QUERIES))
        idle.append(bool(torch.cuda.current_stream(self._device).query()))

    def _waited_for_own_work(self, step: _StepInProgress) -> int:
        """Return the nanoseconds that a step is longer by tcexplore's own work.

        A CPU waits for all of it. A GPU that still has work to do does not.
        """
        if self._device.type == "cpu":
            return sum(step.own_ns)
        waited = 0.0
        for position, ns in enumerate(step.own_ns):
            if idle := self._idle.get((self._next.eager, position)):
                waited += ns * sum(idle) / len(idle)
        return round(waited)

    def step_function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function that the user named, with a step from its call to its return."""

        @wraps(function)
        def step(*args: Any, **kwargs: Any) -> Any:
            if self._over or self._inside_function or self._thread not in (None, threading.get_ident()):
                return function(*args, **kwargs)
            self._inside_function = True
            self._guarded(self._begin_step)
            try:
                return function(*args, **kwargs)
            finally:
                self._inside_function = False
                self._guarded(partial(self._end_step, self._clock.now_ns()))

        setattr(step, STEP_FUNCTION, function)
        return skip_in_dynamo(step)

    def _begins_step(self, region: Region, kind: CallKind) -> bool:
        if self._function is not None:
            return region.name == self._function and not self._inside_function
        before = self._finder.border, self._finder.name
        begins = self._finder.observe(kind)
        if before != (self._finder.border, self._finder.name):
            self._begin_again()
            if before[0] is not None:
                self._forget()
                self._count_anew()
        return begins

    def _forget(self) -> None:
        """Forget what was measured: other steps are timed now."""
        self._samples, self._alone, self._decision, self._parts = Samples(), {}, None, None
        self._first_blocks = True

    def _count_anew(self) -> None:
        self._counts = replace(self._counts, steps=0, warm_up=0, eager=0, timed=0, irregular=0)

    def _runs_eagerly(self, region: Region) -> bool:
        return self._next.eager is None or region.number in self._next.eager

    # ---- steps

    def _begin_again(self) -> None:
        """Begin with the warm-up: other calls are the steps now, or the script runs again."""
        self._program = self._step = None
        self._next = NextStep()

    def script_again(self) -> None:
        """Prepare for another run of the script; the pairs so far stay."""
        self._begin_again()
        self._thread = None
        self._regions.clear()
        self._compiled_calls.clear()
        self._optimizers.forget()
        self._finder = StepFinder(self._optimizers, calls_are_steps=self._finder.border != "optimizer")
        self._counts = replace(self._counts, repeats=self._counts.repeats + 1)

    def _next_step(self, ended_ns: int) -> None:
        waited = self._step is None or self._next.synchronize
        self._end_step(ended_ns)
        # Without a wait for the device, it works on while the next step is chosen: that time is own work of the step.
        self._begin_step(None if waited else ended_ns)

    def _end_step(self, ended_ns: int) -> None:
        """End the step in progress, and let the program decide how the next one runs."""
        step = self._step
        if step is None:
            return
        if self._next.synchronize and self._device.type != "cpu":
            self._synchronize()
            ended_ns = self._clock.now_ns()
        ns = ended_ns - step.began_ns - self._waited_for_own_work(step)
        ended = Step(
            ns=max(1, ns),
            calls=frozenset(step.calls.items()) if not step.uncomparable else frozenset(),
            shapes=tuple(step.shapes),
            compiled=bool(step.graphs) or self._compiles() != step.compiles,
            waited_ns=self._loaders.waited_ns - step.waited_ns,
            batches=self._loaders.batches - step.batches,
        )
        self._counts = replace(
            self._counts, steps=self._counts.steps + 1,
            eager=self._counts.eager + (self._next.eager is None or bool(self._next.eager)),
            irregular=self._counts.irregular + (self._usual is not None and not self._is_usual(ended)),
        )  # fmt: skip
        self._step, self._side = None, self._next.eager
        self._recent.append(ended)
        if self._program is not None:
            try:
                self._next = self._program.send(ended)
            except StopIteration:
                self._finish_alternating()

    def _begin_step(self, began_ns: int | None = None) -> None:
        """Begin a step, now unless a time is given."""
        if self._over:
            return
        if self._program is None:
            self._program = self._run()
            self._next = next(self._program)
        self._step = _StepInProgress(
            compiles=self._compiles(),
            waited_ns=self._loaders.waited_ns,
            batches=self._loaders.batches,
            began_ns=self._clock.now_ns() if began_ns is None else began_ns,
        )

    def _guarded(self, function: Callable[[], None]) -> None:
        """Call a function; if it fails, the script goes on without alternation."""
        try:
            function()
        except Exception as error:  # noqa: BLE001  a defect of tcexplore costs the timing, never the script
            self._stop(f"it failed: {type(error).__name__}: {error}")
            self._hooks.report_missing(FACT, SYMBOL, f"{type(error).__name__}: {error}")

    def _stop(self, reason: str) -> None:
        """End the alternation before it is complete."""
        self.stopped = self.stopped or reason
        self._finish_alternating()

    def _finish_alternating(self) -> None:
        self._over = True
        self._next = NextStep()
        self._step = self._program = None
        if self._profile is not None:
            profile, self._profile = self._profile, None
            self._hooks.attempt(PROFILE_FACT, PROFILER, profile.stop)
        self._end_recording()

    # ---- the course of the timing

    def _run(self) -> Program:
        while True:
            try:
                yield from self._time_usual_steps()
            except OtherStepsError:
                self._forget()
            else:
                return

    def _time_usual_steps(self) -> Program:
        """Time the steps that are usual now. Raises `OtherStepsError` once they are not any more."""
        steady = yield from self._reach_steady_state()
        if self._usual is None:
            return
        if reason := self._reason_not_to_alternate():
            self._stop(reason)
            return
        self._counts = replace(self._counts, warm_up=self._counts.warm_up or self._counts.steps)
        self._entered()
        eager_ns = yield from self._warm_up_eager()
        if eager_ns is None:
            self._stop(COMPILES_EAGERLY)
            return
        self._fastest = self._sized_for = eager_ns, steady
        self._size_blocks()
        yield from self._measure()
        if self._parts is None and not self._over:
            yield from self._profile_steps()
        if self._timeline is not None and not self._over:
            yield from self._profile_steps(device=self._device.type != "cpu")

    def _reach_steady_state(self) -> Generator[NextStep, Step, float]:
        """Wait until compiled steps compile nothing and take equally long; return their nanoseconds."""
        warm: list[Step] = []
        steps: list[Step] = []
        while True:
            step = yield NextStep(synchronize=True)
            steps.append(step)
            if step.compiled:
                warm.clear()
                continue
            warm.append(step)
            if len(warm) < CACHED_CALLS + self._loaders.depth:
                continue
            # A step with other shapes takes another time, however warm it is.
            alike = [each.ns for each in warm if each.shapes == step.shapes]
            self._spread = max(alike[-ROUNDS:]) / min(alike[-ROUNDS:]) - 1
            steady = len(alike) >= ROUNDS and self._spread <= MAX_SPREAD
            # Beside other programs, single steps always differ.
            before, newest = alike[:-NEWEST_STEPS], alike[-NEWEST_STEPS:]
            steady = steady or (len(before) >= NEWEST_STEPS and min(newest) >= (1 - MAX_SPREAD) * min(before))
            long_enough = len(warm) >= MAX_CALLS or sum(each.ns for each in warm) > MAX_WARM_UP_S * 1e9
            if self._counts.repeats or steady or long_enough:
                break
        self._note_usual(steps)
        waits = median([step.waited_ns / step.ns for step in warm[-ROUNDS:]])
        self._drain = self._loaders.depth if waits > WAIT_SHARE else 0
        return min(step.ns for step in warm)

    def _use_rarer_kind(self) -> bool:
        """Begin steps with a rarer kind of call, if there is one. Return whether there is."""
        if not self._finder.choose_rarer_kind((kind for kind, _ in step.calls) for step in self._recent):
            return False
        self._recent.clear()
        self._count_anew()
        return True

    def _note_usual(self, steps: list[Step]) -> None:
        """Note which calls a step has, and its shapes if most steps have the same."""
        self._unusual = 0
        self._usual, _ = Counter(step.calls for step in steps if step.calls).most_common(1)[0]
        usual = [step for step in steps if step.calls == self._usual]
        self._batches = sum(step.batches for step in usual), len(usual)
        alike = [step.shapes for step in usual]
        shapes, number = Counter(alike).most_common(1)[0]
        self._usual_shapes = shapes if number >= USUAL_SHARE * len(alike) else None
        name = self._finder.name or self._function or ""
        if not name and self._finder.kind is not None:
            name = self._regions[self._finder.kind.region].name
        border = "function" if self._function else self._finder.border or "region"
        irregular = self._counts.irregular if self._counts.timed else 0  # those before are of another border
        self._counts = replace(
            self._counts, border=border, step=name, varying=self._usual_shapes is None, irregular=irregular
        )

    def _reason_not_to_alternate(self) -> str:
        if is_one_of_several_ranks():
            return DISTRIBUTED
        if all(region.original is None for region in self._regions.values()):
            return "this torch does not tell what its regions compile"
        self._room = MemoryRoom(self._device)
        return self._room.reason_not_to_begin()

    def _warm_up_eager(self) -> Generator[NextStep, Step, float | None]:
        """Run the first eager steps; return the shortest time. Find out whether regions draw random numbers.

        Return None if each of them compiled something.
        """
        times: list[int] = []
        for _ in range(MAX_CALLS):
            self._watch_random = True
            step = yield NextStep(ALL, synchronize=True)
            self._watch_random = False
            if step.compiled:
                times.clear()
                continue
            times = sorted([*times, step.ns])
            agree = len(times) >= EAGER_WARM_UP and times[1] <= RESIZE_FACTOR * times[0]
            if agree or len(times) == MOST_EAGER_WARM_UP:
                break
        return min(times, default=None)

    def _size_blocks(self) -> None:
        """Size the blocks for the fastest steps, whose times have the fewest interruptions."""
        self._sized_for = self._fastest
        target_ns = self._block_ns()
        eager, compiled = block_sizes(*self._fastest, target_ns)
        if self._first_blocks:
            eager, compiled = (
                _capped(size, max(MOST_FIRST_STEPS, math.ceil(target_ns / step_ns)))
                for size, step_ns in zip((eager, compiled), self._fastest, strict=True)
            )
        self._sizes = self._drained(eager), self._drained(compiled)

    def _block_ns(self) -> float:
        """Return the length that blocks should have."""
        if self._device.type == "cpu":
            least = CPU_BLOCK_NS
        elif self._first_blocks:
            least = min(GPU_BLOCK_NS, max(FIRST_GPU_BLOCK_NS, round(FIRST_STEPS * max(self._fastest))))
        else:
            least = GPU_BLOCK_NS
        return max(least, RESOLUTIONS * self._clock.resolution_ns)

    def _drained(self, size: BlockSize) -> BlockSize:
        """Return a size with steps before the block until the batches are used that workers prepared before it."""
        return BlockSize(max(size.units, self._drain), max(size.warm, self._drain))

    def _measure(self) -> Program:
        self._began_ns = self._began_ns or self._clock.now_ns()
        self._others.restart()
        regions = self._calls_of_regions()
        others, several = cycle(regions), len(regions) > 1
        while not self._complete(several):
            self._wait()
            yield from self._measure_pair(next(self._plan))
            if self._enough(slow=True):
                if self._first_blocks:
                    self._first_blocks = False
                    self._size_blocks()
                if self._parts is None and self._device.type == "cpu":
                    yield from self._profile_steps()
                if self._user_files is not None:
                    yield from self._record_eager_steps(self._user_files)
                    self._user_files = None
                if several:
                    yield from self._measure_alone(next(others))
            if self._room is not None and (reason := self._room.reason_to_stop()):
                self._stop(reason)
                return
            if self._elapsed() >= self._due_s:
                self.report()
                self._due_s = self._elapsed() + report_interval(self._elapsed())

    def _wait(self) -> None:
        """Let the script wait for its turn; the time does not count."""
        began = self._clock.now_ns()
        self._wait_for_turn()
        self._began_ns += self._clock.now_ns() - began

    def _complete(self, several: bool) -> bool:
        """Return whether there is a verdict, and the time for it is over."""
        if not self._enough() or (several and not self._enough_alone()):
            return False
        limit = FULL_SPEED_S if self._time_for is None else self._time_for
        if self._elapsed() < limit * 2**self._doublings and not self._samples.full:
            return False
        self.report()
        if self._decision is None or self._decision.verdict != "undecided" or self._doublings == DOUBLINGS:
            return True
        self._doublings += 1
        return False

    def _measure_pair(self, pair: PlannedPair) -> Program:
        same = ALL if self._side is ALL else NONE  # without a change of sides, no step settles
        sides = (same, same) if pair.control else (ALL, NONE)
        yield from self._pair(self._samples.control if pair.control else self._samples.measured, sides, pair.swapped)

    def _measure_alone(self, region: int) -> Program:
        """Measure a pair in which one region alone runs eagerly, beside a compiled block."""
        pairs = self._alone.setdefault(region, Pairs(self._samples.measured.limit, control=False))
        yield from self._pair(pairs, (frozenset([region]), NONE), swapped=bool(pairs.taken % 2))

    def _pair(self, pairs: Pairs, sides: tuple[Eager, Eager], swapped: bool) -> Program:
        """Measure one block of each side; drop both if something was compiled."""
        order = sides[::-1] if swapped else sides
        measured: list[list[Block]] = []
        for side in order:
            blocks = yield from self._block(side)
            if not blocks:
                self._samples.discarded += 1
                return
            measured.append(blocks)
        first, second = measured[::-1] if swapped else measured
        pairs.add_blocks(first, second)
        if sides == (ALL, NONE):
            eager_ns, compiled_ns = (1e3 * min(block.us for block in blocks) for blocks in (first, second))
            self._fastest = min(self._fastest[0], eager_ns), min(self._fastest[1], compiled_ns)
        units = sum(self._size(side).units for side in sides)
        self._counts = replace(self._counts, timed=self._counts.timed + units)
        if any(sized > RESIZE_FACTOR * now for sized, now in zip(self._sized_for, self._fastest, strict=True)):
            self._size_blocks()

    def _size(self, side: Eager) -> BlockSize:
        return self._sizes[0] if side is None or side else self._sizes[1]

    def _block(self, side: Eager) -> Generator[NextStep, Step, list[Block]]:
        """Run a block of steps; return its time, or that of each step if sizes vary; nothing if something was compiled.

        Raises `OtherStepsError` if the steps are not the usual ones any more.
        """
        size, faults = self._size(side), self._page_faults
        units, interrupted = size.units, False
        warm = size.warm if side == self._side else max(size.warm, self._settling_steps())
        for number in range(warm):
            step = yield NextStep(side, synchronize=number == warm - 1)
            if step.compiled:
                return []
        self._synchronize()
        on_device = self._device.type != "cpu"
        steps: list[Step] = []
        before = faults() if faults is not None else 0
        while len(steps) < units:
            step = yield NextStep(side, synchronize=not on_device or len(steps) == units - 1)
            if step.compiled:
                return []
            if self._is_usual(step):
                steps.append(step)
                self._unusual = max(0, self._unusual - 1)
                continue
            self._unusual += 1
            if self._unusual == MOST_UNUSUAL or self._use_rarer_kind():
                raise OtherStepsError
            if on_device:  # without a wait for the device after each step, their times cannot be told apart
                self._synchronize()
                if interrupted:  # a block has to end before the next step that is not usual
                    units = min(units, max(1, len(steps)))
                interrupted = True
                steps.clear()
        if faults is not None and not on_device and len(side or ()) == 0:
            self._samples.note_page_faults("eager" if side is ALL else "compiled", (faults() - before) / len(steps))
        blocks = [Block(step.ns / 1e3, step.size) for step in steps]
        if self._usual_shapes is None and not on_device:
            return blocks
        return [Block(*map(fmean, zip(*blocks, strict=True)))]

    def _settling_steps(self) -> int:
        """Return how many untimed steps follow a change of sides."""
        step_ns = max(1.0, min(self._fastest))
        return 0 if step_ns > SETTLED_NS else min(SETTLING_STEPS, math.ceil(SETTLING_NS / step_ns))

    def _is_usual(self, step: Step) -> bool:
        return step.calls == self._usual and self._usual_shapes in (None, step.shapes)

    def _profile_steps(self, *, device: bool = False) -> Program:
        """Profile compiled steps, which are not timed; with the work of the device only once the timing is over.

        On a GPU, both are only then: hundreds of steps after a profile of the host alone took a quarter longer.
        """
        self._hooks.attempt(PROFILE_FACT, PROFILER, self._start_profile, device)
        total_ns = 0
        for _ in range(PROFILED_STEPS):
            if self._profile is not None:
                self._profile.begin_step(self._counts.steps + 1)
            step = yield NextStep(synchronize=True)
            if self._profile is not None:
                self._profile.end_step()
            total_ns += step.ns
            if step.compiled or not self._is_usual(step):
                total_ns = 0
                break
        profile, self._profile = self._profile, None
        if profile is None:
            self._parts = StepParts({}, {})
            return
        self._hooks.attempt(PROFILE_FACT, PROFILER, profile.stop)
        if total_ns and (device or self._device.type == "cpu"):
            self._hooks.attempt(RunFact.TIMELINE, PROFILER, self._emit_timeline, profile)
        if total_ns and self._parts is None:
            self._hooks.attempt(PROFILE_FACT, PROFILER, self._note_parts, profile, total_ns / 1e9)
            self._parts = self._parts or StepParts({}, {})

    def _emit_timeline(self, profile: StepProfile) -> None:
        make, self._timeline = self._timeline, None
        if make is not None:
            self._emit(make(profile.chrome_trace()))

    def _start_profile(self, device: bool) -> None:
        profile = StepProfile(device=device)
        profile.start()
        self._profile = profile

    def _note_parts(self, profile: StepProfile, seconds: float) -> None:
        self._parts = profile.parts(seconds)

    def _record_eager_steps(self, user_files: UserFiles) -> Program:
        """Record the ops of eager steps, which are not timed, by line and module."""
        if self._device.type != "cpu":
            return
        from tcexplore.timing.eager_steps import EagerSteps

        recorder, recorded = EagerSteps(user_files), 0
        for _ in range(RECORDED_STEPS):
            self._hooks.attempt(EAGER_FACT, DISPATCH_MODE, self._start_recording, recorder)
            if self._recording is None:
                return
            step = yield NextStep(ALL, synchronize=True)
            self._end_recording()
            if self._user_files is None:
                return
            if step.compiled or not self._is_usual(step):
                recorder.drop_step()
            else:
                recorder.add_step(step.ns / 1e3)
                recorded += 1
        if recorded:
            self._hooks.attempt(EAGER_FACT, DISPATCH_MODE, self._emit_eager_lines, recorder)

    def _start_recording(self, recorder: EagerSteps) -> None:
        recorder.start()
        self._recording = recorder

    def _stop_recording(self) -> None:
        recorder, self._recording = self._recording, None
        if recorder is not None:
            recorder.stop()

    def _end_recording(self) -> None:
        if self._recording is not None:
            self._hooks.attempt(EAGER_FACT, DISPATCH_MODE, self._stop_recording)

    def _emit_eager_lines(self, recorder: EagerSteps) -> None:
        self._emit(recorder.lines(self._samples.measured.typical_us()[0]))

    # ---- reports

    def _elapsed(self) -> float:
        return (self._clock.now_ns() - self._began_ns) / 1e9

    def _enough(self, *, slow: bool | None = None) -> bool:
        return has_enough_pairs(self._samples, slow=self._elapsed() >= PATIENCE_S if slow is None else slow)

    def _enough_alone(self) -> bool:
        pairs = [self._alone.get(region, ()) for region in self._calls_of_regions()]
        return all(len(measured) >= MIN_SLOW_PAIRS for measured in pairs)

    def _calls_of_regions(self) -> dict[int, int]:
        """Return the calls of each region in a usual step."""
        calls: Counter[int] = Counter()
        for kind, number in sorted(self._usual or ()):
            calls[kind.region] += number
        return dict(calls)

    def report(self, *, ended: bool = False) -> None:
        """Emit new pairs, the estimate and the steps. `ended`: no pair will follow, so few are enough."""
        if ended:
            for pairs in (self._samples.measured, self._samples.control, *self._alone.values()):
                pairs.add_waiting()
        for chunk in self._samples.take_unsent():
            self._emit(chunk)
        estimate = None
        if self._samples.measured.taken:
            slow = ended or self._elapsed() >= PATIENCE_S
            estimate, self._decision = make_estimate(self._samples, self._conditions(slow=slow), self._decision)
            self._emit(estimate)
        if self._counts.steps:
            self._emit(self._steps_event(estimate))

    def finish(self) -> None:
        """Emit what is known when the script has ended, or why nothing is."""
        self._over = True
        self._end_recording()
        if self._parts is None and self._counts.timed:
            self._hooks.report_missing(PROFILE_FACT, PROFILER, self.stopped or ENDED_BEFORE)
        if self._timeline is not None:
            self._hooks.report_missing(RunFact.TIMELINE, PROFILER, self.stopped or ENDED_BEFORE)
        self.report(ended=True)
        if self._decision is None or self._decision.verdict == "measuring":
            self._emit(TimingSkipped(reason=self.stopped or self._too_few()))

    @property
    def pairs(self) -> int:
        """The number of pairs so far, with those of one side against itself."""
        return self._samples.measured.taken + self._samples.control.taken

    @property
    def needs_steps(self) -> bool:
        """Whether more steps of the script would lead to a verdict."""
        return not self._over and not self._enough(slow=True) and self._counts.steps > 0

    def _too_few(self) -> str:
        if not self._counts.steps and self._function is not None:
            return f"no function of the file and no region is named {self._function}, or it was not called twice"
        if not self._counts.steps and self._finder.border is None:
            if not self._regions:
                return "the script calls nothing that torch.compile made, so there are no compiled steps to compare"
            return (
                "the script has no loop of steps: no optimizer worked twice, and no region was called "
                f"{count(4, 'time')} by one thread. --step FUNCTION names the function whose call is a step"
            )
        if self._counts.repeats:
            return (
                f"a run of the script has too few steps for a pair of blocks, also in {self._counts.repeats + 1} runs"
            )
        repeat = "More steps, or --repeat, which runs the script again, give one"
        ended = f"the script ended after {count(self._counts.steps, 'step')}"
        if not self._counts.warm_up:
            return f"{ended}; a verdict needs about {STEPS_FOR_VERDICT} after the compile. {repeat}"
        blocks = (MIN_CONTROL_PAIRS + MIN_SLOW_PAIRS) * sum(size.units + size.warm for size in self._sizes)
        needed = EAGER_WARM_UP + blocks + CHANGES_FOR_VERDICT * self._settling_steps()
        return f"{ended}, {self._counts.warm_up} until they were warm; a verdict needs about {needed} more. {repeat}"

    def _conditions(self, *, slow: bool) -> Conditions:
        eager, compiled = self._sizes
        return Conditions(
            threads=torch.get_num_threads(),
            device=device_name(self._device),
            train=self._finder.border == "optimizer",
            calls=1,
            block=eager.units,
            block_compiled=compiled.units,
            cores=self._others.cores,
            # Workers of a DataLoader are other processes, too.
            busy_cores=None if self._loaders.depth else self._others.busy_cores(),
            governor=frequency_governor(),
            warm_up_spread=self._spread,
            slow=slow,
            unit="step",
        )

    def _steps_event(self, estimate: TimingEstimate | None) -> StepsTimed:
        rest: tuple[StepPart, ...] = ()
        if self._parts is not None and estimate is not None:
            shares = sorted(self._parts.rest.items(), key=lambda part: -part[1])
            rest = tuple(StepPart(name=name, us=share * estimate.compiled_us, share=share) for name, share in shares)
        batches, steps = self._batches
        length = self._loaders.length
        return replace(
            self._counts,
            regions=tuple(self._region(*region, estimate) for region in self._calls_of_regions().items()),
            rest=rest,
            steps_per_epoch=length * steps / batches if length and batches else None,
            stopped=self.stopped,
        )

    def _region(self, number: int, calls: int, estimate: TimingEstimate | None) -> StepRegion:
        share = self._parts.regions.get(number, 0.0) if self._parts is not None and self._parts.rest else None
        region = StepRegion(region=number, calls=calls, share=share)
        alone = self._alone.get(number)
        if alone is not None and len(alone):
            speedup = estimate_speedup(alone.first, alone.second)
            eager_us, compiled_us = alone.typical_us()
            enough = len(alone) >= MIN_SLOW_PAIRS
            return replace(
                region, eager_us=eager_us, compiled_us=compiled_us, speedup=speedup.value,
                low=speedup.interval.low, high=speedup.interval.high, pairs=len(alone),
                verdict=decide_verdict(speedup, estimate.noise_floor if estimate else 0.0, enough=enough),
            )  # fmt: skip
        if estimate is not None and len(self._calls_of_regions()) == 1:
            return replace(
                region, eager_us=estimate.eager_us, compiled_us=estimate.compiled_us, speedup=estimate.speedup,
                low=estimate.low, high=estimate.high, pairs=estimate.pairs, verdict=estimate.verdict,
            )  # fmt: skip
        return region

    def _use_device(self, device: torch.device) -> None:
        self._device = device
        self._synchronize = make_synchronizer(device)


def _capped(size: BlockSize, most: int) -> BlockSize:
    return BlockSize(min(size.units, most), min(size.warm, most))


def stance() -> str:
    """Return the stance that the user's script has set; empty if this torch does not tell."""
    eval_frame = sys.modules.get("torch._dynamo.eval_frame")  # an import statement takes longer
    return getattr(getattr(eval_frame, "_stance", None), "stance", "")


def device_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
    """Return the first device among tensors and modules of a call that is not the CPU, else the CPU."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor) and value.device.type != "cpu":
            return value.device
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def random_states(device: torch.device) -> tuple[torch.Tensor, ...]:
    """Return the states of the default random generators of the CPU and of a GPU."""
    states = (torch.get_rng_state(),)
    return states if device.type != "cuda" else (*states, torch.cuda.get_rng_state(device))


def differ(before: torch.Tensor, after: torch.Tensor) -> bool:
    return not torch.equal(before, after)


def fallback_random() -> bool:
    """Return whether compiled code draws the random numbers of eager code."""
    from torch._inductor import config

    return bool(config.fallback_random)
