"""The recompile check of one call: for each frame the cache entry that matches, or the guards that fail.

It asks torch's own guards, and compiles nothing. Also the sizes and numbers that torch would make symbolic in a new
graph, and the frames that only a call reaches: functions that eager code calls, and what resumes after a graph break.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from math import isfinite
from types import CodeType, FrameType, SimpleNamespace
from typing import Any, NamedTuple, Self

import torch
from torch._dynamo import convert_frame
from torch._dynamo.cache_size import (  # the originals, without our hooks
    compute_cache_size,
    exceeds_recompile_limit,
    is_recompilation,
)
from torch._dynamo.guards import get_guard_fail_reason_helper
from torch._dynamo.pgo import FrameStateSizeEntry, InferStride, get_code_state
from torch._guards import CompileId
from torch.utils._pytree import tree_leaves

from tcexplore.capture.compiled_frame import (
    BoundFrame,
    CompileSettings,
    UnknownFrameError,
    bind_frame,
    cache_entries,
    compile_settings,
    original_callable,
)
from tcexplore.capture.dynamo.frame_entries import stopped_compiling
from tcexplore.capture.dynamo.recompiles import FailedGuards
from tcexplore.capture.entry import Call, EntryError, describe_call
from tcexplore.capture.typed_calls import link_sizes, nearest_call, parse_typed_call, tensor_sizes
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import AnswerVerdict, EntryAnswer, FrameAnswer, Location, RecompileAnswer
from tcexplore.events.base import frame_number
from tcexplore.events.commands import RecompileQuery
from tcexplore.torch_text.dynamo_names import is_resumed, readable_source

RESUMED = "it resumes after a graph break, with values that only a call computes"
CALLED = "it is called from outside the graphs, with values that only a call computes"
NEW_CODE = "newly compiled code may enter it"
NOT_COMPILED_BEFORE = "a frame of this call does not use its compiled code"
NOT_COMPILED = "nothing of this frame is compiled"
STANCE = "torch.compiler.set_stance forces it"


_VERDICT_OF_STANCE: dict[str, AnswerVerdict] = {"eager_on_recompile": "eager", "fail_on_recompile": "raises"}


class RecompileCheck:
    """Checks calls of `compiled`, which was called with `calls`.

    torch's guard managers check the locals that the call would bind. Only `answer_by_call` runs the program.
    """

    def __init__(
        self,
        compiled: Callable[..., Any],
        calls: Sequence[Call],
        user_files: UserFiles,
        graphs: Sequence[str],
        *,
        modes: Callable[[], AbstractContextManager[object]],
    ) -> None:
        """Set up; `graphs` are the compile ids of `calls`, and `modes` enters the torch modes of a call."""
        self._compiled = compiled
        self._calls = calls
        self._user_files = user_files
        self._graphs = frozenset(graphs)
        self._modes = modes
        self._settings = compile_settings(compiled)
        self._stance = _stance()

    def answer(self, query: RecompileQuery) -> RecompileAnswer:
        """Return the answer, with a `problem` if the inputs are invalid or do not fit."""
        return self._answer(query, self.check_frames)

    def answer_by_call(self, query: RecompileQuery) -> RecompileAnswer:
        """Return the answer with all frames that a call enters. For a copy of the process: it calls the program."""
        nearest = nearest_call(query.inputs, self._calls)
        return self._answer(query, lambda call: self._check_entered_frames(call, nearest))

    def eager_error(self, inputs: Sequence[str]) -> str:
        """Return what an eager call with these inputs raises, empty if nothing. For a copy of the process."""
        call, function = parse_typed_call(inputs, self._calls), original_callable(self._compiled)
        torch.compiler.set_stance("force_eager")
        with self._modes():
            return make_call(function, call, nearest_call(inputs, self._calls))

    def changes_sizes(self, inputs: Sequence[str]) -> bool:
        """Return whether a tensor has other sizes than in the nearest call, and the call works with those of it."""
        original = self.original(inputs)
        return len(original) == len(inputs) and any(
            tensor_sizes(old) != tensor_sizes(new) for old, new in zip(original, inputs, strict=True)
        )

    def original(self, inputs: Sequence[str]) -> tuple[str, ...]:
        """Return the inputs of the call that these are nearest to."""
        return describe_call(nearest_call(inputs, self._calls))

    def with_linked_sizes(self, inputs: Sequence[str]) -> tuple[str, ...]:
        """Return the inputs with sizes of unchanged tensors changed as equal sizes of the other ones were.

        Return the same inputs if no size was changed.
        """
        return link_sizes(self.original(inputs), tuple(inputs))

    def _answer(self, query: RecompileQuery, check: Callable[[Call], tuple[FrameAnswer, ...]]) -> RecompileAnswer:
        self._stance = _stance()
        try:
            call = parse_typed_call(query.inputs, self._calls)
            frames = check(call)
        except EntryError as error:
            problem = error.message.removeprefix("--input ")
            return RecompileAnswer(number=query.number, inputs=query.inputs, problem=problem)
        return RecompileAnswer(number=query.number, inputs=describe_call(call), frames=frames)

    def check_frames(self, call: Call) -> tuple[FrameAnswer, ...]:
        """Check the frame that the call enters first. The verdict on later frames is unknown. Raises `EntryError`."""
        first, later = self._check_first(call)
        return (*first, *later.values())

    def _check_first(self, call: Call) -> tuple[tuple[FrameAnswer, ...], dict[CodeType, FrameAnswer]]:
        """Return the answer on the first frame, if it is known, and the later frames."""
        with self._modes():
            try:
                frame = bind_frame(self._compiled, call)
            except UnknownFrameError as error:
                return (), self._later_frames(None, str(error))
            first = self._check_frame(frame)
        return (first,), self._later_frames(frame.code, NEW_CODE if first.verdict == "recompiles" else "")

    def _check_entered_frames(self, call: Call, nearest: Call) -> tuple[FrameAnswer, ...]:
        first, later = self._check_first(call)
        with self._modes():
            entered, error = check_entered(self._compiled, call, nearest, later, self._check_frame)
        if error:
            raised = f"a call with these inputs raises {error}"
            first = tuple(replace(answer, note="; ".join(filter(None, (answer.note, raised)))) for answer in first)
            later = {code: replace(answer, note=raised) for code, answer in later.items()}
        elif missed := [answer.verdict for answer in entered.values() if answer.verdict != "matches"]:
            note = NEW_CODE if "recompiles" in missed else NOT_COMPILED_BEFORE
            later = {code: replace(answer, note=note) for code, answer in later.items()}
        else:
            later = {code: replace(answer, verdict="not entered", note="") for code, answer in later.items()}
        entered = {code: replace(answer, resumed=later[code].resumed) for code, answer in entered.items()}
        return (*first, *{**later, **entered}.values())

    def _check_frame(self, frame: BoundFrame) -> FrameAnswer:
        entries, location = self._settings.usable_entries(frame.code), self._location(frame.code)
        if self._stance == "force_eager" or stopped_compiling(frame.code, self._settings.isolation) == "SKIP":
            note = STANCE if self._stance == "force_eager" else NOT_COMPILED
            return FrameAnswer(number="", verdict="eager", frame=location, note=note)
        answers = []
        for entry in entries:
            answers.append(_check_entry(entry, frame, FailedGuards(self._user_files)))
            if answers[-1].matches:
                break
        number = frame_number(answers[0].graph) if answers else ""
        if answers and answers[-1].matches:
            graph = answers[-1].graph
            return FrameAnswer(number=number, verdict="matches", frame=location, graph=graph, entries=tuple(answers))
        verdict = self._verdict(frame)
        dynamic = predict_dynamic(frame, self._settings.dynamic) if verdict == "recompiles" else ()
        return FrameAnswer(number=number, verdict=verdict, frame=location, entries=tuple(answers), dynamic=dynamic)

    def _verdict(self, frame: BoundFrame) -> AnswerVerdict:
        """Return the verdict if no entry matches."""
        config = torch._dynamo.config
        by_stance = _VERDICT_OF_STANCE.get(self._stance)
        if by_stance is not None:
            return by_stance
        if stopped_compiling(frame.code, self._settings.isolation) == "RUN_ONLY":
            return "raises" if self._settings.fullgraph else "limit"
        size = _cache_size(frame, self._settings)
        if getattr(config, "error_on_recompile", False) and is_recompilation(size):
            return "raises"
        with self._settings.limits():
            reached, _ = exceeds_recompile_limit(size, _next_compile_id(frame))
        if not reached:
            return "recompiles"
        fails = self._settings.fullgraph or getattr(config, "fail_on_recompile_limit_hit", False)
        return "raises" if fails else "limit"

    def _later_frames(self, first: CodeType | None, note: str) -> dict[CodeType, FrameAnswer]:
        answers = {}
        for reference in convert_frame.input_codes.seen:
            code = reference()
            if code is None or code is first:
                continue
            graphs = [str(entry.compile_id) for entry in cache_entries(code) if str(entry.compile_id) in self._graphs]
            if graphs:
                resumed = is_resumed(code.co_name)
                verdict: AnswerVerdict = "unknown"
                if self._stance == "force_eager":
                    verdict, note = "eager", STANCE
                answers[code] = FrameAnswer(
                    number=frame_number(graphs[0]), verdict=verdict, frame=self._location(code), resumed=resumed,
                    note=note or (RESUMED if resumed else CALLED),
                )  # fmt: skip
        return answers

    def _location(self, code: CodeType) -> Location | None:
        owned = self._user_files.owns(code.co_filename)
        return self._user_files.location_of(code) if owned else None


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


def _cache_size(frame: BoundFrame, settings: CompileSettings) -> Any:
    """Return the number of entries as torch counts them to enforce its limits."""
    dynamo_frame = SimpleNamespace(f_locals=frame.scope, f_code=frame.code)
    entries = settings.own_entries(frame.code)
    try:
        return compute_cache_size(dynamo_frame, entries, len(cache_entries(frame.code)))
    except TypeError:  # before torch 2.13 there is one cache for all functions
        pass
    try:
        return compute_cache_size(dynamo_frame, entries)
    except (TypeError, AttributeError):  # before torch 2.12 the entries are a linked list
        return compute_cache_size(dynamo_frame, entries[0] if entries else None)


def _next_compile_id(frame: BoundFrame) -> CompileId:
    """Return the compile id that the frame would get."""
    ids = [str(entry.compile_id).split("/")[-2:] for entry in cache_entries(frame.code)]
    if not ids:
        return CompileId(frame_id=0, frame_compile_id=0)
    frame_id, newest = int(ids[0][0]), max(int(number) for _, number in ids)
    counter = getattr(convert_frame, "FRAME_COMPILE_COUNTER", {})
    return CompileId(frame_id=frame_id, frame_compile_id=max(newest + 1, counter.get(frame_id, 0)))


def _stance() -> str:
    """Return the stance of `torch.compiler.set_stance`."""
    stance: str = getattr(getattr(torch._dynamo.eval_frame, "_stance", None), "stance", "default")
    return stance


_MAX_MESSAGE = 200


def check_entered(
    compiled: Any, call: Call, original: Call, codes: Collection[CodeType], check: Callable[[BoundFrame], FrameAnswer]
) -> tuple[dict[CodeType, FrameAnswer], str]:
    """Return the answer for each frame of `codes` that a call enters, and the exception that the call raises.

    The call runs compiled code where torch's guards match, and eager code elsewhere; nothing is compiled. Of several
    calls of a frame, the first that matches no cache entry counts. What such a frame calls is not checked: it may
    become a part of its graphs. For a copy of the process only: the call may change the state of the program. Raises
    what `check` raises.
    """
    answers: dict[CodeType, FrameAnswer] = {}
    failures: list[Exception] = []
    entries = {entry.code: (code, str(entry.compile_id)) for code in codes for entry in cache_entries(code)}
    """Original and compile id of the code that a call runs instead where an entry matches."""
    eager: FrameType | None = None

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal eager
        code, graph = entries.get(frame.f_code, (frame.f_code, ""))
        if eager is None and event == "call" and code in codes:
            if not graph:
                eager = frame
            if code not in answers or answers[code].verdict == "matches":
                try:
                    answer = check(BoundFrame(code, dict(frame.f_locals), frame.f_globals))
                except Exception as raised:  # noqa: BLE001  raised here, it would seem to be the model's
                    failures.append(raised)
                    return
                if graph and answer.verdict != "matches":  # of another region, whose entries do not count for this one
                    answer = replace(
                        answer, verdict="matches", graph=graph, number=frame_number(graph), dynamic=(), entries=()
                    )
                answers[code] = answer
        elif frame is eager and event == "return":
            eager = None

    torch.compiler.set_stance("eager_on_recompile")
    sys.setprofile(profile)
    try:
        error = make_call(compiled, call, original)
    finally:
        sys.setprofile(None)
    if failures:
        raise failures[0]
    return answers, error


def make_call(function: Callable[..., Any], call: Call, original: Call) -> str:
    """Call a function, and return the exception that it raises, empty if none.

    `original` is the compiled call whose values fill new tensors.
    """
    _fill_new_tensors(call, original)
    try:
        function(*call.args, **call.kwargs)
    except BaseException as raised:  # noqa: BLE001  the user's code may raise anything, or exit
        return f"{type(raised).__name__}: {str(raised).strip().partition(chr(10))[0]}"[:_MAX_MESSAGE]
    return ""


def _fill_new_tensors(call: Call, original: Call) -> None:
    """Give the tensors that only `call` has the values of those at their position, repeated; else random ones.

    Indices then stay valid.
    """
    old = tree_leaves((original.args, original.kwargs))
    for index, tensor in enumerate(tree_leaves((call.args, call.kwargs))):
        if isinstance(tensor, torch.Tensor) and not any(tensor is other for other in old):
            _fill(tensor, old[index] if index < len(old) else None)


def _fill(tensor: torch.Tensor, original: Any) -> None:
    memory = tensor.detach().new_empty(0).set_(tensor.untyped_storage())  # elements of the tensor may overlap
    if isinstance(original, torch.Tensor) and original.numel() and original.layout == torch.strided:
        values = original.detach().flatten()
        memory.copy_(values[torch.arange(memory.numel(), device=values.device) % values.numel()])
    elif memory.is_floating_point():
        memory.normal_()
    else:
        memory.zero_()


SPECIALIZED = (0, 1)
"""Sizes and strides that torch specializes even in a dynamic dimension."""

_DYNAMIC_MARKS = ("_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices", "_dynamo_unbacked_indices")


class _Policy(NamedTuple):
    """Which sizes and numbers torch makes dynamic besides marked ones, by `torch.compile`'s argument `dynamic`."""

    changed: bool
    """Those that differ from earlier compiles of the frame (automatic dynamic shapes)."""
    all: bool
    """Every one (`dynamic=True`)."""

    @classmethod
    def current(cls, dynamic: bool | None) -> Self:
        config = torch._dynamo.config
        changed = dynamic is not False and bool(getattr(config, "automatic_dynamic_shapes", False))
        static = getattr(config, "assume_static_by_default", True) if dynamic is None else not dynamic
        return cls(changed, not static)


def predict_dynamic(frame: BoundFrame, dynamic: bool | None) -> tuple[str, ...]:
    """Return the sizes (`x.size()[0]`) and numbers (`lr`) that torch would make dynamic if it compiled the frame now.

    `dynamic` is `torch.compile`'s argument. Inputs that no earlier compile of the frame used are not included.
    """
    policy = _Policy.current(dynamic)
    names: list[str] = []
    for source, state in _frame_state(frame.code).items():
        value = _evaluate(source, frame)
        if isinstance(value, torch.Tensor):
            names += () if _is_static_tensor(value) else _dynamic_sizes(readable_source(source), state, value, policy)
        elif type(value) in (int, float) and not _is_constant(source, value, frame):
            names += _dynamic_number(readable_source(source), state, value, policy)
    return tuple(names)


def _frame_state(code: CodeType) -> dict[str, Any]:
    """Return the sizes and numbers that torch has compiled this frame with, by source."""
    key_of_code = code.co_filename, code.co_firstlineno, code.co_name
    states = (
        state for key, state in get_code_state().items() if (key.filename, key.firstlineno, key.name) == key_of_code
    )
    state = next(states, None)
    return {} if state is None else dict(state.automatic_dynamic)


def _evaluate(source: str, frame: BoundFrame) -> Any:
    """Evaluate a source expression, as torch does to find the guard that failed."""
    try:
        return eval(source, {"L": frame.scope, "G": frame.globals})
    except Exception:  # noqa: BLE001  the source may be missing or of another type in this call, with any error
        return None


def _is_static_tensor(tensor: torch.Tensor) -> bool:
    return type(tensor) is torch.nn.Parameter and getattr(torch._dynamo.config, "force_parameter_static_shapes", True)


def _is_constant(source: str, value: float, frame: BoundFrame) -> bool:
    """Return whether torch treats a number as a constant: an integer that is global or an attribute of a module."""
    if isinstance(value, float):
        return False
    of_module = isinstance(_evaluate(source.rpartition(".")[0], frame), torch.nn.Module)
    return source.startswith("G[") or (
        of_module and not getattr(torch._dynamo.config, "allow_unspec_int_on_nn_module", False)
    )


def _dynamic_sizes(name: str, state: Any, tensor: torch.Tensor, policy: _Policy) -> Iterator[str]:
    merged = copy.copy(state)
    merged |= FrameStateSizeEntry.make_tensor(tuple(tensor.size()), _recorded_strides(tensor))
    for dim, size in enumerate(tensor.size()):
        changed = policy.changed and merged.is_size_dynamic(dim)
        static = dim in getattr(tensor, "_dynamo_static_indices", ())
        marked = any(dim in getattr(tensor, marks, ()) for marks in _DYNAMIC_MARKS)
        if size not in SPECIALIZED and (marked or (not static and (changed or policy.all))):
            yield f"{name}.size()[{dim}]"
    for dim, stride in enumerate(tensor.stride()):
        if policy.changed and merged.is_stride_dynamic(dim) and stride not in SPECIALIZED:
            yield f"{name}.stride()[{dim}]"


def _recorded_strides(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Return the strides as torch records them: a stride that follows from another dimension refers to it."""
    strides: list[Any] = [None] * tensor.dim()
    inferred: dict[int, Any] = {}
    for stride, dim in sorted((stride, -dim) for dim, stride in enumerate(tensor.stride())):
        strides[-dim] = inferred.get(stride, stride)
        inferred.setdefault(stride * tensor.size(-dim), InferStride(-dim))
    return tuple(strides)


def _dynamic_number(name: str, state: Any, value: float, policy: _Policy) -> Iterator[str]:
    config = torch._dynamo.config
    if isinstance(value, float):
        specialized = getattr(config, "specialize_float", True) or not isfinite(value)
    else:
        specialized = getattr(config, "specialize_int", True)
    merged = copy.copy(state)
    merged |= FrameStateSizeEntry.make_scalar(value)
    changed = policy.changed and not isinstance(merged.scalar, int | float)
    if not specialized and (changed or policy.all):
        yield name
