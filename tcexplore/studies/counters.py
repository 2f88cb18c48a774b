"""The counters study: what the hardware counted while kernels ran in a call of the program, by statement and line."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tcexplore.documents.document import Document, Row, Span, StaticDocument
from tcexplore.documents.empty_states import missing_reason
from tcexplore.documents.labels import Labels, format_lines, kernel_links, labels
from tcexplore.documents.locations import Places, places
from tcexplore.documents.prose import BLANK, Column, row, table, wrapped
from tcexplore.events import Job, Kernel, KernelCounters, KernelLine, RunFact, StatementCounters
from tcexplore.quantities import count, duration
from tcexplore.report.json_report import failure
from tcexplore.session import Snapshot
from tcexplore.session.kernel_facts import measured_time
from tcexplore.session.links import Link, kernel_link, line_link, statement_link
from tcexplore.session.stable_ids import stable_ids
from tcexplore.studies.kernel_names import kernels_named
from tcexplore.studies.runs import RefusedError, Runs, failure_status
from tcexplore.studies.study import Announce, Prompt, PromptField, Study, StudyState

INTENT = (
    "Nsight Compute repeats each kernel, on the inputs that it really gets, until all counters are read, in a process "
    "of its own: nothing that was timed is disturbed."
)
OWN_RUN, COUNTING = "your file as it is", "counting"

SLOWEST = 3
"""Kernels that are counted if none is named."""

NEAR_PEAK = 0.8
"""Share of a peak from which more of that resource is not to be had."""

MOST_STATEMENTS = 12
"""Statements of a kernel that are shown, those with the most samples."""


@dataclass(frozen=True, slots=True)
class CounterOptions:
    """Names or ids of kernels; empty for the slowest."""

    names: tuple[str, ...] = ()


State = StudyState[CounterOptions, Snapshot]


class CountersStudy(Study[CounterOptions, Snapshot]):
    """The result is the run whose kernels were counted."""

    name = "counters"
    title = "hardware counters"
    description = (
        "Count what the GPU does while Triton kernels run: shares of its peaks, and where warps wait, by statement, op "
        "and line. It needs Nsight Compute (ncu) and an NVIDIA GPU whose driver permits it."
    )
    examples = ("model.py", "model.py k-3f2a91c04")
    exit_note = "1: the machine does not count"
    default_options = CounterOptions()

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "names", nargs="*", metavar="KERNEL",
            help=f"Triton kernels by name or id (default: the {SLOWEST} slowest)",
        )  # fmt: skip

    def options(self, given: argparse.Namespace) -> CounterOptions:
        return CounterOptions(tuple(given.names))

    def prompt(self, job: Job, own: Snapshot | None, last: State | None) -> Prompt:  # noqa: ARG002
        """Ask for kernels; the first suggestion is the slowest one."""
        suggested = last.options.names if last is not None else [k.name for k in slowest(own)[:1]] if own else []
        field = PromptField("Kernels, by name or id", " ".join(suggested), lambda text: tuple(text.split()))
        return Prompt("Count kernels", (field,), INTENT)

    def options_from(self, answers: Sequence[str]) -> CounterOptions:
        return CounterOptions(tuple(answers[0].split()))

    async def plan(self, state: State, runs: Runs, announce: Announce) -> AsyncGenerator[Snapshot, None]:
        """Run the file to know its kernels, then count the chosen ones."""
        known = state.own if state.own is not None and state.own.complete and not state.own.failure else None
        runs.steps.plan([COUNTING] if known else [OWN_RUN, COUNTING])
        if known is None:
            announce(OWN_RUN)
            job = replace(state.job, examine=False, timing_processes=0, profile=not state.options.names)
            known = (await runs.run(job, state.timeout)).snapshot
            if known.failure is not None:
                raise RefusedError(f"{known.failure.type}: {known.failure.message}")
        names = tuple(kernel.name for kernel in chosen(known, state.options.names))
        announce(COUNTING)
        job = replace(state.job, time_for=0.0, examine=False, profile=False, counted_kernels=names)
        yield (await runs.run(job, state.timeout)).snapshot

    def document(self, state: State, width: int = 78) -> Document:
        if not state.results:
            return StaticDocument("", tuple(wrapped(INTENT, width, "muted")))
        return StaticDocument("", tuple(_rows(state.results[0], width)))

    def answer(self, state: State) -> str:
        kernels = list(counted_kernels(state.results[0])) if state.results else []
        return f"{kernels[0].kernel.name}: {conclusion(kernels[0])}" if kernels else ""

    def fields(self, state: State) -> dict[str, Any]:
        run = state.results[0] if state.results else None
        return {
            "error": failure(run.failure) if run else None,
            "missing": missing(run) or None if run else None,
            "kernels": list(_fields(run)) if run else [],
        }

    def exit_status(self, state: State) -> int:
        if not state.results:
            return 0
        return failure_status(state.results[0]) or int(not state.results[0].code.counters)


# ---- kernels


def slowest(run: Snapshot) -> list[Kernel]:
    """Return the Triton kernels of a run, the slowest first if they were measured, else those that move most bytes."""

    def cost(kernel: Kernel) -> tuple[float, int]:
        time = measured_time(run, kernel)
        return (time.us if time else 0.0), (kernel.bytes_read or 0) + (kernel.bytes_written or 0)

    return sorted((k for k in run.code.kernels if k.language == "triton"), key=cost, reverse=True)


def chosen(run: Snapshot, names: Sequence[str]) -> list[Kernel]:
    """Return the kernels to count. Raises `RefusedError` with what there is."""
    kernels = slowest(run)
    if not kernels:
        raise RefusedError("The program has no Triton kernels: hardware counters are read of kernels on a GPU.")
    if not names:
        return kernels[:SLOWEST]
    wanted = set[Link]()
    for name in names:
        named = [kernel_link(kernel) for kernel in kernels_named(run, name) if kernel.language == "triton"]
        if not named:
            there_are = ", ".join(kernel.name for kernel in kernels[:12])
            raise RefusedError(f"There is no Triton kernel {name}. There are: {there_are}.")
        wanted.update(named)
    return [kernel for kernel in kernels if kernel_link(kernel) in wanted]


def missing(run: Snapshot) -> str:
    """Return why there are no counters; empty if there are."""
    if run.code.counters:
        return ""
    return missing_reason(run, RunFact.COUNTERS) or "no kernel was counted"


# ---- document


class CountedKernel(NamedTuple):
    """A kernel with its counters."""

    kernel: Kernel
    counters: KernelCounters


def counted_kernels(run: Snapshot) -> Iterator[CountedKernel]:
    """Yield the kernels that were counted."""
    for kernel in run.code.kernels:
        for counters in run.code.counters:
            if (counters.graph, counters.phase, counters.kernel) == (kernel.graph, kernel.phase, kernel.name):
                yield CountedKernel(kernel, counters)


def _share(value: float) -> str:
    return f"{value:.0%}"


SHARES: tuple[tuple[str, str], ...] = (
    ("compute", "compute_share"), ("memory", "memory_share"), ("DRAM", "dram_share"), ("L2", "l2_share"),
    ("L1", "l1_share"), ("warps", "occupancy"),
)  # fmt: skip
"""Heads of columns, and the counter in each. `warps`: of those that fit."""


def _kernel_columns(known: Labels) -> tuple[Column[CountedKernel], ...]:
    def share_of(field: str) -> Callable[[CountedKernel], float | None]:
        return lambda one: getattr(one.counters, field)

    shares = (Column(head, share_of(field), _share) for head, field in SHARES)
    return (
        Column("", lambda one: known.kernel[kernel_link(one.kernel)].spans, left=True),
        Column("kernel", lambda one: one.kernel.name, style="strong", left=True, squeezable=True),
        Column("time", lambda one: one.counters.us / 1e6, duration),
        *shares,
    )


class CountedStatement(NamedTuple):
    """A statement of a kernel with its counters, as shares of the kernel's."""

    counters: StatementCounters
    sample_share: float
    instruction_share: float
    line: KernelLine | None
    text: str
    """Of the statement; empty for instructions of no known statement."""


def counted_statements(one: CountedKernel) -> list[CountedStatement]:
    """Return the statements of a kernel, those with the most samples first."""
    statements = one.counters.statements
    samples = sum(statement.samples for statement in statements) or 1
    instructions = sum(statement.instructions for statement in statements) or 1
    lines = {line.n: line for line in one.kernel.lines}
    texts = one.kernel.source.split("\n")
    rows = [
        CountedStatement(
            each, each.samples / samples, each.instructions / instructions, lines.get(each.line),
            texts[each.line - 1].strip() if 0 < each.line <= len(texts) else "",
        )
        for each in statements
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -row.counters.samples)


WAITS = {
    "long_sb": "global memory", "long_scoreboard": "global memory", "short_sb": "shared memory or special functions",
    "short_scoreboard": "shared memory or special functions", "wait": "the instruction before", "barrier": "a barrier",
    "math": "a busy pipeline", "math_pipe_throttle": "a busy pipeline", "lg": "the queue of memory instructions",
    "lg_throttle": "the queue of memory instructions", "mio": "the queue of shared memory",
    "mio_throttle": "the queue of shared memory", "drain": "stores at its end", "imc": "constants",
    "imc_miss": "constants", "membar": "a memory fence", "branch_resolve": "a branch", "branch_resolving": "a branch",
    "no_inst": "its instructions", "no_instruction": "its instructions", "tex": "the texture unit",
    "tex_throttle": "the texture unit", "dispatch": "the dispatcher", "gmma": "matrix instructions",
    "sleeping": "its sleep", "sleep": "its sleep", "misc": "something else",
}  # fmt: skip
"""What a warp waits for, by NVIDIA's name of the reason."""

READY = frozenset({"selected", "not_selected"})
"""Reasons of a warp that waits for nothing: it issues, or another one does."""


def wait_of(stalls: Iterable[tuple[str, int]]) -> tuple[str, int] | None:
    """Return what warps wait for most, with its samples; None if they wait for nothing."""
    waits = _waits(stalls)
    return waits.most_common(1)[0] if waits else None


def _waits(stalls: Iterable[tuple[str, int]]) -> Counter[str]:
    waits = Counter[str]()
    for reason, samples in stalls:
        if reason not in READY:
            waits[WAITS.get(reason, reason)] += samples
    return waits


def conclusion(one: CountedKernel) -> str:
    """Return what limits a kernel, in one sentence without a full stop."""
    counters = one.counters
    shares = {"DRAM": counters.dram_share, "memory": counters.memory_share, "compute": counters.compute_share}
    near = {name: share for name, share in shares.items() if share is not None and share >= NEAR_PEAK}
    if near:
        name = next(iter(near))
        return f"{name} is at {near[name]:.0%} of its peak: only less of it makes the kernel faster"
    wait = wait_of(stall for statement in counters.statements for stall in statement.stalls)
    if wait is None:
        return "no resource is near its peak"
    samples = sum(statement.samples for statement in counters.statements)
    of_wait = [(_waits(statement.stalls)[wait[0]], statement.line) for statement in counters.statements]
    line = max(of_wait)[1]
    at = f", most at line {line} of the kernel" if line else ""
    return f"no resource is near its peak; in {wait[1] / samples:.0%} of the samples warps wait for {wait[0]}{at}"


def _rows(run: Snapshot, width: int) -> Iterator[Row]:
    if run.failure is not None:
        yield from wrapped(f"{run.failure.type}: {run.failure.message}", width, "error", lead="✖ ")
        return
    if reason := missing(run):
        yield from wrapped(f"Not counted: {reason}.", width, "warn")
        return
    known, where = labels(run), places(run.file)
    kernels = list(counted_kernels(run))
    yield from table(_kernel_columns(known), kernels, [kernel_links(one.kernel) for one in kernels], width=width)
    yield BLANK
    yield from wrapped(LEGEND, width, "dim")
    for one in kernels:
        links = kernel_links(one.kernel)
        spans = ((span.text, span.style) for span in known.kernel[kernel_link(one.kernel)].spans)
        yield BLANK
        yield row(" ", *spans, (f" {format_lines(one.kernel, where)}", "muted"), links=links)
        yield from wrapped(f"{conclusion(one)}.".capitalize(), width, links=links)
        if one.counters.missing:
            yield from wrapped(f"By statement: {one.counters.missing}.", width, "muted")
        yield from _statement_rows(one, known, where, width)


LEGEND = (
    "Shares of the peak that the hardware sustains; warps: of those that fit. One launch each, while it is counted."
)


def _statement_rows(one: CountedKernel, known: Labels, where: Places, width: int) -> Iterator[Row]:
    statements = counted_statements(one)
    shown = [each for each in statements if each.counters.samples or each.counters.instructions][:MOST_STATEMENTS]
    if not shown:
        return
    columns: tuple[Column[CountedStatement], ...] = (
        Column("samples", lambda each: each.sample_share, _share, "strong"),
        Column("instructions", lambda each: each.instruction_share, _share, "muted"),
        Column("waits for", _wait_text, left=True),
        Column("line", lambda each: _model_place(each, where), style="location", left=True),
        Column("op", lambda each: _op_spans(one.kernel, each, known), left=True),
        Column("statement", lambda each: each.text or "no known statement", style="dim", left=True),
    )
    yield from table(columns, shown, [_statement_links(one.kernel, each) for each in shown])
    if rest := len(statements) - len(shown):
        yield from wrapped(f"{count(rest, 'more statement')}", width, "dim")


def _wait_text(each: CountedStatement) -> str:
    wait = wait_of(each.counters.stalls)
    return f"{wait[0]} {wait[1] / (each.counters.samples or 1):.0%}" if wait else ""


def _model_place(each: CountedStatement, where: Places) -> str:
    return ", ".join(dict.fromkeys(where.abbreviate(at) for at in each.line.source)) if each.line else ""


def _op_spans(kernel: Kernel, each: CountedStatement, known: Labels) -> tuple[Span, ...]:
    ops = known.ops(kernel, each.line.nodes) if each.line else ()
    return tuple(span for op in ops[:1] for span in op.spans)


def _statement_links(kernel: Kernel, each: CountedStatement) -> tuple[Link, ...]:
    if each.line is None:
        return (kernel_link(kernel),)
    return (statement_link(kernel, each.counters.line), *(line_link(at) for at in each.line.source))


# ---- JSON


def _fields(run: Snapshot) -> Iterator[dict[str, Any]]:
    ids, known = stable_ids(run), labels(run)
    for one in counted_kernels(run):
        yield {
            "id": ids.kernel(one.kernel),
            "name": one.kernel.name,
            "graph": one.kernel.graph,
            "phase": one.kernel.phase,
            "us": one.counters.us,
            **{field: getattr(one.counters, field) for _, field in SHARES},
            "conclusion": conclusion(one),
            "missing": one.counters.missing or None,
            "statements": [
                {
                    "line": each.counters.line or None,
                    "text": each.text,
                    "ops": [op.text for op in known.ops(one.kernel, each.line.nodes)] if each.line else [],
                    "source": [{"file": at.file, "line": at.line} for at in each.line.source] if each.line else [],
                    "samples": each.counters.samples,
                    "instructions": each.counters.instructions,
                    "stalls": dict(each.counters.stalls),
                }
                for each in counted_statements(one)
            ],
        }


STUDY = CountersStudy()
