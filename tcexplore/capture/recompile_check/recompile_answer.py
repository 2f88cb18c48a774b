"""The recompile check of one call: for each frame the cache entry that matches, or the guards that fail."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import CodeType, SimpleNamespace
from typing import Any

import torch
from torch._dynamo import convert_frame
from torch._dynamo.cache_size import (  # the originals, without our hooks
    compute_cache_size,
    exceeds_recompile_limit,
    is_recompilation,
)
from torch._dynamo.guards import get_guard_fail_reason_helper
from torch._guards import CompileId

from tcexplore.capture.dynamo.frame_entries import stopped_compiling
from tcexplore.capture.dynamo.recompiles import FailedGuards
from tcexplore.capture.entry.entry import Call, EntryError
from tcexplore.capture.entry.entry_inputs import describe_call, describe_value, parse_value, split_name
from tcexplore.capture.recompile_check.automatic_dynamic import predict_dynamic
from tcexplore.capture.recompile_check.compile_settings import CompileSettings, cache_entries, compile_settings
from tcexplore.capture.recompile_check.eager_call import call_eagerly
from tcexplore.capture.recompile_check.frame_binding import BoundFrame, UnknownFrameError, bind_frame
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import AnswerVerdict, EntryAnswer, FrameAnswer, Location, RecompileAnswer
from tcexplore.events.base import frame_number
from tcexplore.events.commands import RecompileQuery
from tcexplore.events.input_specs import split_arguments
from tcexplore.torch_text.dynamo_names import is_resumed

RESUMED = "it resumes after a graph break, with values that only a call computes"
CALLED = "it is called from outside the graphs, with values that only a call computes"
NOT_CALLED = "a call with these inputs does not call it from eager code"
NEW_CODE = "newly compiled code would enter it"
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
        """Return the answer with the frames that eager code calls. For a copy of the process: it calls the program."""
        nearest = _nearest_call(query.inputs, self._calls)
        return self._answer(query, lambda call: self._check_called_frames(call, nearest))

    def eager_error(self, inputs: Sequence[str]) -> str:
        """Return what an eager call with these inputs raises, empty if nothing. For a copy of the process."""
        nearest = _nearest_call(inputs, self._calls)
        with self._modes():
            _, error = call_eagerly(
                self._compiled, parse_typed_call(inputs, self._calls), nearest, (), self._check_frame
            )
        return error

    def changes_sizes(self, inputs: Sequence[str]) -> bool:
        """Return whether a tensor has other sizes than in the nearest call, and the call works with those of it."""
        original = describe_call(_nearest_call(inputs, self._calls))
        return len(original) == len(inputs) and any(
            _sizes(old) != _sizes(new) for old, new in zip(original, inputs, strict=True)
        )

    def with_linked_sizes(self, inputs: Sequence[str]) -> tuple[str, ...]:
        """Return the inputs with sizes of unchanged tensors changed as equal sizes of the other ones were.

        Return the same inputs if no size was changed.
        """
        original = describe_call(_nearest_call(inputs, self._calls))
        return link_sizes(original, tuple(inputs))

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

    def _check_called_frames(self, call: Call, nearest: Call) -> tuple[FrameAnswer, ...]:
        first, later = self._check_first(call)
        codes = [code for code, answer in later.items() if not answer.resumed]
        with self._modes():
            checked, error = call_eagerly(self._compiled, call, nearest, codes, self._check_frame)
        raised = f"a call with these inputs raises {error}"
        if error:
            first = tuple(replace(answer, note="; ".join(filter(None, (answer.note, raised)))) for answer in first)
        later.update({code: replace(later[code], note=raised if error else NOT_CALLED) for code in codes})
        if any(answer.verdict == "recompiles" for answer in checked.values()):
            later = {code: replace(each, note=NEW_CODE) if each.resumed else each for code, each in later.items()}
        return (*first, *{**later, **checked}.values())

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


# ---- inputs that the user types


_TENSOR = re.compile(
    r"(?P<tensor>[a-z]\w*\s*\[[\d\s,]*\])(?:\s+strides?\s*\[(?P<strides>[\d\s,]*)\])?(?P<grad>\s+grad)?"
)
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_MISSING = object()


def parse_typed_call(texts: Sequence[str], calls: Sequence[Call]) -> Call:
    """Return the call that the texts describe.

    A text that describes the original argument at its position keeps that object. A new tensor takes the device,
    `requires_grad`, layout and dynamic marks of the original at its position; its values are arbitrary. In addition
    to `--input` specifications, texts may be lists, tuples and dicts of them, `f32[4,6] strides[1,4]` and
    `f32[4] grad`. Raises `EntryError`.
    """
    base = _nearest_call(texts, calls)
    values = _TypedValues()
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for text in texts:
        name, value = split_name(text)
        if name is None:
            original = base.args[len(args)] if len(args) < len(base.args) else _MISSING
            args.append(values.parse(value, original))
        else:
            kwargs[name] = values.parse(value, base.kwargs.get(name, _MISSING))
    return Call(tuple(args), kwargs)


def _nearest_call(texts: Sequence[str], calls: Sequence[Call]) -> Call:
    """Return the call with the most of these arguments."""
    return max(calls, key=lambda call: len(set(describe_call(call)) & set(texts)), default=Call())


_SIZES = re.compile(r"(?<=\w\[)[\d,\s]+(?=\])")
"""The sizes of a tensor in a text: `4, 8` in `mask=f32[4, 8]`."""


def link_sizes(original: Sequence[str], inputs: tuple[str, ...]) -> tuple[str, ...]:
    """Return `inputs`, with sizes of tensors that are as in `original` changed like equal sizes of the others."""
    if len(original) != len(inputs):
        return inputs
    changed: dict[int, int] = {}
    for old, new in zip(original, inputs, strict=True):
        for before, after in zip(_sizes(old), _sizes(new), strict=False):
            if len(before) == len(after):
                changed |= {a: b for a, b in zip(before, after, strict=True) if a != b}

    def link(match: re.Match[str]) -> str:
        return re.sub(r"\d+", lambda size: str(changed.get(int(size[0]), size[0])), match[0])

    return tuple(_SIZES.sub(link, new) if old == new else new for old, new in zip(original, inputs, strict=True))


def _sizes(text: str) -> list[list[int]]:
    return [[int(size) for size in re.findall(r"\d+", sizes)] for sizes in _SIZES.findall(text)]


class _TypedValues:
    """The values of one call. Equal texts for the same original object become one object."""

    def __init__(self) -> None:
        self._values: dict[tuple[int, str], Any] = {}

    def parse(self, text: str, original: Any) -> Any:
        text = text.strip()
        if original is not _MISSING and text == describe_value(original):
            return original
        key = (id(original), text)
        if original is _MISSING or key not in self._values:
            self._values[key] = self._new_value(text, original)
        return self._values[key]

    def _new_value(self, text: str, original: Any) -> Any:
        tensor = _TENSOR.fullmatch(text)
        if tensor:
            return _new_tensor(tensor, text, original if isinstance(original, torch.Tensor) else None)
        if text[:1] in _CLOSING and text[-1:] == _CLOSING[text[:1]]:
            return _CONTAINERS[text[0]](self, split_arguments(text[1:-1]), original)
        return parse_value(text, text, None)

    def items(self, texts: list[str], original: Any) -> list[Any]:
        originals = list(original) if isinstance(original, list | tuple) else []
        return [self.parse(t, originals[n] if n < len(originals) else _MISSING) for n, t in enumerate(texts)]

    def mapping(self, texts: list[str], original: Any) -> dict[Any, Any]:
        originals = original if isinstance(original, dict) else {}
        keys = {str(key): key for key in originals}
        values = {}
        for text in texts:
            key_text, _, value = text.partition(":")
            name = key_text.strip().strip("'\"")
            key = keys.get(name, name)
            values[key] = self.parse(value, originals.get(key, _MISSING))
        return values


_CONTAINERS: dict[str, Callable[[_TypedValues, list[str], Any], Any]] = {
    "[": lambda values, texts, original: values.items(texts, original),
    "(": lambda values, texts, original: tuple(values.items(texts, original)),
    "{": lambda values, texts, original: values.mapping(texts, original),
}


def _new_tensor(match: re.Match[str], text: str, original: torch.Tensor | None) -> torch.Tensor:
    spec = parse_value(match["tensor"], text, torch.device("meta"))
    device = original.device if original is not None else torch.device("cpu")
    if match["strides"] is not None:
        strides = tuple(int(part) for part in match["strides"].split(",") if part.strip())
        if len(strides) != spec.dim():
            raise EntryError(f"{text!r} has {spec.dim()} dimensions and {len(strides)} strides.", "", "arguments")
        tensor = torch.empty_strided(spec.shape, strides, dtype=spec.dtype, device=device)
    else:
        tensor = torch.empty_permuted(spec.shape, _dim_order(spec, original), dtype=spec.dtype, device=device)
    requires_grad = bool(match["grad"]) or (original is not None and original.requires_grad)
    tensor.requires_grad_(requires_grad and (tensor.is_floating_point() or tensor.is_complex()))
    if original is not None and original.dim() == tensor.dim():
        vars(tensor).update({name: mark for name, mark in vars(original).items() if name.startswith("_dynamo_")})
    return tensor


def _dim_order(spec: torch.Tensor, original: torch.Tensor | None) -> tuple[int, ...]:
    """Return the order of the dimensions in memory, outermost first, as in the original tensor."""
    order = tuple(range(spec.dim()))
    if original is None or original.dim() != spec.dim() or original.is_contiguous():
        return order
    return tuple(sorted(order, key=lambda dim: -original.stride(dim)))
