"""The fusion view: what was fused into each kernel, what that saves, and why neighbors are not fused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from tcexplore import events as ev
from tcexplore.documents.code.fusion_reasons_view import APART, LONGEST, reason_rows
from tcexplore.documents.code.kernel_labels import kernel_links, op_spans
from tcexplore.documents.document import Part, Parts, Row, fixed
from tcexplore.documents.empty_states import empty_part, missing_rows
from tcexplore.documents.labels import Labels, labels
from tcexplore.documents.prose import BLANK, fold, row, shortened, wrapped
from tcexplore.events import FusionDecision, Kernel
from tcexplore.quantities import count, size
from tcexplore.session import Snapshot
from tcexplore.session.fused_kernels import FusedKernel, Fusions, NotFused
from tcexplore.session.line_times import bytes_moved
from tcexplore.session.links import Link, kernel_link

TEACHES = (
    "Each kernel appears here with what was fused into it and how much memory traffic that saves. Between two "
    "neighbors is torch's reason not to fuse them."
)


def fusion_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """Return the document of the view."""
    if not snapshot.code.kernels or snapshot.trace:
        return Parts("", [empty_part(snapshot, width, TEACHES, ev.RunFact.FUSION_DECISIONS)])
    known = labels(snapshot)
    fusions = Fusions(snapshot)
    apart = {id(why.a): why for why in fusions.neighbors()}
    groups = [(key, list(group)) for key, group in groupby(snapshot.code.kernels, lambda k: (k.graph, k.phase))]
    parts: list[Part] = [
        fixed(_verdict(snapshot, width)),
        fixed(missing_rows(snapshot, (ev.RunFact.FUSION, ev.RunFact.FUSION_REFUSED), width)),
    ]
    for (graph, phase), kernels in groups:
        parts.append(fixed([row((f" {graph}", "title"), (f" {phase}", "muted"))] if len(groups) > 1 else []))
        for kernel in kernels:
            fused = fusions.fused(kernel)
            parts.append(fixed(_kernel(kernel, fused, known, toggled, width), known.title(kernel)))
            parts.append(fixed(_next(snapshot, apart.get(id(kernel)), known, toggled, width)))
    return Parts(_title(snapshot), parts)


def _title(snapshot: Snapshot) -> str:
    saved = [kernel.bytes_saved for kernel in snapshot.code.kernels if kernel.bytes_saved]
    return f"saved {size(sum(saved))}" if saved else count(len(snapshot.code.kernels), "kernel")


def _verdict(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield how much memory traffic fusion saves, and the source of the figures."""
    known = [(k.bytes_saved, bytes_moved(k)) for k in snapshot.code.kernels]
    saved = sum(saved for saved, moved in known if saved is not None and moved is not None)
    moved = sum(moved for saved, moved in known if saved is not None and moved is not None)
    if not moved:
        yield from wrapped("This torch version does not report the buffer sizes of its kernels.", width, "warn")
        return
    unfused = saved + moved
    part = f" of {size(unfused)} of memory traffic ({saved / unfused:.0%})" if saved > 0 else ""
    yield row((f" fusion saves {size(max(saved, 0))}", "strong"), (part, "muted"))
    text = (
        "From torch's buffer sizes of the scheduler nodes, fused and separate. Ops that Inductor inlined before "
        "scheduling never had a buffer and do not count."
    )
    yield from wrapped(text, width, "dim")
    if not all(kernel.generated for kernel in snapshot.code.kernels):
        yield from wrapped(APART["extern"], width, "dim")
    yield BLANK


def _kernel(kernel: Kernel, fused: FusedKernel, known: Labels, toggled: frozenset[str], width: int) -> Iterator[Row]:
    name = f"fusion {kernel.graph} {kernel.phase} {kernel.name}"
    opened = name in toggled
    label = ((span.text, span.style) for span in known.kernel[kernel_link(kernel)].spans)
    kinds = (f"  {_kinds(fused)}", "heading" if kernel.generated else "extern")
    saved = (f"  {_format_saved(kernel.bytes_saved)}" if kernel.bytes_saved else "", "strong")
    fuses = op_spans(kernel, known, most=2 if width < 60 else 5)
    place = kernel.source_lines[0] if kernel.source_lines else None
    yield fold(name, opened, *label, kinds, saved, ("  ", ""), *fuses, indent=0, links=kernel_links(kernel),
               location=place, copy=kernel.name)  # fmt: skip
    if opened:
        yield from _details(kernel, fused, known, width)


def _format_saved(saved: int) -> str:
    """Return how fusion changes the traffic; a kernel that recomputes an inlined op may read more."""
    return f"saves {size(saved)}" if saved > 0 else f"moves {size(-saved)} more"


def _kinds(fused: FusedKernel) -> str:
    inlined = ("ops inlined",) if fused.inlined else ()
    return " · ".join((*fused.kinds, *inlined)) or "nothing fused"


def _details(kernel: Kernel, fused: FusedKernel, known: Labels, width: int) -> Iterator[Row]:
    own = (kernel_link(kernel),)
    yield row((f"   {kernel.name}", "heading"), links=own)
    shown = op_spans(kernel, known, most=None)
    yield row(("   ", ""), *shown, links=own)
    moved, saved = bytes_moved(kernel), kernel.bytes_saved
    if moved is not None and saved is not None and len(kernel.scheduler_nodes) > 1:
        nodes = count(len(kernel.scheduler_nodes), "scheduler node")
        less = f"the kernel moves {size(moved)}" if saved else "the kernel moves the same: fusion saves no traffic"
        text = f"Separately, its {nodes} would move {size(moved + saved)}; {less}."
        yield from wrapped(text, width, indent=3, links=own)
    single = [group for group in fused.groups if len(group) == 1]
    if len(fused.groups) > 1:
        text = f"{len(fused.groups)} loop nests share the function; the scheduler fused those joined by + below."
        yield from wrapped(text, width, "muted", indent=3, links=own)
    for group in fused.groups:
        if len(group) > 1:
            yield row(("   fused  ", "muted"), (" + ".join(group), "node"), links=own)
    if single and len(fused.groups) > 1:
        yield row(
            ("   separate  ", "muted"), (", ".join(name for group in single for name in group), "node"), links=own
        )
    yield from (_step(step, own) for step in fused.steps)


def _step(step: FusionDecision, own: tuple[Link, ...]) -> Row:
    saved = f"  saves {size(step.bytes_saved)}" if step.bytes_saved and step.bytes_saved > 0 else ""
    a, b = (shortened(name, LONGEST) for name in (step.a, step.b))
    kind = (f"  {step.kind}", "muted")
    return row(("     ", ""), (a, "node"), (" with ", "muted"), (b, "node"), kind, (saved, "number"), links=own)


def _next(
    snapshot: Snapshot, answer: NotFused | None, known: Labels, toggled: frozenset[str], width: int
) -> Iterable[Row]:
    """Yield why a kernel is not fused with the next one."""
    if answer is not None:
        yield from reason_rows(snapshot, answer, known, toggled, width)
