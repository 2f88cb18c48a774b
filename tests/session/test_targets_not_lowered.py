"""Graphs that cannot be lowered for a target keep the code of this machine."""

from __future__ import annotations

from dataclasses import fields, replace

from tcexplore.events import AtenGraph, Config, Job, Kernel, TargetLowered, TargetSkipped
from tcexplore.report.json_report import report
from tcexplore.session import Snapshot, changes, summarize
from tcexplore.session.code import Code, event_fields
from tcexplore.session.snapshot import start_snapshot


def run_for(*events: AtenGraph | Kernel | TargetLowered | TargetSkipped) -> Snapshot:
    snapshot = start_snapshot(Job(run=1, file="/f.py", source="", config=Config(target="h100")))
    for event in events:
        snapshot = snapshot.apply(replace(event, run=1))
    return snapshot


def aten(graph: str, target: str) -> AtenGraph:
    return AtenGraph(graph=graph, stage="post_grad", phase="forward", target=target)


def kernel(graph: str, target: str) -> Kernel:
    return Kernel(graph=graph, phase="forward", name=f"k{graph}", language="cpp", source="", target=target)


def test_a_graph_that_is_not_lowered_has_the_code_of_this_machine():
    run = run_for(
        *(event(graph, "native") for graph in ("0/0", "1/0") for event in (aten, kernel)),
        aten("0/0", "h100"),
        kernel("0/0", "h100"),
        TargetLowered(graph="0/0", target="h100", kernels=1, seconds=1.0),
        aten("1/0", "h100"),
        TargetSkipped(graph="1/0", target="h100", op="aten.empty_strided", reason="no kernel"),
    )
    assert [(graph.graph, graph.target) for graph in run.code.aten_graphs] == [("0/0", "h100"), ("1/0", "native")]
    assert [(k.graph, k.target) for k in run.code.kernels] == [("0/0", "h100"), ("1/0", "native")]
    assert run.code is run.code
    kernels = [(k["graph"], k["target"]) for k in report(run, None)["kernels"]]
    assert kernels == [("0/0", "h100"), ("0/0", "native"), ("1/0", "native")]


def test_a_target_without_any_code_shows_that_of_this_machine():
    skipped = TargetSkipped(graph="", target="h100", op="", reason="no compiler")
    run = run_for(aten("0/0", "native"), kernel("0/0", "native"), skipped)
    assert [k.target for k in run.code.kernels] == ["native"]
    assert run.code.not_lowered == (replace(skipped, run=1),)


def test_every_event_of_code_names_its_graph():
    assert all("graph" in {field.name for field in fields(kind)} for kind in event_fields(Code))


def test_kernels_for_different_targets_are_not_compared():
    native = run_for(kernel("0/0", "native"), kernel("1/0", "native")).with_target("native")
    other = run_for(kernel("0/0", "h100"))
    assert changes(summarize(native), summarize(other)) == ()
    fewer = run_for(kernel("0/0", "native")).with_target("native")
    assert changes(summarize(native), summarize(fewer)) == ("kernels 2→1",)
