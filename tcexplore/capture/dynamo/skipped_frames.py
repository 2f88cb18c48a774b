"""The user's frames that Dynamo did not compile, and why."""

from __future__ import annotations

from typing import Any

from tcexplore.capture.dynamo.graph_breaks import Reasons
from tcexplore.capture.dynamo.trace_position import current_compile_id
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import FrameSkipped, Location
from tcexplore.torch_text.break_text import explain_reason
from tcexplore.torch_text.dynamo_names import is_resumed

_FACT = "skipped frames"
_UNTRACED_FACT = "frames skipped before tracing"
_MODULE = "torch._dynamo.convert_frame"

NO_TENSORS = "It has no tensors to work on."
NO_OPS = "It runs no tensor operations."
GENERATOR = "It is a generator: Dynamo compiles the function that calls a generator, not the generator itself."

_GENERATED = "frame is already Dynamo-generated code"
_ONE_GRAPH = 5
"""The position of `one_graph` among the arguments of `_compile`, without the code object."""


def install(hooks: Hooks, _trace: StructuredTrace, user_files: UserFiles) -> None:
    """Emit a `FrameSkipped` for each frame once.

    No hook adds a Python frame between Dynamo's callback and the user's frame: torch inspects the callers.
    """
    observer = _SkipObserver(hooks, user_files)
    hooks.watch(_FACT, f"{_MODULE}:has_tensor_in_frame", after=observer.tensors_checked)
    hooks.watch(_FACT, f"{_MODULE}:is_generator", after=observer.generator_checked)
    hooks.watch(_FACT, f"{_MODULE}:compile_frame", failed=observer.trace_failed)
    hooks.watch(_FACT, f"{_MODULE}:_compile", failed=observer.compile_failed)
    hooks.watch(_UNTRACED_FACT, f"{_MODULE}:CatchErrorsWrapper._handle_skip", before=observer.frame_skipped)


class _SkipObserver:
    def __init__(self, hooks: Hooks, user_files: UserFiles) -> None:
        self._hooks = hooks
        self._user_files = user_files
        self._reasons = Reasons.of_hooks(hooks)
        self._explained: set[Any] = set()
        """Code objects whose reason is known from a more specific hook."""
        self._emitted: set[tuple[Location, str]] = set()

    def tensors_checked(self, has_tensors: bool, frame: Any) -> None:
        if not has_tensors:
            self._emit(frame.f_code, NO_TENSORS)

    def generator_checked(self, is_generator: bool, code: Any) -> None:
        if is_generator:
            self._emit(code, GENERATOR)

    def trace_failed(self, error: Exception, code: Any, *_args: Any, **_kwargs: Any) -> None:
        """Emit a frame that Dynamo traced without finding anything to compile."""
        if type(error).__name__ != "SkipFrame":
            return
        if is_resumed(code.co_name):  # a resume function without ops is not worth reporting
            self._explained.add(code)
        else:
            self._emit(code, NO_OPS if str(error).startswith("No ops traced") else str(error))

    def compile_failed(self, error: Exception, code: Any, *args: Any, **_kwargs: Any) -> None:
        """Emit a frame in which Dynamo compiled nothing. With `fullgraph=True` this is an error, not a skip."""
        self._explained.add(code)
        one_graph = len(args) > _ONE_GRAPH and args[_ONE_GRAPH]
        if type(error).__name__ in ("Unsupported", "UserError") and not one_graph:
            reason, *further = self._reasons.of_error(error)
            if reason.kind != "Observed exception":
                self._emit(code, explain_reason(reason, further))

    def frame_skipped(self, _wrapper: Any, result: Any, frame: Any) -> None:
        """Emit any other skipped frame for which torch gives a reason."""
        reason = getattr(result, "skip_reason", None)
        if reason and reason != _GENERATED and result.guarded_code is None and frame.f_code not in self._explained:
            self._emit(frame.f_code, reason)

    def _emit(self, code: Any, reason: str) -> None:
        self._explained.add(code)
        if not self._user_files.owns(code.co_filename):
            return
        frame = self._user_files.location_of(code)
        if (frame, reason) not in self._emitted:
            self._emitted.add((frame, reason))
            self._hooks.emit(
                FrameSkipped(
                    frame=frame, reason=reason, graph=current_compile_id(), has_ops=reason not in (NO_TENSORS, NO_OPS)
                )
            )
