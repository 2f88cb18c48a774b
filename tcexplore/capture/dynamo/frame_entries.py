"""The cache entries of each frame at each compile, and the compile ids of the frames compiled so far."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from types import CodeType
from typing import Any, TypeVar

import torch

from tcexplore.capture.dynamo.trace_position import current_compile_id, user_stack
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace, TraceEvent
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import FrameEntered, RunFact
from tcexplore.torch_text.dynamo_names import is_resumed

_STOPPED_FACT = "frames that torch no longer compiles"
_CONVERT = "torch._dynamo.convert_frame"
T = TypeVar("T")

MAX_MEASUREMENTS = 12
"""Maximum number of measurements whose calls compile: more than torch's recompile limit."""

_ONE_GRAPH = 5
"""The position of `one_graph` among the arguments of `_compile`, without the code object."""


_stopped: dict[tuple[int, int], tuple[weakref.ref[CodeType], str]] = {}
"""The code that torch no longer compiles in this process, each with torch's name of the strategy, by the id of the code
and the number of the isolated cache."""


def install(hooks: Hooks, _trace: StructuredTrace, user_files: UserFiles) -> None:
    """Emit a `FrameEntered` for each compile of a frame, before it begins."""
    observer = _EntryObserver(hooks, user_files)
    hooks.watch(RunFact.CACHE_ENTRIES, f"{_CONVERT}:_compile", before=observer.compile_started)
    hooks.watch(RunFact.CACHE_ENTRIES, f"{_CONVERT}:exceeds_recompile_limit", after=observer.limit_checked)
    hooks.watch(_STOPPED_FACT, f"{_CONVERT}:CatchErrorsWrapper._handle_skip", before=_frame_skipped)
    hooks.wrap(RunFact.CACHE_ENTRIES, "torch._dynamo:reset", _continue_frame_ids)


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
        _stopped.pop((id(code), current_isolation()), None)
        config, files = torch._dynamo.config, self._user_files
        owned = code is not None and files.owns(code.co_filename)
        callers = user_stack(files, ()).callers
        self._hooks.emit(
            FrameEntered(
                graph=current_compile_id() or "",
                frame=files.location_of(code) if owned else None,
                resumed=code is not None and is_resumed(code.co_name),
                caller=callers[-1] if callers else None,
                entry_count=size.num_cache_entries,
                counted_entries=getattr(size, "num_cache_entries_with_same_id_matched_objs", None),
                total_entries=getattr(size, "total_cache_entries_all_regions", None),
                isolation=current_isolation(),
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


def forget_frames() -> None:
    """Reset Dynamo, and number frames from 0 again. No event of the run may name a frame yet."""
    from torch._dynamo import convert_frame

    torch._dynamo.reset()
    convert_frame.FRAME_COUNTER = 0


def _continue_frame_ids(original: Callable[[], None]) -> Callable[[], None]:
    """Make compile ids unique in a run: after a `torch._dynamo.reset()`, torch would number frames from 0 again."""

    @wraps(original)
    def reset() -> None:
        from torch._dynamo import convert_frame

        number = getattr(convert_frame, "FRAME_COUNTER", 0)
        original()
        convert_frame.FRAME_COUNTER = number

    return reset


def _frame_skipped(_wrapper: Any, result: Any, frame: Any) -> None:
    """Record the strategy that torch sets for all later calls of this code."""
    strategy = getattr(getattr(result, "frame_exec_strategy", None), "cur_action", None)
    name = getattr(strategy, "name", "DEFAULT")
    if name != "DEFAULT" and getattr(result, "apply_to_code", False):
        _stopped[id(frame.f_code), current_isolation()] = weakref.ref(frame.f_code), name


def current_isolation() -> int:
    """Return the number of the isolated cache of the call in progress, negative for the shared cache."""
    get = getattr(torch._C._dynamo.eval_frame, "get_eval_frame_isolate_recompiles_id", None)  # since torch 2.13
    return -1 if get is None else int(get())


def stopped_compiling(code: CodeType, isolation: int) -> str:
    """Return `SKIP` if torch now runs this code eagerly, `RUN_ONLY` if it adds no entries, otherwise an empty text.

    Older torch (2.11) does not report skipped frames: there, a frame that was entered and has no entries counts as one.
    """
    from torch._dynamo.convert_frame import CatchErrorsWrapper, input_codes
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    if code not in input_codes:  # torch._dynamo.reset() empties it
        return ""
    if not hasattr(CatchErrorsWrapper, "_handle_skip"):
        return "" if _debug_get_cache_entry_list(code) else "SKIP"
    reference, name = _stopped.get((id(code), isolation), (None, ""))
    return name if reference is not None and reference() is code else ""


def watch_entries(hooks: Hooks, fact: str, added: Callable[[str], None]) -> None:
    """Call `added` with the compile id after each compile that added a cache entry.

    torch's `has_guarded_code` is no proof of an entry: it is true, too, of frames skipped because no ops were traced.
    """

    def compiled(result: Any, *_args: Any, **_kwargs: Any) -> None:
        if guarded := getattr(result, "guarded_code", None):
            added(str(guarded.compile_id))

    hooks.watch(fact, f"{_CONVERT}:_compile", after=compiled)


class StillCompilingError(RuntimeError):
    """Calls keep compiling, so nothing can be measured."""


class CompiledFrames:
    """The frames that torch's compilation metrics report as compiled."""

    def __init__(self, trace: StructuredTrace) -> None:
        self.count = 0
        self._attempts = 0
        """Number of compiles, including those that failed."""
        self.graphs: list[str] = []
        """The compile ids of the frames with guarded code, forward only."""
        watch_entries(trace.hooks, "frames that a call compiled", self._entry_added)
        trace.subscribe("attempts to compile", "compilation_metrics", self._attempted)

    def measure_warm(self, measure: Callable[[], T]) -> T:
        """Return the result of `measure` from calls that compile nothing; repeat it if they did.

        Raises `StillCompilingError` if they always compile.
        """
        for _ in range(MAX_MEASUREMENTS):
            attempts = self._attempts
            result = measure()
            if self._attempts == attempts:
                return result
        raise StillCompilingError(
            "torch compiles in every call, or tries to, because the state of the program changes with each call"
        )

    def _attempted(self, _event: TraceEvent) -> None:
        self._attempts += 1

    def _entry_added(self, graph: str) -> None:
        self.count += 1
        self.graphs.append(graph)
