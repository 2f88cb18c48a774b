"""The guards pane."""

from __future__ import annotations

from dataclasses import replace

from tcexplore.documents.guards.guards_view import guards_document
from tcexplore.documents.line_facts import broken_expression
from tcexplore.events import FrameEntered, Guard, Recompiled
from tests import fakes


def test_values_on_dynamos_stack_are_described():
    names = {
        "___stack0": "break's value",
        "___stack1": "break's value 1",
        "___stack0.__code__": "carried value 0.__code__",
    }
    run = fakes.complete()
    for name, shown in names.items():
        guard = Guard(kind="EQUALS_MATCH", source=name, name=name, code=(f"{name} == 1.0",), summary="== 1.0")
        document = guards_document(replace(run, guards=(replace(run.guards[0], guards=(guard,)),)), frozenset(), 100)
        assert shown[-31:] in document.row(1).text


def test_a_recompile_for_a_value_over_the_break_names_it_and_the_break_to_remove():
    run = fakes.complete()
    graph_break = run.breaks[0]
    assert graph_break.location is not None
    entered = FrameEntered(graph="1/1", frame=graph_break.location, resumed=True)
    recompile = Recompiled(graph="1/1", failed_entry="1/0", failed_guard="___stack0 == 1.5", reason="", old="1.5",
                           new="2.5", kind="float", name="___stack0", origin="break")  # fmt: skip
    document = guards_document(replace(run, frames=(entered,), recompiles=(recompile,)), frozenset(), 100)
    rows = [document.row(index).text.strip() for index in range(6)]
    assert "1.5 → 2.5  break's value == 1.5" in rows
    place = f"line {graph_break.location.line} (`{broken_expression(graph_break)}`)"
    assert f"· Remove the break at {place}: a value that stays in the graph is not guarded." in " ".join(rows)
    unrelated = replace(entered, frame=replace(graph_break.location, line=1))
    document = guards_document(replace(run, frames=(unrelated,), recompiles=(recompile,)), frozenset(), 100)
    assert not any("Remove the break" in document.row(index).text for index in range(6))
