"""Which ops went into which kernel, and which lines of the user's they came from."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from tcexplore import events as ev
from tcexplore.documents import device_text as device_words
from tcexplore.documents import targets_text as words
from tcexplore.documents.paths import at
from tcexplore.quantities import size
from tcexplore.report.text.layout import indented, labelled
from tcexplore.session import Snapshot
from tcexplore.session.achieved_rates import achieved
from tcexplore.session.kernel_facts import loops, machine

LANGUAGES = {"cpp": "C++", "triton": "Triton", "extern": "extern"}


def kernels(snapshot: Snapshot) -> Iterable[RenderableType]:
    for kernel in snapshot.code.kernels:
        yield indented(_title(kernel))
        if kernel.ops:
            yield labelled("fuses" if len(kernel.ops) > 1 else "op", ", ".join(kernel.ops))
        if kernel.source_lines:
            yield labelled("lines", _lines(kernel.source_lines, snapshot.file), "dim")
        yield from _machine(snapshot, kernel)


def _machine(snapshot: Snapshot, kernel: ev.Kernel) -> Iterable[RenderableType]:
    """What the kernel takes of its device, as far as it was brought there."""
    made, failed, point = machine(snapshot.code, kernel)
    if made and made.resources:
        yield labelled("takes", words.takes(made.resources))
        for warning in made.resources.warnings:
            yield indented(f"! {warning}", "yellow", by=4)
    if how := words.written(loops(snapshot.code, kernel)):
        yield labelled("written as", how)
    if made and made.vectors:
        yield labelled("assembly", words.vectors(made.vectors))
    if failed:
        yield labelled("not assembled", failed.reason, "yellow")
    if point:
        yield labelled("time", words.estimate(point), "dim")
    if reached := achieved(snapshot, kernel, point):
        yield labelled("ran", device_words.measured(reached))


def _title(kernel: ev.Kernel) -> Text:
    facts = [LANGUAGES.get(kernel.language, kernel.language), kernel.phase, f"graph {kernel.graph}"]
    if kernel.bytes_read is not None and kernel.bytes_written is not None:
        facts.append(f"reads {size(kernel.bytes_read)}, writes {size(kernel.bytes_written)}")
    return Text.assemble((kernel.name, "bold"), ("  " + ", ".join(facts), "dim"))


def _lines(locations: Iterable[ev.Location], file: str) -> str:
    """`14, 15, blocks.py:3`: each line once, in order."""
    said = dict.fromkeys(at(location, file) for location in locations)
    return ", ".join(line.removeprefix("line ") for line in said)
