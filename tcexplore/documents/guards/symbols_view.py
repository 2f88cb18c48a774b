"""The symbols view: each symbolic size, what it stands for, its range, and where it was specialized."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents import symbols_text as words
from tcexplore.documents.document import Row
from tcexplore.documents.document_parts import Parts, fixed
from tcexplore.documents.empty_states import empty_part, missing_rows
from tcexplore.documents.location_text import Places, places
from tcexplore.documents.prose import BLANK, fold, row, wrapped
from tcexplore.documents.recompile_fixes_text import describe_fix
from tcexplore.events import Specialized, Symbol, SymbolsFound
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.links import line_link
from tcexplore.session.recompile_fixes import shape_cures

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
    rows = [r for found in snapshot.symbols for r in (*_graph(found, toggled, places(snapshot.file), width), BLANK)]
    absent = fixed(missing_rows(snapshot, ("symbolic sizes",), width))
    if not rows:
        teaches = STATIC if snapshot.complete and snapshot.compiled else TEACHES
        return Parts("", [empty_part(snapshot, width, teaches), fixed([BLANK, *cures] if cures else []), absent])
    known = {(s.name, s.sources) for found in snapshot.symbols for s in found.symbols}
    return Parts(count(len(known), "symbol"), [fixed(cures), fixed(rows), absent])


def _cures(snapshot: Snapshot, width: int) -> Iterator[Row]:
    last: tuple[str, int | None] | None = None
    for cure in shape_cures(snapshot):
        links = (line_link(cure.location),) if cure.location else ()
        if (cure.what, cure.dim) != last:
            last = cure.what, cure.dim
            name = cure.what if cure.dim is None else f"{cure.what}.size({cure.dim})"
            values = f" was {', '.join(cure.values)}" if len(cure.values) > 1 else ""
            yield row((f" {name}", "guard"), (f"{values}: what helps", "muted"), links=links, location=cure.location)
        yield from wrapped(
            describe_fix(cure, snapshot.file), width, indent=3, lead="· ", links=links, location=cure.location
        )
    if last is not None:
        yield BLANK


def _graph(found: SymbolsFound, toggled: frozenset[str], where: Places, width: int) -> Iterator[Row]:
    yield row((f" {found.graph}", "title"), (f"  {count(len(found.symbols), 'symbol')}", "muted"))
    for symbol in found.symbols:
        yield from _symbol(found.graph, symbol, toggled, where, width)
    for fixed_one in found.zero_one:
        yield from wrapped(words.describe_zero_one(fixed_one), width, "warn", indent=3)


def _symbol(graph: str, symbol: Symbol, toggled: frozenset[str], where: Places, width: int) -> Iterator[Row]:
    name = f"symbol {graph} {symbol.name}"
    opened = name in toggled
    value = words.format_hint(symbol)
    hint = f"  traced with {value}" if value and not symbol.specialized else ""
    extent = "" if symbol.specialized else f"  {words.format_range(symbol)}"
    made = f"  {where.describe(symbol.location)}" if symbol.location else ""
    yield fold(name, opened, (symbol.name, "warn"), f"  {words.describe_symbol(symbol)}", (extent, "shape"), (hint, "muted"),
               (made, "muted"), indent=3, location=symbol.location)  # fmt: skip
    for special in symbol.specialized:
        yield _specialized(special, where)
    if opened:
        yield from _opened(symbol, where, width)


def _specialized(found: Specialized, where: Places) -> Row:
    return row(("     ✖ ", "break"), (f"specialized to {found.value}", "break"),
               (f"  {found.reason}" if found.reason else "", "shape"), (f"  {where.describe(found.location)}", "muted"),
               (f"  {found.user_code}" if found.user_code else "", "comment"), location=found.location,
               links=(line_link(found.location),) if found.location else ())  # fmt: skip


def _opened(symbol: Symbol, where: Places, width: int) -> Iterator[Row]:
    for note in words.explain_symbol(symbol):
        yield from wrapped(note, width, "muted", indent=7)
    for condition in symbol.conditions:
        yield row("       ", (condition.code, "shape"), (f"  {where.describe(condition.location)}", "muted"),
                  (f"  {condition.user_code}" if condition.user_code else "", "comment"), location=condition.location,
                  links=(line_link(condition.location),) if condition.location else ())  # fmt: skip
    if not symbol.conditions and not symbol.specialized and not words.explain_symbol(symbol):
        yield from wrapped("No guard looks at it: any value will do.", width, "muted", indent=7)
