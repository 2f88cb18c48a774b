"""A run that recompiles until the limit (a batch size, a float, a counter), with answers of the recompile check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tests.snapshots.runs import grow

FILE = "/home/ada/project/steps.py"
SOURCE = """\
class Steps(nn.Module):
    def forward(self, x, y, lr):
        self.steps += 1
        h = x * lr
        if x.shape[0] == 6:
            h = h + y
        return h * self.steps
"""
LIMIT = 4


def at(line: int) -> ev.Location:
    return ev.Location(FILE, line, "forward")


def _recompiled(
    graph: str, entry: str, guard: str, reason: str, old: str, new: str, line: int, **more: Any
) -> ev.Recompiled:
    recompile = ev.Recompiled(graph=graph, failed_entry=entry, failed_guard=guard, reason=reason, old=old, new=new,
                              location=at(line), limit=LIMIT, origin="argument")  # fmt: skip
    return replace(recompile, **more)


def size(graph: str, entry: str, old: str, new: str) -> ev.Recompiled:
    return _recompiled(graph, entry, f"tensor 'x' size mismatch at index 0. expected {old}, actual {new}",
                       f"Dimension 0 of `x` is {new}; it was compiled for {old}.", old, new, 4, kind="size", name="x",
                       dim=0)  # fmt: skip


def number(graph: str, entry: str, old: str, new: str) -> ev.Recompiled:
    return _recompiled(graph, entry, f"lr == {old}", f"`lr` is {new}; it was compiled for {old}.", old, new, 4,
                       kind="float", name="lr")  # fmt: skip


def counter(graph: str, entry: str, old: str, new: str) -> ev.Recompiled:
    reason = f"`self.steps` is {new}; it was compiled for {old}."
    return _recompiled(graph, entry, f"self.steps == {old}", reason, old, new, 3, kind="int", name="self.steps",
                       origin="attribute")  # fmt: skip


CAUSES: tuple[tuple[ev.Recompiled, ...], ...] = (
    (),
    (size("0/1", "0/0", "6", "7"),),
    (number("0/2", "0/1", "0.1", "0.2"), size("0/2", "0/0", "6", "8")),
    (size("0/3", "0/1", "7", "1"), number("0/3", "0/0", "0.1", "0.2")),
)


def guards(graph: str, rows: str, lr: str, steps: int) -> ev.GuardsInstalled:
    tensor = ev.Guard(kind="TENSOR_MATCH", source="L['x']", summary=f"f32[{rows}, 8] cpu, contiguous", name="x",
                      location=at(4))  # fmt: skip
    plain = (
        [("EQUALS_MATCH", "L['lr']", f"== {lr}", "lr")] if lr else [("TYPE_MATCH", "L['lr']", "type is float", "lr")]
    )
    plain += [("EQUALS_MATCH", "L['self'].steps", f"== {steps}", "self.steps")]
    others = [
        ev.Guard(kind=kind, source=source, summary=summary, name=name, location=at(4))
        for kind, source, summary, name in plain
    ]
    return ev.GuardsInstalled(graph=graph, guards=(tensor, *others), latency_us=12.0)


def symbols(graph: str) -> ev.GraphSymbols:
    x, y = (ev.SymbolSource(name=name, kind="size", dim=0) for name in "xy")
    special = ev.Specialization(value="6", reason="s17 == 6", location=at(5), user_code="if x.shape[0] == 6:")
    of_line = ev.SymbolCondition(code="s77 > 3", location=at(6), user_code="h = h + y")
    of_torch = ev.SymbolCondition(code="128*s77 <= 4096", library_place="_inductor/codegen/cpp.py:2273 in needs_helper")
    shared = ev.Symbol(name="s77", hint="7", lower="2", upper="32", sources=(x, y), conditions=(of_line, of_torch))
    number = ev.Symbol(name="zf41", hint="0.200000000000000", lower="-oo", upper="oo",
                       sources=(ev.SymbolSource(name="lr", kind="value"),))  # fmt: skip
    once = ev.Symbol(name="s17", hint="6", lower="6", upper="6", sources=(y,), specialized=(special,))
    data = ev.Symbol(name="u0", unbacked=True, lower="0", upper="9", location=at(6), user_code="h = h + y")
    zero_one = (ev.ZeroOneSpecialization(source=x, value="1"),) if graph == "0/3" else ()
    symbols = {"0/1": (shared,), "0/2": (shared, number), "0/3": (once, data)}[graph]
    return ev.GraphSymbols(graph=graph, symbols=symbols, zero_one=zero_one)


def answers() -> Iterator[ev.Event]:
    frame = ev.FrameAnswer(number="0", verdict="recompiles", frame=at(2), dynamic=("x.size()[0]", "lr"), entries=(
        ev.EntryAnswer(graph="0/1", matches=False, failed=counter("", "0/1", "13", "40")),
        ev.EntryAnswer(graph="0/0", matches=False, failed=size("", "0/0", "6", "33")),
    ))  # fmt: skip
    resumed_frame = ev.FrameAnswer(
        number="1",
        verdict="unknown",
        frame=at(6),
        resumed=True,
        note="it resumes after a graph break, with values that only a call computes",
    )
    yield ev.RecompileAnswer(number=1, inputs=("f32[33, 8]", "0.5"), frames=(frame, resumed_frame))
    match = ev.FrameAnswer(number="0", verdict="matches", frame=at(2), graph="0/1", entries=(
        ev.EntryAnswer(graph="0/1", matches=True),))  # fmt: skip
    yield ev.RecompileAnswer(number=2, inputs=("f32[7, 8]", "0.1"), frames=(match,))
    yield ev.RecompileAnswer(number=3, inputs=("q7[3]",), problem="'q7[3]': there is no dtype 'q7'.")


def events() -> Iterator[ev.Event]:
    calls = (("f32[6, 8]", "f32[6, 8]", "0.1"),)
    yield ev.EntryFound(name="model", kind="module", rule="module-level `model` and `inputs`", calls=calls)
    for n, causes in enumerate(CAUSES):
        graph = f"0/{n}"
        yield ev.FrameEntered(graph=graph, frame=at(2), entry_count=n, limit=LIMIT, accumulated_limit=256)
        yield from causes
        yield ev.GraphCaptured(graph=graph, ops=3, nodes=(), code="", frame=at(2))
        yield guards(graph, "6" if n == 0 else "s77", "0.1" if n < 2 else "", n)
        if n:
            yield symbols(graph)
        yield ev.PhaseTimed(name="dynamo", seconds=1.0 + n / 4, graph=graph, depth=0)
        yield ev.CallMade(index=n, variant="compiled", seconds=1.1 + n / 4, compiles=1, graphs=(graph,))
    yield ev.FrameEntered(graph="0/4", frame=at(2), entry_count=4, limit=LIMIT, limit_hit="recompile_limit")
    yield replace(counter("0/4", "0/3", "3", "4"), limit_hit=True, entry_count=4)
    yield ev.FrameEntered(graph="1/0", frame=at(6), resumed=True, limit=LIMIT, error_at_limit=True)
    yield ev.GraphCaptured(graph="1/0", ops=1, nodes=(), code="", frame=at(6))
    yield ev.FrameEntered(graph="1/1", frame=at(6), resumed=True, limit=LIMIT, error_at_limit=True)
    yield _recompiled("1/1", "1/0", "2 <= h.size()[0]",
                      "It was compiled for `2 <= h.size()[0]`, which does not hold for 1.",
                      "2 <= h.size()[0]", "1", 6, kind="condition", name="h.size()[0]")  # fmt: skip
    yield ev.GraphCaptured(graph="1/1", ops=1, nodes=(), code="", frame=at(6))
    yield ev.CallMade(index=4, variant="compiled", seconds=0.1, compiles=2, graphs=("1/0", "1/1"))
    yield from answers()
    yield ev.Finished()


def run(number: int = 1) -> Snapshot:
    """Return the complete run."""
    return replace(grow(number, events(), SOURCE), file=FILE)
