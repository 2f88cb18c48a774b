"""The cache entries of each frame at each compile, and the compile ids of the frames compiled so far."""

from __future__ import annotations

from typing import Any

import torch

from tcexplore.capture.dynamo.trace_position import current_compile_id, user_stack
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace, TraceEvent
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import FrameEntered
from tcexplore.torch_text.dynamo_names import is_resumed

_FACT = "cache entries"
_CONVERT = "torch._dynamo.convert_frame"
_ONE_GRAPH = 5
"""The position of `one_graph` among the arguments of `_compile`, without the code object."""


def install(hooks: Hooks, _trace: StructuredTrace, user_files: UserFiles) -> None:
    """Emit a `FrameEntered` for each compile of a frame, before it begins."""
    observer = _EntryObserver(hooks, user_files)
    hooks.watch(_FACT, f"{_CONVERT}:_compile", before=observer.compile_started)
    hooks.watch(_FACT, f"{_CONVERT}:exceeds_recompile_limit", after=observer.limit_checked)


class _EntryObserver:
    def __init__(self, hooks: Hooks, user_files: UserFiles) -> None:
        self._hooks = hooks
        self._user_files = user_files
        self._code: Any = None
        self._one_graph = False

    def compile_started(self, code: Any, *args: Any, **_kwargs: Any) -> None:
        self._code = code
        self._one_graph = len(args) > _ONE_GRAPH and bool(args[_ONE_GRAPH])

    def limit_checked(self, result: tuple[bool, str], size: Any, *_args: Any) -> None:
        """Emit the frame: counting the entries is torch's last step before it compiles or gives up."""
        code, exceeded = self._code, result[1] if result[0] else ""
        config, files = torch._dynamo.config, self._user_files
        owned = code is not None and files.owns(code.co_filename)
        callers = user_stack(files, ()).callers
        self._hooks.emit(
            FrameEntered(
                graph=current_compile_id() or "",
                frame=files.location(code.co_filename, code.co_firstlineno, code.co_name) if owned else None,
                resumed=code is not None and is_resumed(code.co_name),
                caller=callers[-1] if callers else None,
                entry_count=size.num_cache_entries,
                limit=getattr(config, "recompile_limit", None),
                accumulated_limit=getattr(config, "accumulated_recompile_limit", None),
                limit_hit=exceeded,
                error_at_limit=self._one_graph or bool(getattr(config, "fail_on_recompile_limit_hit", False)),
            )
        )


def frames_begun() -> int:
    """Return the number of frames that Dynamo began to compile since its last reset, 0 if this torch has no count."""
    from torch._dynamo import convert_frame

    return getattr(convert_frame, "FRAME_COUNTER", 0)


class CompiledFrames:
    """The frames that torch's compilation metrics report as compiled."""

    def __init__(self, trace: StructuredTrace) -> None:
        self.count = 0
        self.graphs: list[str] = []
        """The compile ids of the frames with guarded code, forward only."""
        trace.subscribe("frames that a call compiled", "compilation_metrics", self._compiled)

    def _compiled(self, event: TraceEvent) -> None:
        if event.meta.get("has_guarded_code"):
            self.count += 1
            self.graphs += [event.graph] if event.graph else []
