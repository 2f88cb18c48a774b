"""The symbols view: each symbolic size, what it stands for, its range, and where it was specialized."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from tcexplore import events as ev
from tcexplore.documents.document import Parts, Row, fixed
from tcexplore.documents.empty_states import empty_part, missing_rows
from tcexplore.documents.guards.recompile_rows import name_carried
from tcexplore.documents.line_facts import broken_expression
from tcexplore.documents.locations import Places, places
from tcexplore.documents.prose import BLANK, fold, row, wrapped
from tcexplore.events import (
    GraphSymbols,
    Specialization,
    Symbol,
    SymbolCondition,
    SymbolSource,
    ZeroOneSpecialization,
)
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.links import line_links
from tcexplore.session.recompile_fixes import (
    ATTRIBUTE,
    BREAK,
    BUCKETS,
    DYNAMIC,
    MARK_DYNAMIC,
    MARK_UNBACKED,
    TENSOR,
    TOGETHER,
    UNSPEC_INT,
    RecompileFix,
    recompile_fixes,
)

_NO_BOUND = ("int_oo", "-int_oo", "oo", "-oo")
_AT_LEAST_TWO = 2


STATIC = (
    "All sizes are static. torch makes a size symbolic when it first changes (automatic dynamic shapes), with "
    "dynamic=True, or with mark_dynamic. The symbols appear here."
)
EMPTY_TEXT = "The symbolic sizes of the compiled code appear here, with their range and origin."


def symbols_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """Return the document of the view."""
    fixes = list(_fix_rows(snapshot, width))
    rows = [r for graph in snapshot.symbols for r in (*_graph(graph, toggled, places(snapshot.file), width), BLANK)]
    absent = fixed(missing_rows(snapshot, (ev.RunFact.SYMBOLIC_SIZES,), width))
    if not rows:
        empty_text = STATIC if snapshot.complete and snapshot.compiled else EMPTY_TEXT
        return Parts("", [empty_part(snapshot, width, empty_text), fixed([BLANK, *fixes] if fixes else []), absent])
    known = {(s.name, s.sources) for graph in snapshot.symbols for s in graph.symbols}
    return Parts(count(len(known), "symbol"), [fixed(fixes), fixed(rows), absent])


def _fix_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    last: tuple[str, int | None, tuple[str, ...]] | None = None
    for fix in filter(lambda fix: fix.helps, recompile_fixes(snapshot)):
        links = line_links(fix.location)
        if (fix.name, fix.dim, fix.graphs) != last:
            last = fix.name, fix.dim, fix.graphs
            name = name_carried(fix.name) if fix.dim is None else f"{fix.name}.size({fix.dim})"
            name = name or "several causes"
            values = f" was {', '.join(fix.values)}" if len(fix.values) > 1 else ""
            yield row(
                (f" {name}", "guard"),
                (f"{values}: ways to avoid recompiles", "muted"),
                links=links,
                location=fix.location,
            )
        yield from wrapped(
            describe_fix(fix, snapshot.file), width, indent=3, lead="· ", links=links, location=fix.location
        )
    if useless := describe_useless(recompile_fixes(snapshot)):
        yield from wrapped(useless, width, "muted", indent=1)
        yield BLANK
    elif last is not None:
        yield BLANK


def _graph(graph: GraphSymbols, toggled: frozenset[str], where: Places, width: int) -> Iterator[Row]:
    yield row((f" {graph.graph}", "title"), (f"  {count(len(graph.symbols), 'symbol')}", "muted"))
    for symbol in graph.symbols:
        yield from _symbol(graph.graph, symbol, toggled, where, width)
    for fixed_one in graph.zero_one:
        yield from wrapped(describe_zero_one(fixed_one), width, "warn", indent=3)


def _symbol(graph: str, symbol: Symbol, toggled: frozenset[str], where: Places, width: int) -> Iterator[Row]:
    name = f"symbol {graph} {symbol.name}"
    opened = name in toggled
    value = format_hint(symbol)
    hint = f"  traced with {value}" if value and not symbol.specialized else ""
    extent = "" if symbol.specialized else f"  {format_range(symbol)}"
    made = f"  {where.describe(symbol.location)}" if symbol.location else ""
    yield fold(name, opened, (symbol.name, "warn"), f"  {describe_symbol(symbol)}", (extent, "shape"), (hint, "muted"),
               (made, "muted"), indent=3, location=symbol.location)  # fmt: skip
    for special in symbol.specialized:
        yield _specialized(special, where)
    if opened:
        yield from _opened(symbol, where, width)


def _specialized(special: Specialization, where: Places) -> Row:
    where_made = f"  {where.describe(special.location)}"
    return row(("     ✖ ", "break"), (f"specialized to {special.value}", "break"),
               (f"  {special.reason}" if special.reason else "", "shape"), (where_made,
                                                                            "muted"),
               (f"  {special.user_code}" if special.user_code else "", "comment"), location=special.location,
               links=line_links(special.location))  # fmt: skip


def _opened(symbol: Symbol, where: Places, width: int) -> Iterator[Row]:
    for note in explain_symbol(symbol):
        yield from wrapped(note, width, "muted", indent=7)
    for condition in symbol.conditions:
        yield row("       ", (condition.code, "shape"), (f"  {_required_by(condition, where)}", "muted"),
                  (f"  {condition.user_code}" if condition.user_code else "", "comment"), location=condition.location,
                  links=line_links(condition.location))  # fmt: skip
    if not symbol.conditions and not symbol.specialized and not explain_symbol(symbol):
        yield from wrapped("No guard checks it: any value matches.", width, "muted", indent=7)


def format_source(source: SymbolSource) -> str:
    """Return `x.size(0)`, `x.stride(1)`, `lr`."""
    return source.name if source.dim is None else f"{source.name}.{source.kind}({source.dim})"


def format_range(symbol: Symbol) -> str:
    """Return the range: `any number`, `any float`, `at least 2`, `2 to 64`, `only 6`."""
    low, high = symbol.lower, symbol.upper
    if low in _NO_BOUND and high in _NO_BOUND:
        return "any float" if _is_float(symbol) else "any number"
    if low == high:
        return f"only {low}"
    if high in _NO_BOUND:
        return f"at least {low}"
    return f"at most {high}" if low in _NO_BOUND else f"{low} to {high}"


def format_hint(symbol: Symbol) -> str:
    """Return the value the symbol had during tracing, as Python writes it."""
    return f"{float(symbol.hint):g}" if _is_float(symbol) and symbol.hint else symbol.hint


def _is_float(symbol: Symbol) -> bool:
    """Return whether the symbol stands for a Python float, which is a tensor in the graph."""
    return symbol.name.startswith("z")


def describe_symbol(symbol: Symbol) -> str:
    """Return what the symbol stands for."""
    names = [format_source(source) for source in symbol.sources]
    if symbol.unbacked and not names:
        return "unbacked: depends on data"
    if symbol.unbacked:
        return f"unbacked, for {' and '.join(names)}: no assumption about the size, not even for 0 or 1"
    return " = ".join(names) or "a value chosen by torch"


def explain_symbol(symbol: Symbol) -> list[str]:
    """Return which of torch's rules apply: 0/1 specialization, duck shaping."""
    sentences = []
    sizes = [source for source in symbol.sources if source.kind == "size"]
    if not symbol.unbacked and sizes and symbol.lower == str(_AT_LEAST_TWO):
        sentences.append("0/1 specialization: sizes 0 and 1 are compiled separately, so the range starts at 2.")
    if len(symbol.sources) > 1:
        names = ", ".join(format_source(source) for source in symbol.sources)
        sentences.append(
            f"Duck shaping: {names} were equal at compile time, so they share one symbol. A call in which they differ "
            "recompiles."
        )
    return sentences


def describe_zero_one(fixed_size: ZeroOneSpecialization) -> str:
    """Return why a dynamic dimension is static anyway."""
    return (
        f"{format_source(fixed_size.source)} is dynamic, but was {fixed_size.value} at compile time: torch always "
        "specializes sizes 0 and 1."
    )


def describe_fix(fix: RecompileFix, file: str) -> str:
    """Return the code to write and its effect, as measured or not tried."""
    text = _DESCRIPTIONS[fix.kind](fix, file)
    if not fix.tried:
        later = f" The same size compiles {', '.join(fix.after_breaks)} again, after a break." * bool(fix.after_breaks)
        return text if fix.kind == BREAK else f"{text}{later} Not tried."
    if not fix.compiles_less:
        return f"{text} Tried: {fix.problem or 'it avoids no recompile'}."
    return f"{text} Tried: {fix.graphs_before} → {count(fix.graphs_after or 0, 'compile')}."


def describe_useless(fixes: Sequence[RecompileFix]) -> str:
    """Return which changes were tried and avoid nothing; empty if there are none."""
    names = dict.fromkeys(_short_name(fix) for fix in fixes if not fix.helps)
    return f"Tried without effect: {', '.join(names)}." if names else ""


def _short_name(fix: RecompileFix) -> str:
    if fix.kind == DYNAMIC:
        return "dynamic=True"
    if fix.kind == UNSPEC_INT:
        return "allow_unspec_int_on_nn_module"
    size = "" if fix.dim is None else f", {fix.dim}"
    return f"{fix.name} as a tensor" if fix.kind in (TENSOR, ATTRIBUTE) else f"{fix.kind}({fix.name}{size})"


def _mark_dynamic(fix: RecompileFix, file: str) -> str:
    marks = "; ".join(
        f"torch._dynamo.mark_dynamic({name}, {dim})" for name, dim in ((fix.name, fix.dim), *fix.other_sizes)
    )
    together = " Sizes that must be equal have to be marked together." * bool(fix.other_sizes)
    sizes = "all sizes of at least 2" if fix.limited is None else f"sizes from {format_range(fix.limited)}"
    larger = f" {_describe_limit(fix.limited, file)}" if fix.limited is not None else ""
    return (
        f"{marks} before the call: one graph for {sizes}, from the first compile.{larger} It raises an error if the "
        f"code specializes the size.{together}"
    )


def _describe_limit(symbol: Symbol, file: str) -> str:
    """Return why a graph does not hold for larger sizes, and that these are compiled again."""
    condition = next((one for one in symbol.conditions if str(_largest(one, symbol)) == symbol.upper), None)
    if condition is None:
        return "Larger ones compile again."
    required_by = _required_by(condition, places(file))
    return f"Larger ones compile again: the graph needs {condition.code}{f' ({required_by})' if required_by else ''}."


_UPPER_BOUND = re.compile(r"(?:(?P<factor>\d+)\*)?(?P<name>\w+) (?P<relation><=?) (?P<limit>\d+)")


def _largest(condition: SymbolCondition, symbol: Symbol) -> int | None:
    """Return the largest size that fulfills a condition such as `128*s77 <= 4096`; None for any other form."""
    match = _UPPER_BOUND.fullmatch(condition.code)
    if match is None or match["name"] != symbol.name:
        return None
    return (int(match["limit"]) - (match["relation"] == "<")) // int(match["factor"] or 1)


def _required_by(condition: SymbolCondition, where: Places) -> str:
    return where.describe(condition.location) if condition.location else condition.library_place


def _dynamic(_: RecompileFix, __: str) -> str:
    return "torch.compile(..., dynamic=True), or --dynamic true: every size is symbolic from the first compile."


def _mark_unbacked(fix: RecompileFix, _: str) -> str:
    return (
        f"torch._dynamo.decorators.mark_unbacked({fix.name}, {fix.dim}): one graph, also for sizes 0 and 1. It raises "
        "an error if the code branches on the size."
    )


def _buckets(fix: RecompileFix, file: str) -> str:
    sizes = f" ({', '.join(fix.values)} so far)" if len(fix.values) > 1 else ""
    padded = f"Pad dimension {fix.dim} of {fix.name} to a few sizes{sizes}: one graph for each."
    if fix.blocked_by is None:
        return padded
    where = places(file).describe(fix.blocked_by.location)
    return (
        f"{where or 'The code'} specializes it to {fix.blocked_by.value} (`{fix.blocked_by.reason}`), which rules out "
        f"a dynamic size. {padded}"
    )


def _break(fix: RecompileFix, file: str) -> str:
    expression = broken_expression(fix.graph_break) if fix.graph_break else ""
    where = " ".join(filter(None, (places(file).describe(fix.location), f"(`{expression}`)" if expression else "")))
    return f"Remove the break at {where}: a value that stays in the graph is not guarded."


def _tensor(fix: RecompileFix, _: str) -> str:
    return (
        f"Pass {fix.name} as a tensor, torch.tensor({fix.values[0] if fix.values else '...'}): its value is not "
        "guarded. A float recompiles when it first changes."
    )


def _attribute(fix: RecompileFix, _: str) -> str:
    return f"Make {fix.name} a tensor where the module creates it: its value is not guarded."


def _unspec_int(_: RecompileFix, __: str) -> str:
    return "torch._dynamo.config.allow_unspec_int_on_nn_module = True: integers of modules may be dynamic."


def _together(fix: RecompileFix, _: str) -> str:
    """Return all parts as one line of code."""
    parts = {
        MARK_DYNAMIC: "torch._dynamo.mark_dynamic({0.name}, {0.dim})",
        MARK_UNBACKED: "torch._dynamo.decorators.mark_unbacked({0.name}, {0.dim})",
        DYNAMIC: "torch.compile(..., dynamic=True)",
        TENSOR: "{0.name} as a tensor",
        ATTRIBUTE: "{0.name} as a tensor",
        UNSPEC_INT: "torch._dynamo.config.allow_unspec_int_on_nn_module = True",
    }
    return f"Together: {'; '.join(dict.fromkeys(parts[part.kind].format(part) for part in fix.parts))}."


_DESCRIPTIONS: dict[str, Callable[[RecompileFix, str], str]] = {
    MARK_DYNAMIC: _mark_dynamic, DYNAMIC: _dynamic, MARK_UNBACKED: _mark_unbacked, BUCKETS: _buckets, TENSOR: _tensor,
    BREAK: _break, ATTRIBUTE: _attribute, UNSPEC_INT: _unspec_int, TOGETHER: _together,
}  # fmt: skip
