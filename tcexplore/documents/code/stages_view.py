"""The stages view: the compiler stages of each kernel, their lines linked to its source."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from tcexplore.documents.code.instructions import LINKED, CodeLine, stage_code
from tcexplore.documents.code.linked_code import LinkedCode, linked_code
from tcexplore.documents.code.target_notes import describe_vectors, format_resources
from tcexplore.documents.document import Part, Parts, Row, Span, by_identity, fixed
from tcexplore.documents.labels import BAR, LANGUAGES, KernelLines, Labels, OpLabel, kernel_links, labels
from tcexplore.documents.prose import BLANK, fold, wrapped
from tcexplore.events import Kernel, KernelAssembled, KernelStage
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.kernel_facts import kernel_facts
from tcexplore.session.links import Link, aten_link, closure, kernel_link, line_link, statement_link

NAMES = {
    "ttir": "TTIR", "ttgir": "TTGIR", "llir": "LLVM IR", "ptx": "PTX", "sass": "SASS", "amdgcn": "AMDGCN",
    "assembly": "assembly",
}  # fmt: skip


def stages_section(snapshot: Snapshot, toggled: frozenset[str], width: int) -> Parts:
    """Return the stages of each kernel that has any."""
    known = labels(snapshot)
    shown = [kernel for kernel in snapshot.code.kernels if any(kernel_facts(snapshot.code, kernel)[:2])]
    parts = [part for kernel in shown for part in _kernel(snapshot, kernel, known, toggled, width)]
    return Parts(f"{count(len(shown), 'kernel')}{snapshot.for_target}", parts)


def find_hiding_folds(snapshot: Snapshot, links: Iterable[Link]) -> frozenset[str]:
    """Return the folds that hide the first instructions of selected statements."""
    return instruction_folds(snapshot, links)[0]


class InstructionFolds(NamedTuple):
    """The folds of the kernels' instructions: of the form to show, and of the others."""

    opened: frozenset[str]
    closed: frozenset[str]
    forms: tuple[str, ...] = ()
    """The names of the forms: the one to show, then the others in the order in which they follow."""


def instruction_folds(
    snapshot: Snapshot, links: Iterable[Link], toggled: frozenset[str] = frozenset(), by: int = 0
) -> InstructionFolds:
    """Return the folds for the instructions of selected statements: the form `by` places after the one that is open.

    Without an open one, the first form is shown: PTX, or the assembly of a device without PTX. The next one is SASS.
    """
    selected = {link for link in links if link.kind == "statement"}
    opened, closed = set[str](), set[str]()
    forms: tuple[str, ...] = ()
    for kernel in snapshot.code.kernels if selected else ():
        own = {statement_link(kernel, n) for n in range(1, kernel.source.count("\n") + 2)}
        made = kernel_facts(snapshot.code, kernel).assembled
        if made is None or own.isdisjoint(selected):
            continue
        stages = [stage for form in LINKED for stage in made.stages if stage.name == form]
        folds = [_stage_fold(kernel, made, stage) for stage in stages]
        at = next((index + by for index, name in enumerate(folds) if name in toggled), 0) % max(1, len(folds))
        opened |= set(folds[at : at + 1])
        closed |= set(folds) - opened
        forms = tuple(NAMES.get(stage.name, stage.name) for stage in (*stages[at:], *stages[:at]))
    return InstructionFolds(frozenset(opened), frozenset(closed), forms)


def list_statements(snapshot: Snapshot, links: Collection[Link]) -> tuple[Link, ...]:
    """Return links to all statements with instructions of the kernels among the links.

    For kernels of other code than that in view, these are the statements of their lines.
    """
    chosen = {link for link in links if link.kind == "kernel"}
    kernels = [kernel for kernel in snapshot.code.kernels if kernel_link(kernel) in chosen]
    if chosen and not kernels:
        lines = tuple(link for link in links if link.kind == "line")
        return tuple(sorted(link for link in closure(snapshot, lines) if link.kind == "statement"))
    return tuple(
        statement_link(kernel, n)
        for kernel in kernels
        if (made := kernel_facts(snapshot.code, kernel).assembled) is not None
        for n in sorted({origin for stage in made.stages if stage.name in LINKED for _, origin in stage.lines})
    )


def _source_fold(kernel: Kernel) -> str:
    return f"stage {kernel.graph} {kernel.phase} {kernel.name} source"


def _stage_fold(kernel: Kernel, made: KernelAssembled, stage: KernelStage) -> str:
    return f"stage {kernel.graph} {kernel.phase} {kernel.name} {made.config} {stage.name}"


def _kernel(snapshot: Snapshot, kernel: Kernel, known: Labels, toggled: frozenset[str], width: int) -> Iterator[Part]:
    made, failed, _ = kernel_facts(snapshot.code, kernel)
    name = f"stages {kernel.graph} {kernel.phase} {kernel.name}"
    opened = name not in toggled
    label = ((span.text, span.style) for span in known.kernel[kernel_link(kernel)].spans)
    config = f"  {made.config}" if made and made.config else ""
    title = _title(kernel, known, _language(kernel) if made and opened else "")
    yield fixed([fold(name, opened, *label, (f" {kernel.name}", "heading"), (config, "muted"), indent=0,
                      links=kernel_links(kernel))], title)  # fmt: skip
    if not opened:
        return
    if failed is not None:
        yield fixed(wrapped(f"not assembled: {failed.reason}", width, "warn", indent=3, links=(kernel_link(kernel),)))
    if made is None:
        return
    yield from _source(kernel, known, toggled)
    for stage in made.stages:
        yield from _stage(snapshot, kernel, made, stage, known, toggled, width)
    if made.missing:
        yield fixed(wrapped(made.missing, width, "muted", indent=4))
    yield fixed(_figures(made, width))
    yield fixed([BLANK])


def _source(kernel: Kernel, known: Labels, toggled: frozenset[str]) -> Iterator[Part]:
    name = _source_fold(kernel)
    lines = _source_lines(kernel, known)
    yield fixed([fold(name, name in toggled, (_language(kernel), "strong"), (f"  {count(len(lines), 'line')}", "muted"),
                      indent=2)])  # fmt: skip
    if name in toggled:
        yield Part(len(lines), lines.row)


def _title(kernel: Kernel, known: Labels, stage: str) -> str:
    """Return the title of the chapter of a stage, or of the kernel."""
    return f"{stage} of {known.kernel[kernel_link(kernel)].text}" if stage else known.title(kernel)


def _language(kernel: Kernel) -> str:
    return LANGUAGES.get(kernel.language, kernel.language)


def _stage(
    snapshot: Snapshot, kernel: Kernel, made: KernelAssembled, stage: KernelStage, known: Labels,
    toggled: frozenset[str], width: int,
) -> Iterator[Part]:  # fmt: skip
    name, called, code = _stage_fold(kernel, made, stage), NAMES.get(stage.name, stage.name), stage_code(stage)
    linked, as_written = stage.name in LINKED, f"{name} as written"
    facts = count(code.instructions, "instruction" if linked else "line")
    hidden = f", {count(code.hidden, 'directive')} hidden" if code.hidden and as_written not in toggled else ""
    beside = (f" by {_language(kernel)} statement", "muted") if linked and as_written not in toggled else ("", "")
    yield fixed([fold(name, name in toggled, (called, "strong"), beside, (f"  {facts}{hidden}", "muted"), indent=2)],
                _title(kernel, known, called))  # fmt: skip
    if name not in toggled:
        return
    if linked or code.hidden:
        text = "in the order of the text, with directives" if linked else "with directives"
        yield fixed([fold(as_written, as_written in toggled, (text, "muted"), indent=4, keys_only=True)])
    if as_written in toggled:
        lines: LinkedCode | StageLines = _stage_lines(kernel, stage, known, True)
    elif linked:
        lines = linked_code(snapshot, kernel, stage, known, width)
    else:
        lines = _stage_lines(kernel, stage, known, False)
    yield Part(len(lines), lines.row)


def _figures(made: KernelAssembled, width: int) -> Iterator[Row]:
    if made.resources is not None:
        yield from wrapped(format_resources(made.resources), width, "muted", indent=4)
    if made.vectors is not None:
        yield from wrapped(describe_vectors(made.vectors), width, "muted", indent=4)


@by_identity(512)
def _stage_lines(kernel: Kernel, stage: KernelStage, known: Labels, whole: bool) -> StageLines:
    return StageLines(kernel, stage, known, whole=whole)


@by_identity(512)
def _source_lines(kernel: Kernel, known: Labels) -> SourceLines:
    return SourceLines(kernel, known)


class SourceLines:
    """The rows of `KernelLines` with links to their statements."""

    def __init__(self, kernel: Kernel, known: Labels) -> None:
        self._kernel = kernel
        self._lines = KernelLines(kernel, known)

    def __len__(self) -> int:
        return len(self._lines)

    def row(self, index: int) -> Row:
        row = self._lines.row(index)
        return row._replace(links=(statement_link(self._kernel, index + 1), *row.links))


class StageLines:
    """The rows of a stage: line number, source line (`←12`), color of the op, text."""

    def __init__(self, kernel: Kernel, stage: KernelStage, known: Labels, *, whole: bool) -> None:
        """`whole`: with directives."""
        self._kernel = kernel
        self._known = known
        origins = dict(stage.lines)
        self._lines: Sequence[CodeLine] = (
            [CodeLine(n, text, origins.get(n, 0)) for n, text in enumerate(stage.text.split("\n"), 1)]
            if whole
            else stage_code(stage).lines
        )
        self._from = {line.n: line for line in kernel.lines}
        self._number = len(str(stage.text.count("\n") + 1))
        self._wide = len(str(kernel.source.count("\n") + 1)) + 1

    def __len__(self) -> int:
        return len(self._lines)

    def row(self, index: int) -> Row:
        shown = self._lines[index]
        origin = shown.origin
        from_ = f"←{origin}" if origin else ""
        ops = self._ops(origin)
        line = self._from.get(origin) if origin else None
        spans = (
            Span(f" {shown.n:>{self._number}} ", "dim"),
            Span(f"{from_:>{self._wide}}", "number"),
            Span(BAR if ops else " ", ops[0].style if ops else ""),
            Span(f" {shown.text.expandtabs(4)}", "" if origin else "muted"),
        )
        place = line.source[0] if line and line.source else None
        return Row(spans, self._links(origin), place, copy=shown.text)

    def _ops(self, origin: int) -> tuple[OpLabel, ...]:
        line = self._from.get(origin) if origin else None
        return self._known.ops(self._kernel, line.nodes) if line else ()

    def _links(self, origin: int) -> tuple[Link, ...]:
        """Return links to the statement of a line and to the nodes and source lines of that statement."""
        if not origin:
            return ()
        kernel, line = self._kernel, self._from.get(origin)
        nodes = tuple(aten_link(kernel.graph, kernel.phase, name) for name in line.nodes) if line else ()
        places = tuple(line_link(location) for location in line.source) if line else ()
        return (statement_link(kernel, origin), *nodes, *places, kernel_link(kernel))
