"""Ways to avoid recompiles of changing sizes and numbers, offered if they apply to this run."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from tcexplore import events as ev
from tcexplore.events.base import backward_number, frame_number
from tcexplore.events.python_source import parse_source
from tcexplore.session.cache_entries import newest_causes, resumed_frames, resumes_at
from tcexplore.session.snapshot import Snapshot

MARK_DYNAMIC: Final = "mark_dynamic"
MARK_UNBACKED: Final = "mark_unbacked"
DYNAMIC: Final = "dynamic"
BUCKETS: Final = "buckets"
TENSOR: Final = "tensor"
BREAK: Final = "break"
ATTRIBUTE: Final = "attribute"
UNSPEC_INT: Final = "unspec_int"
TOGETHER: Final = "together"
RecompileFixKind = Literal[
    "mark_dynamic", "mark_unbacked", "dynamic", "buckets", "tensor", "break", "attribute", "unspec_int", "together"
]

_NAMED = re.compile(r"\w+|args\[\d+\]|kwargs\['\w+'\]")
"""Arguments of a call, including those that Dynamo passes to a module of torch through `args` and `kwargs`."""


@dataclass(frozen=True, slots=True)
class RecompileFix:
    """A way to avoid recompiles."""

    kind: RecompileFixKind
    name: str
    """Argument that changes, or value carried over the break."""
    dim: int | None = None
    values: tuple[str, ...] = ()
    """Values that recompiled."""
    graphs: tuple[str, ...] = ()
    """Compile ids of the recompiles that it is for; empty for a size that has not caused one yet."""
    location: ev.Location | None = None
    """Line to change or that required the guard."""
    graph_break: ev.GraphBreak | None = None
    """Break to remove."""
    blocked_by: ev.Specialization | None = None
    """Place that specializes the size; it has to change first."""
    other_sizes: tuple[tuple[str, int], ...] = ()
    """Sizes that changed with it: (argument, dimension)."""
    parts: tuple[ev.RecompileChange, ...] = ()
    """Changes of `together`, of which no single one avoids as many recompiles."""
    tried: bool = False
    """Whether the calls were repeated with it."""
    avoids: tuple[str, ...] = ()
    """Compile ids of the recompiles that did not happen then."""
    graphs_before: int | None = None
    """Compiles of the unchanged calls; None if it was not tried."""
    graphs_after: int | None = None
    """Compiles of the calls with it; None if it was not tried, or the calls failed."""
    problem: str = ""
    """Why the calls failed with it; empty if they did not."""
    limited: ev.Symbol | None = None
    """The size in a graph of this run that holds up to some size: `mark_dynamic` makes the same graph."""
    after_breaks: tuple[str, ...] = ()
    """Compile ids of resume functions that recompiled for the same change of the size: a fix of the argument may reach
    them, too."""

    @property
    def helps(self) -> bool:
        """Whether the calls compile less with it, or it was not tried."""
        return not self.tried or self.compiles_less

    @property
    def compiles_less(self) -> bool:
        """Whether the calls, repeated with it, compile fewer graphs."""
        return not self.problem and (self.graphs_after or 0) < (self.graphs_before or 0)


def recompile_fixes(snapshot: Snapshot) -> tuple[RecompileFix, ...]:
    """Return the fixes for what made this run recompile, or was specialized in it, with the results of trying them."""
    fixes = list(_inferred_fixes(snapshot))
    for tried in _trials(snapshot):
        result: dict[str, Any] = {"tried": True, "avoids": tried.avoids, "graphs_before": tried.graphs_before,
                  "graphs_after": tried.graphs_after, "problem": tried.problem}  # fmt: skip
        known = [index for index, fix in enumerate(fixes) if _is_of(fix, tried.changes)]
        for index in known:
            others = tuple((change.name, change.dim or 0) for change in tried.changes[1:])
            fixes[index] = replace(fixes[index], other_sizes=others, **result)
        if not known:
            fixes.append(_tried_fix(snapshot, tried.changes, result))
    return tuple(fixes)


def _trials(snapshot: Snapshot) -> Iterator[ev.RecompileFixTried]:
    """Yield what was tried, also on the captured calls of a script's only region.

    Their graphs are not those of the script: a change avoids its recompiles if it leaves a single graph.
    """
    yield from snapshot.recompile_fixes_tried
    for tried in snapshot.sizes_tried if len(snapshot.regions) == 1 else ():
        solved = tried.graphs_after == 1 and not tried.problem
        yield ev.RecompileFixTried(
            changes=tried.changes, avoids=_recompiled_for(snapshot, tried.changes) if solved else (),
            graphs_before=tried.graphs_before, graphs_after=tried.graphs_after, problem=tried.problem,
        )  # fmt: skip


def _recompiled_for(snapshot: Snapshot, changes: tuple[ev.RecompileChange, ...]) -> tuple[str, ...]:
    """Return the compile ids of the recompiles whose causes the changes are for."""
    changed = {(change.name, change.dim) for change in changes}
    any_size = any(change.kind == DYNAMIC for change in changes)
    graphs = {
        cause.graph: None
        for cause, _ in newest_causes(snapshot)
        if (cause.name, cause.dim) in changed or (cause.name, None) in changed or (any_size and cause.kind == "size")
    }
    return tuple(graph for graph in graphs if not backward_number(graph))


def _is_of(fix: RecompileFix, changes: tuple[ev.RecompileChange, ...]) -> bool:
    """Return whether changes that were tried are those of an inferred fix."""
    first = changes[0]
    if len({change.kind for change in changes}) > 1 or fix.kind != first.kind:
        return False
    if len(changes) > 1 and first.kind not in (MARK_DYNAMIC, MARK_UNBACKED):
        return False
    return fix.kind == DYNAMIC or (fix.name, fix.dim) == (first.name, first.dim)


def _tried_fix(snapshot: Snapshot, changes: tuple[ev.RecompileChange, ...], result: dict[str, Any]) -> RecompileFix:
    """Return a fix that only a trial offers."""
    names = {change.name for change in changes}
    causes = [cause for cause, _ in newest_causes(snapshot) if cause.name in names]
    graphs = tuple(dict.fromkeys(cause.graph for cause in causes))
    location = causes[0].location if causes else None
    first = changes[0]
    if len({change.kind for change in changes}) == 1 and first.kind in (MARK_DYNAMIC, MARK_UNBACKED):
        others = tuple((change.name, change.dim or 0) for change in changes[1:])
        return RecompileFix(
            first.kind, first.name, first.dim, _values(causes), graphs, location, other_sizes=others, **result
        )
    if len(changes) == 1:
        return RecompileFix(first.kind, first.name, None, _values(causes), graphs, location, **result)
    return RecompileFix(TOGETHER, "", None, (), result["avoids"], location, parts=changes, **result)


def _inferred_fixes(snapshot: Snapshot) -> tuple[RecompileFix, ...]:
    """Return the fixes that the causes of the recompiles suggest."""
    sizes: dict[tuple[str, int], list[ev.Recompiled]] = defaultdict(list)
    numbers: dict[str, list[ev.Recompiled]] = defaultdict(list)
    carried: dict[tuple[str, str], list[ev.Recompiled]] = defaultdict(list)
    integers: dict[str, list[ev.Recompiled]] = defaultdict(list)
    after_breaks: dict[tuple[str, str, int | None], dict[str, None]] = defaultdict(dict)
    resumed = resumed_frames(snapshot)
    for cause, _ in newest_causes(snapshot):
        if cause.graph in resumed and not _is_passed_on(snapshot, cause.name, resumed[cause.graph]):
            if cause.kind in ("bool", "int", "float"):
                carried[frame_number(cause.graph), cause.name].append(cause)
            elif cause.kind == "size":
                after_breaks[cause.old, cause.new, cause.dim][cause.graph] = None
            continue
        if cause.kind == "int" and cause.origin == "attribute":
            integers[cause.name].append(cause)
        if backward_number(cause.graph) or not _is_argument(cause):
            continue
        if cause.kind == "size" and cause.dim is not None:
            sizes[cause.name, cause.dim].append(cause)
        elif cause.kind == "float":
            numbers[cause.name].append(cause)
    fixes: list[RecompileFix] = []
    for (name, dim), causes in sizes.items():
        passed_on = (graph for cause in causes for graph in after_breaks[cause.old, cause.new, dim])
        fixes += _size_fixes(snapshot, name, dim, causes, tuple(dict.fromkeys(passed_on)))
    fixes += [_fix(TENSOR, causes) for causes in numbers.values()]
    # The second value of an integer makes it dynamic, unless a module has it.
    fixes += [_fix(UNSPEC_INT, causes) for causes in integers.values() if len(causes) > 1]
    for causes in carried.values():
        fixes += _break_fixes(snapshot, causes, resumed[causes[0].graph])
    return (*fixes, *_specialized_sizes(snapshot, {(fix.name, fix.dim) for fix in fixes}))


def _fix(kind: RecompileFixKind, causes: list[ev.Recompiled], **more: Any) -> RecompileFix:
    """Return a fix for recompiles with the same cause."""
    cause = causes[0]
    graphs = tuple(each.graph for each in causes)
    return RecompileFix(kind, cause.name, cause.dim, _values(causes), graphs, cause.location, **more)


def _break_fixes(snapshot: Snapshot, causes: list[ev.Recompiled], frame: ev.Location | None) -> Iterator[RecompileFix]:
    """Yield the break whose value a resume function guards: the one before it, or the one whose line assigns the name.

    Without the break, the value stays a tensor of the graph.
    """
    cause = causes[0]
    function = (frame.file, frame.function) if frame else None
    for graph_break in snapshot.breaks:
        places = [place for place in (graph_break.location, *graph_break.stack) if place]
        ends_here = cause.origin == "break" and resumes_at(graph_break, frame)
        in_function = function in [(place.file, place.function) for place in places[:1]]
        if ends_here or (in_function and _assigned(graph_break.code) == cause.name):
            yield replace(_fix(BREAK, causes), location=graph_break.location, graph_break=graph_break)
            return


def _is_passed_on(snapshot: Snapshot, name: str, frame: ev.Location | None) -> bool:
    """Return whether a resume function gets an argument of the user's function, which never assigns that name."""
    if frame is None or frame.file != snapshot.file:
        return False
    around = [function for function in _functions(snapshot.source) if function.first <= frame.line <= function.last]
    return bool(around) and name in max(around, key=lambda function: function.first).arguments


class _Function(NamedTuple):
    """A function of the model file with its lines."""

    first: int
    last: int
    arguments: frozenset[str]
    """Arguments that it never assigns."""


@lru_cache(maxsize=2)  # the fixes are computed for each paint
def _functions(source: str) -> tuple[_Function, ...]:
    """Return the functions of a source; none if it does not parse."""
    try:
        nodes = ast.walk(parse_source(source))
    except (SyntaxError, ValueError, RecursionError):
        return ()
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return tuple(_Function(node.lineno, node.end_lineno or 0, _unassigned(node)) for node in functions)


def _unassigned(function: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    given = function.args
    arguments = {argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    names = (node for node in ast.walk(function) if isinstance(node, ast.Name))
    return frozenset(arguments - {name.id for name in names if isinstance(name.ctx, ast.Store)})


def _assigned(code: str) -> str:
    """Return the name that a line of code assigns, empty if it assigns none or several."""
    try:
        statement = ast.parse(code.strip()).body[0]
    except (SyntaxError, ValueError, IndexError):
        return ""
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    else:
        targets = [statement.target] if isinstance(statement, ast.AnnAssign | ast.AugAssign) else []
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""


def _size_fixes(
    snapshot: Snapshot, name: str, dim: int, causes: list[ev.Recompiled], after_breaks: tuple[str, ...]
) -> Iterator[RecompileFix]:
    config, blocked = snapshot.config, _specialization(snapshot, name, dim)
    small = {"0", "1"} & set(_values(causes))
    if config.dynamic is None and blocked is None:
        others = tuple(size for size in changed_with(snapshot, causes) if size != (name, dim))
        limited = _limited(snapshot, name, dim, after_breaks)
        yield _fix(MARK_DYNAMIC, causes, other_sizes=others, limited=limited, after_breaks=after_breaks)
        yield _fix(DYNAMIC, causes, after_breaks=after_breaks)
    if small and blocked is None:
        yield _fix(MARK_UNBACKED, causes)
    if blocked is not None or config.dynamic is False or small:
        yield _fix(BUCKETS, causes, blocked_by=blocked)


def changed_with(snapshot: Snapshot, causes: Iterable[ev.Recompiled]) -> tuple[tuple[str, int], ...]:
    """Return the sizes of arguments that automatic dynamic shapes made symbolic in the graphs of these recompiles.

    A guard names only the first size that differs. Marking one of several sizes that must be equal is an error.
    """
    if snapshot.config.dynamic is not None:
        return ()
    # A resume function also gets locals, which cannot be marked.
    graphs = {cause.graph for cause in causes} - resumed_frames(snapshot).keys()
    symbols = [symbol for known in snapshot.symbols if known.graph in graphs for symbol in known.symbols]
    sources = [source for symbol in symbols for source in symbol.sources if source.kind == "size"]
    sizes = [(source.name, source.dim) for source in sources if _NAMED.fullmatch(source.name)]
    free = [(name, dim) for name, dim in sizes if dim is not None and _specialization(snapshot, name, dim) is None]
    return tuple(dict.fromkeys(free))


def _specialized_sizes(snapshot: Snapshot, known: set[tuple[str, int | None]]) -> Iterator[RecompileFix]:
    """Yield fixes for symbols that were specialized to numbers but have not caused a recompile yet."""
    for graph in snapshot.symbols:
        # The user can't change the inputs of a graph of compiled autograd.
        for symbol in () if backward_number(graph.graph) else graph.symbols:
            for source in symbol.sources[:1] if symbol.specialized else ():
                if source.kind == "size" and (source.name, source.dim) not in known:
                    known.add((source.name, source.dim))
                    place = symbol.specialized[0].location
                    yield RecompileFix(BUCKETS, source.name, source.dim, (symbol.hint,), location=place,
                                       blocked_by=symbol.specialized[0])  # fmt: skip


def _specialization(snapshot: Snapshot, name: str, dim: int) -> ev.Specialization | None:
    """Return where a dynamic size was specialized to a number."""
    symbols = _symbols_of(reversed(snapshot.symbols), name, dim)
    return next((symbol.specialized[0] for symbol in symbols if symbol.specialized), None)


def _limited(snapshot: Snapshot, name: str, dim: int, after_breaks: tuple[str, ...]) -> ev.Symbol | None:
    """Return the symbolic size with the lowest limit, in a graph of the argument or after a break.

    None if all graphs hold for large sizes.
    """
    own = list(_symbols_of(snapshot.symbols, name, dim))
    sizes = {symbol.hint for symbol in own}
    later = (symbol for graph in snapshot.symbols if graph.graph in after_breaks for symbol in graph.symbols)
    same = (each for each in later if each.hint in sizes and any(source.dim == dim for source in each.sources))
    symbols = [*own, *same]
    limited = [symbol for symbol in symbols if symbol.upper.isdecimal() and symbol.lower != symbol.upper]
    return min(limited, key=lambda symbol: int(symbol.upper), default=None)


def _symbols_of(graphs: Iterable[ev.GraphSymbols], name: str, dim: int) -> Iterator[ev.Symbol]:
    """Yield the symbols that stand for a size of an argument."""
    for graph in graphs:
        for symbol in graph.symbols:
            if any((source.name, source.dim, source.kind) == (name, dim, "size") for source in symbol.sources):
                yield symbol


def _values(causes: list[ev.Recompiled]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for cause in causes for value in (cause.old, cause.new) if value))


def _is_argument(cause: ev.Recompiled) -> bool:
    """Return whether the user passes the value directly: otherwise they can't mark it or make it a tensor."""
    return cause.origin == "argument" and _NAMED.fullmatch(cause.name) is not None
