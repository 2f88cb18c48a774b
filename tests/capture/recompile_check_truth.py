"""Comparison of the recompile check with torch: check a call, make it, and compare the results."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from tcexplore.capture.entry.entry import Call
from tcexplore.capture.recompile_check.frame_binding import bind_frame
from tcexplore.capture.recompile_check.recompile_answer import RecompileCheck, cache_entries
from tcexplore.capture.recompile_check.typed_inputs import parse_typed_call
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import AnswerVerdict, FrameAnswer, GraphSymbols, Recompiled
from tests.capture import recompile_check_models
from tests.capture.dynamo_capture import capture_events, select

CALLS_PER_COMPILE = 15
"""Enough calls to reach the recompile limit twice."""


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
    """Check and make `count` random calls of a model."""
    rng = random.Random(f"{model.name} {seed}")
    while count:
        with _CompiledModel(model) as compiled:
            for _ in range(min(count, CALLS_PER_COMPILE)):
                count -= 1
                yield compiled.check(model.draw(rng))


class _CompiledModel(contextlib.ExitStack):
    """A compiled model after its first call."""

    def __init__(self, model: recompile_check_models.CheckedModel) -> None:
        super().__init__()
        torch._dynamo.reset()
        self._model = model
        self._events = self.enter_context(capture_events(recompile_check_models.__file__))
        self._entered: list[str] = []
        self._compiled = torch.compile(model.make(), backend=self._backend)
        self._first = Call(model.first)
        self._make(self._first)
        files = UserFiles(recompile_check_models.__file__)
        self._check = RecompileCheck(
            self._compiled, (self._first,), files, ["0/0"], modes=torch.no_grad, dynamic=None, raises=False
        )

    def _backend(self, module: Any, _inputs: Any) -> Any:
        graph = str(torch._guards.CompileContext.current_compile_id())

        def run(*args: Any) -> Any:
            self._entered.append(graph)
            return module.forward(*args)

        return run

    def _make(self, call: Call) -> None:
        with torch.no_grad(), contextlib.suppress(RuntimeError, TypeError):
            self._compiled(*call.args, **call.kwargs)

    def check(self, inputs: tuple[str, ...]) -> Case:
        call = parse_typed_call(inputs, (self._first,))
        (answer, *_) = self._check.check_frames(call)
        code = bind_frame(self._compiled, call).code
        before = {str(entry.compile_id) for entry in cache_entries(code)}
        self._entered.clear()
        del self._events[:]
        self._make(call)
        recompiled = any(str(entry.compile_id) not in before for entry in cache_entries(code))
        return Case(self._model.name, inputs, _predicted(answer), self._observed(recompiled))

    def _observed(self, recompiled: bool) -> Outcome:
        prefix = "0/"
        entered = [graph for graph in self._entered if graph.startswith(prefix)]
        recompiles = [event for event in select(Recompiled, self._events) if event.graph.startswith(prefix)]
        if not recompiled and not recompiles:
            return Outcome("matches" if entered else "limit", entered[0] if entered else "", "", ())
        if not recompiled:
            verdict: AnswerVerdict = "limit" if recompiles[0].limit_hit else "recompiles"
            return Outcome(verdict, "", recompiles[0].failed_guard, ())
        events = select(GraphSymbols, self._events)
        symbols = [symbol for event in events if event.graph == recompiles[0].graph for symbol in event.symbols]
        dynamic = sorted(_source_text(source) for symbol in symbols for source in symbol.sources)
        return Outcome("recompiles", "", recompiles[0].failed_guard if recompiles else "", tuple(dynamic))


def _predicted(frame: FrameAnswer) -> Outcome:
    failed = frame.entries[0].failed if frame.entries and frame.verdict != "matches" else None
    return Outcome(frame.verdict, frame.graph, failed.failed_guard if failed else "", tuple(sorted(frame.dynamic)))


def _source_text(source: Any) -> str:
    return source.name if source.dim is None else f"{source.name}.{source.kind}()[{source.dim}]"


def agrees(case: Case) -> bool:
    """Return whether prediction and observation agree. torch does not name the failed guard beyond the limit."""
    predicted, observed = case.predicted, case.observed
    same_guard = observed.failed in ("", predicted.failed)
    same_result = (predicted.verdict, predicted.graph, predicted.dynamic) == (
        observed.verdict, observed.graph, observed.dynamic,
    )  # fmt: skip
    return same_guard and same_result
