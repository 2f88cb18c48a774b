"""Comparison of the recompile check with torch: check a call, make it, and compare the results."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch._dynamo.exc import FailOnRecompileLimitHit, RecompileError

from tcexplore.capture.compiled_frame import bind_frame, cache_entries
from tcexplore.capture.compiled_regions import Regions
from tcexplore.capture.entry import Call
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.recompile_check import RecompileCheck
from tcexplore.capture.region_queries import NOT_COMPILED, RegionQueries
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.typed_calls import parse_typed_call
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import AnswerVerdict, FrameAnswer, FrameEntered, GraphSymbols, RecompileAnswer, Recompiled
from tcexplore.events.commands import RecompileQuery
from tests.capture import recompile_check_models
from tests.capture.dynamo_capture import capture_events, select

CALLS_PER_COMPILE = 15
"""Enough calls to reach the recompile limit twice."""


COMPILE_FAILED = ("unknown: torch gave up the frame while it compiled it",)


class Outcome(NamedTuple):
    """The effect of a call on the first frame."""

    verdict: AnswerVerdict
    graph: str
    """The cache entry that matches."""
    failed: str
    """The failed guard of the newest entry."""
    dynamic: tuple[str, ...]
    """The dynamic sizes and numbers of the new graph."""


class Case(NamedTuple):
    model: str
    inputs: tuple[str, ...]
    predicted: Outcome
    observed: Outcome


def check_cases(model: recompile_check_models.CheckedModel, count: int, seed: int) -> Iterator[Case]:
    """Check and make `count` random calls of a model, alternately as a run and as a script."""
    rng = random.Random(f"{model.name} {seed}")
    script = bool(seed % 2)
    while count:
        with _CompiledModel(model, script=script) as compiled:
            for _ in range(min(count, CALLS_PER_COMPILE)):
                count -= 1
                yield compiled.check(model.draw(rng), rng.randrange(len(model.options)))
        script = not script


class _CompiledModel(contextlib.ExitStack):
    """A compiled model after its first call; `script` checks it as a script's regions."""

    def __init__(self, model: recompile_check_models.CheckedModel, *, script: bool) -> None:
        super().__init__()
        torch._dynamo.reset()
        self._model = model
        self.enter_context(torch._dynamo.config.patch(model.config))
        self._events = self.enter_context(capture_events(recompile_check_models.__file__))
        self._files = UserFiles(recompile_check_models.__file__)
        self._queries = self.enter_context(_watched_regions(self._files)) if script else None
        self._entered: list[str] = []
        target = model.make()
        compilers = zip(recompile_check_models.COMPILERS, model.options, strict=False)
        self._compiled = [compiler(target, backend=self._backend, **options) for compiler, options in compilers]
        self._first = Call(model.first)
        self._make(0, self._first)

    def _backend(self, module: Any, _inputs: Any) -> Any:
        graph = str(torch._guards.CompileContext.current_compile_id())

        def run(*args: Any) -> Any:
            self._entered.append(graph)
            return module.forward(*args)

        return run

    def _make(self, number: int, call: Call) -> str:
        """Make a call; return the type of an exception that the compiler raised."""
        try:
            with torch.no_grad():
                self._compiled[number](*call.args, **call.kwargs)
        except (FailOnRecompileLimitHit, RecompileError) as error:
            return type(error).__name__
        except (RuntimeError, TypeError):
            pass
        return ""

    def _answer(self, number: int, inputs: tuple[str, ...]) -> FrameAnswer | None:
        """Return the answer for the first frame; None if a script's region was not called yet."""
        query = RecompileQuery(number=1, inputs=inputs, region=number)
        if self._queries is not None:
            prepared = self._queries.prepare(query)
            answer = prepared if isinstance(prepared, RecompileAnswer) else prepared[0].answer(prepared[1])
        else:
            check = RecompileCheck(self._compiled[number], (self._first,), self._files, ["0/0"], modes=torch.no_grad)
            answer = check.answer(query)
        assert answer.problem in ("", NOT_COMPILED), answer.problem
        return None if answer.problem else answer.frames[0]

    def _base(self, inputs: tuple[str, ...], number: int) -> Call:
        """Return the call from which the inputs take what their texts leave out."""
        if self._queries is None:
            return self._first
        prepared = self._queries.prepare(RecompileQuery(number=1, inputs=inputs, region=number))
        return self._first if isinstance(prepared, RecompileAnswer) else prepared[0]._calls[0]

    def check(self, inputs: tuple[str, ...], number: int) -> Case:
        answer = self._answer(number, inputs)
        if answer is None:  # a region of a script that has compiled nothing
            self._make(number, self._first)
            answer = self._answer(number, inputs)
        if answer is None:
            number, answer = 0, self._answer(0, inputs)
        assert answer is not None
        call = parse_typed_call(inputs, (self._base(inputs, number),))
        code = bind_frame(self._compiled[number], call).code
        before = {str(entry.compile_id) for entry in cache_entries(code)}
        self._entered.clear()
        del self._events[:]
        raised = self._make(number, call)
        recompiled = any(str(entry.compile_id) not in before for entry in cache_entries(code))
        name = f"{self._model.name} {self._model.options[number]}"
        observed = Outcome("raises", "", "", ()) if raised else self._observed(recompiled)
        return Case(name, inputs, _predicted(answer), observed)

    def _observed(self, recompiled: bool) -> Outcome:
        prefix = "0/"
        entered = [graph for graph in self._entered if graph.startswith(prefix)]
        recompiles = [e for e in select(Recompiled, self._events) if e.graph.startswith(prefix) and e.kind != "backend"]
        if not recompiled and entered:
            return Outcome("matches", entered[0], "", ())
        if not recompiled:
            attempted = bool(recompiles) and not recompiles[0].limit_hit
            failed = recompiles[0].failed_guard if recompiles else ""
            return Outcome("recompiles" if attempted else "limit", "", failed, COMPILE_FAILED if attempted else ())
        new = next(graph for graph in self._entered_frames() if graph.startswith(prefix))
        events = select(GraphSymbols, self._events)
        symbols = [symbol for event in events if event.graph == new for symbol in event.symbols]
        dynamic = sorted({_source_text(source) for symbol in symbols for source in symbol.sources})
        return Outcome("recompiles", "", recompiles[0].failed_guard if recompiles else "", tuple(dynamic))

    def _entered_frames(self) -> list[str]:
        return [event.graph for event in select(FrameEntered, self._events)]


@contextlib.contextmanager
def _watched_regions(files: UserFiles) -> Iterator[RegionQueries]:
    """Watch `torch.compile` as in a script."""
    hooks, queries = Hooks(lambda _event: None), RegionQueries(files)
    trace = StructuredTrace(hooks)
    regions = Regions(hooks, files, time.perf_counter, queries)
    regions.install(trace)
    trace.install()
    try:
        yield queries
    finally:
        trace.remove()
        hooks.remove()


def _predicted(frame: FrameAnswer) -> Outcome:
    failed = frame.entries[0].failed if frame.entries and frame.verdict != "matches" else None
    return Outcome(frame.verdict, frame.graph, failed.failed_guard if failed else "", tuple(sorted(frame.dynamic)))


def _source_text(source: Any) -> str:
    return source.name if source.dim is None else f"{source.name}.{source.kind}()[{source.dim}]"


def agrees(case: Case) -> bool:
    """Return whether prediction and observation agree.

    torch does not name the failed guard beyond the limit. A call beyond it and a skipped frame run eagerly.
    """
    predicted, observed = case.predicted, case.observed
    verdict = "limit" if predicted.verdict == "eager" else predicted.verdict
    same_guard = observed.failed in ("", predicted.failed)
    same_sizes = observed.dynamic in (predicted.dynamic, COMPILE_FAILED)
    return same_guard and same_sizes and (verdict, predicted.graph) == (observed.verdict, observed.graph)
