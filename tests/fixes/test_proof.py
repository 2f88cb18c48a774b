"""What speaks for a cure and against it, from runs that are made up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.fixes.proposals import proposals
from tcexplore.fixes.verification import Proof
from tcexplore.fixes.verification_text import BAD, OK, WAIT, brief, facts
from tcexplore.session import Snapshot

FILE = "/home/me/model.py"
TEXT = "import torch\ndef f(x):\n    y = x.sin()\n    print(y)\n    return y / y.max().item()\n"
KIND = "Failed to trace builtin operator"
ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"


def broken(line: int, kind: str = KIND) -> ev.GraphBreak:
    return ev.GraphBreak(graph="0/0", id=None, kind=kind, reason="why", location=ev.Location(FILE, line, "f"))


def run(*events: ev.Event) -> Snapshot:
    snapshot = Snapshot(run=1, file=FILE, source=TEXT, config=ev.Config())
    for event in events:
        snapshot = snapshot.apply(replace(event, run=1))
    return snapshot


GRAPH = ev.GraphCaptured(graph="0/0", ops=1, nodes=(), code="")
BEFORE = run(GRAPH, broken(4), broken(5, ITEM), ev.Finished())
SAME = ev.ChangeChecked(verdict="identical", calls=1, varied=3)
GUARDED = proposals(FILE, TEXT, 4, KIND)[1]


def proof(*events: ev.Event, over: bool = True) -> Proof:
    done = (ev.Finished(),) if over else ()
    return Proof(GUARDED, BEFORE.breaks[0], BEFORE, run(GRAPH, *events, *done))


def test_the_other_breaks_are_known_on_the_lines_that_they_moved_to():
    found = proof(broken(6, ITEM), SAME)
    assert (found.why, found.proven, found.new, found.remaining) == ("", True, (), ())


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ((broken(5), broken(6, ITEM), SAME), "still there"),
        ((broken(3, ITEM), SAME), "somewhere else: line 3"),
        ((broken(6, ITEM),), "could not be compared"),
        ((ev.ChangeChecked(verdict="not judged", reason="it is too large"),), "it is too large"),
        ((ev.ChangeChecked(verdict="wrong", max_abs=0.5),), "differ from before: by up to 0.5"),
        ((ev.ChangeChecked(verdict="wrong", differences=("output is 1",)),), "output is 1"),
        ((SAME, ev.Accuracy(verdict="wrong")), "compiled is wrong now"),
        ((ev.Failed(stage="eager", blame="user", type="NameError", message="no y\nhere"),), "NameError: no y"),
    ],
)
def test_what_speaks_against_it_is_said(events: tuple[ev.Event, ...], why: str):
    found = proof(*events)
    assert why in found.why
    assert not found.proven
    assert BAD in {fact.state for fact in facts(found)}


def test_nothing_is_proven_before_the_run_is_over():
    found = proof(ev.PhaseStarted(phase="comparing", at=1.0), over=False)
    assert (found.why, found.proven) == ("", False)
    assert [fact.state for fact in facts(found)] == [OK, WAIT, WAIT]


def test_the_whole_proof_in_one_line():
    timed = ev.ChangeTimed(before_us=200, after_us=100, speedup=2.0, low=1.9, high=2.1, verdict="faster", pairs=20)
    rest = broken(6, ITEM)
    assert brief(proof(over=False)) == (WAIT, "proving: running the changed file")
    assert brief(proof(rest, ev.Accuracy(verdict="identical"), over=False)) == (
        WAIT, "proving: breaks 2 → 1, comparing the results",
    )  # fmt: skip
    assert brief(proof(rest, SAME, over=False)) == (
        OK, "proven: breaks 2 → 1, outputs identical, timing both",
    )  # fmt: skip
    assert brief(proof(rest, SAME, timed)) == (OK, "proven: breaks 2 → 1, outputs identical, 2.00×, faster")
    assert brief(proof(broken(5), rest, SAME)) == (BAD, "not proven: the break is still there")


def test_a_break_that_was_hidden_by_a_function_given_up_is_no_new_one():
    skipped = ev.FrameSkipped(frame=ev.Location(FILE, 2, "f"), reason="it breaks")
    before = run(GRAPH, broken(4), skipped, ev.Finished())
    found = Proof(GUARDED, before.breaks[0], before, run(GRAPH, broken(6, ITEM), SAME, ev.Finished()))
    assert (found.proven, len(found.uncovered)) == (True, 1)


def test_a_cure_that_promises_to_print_must_print():
    later = proposals(FILE, TEXT, 4, KIND)[0]
    before = run(GRAPH, broken(4), ev.Output(stream="stdout", text="a\na\n"), ev.Finished())
    after = run(GRAPH, SAME, ev.Output(stream="stdout", text="a\n"), ev.Finished())
    assert "not all printed" in Proof(later, before.breaks[0], before, after).why
    assert Proof(GUARDED, before.breaks[0], before, run(GRAPH, SAME, ev.Finished())).proven
