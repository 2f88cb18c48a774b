"""The recompile check of one call: for each frame the cache entry that matches, or the guards that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import CodeType, SimpleNamespace
from typing import Any

import torch
from torch._dynamo import convert_frame
from torch._dynamo.cache_size import compute_cache_size, exceeds_recompile_limit  # the originals, without our hooks
from torch._dynamo.eval_frame import _debug_get_cache_entry_list
from torch._dynamo.guards import get_guard_fail_reason_helper
from torch._guards import CompileId

from tcexplore.capture.dynamo.failed_guard import FailedGuards
from tcexplore.capture.entry.entry import Call, EntryError
from tcexplore.capture.entry.entry_inputs import describe_call
from tcexplore.capture.recompile_check.automatic_dynamic import predict_dynamic
from tcexplore.capture.recompile_check.frame_binding import BoundFrame, UnknownFrameError, bind_frame
from tcexplore.capture.recompile_check.typed_inputs import parse_typed_call
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import AnswerVerdict, EntryAnswer, FrameAnswer, Location, RecompileAnswer
from tcexplore.events.commands import RecompileQuery
from tcexplore.events.compile_ids import frame_number
from tcexplore.torch_text.dynamo_names import is_resumed

RESUMED = "it resumes after a graph break, with values that only a call computes"
CALLED = "it is called from outside the graphs, with values that only a call computes"
NEW_CODE = "the frames after it would be entered from new code"
NOT_COMPILED = "nothing of this frame is compiled"
STANCE = "torch.compiler.set_stance forces it"


_VERDICT_OF_STANCE: dict[str, AnswerVerdict] = {"eager_on_recompile": "eager", "fail_on_recompile": "raises"}


class RecompileCheck:
    """Checks calls of `compiled`, which was called with `calls`.

    Does not run the program: torch's guard managers check the locals that the call would bind.
    """

    def __init__(
        self,
        compiled: Callable[..., Any],
        calls: Sequence[Call],
        user_files: UserFiles,
        graphs: Sequence[str],
        *,
        modes: Callable[[], AbstractContextManager[object]],
        dynamic: bool | None,
        raises: bool,
    ) -> None:
        """Set up; `graphs` are the compile ids of `calls`, and `modes` enters the torch modes of a call."""
        self._compiled = compiled
        self._calls = calls
        self._user_files = user_files
        self._graphs = frozenset(graphs)
        self._modes = modes
        self._dynamic = dynamic
        self._raises = raises

    def answer(self, query: RecompileQuery) -> RecompileAnswer:
        """Return the answer, with a `problem` if the inputs are invalid or do not fit."""
        try:
            call = parse_typed_call(query.inputs, self._calls)
            frames = self.check_frames(call)
        except EntryError as error:
            problem = error.message.removeprefix("--input ")
            return RecompileAnswer(number=query.number, inputs=query.inputs, problem=problem)
        return RecompileAnswer(number=query.number, inputs=describe_call(call), frames=frames)

    def check_frames(self, call: Call) -> tuple[FrameAnswer, ...]:
        """Check the frame that the call enters first. The verdict on later frames is unknown. Raises `EntryError`."""
        with self._modes():
            try:
                frame = bind_frame(self._compiled, call)
            except UnknownFrameError as error:
                return tuple(self._later_frames(None, str(error)))
            first = self._check_first(frame)
        return (first, *self._later_frames(frame.code, NEW_CODE if first.verdict == "recompiles" else ""))

    def _check_first(self, frame: BoundFrame) -> FrameAnswer:
        entries, location = self._usable_entries(frame.code), self._location(frame.code)
        if not entries or _stance() == "force_eager":
            note = STANCE if entries else NOT_COMPILED
            return FrameAnswer(number="", verdict="eager", frame=location, note=note)
        answers = []
        for entry in entries:
            answers.append(_check_entry(entry, frame, FailedGuards(self._user_files)))
            if answers[-1].matches:
                break
        number, last = frame_number(answers[0].graph), answers[-1]
        if last.matches:
            return FrameAnswer(
                number=number, verdict="matches", frame=location, graph=last.graph, entries=tuple(answers)
            )
        verdict = self._verdict(frame, entries)
        dynamic = predict_dynamic(frame, self._dynamic) if verdict == "recompiles" else ()
        return FrameAnswer(number=number, verdict=verdict, frame=location, entries=tuple(answers), dynamic=dynamic)

    def _verdict(self, frame: BoundFrame, entries: Sequence[Any]) -> AnswerVerdict:
        """Return the verdict if no entry matches."""
        config = torch._dynamo.config
        by_stance = _VERDICT_OF_STANCE.get(_stance())
        if by_stance is not None:
            return by_stance
        if _limit_reached(frame, entries):
            return "raises" if self._raises or getattr(config, "fail_on_recompile_limit_hit", False) else "limit"
        return "raises" if getattr(config, "error_on_recompile", False) else "recompiles"

    def _usable_entries(self, code: CodeType) -> list[Any]:
        """Return the entries of the program's backend: the accuracy check compiles the same code for another."""
        entries = cache_entries(code)
        backend = next((entry.backend for entry in entries if str(entry.compile_id) in self._graphs), None)
        return [entry for entry in entries if backend is None or entry.backend == backend]

    def _later_frames(self, first: CodeType | None, note: str) -> Iterator[FrameAnswer]:
        for reference in convert_frame.input_codes.seen:
            code = reference()
            if code is None or code is first:
                continue
            graphs = [str(entry.compile_id) for entry in cache_entries(code) if str(entry.compile_id) in self._graphs]
            if graphs:
                resumed = is_resumed(code.co_name)
                yield FrameAnswer(
                    number=frame_number(graphs[0]), verdict="unknown", frame=self._location(code), resumed=resumed,
                    note=note or (RESUMED if resumed else CALLED),
                )  # fmt: skip

    def _location(self, code: CodeType) -> Location | None:
        owned = self._user_files.owns(code.co_filename)
        return self._user_files.location(code.co_filename, code.co_firstlineno, code.co_name) if owned else None


def cache_entries(code: CodeType) -> list[Any]:
    """Return the cache entries of a frame's code, in the order in which torch tries them."""
    return list(_debug_get_cache_entry_list(code))


def _check_entry(entry: Any, frame: BoundFrame, guards: FailedGuards) -> EntryAnswer:
    """Check the guards of an entry with torch's own guard manager, and return the first one that fails."""
    graph, manager = str(entry.compile_id), entry.guard_manager
    message = getattr(manager, "invalidation_reason", "")
    if not message:
        if manager.check_verbose(frame.scope).result:
            return EntryAnswer(graph=graph, matches=True)
        message = get_guard_fail_reason_helper(manager, frame.scope, entry.compile_id, entry.backend)
    failed = guards.read(message, manager, frame.code, frame.scope, "", graph)
    return EntryAnswer(graph=graph, matches=False, failed=failed)


def _limit_reached(frame: BoundFrame, entries: Sequence[Any]) -> bool:
    """Return whether a recompile limit keeps torch from compiling the frame again."""
    dynamo_frame = SimpleNamespace(f_locals=frame.scope, f_code=frame.code)
    try:
        size = compute_cache_size(dynamo_frame, list(entries))
    except (TypeError, AttributeError):  # before torch 2.12 the entries are a linked list
        size = compute_cache_size(dynamo_frame, entries[0])
    newest = max(int(str(entry.compile_id).rpartition("/")[2]) for entry in entries)
    frame_id = int(frame_number(str(entries[0].compile_id)))
    reached, _ = exceeds_recompile_limit(size, CompileId(frame_id=frame_id, frame_compile_id=newest + 1))
    return bool(reached)


def _stance() -> str:
    """Return the stance of `torch.compiler.set_stance`."""
    stance: str = getattr(getattr(torch._dynamo.eval_frame, "_stance", None), "stance", "default")
    return stance
