"""Ask whether a call check recompile, then make it, and compare: torch itself is the judge."""

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
from tcexplore.events import FrameAnswer, GraphSymbols, Recompiled
from tests.capture import recompile_check_models
from tests.capture.dynamo import of, watching


class Answer(NamedTuple):
    """`verdict` of `events.ANSWER_VERDICTS`, the entry that matched, the guard that failed of the newest entry, and
    what is dynamic in the new graph."""

    verdict: str
    graph: str
    failed: str
    dynamic: tuple[str, ...]


class Case(NamedTuple):
    subject: str
    inputs: tuple[str, ...]
    said: Answer
    did: Answer


def cases(subject: recompile_check_models.Subject, many: int, seed: int) -> Iterator[Case]:
    """`many` random calls of a subject, each asked about first. Compiled anew whenever its limit was reached twice."""
    chance = random.Random(f"{subject.name} {seed}")
    left = many
    while left:
        sitting = _Sitting(subject)
        with sitting:
            for _ in range(min(left, 15)):
                left -= 1
                yield sitting.case(subject.draw(chance))


class _Sitting(contextlib.ExitStack):
    """A compiled subject and its first call."""

    def __init__(self, subject: recompile_check_models.Subject) -> None:
        super().__init__()
        torch._dynamo.reset()
        self._subject = subject
        self._events = self.enter_context(watching(recompile_check_models.__file__))
        self._ran: list[str] = []
        self._compiled = torch.compile(subject.make(), backend=self._backend)
        self._call = Call(subject.first)
        self._make(self._call)
        project = UserFiles(recompile_check_models.__file__)
        graphs = ["0/0"]
        self._check = RecompileCheck(
            self._compiled, (self._call,), project, graphs, modes=torch.no_grad, dynamic=None, raises=False
        )

    def _backend(self, module: Any, _inputs: Any) -> Any:
        graph = str(torch._guards.CompileContext.current_compile_id())

        def run(*args: Any) -> Any:
            self._ran.append(graph)
            return module.forward(*args)

        return run

    def _make(self, call: Call) -> None:
        with torch.no_grad(), contextlib.suppress(RuntimeError, TypeError):
            self._compiled(*call.args, **call.kwargs)

    def case(self, inputs: tuple[str, ...]) -> Case:
        call = parse_typed_call(inputs, (self._call,))
        (said, *_) = self._check.check_frames(call)
        code = bind_frame(self._compiled, call).code
        before = {str(entry.compile_id) for entry in cache_entries(code)}
        self._ran.clear()
        del self._events[:]
        self._make(call)
        new = [str(entry.compile_id) for entry in cache_entries(code) if str(entry.compile_id) not in before]
        return Case(self._subject.name, inputs, _said(said), self._did(new))

    def _did(self, new: list[str]) -> Answer:
        number = "0/"
        ran = [graph for graph in self._ran if graph.startswith(number)]
        again = [event for event in of(Recompiled, self._events) if event.graph.startswith(number)]
        tried = [event.graph for event in again]
        if not new and not again:
            return Answer("matches" if ran else "limit", ran[0] if ran else "", "", ())
        if not new:
            return Answer("limit" if again[0].limit_hit else "recompiles", "", again[0].failed_guard, ())
        symbols = [s for found in of(GraphSymbols, self._events) if found.graph == tried[0] for s in found.symbols]
        sources = sorted(_text(source) for symbol in symbols for source in symbol.sources)
        return Answer("recompiles", "", again[0].failed_guard if again else "", tuple(sources))


def _said(frame: FrameAnswer) -> Answer:
    failed = frame.entries[0].failed if frame.entries and frame.verdict != "matches" else None
    return Answer(frame.verdict, frame.graph, failed.failed_guard if failed else "", tuple(sorted(frame.dynamic)))


def _text(source: Any) -> str:
    return source.name if source.dim is None else f"{source.name}.{source.what}()[{source.dim}]"


def agree(case: Case) -> bool:
    """Whether both answers are one. Of an entry beyond the limit torch does not say which guard failed."""
    said, did = case.said, case.did
    failed = did.failed in ("", said.failed)
    return failed and (said.verdict, said.graph, said.dynamic) == (did.verdict, did.graph, did.dynamic)
