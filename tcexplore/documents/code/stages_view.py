"""The stages view: the compiler stages of each kernel, their lines linked to its source."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from tcexplore.documents.code.target_notes import describe_vectors, format_resources
from tcexplore.documents.document import Part, Parts, Row, Span, by_identity, fixed
from tcexplore.documents.labels import BAR, KernelLines, Labels, OpLabel, kernel_links, labels
from tcexplore.documents.prose import BLANK, fold, wrapped
from tcexplore.events import Kernel, KernelAssembled, KernelStage
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.kernel_facts import kernel_facts
from tcexplore.session.links import Link, aten_link, kernel_link, line_link, statement_link

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
    """Return the folds that hide a selected statement in the source, the first stage, PTX and machine code."""
    return _find_folds(snapshot, links, AT_ONCE, source=True)


def find_assembly_folds(snapshot: Snapshot, links: Iterable[Link]) -> frozenset[str]:
    """Return the folds that hide a selected statement in PTX, or in the assembly of a device without PTX."""
    return _find_folds(snapshot, links, ("ptx", "amdgcn", "assembly"), source=False)


def _find_folds(snapshot: Snapshot, links: Iterable[Link], stages: Collection[str], *, source: bool) -> frozenset[str]:
    selected = {link for link in links if link.kind == "statement"}
    folds: set[str] = set()
    for kernel in snapshot.code.kernels if selected else ():
        own = {statement_link(kernel, n) for n in range(1, kernel.source.count("\n") + 2)}
        made = kernel_facts(snapshot.code, kernel).assembled
        if made is None or own.isdisjoint(selected):
            continue
        folds |= {_source_fold(kernel)} if source else set()
        folds |= {_stage_fold(kernel, made, stage) for stage in made.stages if stage.name in stages}
    return frozenset(folds)


AT_ONCE = ("ttir", "ptx", "sass", "amdgcn", "assembly")


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
        yield from _stage(kernel, made, stage, known, toggled)
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
    return "Triton" if kernel.language == "triton" else "C++"


def _stage(
    kernel: Kernel, made: KernelAssembled, stage: KernelStage, known: Labels, toggled: frozenset[str]
) -> Iterator[Part]:
    name = _stage_fold(kernel, made, stage)
    lines = _stage_lines(kernel, stage, known)
    facts = f"  {count(len(lines), 'line')}, {len(stage.lines)} with a source line"
    called = NAMES.get(stage.name, stage.name)
    yield fixed([fold(name, name in toggled, (called, "strong"), (facts, "muted"), indent=2)],
                _title(kernel, known, called))  # fmt: skip
    if name in toggled:
        yield Part(len(lines), lines.row)


def _figures(made: KernelAssembled, width: int) -> Iterator[Row]:
    if made.resources is not None:
        yield from wrapped(format_resources(made.resources), width, "muted", indent=4)
    if made.vectors is not None:
        yield from wrapped(describe_vectors(made.vectors), width, "muted", indent=4)


@by_identity(512)
def _stage_lines(kernel: Kernel, stage: KernelStage, known: Labels) -> StageLines:
    return StageLines(kernel, stage, known)


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

    def __init__(self, kernel: Kernel, stage: KernelStage, known: Labels) -> None:
        self._kernel = kernel
        self._known = known
        self._lines = stage.text.split("\n")
        self._origin = dict(stage.lines)
        self._from = {line.n: line for line in kernel.lines}
        self._number = len(str(len(self._lines)))
        self._wide = len(str(kernel.source.count("\n") + 1)) + 1

    def __len__(self) -> int:
        return len(self._lines)

    def row(self, index: int) -> Row:
        origin = self._origin.get(index + 1)
        from_ = f"←{origin}" if origin else ""
        ops = self._ops(origin)
        line = self._from.get(origin) if origin else None
        spans = (
            Span(f" {index + 1:>{self._number}} ", "dim"),
            Span(f"{from_:>{self._wide}}", "number"),
            Span(BAR if ops else " ", ops[0].style if ops else ""),
            Span(f" {self._lines[index].expandtabs(4)}", "" if origin else "muted"),
        )
        place = line.source[0] if line and line.source else None
        return Row(spans, self._links(origin), place, copy=self._lines[index])

    def _ops(self, origin: int | None) -> tuple[OpLabel, ...]:
        line = self._from.get(origin) if origin else None
        return self._known.ops(self._kernel, line.nodes) if line else ()

    def _links(self, origin: int | None) -> tuple[Link, ...]:
        """Return links to the statement of a line and to the nodes and source lines of that statement."""
        if origin is None:
            return ()
        kernel, line = self._kernel, self._from.get(origin)
        nodes = tuple(aten_link(kernel.graph, kernel.phase, name) for name in line.nodes) if line else ()
        places = tuple(line_link(location) for location in line.source) if line else ()
        return (statement_link(kernel, origin), *nodes, *places, kernel_link(kernel))
