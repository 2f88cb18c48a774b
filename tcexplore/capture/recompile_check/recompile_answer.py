"""The answer to one question: for each frame the entry that would match, else the guard that would fail first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._dynamo import convert_frame

from tcexplore.capture.dynamo.failed_guard import FailedGuards
from tcexplore.capture.entry.entry import Call, EntryError
from tcexplore.capture.entry.entry_inputs import describe
from tcexplore.capture.recompile_check.automatic_dynamic import would_be_dynamic
from tcexplore.capture.recompile_check.entry_checks import asked, entries_of, limit_hit, stance
from tcexplore.capture.recompile_check.frame_binding import Entered, UnknownEntryError, entered
from tcexplore.capture.recompile_check.typed_inputs import call_from_typed
from tcexplore.capture.user_files import UserFiles, is_resumed
from tcexplore.events import FrameAnswer, Location, RecompileAnswer
from tcexplore.events.commands import RecompileQuery
from tcexplore.events.compile_ids import frame_number

RESUMED = "it goes on behind a graph break, with what the code before it computes, and only a call computes that"
CALLED = "code outside the graphs calls it, with what that code computes, and only a call computes that"
AFRESH = "the frames behind it would be entered from new code"


class RecompileCheck:
    """Answers for `compiled`, which was called with `calls`; `graphs` are the compile ids of those calls.

    Nothing is run: torch's guard managers are asked about the locals that the call would bind, under the modes that it
    would run with: `around` enters them.
    """

    def __init__(
        self,
        compiled: Callable[..., Any],
        calls: Sequence[Call],
        project: UserFiles,
        graphs: Sequence[str],
        *,
        around: Callable[[], AbstractContextManager[object]],
        dynamic: bool | None,
        raises: bool,
    ) -> None:
        self._compiled = compiled
        self._calls = calls
        self._project = project
        self._graphs = frozenset(graphs)
        self._around = around
        self._dynamic = dynamic
        self._raises = raises

    def answer(self, question: RecompileQuery) -> RecompileAnswer:
        """The answer, with a `problem` where the inputs cannot be understood or do not fit."""
        try:
            call = call_from_typed(question.inputs, self._calls)
            frames = self.frames(call)
        except EntryError as error:
            problem = error.message.removeprefix("--input ")
            return RecompileAnswer(number=question.number, inputs=question.inputs, problem=problem)
        return RecompileAnswer(number=question.number, inputs=describe(call), frames=frames)

    def frames(self, call: Call) -> tuple[FrameAnswer, ...]:
        """The frame that the call enters first, then those of which its inputs tell nothing. Raises `EntryError`."""
        with self._around():
            try:
                frame = entered(self._compiled, call)
            except UnknownEntryError as error:
                return tuple(self._unknown(None, str(error)))
            first = self._first(frame)
        return (first, *self._unknown(frame.code, AFRESH if first.verdict == "recompiles" else ""))

    def _first(self, frame: Entered) -> FrameAnswer:
        entries = self._entries(frame.code)
        if not entries or stance() == "force_eager":
            note = "nothing of this frame is compiled" if not entries else "torch.compiler.set_stance says so"
            return FrameAnswer(number="", verdict="eager", frame=self._place(frame.code), note=note)
        answers = []
        for entry in entries:
            answers.append(asked(entry, frame, FailedGuards(self._project)))
            if answers[-1].matches:
                break
        number = frame_number(answers[0].graph)
        where = self._place(frame.code)
        if answers[-1].matches:
            return FrameAnswer(
                number=number, verdict="matches", frame=where, graph=answers[-1].graph, entries=tuple(answers)
            )
        verdict = self._verdict(frame, entries)
        dynamic = would_be_dynamic(frame, self._dynamic) if verdict == "recompiles" else ()
        return FrameAnswer(number=number, verdict=verdict, frame=where, entries=tuple(answers), dynamic=dynamic)

    def _verdict(self, frame: Entered, entries: Sequence[Any]) -> str:
        said = {"eager_on_recompile": "eager", "fail_on_recompile": "raises"}.get(stance())
        if said is not None:
            return said
        if limit_hit(frame, entries):
            fails = self._raises or getattr(torch._dynamo.config, "fail_on_recompile_limit_hit", False)
            return "raises" if fails else "limit"
        return "raises" if getattr(torch._dynamo.config, "error_on_recompile", False) else "recompiles"

    def _entries(self, code: Any) -> list[Any]:
        """Those that this call can use: the accuracy check compiles the same code once more, for a backend of its
        own."""
        found = entries_of(code)
        own = next((entry.backend for entry in found if str(entry.compile_id) in self._graphs), None)
        return entries_of(code, own)

    def _unknown(self, first: Any, note: str) -> Iterator[FrameAnswer]:
        for reference in convert_frame.input_codes.seen:
            code = reference()
            found = [] if code is None or code is first else entries_of(code)
            own = [str(entry.compile_id) for entry in found if str(entry.compile_id) in self._graphs]
            if own and code is not None:
                resumed = is_resumed(code.co_name)
                why = note or (RESUMED if resumed else CALLED)
                yield FrameAnswer(
                    number=frame_number(own[0]),
                    verdict="unknown",
                    frame=self._place(code),
                    resumed=resumed,
                    note=why,
                )

    def _place(self, code: Any) -> Location | None:
        owned = self._project.owns(code.co_filename)
        return self._project.location(code.co_filename, code.co_firstlineno, code.co_name) if owned else None
