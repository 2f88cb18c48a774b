"""One kernel on two targets: its resources, and one of its stages side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tcexplore import events as ev
from tcexplore.documents.code.stages_view import NAMES
from tcexplore.documents.code.target_notes import describe_vectors
from tcexplore.documents.document import Row, Span, StaticDocument, by_identity
from tcexplore.documents.labels import LANGUAGES, labels, op_spans
from tcexplore.documents.prose import BLANK, Spans, columns, row, wrapped
from tcexplore.documents.text_diff import text_rows
from tcexplore.events import Kernel, KernelResources
from tcexplore.quantities import count, duration, size
from tcexplore.session import Snapshot
from tcexplore.session.code import Code
from tcexplore.session.kernel_facts import KernelFacts, kernel_facts
from tcexplore.session.run_diff import RunChange, align, match_kernels
from tcexplore.targets.target_names import NATIVE

SOURCE = "source"
MACHINE_CODE = ("sass", "amdgcn", "assembly")
"""Names of the last stage."""

FORMS = (SOURCE, "ttir", "ttgir", "llir", "ptx", "machine code")
"""Texts that can be compared, in order."""

_LINES = 2_000_000
"""Product of the numbers of lines of two texts above which aligning them takes too long."""


class Side(NamedTuple):
    """One of the targets: the run with its code in view, and the kernel for it."""

    snapshot: Snapshot
    kernel: Kernel | None

    @property
    def known(self) -> KernelFacts | None:
        return kernel_facts(self.snapshot.code, self.kernel) if self.kernel is not None else None

    def text(self, form: str) -> str | None:
        """Return the kernel in one of `FORMS`, None if it does not have it."""
        if self.kernel is None or form == SOURCE:
            return self.kernel.source if self.kernel is not None else None
        wanted = MACHINE_CODE if form == "machine code" else (form,)
        made = self.known.assembled if self.known else None
        return next((stage.text for stage in made.stages if stage.name in wanted), None) if made else None


def target_diff_document(snapshot: Snapshot, other: str, pair: TargetPair, form: str, width: int) -> StaticDocument:
    """Return the document: the target in view on the left, `other` on the right."""
    sides = Side(snapshot, pair.left), Side(snapshot.with_target(other), pair.right)
    rows = [*_head(sides, pair, width), *fact_rows(sides), BLANK, _form_row(sides, form), *_texts(*sides, form, width)]
    return StaticDocument("", tuple(rows))


def _head(sides: tuple[Side, Side], pair: TargetPair, width: int) -> Iterator[Row]:
    shown = sides[0] if pair.left is not None else sides[1]
    yield row(
        (" ", ""),
        *_spans(op_spans(pair.item, labels(shown.snapshot), most=None)),
        (f"  {pair.item.graph} {pair.item.phase}", "dim"),
    )
    present, absent = (sides[0], sides[1]) if pair.right is None else (sides[1], sides[0])
    if pair.left is None or pair.right is None:
        text = f"Only {present.snapshot.target} has this kernel."
        if pair.alternatives:
            names = ", ".join(kernel.name for kernel in pair.alternatives)
            text += f" On {absent.snapshot.target} its ops are in {names}."
        yield from wrapped(text, width, "warn", lead="! ")
    yield BLANK


def _spans(spans: Sequence[Span]) -> Iterator[tuple[str, str]]:
    return ((span.text, span.style) for span in spans)


def _form_row(sides: tuple[Side, Side], form: str) -> Row:
    """Return the row of the forms, the one in view in brackets."""
    spans: list[tuple[str, str]] = [(" ", "")]
    available = [known for known in FORMS if known == form or any(side.text(known) is not None for side in sides)]
    for known in available:
        named = f"[{_named(sides, known)}]" if known == form else _named(sides, known)
        spans += [(named, "heading" if known == form else "muted"), ("  ", "")]
    return row(*spans)


def _named(sides: tuple[Side, Side], form: str) -> str:
    if form == SOURCE:
        known = {**LANGUAGES, "extern": "the call"}
        languages = (side.kernel.language for side in sides if side.kernel is not None)
        return _joined(known.get(language, language) for language in languages)
    if form != "machine code":
        return NAMES[form]
    return _joined(_machine_code(side) for side in sides) or form


def _machine_code(side: Side) -> str:
    made = side.known.assembled if side.known else None
    return next((NAMES[stage.name] for stage in made.stages if stage.name in MACHINE_CODE), "") if made else ""


def _joined(names: Iterator[str]) -> str:
    return " / ".join(dict.fromkeys(name for name in names if name))


def _texts(left: Side, right: Side, form: str, width: int) -> Iterator[Row]:
    texts = left.text(form), right.text(form)
    for side, text in zip((left, right), texts, strict=True):
        if text is None and side.kernel is not None:
            yield from wrapped(f"{side.snapshot.target}: {_explain_absence(side)}", width, "warn", lead="! ")
    if texts == (None, None):
        return
    changes = _compared(left, right, form, *(text or "" for text in texts))
    if any(change.kind != "same" for change in changes):
        yield from text_rows(changes, width)
        return
    yield from wrapped(f"Identical on both ({count(len(changes), 'line')}).", width, "muted")
    for change in changes:
        yield row((f"   {change.item}", ""), copy=change.item)


def _explain_absence(side: Side) -> str:
    known = side.known
    if side.kernel is not None and not side.kernel.generated:
        return "a library call, which has no generated code"
    if known is not None and known.not_assembled is not None:
        return f"not assembled: {known.not_assembled.reason}"
    if known is None or known.assembled is None:
        return "not assembled"
    return "it has no such stage"


def _compared(left: Side, right: Side, form: str, was: str, now: str) -> tuple[RunChange[str], ...]:
    return _changes(left.kernel, right.kernel, form + left.snapshot.target + right.snapshot.target, was, now)


@by_identity(32)
def _changes(left: Kernel | None, right: Kernel | None, _: str, was: str, now: str) -> tuple[RunChange[str], ...]:
    before, after = _lines(was, left), _lines(now, right)
    if len(before) * len(after) > _LINES:
        return (
            *(RunChange("removed", line, None) for _, line in before),
            *(RunChange("added", None, line) for _, line in after),
        )
    return tuple(
        RunChange(change.kind, change.before and change.before[1], change.after and change.after[1])
        for change in align(before, after, lambda line: line[0])
    )


def _lines(text: str, kernel: Kernel | None) -> list[tuple[str, str]]:
    """Return each line without the name of the kernel, and the original line."""
    name = kernel.name if kernel is not None else ""
    return [(line.replace(name, "") if name else line, line) for line in text.splitlines()]


class Known(Protocol):
    """A kernel and its facts on one target."""

    @property
    def snapshot(self) -> Snapshot: ...
    @property
    def kernel(self) -> Kernel | None: ...
    @property
    def known(self) -> KernelFacts | None: ...


RESOURCES: tuple[tuple[str, Callable[[KernelResources], str]], ...] = (
    ("registers", lambda r: str(r.registers)),
    ("spills", lambda r: size(r.spills) if r.spills else "–"),
    ("shared memory", lambda r: size(r.shared_static + r.shared_dynamic)),
    ("warps × stages", lambda r: f"{r.num_warps} × {r.num_stages}"),
    ("threads", lambda r: str(r.threads)),
    ("blocks per SM", lambda r: str(r.blocks)),
    ("occupancy", lambda r: f"{r.occupancy:.0%}" + (f", {r.limited_by}" if r.limited_by else "")),
    ("instructions", lambda r: f"{sum(number for _, number in r.mix):,}"),
)


def fact_rows(sides: Sequence[Known]) -> Iterator[Row]:
    """Yield a table with a column for each target."""
    rows = [*_rows(sides)]
    head = ("", *(side.snapshot.target for side in sides))
    return columns(head, rows, [()] * len(rows), left=range(len(head)))


def _rows(sides: Sequence[Known]) -> Iterator[Sequence[Spans]]:
    yield _row("kernel", [side.kernel.name if side.kernel else "none" for side in sides])
    made = [side.known.assembled if side.known else None for side in sides]
    yield from _unless_empty("configuration", [m.config if m else "" for m in made])
    taken = [m.resources if m else None for m in made]
    if any(taken):
        for name, say in RESOURCES:
            yield _row(name, [say(resources) if resources else "" for resources in taken])
    points = [side.known.roofline if side.known else None for side in sides]
    yield from _unless_empty("bound", [point.bound if point else "" for point in points])
    yield from _unless_empty("at least", [_least(point.implied_us) if point else "" for point in points])
    yield from _unless_empty("vectors", [describe_vectors(m.vectors) if m and m.vectors else "" for m in made])
    mixes = [dict(resources.mix) if resources else {} for resources in taken]
    for kind in dict.fromkeys(kind for mix in mixes for kind in mix):
        yield _row(f"  {kind}", [str(mix.get(kind, "–")) if mix else "" for mix in mixes], "dim")


def _least(microseconds: float) -> str:
    return ("under 0.01 µs" if microseconds < 0.01 else duration(microseconds / 1e6)) + " (estimate)"


def _unless_empty(name: str, values: Sequence[str]) -> Iterator[Sequence[Spans]]:
    if any(values):
        yield _row(name, values)


def _row(name: str, values: Sequence[str], style: str = "muted") -> Sequence[Spans]:
    differs = len(set(values)) > 1 and name != "kernel"
    return ((Span(name, style),), *((Span(value, "strong" if differs else ""),) for value in values))


@dataclass(frozen=True, slots=True)
class TargetPair:
    """One kernel for both targets."""

    left: ev.Kernel | None
    """None if this target has no equivalent kernel."""
    right: ev.Kernel | None
    alternatives: tuple[ev.Kernel, ...] = ()
    """Kernels of the other target that share graph nodes with a kernel without an equivalent."""

    @property
    def item(self) -> ev.Kernel:
        """The kernel on the left, else on the right."""
        kernel = self.left or self.right
        assert kernel is not None
        return kernel


def other_targets(snapshot: Snapshot) -> list[str]:
    """Return the other targets with code, `native` last."""
    known = [code.target for code in snapshot.other_codes if code.kernels]
    return sorted(known, key=lambda target: target == NATIVE)


def target_diff(left: Code, right: Code) -> list[TargetPair]:
    """Return every kernel of both targets by graph, in the order of the left; kernels only on the right come last."""
    result: list[TargetPair] = []
    for graph in dict.fromkeys(kernel.graph for kernel in (*left.kernels, *right.kernels)):
        ours, theirs = ([k for k in code.kernels if k.graph == graph] for code in (left, right))
        pairs = [_pair(change.before, change.after, ours, theirs) for change in match_kernels(ours, theirs)]
        order = {id(kernel): index for index, kernel in enumerate(ours)}
        result += sorted(pairs, key=lambda pair: order.get(id(pair.left), len(order)))
    return result


def _pair(
    left: ev.Kernel | None, right: ev.Kernel | None, ours: list[ev.Kernel], theirs: list[ev.Kernel]
) -> TargetPair:
    if left is not None and right is not None:
        return TargetPair(left, right)
    alone, others_ = (left, theirs) if left is not None else (right, ours)
    assert alone is not None
    nodes = set(alone.nodes)
    shared = (k for k in others_ if k.phase == alone.phase and nodes.intersection(k.nodes))
    return TargetPair(left, right, tuple(shared))
