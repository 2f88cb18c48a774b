"""Every use of `torch.compile` in a process, and the calls of what it made."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.regions import graph_entries
from tcexplore.capture.regions.naming import asked_at, named
from tcexplore.capture.regions.region_calls import Region
from tcexplore.capture.regions.region_queries import RegionQueries
from tcexplore.capture.regions.untraced import untraced
from tcexplore.capture.structured_trace import StructuredTrace, TraceEvent
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import GraphOfRegion, RegionCompiled, RegionCreated

FACT = "compiled regions"
SYMBOL = "torch._dynamo.eval_frame:OptimizeContext.__call__"

EVERY_S = 0.2
"""Seconds between two tellings of the calls, at least."""


class Regions:
    """Emits `RegionCreated`, `GraphOfRegion`, `RegionCompiled` at once, and `RegionCalls` a few times a second.

    `now` gives the seconds since the job arrived. `queries` gets what it takes to answer questions about them;
    `between` is called now and then by the main thread, between two calls.
    """

    def __init__(
        self,
        hooks: Hooks,
        project: UserFiles,
        now: Callable[[], float],
        queries: RegionQueries | None = None,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        self._hooks = hooks
        self._project = project
        self._now = now
        self._queries = queries
        self._between = between
        self._regions: list[Region] = []
        self._told = 0.0
        self._thread = _Thread()

    def install(self, trace: StructuredTrace) -> None:
        """Watch `torch.compile` from here on."""
        self._counts_graphs = graph_entries.install(self._hooks, self._entered)
        self._hooks.wrap(FACT, SYMBOL, self._observe)
        trace.subscribe("graphs of a region", "dynamo_start", self._began)
        trace.subscribe("graphs of a region", "compilation_metrics", self._compiled)

    def tell(self) -> None:
        """Emit the calls of the regions that were called since the last time."""
        self._told = self._now()
        for region in [region for region in self._regions if region.dirty]:
            self._hooks.emit(region.seen())

    # ---- regions

    def _observe(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def compiling(context: Any, given: Any) -> Any:
            module = self._thread.module
            self._thread.module = module if module is not None else _module_or_none(given)
            try:
                result = original(context, given)
            finally:
                self._thread.module = module
            if _is_function(result):
                return self._watched(self._made(given if module is None else module, result, context), result)
            return result

        return untraced(compiling)

    def _made(self, given: Any, compiled: Callable[..., Any], context: Any) -> Region:
        region = Region(len(self._regions), counts_graphs=self._counts_graphs)
        self._regions.append(region)
        name, kind = named(given)
        made = RegionCreated(region=region.number, name=name, kind=kind, location=asked_at(self._project))
        if self._queries is not None:
            self._queries.made(made, compiled, context)
        self._hooks.emit(made)
        return region

    def _watched(self, region: Region, compiled: Callable[..., Any]) -> Callable[..., Any]:
        begin, end = self._begin, self._end

        @wraps(compiled)
        def region_call(*args: Any, **kwargs: Any) -> Any:
            call = begin(region)
            try:
                result = compiled(*args, **kwargs)
            except BaseException:
                end(call, args, kwargs, raised=True)
                raise
            end(call, args, kwargs, raised=False)
            return result

        # torch follows a compiled function to what it was made of only where this is its own id.
        region_call._torchdynamo_wrapper_id = id(region_call)  # type: ignore[attr-defined]
        return untraced(region_call)

    # ---- calls

    def _begin(self, region: Region) -> _Call:
        call = _Call(region, self._now(), time.perf_counter())
        self._thread.calls.append(call)
        return call

    def _end(self, call: _Call, args: tuple[Any, ...], kwargs: dict[str, Any], *, raised: bool) -> None:
        seconds = time.perf_counter() - call.started
        self._thread.calls.remove(call)
        region = call.region
        region.called(call.at, seconds, warm=not call.graphs, entered=call.entered, raised=raised)
        if call.graphs:
            self._say_compiled(call, seconds, args, kwargs)
        if call.graphs or self._now() - self._told > EVERY_S:
            self.tell()
            if not self._thread.calls and threading.current_thread() is threading.main_thread():
                self._between()

    def _say_compiled(self, call: _Call, seconds: float, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        number, graphs = call.region.number, tuple(call.graphs)
        if self._queries is not None:
            self._queries.compiled(number, graphs, args, kwargs)
        inputs = self._queries.inputs(number) if self._queries is not None else ()
        self._hooks.emit(
            RegionCompiled(
                region=number, call=call.region.calls, at=call.at, seconds=seconds, graphs=graphs, inputs=inputs
            )
        )

    def _entered(self, resumed: bool) -> None:
        if calls := self._thread.calls:
            calls[-1].entered += 1
            calls[-1].region.entered += 1
            calls[-1].region.resumed += resumed

    def _began(self, event: TraceEvent) -> None:
        if event.graph and (calls := self._thread.calls):
            self._hooks.emit(GraphOfRegion(region=calls[-1].region.number, graph=event.graph))

    def _compiled(self, event: TraceEvent) -> None:
        if event.graph and event.meta.get("has_guarded_code") and (calls := self._thread.calls):
            calls[-1].graphs.append(event.graph)


class _Call:
    """A call that is under way, with what it compiled and the graphs that it entered so far."""

    __slots__ = ("at", "entered", "graphs", "region", "started")

    def __init__(self, region: Region, at: float, started: float) -> None:
        self.region, self.at, self.started = region, at, started
        self.graphs: list[str] = []
        self.entered = 0


class _Thread(threading.local):
    """The calls under way in this thread, the innermost last; and the module that torch is wrapping, if any."""

    def __init__(self) -> None:
        self.calls: list[_Call] = []
        self.module: Any = None


def _is_function(made: Any) -> bool:
    """A module is called through the function that torch makes for it: that one is watched."""
    return not isinstance(made, torch.nn.Module | type) and callable(made)


def _module_or_none(given: Any) -> Any:
    return given if isinstance(given, torch.nn.Module) else None
