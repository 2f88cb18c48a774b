"""What keeps sizes and numbers from recompiling, offered only where it applies to what happened in this run."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tcexplore import events as ev
from tcexplore.events.compile_ids import backward_number
from tcexplore.session.cache_entries import newest_causes
from tcexplore.session.snapshot import Snapshot

MARK_DYNAMIC, MARK_UNBACKED, DYNAMIC, BUCKETS, TENSOR = "mark_dynamic", "mark_unbacked", "dynamic", "buckets", "tensor"
_NAMED = re.compile(r"\w+|args\[\d+\]|kwargs\['\w+'\]")
"""What a call passes by itself, also to a module of torch's own, which Dynamo calls through `args` and `kwargs`."""


@dataclass(frozen=True, slots=True)
class RecompileFix:
    """`name` is one of the names above; `what` (and `dim`) is what it is for, `values` those that recompiled.

    `line` is where the user's code made it necessary, `blocked` the place that specializes it and has to go first.
    `also` are the other sizes of arguments, names and dimensions, that changed with it.
    """

    kind: str
    name: str
    dim: int | None = None
    values: tuple[str, ...] = ()
    location: ev.Location | None = None
    blocked_by: ev.Specialization | None = None
    other_sizes: tuple[tuple[str, int], ...] = ()


def recompile_fixes(snapshot: Snapshot) -> tuple[RecompileFix, ...]:
    """The cures for the sizes and numbers that made this run recompile, or that were specialized in it."""
    sizes: dict[tuple[str, int], list[ev.Recompiled]] = defaultdict(list)
    numbers: dict[str, list[ev.Recompiled]] = defaultdict(list)
    resumed = {entered.graph for entered in snapshot.frames if entered.resumed}
    for found, _ in newest_causes(snapshot):
        if found.graph in resumed or backward_number(found.graph) or not _is_argument(found):
            continue
        if found.kind == "size" and found.dim is not None:
            sizes[found.name, found.dim].append(found)
        elif found.kind == "float":
            numbers[found.name].append(found)
    cures = [cure for (what, dim), causes in sizes.items() for cure in _for_size(snapshot, what, dim, causes)]
    cures += [
        RecompileFix(TENSOR, what, values=_values(causes), location=causes[0].location)
        for what, causes in numbers.items()
    ]
    return (*cures, *_specialized(snapshot, {(cure.name, cure.dim) for cure in cures}))


def _for_size(snapshot: Snapshot, what: str, dim: int, causes: list[ev.Recompiled]) -> Iterator[RecompileFix]:
    values, place, config = _values(causes), causes[0].location, snapshot.config
    blocked = _specialization(snapshot, what, dim)
    small = {"0", "1"} & set(values)
    if config.dynamic is None and blocked is None:
        also = tuple(size for size in changed_with(snapshot, causes) if size != (what, dim))
        yield RecompileFix(MARK_DYNAMIC, what, dim, values, place, other_sizes=also)
        yield RecompileFix(DYNAMIC, what, dim, values, place)
    if small and blocked is None:
        yield RecompileFix(MARK_UNBACKED, what, dim, values, place)
    if blocked is not None or config.dynamic is False or small:
        yield RecompileFix(BUCKETS, what, dim, values, place, blocked)


def changed_with(snapshot: Snapshot, causes: Iterable[ev.Recompiled]) -> tuple[tuple[str, int], ...]:
    """Sizes of arguments that automatic dynamic shapes made symbols in the graphs that these made necessary.

    A guard tells of the first size that differs. What is marked alone while another that has to be equal is not is an
    error.
    """
    if snapshot.config.dynamic is not None:
        return ()
    graphs = {found.graph for found in causes}
    sources = [s for found in snapshot.symbols if found.graph in graphs for one in found.symbols for s in one.sources]
    sizes = [(one.name, one.dim) for one in sources if one.kind == "size" and _NAMED.fullmatch(one.name)]
    free = [(name, dim) for name, dim in sizes if dim is not None and _specialization(snapshot, name, dim) is None]
    return tuple(dict.fromkeys(free))


def _specialized(snapshot: Snapshot, known: set[tuple[str, int | None]]) -> Iterator[RecompileFix]:
    """Symbols that became numbers without a recompile having told of it yet."""
    for found in snapshot.symbols:
        # What a graph of compiled autograd takes is not the user's to change.
        for symbol in () if backward_number(found.graph) else found.symbols:
            for source in symbol.sources[:1] if symbol.specialized else ():
                if source.kind == "size" and (source.name, source.dim) not in known:
                    known.add((source.name, source.dim))
                    place = symbol.specialized[0].location
                    yield RecompileFix(BUCKETS, source.name, source.dim, (symbol.hint,), place, symbol.specialized[0])


def _specialization(snapshot: Snapshot, what: str, dim: int) -> ev.Specialization | None:
    """Where the size was made a number although it was dynamic."""
    for found in reversed(snapshot.symbols):
        for symbol in found.symbols:
            if symbol.specialized and any((s.name, s.dim, s.kind) == (what, dim, "size") for s in symbol.sources):
                return symbol.specialized[0]
    return None


def _values(causes: list[ev.Recompiled]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for found in causes for value in (found.old, found.new) if value))


def _is_argument(found: ev.Recompiled) -> bool:
    """What the user passes by its own name: only that can be marked or turned into a tensor where it is made."""
    return found.origin == "argument" and _NAMED.fullmatch(found.name) is not None
