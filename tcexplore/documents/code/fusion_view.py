"""Fused kernels, and the reasons why two kernels were not fused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from tcexplore import events as ev
from tcexplore.documents.code.kernel_labels import kernel_links, op_spans
from tcexplore.documents.code.scheduler_reasons import explain_refusal
from tcexplore.documents.document import Part, Parts, Row, Span, fixed
from tcexplore.documents.empty_states import empty_part, missing_rows
from tcexplore.documents.labels import Labels, labels
from tcexplore.documents.prose import BLANK, fold, row, shortened, wrapped
from tcexplore.events import FusionDecision, Kernel
from tcexplore.quantities import count, size
from tcexplore.session import Snapshot
from tcexplore.session.fused_kernels import NO_SHARED_DATA, FusedKernel, Fusions, KernelRelation, NotFused, not_fused
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


APART = {
    "graph": "They belong to different graphs, which are compiled separately.",
    "phase": "One belongs to the forward, the other to the backward, which are compiled separately.",
    "extern": "An extern kernel is a library call: Inductor fuses nothing into it.",
}
"""Texts for kernels that the scheduler never considers, by `NotFused.separated_by`."""

LONGEST = 40
"""Characters of the name of a fused node, which contains the names of its parts."""

NO_RECORD = "This torch version does not report what its scheduler knew about these two."

NO_BUFFER = (
    "They share no buffer. torch compares only nodes that use the same buffer, so it never considered fusing these two."
)

NOT_COMPARED = (
    "They share a buffer, but torch did not compare them: it compares each user of a buffer only with the next {} "
    "(`torch._inductor.config.max_fusion_buffer_group_pairwise_attempts`)."
)


def fusion_reasons_document(snapshot: Snapshot, a: Kernel, b: Kernel, width: int = 78) -> Parts:
    """Return the document for any two kernels of a run."""
    known, answer = labels(snapshot), not_fused(snapshot, a, b)
    name = _name(answer)
    rows = [_question(answer, known), *_answer(snapshot, answer, frozenset([f"{name} unrelated"]), width)]
    return Parts(f"{_kernel_name(answer.a, known)} and {_kernel_name(answer.b, known)}", [fixed(rows)])


def reason_rows(
    snapshot: Snapshot, answer: NotFused, known: Labels, toggled: frozenset[str], width: int
) -> Iterator[Row]:
    """Yield the first reason between two neighbors, with a fold for all of them."""
    name, links = _name(answer), _links(answer)
    opened = name in toggled
    second = ((span.text, span.style) for span in known.kernel[links[1]].spans)
    yield fold(
        name, opened, ("╳ ", "warn" if answer.refusals else "muted"), ("not fused with ", "muted"), *second,
        (f": {_first_reason(answer, known)}", "muted"), indent=3, links=links,
    )  # fmt: skip
    if opened:
        yield from _answer(snapshot, answer, toggled, width)


def _name(answer: NotFused) -> str:
    return f"why {answer.a.graph} {answer.a.phase} {answer.a.name} {answer.b.name}"


def _links(answer: NotFused) -> tuple[Link, ...]:
    return kernel_link(answer.a), kernel_link(answer.b)


def _kernel_name(kernel: Kernel, known: Labels) -> str:
    return known.kernel[kernel_link(kernel)].name


def _question(answer: NotFused, known: Labels) -> Row:
    first, second = (known.kernel[link].spans for link in _links(answer))
    spans = (Span(" why are "), *first, Span(" and "), *second, Span(" not fused?"))
    return Row(spans, _links(answer))


def _first_reason(answer: NotFused, known: Labels) -> str:
    """Return the first reason, and how many more there are."""
    reasons = list(dict.fromkeys(decision.reason for decision in answer.refusals))
    if reasons:
        more = f"  +{len(reasons) - 1}" if len(reasons) > 1 else ""
        return f"{_plain_reason(reasons[0]) or reasons[0]}{more}"
    if answer.unrelated:
        return "no shared data"
    relation = answer.relation
    if relation is None or relation.buffers:
        return "not compared"
    if not relation.between:
        return "no shared buffer"
    return f"{_kernel_name(relation.between[0], known)} runs in between"


def _plain_reason(reason: str) -> str:
    """Return the reason in plain words; pairs without a common buffer are counted separately."""
    return explain_refusal(f"{NO_SHARED_DATA} due to indexing mismatch" if reason == NO_SHARED_DATA else reason)


def _answer(snapshot: Snapshot, answer: NotFused, toggled: frozenset[str], width: int) -> Iterator[Row]:
    links = _links(answer)
    if answer.separated_by:
        yield from wrapped(APART[answer.separated_by], width, indent=5, links=links)
    for reason in dict.fromkeys(decision.reason for decision in answer.refusals):
        yield from _reason(reason, [d for d in answer.refusals if d.reason == reason], links, width)
    if answer.unrelated:
        yield from _unrelated(snapshot, answer, toggled, width)
    if not answer.refusals and not answer.unrelated and answer.separated_by in ("", "extern"):
        yield from _not_compared(snapshot, answer, width)


def _not_compared(snapshot: Snapshot, answer: NotFused, width: int) -> Iterator[Row]:
    """Yield what the scheduler knew about two nodes that it did not compare."""
    relation, links = answer.relation, _links(answer)
    if relation is None:
        yield from wrapped(NO_RECORD, width, "muted", indent=5, links=links)
        return
    if relation.depends:
        yield from _path(snapshot, relation, links, width)
    if not answer.separated_by:
        text = NOT_COMPARED.format(answer.pairwise_attempts or "few") if relation.buffers else NO_BUFFER
        yield from wrapped(text, width, indent=5, links=links)
        if relation.buffers:
            yield from wrapped(", ".join(relation.buffers), width, "node", indent=7, links=links)


def _path(snapshot: Snapshot, relation: KernelRelation, links: tuple[Link, ...], width: int) -> Iterator[Row]:
    """Yield the kernels between two of which one needs the results of the other."""
    first, second = ("second", "first") if relation.reversed else ("first", "second")
    directly = not relation.nodes
    text = f"The {second} one needs the result of the {first} one{'.' if directly else ', through'}"
    yield from wrapped(text, width, indent=5, links=links)
    known = labels(snapshot)
    for kernel in relation.between:
        label = ((span.text, span.style) for span in known.kernel[kernel_link(kernel)].spans)
        place = kernel.source_lines[0] if kernel.source_lines else None
        name = (f"  {kernel.name}", "dim")
        yield row(("       ", ""), *label, (" ", ""), *op_spans(kernel, known, most=3), name,
                  links=kernel_links(kernel), location=place)  # fmt: skip
    if relation.nodes and not relation.between:
        names = f"{', '.join(relation.nodes)}, without a kernel"
        yield from wrapped(names, width, "node", indent=7, links=links)


def _reason(reason: str, pairs: list[FusionDecision], links: tuple[Link, ...], width: int) -> Iterator[Row]:
    text = _plain_reason(reason)
    if text:
        yield from wrapped(f"{text[0].upper()}{text[1:]}.", width, indent=5, links=links)
    silent = pairs[0].refused_by
    lead = f"{silent} gives no reason: " if silent else "torch: "
    yield from wrapped(f"{lead}{reason}", width, "muted", indent=5, links=links)
    for pair in pairs:
        yield row(
            ("       ", ""),
            (shortened(pair.a, LONGEST), "node"),
            (" and ", "muted"),
            (shortened(pair.b, LONGEST), "node"),
            links=links,
        )


def _unrelated(snapshot: Snapshot, answer: NotFused, toggled: frozenset[str], width: int) -> Iterator[Row]:  # noqa: ARG001
    """Yield a fold with the number of unrelated pairs."""
    name = f"{_name(answer)} unrelated"
    label = f"{count(answer.unrelated, 'pair')} of their nodes without shared data"
    opened = name in toggled
    yield fold(name, opened, (label, "muted"), indent=5, links=_links(answer))
    if opened:
        yield from wrapped(explain_refusal("no shared data"), width, "muted", indent=7, links=_links(answer))
