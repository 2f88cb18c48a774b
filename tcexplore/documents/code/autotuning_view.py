"""The autotuning view: configurations of each Triton kernel, algorithms of each matrix product."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore import events as ev
from tcexplore.documents.document import Parts, Row, fixed
from tcexplore.documents.empty_states import empty_part
from tcexplore.documents.labels import kernel_links
from tcexplore.documents.prose import BLANK, fold, row, wrapped
from tcexplore.events import Autotuned, TuningChoice
from tcexplore.quantities import count, duration
from tcexplore.session import Snapshot
from tcexplore.session.links import Link

TUNING_KINDS = {
    "configurations": "configurations of a Triton kernel, measured at its first launch",
    "coordinate descent": "coordinate descent from the best configuration",
    "algorithms": "algorithms: templates vs. library calls, measured during compilation",
}


EMPTY_TEXT = (
    "The choices that torch measures appear here with their times: the configurations of each Triton kernel and, with "
    "max-autotune, the templates and library calls of each matrix product."
)

SHOWN = 12
"""Choices outside the fold."""

BAR = 16
"""Width of the longest bar."""


def autotuning_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """Return the document of the view."""
    if not snapshot.autotuned:
        return Parts("", [empty_part(snapshot, width, EMPTY_TEXT)])
    rows = (line for tuned in snapshot.autotuned for line in _tuned(snapshot, tuned, toggled, width))
    choices = sum(len(tuned.choices) for tuned in snapshot.autotuned)
    return Parts(count(choices, "choice"), [fixed([*rows, *_source_rows(width)])])


def _tuned(snapshot: Snapshot, tuned: Autotuned, toggled: frozenset[str], width: int) -> Iterator[Row]:
    kernel = find_tuned_kernel(snapshot, tuned)
    own = kernel_links(kernel) if kernel else ()
    place = kernel.source_lines[0] if kernel and kernel.source_lines else None
    where = f"  {tuned.graph} {tuned.phase}"
    yield row((f" {name_subject(tuned)}", "heading"), (where, "muted"), links=own, location=place)
    yield from wrapped(TUNING_KINDS.get(tuned.method, tuned.method), width, "muted", indent=3, links=own)
    yield from wrapped(summarize_choices(tuned), width, indent=3, links=own)
    if kernel is not None and not tuned.kernel:
        yield from wrapped(f"runs as {kernel.name}", width, indent=3, links=own)
    name = f"tuned {tuned.graph} {tuned.phase} {tuned.method} {tuned.kernel or tuned.node or tuned.op}"
    opened = name in toggled
    most = max((choice.us for choice in tuned.choices if choice.us is not None), default=0.0)
    for choice in tuned.choices if opened else tuned.choices[:SHOWN]:
        yield _choice(choice, most, own)
    if len(tuned.choices) > SHOWN:
        label = "fewer" if opened else f"{len(tuned.choices) - SHOWN} slower ones"
        yield fold(name, opened, (label, "muted"), indent=3)
    yield BLANK


def _choice(choice: TuningChoice, most: float, own: tuple[Link, ...]) -> Row:
    sign, style = ("●", "faster") if choice.chosen else (" ", "")
    time = "not measured" if choice.us is None else duration(choice.us / 1e6)
    bar = "█" * max(1, round(BAR * choice.us / most)) if choice.us is not None and most else ""
    return row(
        (f"   {sign} ", style), (f"{time:>12} ", "number"), (f"{bar:<{BAR}} ", "plot.compiled"),
        (choice.kind, "muted") if choice.kind != "configuration" else "", (f" {choice.name}", style), links=own,
    )  # fmt: skip


def _source_rows(width: int) -> Iterator[Row]:
    text = (
        "Times measured by torch, one kernel at a time, on generated inputs. ● marks the fastest. Code from a cache is "
        "not measured again."
    )
    yield from wrapped(text, width, "dim")


def name_subject(tuned: ev.Autotuned) -> str:
    """Return the tuned kernel, or the op with the sizes of its inputs."""
    if tuned.kernel:
        return tuned.kernel
    sizes = f" of {', '.join(tuned.input_sizes)}" if tuned.input_sizes else ""
    return f"{tuned.op}{sizes}"


def summarize_choices(tuned: ev.Autotuned) -> str:
    """Return `5 choices measured, the fastest 3.10 µs, the slowest 4.20 µs`."""
    measured = [choice.us for choice in tuned.choices if choice.us is not None]
    left = len(tuned.choices) - len(measured)
    parts = [f"{count(len(measured), 'choice')} measured" + (f", {left} skipped" if left else "")]
    if measured:
        parts.append(f"the fastest {duration(min(measured) / 1e6)}, the slowest {duration(max(measured) / 1e6)}")
    externs = [choice.us for choice in tuned.choices if choice.kind == "extern" and choice.us is not None]
    templates = [choice.us for choice in tuned.choices if choice.kind == "template" and choice.us is not None]
    if externs and templates:
        ratio = min(externs) / min(templates)
        word = "faster" if ratio > 1 else "slower"
        parts.append(f"the best template {max(ratio, 1 / ratio):.2f}× {word} than the best library call")
    return ", ".join(parts)


def find_tuned_kernel(snapshot: Snapshot, tuned: ev.Autotuned) -> ev.Kernel | None:
    """Return the kernel that the tuned op became, None if unknown."""
    mine = (
        k for k in snapshot.code.kernels if k.target == "native" and k.graph == tuned.graph and k.phase == tuned.phase
    )
    if tuned.kernel:
        return next((kernel for kernel in mine if kernel.name == tuned.kernel), None)
    return next((kernel for kernel in mine if tuned.node and tuned.node in kernel.nodes), None)
