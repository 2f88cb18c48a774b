"""The cache entries of each frame that was compiled more than once, the symbols, and what was asked."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from tcexplore import events as ev
from tcexplore.documents import recompile_check_text as would
from tcexplore.documents import symbols_text as words
from tcexplore.documents.frames_text import name as frame_name
from tcexplore.documents.paths import at
from tcexplore.documents.recompile_fixes_text import said
from tcexplore.documents.recompiles_text import at_the_limit, caused_by, change, looked_at, seconds, spent
from tcexplore.report.text.layout import columns, indented, labelled
from tcexplore.session import Snapshot
from tcexplore.session.cache_entries import CacheEntry, FrameEntries, lineage
from tcexplore.session.recompile_fixes import shape_cures
from tcexplore.session.region_query import region_name


def cache_entries(snapshot: Snapshot) -> Iterable[RenderableType]:
    """Each frame with more than one entry: what made each necessary, and what happens at the limit."""
    for frame in lineage(snapshot):
        if len(frame.entries) < 2 and not frame.refused:
            continue
        name = frame_name(frame.entries[0].graph if frame.entries else "", frame.place) or f"frame {frame.number}"
        rest = ", the rest behind a graph break" if frame.resumed else ""
        yield indented(Text.assemble((name, "bold"), f"  {at(frame.place, snapshot.file)}{rest}  {_used(frame)}"))
        limit = at_the_limit(frame)
        if limit:
            yield indented(limit, "bold red" if frame.limit_hit else "", by=4)
        yield from columns([_entry(entry, snapshot.file) for entry in frame.entries], by=4)


def _used(frame: FrameEntries) -> str:
    return f"{spent(frame)}, limit {frame.limit}" if frame.limit else spent(frame)


def _entry(entry: CacheEntry, file: str) -> list[str | Text]:
    caller = f"{caused_by(entry)} {at(entry.caller, file)}".strip()
    if not entry.causes:
        return [entry.graph, caller, seconds(entry), ""]
    found = entry.causes[0]
    why = " ".join(filter(None, (f"{found.of}:", looked_at(found), change(found), at(found.location, file))))
    return [entry.graph, caller, seconds(entry), why]


def symbols(snapshot: Snapshot) -> Iterable[RenderableType]:
    """Each symbolic size, where it was specialized, and what keeps sizes from recompiling."""
    for found in snapshot.symbols:
        yield indented(Text(found.graph, "bold"))
        for symbol in found.symbols:
            yield from _symbol(symbol, snapshot.file)
        for fixed in found.zero_one:
            yield indented(words.zero_one(fixed), by=4)
    for cure in shape_cures(snapshot):
        yield labelled(cure.what if cure.dim is None else f"{cure.what}.size({cure.dim})", said(cure, snapshot.file))


def _symbol(symbol: ev.Symbol, file: str) -> Iterable[RenderableType]:
    extent = "" if symbol.specialized else f", {words.extent(symbol)}"
    hint = f", traced with {words.hint(symbol)}" if symbol.hint else ""
    yield indented(
        f"{symbol.name}  {words.came_from(symbol)}{extent}{hint}  {at(symbol.location, file)}".rstrip(), by=4
    )
    for special in symbol.specialized:
        why = f" by {special.reason}" if special.reason else ""
        yield indented(
            f"specialized to {special.value}{why}  {at(special.location, file)}  {special.user_code}", "red", by=6
        )


def asked(snapshot: Snapshot) -> Iterable[RenderableType]:
    """The answers to `--would`."""
    for answer in snapshot.would:
        region = region_name(snapshot, answer.region)
        yield indented(Text.assemble((would.asked(answer.inputs), "bold"), f"  {region}" if region else ""))
        if answer.problem:
            yield indented(answer.problem, "red", by=4)
        for frame in answer.frames:
            yield from _frame(frame, snapshot.file)


def _frame(frame: ev.FrameAnswer, file: str) -> Iterable[RenderableType]:
    where = f"{frame.frame.function}, {at(frame.frame, file)}: " if frame.frame else ""
    note = f" ({frame.note})" if frame.note else ""
    yield indented(f"{where}{would.verdict(frame)}{note}", by=4)
    for entry in frame.entries:
        if entry.failed is not None:
            line = at(entry.failed.location, file)
            yield indented(f"{entry.graph}  {looked_at(entry.failed)} {change(entry.failed)}  {line}".rstrip(), by=6)
    if would.dynamic(frame):
        yield indented(would.dynamic(frame), by=6)
