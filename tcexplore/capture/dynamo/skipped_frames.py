"""Frames of the user's that Dynamo did not compile, and why."""

from __future__ import annotations

from typing import Any

from tcexplore.capture.dynamo.break_reasons import plain_reason
from tcexplore.capture.dynamo.compile_id import current_compile_id
from tcexplore.capture.dynamo.unsupported import Reasons
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles, is_resumed
from tcexplore.events import FrameSkipped, Location

_FACT = "skipped frames"
_UNTRACED = "frames refused before tracing"
_MODULE = "torch._dynamo.convert_frame"

NO_TENSORS = "It has no tensors to work on."
NO_OPS = "It runs no tensor operations."
GENERATOR = "It is a generator: Dynamo compiles the function that calls one, not the generator itself."

_GENERATED = "frame is already Dynamo-generated code"


def install(hooks: Hooks, _trace: StructuredTrace, project: UserFiles) -> None:
    """Emit a `FrameSkipped` for each frame once.

    Nothing here stands between Dynamo's callback and the frame: torch looks at the frames that called it.
    """
    observer = _Skips(hooks, project)
    hooks.watch(_FACT, f"{_MODULE}:has_tensor_in_frame", after=observer.looked_for_tensors)
    hooks.watch(_FACT, f"{_MODULE}:is_generator", after=observer.looked_for_generator)
    hooks.watch(_FACT, f"{_MODULE}:compile_frame", failed=observer.not_worth_it)
    hooks.watch(_FACT, f"{_MODULE}:_compile", failed=observer.given_up)
    hooks.watch(_UNTRACED, f"{_MODULE}:CatchErrorsWrapper._handle_skip", before=observer.refused)


class _Skips:
    def __init__(self, hooks: Hooks, project: UserFiles) -> None:
        self._hooks = hooks
        self._project = project
        self._reasons = Reasons.watching(hooks)
        self._known: set[Any] = set()
        """Code objects of which a closer hook knows why they were not compiled."""
        self._said: set[tuple[Location, str]] = set()

    def looked_for_tensors(self, found: bool, frame: Any) -> None:
        if not found:
            self._emit(frame.f_code, NO_TENSORS)

    def looked_for_generator(self, found: bool, code: Any) -> None:
        if found:
            self._emit(code, GENERATOR)

    def not_worth_it(self, error: Exception, code: Any, *_args: Any, **_kwargs: Any) -> None:
        """Tracing went through, but there is nothing to compile."""
        if type(error).__name__ != "SkipFrame":
            return
        if is_resumed(code.co_name):  # that a function ends without further ops costs nothing
            self._known.add(code)
        else:
            self._emit(code, NO_OPS if str(error).startswith("No ops traced") else str(error))

    def given_up(self, error: Exception, code: Any, *args: Any, **_kwargs: Any) -> None:
        """Nothing of the frame could be compiled; with `fullgraph=True` that is an error and no skip."""
        self._known.add(code)
        one_graph = len(args) > _ONE_GRAPH and args[_ONE_GRAPH]
        if type(error).__name__ in ("Unsupported", "UserError") and not one_graph:
            reason, *followed = self._reasons.of(error)
            if reason.kind != "Observed exception":
                self._emit(code, plain_reason(reason, followed))

    def refused(self, _wrapper: Any, result: Any, frame: Any) -> None:
        """What remains: torch's own reason, where it gives one."""
        reason = getattr(result, "skip_reason", None)
        if reason and reason != _GENERATED and result.guarded_code is None and frame.f_code not in self._known:
            self._emit(frame.f_code, reason)

    def _emit(self, code: Any, reason: str) -> None:
        self._known.add(code)
        if not self._project.owns(code.co_filename):
            return
        frame = self._project.location(code.co_filename, code.co_firstlineno, code.co_name)
        if (frame, reason) not in self._said:
            self._said.add((frame, reason))
            self._hooks.emit(FrameSkipped(frame=frame, reason=reason, graph=current_compile_id()))


_ONE_GRAPH = 5
"""Where `one_graph` stands among the arguments of `_compile` that follow the code object."""
