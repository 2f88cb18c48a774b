"""Code for a GPU target in the panes: stages with linked lines, resources, roofline, notes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.documents.code.device_view import device_document
from tcexplore.documents.code.kernels_view import kernels_document
from tcexplore.documents.code.roofline_view import HIGHEST, LOWEST, PlotMark, Roof, draw_roofline
from tcexplore.documents.code.stages_view import find_hiding_folds
from tcexplore.documents.code.target_notes import ASSUMED, awaits_local_code, is_assembled
from tcexplore.documents.document import Builder, Row
from tcexplore.documents.strip import verdict_row
from tcexplore.documents.style_names import NAMES
from tcexplore.quantities import count
from tcexplore.session import Session, Snapshot
from tcexplore.session.links import closure, kernel_link, line_link, statement_link
from tests.documents import golden
from tests.snapshots import gpu
from tests.snapshots.codes import with_code

VIEWS: dict[str, Builder] = {
    "code": kernels_document,
    "device": device_document,
}


def rows(build: Builder, toggled: frozenset[str] = frozenset(), target: str = "l4", width: int = 78) -> list[Row]:
    document = build(gpu.run().with_target(target), toggled, width)
    return [document.row(index) for index in range(len(document))]


def everything(build: Builder) -> frozenset[str]:
    """Return the folds to toggle so that nothing is folded, except the text with directives."""
    folds = frozenset[str]()
    while more := {
        row.fold for row in rows(build, folds) if row.fold and "▸" in row.text and "with dir" not in row.text
    }:
        folds |= more
    return folds


@pytest.mark.parametrize("name", VIEWS)
def test_views(name: str):
    build = VIEWS[name]
    toggled = everything(build)
    golden.check(f"target-{name}", golden.text(build(gpu.run(), toggled, 78)))
    shown = rows(build, toggled)
    families = {style.partition(".")[0] for style in NAMES} | {"kernel", "label"}
    styles = {style for row in shown for span in row.spans for style in span.style.split()}
    assert {style.partition(".")[0] for style in styles} <= families


def test_kernels_of_a_graph_that_was_not_lowered_are_counted_for_this_machine():
    run = gpu.run()
    native = replace(run.code_for("native").kernels[0], graph="1/0")
    for event in (
        native,
        ev.TargetSkipped(graph="1/0", target="l4", op="aten.mul.Tensor", reason="no kernel", run=run.run),
    ):
        run = run.apply(event)
    own = sum(kernel.language != "extern" for kernel in run.code.kernels) - 1
    counted = f"{count(own, 'kernel')} + 1 extern for l4, 1 for this machine"
    document = kernels_document(run)
    assert document.title == counted
    assert counted in verdict_row(Session(runs=(run,))).text
    assert " graph 1/0 forward  for this machine" in [document.row(index).text for index in range(len(document))]


def test_without_a_target_the_device_view_says_what_fills_it():
    text = "\n".join(row.text for row in rows(device_document, target="native"))
    assert "GPU only: T picks a target" in text


def test_while_graphs_are_lowered_the_panes_say_so():
    run = gpu.run()
    begun = replace(run, graphs=(*run.graphs, replace(run.graphs[0], graph="9/0")))
    assert " for l4 so far" in verdict_row(Session(runs=(begun,))).text
    assert "so far" not in verdict_row(Session(runs=(run,))).text
    bare = replace(begun, codes=tuple(replace(code, kernels=()) for code in begun.codes))
    document = device_document(bare)
    text = " ".join(" ".join(document.row(index).text for index in range(len(document))).split())
    assert "Under way for l4: lowering, " in text
    assert "T picks a target" not in text


def test_a_section_of_the_device_view_can_be_closed():
    closed = [row.text for row in rows(device_document, frozenset({"device stages"}))]
    assert any(text.startswith("▸ stages") for text in closed)
    assert len(closed) < len(rows(device_document))


def test_statement_is_highlighted_in_every_stage_and_links_to_its_line():
    shown = rows(device_document, everything(device_document))
    load = next(row for row in shown if "LDG" in row.text)
    chain = closure(gpu.run(), load.links)
    lit = "\n".join(row.text for row in shown if row.links and row.links[0] in chain)
    assert all(word in lit for word in ("tl.load", "ld.global", "LDG"))
    assert not any(word in lit for word in ("maximum", "max.f32", "FMNMX"))
    assert {(link.name, link.where) for link in chain if link.kind == "line"} == {("6", gpu.FILE)}
    assert load.location == gpu.LINE


def test_line_highlights_every_instruction_that_came_from_it():
    chain = closure(gpu.run(), [line_link(gpu.LINE)])
    lit = "\n".join(
        row.text for row in rows(device_document, everything(device_document)) if row.links and row.links[0] in chain
    )
    assert [word in lit for word in ("tl.load", "max.f32", "FMNMX", "EXIT")] == [True, True, True, False]


def test_assumptions_are_folded_at_first():
    assert not any("attention: math" in row.text for row in rows(kernels_document))
    assert any("attention: math" in row.text for row in rows(kernels_document, frozenset({ASSUMED})))


def test_roof_rises_to_the_peak_with_marks_on_it():
    roof = Roof(memory=1e12, compute=1e13)
    mark = PlotMark(intensity=10.0, sign="1", style="")
    drawn = ["".join(sign for sign, _ in row) for row in draw_roofline(roof, [mark], 61, 7)]
    assert len(drawn) == 7
    assert drawn[0].rstrip().endswith("─")
    assert drawn[0].index("1") == round(60 * math.log(10.0 / LOWEST) / math.log(HIGHEST / LOWEST))
    assert [sum(row[x] != " " for row in drawn) for x in range(61)] == [1] * 61


def test_selected_statement_opens_its_stages():
    snapshot = gpu.run()
    kernel = next(kernel for kernel in snapshot.code.kernels if kernel.language == "triton")
    statement = statement_link(kernel, 5)
    assert find_hiding_folds(snapshot, (kernel_link(kernel),)) == frozenset(), (
        "nothing of a kernel as a whole is hidden"
    )
    shown = rows(device_document, find_hiding_folds(snapshot, (statement,)))
    assert [row.text.split()[-1] for row in shown if statement in row.links] == ["0)", "0f00000000;"]


def script_on_gpu(*phases: ev.Phase) -> Snapshot:
    """Return a script whose kernel on this machine's GPU has no machine code, after the begin of `phases`."""
    run = gpu.run()
    kernels = tuple(replace(kernel, target="native") for kernel in run.code.kernels)
    run = replace(run, codes=(replace(run.code, target="native", kernels=kernels),), target="native", status="running")
    run = replace(with_code(run, assembled=(), lowered=()), phase="", phase_seconds=())
    return run.apply_all(ev.PhaseStarted(run=run.run, phase=phase, at=at) for at, phase in enumerate(phases))


BEFORE: tuple[ev.Phase, ...] = ("importing", "dynamo", "inductor", "compiler", "timing")
"""The phases of a script until it ends: its steps are timed while they are made."""


def test_the_code_of_this_gpu_is_awaited_while_the_steps_of_a_script_are_timed_and_assembled():
    for phases in (BEFORE, (*BEFORE, "dynamo"), (*BEFORE, "assembling")):
        assert awaits_local_code(script_on_gpu(*phases))
        assert not is_assembled(script_on_gpu(*phases))


@pytest.mark.parametrize("later", ["accuracy", "timing", "switching", "answering"])
def test_no_code_of_this_gpu_is_awaited_after_the_assembly(later: ev.Phase):
    """A kernel may have none although all are assembled. The captured calls of a script are compared only then."""
    run = script_on_gpu(*BEFORE, "assembling", later)
    assert not awaits_local_code(run)
    assert is_assembled(run)


def test_no_code_of_this_gpu_is_awaited_if_assembling_failed():
    run = script_on_gpu(*BEFORE, "accuracy")
    missing = ev.FactMissing(run=run.run, fact=ev.RunFact.MACHINE_CODE, symbol="triton:compile", reason="no nvdisasm")
    failed = run.apply(missing)
    assert not awaits_local_code(failed)
    assert is_assembled(failed)
