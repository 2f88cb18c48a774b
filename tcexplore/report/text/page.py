"""The sections in their order, and the console they are printed on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

from rich.console import Console, RenderableType
from rich.text import Text

from tcexplore import events as ev
from tcexplore.documents.recommendation_text import advice
from tcexplore.report.text import (
    breaks,
    call_profile,
    compile_time,
    device,
    errors,
    graphs,
    guards,
    kernels,
    lineage,
    output,
    regions,
    results,
    ship,
    targets,
    timing,
    verdict,
)
from tcexplore.report.text.layout import indented
from tcexplore.session import Snapshot

Section = Callable[[Snapshot], Iterable[RenderableType]]

SECTIONS: tuple[tuple[str, Section], ...] = (
    ("Error", errors.error),
    ("Graph breaks", breaks.breaks),
    ("Not compiled", breaks.skipped),
    ("Outside every graph", breaks.outside),
    ("Graphs", graphs.graphs),
    ("Recompiles", guards.recompiles),
    ("Cache entries", lineage.cache_entries),
    ("Symbolic sizes", lineage.symbols),
    ("Would it recompile?", lineage.asked),
    ("Guards", guards.guards),
    ("Target", targets.target),
    ("Kernels", kernels.kernels),
    ("Autotuning", device.autotuning),
    ("Device", device.device),
    ("Timing", timing.timing),
    ("CUDA graphs", device.cuda_graphs),
    ("Time line", regions.time_line),
    ("State", ship.state),
    ("One call", call_profile.call_profile),
    ("Compile time", compile_time.compile_time),
    ("Accuracy", results.accuracy),
    ("Memory", results.memory),
    ("Output", output.output),
    ("Not known", errors.missing),
)


def print_report(
    snapshot: Snapshot,
    machine: ev.Standby | None,
    exceeded: Sequence[str] = (),
    *,
    calls: int | None = None,
    stream: TextIO | None = None,
    width: int | None = None,
) -> None:
    """Print the report of a run to a stream (default: stdout), at the terminal's width, 80 columns in a pipe.

    `calls` asks what compiling wins over so many calls.
    """
    console = Console(file=stream, width=width, markup=False, emoji=False, highlight=False)
    asked = [Text(said, "bold")] if calls and (said := advice(snapshot, calls)) else []
    limits = (Text(f"✖ limit exceeded: {limit}", "bold red") for limit in exceeded)
    top = (*verdict.heading(snapshot, machine), Text(), *verdict.verdict(snapshot), *asked, *limits)
    console.print(*(indented(line, by=0) for line in top), sep="\n")
    for title, section in SECTIONS:
        lines = list(section(snapshot))
        if lines:
            console.print(Text(), Text(title, "bold"), *lines, sep="\n")
