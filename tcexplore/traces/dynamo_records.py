"""Dynamo's records as events: frames, graphs, graph breaks, recompiles, symbols."""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import dropwhile
from typing import Any, NamedTuple

from tcexplore import events as ev
from tcexplore.events.dynamo_events import with_subgraphs
from tcexplore.torch_text.break_text import (
    AND_THEN,
    LIMIT_EXCEEDED,
    NOT_BREAKS,
    OBSERVED_EXCEPTION,
    Reason,
    explain_reason,
    parse_reason,
)
from tcexplore.torch_text.bytecode_text import read_instructions, resume_variables
from tcexplore.torch_text.dynamo_names import (
    describe_carried,
    function_name,
    is_carried,
    is_resumed,
    readable_source,
    resumed_line,
)
from tcexplore.torch_text.guard_text import (
    BACKEND_MATCH,
    OTHER_BACKEND,
    Cause,
    Check,
    ComparedValues,
    cause_of_text,
    cause_of_values,
    compare_code,
    kind_of_check,
    split_check,
)
from tcexplore.traces.graph_text import CALLS, name_sizes, read_graph, read_subgraphs
from tcexplore.traces.record_index import Record, decode_json
from tcexplore.traces.trace_context import FrameStart, TraceContext, line_in_frame
from tcexplore.traces.trace_modules import GraphModules, outermost_module, with_modules
from tcexplore.traces.trace_sources import TraceSources, read_stack

_COMPILER_FAILED = "WON'T CONVERT "
"""torch's message for a frame that runs uncompiled, since the compiler failed."""
_BREAK_PLACE = re.compile(r"^Graph [Bb]reak in user code at (.+):(\d+)$", re.M)
_BREAK_REASON = re.compile(r"^Graph Break Reason: (.*?)(?=^User code traceback:|\Z)", re.M | re.S)
_BREAK_STACK = re.compile(r"^User code traceback:\n(.*?)(?=^Traceback |\Z)", re.M | re.S)
_RECOMPILE_STACK = re.compile(r"\nUser stack trace:\n(.*)\Z", re.S)
_FRAME = re.compile(r'^  File "(.+?)", line (\d+), in (\S+)\n(?:    (.*))?', re.M)
_LINK = re.compile(r"please visit: (https?://\S+)")
_REASON = re.compile(r"^(!?[\d/]+): (.*)$", re.S)
_ATTRIBUTE = re.compile(r"^(?:L|G)\['[^']+'\][.\[]")
_EVAL_FRAME = "eval_frame.py"
"""The file of torch whose frames are the calls of compiled regions."""
_SIZE_SOURCE = re.compile(r"^(.*)\.(size|stride)\(\)\[(\d+)\]$")


def read_start(context: TraceContext, record: Record) -> None:
    """Emit the frame that Dynamo begins to compile. Its stack ends with the frame itself."""
    frames = list(read_stack(record.meta.get("stack"), context.strings))
    context.sources.observe_stack(frame for frame, _ in frames)
    for frame, code in frames:
        context.sources.observe_line(frame.file, frame.line, code)
    owned = [frame for frame, _ in frames[:-1] if context.sources.owns(frame.file)]
    own = frames[-1][0] if frames else None
    in_region = dropwhile(lambda frame: not frame[0].file.endswith(_EVAL_FRAME), frames[:-1])
    of_library = own is not None and context.sources.in_library(own.file)
    of_library = of_library and not any(context.sources.owns(frame.file) for frame, _ in in_region)
    start = FrameStart(own, owned[-1] if owned else None, of_library)
    context.starts[record.graph] = start
    if record.attempt or own is None:
        return
    place = context.sources.place(own.file, own.line, own.function)
    number = record.envelope.get("frame_compile_id")
    context.emit(
        ev.FrameEntered(
            graph=record.graph,
            frame=place,
            resumed=is_resumed(own.function),
            caller=start.caller,
            entry_count=number if isinstance(number, int) else 0,
            limit=context.recompile_limit,
        )
    )


def read_source_name(context: TraceContext, record: Record) -> None:
    """Learn the readable name of a tensor's source by the name of the graph's input."""
    source = str(record.meta.get("source") or "")
    context.name_input(source)
    context.name_inner_inputs(source, record.meta.get("describer_id"), record.meta.get("id"))


def read_tensor_description(context: TraceContext, record: Record) -> None:
    """Keep which tensors are inside a tensor subclass."""
    attributes = record.meta.get("attrs")
    if isinstance(attributes, dict):
        context.inner_tensors[record.meta.get("describer_id"), record.meta.get("id")] = attributes


def read_dynamo_graph(context: TraceContext, record: Record) -> None:
    """Emit a Dynamo graph."""
    graph, code = record.graph, context.payload(record)
    place = partial(context.location, graph)
    nodes = context.with_lines(graph, read_graph(code, place, context.input_names))
    nodes = tuple(_qualified(context, node) for node in name_sizes(nodes))
    start = context.starts.get(graph)
    frame = start.frame if start else None
    known = context.modules[graph] = GraphModules(plain=nodes)
    nodes = known.nodes = with_modules(nodes, context.sources, frame.line if frame else None)
    context.graphs[graph] = nodes
    subgraphs = read_subgraphs(code, nodes, place)
    called = (node.target.rpartition(".")[2] for node in with_subgraphs(nodes, subgraphs) if node.op in CALLS)
    context.functions[graph] = frozenset(called)
    if frame is not None:
        frame = replace(frame, function=function_name(frame.function))
    context.emit(
        ev.GraphCaptured(
            graph=graph, ops=sum(node.op in CALLS for node in nodes), nodes=nodes, code=code, frame=frame,
            subgraphs=subgraphs, modules=outermost_module(nodes),
        )
    )  # fmt: skip


def _qualified(context: TraceContext, node: ev.FxNode) -> ev.FxNode:
    """Return a call of a function of the user with the name of its module."""
    target = context.sources.qualify(node.target) if node.op == "call_function" else node.target
    return node if target == node.target else replace(node, target=target)


REWRITTEN = "_MODIFIED_BYTECODE"
"""End of the kind of record with the bytecode that runs in place of a resume function."""

ORIGINAL = "_ORIGINAL_BYTECODE"


def read_rewritten(context: TraceContext, record: Record) -> None:
    """Emit the bytecode that runs in place of a resume function."""
    function = record.kind.removesuffix(REWRITTEN)
    instructions = read_instructions(context.payload(record))
    start = context.starts.get(record.graph)
    own = start.frame if start else None
    frame = context.sources.place(own.file, own.line, function_name(own.function)) if own else None
    resumes = (ev.ResumeFunction(variable, "", None) for variable in resume_variables(instructions))
    context.emit(
        ev.FunctionRewritten(
            graph=record.graph, name=function_name(function), code_name=function, resumed=resumed_line(function),
            frame=frame, instructions=instructions, resumes=tuple(resumes),
        )
    )  # fmt: skip


# ---- graph breaks


def read_break(context: TraceContext, record: Record) -> None:
    """Emit a graph break."""
    text = context.payload(record)
    context.broken.add(record.graph)
    reasons = break_reasons(text)
    if reasons is None:
        return
    start = context.starts.get(record.graph)
    own, caller = (start.frame, start.caller) if start else (None, None)
    of_library = start is not None and start.of_library
    stack = _break_stack(context.sources, text, own, caller, of_library=of_library)
    location = stack[-1] if stack else break_line(context.sources, text, own, caller)
    context.break_lines.setdefault((record.graph, reasons.first.kind), location)
    key = (own, stack, reasons.first.kind)
    if key in context.breaks:
        return  # the frame was compiled again
    context.breaks.add(key)
    context.emit(_graph_break(context, record.graph, reasons, location, stack, text))


class BreakReasons(NamedTuple):
    """The reasons in the text of a break."""

    first: Reason
    further: list[Reason]
    headline: str = ""


def break_reasons(text: str) -> BreakReasons | None:
    """Return the reasons in a record of a break; None if it is not a break."""
    logged = _BREAK_REASON.search(text)
    message, headline = _message(logged[1] if logged else text)
    reason, *further = (parse_reason(part) for part in AND_THEN.split(message))
    if reason.kind.startswith(_COMPILER_FAILED):
        return None
    if NOT_BREAKS & {reason.kind, *(other.kind for other in further)}:
        return None
    return BreakReasons(reason, further, headline)


def _message(logged: str) -> tuple[str, str]:
    """Split `Encountered graph break when …:` and torch's message, which follows after an empty line."""
    headline, _, message = logged.partition("\n\n")
    return (message, headline) if message and headline.rstrip().endswith(":") else (logged, "")


def _stack_frames(text: str, start: re.Pattern[str] = _BREAK_STACK) -> list[tuple[str, int, str, str]]:
    """Return file, line, function and code of each frame of the stack in a text, outermost first."""
    stack = start.search(text)
    frames = _FRAME.findall(stack[1] if stack else "")
    return [(file, int(line), function, code) for file, line, function, code in frames]


def _break_stack(
    sources: TraceSources, text: str, own: ev.Location | None, caller: ev.Location | None, *, of_library: bool = False
) -> tuple[ev.Location, ...]:
    """Return the user's frames; those that called a frame of a library may be only in the stack of its compile.

    `of_library` is that of `FrameStart`: inside the frame, those of libraries count if none is the user's.
    """
    frames = _stack_frames(text)
    places = [sources.place(*frame) for frame in frames]
    if own is None or sources.owns(own.file):
        return tuple(filter(None, places))
    first = next((n for n, frame in enumerate(frames) if frame[0] == own.file), len(frames))
    callers, inside = (tuple(filter(None, part)) for part in (places[:first], places[first:]))
    if caller is not None and caller not in callers:
        callers = (*callers, caller)
    if not inside and of_library:
        inside = tuple(filter(None, (sources.place_inside(*frame) for frame in frames[first:])))
    return callers + inside


def break_line(
    sources: TraceSources, text: str, own: ev.Location | None, caller: ev.Location | None
) -> ev.Location | None:
    """Return the user's line of a break in a frame that the user's line `caller` called."""
    if stack := _break_stack(sources, text, own, caller):
        return stack[-1]
    place = _BREAK_PLACE.search(text)
    return line_in_frame(sources, own, caller, place[1], int(place[2])) if place else None


def _graph_break(
    context: TraceContext, graph: str, reasons: BreakReasons, location: ev.Location | None,
    stack: tuple[ev.Location, ...], text: str,
) -> ev.GraphBreak:  # fmt: skip
    reason = reasons.first
    entry, link = context.registry.get(reason.kind), _LINK.search(text)
    return ev.GraphBreak(
        graph=graph,
        registry_id=entry.id if entry else _id_of_link(link[1] if link else ""),
        kind=reason.kind,
        reason=explain_reason(*reasons),
        explanation=reason.explanation,
        hints=reason.hints,
        context=reason.context,
        registry_explanation=entry.explanation if entry else "",
        registry_hints=entry.hints if entry else (),
        url=link[1] if link else "",
        location=location,
        code=context.sources.code(location),
        stack=stack,
    )


def _id_of_link(link: str) -> str | None:
    match = re.search(r"/(gb\d+)\.html", link)
    return match[1].upper() if match else None


# ---- recompiles


def read_recompile(context: TraceContext, record: Record) -> None:
    """Emit a recompile for each cache entry that did not match. One reason is plain text, several are a JSON list."""
    text = context.payload(record)
    reasons = [text]
    if text.lstrip().startswith("["):
        with contextlib.suppress(ValueError):
            reasons = [str(reason) for reason in decode_json(text)]
    matches = [match for reason in reasons if (match := _REASON.match(reason.strip()))]
    usable = [match for match in matches if not match[2].startswith(BACKEND_MATCH)]
    for match in usable or matches[:1]:
        code, recompile = _recompiled(context, record, match[1], match[2])
        context.emit(recompile)
        context.recompile_values.add(recompile, code)


def _line_of_check(sources: TraceSources, start: FrameStart, check: Check) -> ev.Location | None:
    """Return the line of a check in a frame of a library: the one in its comment, or that of the function."""
    own = start.frame
    if own is None:
        return None
    if check.place and own.file.endswith(check.place[0]):
        return sources.place_inside(own.file, *check.place[1:])
    return sources.place_inside(own.file, own.line, own.function)


def _recompiled(context: TraceContext, record: Record, entry: str, text: str) -> tuple[str, ev.Recompiled]:
    """Return the code of the failed guard, and the recompile."""
    check = Check("", "") if text.startswith(BACKEND_MATCH) else split_check(text.split("\nUser stack trace:")[0])
    cause = _cause(check.code, text)
    start = context.starts.get(entry)
    frame = start.frame if start else None
    stack = [*filter(None, (context.sources.place(*frame) for frame in _stack_frames(text, _RECOMPILE_STACK)))]
    place = stack[-1] if stack else context.guard_places.get((entry, cause.name))
    place = place or (context.sources.find(*check.place) if check.place else None)
    if place is None and frame is not None:
        place = _line_of_check(context.sources, start, check) if start is not None and start.of_library else None
        place = place or context.sources.place(frame.file, frame.line, frame.function)
        place = place or (start.caller if start else None)
    number = record.envelope.get("frame_compile_id")
    return check.code, ev.Recompiled(
        graph=record.graph,
        failed_entry=entry,
        failed_guard=readable_source(check.code),
        reason=describe_carried(cause.reason),
        old=cause.old,
        new=cause.new,
        location=place,
        entry_count=number + 1 if isinstance(number, int) else None,
        limit=context.recompile_limit,
        kind=cause.kind,
        name=cause.name,
        dim=cause.dim,
        origin=_origin(check.code),
    )


def _cause(code: str, text: str) -> Cause:
    if text.startswith(BACKEND_MATCH):
        return Cause("", "", "", OTHER_BACKEND, "backend")
    return cause_of_text(code.strip(), grad_enabled="grad_mode" not in text) or _cause_of_code(code)


def _cause_of_code(code: str) -> Cause:
    values: ComparedValues = compare_code(code)
    cause = cause_of_values(values, readable_source(code))._replace(kind=kind_of_check(code, values))
    if values.old and not values.new and values.old != cause.reason:
        cause = cause._replace(reason=f"`{values.name}` has changed; it was compiled for {values.old}.")
    return cause


def _origin(code: str) -> ev.ValueOrigin:
    if is_carried(code):
        return "break"
    if "G['" in code:
        return "global"
    return "attribute" if _ATTRIBUTE.match(code) else ""


def read_failure(context: TraceContext, graph: str, metrics: Mapping[str, Any]) -> None:
    """Emit a frame that was not compiled; torch names none if the frame has reached its recompile limit."""
    kind, text = metrics.get("fail_type") or "error", metrics.get("fail_reason")
    if not text:
        return
    reason, *further = (parse_reason(part) for part in AND_THEN.split(str(text)))
    if reason.kind == LIMIT_EXCEEDED:
        for recompile in context.recompile_values.at_limit(graph):
            context.emit(recompile)
    explained = str(kind).rpartition(".")[2] in ("Unsupported", "UserError")
    if reason.kind == OBSERVED_EXCEPTION:
        return
    if explained and reason.kind != LIMIT_EXCEEDED and graph not in context.broken:
        _read_fatal_break(context, graph, BreakReasons(reason, further), metrics)
        return
    start = context.starts.get(graph) or context.starts.get(f"{graph.rpartition('/')[0]}/0")
    frame = start.frame if start is not None else None
    if start is None or frame is None:
        return
    place = context.sources.place(frame.file, frame.line, frame.function) or start.caller
    reason_text = explain_reason(reason, further) if explained else ev.clean(f"{kind}: {text}")
    if place is not None:
        has_ops = "No ops traced" not in reason_text
        context.emit(ev.FrameSkipped(frame=place, reason=reason_text, graph=graph, has_ops=has_ops))


def _read_fatal_break(context: TraceContext, graph: str, reasons: BreakReasons, metrics: Mapping[str, Any]) -> None:
    """Emit a break of a frame that is compiled with `fullgraph=True`: torch writes no record of it."""
    file, line = metrics.get("fail_user_frame_filename"), metrics.get("fail_user_frame_lineno")
    known = isinstance(file, str) and isinstance(line, int)
    location = context.location(graph, ev.clean(str(file)), line or 0, "", "") if known else None
    stack = (location,) if location else ()
    context.emit(_graph_break(context, graph, reasons, location, stack, str(metrics.get("fail_reason"))))


# ---- symbols


class SymbolRecords:
    """Symbols of the graph that is being traced."""

    def __init__(self) -> None:
        self._symbols: dict[str, dict[str, ev.Symbol]] = defaultdict(dict)

    def read_symbol(self, context: TraceContext, record: Record) -> None:
        """Keep a symbol until its graph is complete."""
        name = ev.clean(str(record.meta.get("symbol") or ""))
        lower, _, upper = str(record.meta.get("vr") or "").strip("[]").partition(", ")
        stack = [*read_stack(record.meta.get("user_stack"), context.strings)]
        places = [place for frame, code in stack if (place := context.sources.place(*_parts(frame), code))]
        source = record.meta.get("source")
        if source:
            context.name_input(str(source))
            context.input_names[name] = readable_source(str(source))
        self._symbols[record.graph][name] = ev.Symbol(
            name=name,
            unbacked=record.kind == "create_unbacked_symbol",
            hint=ev.clean(str(record.meta.get("val") or "")),
            lower=lower,
            upper=upper,
            sources=(_symbol_source(str(source)),) if source else (),
            location=places[-1] if places else None,
            user_code=context.sources.code(places[-1]) if places else "",
        )

    def of(self, graph: str) -> Iterable[ev.Symbol]:
        """Return the symbols of a graph so far."""
        return self._symbols.get(graph, {}).values()

    def flush(self, context: TraceContext, graph: str) -> None:
        """Emit the symbols of a graph."""
        symbols = self._symbols.pop(graph, None)
        if symbols:
            context.emit(ev.GraphSymbols(graph=graph, symbols=tuple(symbols.values())))


def _parts(frame: ev.Location) -> tuple[str, int, str]:
    return frame.file, frame.line, frame.function


def _symbol_source(source: str) -> ev.SymbolSource:
    match = _SIZE_SOURCE.match(source)
    if match is None:
        return ev.SymbolSource(name=readable_source(source), kind="value")
    kind: Any = match[2]
    return ev.SymbolSource(name=readable_source(match[1]), kind=kind, dim=int(match[3]))
