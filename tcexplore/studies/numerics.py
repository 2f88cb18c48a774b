"""The numerics study: each kernel judged alone, the first op that is wrong or differs from eager, and why."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tcexplore.argument_types import force_option
from tcexplore.documents.document import Document, Row, StaticDocument
from tcexplore.documents.locations import display_path, places
from tcexplore.documents.prose import BLANK, Column, heading, row, table, wrapped
from tcexplore.events import FirstOp, KernelJudged, KernelVerdict, Location
from tcexplore.files import NotWrittenError, create_all
from tcexplore.quantities import count
from tcexplore.report.json_report import configuration, failure
from tcexplore.session import Snapshot
from tcexplore.studies.reproducer import unused_folder
from tcexplore.studies.runs import Runs, failure_status
from tcexplore.studies.study import Announce, Study, StudyState
from tcexplore.studies.study_json import Fields

INTENT = (
    "Each kernel is judged alone, on the inputs that it really got, against its nodes in eager and in float64. It is "
    "wrong if its error is larger than rounding explains, in whatever order it sums."
)
EQUAL = "Every kernel gives the bits of eager: the same nodes, op by op."
NOT_WRONG = "Some kernels differ from eager, none is wrong: each error is within what rounding explains."
NOTHING_JUDGED = "No kernel was judged."

STYLES: dict[KernelVerdict, str] = {
    "bitwise equal": "ok", "differs, not wrong": "", "wrong": "error", "not judged": "muted",
}  # fmt: skip

NUMERICS_FAIL = 1
"""Exit status if `--fail-on` or `--max-ulps` is exceeded."""


@dataclass(frozen=True, slots=True)
class NumericsOptions:
    """Options of the study."""

    fail_on: str = "wrong"
    """`wrong`, `differs`, or `never`."""
    max_ulps: float | None = None
    """Largest difference from eager of any kernel, in units in the last place; None for no limit."""
    reproducer: str | None = None
    """Folder for the reproducer; None for none."""
    force: bool = False


@dataclass(frozen=True, slots=True)
class NumericsRun:
    """A run of the study."""

    run: Snapshot
    inputs: bytes = b""
    """The inputs of the kernel that the reproducer runs, as `torch.save` writes them."""


State = StudyState[NumericsOptions, NumericsRun]


class NumericsStudy(Study[NumericsOptions, NumericsRun]):
    """Results are the run whose kernels are judged."""

    name = "numerics"
    title = "numerics"
    description = (
        "Judge the numerics of each kernel alone, and find the first op that is wrong or differs from eager, with its "
        "statement and line."
    )
    examples = ("model.py", "model.py --train", "model.py --fail-on differs", "model.py --repro repro/")
    exit_note = "1: a kernel exceeds --fail-on or --max-ulps"
    default_options = NumericsOptions()

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--fail-on", choices=("wrong", "differs", "never"), default="wrong",
            help="exit with status 1 if a kernel is wrong (default), differs from eager, or never",
        )  # fmt: skip
        parser.add_argument(
            "--max-ulps", type=float, metavar="N",
            help="exit with status 1 if a kernel differs from eager by more units in the last place",
        )  # fmt: skip
        parser.add_argument("--repro", metavar="DIR", help="write a reproducer of the first such kernel to this folder")
        force_option(parser)

    def options(self, given: argparse.Namespace) -> NumericsOptions:
        if given.max_ulps is not None and not given.max_ulps >= 0:
            raise ValueError("--max-ulps takes a number that is not negative.")
        folder = given.repro if given.repro is None or given.force else unused_folder(given.repro)
        return NumericsOptions(given.fail_on, given.max_ulps, folder, given.force)

    async def plan(self, state: State, runs: Runs, announce: Announce) -> AsyncGenerator[NumericsRun, None]:
        """Run once, and judge the kernels."""
        runs.steps.plan(["kernels"])
        announce("kernels")
        async with runs.temporary_folder("numerics") as folder:
            job = replace(state.job, time_for=0.0, numerics=True, numerics_folder=folder)
            run = (await runs.run(job, state.timeout)).snapshot
            yield NumericsRun(run, _inputs(run))

    def document(self, state: State, width: int = 78) -> Document:
        rows = list(wrapped(INTENT, width, "muted"))
        for result in state.results[:1]:
            rows += [BLANK, *_rows(result.run, width)]
        if state.written:
            rows += wrapped(f"Written: {', '.join(map(display_path, state.written))}", width, "ok")
        return StaticDocument("", tuple(rows))

    def answer(self, state: State) -> str:
        run = state.results[0].run if state.results else None
        return "" if run is None or run.numerics is None else _verdict(run)

    def fields(self, state: State) -> Fields:
        run = state.results[0].run if state.results else None
        return {
            "config": configuration(run) if run else None,
            "error": failure(run.failure) if run else None,
            "numerics": numerics_fields(run) if run else None,
            "reproducer": state.written[0] if state.written else None,
        }

    def write(self, state: State) -> str:
        """Write the reproducer if the options ask for one and a kernel is wrong or differs."""
        folder = state.options.reproducer
        if folder is None or not state.results:
            return ""
        result = state.results[0]
        script = result.run.kernel_reproducer
        if script is None or not result.inputs:
            return "no reproducer: no kernel is wrong or differs from eager"
        contents: dict[str, str | bytes] = {"repro.py": script.source, "inputs.pt": result.inputs}
        try:
            state.written = tuple(map(str, create_all(folder, contents, force=state.options.force)))
        except NotWrittenError as error:
            return f"no reproducer: {error}"
        return ""

    def exit_status(self, state: State) -> int:
        if not state.results:
            return 0
        run, options = state.results[0].run, state.options
        if status := failure_status(run):
            return status
        limit = options.max_ulps
        over = limit is not None and any((judged.ulps or 0.0) > limit for judged in run.kernels_judged)
        verdicts = {judged.verdict for judged in run.kernels_judged}
        failing = {"never": set(), "wrong": {"wrong"}, "differs": {"wrong", "differs, not wrong"}}[options.fail_on]
        return NUMERICS_FAIL if over or verdicts & failing else 0


def _inputs(run: Snapshot) -> bytes:
    try:
        return Path(run.kernel_reproducer.inputs).read_bytes() if run.kernel_reproducer else b""
    except OSError:
        return b""


# ---- document


def _ulps(value: float) -> str:
    return "0" if not value else f"{value:.1f}" if value < 100 else f"{value:,.0f}" if value < 1e7 else f"{value:.1e}"


def _error(value: float) -> str:
    return f"{value:.1e}" if value else "0"


def _share(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}" if value < 1e7 else f"{value:.0e}"


KERNELS: tuple[Column[KernelJudged], ...] = (
    Column("", lambda one: f"{one.graph} {one.phase}", style="muted", left=True),
    Column("kernel", lambda one: _short(one.kernel), left=True),
    Column("", lambda one: one.verdict, style=lambda one: STYLES[one.verdict], left=True),
    Column("differ", lambda one: f"{one.differing:,} of {one.elements:,}" if one.differing else None, optional=True),
    Column("ulps", lambda one: one.ulps if one.differing else None, _ulps, optional=True),
    Column("error", lambda one: one.error if one.differing else None, _error, optional=True),
    Column("eager's", lambda one: one.eager_error if one.differing else None, _error, optional=True),
    Column("of bound", lambda one: one.bound_share if one.differing else None, _share, optional=True),
    Column("", lambda one: "varies between calls" if one.repeats is False else None, style="warn", optional=True),
)

KERNEL_KEYS = (
    "graph", "phase", "kernel", "order", "verdict", "reason", "output", "dtype", "ops", "elements", "differing",
    "ulps", "error_ulps", "eager_error_ulps", "error", "eager_error", "bound_share", "eager_share", "repeats",
)  # fmt: skip
"""Fields of a kernel that the JSON has; an empty text is null."""

LEGEND = (
    "ulps: largest difference from eager, in units in the last place. error: largest error against float64, relative "
    "to the value. of bound: share of what rounding explains; above 1 is wrong."
)


def _short(kernel: str, room: int = 44) -> str:
    name = kernel.removeprefix("torch.ops.").removeprefix("extern_kernels.")
    return name if len(name) <= room else f"{name[: room - 9]}…{name[-8:]}"


def _rows(run: Snapshot, width: int) -> Iterator[Row]:
    if run.failure is not None:
        yield from wrapped(f"{run.failure.type}: {run.failure.message.strip()}", width, "error", lead="✖ ")
        return
    numerics = run.numerics
    if numerics is None:
        missing = next((fact for fact in run.missing_facts if fact.fact == "numerics of kernels"), None)
        yield from wrapped(f"{NOTHING_JUDGED} {missing.reason if missing else ''}", width, "warn")
        return
    style = {"wrong": "error", "bitwise equal": "ok", "not judged": "warn"}.get(numerics.verdict, "ok")
    yield from wrapped(_verdict(run), width, style)
    if numerics.reason:
        yield from wrapped(f"{numerics.reason[:1].upper()}{numerics.reason[1:]}.", width, "warn")
    if run.first_op is not None:
        yield BLANK
        yield from _first_op(run.first_op, run, width)
    if run.kernels_judged:
        yield BLANK
        yield heading("Kernels", count(len(run.kernels_judged), "call"))
        yield from table(KERNELS, run.kernels_judged)
        reasons = dict.fromkeys(one.reason for one in run.kernels_judged if one.reason)
        for reason in reasons:
            yield from wrapped(f"Not judged: {reason}.", width, "muted")
        if any(one.differing for one in run.kernels_judged):
            yield from wrapped(LEGEND, width, "dim")


def _verdict(run: Snapshot) -> str:
    assert run.numerics is not None
    first = run.first_op
    if run.numerics.verdict == "wrong":
        wrong = sum(one.verdict == "wrong" for one in run.kernels_judged)
        op = f" First op: {first.op}{_place(first, run)}." if first else ""
        return f"{count(wrong, 'kernel call')} of {len(run.kernels_judged)} wrong.{op}" if wrong else f"Wrong.{op}"
    if run.numerics.verdict == "bitwise equal":
        return EQUAL
    return NOT_WRONG if run.numerics.verdict == "differs, not wrong" else NOTHING_JUDGED


def _place(first: FirstOp, run: Snapshot) -> str:
    where = places(run.file).describe(first.location)
    return f" at {where}" if where else ""


KINDS = {
    "wrong": "The first op that is wrong",
    "not finite": "The first op whose value is not finite where it should be",
    "differs": "The first op that differs from eager, not wrong",
}


def _first_op(first: FirstOp, run: Snapshot, width: int) -> Iterator[Row]:
    yield heading(KINDS[first.kind])
    style = "" if first.kind == "differs" else "error"
    where = ", ".join(filter(None, (places(run.file).describe(first.location), first.module)))
    yield row("   op         ", (first.op, style), f" ({first.node})", (f"  {where}" if where else "", "key"))
    if text := _source_line(run, first.location):
        yield row("   line       ", text)
    if first.stage != "kernel":
        yield row(
            "   cause      ", f"{first.stage} {first.culprit}: the nodes are wrong, not the code generated from them"
        )
    yield row("   kernel     ", f"{_short(first.kernel, 60)}, {first.phase} of graph {first.graph}")
    if first.statement:
        yield row("   statement  ", first.statement, (f"  line {first.statement_line} of the kernel", "muted"))
    elif not first.exposed:
        yield row(
            "   statement  ", ("not known: alone, with its intermediates as outputs, the kernel is right", "muted")
        )
    values = ", ".join(f"{each.name} = {each.value}" for each in first.inputs)
    yield from wrapped(f"at element {list(first.index)}{' with ' if values else ''}{values}:", width, "muted", indent=3)
    yield row("     eager    ", first.eager)
    yield row("     float64  ", first.float64, (f"  ± {first.bound} is what rounding explains", "muted"))
    yield row("     compiled ", (first.compiled, style))


def _source_line(run: Snapshot, location: Location | None) -> str:
    if location is None:
        return ""
    texts = {run.file: run.source, **{source.file: source.text for source in run.sources}}
    lines = texts.get(location.file, "").splitlines()
    return lines[location.line - 1].strip() if 0 < location.line <= len(lines) else ""


# ---- JSON


def numerics_fields(run: Snapshot) -> Fields | None:
    """Return the verdict, the first op, the kernels and the switches; None if no kernel was judged."""
    numerics = run.numerics
    if numerics is None:
        return None
    return {
        "verdict": numerics.verdict,
        "reason": numerics.reason or None,
        "seconds": numerics.seconds,
        "first": None if run.first_op is None else _first_fields(run.first_op),
        "kernels": [_nulls({name: getattr(one, name) for name in KERNEL_KEYS}) for one in run.kernels_judged],
        "switches": [
            {"name": one.name, "settings": list(one.settings), "equal": one.equal, "differing": one.differing}
            for one in run.switches_tried
        ],
    }


def _nulls(fields: Fields) -> Fields:
    return {name: None if value == "" else value for name, value in fields.items()}


def _first_fields(first: FirstOp) -> Fields:
    location = first.location
    values = asdict(first)
    for name in ("run", "rank", "location", "inputs", "index", "float64"):
        values.pop(name, None)
    return {
        **_nulls(values),
        "file": display_path(location.file) if location else None,
        "line": location.line if location else None,
        "function": location.function if location else None,
        "index": list(first.index),
        "inputs": [{"name": each.name, "value": each.value} for each in first.inputs],
        "float64": first.float64,
    }


STUDY = NumericsStudy()
