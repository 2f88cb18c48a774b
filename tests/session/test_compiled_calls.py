"""The compiled calls of a run."""

from __future__ import annotations

from tcexplore import events as ev
from tcexplore.documents.timing.timing_view import call_lines
from tcexplore.session import Snapshot
from tcexplore.session.compile_time import compiled_calls
from tests.studies.playback import timed

AGAIN = ev.Recompiled(graph="0/1", failed_entry="0/0", failed_guard="x.size(0) == 64", reason="", old="64", new="32")
OLDER = ev.Recompiled(graph="0/2", failed_entry="0/0", failed_guard="older", reason="")


def made(index: int, *graphs: str) -> ev.CallMade:
    return ev.CallMade(
        index=index, variant="compiled", seconds=1.0 if graphs else 0.001, compiles=len(graphs), graphs=graphs
    )


def run(*events: ev.Event) -> Snapshot:
    snapshot = Snapshot(run=0, file="m.py", source="", config=ev.Config())
    for event in events:
        snapshot = snapshot.apply(event)
    return snapshot


def test_compiled_calls_have_their_kind_and_causes():
    newer = ev.Recompiled(graph="0/2", failed_entry="0/1", failed_guard="newer", reason="")
    eager = ev.CallMade(index=0, variant="eager", seconds=0.1)
    snapshot = run(eager, made(0, "0/0"), AGAIN, made(1, "0/1"), newer, OLDER, made(2, "0/2"), made(3))
    guards = [
        (call.number, call.kind, [cause.failed_guard for cause in call.causes]) for call in compiled_calls(snapshot)
    ]
    assert guards == [
        (1, "compile", []), (2, "recompile", ["x.size(0) == 64"]), (3, "recompile", ["newer"]), (4, "warm", []),
    ]  # fmt: skip


def test_calls_are_listed_as_text():
    snapshot = run(made(0, "0/0"), AGAIN, made(1, "0/1"), made(2))
    texts = ["call 1: compile, 1.00 s", "call 2: recompile (64 → 32: x.size(0) == 64), 1.00 s"]
    assert list(call_lines(snapshot)) == [*texts, "from call 3 on: 1.00 ms"]
    assert list(call_lines(snapshot.apply(timed(2.0)))) == [*texts, "from call 3 on: 50.0 µs each"]
    assert list(call_lines(run(made(0, "0/0")))) == ["call 1: compile, 1.00 s"]
    assert list(call_lines(run())) == []
    many = list(call_lines(run(*(made(i, f"0/{i}") for i in range(12)))))
    assert (len(many), many[-1]) == (9, "4 more, up to call 12")
