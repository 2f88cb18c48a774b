"""Graph breaks, one per place, with torch's registry entry, and the user's frames that Dynamo did not compile."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import torch

from tcexplore.capture.dynamo.trace_position import current_compile_id, user_stack
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.module_paths import FramePaths, ModulePath
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import FrameSkipped, GraphBreak, Location
from tcexplore.torch_text.break_text import (
    AND_THEN,
    NOT_BREAKS,
    OBSERVED_EXCEPTION,
    Reason,
    RegistryEntry,
    explain_reason,
    parse_reason,
    read_registry,
)
from tcexplore.torch_text.dynamo_names import is_resumed

_CONVERT_FRAME = "torch._dynamo.convert_frame"


def install(hooks: Hooks, _trace: StructuredTrace, user_files: UserFiles) -> None:
    """Emit a `GraphBreak` for each new expression that breaks, also if `fullgraph=True` makes it an error.

    Emit a `FrameSkipped` for each frame that Dynamo does not compile. No hook adds a Python frame between Dynamo's
    callback and the user's frame: torch inspects the callers.
    """
    breaks, skips = _BreakObserver(hooks, user_files), _SkipObserver(hooks, user_files)
    translator = "torch._dynamo.symbolic_convert:InstructionTranslatorBase.log_graph_break"
    hooks.watch("graph breaks", translator, before=breaks.break_logged)
    hooks.watch("graph breaks", f"{_CONVERT_FRAME}:_compile", failed=breaks.compile_failed)
    hooks.watch("skipped frames", f"{_CONVERT_FRAME}:has_tensor_in_frame", after=skips.tensors_checked)
    hooks.watch("skipped frames", f"{_CONVERT_FRAME}:is_generator", after=skips.generator_checked)
    hooks.watch("skipped frames", f"{_CONVERT_FRAME}:compile_frame", failed=skips.trace_failed)
    hooks.watch("skipped frames", f"{_CONVERT_FRAME}:_compile", failed=skips.compile_failed)
    untraced = "frames skipped before tracing"
    hooks.watch(untraced, f"{_CONVERT_FRAME}:CatchErrorsWrapper._handle_skip", before=skips.frame_skipped)


class Reasons:
    """Records the fields from which torch composes each message, to look up an exception's reasons by its text."""

    _by_hooks: ClassVar[WeakKeyDictionary[Hooks, Reasons]] = WeakKeyDictionary()

    def __init__(self, hooks: Hooks) -> None:
        self._by_message: dict[str, Reason] = {}
        hooks.watch("graph break fields", "torch._dynamo.exc:format_graph_break_message", after=self._composed)

    @classmethod
    def of_hooks(cls, hooks: Hooks) -> Reasons:
        """Return the one observer of these hooks."""
        if hooks not in cls._by_hooks:
            cls._by_hooks[hooks] = cls(hooks)
        return cls._by_hooks[hooks]

    def _composed(self, message: str, gb_type: str, context: str, explanation: str, hints: list[str]) -> None:
        self._by_message[message] = Reason(gb_type, explanation.strip(), tuple(hints), context.strip())

    def of_error(self, error: Any) -> tuple[Reason, ...]:
        """Return the reasons of an `Unsupported` or `UserError`: first the graph break, then its consequences."""
        message: str = getattr(error, "msg", None) or str(error)
        parts = AND_THEN.split(message)
        last_kind = getattr(error, "gb_type", None) or type(error).__name__
        return tuple(
            self._by_message.get(part) or parse_reason(part, last_kind if n == len(parts) else "")
            for n, part in enumerate(parts, 1)
        )


Columns = tuple[int | None, ...] | None
"""First and last column of the instruction that breaks, since a line may break several times; None if unknown."""


def _columns(translator: Any, location: Location | None) -> Columns:
    """Return the columns if the traced frame itself breaks; of a function that it inlines they are unknown."""
    positions = getattr(getattr(translator, "current_instruction", None), "positions", None)
    if positions is None or location is None or positions.lineno != location.line:
        return None
    return positions.col_offset, positions.end_col_offset


def _innermost_module(error: BaseException, translator: Any) -> ModulePath | None:
    """Return the module whose `forward` breaks: the innermost one that Dynamo inlines, else that of the frame."""
    module = _module_of(translator)
    cause: BaseException | None = error
    seen = set[int]()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        trace = cause.__traceback__
        while trace is not None:  # the function in which the error was raised first comes last
            inner = _module_of(trace.tb_frame.f_locals.get("self"))
            module = module if inner is None else inner
            trace = trace.tb_next
        cause = cause.__cause__ or cause.__context__
    return FramePaths(getattr(translator, "output", None)).of_module(module) if module is not None else None


def _module_of(translator: Any) -> torch.nn.Module | None:
    """Return the module whose method a translator traces; None for a function."""
    # `self` of any frame may come here. To read another attribute of a lazy variable makes Dynamo trace it, which adds
    # guards and may break.
    variables = getattr(translator, "__dict__", {}).get("symbolic_locals")
    variable: Any = variables.get("self") if isinstance(variables, dict) else None
    lazy = hasattr(type(variable), "peek_value") and not variable.is_realized()
    value = variable.peek_value() if lazy else getattr(variable, "value", None)
    return value if isinstance(value, torch.nn.Module) else None


def _is_suppressed(error: BaseException) -> bool:
    """Return whether torch calls a frame as plain Python after an error, and only logs it."""
    from torch._dynamo import config

    control_flow = ("SkipFrame", "SkipCodeRecursiveException", "RecompileLimitExceeded", "FailOnRecompileLimitHit")
    return bool(getattr(config, "suppress_errors", False)) and type(error).__name__ not in control_flow


class _BreakObserver:
    def __init__(self, hooks: Hooks, user_files: UserFiles) -> None:
        self._hooks = hooks
        self._user_files = user_files
        self._reasons = Reasons.of_hooks(hooks)
        self._registry = BreakRegistry(hooks)
        self._emitted: dict[tuple[tuple[Location, ...], str], set[Columns]] = {}

    def break_logged(self, translator: Any, _code_options: Any, reason: str, exc: Any) -> None:
        """Emit a break that Dynamo logs. Dynamo marks `exc` as logged, since it propagates through several frames."""
        if not getattr(exc, "logged", False):
            self._emit(exc, reason, translator)

    def compile_failed(self, error: Exception, *_args: Any, **_kwargs: Any) -> None:
        """Emit a break that Dynamo does not log: with `fullgraph=True` it only raises."""
        if type(error).__name__ in ("Unsupported", "UserError") and not getattr(error, "logged", False):
            self._emit(error)

    def _emit(self, error: Any, logged: str = "", translator: Any = None) -> None:
        reason, *further = self._reasons.of_error(error)
        if NOT_BREAKS & {reason.kind, *(other.kind for other in further)}:
            return
        stack = user_stack(self._user_files, getattr(error, "real_stack", None))
        columns = _columns(translator, stack.whole[-1] if stack.whole else None)
        if self._is_new((stack.inside, reason.kind), columns):
            sentence = explain_reason(reason, further, logged)
            module = _innermost_module(error, translator)
            event = self._graph_break(reason, sentence, stack.whole)
            self._hooks.emit(replace(event, module=module.path, root=module.root) if module else event)

    def _is_new(self, place: tuple[tuple[Location, ...], str], columns: Columns) -> bool:
        """Return whether a break was not emitted yet, and remember it.

        The frame that inlines a function breaks first, at unknown columns. Then the function breaks itself.
        """
        known = self._emitted.get(place, set())
        if columns is None:
            new = not known
            self._emitted[place] = known or {None}
        else:
            new = known.isdisjoint({None, columns})
            self._emitted[place] = (known - {None}) | {columns}
        return new

    def _graph_break(self, reason: Reason, sentence: str, stack: tuple[Location, ...]) -> GraphBreak:
        entry = self._registry.entry(reason.kind)
        location = stack[-1] if stack else None
        return GraphBreak(
            graph=current_compile_id() or "",
            registry_id=entry.id if entry else None,
            kind=reason.kind,
            reason=sentence,
            explanation=reason.explanation,
            hints=reason.hints,
            context=reason.context,
            registry_explanation=entry.explanation if entry else "",
            registry_hints=entry.hints if entry else (),
            url=self._registry.link(reason.kind),
            location=location,
            code=self._user_files.line(location),
            stack=stack,
        )


class BreakRegistry:
    """torch's registry of graph breaks, which torch installs as `torch/_dynamo/graph_break_registry.json`."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    @cached_property
    def _entries(self) -> dict[str, RegistryEntry]:
        import torch

        try:
            return read_registry(os.path.dirname(torch.__file__))
        except (OSError, ValueError) as error:
            self._hooks.report_missing("graph break ids", "torch._dynamo:graph_break_registry.json", str(error))
            return {}

    def entry(self, kind: str) -> RegistryEntry | None:
        """Return the entry of a `gb_type`, None if the registry does not list it."""
        return self._entries.get(kind)

    def link(self, kind: str) -> str:
        """Return the address of torch's page on a kind, empty if this torch has none."""
        from torch._dynamo import exc

        find = getattr(exc, "get_gbid_documentation_link", None)
        return (find(kind) or "") if find else ""


NO_TENSORS = "It has no tensors to work on."
NO_OPS = "It runs no tensor operations."
GENERATOR = "It is a generator: Dynamo compiles the function that calls a generator, not the generator itself."

SUPPRESSED = "The compiler failed, and `torch._dynamo.config.suppress_errors` hides that: {error}"

_GENERATED = "frame is already Dynamo-generated code"
_ONE_GRAPH = 5
"""The position of `one_graph` among the arguments of `_compile`, without the code object."""


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
            if reason.kind != OBSERVED_EXCEPTION:
                self._emit(code, explain_reason(reason, further))
        elif _is_suppressed(error) and not one_graph:
            cause = getattr(error, "inner_exception", None) or error
            message = str(cause).strip().partition("\n")[0]
            self._emit(code, SUPPRESSED.format(error=f"{type(cause).__name__}: {message}"))

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
