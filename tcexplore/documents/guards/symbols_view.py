"""The symbols view: each symbolic size, what it stands for, its range, and where it was specialized."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tcexplore.documents.document import Row
from tcexplore.documents.document_parts import Parts, fixed
from tcexplore.documents.empty_states import empty_part, missing_rows
from tcexplore.documents.locations import Places, at, places
from tcexplore.documents.prose import BLANK, fold, row, wrapped
from tcexplore.events import GraphSymbols, Specialization, Symbol, SymbolSource, ZeroOneSpecialization
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.links import line_link
from tcexplore.session.recompile_fixes import (
    BUCKETS,
    DYNAMIC,
    MARK_DYNAMIC,
    MARK_UNBACKED,
    TENSOR,
    RecompileFix,
    recompile_fixes,
)

_NO_BOUND = ("int_oo", "-int_oo", "oo", "-oo")
_AT_LEAST_TWO = 2


STATIC = (
    "Every size was compiled as a number. torch makes a size a symbol when it changes for the first time (automatic "
    "dynamic shapes), with dynamic=True, or where mark_dynamic says so; the symbols stand here then."
)
TEACHES = (
    "Sizes that the compiled code leaves open will stand here as symbols, with their range and where they are from."
)


def symbols_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """The document of the view."""
    cures = list(_cures(snapshot, width))
    rows = [r for graph in snapshot.symbols for r in (*_graph(graph, toggled, places(snapshot.file), width), BLANK)]
    absent = fixed(missing_rows(snapshot, ("symbolic sizes",), width))
    if not rows:
        teaches = STATIC if snapshot.complete and snapshot.compiled else TEACHES
        return Parts("", [empty_part(snapshot, width, teaches), fixed([BLANK, *cures] if cures else []), absent])
    known = {(s.name, s.sources) for graph in snapshot.symbols for s in graph.symbols}
    return Parts(count(len(known), "symbol"), [fixed(cures), fixed(rows), absent])


def _cures(snapshot: Snapshot, width: int) -> Iterator[Row]:
    last: tuple[str, int | None] | None = None
    for cure in recompile_fixes(snapshot):
        links = (line_link(cure.location),) if cure.location else ()
        if (cure.name, cure.dim) != last:
            last = cure.name, cure.dim
            name = cure.name if cure.dim is None else f"{cure.name}.size({cure.dim})"
            values = f" was {', '.join(cure.values)}" if len(cure.values) > 1 else ""
            yield row((f" {name}", "guard"), (f"{values}: what helps", "muted"), links=links, location=cure.location)
        yield from wrapped(
            describe_fix(cure, snapshot.file), width, indent=3, lead="· ", links=links, location=cure.location
        )
    if last is not None:
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
    return row(("     ✖ ", "break"), (f"specialized to {special.value}", "break"),
               (f"  {special.reason}" if special.reason else "", "shape"), (f"  {where.describe(special.location)}",
                                                                            "muted"),
               (f"  {special.user_code}" if special.user_code else "", "comment"), location=special.location,
               links=(line_link(special.location),) if special.location else ())  # fmt: skip


def _opened(symbol: Symbol, where: Places, width: int) -> Iterator[Row]:
    for note in explain_symbol(symbol):
        yield from wrapped(note, width, "muted", indent=7)
    for condition in symbol.conditions:
        yield row("       ", (condition.code, "shape"), (f"  {where.describe(condition.location)}", "muted"),
                  (f"  {condition.user_code}" if condition.user_code else "", "comment"), location=condition.location,
                  links=(line_link(condition.location),) if condition.location else ())  # fmt: skip
    if not symbol.conditions and not symbol.specialized and not explain_symbol(symbol):
        yield from wrapped("No guard looks at it: any value will do.", width, "muted", indent=7)


def format_source(source: SymbolSource) -> str:
    """`x.size(0)`, `x.stride(1)`, `lr`."""
    return source.name if source.dim is None else f"{source.name}.{source.kind}({source.dim})"


def format_range(symbol: Symbol) -> str:
    """The range: `any number`, `any float`, `from 2 on`, `2 to 64`, `only 6`."""
    low, high = symbol.lower, symbol.upper
    if low in _NO_BOUND and high in _NO_BOUND:
        return "any float" if _is_float(symbol) else "any number"
    if low == high:
        return f"only {low}"
    if high in _NO_BOUND:
        return f"from {low} on"
    return f"up to {high}" if low in _NO_BOUND else f"{low} to {high}"


def format_hint(symbol: Symbol) -> str:
    """The value that it was traced with, as Python writes it."""
    return f"{float(symbol.hint):g}" if _is_float(symbol) and symbol.hint else symbol.hint


def _is_float(symbol: Symbol) -> bool:
    """Whether it stands for a Python float, which became a tensor of the graph."""
    return symbol.name.startswith("z")


def describe_symbol(symbol: Symbol) -> str:
    """What it stands for, in a sentence."""
    names = [format_source(source) for source in symbol.sources]
    if symbol.unbacked and not names:
        return "unbacked: data that is not known while compiling"
    if symbol.unbacked:
        return f"unbacked, for {' and '.join(names)}: nothing was assumed of its size, not even 0 or 1"
    return " = ".join(names) or "a value that torch made up"


def explain_symbol(symbol: Symbol) -> list[str]:
    """What torch's rules made of it: 0/1 specialization, duck shaping."""
    sentences = []
    sizes = [source for source in symbol.sources if source.kind == "size"]
    if not symbol.unbacked and sizes and symbol.lower == str(_AT_LEAST_TWO):
        sentences.append("0/1 specialization: sizes 0 and 1 get code of their own, so that it starts at 2.")
    if len(symbol.sources) > 1:
        names = ", ".join(format_source(source) for source in symbol.sources)
        sentences.append(
            f"Duck shaping: {names} were equal when it was compiled, so they share one symbol. A call in which they "
            "differ is compiled again."
        )
    return sentences


def describe_zero_one(fixed_size: ZeroOneSpecialization) -> str:
    """Why a dynamic dimension is a number all the same."""
    return (
        f"{format_source(fixed_size.source)} is dynamic, but was {fixed_size.value} when it was compiled: sizes 0 and 1 are always "
        "specialized, for they broadcast, and decide about layouts."
    )


def describe_fix(cure: RecompileFix, file: str) -> str:
    """What to write, and what it does."""
    return _SAID[cure.kind](cure, file)


def _mark_dynamic(cure: RecompileFix, _: str) -> str:
    marks = "; ".join(
        f"torch._dynamo.mark_dynamic({name}, {dim})" for name, dim in ((cure.name, cure.dim), *cure.other_sizes)
    )
    together = " They change together: where they have to be equal, one marked alone is an error too." * bool(
        cure.other_sizes
    )
    return (
        f"{marks} before the call: one graph for every size from 2 on, from the first compile. It is an error if the "
        f"code specializes the size.{together}"
    )


def _dynamic(_: RecompileFix, __: str) -> str:
    return "torch.compile(..., dynamic=True), --dynamic on here: every size is a symbol from the first compile on."


def _mark_unbacked(cure: RecompileFix, _: str) -> str:
    return (
        f"torch._dynamo.decorators.mark_unbacked({cure.name}, {cure.dim}): one graph for sizes 0 and 1 too. It is an "
        "error where the code decides something by the size."
    )


def _buckets(cure: RecompileFix, file: str) -> str:
    sizes = f" ({', '.join(cure.values)} so far)" if len(cure.values) > 1 else ""
    padded = f"Pad {cure.name} in dimension {cure.dim} to a short list of sizes{sizes}: one graph for each of them."
    if cure.blocked_by is None:
        return padded
    where = at(cure.blocked_by.location, file)
    return (
        f"{where or 'The code'} makes it the number {cure.blocked_by.value} (`{cure.blocked_by.reason}`), so a dynamic "
        f"size does not help as long as it does. {padded}"
    )


def _tensor(cure: RecompileFix, _: str) -> str:
    return (
        f"Pass {cure.name} as a tensor, torch.tensor({cure.values[0] if cure.values else '...'}): its value is not "
        "guarded. As a float it is compiled once more when it first changes."
    )


_SAID: dict[str, Callable[[RecompileFix, str], str]] = {
    MARK_DYNAMIC: _mark_dynamic, DYNAMIC: _dynamic, MARK_UNBACKED: _mark_unbacked, BUCKETS: _buckets, TENSOR: _tensor,
}  # fmt: skip
