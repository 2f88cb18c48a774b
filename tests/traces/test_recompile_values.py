"""The value of a call that failed a guard, from the guards and symbols of the graph that was compiled for it."""

from __future__ import annotations

import pytest

from tcexplore import events as ev
from tcexplore.session.snapshot import start_snapshot
from tcexplore.traces.trace_context import RecompileValues


def completed(code: str, guards: list[ev.Guard], symbols: list[ev.Symbol]) -> list[tuple[str, str, str]]:
    values = RecompileValues()
    values.add(ev.Recompiled(graph="0/1", failed_entry="0/0", failed_guard=code, reason="", old="", new=""), code)
    return [(r.kind, r.new, r.reason) for r in values.complete("0/1", guards, symbols)]


def guard(kind: str, name: str, code: str, summary: str = "") -> ev.Guard:
    return ev.Guard(kind=kind, source=f"L['{name}']", code=(code,), summary=summary, structural=False, name=name)


def symbol(name: str, hint: str, source: ev.SymbolSource) -> ev.Symbol:
    return ev.Symbol(name=name, unbacked=False, hint=hint, lower="2", upper="int_oo", sources=(source,))


ROWS = ev.SymbolSource(name="x", kind="size", dim=0)
FLAG = guard("EQUALS_MATCH", "flag", "L['flag'] == False")
COUNT = symbol("s1", "3", ev.SymbolSource(name="n", kind="value"))
NUMBER = guard("TYPE_MATCH", "n", "___check_type_id(L['n'], 12), type=<class 'int'>")
LENGTH = guard("LENGTH_CHECK", "items", "len(L['items']) == 4")
EMPTY = guard("LENGTH_CHECK", "rest", "not L['rest']", "is empty")
TENSOR = guard(
    "TENSOR_MATCH", "x",
    "check_tensor(L['x'], Tensor, DispatchKeySet(CPU), torch.float32, device=None, requires_grad=False, "
    "size=[None, 6], stride=[6, 1])",
    "f32[s77, 6] cpu, contiguous",
)  # fmt: skip


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("L['flag'] == True", ("bool", "False", "`flag` is False; it was compiled for True.")),
        ("L['n'] == 2", ("int", "3", "`n` is 3; it was compiled for 2.")),
        ("___check_type_id(L['n'], 7), type=<class 'str'>", ("type", "int", "`n` is int; it was compiled for str.")),
        (
            "___check_type_id(L['x'], 7), type=<class '__main__.Scaled'>",
            ("type", "Tensor", "`x` is Tensor; it was compiled for Scaled."),
        ),
        ("len(L['items']) == 2", ("length", "4", "`len(items)` is 4; it was compiled for 2.")),
        (
            "L['x'].size()[0] <= 4",
            ("condition", "8", "It was compiled for `x.size()[0] <= 4`, which is false for 8."),
        ),
        (
            "(L['x'].size()[0] * L['x'].size()[1]) % 16 == 8",
            ("condition", "0", "`x.size()[0] * x.size()[1] % 16` is 0; it was compiled for 8."),
        ),
        ("len(L['rest']) == 1", ("length", "0", "`len(rest)` is 0; it was compiled for 1.")),
        ("L['y'] is None", None),
    ],
)
def test_the_new_graph_tells_the_value_that_failed_a_guard(code: str, expected: tuple[str, str, str] | None):
    known = completed(code, [FLAG, NUMBER, LENGTH, EMPTY, TENSOR], [COUNT, symbol("s77", "8", ROWS)])
    assert known == ([expected] if expected else [])


def test_a_later_record_completes_a_recompile():
    first = ev.Recompiled(run=1, graph="0/1", failed_entry="0/0", failed_guard="n == 2", reason="", old="2", new="")
    values = RecompileValues()
    values.add(first, "L['n'] == 2")
    snapshot = start_snapshot(ev.Job(run=1, file="m.py", source="")).apply(first)
    (limited,) = values.at_limit("0/1")
    assert limited.limit_hit
    assert snapshot.apply(limited).recompiles == (limited,)
    assert values.at_limit("0/1") == []
