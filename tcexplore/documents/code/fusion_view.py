"""Fused kernels, and the reasons of Inductor's scheduler (`WhyNoFuse`) not to fuse two others, in plain words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import groupby

from rich.cells import cell_len

from tcexplore import events as ev
from tcexplore.documents.code.kernels_view import GROUPED, grouping_row, idle_rows, launches_of
from tcexplore.documents.code.target_notes import generated_and_extern
from tcexplore.documents.document import Part, Parts, Row, Span, fixed
from tcexplore.documents.empty_states import empty_part, missing_rows
from tcexplore.documents.graph.graph_view import Between, order_breaks
from tcexplore.documents.labels import Labels, fitting_op_spans, kernel_links, labels, op_spans
from tcexplore.documents.locations import places
from tcexplore.documents.module_folds import kernel_groups
from tcexplore.documents.prose import BLANK, fold, row, shortened, wrapped
from tcexplore.events import FusionDecision, Kernel
from tcexplore.quantities import count, size
from tcexplore.session import Snapshot
from tcexplore.session.fused_kernels import (
    INTERMEDIATE,
    NO_SHARED_DATA,
    FusedKernel,
    Fusions,
    KernelRelation,
    NotFused,
    not_fused,
)
from tcexplore.session.kernel_facts import idle_graphs, kernels_that_run
from tcexplore.session.line_times import bytes_moved
from tcexplore.session.links import Link, break_link, kernel_link

EMPTY_TEXT = (
    "Each kernel appears here with what was fused into it and how much memory traffic that saves. Between two "
    "neighbors is torch's reason not to fuse them."
)


def fusion_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """Return the document of the view."""
    if not snapshot.code.kernels or snapshot.trace:
        return Parts("", [empty_part(snapshot, width, EMPTY_TEXT, ev.RunFact.FUSION_DECISIONS)])
    known = labels(snapshot)
    fusions = Fusions(snapshot)
    apart = {id(why.a): why for why in fusions.neighbors()}
    folded = kernel_groups(snapshot, snapshot.code)
    may_fold = any(len(group.kernels) > 1 for group in folded)
    alike: list[tuple[Kernel, ...]] = [(kernel,) for kernel in snapshot.code.kernels]
    if may_fold and GROUPED not in toggled:
        alike = [group.kernels for group in folded]
    listed = {id(kernel): kernels[0] for kernels in alike for kernel in kernels}
    idle, running = idle_graphs(snapshot), kernels_that_run(snapshot)
    # What runs comes first.
    alike.sort(key=lambda kernels: kernels[0].graph in idle)
    groups = [(key, list(of)) for key, of in groupby(alike, lambda kernels: (kernels[0].graph, kernels[0].phase))]
    parts: list[Part] = [
        fixed(_verdict(running, width)),
        fixed(missing_rows(snapshot, (ev.RunFact.FUSION, ev.RunFact.FUSION_REFUSED), width)),
    ]
    if may_fold:
        parts.append(fixed([grouping_row(snapshot, toggled, folded)]))
    breaks = order_breaks(snapshot.graphs, snapshot.breaks)
    before: Kernel | None = None
    for (graph, phase), of_graph in groups:
        if graph in idle and (before is None or before.graph not in idle):
            parts.append(fixed(idle_rows(snapshot, width)))
            before = None
        parts.append(fixed(_between_graphs(snapshot, breaks, before, of_graph[0][0], width)))
        before = of_graph[-1][-1]
        parts.append(fixed([row((f" {graph}", "title"), (f" {phase}", "muted"))] if len(groups) > 1 else []))
        for kernels in of_graph:
            fused = fusions.fused(kernels[0])
            parts.append(fixed(_kernel(kernels, fused, known, toggled, width), known.title(kernels[0])))
            # Of equal layers, one reason for each kind of neighbor.
            answers = [why for kernel in kernels if (why := apart.get(id(kernel))) is not None]
            shown = {id(listed[id(why.b)]): why for why in reversed(answers)}.values()
            parts += [fixed(reason_rows(snapshot, why, known, toggled, width, listed)) for why in shown]
    return Parts(_title(running), parts)


def _between_graphs(
    snapshot: Snapshot, breaks: Between, before: Kernel | None, after: Kernel, width: int
) -> Iterator[Row]:
    """Yield why the last kernel of a graph is not fused with the first one of the next graph."""
    if before is None or before.graph == after.graph or (before.phase, after.phase) != ("forward", "forward"):
        return
    names = [captured.graph for captured in snapshot.graphs]
    ended = names.index(before.graph) if before.graph in names else None
    between = breaks.after.get(ended, []) if ended is not None else []
    where = places(snapshot.file).describe(between[-1].location) if between else ""
    text = f"the graph break at {where} is between them" if where else "they are compiled separately"
    links = tuple(break_link(graph_break) for graph_break in between)
    yield from wrapped(f"not fused with the kernels of {after.graph}: {text}", width, "muted", indent=3, lead="╳ ",
                       links=links, location=between[-1].location if between else None)  # fmt: skip


def _title(running: Sequence[Kernel]) -> str:
    saved = sum(kernel.bytes_saved or 0 for kernel in running)
    return f"saved {size(saved)}" if saved > 0 else generated_and_extern(running)


def _verdict(kernels: Sequence[Kernel], width: int) -> Iterator[Row]:
    """Yield how much memory traffic fusion saves in these kernels, and the source of the figures."""
    if not any(kernel.generated for kernel in kernels):
        if kernels:
            yield from wrapped(f"Only library calls run. {APART['extern']}", width, "strong")
            yield BLANK
        return
    known = [(kernel.bytes_saved, bytes_moved(kernel)) for kernel in kernels]
    saved = sum(saved for saved, moved in known if saved is not None and moved is not None)
    moved = sum(moved for saved, moved in known if saved is not None and moved is not None)
    if not moved:
        yield from wrapped("This torch version does not report the buffer sizes of its kernels.", width, "warn")
        return
    unfused = saved + moved
    part = f" of {size(unfused)} of memory traffic ({saved / unfused:.0%})" if saved > 0 else ""
    yield row((f" fusion saves {size(max(saved, 0))}", "strong"), (part, "muted"))
    text = (
        "From the buffers that the scheduler nodes access, fused and separate. Ops that Inductor inlined before "
        "scheduling never had a buffer and do not count."
    )
    yield from wrapped(text, width, "dim")
    if not all(kernel.generated for kernel in kernels):
        yield from wrapped(APART["extern"], width, "dim")
    yield BLANK


def _kernel(
    kernels: Sequence[Kernel], fused: FusedKernel, known: Labels, toggled: frozenset[str], width: int
) -> Iterator[Row]:
    """Yield the first of equal kernels; what fusion saves is the sum over all."""
    kernel = kernels[0]
    name = f"fusion {kernel.graph} {kernel.phase} {kernel.name}"
    opened = name in toggled
    label = [(span.text, span.style) for span in known.kernel[kernel_link(kernel)].spans]
    if (launches := launches_of(kernels)) > 1:
        label.append((f" ×{launches}", "number"))
    kinds = (f"  {_kinds(fused)}", "heading" if kernel.generated else "extern")
    total = sum(one.bytes_saved or 0 for one in kernels)
    saved = (f"  {_format_saved(total)}" if total else "", "strong")
    used = sum(cell_len(text) for text, _ in (*label, kinds, saved)) + 4
    fuses = fitting_op_spans(kernel, known, width - used)
    place = kernel.source_lines[0] if kernel.source_lines else None
    links = (*map(kernel_link, kernels), *kernel_links(kernel)[1:])
    yield fold(name, opened, *label, kinds, saved, ("  ", ""), *fuses, indent=0, links=links, location=place,
               copy=kernel.name, inside=partial("\n".join, [one.name for one in kernels[1:]]))  # fmt: skip
    if opened:
        yield from _details(kernel, fused, known, width)


def _format_saved(saved: int) -> str:
    """Return how fusion changes the traffic."""
    return f"saves {size(saved)}" if saved > 0 else f"moves {size(-saved)} more than unfused"


def _kinds(fused: FusedKernel) -> str:
    """Return the kinds of fusion; a function of several loop nests has them one after the other."""
    inlined = ("ops inlined",) if fused.inlined else ()
    nests = "nothing fused" if len(fused.groups) < 2 else f"{len(fused.groups)} loops, not fused"
    return " · ".join((*fused.kinds, *inlined)) or nests


def _details(kernel: Kernel, fused: FusedKernel, known: Labels, width: int) -> Iterator[Row]:
    own = (kernel_link(kernel),)
    yield row((f"   {kernel.name}", "heading"), links=own)
    shown = op_spans(kernel, known, most=None)
    yield row(("   ", ""), *shown, links=own)
    moved, saved = bytes_moved(kernel), kernel.bytes_saved
    if moved is not None and saved is not None and len(kernel.scheduler_nodes) > 1:
        nodes = count(len(kernel.scheduler_nodes), "scheduler node")
        nodes += f" in {len(kernel.calls)} calls" if len(kernel.calls) > 1 else ""
        less = f"the kernel moves {size(moved)}" if saved else "the kernel moves the same: fusion saves no traffic"
        text = f"Separately, its {nodes} would move {size(moved + saved)}; {less}."
        yield from wrapped(text, width, indent=3, links=own)
    first = set((kernel.calls or (kernel,))[0].scheduler_nodes)
    groups = [group for group in fused.groups if first.issuperset(group)]
    single = [group for group in groups if len(group) == 1]
    if len(groups) > 1:
        calls = " in each call" if len(kernel.calls) > 1 else ""
        text = f"{len(groups)} loop nests share the function{calls}; the scheduler fused those joined by + below."
        yield from wrapped(text, width, "muted", indent=3, links=own)
    for group in groups:
        if len(group) > 1:
            yield row(("   fused  ", "muted"), (" + ".join(group), "node"), links=own)
    if single and len(groups) > 1:
        yield row(
            ("   separate  ", "muted"), (", ".join(name for group in single for name in group), "node"), links=own
        )
    yield from (_step(step, own) for step in fused.steps)


def _step(step: FusionDecision, own: tuple[Link, ...]) -> Row:
    saved = f"  saves {size(step.bytes_saved)}" if step.bytes_saved and step.bytes_saved > 0 else ""
    a, b = (shortened(name, LONGEST) for name in (step.a, step.b))
    kind = (f"  {step.kind}", "muted")
    return row(("     ", ""), (a, "node"), (" with ", "muted"), (b, "node"), kind, (saved, "number"), links=own)


APART = {
    "graph": "They belong to different graphs, which are compiled separately.",
    "phase": "One belongs to the forward, the other to the backward, which are compiled separately.",
    "extern": "An extern kernel is a library call: Inductor fuses nothing into it.",
}
"""Texts for kernels that the scheduler never considers, by `NotFused.separated_by`."""

LONGEST = 40
"""Characters of the name of a fused node, which contains the names of its parts."""

NAMED = 4
"""Kernels between two others that a row names."""

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
    snapshot: Snapshot, answer: NotFused, known: Labels, toggled: frozenset[str], width: int,
    listed: Mapping[int, Kernel],
) -> Iterator[Row]:  # fmt: skip
    """Yield the first reason between two neighbors, with a fold for all of them.

    `listed` has, by id, the kernel of an equal layer that is listed in the place of a kernel.
    """
    name, links = _name(answer), _links(answer)
    opened = name in toggled
    first, second = (listed.get(id(kernel), kernel) for kernel in (answer.a, answer.b))
    label = known.kernel[kernel_link(second)]
    lead = "not fused with the next " if first is second else "not fused with "
    reason = _first_reason(answer, known, listed)
    fits = cell_len(f"   ▸ ╳ {lead}{label.text}: {reason}") <= width
    yield fold(
        name, opened, ("╳ ", "warn" if answer.refusals else "muted"), (lead, "muted"),
        *((span.text, span.style) for span in label.spans), (f": {reason}" if fits else "", "muted"), indent=3,
        links=links,
    )  # fmt: skip
    if not fits and not opened:
        yield from wrapped(reason, width, "muted", indent=7, links=links)
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


def first_reason(snapshot: Snapshot, a: Kernel, b: Kernel) -> str:
    """Return the first reason why two kernels of a run are not fused."""
    return _first_reason(not_fused(snapshot, a, b), labels(snapshot), {})


def _first_reason(answer: NotFused, known: Labels, listed: Mapping[int, Kernel]) -> str:
    """Return the first reason, and how many more there are."""
    reasons = list(dict.fromkeys(decision.reason for decision in answer.refusals))
    relation = answer.relation
    between = relation.between if relation is not None else ()
    if reasons:
        more = f"  +{len(reasons) - 1}" if len(reasons) > 1 else ""
        if reasons[0] == INTERMEDIATE and relation is not None and relation.nodes:
            in_between = _in_between(between, known, listed) if between else _without_kernel(relation)
            return f"{in_between}{more}"
        return f"{_plain_reason(reasons[0]) or reasons[0]}{more}"
    if answer.unrelated:
        return "no shared data"
    if relation is None or relation.buffers:
        return "not compared"
    return _in_between(between, known, listed) if between else "no shared buffer"


def _in_between(kernels: Sequence[Kernel], known: Labels, listed: Mapping[int, Kernel]) -> str:
    shown = [listed.get(id(kernel), kernel) for kernel in kernels[:NAMED]]
    names = ", ".join(_kernel_name(kernel, known) for kernel in shown)
    layer = " of an equal layer" if any(a is not b for a, b in zip(shown, kernels, strict=False)) else ""
    more = f" and {len(kernels) - NAMED} more" if len(kernels) > NAMED else ""
    return f"{names}{layer}{more} {'runs' if len(kernels) == 1 else 'run'} in between"


def _without_kernel(relation: KernelRelation) -> str:
    names = ", ".join(relation.nodes[:NAMED])
    more = f" and {len(relation.nodes) - NAMED} more" if len(relation.nodes) > NAMED else ""
    return f"{names}{more}, without a kernel, {'is' if len(relation.nodes) == 1 else 'are'} in between"


def _plain_reason(reason: str) -> str:
    """Return the reason in plain words; pairs without a common buffer are counted separately."""
    return explain_refusal(f"{NO_SHARED_DATA} due to indexing mismatch" if reason == NO_SHARED_DATA else reason)


def _answer(snapshot: Snapshot, answer: NotFused, toggled: frozenset[str], width: int) -> Iterator[Row]:
    links = _links(answer)
    if answer.separated_by:
        yield from wrapped(APART[answer.separated_by], width, indent=5, links=links)
    for reason in dict.fromkeys(decision.reason for decision in answer.refusals):
        yield from _reason(reason, [d for d in answer.refusals if d.reason == reason], links, width)
    relation = answer.relation
    if relation is not None and any(decision.reason == INTERMEDIATE for decision in answer.refusals):
        yield from _path(snapshot, relation, links, width)
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
    through = f", {'directly and ' * relation.directly}through" if relation.nodes else "."
    text = f"The {second} one needs the result of the {first} one{through}"
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


# ---- the scheduler's reasons in plain words


PLAIN = {
    INTERMEDIATE: (
        "another node runs in between: it reads the result of the first one, and the second one needs its result"
    ),
    "will create cycle": "fusing them would create a cycle through another node",
    "node1 must go before node2": "the first one needs the result of the second one, so they cannot fuse in this order",
    "memory deps did not match": "the second one reads the first result in another order or at other indices",
    "no shared data": "they share no data, so fusing them would save no memory traffic",
    "no shared data due to indexing mismatch": (
        "they access the same buffers, but in another order or at other indices, which torch does not count as shared "
        "data: fusing would save no memory traffic"
    ),
    "score_fusion_memory_threshold": "they share too little data",
    "exceeds max fusion": "the fused kernel would have more nodes than `torch._inductor.config.max_fusion_size` allows",
    "Fusion will increase peak memory": "fusing would keep buffers alive longer and raise peak memory",
    "Nodes are too far away. Fusing them may increase peak memory.": (
        "they are far apart in the execution order; fusing would keep buffers alive longer"
    ),
    "fusion_prevent_too_many_reads_and_writes": "the fused kernel would read and write too many buffers",
    "node1 is extern or nop": "the first one is a library call or a no-op",
    "node2 is extern or nop": "the second one is a library call or a no-op",
    "node1 is nop": "the first one is a no-op",
    "node1 is extern but not a triton kernel": "the first one is a library call",
    "node1's triton kernel doesn't support epilogue fusion": (
        "the first one is your Triton kernel, which supports no epilogue"
    ),
    "node1 is extern but node2 is not SchedulerNode": (
        "the first one is your Triton kernel, the second one is not a single node"
    ),
    "node1 is extern but node2.node is not SchedulerNode": (
        "the first one is your Triton kernel, the second one is not a loop"
    ),
    "node1 is extern but node2.node.data is not Pointwise": (
        "the first one is your Triton kernel, the second one is not pointwise"
    ),
    "epilogue reads from buffers other than the mutated output": (
        "the second one also reads buffers that the first one, your Triton kernel, does not write"
    ),
    "epilogue is not a unary read of the output buffer": (
        "the second one is not a unary op on the output of the first one, your Triton kernel"
    ),
    "epilogue's read and write indices differ": "the second one reads and writes at different indices",
    "node1 and node2 uses different buf layouts": "their buffers have different memory layouts",
    "device mismatch (%s vs %s)": "they run on different devices: {0} and {1}",
    "fusion for buffer explicit disabled": "one of the buffers is excluded from fusion",
    "grouped node must not be fused with other nodes": "one of them belongs to a group that allows no further fusion",
    "nodes numel/rnumel incompatibility": "their loops have incompatible sizes",
    "nodes numel incompatibility": "their loops have incompatible sizes",
    "numel/rnumel mismatch (reduce) (%s, %s), (%s, %s)": (
        "both are reductions, but of different sizes: loops of {0} and {1}, reductions of {2} and {3} elements"
    ),
    "numel/rnumel mismatch (non-reduce) (%s, %s), (%s, %s)": (
        "their loops have different sizes: loops of {0} and {1}, reductions of {2} and {3} elements"
    ),
    "numel/rnumel mismatch prologue mismatch (%s, %s), (%s, %s)": (
        "the sizes do not match the template's input: loops of {0} and {1}, reductions of {2} and {3} elements"
    ),
    "tiling mismatch (%s, %s, %s)": "their loops have different tilings: {0}, {1}, {2}",
    "invalid tiling for reduction": "the pointwise part cannot use the tiling of the reduction",
    "invalid loop order and tiling for native matmul": "its loop order or tiling does not match the matrix product",
    "Split scan cannot fuse with reductions": "a scan that is split into blocks cannot share a kernel with a reduction",
    "incompatible reduction contracts": "their reductions have different requirements",
    "reduction fusion does not preserve strict reduction ordering": (
        "fusing would change the order of a reduction that must be strict"
    ),
    "template fusion does not preserve strict reduction ordering": (
        "fusing would change the order of a reduction that must be strict"
    ),
    "template epilogue not satisfied": "the matrix-product template does not support the second one as an epilogue",
    "multi-output template epilogue requires ComputedBuffer": (
        "the template has several outputs, so its epilogue must be a computed buffer"
    ),
    "template has no allowed prologue inputs": "no input of the template allows a prologue",
    "template prologue can only fuse functional pointwise nodes": (
        "a template prologue must be pointwise and free of side effects"
    ),
    "template prologue can only fuse nodes with a single use": (
        "the result of the prologue is also used elsewhere"
    ),
    "template prologue can only fuse nodes with a single use into template": (
        "the template uses the result of the prologue more than once"
    ),
    "prologue fusion turned off": "prologue fusion is off (`prologue_fusion`)",
    "prologue fusion only supported for TritonTemplates": "only Triton templates support a prologue",
    "prologue fusion only supported for pointwise nodes": (
        "a template prologue must be pointwise"
    ),
    "prologue fusion not implemented for kernel for these inputs": (
        "this template supports no prologue for these inputs"
    ),
    "prologue fusion will not increase amount of bytes read in kernel": (
        "as a prologue, it would make the kernel read more bytes"
    ),
    "prologue fusion that must be upcast to fp32 not profitable for low precision templates": (
        "it computes in float32, which would slow down a matrix product of lower precision"
    ),
    "prologue fusion will not increase attempt to fuse in padding bc it increases unaligned reads": (
        "it is padding; as a prologue, it would make reads unaligned"
    ),
    "register spilling of the first kernel": "measured on the GPU: the first one already spills registers",
    "register spilling of the second kernel": "measured on the GPU: the second one already spills registers",
    "register spilling of the fused kernel": "measured on the GPU: the fused kernel spills registers",
    "foreach do not have same length": "both are foreach ops, but on lists of different lengths",
    "candidate producer is not dep of any foreach consumer": "no foreach consumer reads the result of the first one",
    "candidate consumer has no dep in any foreach producer": "the second one reads no result of the foreach producers",
    "candidate consumer is a reduction, foreach ops cannot be fused with reductions currently": (
        "the second one is a reduction, which foreach kernels do not support"
    ),
    "candidate producer is a reduction, foreach ops cannot be fused with reductions currently": (
        "the first one is a reduction, which foreach kernels do not support"
    ),
    "a consumer depends on another producer sub-node": "a part of the second one needs another part of the first one",
    "cutlass epilogue fusion is not enabled": "epilogue fusion into CUTLASS kernels is off",
    "epilogue fusion is only supported for TMA-enabled gemm ops": "only CUTLASS kernels with TMA support an epilogue",
}  # fmt: skip
"""torch's text with its `%s`, and its explanation; `{0}` is the first `%s`. "The first one" and "the second one" follow
torch's order of the two nodes."""


UNEXPLAINED = {
    "no loop in common: %s, %s": (
        "the second one reads the result of the first one, but their loops, {0} and {1}, share no outer loop"
    ),
    "loops of different ranges: %s, %s": "they share data, but their loops have different ranges: {0} and {1}",
    "%s nodes, at most %s per horizontal fusion": (
        "together they have {0} nodes; `torch._inductor.config.cpp.max_horizontal_fusion_size` lets {1} share a loop"
    ),
    "outer-loop fusions are not fused horizontally": (
        "one of them is an outer-loop fusion, which is fused only with nodes that need its results"
    ),
    "no prologue fusion into C++ templates": (
        "the second one is a C++ template, which supports no prologue"
    ),
    "the C++ template does not support this epilogue": (
        "the first one is a C++ template, which does not support the second one as an epilogue"
    ),
    "no speedup expected": "torch expects the fused kernel to be no faster",
}  # fmt: skip
"""Explanations of the refusals for which torch gives no reason and tcexplore records one."""


@lru_cache(maxsize=1024)
def explain_refusal(reason: str) -> str:
    """Return the reason in plain words, empty if it is unknown."""
    if reason in PLAIN:
        return PLAIN[reason]
    for pattern, text in _patterns():
        if match := pattern.fullmatch(reason):
            return text.format(*match.groups())
    return ""


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple(
        (re.compile(re.escape(text).replace("%s", "(.+?)"), re.DOTALL), plain_text)
        for text, plain_text in (PLAIN | UNEXPLAINED).items()
        if "%s" in text or text in UNEXPLAINED
    )
