"""Every use of `torch.compile` in a process, and the calls of each compiled region."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch.utils import _pytree as pytree

from tcexplore.capture.captured_calls import CallCapture, CapturedCall
from tcexplore.capture.dynamo.eager_ops import GRAPH_PREFIX, INSTALL_GRAPH
from tcexplore.capture.dynamo.frame_entries import watch_entries
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.module_paths import module_of, name_modules, place_of, unwrapped
from tcexplore.capture.region_queries import RegionQueries
from tcexplore.capture.structured_trace import StructuredTrace, TraceEvent
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import (
    FrameSkipped,
    Location,
    RegionCalls,
    RegionCompiled,
    RegionCreated,
    RegionGraph,
    RegionKind,
    RegionModule,
    RunFact,
)
from tcexplore.torch_text.dynamo_names import is_resumed

Result = TypeVar("Result")

MAX_SAMPLES = 512
"""Number of warm calls in the quantiles."""

MAX_BINS = 256
FINEST_BIN_S = 0.02


class Activity:
    """Counts calls over time, in at most `MAX_BINS` bins of `bin_s` seconds. Bins widen when the time outgrows them."""

    def __init__(self) -> None:
        self.bin_s = FINEST_BIN_S
        self.counts: list[int] = []

    def add(self, at: float) -> None:
        """Count one call at a time in seconds."""
        while (index := int(at / self.bin_s)) >= MAX_BINS:
            self._widen()
        self.counts += [0] * (index + 1 - len(self.counts))
        self.counts[index] += 1

    def _widen(self) -> None:
        counts = [*self.counts, 0] if len(self.counts) % 2 else self.counts
        self.counts = [a + b for a, b in zip(counts[::2], counts[1::2], strict=True)]
        self.bin_s *= 2


class Region:
    """The counters of one region. `counts_graphs` tells whether this torch reports graph entries."""

    def __init__(
        self,
        number: int,
        *,
        counts_graphs: bool,
        name: str = "",
        kind: RegionKind = "function",
        original: Callable[..., Any] | None = None,
        target: Any = None,
    ) -> None:
        """`original` is what is compiled; None if this torch does not tell, or if torch compiles it for itself.

        `target` is the argument of `torch.compile`.
        """
        self.target = target
        self.number = number
        self.name = name
        self.kind = kind
        self.original = original
        self.caller: Location | None = None
        """Line of the user's files that called it first; None before, and if no such line did."""
        self.made = 1
        """Number of times that `torch.compile` made it, for a function that is defined anew each time."""
        self.eager = 0
        """Number of calls of the original, which no other counter has."""
        self.calls = 0
        self.compiled = 0
        """Number of graphs that the calls compiled."""
        self.entered = 0
        """Number of times that the calls entered a compiled graph."""
        self.resumed = 0
        """Number of these graphs that belong to a resume function after a graph break."""
        self.changed = False
        """Whether there were calls since the last `to_event`."""
        self._counts_graphs = counts_graphs
        self._warm = 0
        self.seconds = 0.0
        self.warm_seconds = 0.0
        self._uncompiled = 0
        self._raised = 0
        self._samples: deque[float] = deque(maxlen=MAX_SAMPLES)
        self._activity = Activity()

    def count_call(self, at: float, seconds: float, *, warm: bool, entered: int, raised: bool) -> None:
        """Count a finished call that began `at` and entered this many graphs."""
        self.calls += 1
        self.changed = True
        self.seconds += seconds
        self._raised += raised
        self._uncompiled += self._counts_graphs and not entered and not raised
        self._activity.add(at)
        if warm:
            self._warm += 1
            self.warm_seconds += seconds
            self._samples.append(seconds)

    @property
    def only_uncompiled(self) -> bool:
        """Whether it was called, and no call compiled or ran a graph."""
        return bool(self.calls) and self._uncompiled == self.calls and not self.compiled

    def to_event(self) -> RegionCalls:
        """Return the calls so far."""
        self.changed = False
        times = sorted(self._samples)
        low, median, high = (_quantile_us(times, q) for q in (0.1, 0.5, 0.9))
        return RegionCalls(
            region=self.number, calls=self.calls, warm=self._warm, seconds=self.seconds, sampled=len(times),
            median_us=median, low_us=low, high_us=high,
            entered=self.entered if self._counts_graphs else None,
            resumed=self.resumed if self._counts_graphs else None,
            uncompiled=self._uncompiled, raised=self._raised, eager=self.eager, made=self.made,
            bin_s=self._activity.bin_s, activity=tuple(self._activity.counts),
        )  # fmt: skip


def _quantile_us(times: list[float], q: float) -> float | None:
    """Return the nearest-rank quantile of sorted times, in microseconds."""
    return times[round(q * (len(times) - 1))] * 1e6 if times else None


REGIONS_FACT = "compiled regions"
TRACE_RULES = "torch._dynamo.trace_rules:check"
COMPILE_SYMBOL = "torch._dynamo.eval_frame:OptimizeContext.__call__"

CAPTURED_FACT, CAPTURED_SYMBOL = RunFact.CAPTURED_CALLS, "tcexplore.capture.captured_calls"

GRAPHS_FACT = "number of graph entries"

STEP_FUNCTION = "_tcexplore_step_function"
"""Attribute of a function that begins a step: the user's own function, which is compiled instead."""

ORIGINAL = "_torchdynamo_orig_callable"
"""Attribute of a compiled function: what is compiled."""

_TORCH = os.path.dirname(str(torch.__file__)) + os.sep
_TCEXPLORE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_COMPILE_FILES = tuple(
    os.path.join(_TORCH, path) for path in ("__init__.py", "_dynamo/eval_frame.py", "nn/modules/module.py")
)
"""Files of the functions between a call of `torch.compile` or `module.compile()` and the region."""

EMIT_EVERY_S = 0.2
"""The minimum time between two `RegionCalls` of a region."""


class StepObserver(Protocol):
    """Decides for each call of a region whether it runs eagerly."""

    def begin_call(self, region: Region, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether a call outside all other regions runs eagerly."""
        ...

    def end_call(self, graphs: int) -> None:
        """Note the end of a call outside all other regions, and how many graphs were compiled in it."""
        ...

    def ran_out_of_memory(self) -> None:
        """Note that an eager call failed for want of memory."""
        ...

    def compiles_eagerly(self) -> None:
        """Note that torch compiles something for itself in an eager call, as `torch.cond` does."""
        ...

    def begin_own_work(self) -> int:
        """Return when tcexplore begins to work for itself."""
        ...

    def end_own_work(self, began_ns: int) -> None:
        """Note the end of what `begin_own_work` began."""
        ...


_BACKWARD = re.compile(r"CompiledAutograd(\d+)")
"""Class names of the modules that compiled autograd compiles, numbered by torch."""

_IN_PLACE_CALLS = ("_call_impl", "_wrapped_call_impl")
"""Methods of a module that `module.compile()` compiles."""


class FailedCall(NamedTuple):
    """A call of a region that raised an exception."""

    compiled: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    error: BaseException

    def make_eagerly(self) -> None:
        """Make the call again without the compiler, and with a backward, which the compiler traces together with it."""
        with torch.compiler.set_stance("force_eager"):
            result = self.compiled(*self.args, **self.kwargs)
        outputs = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])


class Regions:
    """Emits `RegionCreated`, `RegionGraph` and `RegionCompiled` at once, and `RegionCalls` a few times a second."""

    def __init__(
        self,
        hooks: Hooks,
        user_files: UserFiles,
        now: Callable[[], float],
        queries: RegionQueries | None = None,
        between_calls: Callable[[], None] = lambda: None,
        arguments: Callable[[], tuple[str, ...]] = tuple,
        steps: StepObserver | None = None,
        captures: CallCapture | None = None,
    ) -> None:
        """Set up; `now` returns seconds since the job arrived. The main thread runs `between_calls` occasionally.

        `arguments` returns those of the current call of `torch.compile`. `steps` has some calls run eagerly.
        `captures` keeps some of those that do not.
        """
        self._steps = steps
        self._captures = captures
        self._counts_graphs = self._closed = self._originals = False
        self.nest = False
        """Whether a region called another one."""
        self._hooks = hooks
        self._user_files = user_files
        self._now = now
        self._queries = queries
        self._between_calls = between_calls
        self._arguments = arguments
        self._regions: list[Region] = []
        self._again: list[RegionCreated] | None = None
        """While the script runs again: the regions of its first run that it did not make again so far."""
        self._created: list[RegionCreated] = []
        self._by_code: dict[tuple[CodeType, Location], int] = {}
        """Regions that are functions, by their code and the line that compiles it."""
        self.failed_call: FailedCall | None = None
        """The last call of a region, if it raised an exception."""
        self._emitted_at = 0.0
        self._thread = _ThreadState()

    def install(self, trace: StructuredTrace) -> None:
        """Start to watch `torch.compile`."""
        self._counts_graphs = self._hooks.watch(GRAPHS_FACT, INSTALL_GRAPH, after=self._graph_installed)
        self.watch_compile()
        trace.subscribe("graphs of a region", "dynamo_start", self._compile_started)
        watch_entries(self._hooks, "graphs of a region", self._entry_added)

    def watch_compile(self) -> None:
        """Start to watch `torch.compile` alone, for regions that run eagerly."""
        self._hooks.wrap(REGIONS_FACT, COMPILE_SYMBOL, self._wrap_compile)

    @property
    def all(self) -> tuple[RegionCreated, ...]:
        """Every region, in the order of creation."""
        return tuple(self._created)

    @property
    def seconds(self) -> dict[int, tuple[float, float]]:
        """The seconds of the calls of each region: of those that compiled nothing, and of all."""
        return {region.number: (region.warm_seconds, region.seconds) for region in self._regions}

    @property
    def compiled(self) -> frozenset[int]:
        """The regions that compiled a graph: others run the code of one with the same function, or eagerly."""
        return frozenset(region.number for region in self._regions if region.compiled)

    @property
    def callers(self) -> dict[int, Location | None]:
        """The user's line that called each region first; None for no call, and for one by no such line."""
        return {region.number: region.caller for region in self._regions}

    def emit_calls(self) -> None:
        """Emit the calls of each region that was called since the last time."""
        self._emitted_at = self._now()
        for region in [region for region in self._regions if region.changed]:
            self._hooks.emit(region.to_event())

    def emit_uncompiled(self) -> None:
        """Emit the regions whose calls ran no graph since their code is all torch's own.

        Dynamo starts in no frame of `torch.nn`. `torch.compile` of a module has a frame of its own around it, which
        `module.compile()` has since torch 2.14.
        """
        from torch._dynamo import trace_rules

        for region, created in zip(self._regions, self._created, strict=True):
            module = module_of(region.target)
            if not region.only_uncompiled or created.location is None or module is None:
                continue
            inner = unwrapped(module)
            if all(map(trace_rules.check, (region.original, type(inner).forward))):
                place = replace(created.location, function=region.name)
                self._hooks.emit(FrameSkipped(frame=place, reason=_skipped_reason(module, inner)))

    def close(self) -> None:
        """Count no further call: tcexplore makes them, not the script."""
        self._closed = True

    @contextmanager
    def calling_originals(self) -> Iterator[None]:
        """Have regions that are called in this context run what they compile."""
        before, self._originals = self._originals, True
        try:
            yield
        finally:
            self._originals = before

    def script_again(self) -> None:
        """Count the calls of further runs of the script for the regions of its first run."""
        self._again = list(self._created)

    # ---- regions

    def _wrap_compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def compile_target(context: Any, target: Any) -> Any:
            if self._thread.calls and self._thread.calls[-1].eager:  # eager for us: torch itself compiles
                if self._steps is not None:
                    self._steps.compiles_eagerly()
                return original(context, target)
            target = getattr(target, STEP_FUNCTION, target) if _is_function(target) else target
            module = self._thread.module
            self._thread.module = module if module is not None else _module_or_none(target)
            try:
                result = original(context, target)
            finally:
                self._thread.module = module
            if _is_function(result):
                return self._wrap_region(self._add_region(target if module is None else module, result), result)
            return result

        return skip_in_dynamo(compile_target)

    def _add_region(self, target: Any, compiled: Callable[..., Any]) -> Region:
        name, kind = region_name(target)
        name_modules(target)
        created = RegionCreated(
            region=len(self._regions), name=name, kind=kind, location=_user_line(self._user_files),
            arguments=self._arguments(),
        )  # fmt: skip
        original = None if _compiled_by_torch() else getattr(compiled, ORIGINAL, None)
        if (known := self._known(created, original)) is not None:
            known.original, known.target = original, target
            return known
        self._created.append(created)
        region = Region(
            created.region, counts_graphs=self._counts_graphs, name=name, kind=kind, original=original, target=target
        )  # fmt: skip
        self._regions.append(region)
        if self._queries is not None:
            self._queries.add_region(created, compiled)
        self._hooks.emit(created)
        return region

    def _known(self, created: RegionCreated, original: Any) -> Region | None:
        """Return the region that is made again here, if any.

        It is one of the script's first run, or a function that the same line compiled before, as in each step of a
        loop: torch keeps one set of compiled versions for its code, and its closures need not stay in memory.
        """
        place = created.name, created.kind, created.location
        for known in self._again or ():
            if (known.name, known.kind, known.location) == place:
                self._again.remove(known)  # type: ignore[union-attr]
                return self._regions[known.region]
        code = getattr(original, "__code__", None)
        if created.kind != "function" or created.location is None or not isinstance(code, CodeType):
            return None
        region = self._by_code.setdefault((code, created.location), len(self._regions))
        if region == len(self._regions):
            return None
        self._regions[region].made += 1
        return self._regions[region]

    def _wrap_region(self, region: Region, compiled: Callable[..., Any]) -> Callable[..., Any]:
        begin, end, original = self._begin, self._end, region.original

        def eagerly(call: _Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            try:
                return original(*args, **kwargs)  # type: ignore[misc]
            except torch.OutOfMemoryError:
                if self._steps is None or call.outer is not None:
                    raise
                self._steps.ran_out_of_memory()
                call.eager = False
            return compiled(*args, **kwargs)

        @wraps(compiled)
        def region_call(*args: Any, **kwargs: Any) -> Any:
            if self._closed:
                return ((original if self._originals else None) or compiled)(*args, **kwargs)
            call = begin(region, compiled, args, kwargs)
            try:
                result = eagerly(call, args, kwargs) if call.eager else compiled(*args, **kwargs)
            except BaseException as error:
                self.failed_call = FailedCall(compiled, args, kwargs, error)
                end(call, args, kwargs, raised=True)
                raise
            self.failed_call = None
            if call.captured is not None and self._captures is not None:
                self._captured(self._captures.end, call.captured, args, kwargs, result)
            end(call, args, kwargs, raised=False)
            return result

        # torch unwraps a compiled function to the original only if this attribute is the wrapper's own id.
        region_call._torchdynamo_wrapper_id = id(region_call)  # type: ignore[attr-defined]
        return skip_in_dynamo(region_call)

    # ---- calls

    def _begin(
        self, region: Region, compiled: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> _Call:
        """Begin a call; the outermost one decides whether it runs eagerly, with all regions that it calls."""
        began_ns = self._steps.begin_own_work() if self._steps is not None else 0
        calls, eager = self._thread.calls, False
        outer = calls[-1] if calls else None
        self.nest = self.nest or outer is not None
        if self._steps is not None:
            eager = outer.eager if outer is not None else self._steps.begin_call(region, args, kwargs)
        captured = None
        if self._captures is not None and outer is None and not in_backward() and not records_cuda_graph():
            captured = self._captured(self._captures.begin, region, compiled, args, kwargs, keep=not eager)
        if region.caller is None and not region.calls:
            self._note_first_call(region)
        call = _Call(region, self._now(), outer, eager=eager and region.original is not None)
        call.captured = captured
        calls.append(call)
        if self._steps is not None:
            self._steps.end_own_work(began_ns)
        call.started = time.perf_counter()
        return call

    def _note_first_call(self, region: Region) -> None:
        """Note the line that calls a region first, and the place of its module in the program."""
        region.caller = _user_line(self._user_files)
        module = module_of(region.target)
        if module is not None and (run := place_of(module)) is not None:
            root, path = run.place
            self._hooks.emit(RegionModule(region=region.number, root=root, path=path, type=run.type))

    def _captured(self, function: Callable[..., Result], *args: Any, **kwargs: Any) -> Result | None:
        """Call a method of the capture; if it fails, the script goes on without captured calls."""
        try:
            return function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  a defect of tcexplore costs the captured calls, never the script
            self._hooks.report_missing(CAPTURED_FACT, CAPTURED_SYMBOL, f"{type(error).__name__}: {error}")
            self._captures = None
            return None

    def _end(self, call: _Call, args: tuple[Any, ...], kwargs: dict[str, Any], *, raised: bool) -> None:
        seconds = time.perf_counter() - call.started
        began_ns = self._steps.begin_own_work() if self._steps is not None else 0
        self._thread.calls.remove(call)
        if call.eager:
            call.region.eager += 1
            call.region.changed = True
        else:
            call.region.count_call(call.at, seconds, warm=not call.graphs, entered=call.entered, raised=raised)
        if (captures := self._captures) is not None and call.outer is None:
            if call.graphs:
                self._captured(captures.note_compiles, call.region, args, kwargs, len(call.graphs))
            if raised and call.captured is not None:
                captures.discard(call.captured)
        call.region.compiled += len(call.graphs)
        if call.graphs and self._again is None:
            self._emit_compiled(call, seconds, args, kwargs)
        if call.graphs or self._now() - self._emitted_at > EMIT_EVERY_S:
            self.emit_calls()
            if call.outer is None:
                self._hooks.run_deferred()
            if not self._thread.calls and threading.current_thread() is threading.main_thread():
                self._between_calls()
        if self._steps is not None:
            if call.outer is None:
                self._steps.end_call(len(call.graphs))
            self._steps.end_own_work(began_ns)

    def _emit_compiled(self, call: _Call, seconds: float, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        number, graphs = call.region.number, tuple(call.graphs)
        inputs: tuple[str, ...] = ()
        if self._queries is not None:
            self._queries.add_compile(number, graphs, args, kwargs)
            inputs = self._queries.last_inputs(number)
        self._hooks.emit(
            RegionCompiled(
                region=number,
                call=call.region.calls + call.region.eager,
                at=call.at,
                seconds=seconds,
                graphs=graphs,
                inputs=inputs,
            )
        )

    def _graph_installed(self, _result: Any, output_graph: Any, name: str, graph: Any) -> None:
        """Count the entries of a new graph, which Dynamo's bytecode calls through a global of the user's module."""
        if not name.startswith(GRAPH_PREFIX):
            return
        code = getattr(getattr(output_graph, "root_tx", None), "f_code", None)
        resumed = code is not None and is_resumed(code.co_name)
        count_entry = self._count_entry

        def graph_entry(*args: Any) -> Any:
            count_entry(resumed)
            return graph(*args)

        output_graph.global_scope[name] = skip_in_dynamo(graph_entry)

    def _count_entry(self, resumed: bool) -> None:
        if calls := self._thread.calls:
            calls[-1].entered += 1
            calls[-1].region.entered += 1
            calls[-1].region.resumed += resumed

    def _compile_started(self, event: TraceEvent) -> None:
        if event.graph and (calls := self._thread.calls):
            self._hooks.emit(RegionGraph(region=calls[-1].region.number, graph=event.graph))

    def _entry_added(self, graph: str) -> None:
        if calls := self._thread.calls:
            calls[-1].graphs.append(graph)


class _Call:
    """A call in progress, with the graphs that it compiled and the number of graphs that it entered."""

    __slots__ = ("at", "captured", "eager", "entered", "graphs", "outer", "region", "started")

    def __init__(self, region: Region, at: float, outer: _Call | None, *, eager: bool) -> None:
        """`outer` is the call of another region that makes this one."""
        self.region, self.at, self.outer, self.eager = region, at, outer, eager
        self.started = 0.0
        self.graphs: list[str] = []
        self.entered = 0
        self.captured: CapturedCall | None = None


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.calls: list[_Call] = []
        """The calls in progress in this thread, the innermost last."""
        self.module: Any = None
        """The module that torch is compiling in this thread, if any."""


class RegionName(NamedTuple):
    """The name and the kind of a `RegionCreated`."""

    name: str
    kind: RegionKind


def region_name(target: Any) -> RegionName:
    """Return the name and kind of a compiled object, as the user knows it."""
    if isinstance(target, torch.nn.Module):
        name = type(target).__name__
        backward = _BACKWARD.fullmatch(name)
        return RegionName(f"backward {backward[1]}", "compiled autograd") if backward else RegionName(name, "module")
    owner, name = getattr(target, "__self__", None), getattr(target, "__name__", type(target).__name__)
    if isinstance(owner, torch.nn.Module) and name in _IN_PLACE_CALLS:
        return RegionName(type(owner).__name__, "module in place")
    if isinstance(owner, torch.optim.Optimizer):
        return RegionName(f"{type(owner).__name__}.{name}", "optimizer")
    if owner is not None and not isinstance(owner, type | ModuleType):  # a builtin's owner is its Python module
        return RegionName(f"{type(owner).__name__}.{name}", "method")
    return RegionName(name, "function")


def skip_in_dynamo(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make Dynamo skip the frames of a function, and of the functions that it calls; return the function.

    If a traced function calls it, Dynamo follows the function's own marks (`_torchdynamo_inline`).
    """
    from torch._dynamo import eval_frame

    code = function.__code__
    try:
        skip = eval_frame.FrameExecStrategy(eval_frame.FrameAction.SKIP, eval_frame.FrameAction.SKIP)
        eval_frame.set_code_exec_strategy(code, skip)
    except AttributeError:
        eval_frame.skip_code(code)
    return function


def _user_line(user_files: UserFiles) -> Location | None:
    """Return the innermost line of the user's files on the stack of this thread."""
    frame = user_files.innermost(sys._getframe(1))
    return user_files.location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name) if frame else None


def _compiled_by_torch() -> bool:
    """Return whether torch itself called `torch.compile`, as it does for FlexAttention in eager mode."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((_TCEXPLORE, *_COMPILE_FILES)):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(_TORCH)


def _skipped_reason(module: torch.nn.Module, inner: torch.nn.Module) -> str:
    """Return why Dynamo starts nowhere in a module of torch's, which may be inside a wrapper of torch's."""
    caller, advice = "`module.compile()`", "Use `module = torch.compile(module)`."
    if inner is not module:
        caller, advice = type(module).__name__, "Compile the module before it is wrapped."
    name = f"torch.nn.{type(inner).__name__}"
    return f"Dynamo does not start in the code of torch.nn, and {caller} of a {name} runs nothing else. {advice}"


def records_cuda_graph() -> bool:
    """Return whether the current stream records a CUDA graph: a query or a copy would end it, or become part of it."""
    return torch.cuda.is_initialized() and bool(torch.cuda.is_current_stream_capturing())


def in_backward() -> bool:
    """Return whether this thread runs autograd: a checkpoint computes its forward again there."""
    task: Callable[[], int] | None = getattr(torch._C, "_current_graph_task_id", None)
    return task is not None and task() != -1


def _is_function(compiled: Any) -> bool:
    """Return whether this is a function. A module is called through a function that torch makes for it."""
    return not isinstance(compiled, torch.nn.Module | type) and callable(compiled)


def _module_or_none(target: Any) -> Any:
    return target if isinstance(target, torch.nn.Module) else None
