"""Each time that Dynamo looks at a frame: how many cache entries it has, how many it may have, who called it."""

from __future__ import annotations

from typing import Any

import torch

from tcexplore.capture.dynamo.compile_id import current_compile_id
from tcexplore.capture.dynamo.user_stack import user_stack
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles, is_resumed
from tcexplore.events import FrameEntered

_FACT = "cache entries"
_CONVERT = "torch._dynamo.convert_frame"
_ONE_GRAPH = 6
"""Where `one_graph` stands among the arguments of `_compile`."""


def install(hooks: Hooks, _trace: StructuredTrace, project: UserFiles) -> None:
    """Emit a `FrameEntered` for each compile of a frame, before it begins."""
    observer = _Frames(hooks, project)
    hooks.watch(_FACT, f"{_CONVERT}:_compile", before=observer.entered)
    hooks.watch(_FACT, f"{_CONVERT}:exceeds_recompile_limit", after=observer.counted)


class _Frames:
    def __init__(self, hooks: Hooks, project: UserFiles) -> None:
        self._hooks = hooks
        self._project = project
        self._code: Any = None
        self._one_graph = False

    def entered(self, code: Any, *args: Any, **_kwargs: Any) -> None:
        """Dynamo begins with a frame."""
        self._code = code
        self._one_graph = bool(args[_ONE_GRAPH - 1]) if len(args) >= _ONE_GRAPH else False

    def counted(self, result: tuple[bool, str], size: Any, *_args: Any) -> None:
        """torch counted the entries, the last thing before it compiles or gives up."""
        code, hit = self._code, result[1] if result[0] else ""
        config = torch._dynamo.config
        owned = code is not None and self._project.owns(code.co_filename)
        callers = user_stack(self._project, ()).callers
        self._hooks.emit(
            FrameEntered(
                graph=current_compile_id() or "",
                frame=self._project.location(code.co_filename, code.co_firstlineno, code.co_name) if owned else None,
                resumed=code is not None and is_resumed(code.co_name),
                caller=callers[-1] if callers else None,
                entries=size.num_cache_entries,
                limit=getattr(config, "recompile_limit", None),
                accumulated_limit=getattr(config, "accumulated_recompile_limit", None),
                limit_hit=hit,
                raises=self._one_graph or bool(getattr(config, "fail_on_recompile_limit_hit", False)),
            )
        )
