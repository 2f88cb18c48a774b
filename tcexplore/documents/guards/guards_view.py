"""The guards pane: the guards of each graph with their cost, and the recompiles that failed guards caused."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from tcexplore.documents.document import Part, Parts, Row, Span, fixed
from tcexplore.documents.empty_states import empty_part
from tcexplore.documents.guards.recompile_rows import name_carried, recompile_rows
from tcexplore.documents.guards.size_rows import size_rows
from tcexplore.documents.guards.symbols_view import describe_fix, describe_useless
from tcexplore.documents.line_facts import count_guards
from tcexplore.documents.locations import Places, explain_compile_id, places
from tcexplore.documents.prose import BLANK, fold, row, shortened, wrapped
from tcexplore.events import Guard, GuardFilterTried, GuardsInstalled, Location, Recompiled
from tcexplore.events.config import SKIP_GUARD_EVAL
from tcexplore.keymap import hint
from tcexplore.quantities import count, duration, factor_range
from tcexplore.session import Snapshot
from tcexplore.session.cache_entries import newest_causes
from tcexplore.session.economics import VISIBLE_GUARD_SHARE, GuardCost, guard_cost
from tcexplore.session.links import GUARD_FILTERS_LINK, Link, guard_link, line_links
from tcexplore.session.recompile_fixes import RecompileFix, recompile_fixes

EMPTY_TEXT = (
    "A compiled graph is valid only while its guards hold: the sizes and dtypes of its inputs, the values that your "
    "code reads. The guards appear here. If one fails, torch recompiles, which appears here too."
)


FoldKind = Literal["structural", "parameters"]


def guards_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """Return the document of the pane."""
    if of_line := _of_chosen_line(snapshot, toggled, width):
        return of_line
    sizes = tuple(size_rows(snapshot, toggled, width))
    if not snapshot.guards and not snapshot.recompiles and not sizes:
        return Parts("", [empty_part(snapshot, width, EMPTY_TEXT)])
    parts = [fixed((*_recompiles(snapshot, width), *sizes, *guard_filter_rows(snapshot, width)))]
    for installed in snapshot.guards:
        parts += _graph(installed, toggled, places(snapshot.file), width)
    return Parts(_title(snapshot), parts)


OF_LINE = "guards of line "
"""Start of the fold that leaves only the guards of a line in the pane, while it is toggled."""


def fold_of_line(at: Location) -> str:
    """Return the fold that leaves only the guards of a line."""
    return f"{OF_LINE}{at.line} of {at.file}"


def _of_chosen_line(snapshot: Snapshot, toggled: frozenset[str], width: int) -> Parts | None:
    """Return the guards of the line that the user asked for, of each graph; None without such a line."""
    name = next((name for name in toggled if name.startswith(OF_LINE)), "")
    own: dict[str, list[Guard]] = {}
    for installed in snapshot.guards if name else ():
        for guard in installed.guards:
            if guard.location is not None and fold_of_line(guard.location) == name:
                own.setdefault(installed.graph, []).append(guard)
    if not own:
        return None
    where = places(snapshot.file)
    at = next(guard.location for guards in own.values() for guard in guards)
    total = sum(len(installed.guards) for installed in snapshot.guards)
    listed = [guard for guards in own.values() for guard in guards]
    structural = sum(guard.structural for guard in listed)
    number = f"{count_guards(len(listed) - structural, structural)}, of {total:,}"
    shown = (f"  {number}, {hint('open')} shows all", "muted")
    parts = [fixed([fold(name, True, (where.describe(at), "heading"), shown, indent=0)])]
    for graph, guards in own.items():
        readable = _in_order([guard for guard in guards if not guard.structural])
        parts += [fixed([row((f" {graph}", "title"))]), _rows(graph, readable, toggled, where, width)]
        parts += _folded("structural", graph, [guard for guard in guards if guard.structural], toggled, where, width)
    return Parts(f"{where.describe(at)}: {number}", parts)


def _recompiles(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield the recompiles; below the first one of each size or number, how to avoid them."""
    fixes: dict[tuple[str, ...], list[RecompileFix]] = defaultdict(list)
    same_size: dict[str, str] = {}
    for fix in recompile_fixes(snapshot):
        fixes[fix.graphs[:1]].append(fix)
        reached = fix.avoids if fix.tried else fix.after_breaks
        same_size.update({graph: fix.graphs[0] for graph in fix.after_breaks if graph in reached and fix.helps})

    def below(recompile: Recompiled) -> Iterator[Row]:
        own = fixes.get((recompile.graph,), [])
        helpful = [fix for fix in own if fix.helps]
        if helpful:
            yield row(("   to avoid it:", "ok"))
        elif before := same_size.get(recompile.graph):
            yield from wrapped(f"the same size as for {before}: see there how to avoid it", width, "muted", indent=3)
        for fix in helpful:
            links = line_links(fix.location)
            text = describe_fix(fix, snapshot.file)
            yield from wrapped(text, width, indent=3, lead="· ", links=links, location=fix.location)

        if useless := describe_useless(own):
            yield from wrapped(useless, width, "muted", indent=3)

    return recompile_rows(snapshot, width, below)


def brief_guard_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield the guards of each graph with what they check, without their code; the same global state only once.

    Their cost comes first if it is high.
    """
    yield from guard_filter_rows(snapshot, width)
    toggled = frozenset(f"parameters of guards {installed.graph}" for installed in snapshot.guards)
    states: set[str] = set()
    for installed in snapshot.guards:
        for part in _graph(installed, toggled, places(snapshot.file), width):
            for each in map(part.build, range(part.count)):
                is_guard = each.links and each.links[0].kind == "guard"
                brief = each._replace(spans=each.spans[: -len(_DETAILS)]) if is_guard else each
                kind, _, state = brief.text.strip().partition(" ")
                if kind != "GLOBAL_STATE" or state.strip() not in states:
                    yield brief
                if kind == "GLOBAL_STATE":
                    states.add(state.strip())


def _title(snapshot: Snapshot) -> str:
    guards = sum(len(installed.guards) for installed in snapshot.guards)
    recompiled = sum(1 for _ in newest_causes(snapshot))
    again = f", {count(recompiled, 'recompile')}" if recompiled else ""
    return f"{count(guards, 'guard')}{again}"


def _graph(installed: GuardsInstalled, toggled: frozenset[str], where: Places, width: int) -> Iterable[Part]:
    name = f"guards {installed.graph}"
    readable = _in_order([guard for guard in installed.guards if not guard.structural])
    parameters = [guard for guard in readable if is_parameter(guard)]
    opened = name not in toggled
    cost = "" if installed.latency_us is None else f"  first check {installed.latency_us:.0f} µs"
    number = count(len(installed.guards), "guard")
    meaning = explain_compile_id(installed.graph)
    facts = (f"  {number}{cost}", "muted")
    yield fixed([fold(name, opened, (installed.graph, "title"), facts, indent=0, meaning=meaning)])
    if not opened:
        return
    others = [guard for guard in readable if not is_parameter(guard)]
    yield _rows(installed.graph, others, toggled, where, width)
    structural = [guard for guard in installed.guards if guard.structural]
    yield from _folded("parameters", installed.graph, parameters, toggled, where, width)
    yield from _folded("structural", installed.graph, structural, toggled, where, width)


def _folded(
    kind: FoldKind, graph: str, guards: Sequence[Guard], toggled: frozenset[str], where: Places, width: int
) -> Iterable[Part]:
    """Yield a fold with guards that change with the model, not with the call; nothing without any."""
    if not guards:
        return
    name = _fold_name(kind, graph)
    opened = name in toggled
    title = (f"{count(len(guards), 'structural guard')} on modules and torch itself" if kind == "structural"
             else f"{count(len(guards), 'guard')} on parameters and buffers", "muted")  # fmt: skip
    hidden = () if opened else tuple(guard_link(graph, guard) for guard in guards)
    yield fixed([fold(name, opened, title, hides=hidden)])
    if opened:
        yield _rows(graph, guards, toggled, where, width, style="dim")


def folds_of(snapshot: Snapshot, links: Collection[Link]) -> frozenset[str]:
    """Return the folds that these guards are in."""
    return frozenset(
        _fold_name("structural" if guard.structural else "parameters", installed.graph)
        for installed in snapshot.guards
        for guard in installed.guards
        if (guard.structural or is_parameter(guard)) and guard_link(installed.graph, guard) in links
    )


def _fold_name(kind: FoldKind, graph: str) -> str:
    return f"{kind} of guards {graph}"


def _in_order(guards: Sequence[Guard]) -> list[Guard]:
    """Return input tensors in their own order, then other values by line, then global state."""
    files = {guard.location.file: number for number, guard in reversed([*enumerate(guards)]) if guard.location}

    def key(guard: Guard) -> tuple[bool, bool, int, int]:
        at, is_input = guard.location, guard.kind == "TENSOR_MATCH" and not is_parameter(guard)
        line = (0, 0) if is_input else (files[at.file], at.line) if at else (len(guards), 0)
        return not is_input, not guard.source, *line

    return sorted(guards, key=key)


def is_parameter(guard: Guard) -> bool:
    """Return whether a guard checks a parameter or buffer, which changes with the model, not with the call."""
    return guard.kind == "TENSOR_MATCH" and ("._parameters[" in guard.source or "._buffers[" in guard.source)


class _Alike(NamedTuple):
    """Guards that check the same of equal layers, as one: its numbers that differ are `*`."""

    guard: Guard
    guards: tuple[Guard, ...]


def _rows(
    graph: str, guards: Sequence[Guard], toggled: frozenset[str], where: Places, width: int, style: str = ""
) -> Part:
    """Return the rows of guards, those of equal layers as one that opens."""
    shown: list[tuple[Guard, tuple[str, tuple[Guard, ...]] | None]] = []
    for alike in _grouped(guards):
        name = f"alike {graph} {value_of(alike.guard)} {alike.guard.summary}"
        shown.append((alike.guard, (name, alike.guards) if len(alike.guards) > 1 else None))
        if len(alike.guards) > 1 and name in toggled:
            shown += [(guard, None) for guard in alike.guards]
    # Names give way to conditions and lines: they are told apart by their ends.
    rooms = [_name_room(guard, where, width) for guard, _ in shown]
    names = [len(value_of(guard)) for guard, _ in shown]
    cut = (room for room, name in zip(rooms, names, strict=True) if name > room >= _COLUMN_NAME)
    wide = min(max(names, default=0), _MOST_NAME, *cut)

    def build(index: int) -> Row:
        guard, group = shown[index]
        own = max(rooms[index], _LEAST_NAME)  # a long condition takes cells from the name in its own row only
        plain = _guard(graph, guard, where, min(wide, own), style, width)
        return plain if group is None else _group(graph, plain, *group, opened=group[0] in toggled)

    return Part(len(shown), build)


def _group(graph: str, first: Row, name: str, guards: tuple[Guard, ...], *, opened: bool) -> Row:
    """Return the row of the first of equal guards as a fold of them all."""
    lead, *rest = first.spans
    kept = first.kept or 1
    spans = (
        Span(f" {'▾' if opened else '▸'} ", "key"), Span(lead.text[3:], lead.style), *rest[: kept - 1],
        Span(f"  ×{len(guards)}", "number"), *rest[kept - 1 :],
    )  # fmt: skip
    links = tuple(guard_link(graph, guard) for guard in guards)
    return first._replace(
        spans=spans, fold=name, kept=kept + 2, links=(*links, *first.links[1:]), hides=() if opened else links,
        inside=None if opened else lambda: "\n".join(f"{value_of(guard)} {guard.summary}" for guard in guards),
    )  # fmt: skip


def _grouped(guards: Iterable[Guard]) -> Iterator[_Alike]:
    """Yield the guards in their order, those of equal layers together, if they are at least `_LEAST_ALIKE`.

    Those with another value for each layer, as its index, are told apart from those with the same value first.
    """
    alone = [(guard,) for guard in guards]
    same = _merged(alone, lambda guard: (_starred(value_of(guard)), guard.summary or guard.code))
    for group in _merged(same, lambda guard: (_starred(value_of(guard)), _starred(guard.summary, value_of(guard)))):
        yield _Alike(_named_for_all(group), group) if len(group) > 1 else _Alike(group[0], group)


def _merged(groups: Iterable[tuple[Guard, ...]], key: Callable[[Guard], object]) -> list[tuple[Guard, ...]]:
    """Return the groups; single guards of the same kind, line and key are one group if they are enough."""
    merged: dict[object, tuple[Guard, ...]] = {}
    for number, group in enumerate(groups):
        guard = group[0]
        own: object = number if len(group) > 1 else (guard.kind, guard.location, key(guard))
        merged[own] = (*merged.get(own, ()), *group)
    return [
        each for group in merged.values()
        for each in ((group,) if len(group) >= _LEAST_ALIKE else tuple((guard,) for guard in group))
    ]  # fmt: skip


_LEAST_ALIKE = 3
"""Guards of equal layers that are worth a row for all."""

_NUMBER = re.compile(r"(?<=[.\[])\d+(?=[.\]]|$)")
"""A number in the path of a module: a layer."""


def _starred(text: str, name: str = "") -> str:
    """Return the text with the numbers of layers as `*`, also those that are a number in `name`."""
    numbers = set(_NUMBER.findall(name))
    text = _NUMBER.sub("*", text)
    return re.sub(r"(?<![\w.])\d+(?![\w.])", lambda number: "*" if number[0] in numbers else number[0], text)


def _named_for_all(guards: tuple[Guard, ...]) -> Guard:
    """Return the first guard with `*` in the place of each number that differs from one guard to the next."""

    def joined(texts: list[str]) -> str:
        pieces = [re.split(r"(\d+)", text) for text in texts]
        if len({len(each) for each in pieces}) > 1:
            return _starred(texts[0])
        return "".join(each[0] if len(set(each)) == 1 else "*" for each in zip(*pieces, strict=True))

    first = guards[0]
    summary = joined([guard.summary for guard in guards]) if first.summary else ""
    return replace(first, name=joined([value_of(guard) for guard in guards]) if first.source else "", summary=summary)


def _name_room(guard: Guard, where: Places, width: int) -> int:
    """Return the cells that the condition and the line of a guard leave for its name."""
    place = _place(guard, where, width)
    beside = len(place) if len(place) <= _SHORT_PLACE else 0  # the name of another file gives way to the name
    return width - 4 - beside - sum(len(span.text) for span in _condition(guard, "")[0])


def _place(guard: Guard, where: Places, width: int) -> str:
    """Return the line of a guard, in a narrow view without the folders of another file."""
    if guard.location is None:
        return ""
    place = where.describe(guard.location)
    return f"  {place if len(place) <= _SHORT_PLACE or width >= _WIDE else where.abbreviate(guard.location)}"


def _guard(graph: str, guard: Guard, where: Places, wide: int, style: str, width: int) -> Row:
    source = value_of(guard)
    condition, device = _condition(guard, style)
    cut = _tail(source, wide) if guard.source else shortened(source, wide)
    kept = (Span(f"   {cut:<{wide}} ", style or "guard"), *condition)
    place = Span(_place(guard, where, width), "muted")
    spans = (*kept, place, *device, *(Span(*detail(guard)) for detail in _DETAILS))
    links: tuple[Link, ...] = (guard_link(graph, guard),)
    links += line_links(guard.location)
    return Row(spans, links, guard.location, copy=" and ".join(guard.code) or None, kept=len(kept))


_MOST_NAME, _COLUMN_NAME, _LEAST_NAME = 32, 16, 10
"""Most cells of what a guard checks, fewest that its column has, and fewest where a long condition follows."""

_SHORT_PLACE, _WIDE = 12, 60
"""Cells of a place that has room in any view, and of a view that has room for the path of another file."""

_DETAILS: tuple[Callable[[Guard], tuple[str, str]], ...] = (
    lambda guard: (f"  {guard.kind}", "dim"),
    lambda guard: (f"  {' and '.join(guard.code)}" if guard.summary and guard.code else "", "dim"),
    lambda guard: (f"  # {guard.user_code}" if guard.user_code else "", "comment"),
)


def _condition(guard: Guard, style: str) -> tuple[Sequence[Span], Sequence[Span]]:
    """Return the readable form with dynamic dimensions marked, or else the code; then the device of a tensor."""
    condition = guard.summary or " and ".join(guard.code) or guard.kind
    if not guard.summary or guard.kind != "TENSOR_MATCH" or "[" not in condition:
        return (Span(condition, style),), ()
    head, _, rest = condition.partition("[")
    sizes, closing, tail = rest.partition("]")
    spans = [Span(f"{head}[", style or "dtype")]
    dynamic: list[str] = []
    for index, size in enumerate(sizes.split(", ")):
        spans.append(Span(", " if index else "", style))
        dynamic += [size] if size and not size.lstrip("-").isdigit() else []
        spans.append(Span(size, "warn" if size in dynamic else style or "shape"))
    condition = f"  {', '.join(dynamic)} dynamic" if dynamic else ""
    return (*spans, Span(closing, style or "dtype"), Span(condition, "warn")), (Span(f" {tail}", style or "muted"),)


def value_of(guard: Guard) -> str:
    """Return what a guard checks, as in the list of guards."""
    return name_carried(guard.name or guard.source or guard.kind)


def _tail(text: str, room: int) -> str:
    """Return the end of a source expression, the part that differs from its neighbors."""
    return text if len(text) <= room else "…" + text[len(text) - room + 1 :]


# ---- the cost of guards, and guard filters: what each gains, and what it makes unsafe


UNSAFE = {
    "skip_guard_on_inbuilt_nn_modules_unsafe": "a change in torch's own layers after the compile, such as train() or "
    "another dropout, goes unnoticed",
    "skip_guard_on_all_nn_modules_unsafe": "a change of any attribute of a module after the compile goes unnoticed",
    "skip_guard_on_globals_unsafe": "a change of a global variable after the compile goes unnoticed",
    "keep_tensor_guards_unsafe": "any change except of the input tensors' shape, stride, dtype or device goes "
    "unnoticed: values, modules, globals, grad mode",
    "skip_all_guards_unsafe": "any change goes unnoticed, also of shape or dtype: the call may read wrong memory",
    SKIP_GUARD_EVAL: "after the warm-up, an input that needs another graph runs a wrong one",
}
"""Risk of each filter, as text."""


def guard_filter_rows(run: Snapshot, width: int) -> Iterator[Row]:
    """Yield the cost of guards, and the filters that were tried, or how to try them; nothing if guards cost little."""
    cost = guard_cost(run)
    expensive = cost is not None and not cost.cold and cost.shares[0] >= VISIBLE_GUARD_SHARE
    if not expensive and not run.guard_filters:
        return
    for text, style in _sentences(run):
        yield from wrapped(text, width, style, links=(GUARD_FILTERS_LINK,))
    if not run.guard_filters and not run.is_script:
        text = f"{hint('fix')} here tries each, and compares its results with eager's."
        yield from wrapped(text, width, "muted", links=(GUARD_FILTERS_LINK,), keys_only=True)
    yield BLANK


def _sentences(run: Snapshot) -> Iterator[tuple[str, str]]:
    if (cost := guard_cost(run)) is not None:
        yield describe_guard_cost(cost), "warn" if cost.share >= VISIBLE_GUARD_SHARE else "muted"
    for tried in run.guard_filters:
        yield describe_guard_filter(tried), "ok" if _gains(tried) else "muted"
        if _gains(tried):
            yield f"  {filter_code(tried.name)}", "code.python"
    if not run.guard_filters:
        yield "torch's guard filters drop some of the checks: `tcexplore modes` tries them.", "muted"


def describe_guard_cost(cost: GuardCost) -> str:
    """Return the time of guards as a sentence."""
    if cost.disturbed:
        low, high = cost.shares
        between = f"between {low:.0%} and {high:.0%} of a compiled call"
        return f"What checking guards costs is unclear: {between}, measured while other programs ran."
    check = "The first, cold check of the guards" if cost.cold else "Checking guards"
    return f"{check} takes {duration(cost.us / 1e6)}, {cost.share:.0%} of a compiled call."


def _gains(tried: GuardFilterTried) -> bool:
    return not tried.wrong and tried.decided and tried.low > 1


def filter_code(name: str) -> str:
    """Return the code that applies a filter."""
    if name == SKIP_GUARD_EVAL:
        return "torch.compiler.set_stance('default', skip_guard_eval_unsafe=True)  # after the first calls"
    return f"torch.compile(model, options={{'guard_filter_fn': torch.compiler.{name}}})"


def describe_guard_filter(tried: GuardFilterTried) -> str:
    """Return the gain of a filter and its risk as a sentence."""
    name, unsafe = tried.name, UNSAFE.get(tried.name, "what the dropped guards check goes unnoticed")
    if tried.wrong:
        return f"{name}: the result is wrong."
    if not tried.speed:
        return f"{name}: not timed. Unsafe: {unsafe}."
    interval = f"{tried.speed:.2f}× the speed {factor_range(tried.low, tried.high)}"
    if not tried.decided:
        gain = f"undecided because of noise ({interval})"
    else:
        gain = interval if tried.low > 1 else f"no certain gain ({interval})"
    return f"{name}: {gain}. Unsafe: {unsafe}."
