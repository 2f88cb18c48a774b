"""Why two kernels of a report are not fused, in the words of the fusion view."""

from __future__ import annotations

from tcexplore import events as ev
from tcexplore.answers.answer import Fields
from tcexplore.documents.code.fusion_view import fusion_reasons_document
from tcexplore.session import Snapshot
from tcexplore.session.code import Code

WIDTH = 1000
"""Columns: no sentence is wrapped."""


def fusion_reasons(report: Fields, first: Fields, second: Fields) -> list[str]:
    """Return the reasons as sentences, without the question above them."""
    run = _scheduled(report)
    kernels = dict(zip((kernel["id"] for kernel in report["kernels"]), run.code.kernels, strict=True))
    document = fusion_reasons_document(run, kernels[first["id"]], kernels[second["id"]], WIDTH)
    rows = (document.row(index).text for index in range(1, len(document)))
    return [text.strip().removeprefix("▾ ") for text in rows if text.strip()]


def _scheduled(report: Fields) -> Snapshot:
    """Return a run with what a report has about the scheduler and the kernels."""
    target = report["kernels"][0]["target"] if report["kernels"] else "native"
    kernels = tuple(
        ev.Kernel(
            graph=kernel["graph"], phase=kernel["phase"], name=kernel["name"], language=kernel["language"],
            source="", ops=tuple(kernel["ops"]), nodes=tuple(kernel["nodes"]),
            source_lines=tuple(ev.Location(file, line) for file, line in kernel["source_lines"]),
            scheduler_nodes=tuple(kernel["scheduler_nodes"]), target=target,
        )
        for kernel in report["kernels"]
    )  # fmt: skip
    decisions = tuple(
        ev.FusionDecision(
            graph=one["graph"], phase=one["phase"], a=one["a"], b=one["b"], fused=one["fused"],
            reason=one["reason"] or "", a_nodes=tuple(one["a_nodes"]), b_nodes=tuple(one["b_nodes"]),
            refused_by=one["refused_by"] or "", target=target,
        )
        for one in report["fusion_decisions"]
    )  # fmt: skip
    schedules = tuple(
        ev.ScheduleMade(
            graph=made["graph"], phase=made["phase"], pairwise_attempts=made["pairwise_attempts"], target=target,
            nodes=tuple(
                ev.SchedulerNode(name=n["name"], buffers=tuple(n["buffers"]), dependencies=tuple(n["dependencies"]))
                for n in made["nodes"]
            ),
        )
        for made in report["schedules"]
    )  # fmt: skip
    code = Code(target=target, kernels=kernels, fusion=decisions, schedules=schedules)
    return Snapshot(run=1, file=report["file"], source="", config=ev.Config(), target=target, codes=(code,))
