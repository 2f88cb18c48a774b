"""The numerics study: each kernel judged alone, the first op that is wrong or differs from eager, and why."""

from __future__ import annotations

import argparse
import math
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path

from tcexplore.argument_types import force_option
from tcexplore.documents.document import Document, Row, StaticDocument
from tcexplore.documents.locations import display_path, places
from tcexplore.documents.prose import BLANK, NARROWEST, Column, heading, row, shortened, squeezed, table, wrapped
from tcexplore.events import FirstOp, Job, KernelJudged, KernelVerdict, Location, StepSide
from tcexplore.files import NotWrittenError, create_all
from tcexplore.quantities import count
from tcexplore.report.json_report import configuration, failure
from tcexplore.session import Snapshot
from tcexplore.session.graph_inputs import input_index, input_name
from tcexplore.studies.growth_rows import error_text, growth_fields, growth_rows, kernel_name
from tcexplore.studies.reproducer import unused_folder
from tcexplore.studies.runs import Runs, failure_status
from tcexplore.studies.step_comparison import EAGER_RANDOM, StepsCompared, compare_steps, step_fields, step_rows
from tcexplore.studies.study import RUN_TIMING_S, Announce, Study, StudyState
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

JUDGING = "judging kernels"
"""Name of the first step."""

MOST_KERNELS = 24
"""Rows of the table of kernels."""

STEPS = 20
"""Steps of a script after which the comparison of its parameters ends."""

SIDES_OF_STEPS: tuple[StepSide, ...] = ("eager", "compiled", "perturbed")

NUMERICS_FAIL = 1
"""Exit status if `--fail-on` or `--max-ulps` is exceeded."""


@dataclass(frozen=True, slots=True)
class NumericsOptions:
    """Options of the study."""

    fail_on: str = "wrong"
    """`wrong`, `differs`, or `never`."""
    max_ulps: float | None = None
    """Largest difference from eager of any kernel, in units in the last place; None for no limit."""
    cost: bool = True
    """Whether the program is timed with eager's bits."""
    reproducer: str | None = None
    """Folder for the reproducer; None for none."""
    force: bool = False
    steps: int = STEPS
    """Steps of a script whose parameters are compared; 0 for none."""


@dataclass(frozen=True, slots=True)
class NumericsRun:
    """A run of the study: the first one is judged, the others are timed, or run a script step by step."""

    run: Snapshot
    inputs: bytes = b""
    """The inputs of the kernel that the reproducer runs, as `torch.save` writes them."""
    change: Change | None = None
    """How a timed run is compiled; None for other runs."""
    side: StepSide | None = None
    """How the steps of a script ran; None for other runs."""


@dataclass(frozen=True, slots=True)
class Change:
    """Settings and ops of a compile that gives eager's bits."""

    name: str
    settings: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()

    def of(self, job: Job) -> Job:
        """Return the job with this change."""
        config = replace(job.config, settings=(*job.config.settings, *self.settings))
        return replace(job, config=config, eager_ops=self.ops)


AS_IT_IS = Change("as it is")


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
    timed = True
    studies_scripts = True
    default_options = NumericsOptions()

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--fail-on", choices=("wrong", "differs", "never"), default="wrong",
            help="exit with status 1 if a kernel is wrong (default), differs from eager, or never",
        )  # fmt: skip
        parser.add_argument(
            "--max-ulps", type=float, metavar="N",
            help="exit with status 1 if a kernel differs from eager by more units in the last place of the largest "
            "value",
        )  # fmt: skip
        parser.add_argument("--no-cost", action="store_true", help="do not time the program with eager's bits")
        parser.add_argument("--repro", metavar="DIR", help="write a reproducer of the first such kernel to this folder")
        parser.add_argument(
            "--steps", type=int, default=STEPS, metavar="N",
            help=f"in a script, compare the parameters after each of its first N steps, 0 for none (default: {STEPS})",
        )  # fmt: skip
        force_option(parser)

    def options(self, given: argparse.Namespace) -> NumericsOptions:
        if given.max_ulps is not None and not given.max_ulps >= 0:
            raise ValueError("--max-ulps takes a number that is not negative.")
        if given.steps < 0:
            raise ValueError("--steps takes a number that is not negative.")
        folder = given.repro if given.repro is None or given.force else unused_folder(given.repro)
        return NumericsOptions(given.fail_on, given.max_ulps, not given.no_cost, folder, given.force, given.steps)

    async def plan(self, state: State, runs: Runs, announce: Announce) -> AsyncGenerator[NumericsRun, None]:
        """Run once and judge the kernels; then time the program with what gives eager's bits, and without."""
        runs.steps.plan([JUDGING])
        announce(JUDGING)
        async with runs.temporary_folder("numerics") as folder:
            job = replace(state.job, time_for=0.0, examine=False, numerics=True, numerics_folder=folder)
            run = (await runs.run(job, state.timeout)).snapshot
            yield NumericsRun(run, _inputs(run))
            if run.is_script and run.failure is None and state.options.steps:
                runs.steps.plan(list(map(_step_title, SIDES_OF_STEPS)))
                for side in SIDES_OF_STEPS:
                    announce(_step_title(side))
                    yield NumericsRun((await runs.run(_steps_job(state, side), state.timeout)).snapshot, side=side)
            change = explanation(run)
            if change is None or not state.options.cost or run.is_script:
                return
            timed = replace(state.job, time_for=state.job.time_for or RUN_TIMING_S, timing_processes=0)
            runs.steps.plan([AS_IT_IS.name, change.name])
            for each in (AS_IT_IS, change):
                announce(f"timing {each.name}")
                snapshot = (await runs.run(each.of(timed), state.timeout)).snapshot
                yield NumericsRun(snapshot, change=each)

    def document(self, state: State, width: int = 78) -> Document:
        intent = list(wrapped(INTENT, width, "muted"))
        rows = [] if state.results else intent
        for result in state.results[:1]:
            rows += [*_answer_rows(result.run, width), BLANK, *intent]
            rows += [*_rows(result.run, width), *_switch_rows(result.run, state.results[1:], width)]
            rows += growth_rows(result.run, width)
        if (compared := steps_compared(state.results)) is not None:
            rows += step_rows(compared, width)
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
            "numerics": numerics_fields(run, state.results[1:]) if run else None,
            "steps": step_fields(steps_compared(state.results)),
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
        compared = steps_compared(state.results)
        leaves = compared is not None and compared.first is not None and options.fail_on != "never"
        return NUMERICS_FAIL if over or leaves or verdicts & failing else 0


def _step_title(side: StepSide) -> str:
    return {"eager": "eager steps", "compiled": "compiled steps", "perturbed": "eager steps with rounding noise"}[side]


def _steps_job(state: State, side: StepSide) -> Job:
    """Return the job that runs a script, and records its parameters after each step."""
    settings = (*state.job.config.settings, EAGER_RANDOM)
    return replace(
        state.job, config=replace(state.job.config, settings=settings), time_for=0.0, examine=False, step_side=side,
        steps=state.options.steps,
    )  # fmt: skip


def steps_compared(results: Sequence[NumericsRun]) -> StepsCompared | None:
    """Return the comparison of a script's steps; None if it was not made."""
    runs = {result.side: result.run.step_parameters for result in results if result.side is not None}
    if set(runs) != set(SIDES_OF_STEPS):
        return None
    return compare_steps(runs["compiled"], runs["eager"], [runs["perturbed"]])


def explanation(run: Snapshot) -> Change | None:
    """Return all changes that give the bits of eager to kernels that differ; None if none was found."""
    equal = [tried for tried in run.switches_tried if tried.equal]
    if not equal or (run.numerics is not None and run.numerics.verdict == "wrong"):
        return None
    settings = dict.fromkeys(setting for tried in equal for setting in tried.settings)
    ops = dict.fromkeys(op for tried in equal for op in tried.ops)
    names = dict.fromkeys(part for tried in equal for part in tried.name.split("; "))
    return Change("; ".join(names), tuple(settings), tuple(ops))


@dataclass(frozen=True, slots=True)
class Cost:
    """Time of the compiled call with a change, as a ratio to that without it, with its interval."""

    ratio: float
    low: float
    high: float
    identical: bool
    """Whether the results of the whole program have the bits of eager."""


def cost(timed: Sequence[NumericsRun]) -> Cost | None:
    """Return what the change costs; None before both runs are timed.

    Each run compares with eager in its own process, so the machine's load does not count.
    """
    runs = {result.change: result.run for result in timed}
    base = runs.pop(AS_IT_IS, None)
    other = next(iter(runs.values()), None)
    if base is None or other is None or base.timing is None or other.timing is None:
        return None
    one, two = base.timing, other.timing
    if min(one.low, two.low) <= 0:
        return None
    identical = other.accuracy is not None and other.accuracy.verdict == "identical"
    return Cost(one.speedup / two.speedup, one.low / two.high, one.high / two.low, identical)


def _inputs(run: Snapshot) -> bytes:
    try:
        return Path(run.kernel_reproducer.inputs).read_bytes() if run.kernel_reproducer else b""
    except OSError:
        return b""


# ---- document


def _ulps(value: float) -> str:
    return "0" if not value else f"{value:.1f}" if value < 100 else f"{value:,.0f}" if value < 1e7 else f"{value:.1e}"


def _share(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}" if value < 1e7 else f"{value:.0e}"


def _part(one: KernelJudged) -> float | None:
    return one.differing / one.elements if one.differing and one.elements else None


def _percent(part: float) -> str:
    return "<1%" if part < 0.01 else f"{100 * part:.0f}%"


SHORT: dict[KernelVerdict, str] = {"bitwise equal": "equal", "differs, not wrong": "differs"}
"""Verdicts as the table has them."""


def _kernel_columns(run: Snapshot) -> tuple[Column[KernelJudged], ...]:
    return (
        Column("", lambda one: f"{one.graph} {one.phase}", style="muted", left=True),
        Column("kernel", lambda one: kernel_name(run, one.graph, one.phase, one.kernel), left=True, squeezable=True),
        Column("", lambda one: SHORT.get(one.verdict, one.verdict), style=lambda one: STYLES[one.verdict], left=True),
        Column("differ", _part, _percent, drop=1),
        Column("ulps", lambda one: one.ulps if one.differing else None, _ulps, drop=2),
        Column("error", lambda one: one.error if one.differing else None, error_text),
        Column("eager's", lambda one: one.eager_error if one.differing else None, error_text, drop=3),
        Column("of bound", lambda one: one.bound_share if one.differing else None, _share),
        Column("", lambda one: "varies" if one.repeats is False else None, style="warn"),
    )


KERNEL_KEYS = (
    "graph", "phase", "kernel", "order", "verdict", "reason", "output", "dtype", "ops", "elements", "differing",
    "ulps", "error_ulps", "eager_error_ulps", "error", "eager_error", "bound_share", "eager_share", "repeats",
)  # fmt: skip
"""Fields of a kernel that the JSON has; an empty text is null."""

SWITCH_KEYS = ("graph", "phase", "kernel", "name", "settings", "ops", "equal", "differing")

LEGEND = (
    "equal: bitwise. differ: elements that differ from eager. ulps: largest difference, in units in the last place of "
    "the output's largest value. error: largest error against float64, relative to that value. of bound: share of what "
    "rounding explains, judged element by element; above 1 is wrong."
)


VARIES_LEGEND = "varies: it gives other values in a second call with the same inputs, as sums with atomics do."


def _answer_rows(run: Snapshot, width: int) -> Iterator[Row]:
    """Yield the verdict, or why there is none: what is read first."""
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


def _rows(run: Snapshot, width: int) -> Iterator[Row]:
    if run.first_op is not None:
        yield BLANK
        yield from _first_op(run.first_op, run, width)
    for first in run.first_ops:
        if first.kind == "not finite":
            yield BLANK
            yield from _first_op(first, run, width)
    if run.kernels_judged:
        yield BLANK
        yield heading("Kernels", count(len(run.kernels_judged), "call"))
        shown = _shown(run.kernels_judged)
        yield from table(_kernel_columns(run), shown, width=width)
        if left_out := len(run.kernels_judged) - len(shown):
            yield from wrapped(f"{left_out} more, none of which is worse; --json has all.", width, "muted")
        reasons = dict.fromkeys(one.reason for one in run.kernels_judged if one.reason)
        for reason in reasons:
            yield from wrapped(f"Not judged: {reason}.", width, "muted")
        if any(one.differing for one in run.kernels_judged):
            yield from wrapped(LEGEND, width, "dim")
        if any(one.repeats is False for one in run.kernels_judged):
            yield from wrapped(VARIES_LEGEND, width, "dim")


def _shown(kernels: Sequence[KernelJudged]) -> Sequence[KernelJudged]:
    """Return the kernels that the table has, in their order: of many, those that are wrong or closest to it."""
    if len(kernels) <= MOST_KERNELS:
        return kernels

    def weight(index: int) -> tuple[bool, float]:
        return kernels[index].verdict == "wrong", kernels[index].bound_share or 0.0

    worst = sorted(range(len(kernels)), key=weight, reverse=True)[:MOST_KERNELS]
    return [kernels[index] for index in sorted(worst)]


def _verdict(run: Snapshot) -> str:
    assert run.numerics is not None
    first = run.first_op
    if run.numerics.verdict == "wrong":
        wrong = sum(one.verdict == "wrong" for one in run.kernels_judged)
        op = f" First op: {first.op}{_place(first, run)}." if first else ""
        return f"{count(wrong, 'kernel call')} of {len(run.kernels_judged)} wrong.{op}" if wrong else f"Wrong.{op}"
    if run.numerics.verdict == "bitwise equal":
        return EQUAL
    return f"{NOT_WRONG}{_why(run)}" if run.numerics.verdict == "differs, not wrong" else NOTHING_JUDGED


def _why(run: Snapshot) -> str:
    """Return why kernels differ from eager, as a sentence; empty if nothing was tried."""
    change = explanation(run)
    if change is not None:
        kernels = {(one.graph, one.phase, one.kernel) for one in run.switches_tried}
        equal = {(one.graph, one.phase, one.kernel) for one in run.switches_tried if one.equal}
        of = "" if kernels == equal else f" {len(equal)} of the {len(kernels)} that were tried"
        return f" Why: they are bitwise equal with {change.name}.{f' This holds for{of}.' if of else ''}"
    return " Why is not known: nothing that was tried gives the bits of eager." if run.switches_tried else ""


def _place(first: FirstOp, run: Snapshot) -> str:
    where = places(run.file).describe(first.location)
    return f" at {where}" if where else ""


def _switch_rows(run: Snapshot, timed: Sequence[NumericsRun], width: int) -> Iterator[Row]:
    """Yield why kernels differ from eager, and what eager's bits cost."""
    if not run.switches_tried:
        return
    yield BLANK
    yield heading("Why they differ", "compiled again with one change at a time")
    for kernel, changes in groupby(run.switches_tried, key=lambda one: (one.graph, one.phase, one.kernel)):
        yield row(" ", (squeezed(kernel_name(run, *kernel), width - 3), "muted"))
        for one in changes:
            result = "bitwise equal" if one.equal else f"{one.differing:,} differ"
            yield from wrapped(one.name, width, "ok" if one.equal else "", indent=3, lead=f"{result:<15}")
    change = explanation(run)
    if change is None:
        yield from wrapped("Nothing that was tried gives the bits of eager.", width, "warn")
        return
    for setting in change.settings:
        yield row("   ", (setting, "key"))
    if CASTS_SETTING in change.settings and any(op.startswith(ADDITIONS) for op in change.ops):
        yield from wrapped(ROUNDED_NUMBER, width, "muted")
    yield from wrapped(_cost_text(cost(timed)), width, "strong")


CASTS_SETTING = "torch._inductor.config.emulate_precision_casts=True"

ADDITIONS = ("aten.add.", "aten.sub.")

ROUNDED_NUMBER = (
    "In float16 and bfloat16, eager rounds a Python number that it adds to the dtype of the tensor; generated code "
    "does not, with any setting."
)


UNDECIDED = 2.0
"""Ratio of the ends of an interval from which on it says nothing."""


def _cost_text(found: Cost | None) -> str:
    if found is None:
        return "Bitwise equal, kernel by kernel. What it costs is not measured."
    percent = 100 * (found.ratio - 1)
    ends = f"[{100 * (found.low - 1):+.0f}%, {100 * (found.high - 1):+.0f}%]"
    bits = (
        "The results are then bitwise equal to eager's"
        if found.identical
        else (
            "The kernels are then bitwise equal to their nodes in eager; the results are not: eager computes other ops "
            "(decompositions)"
        )
    )
    if found.high > UNDECIDED * found.low:
        return f"{bits}. What it costs could not be measured: the calls are too short, or the machine is busy ({ends})."
    if found.low <= 1 <= found.high:
        return f"{bits}; it costs no measurable time: {percent:+.0f}% {ends} of the compiled call."
    return f"{bits}; it {'costs' if percent > 0 else 'saves'} {abs(percent):.0f}% of the compiled call {ends}."


KINDS = {
    "wrong": "The first op that is wrong",
    "not finite": "The first op whose value is not finite",
    "differs": "The first op that differs from eager, not wrong",
}

SIDES = {"both": ", in eager and compiled", "eager": ", in eager", "compiled": ", in the compiled program"}

LARGEST = {"f16": 65504.0, "bf16": 3.38953139e38, "f32": 3.40282347e38}
"""Largest finite value of each dtype."""


def not_finite_reason(first: FirstOp) -> str:
    """Return why a value is not finite, as far as the values at the element tell; empty if they do not."""
    if first.op == "input":
        return "The program got this value: no op made it."
    if not first.float64:
        return ""
    exact = float(first.float64)
    largest = LARGEST.get(first.dtype, math.inf)
    if not math.isfinite(exact):
        return "Not finite in float64, either: the op has no finite value for these inputs."
    if abs(exact) > largest:
        kept = " Generated code keeps it in float32." if first.side == "eager" and first.compiled else ""
        return f"Overflow: the largest value of {first.dtype} is {largest:.9g}.{kept}"
    if first.side == "compiled":
        return "Finite in float64 and in eager: the generated code is wrong, or overflows on its way."
    return "Finite in float64: the op overflows on its way."


LABEL = 14
"""Columns before the texts of an op."""


def _first_op(first: FirstOp, run: Snapshot, width: int) -> Iterator[Row]:
    yield heading(KINDS[first.kind] + (SIDES[first.side] if first.kind == "not finite" else ""))
    style = "" if first.kind == "differs" else "error"
    where = ", ".join(filter(None, (places(run.file).describe(first.location), first.module)))
    node = input_name(run.graphs, first.graph, input_index(first.node)) if first.op == "input" else ""
    name = f" ({node or first.node})"
    fits = LABEL + len(first.op) + len(name) + len(where) + 2 <= width
    yield row("   op         ", (first.op, style), name, (f"  {where}" if where and fits else "", "key"))
    if where and not fits:
        yield row("   at         ", (shortened(where, width - LABEL), "key"))
    if text := _source_line(run, first.location):
        yield row("   line       ", shortened(text, width - LABEL))
    if first.stage != "kernel":
        cause = f"{first.stage} {culprit(run, first)}".strip()
        yield from _cause(f"{cause}: the nodes are wrong, not the code generated from them", width)
    if first.kind == "wrong" and _varies(run, first):
        yield from _cause(VARIES, width)
    if first.op != "input":
        name, of = kernel_name(run, first.graph, first.phase, first.kernel), f", {first.phase} of graph {first.graph}"
        yield row("   kernel     ", f"{squeezed(name, max(width - LABEL - len(of), NARROWEST))}{of}")
    if first.statement:
        of = f"  line {first.statement_line} of the kernel"
        yield row("   statement  ", shortened(first.statement, max(width - LABEL - len(of), NARROWEST)), (of, "muted"))
    elif not first.exposed:
        yield row(
            "   statement  ", ("not known: alone, with its intermediates as outputs, the kernel is right", "muted")
        )
    values = ", ".join(f"{each.name} = {each.value}" for each in first.inputs)
    yield from wrapped(f"at element {list(first.index)}{' with ' if values else ''}{values}:", width, "muted", indent=3)
    margin = f"  ± {first.bound} is what rounding explains" if first.bound else ""
    yield row("     eager    ", first.eager)
    yield row("     float64  ", first.float64, (margin, "muted"))
    yield row("     compiled ", (first.compiled or "not known: the kernel does not store it", style))
    if first.kind == "not finite" and (reason := not_finite_reason(first)):
        yield from wrapped(reason, width, "strong", indent=3)


def _cause(text: str, width: int) -> Iterator[Row]:
    return wrapped(text, width, indent=3, lead="cause      ")


VARIES = "it varies between calls with the same inputs, as a race does, or memory that was not written"


def _varies(run: Snapshot, first: FirstOp) -> bool:
    """Return whether the kernel of an op gives other values from the same inputs."""
    place = (first.graph, first.phase, first.kernel, first.order)
    return any(
        one.repeats is False and (one.graph, one.phase, one.kernel, one.order) == place for one in run.kernels_judged
    )


def culprit(run: Snapshot, first: FirstOp) -> str:
    """Return the op whose decomposition is wrong, or the last pass that changed the wrong node; empty if unknown."""
    if first.stage != "pass":
        return first.culprit
    line = f"{first.node} = "
    changed = (
        passed.name
        for passed in reversed(run.code.passes)
        if (passed.graph, passed.phase, passed.stage) == (first.graph, first.phase, "post_grad")
        and any(text.strip().startswith(line) for hunk in passed.hunks for text in hunk.added)
    )
    return next(changed, "")


def _source_line(run: Snapshot, location: Location | None) -> str:
    if location is None:
        return ""
    texts = {run.file: run.source, **{source.file: source.text for source in run.sources}}
    lines = texts.get(location.file, "").splitlines()
    return lines[location.line - 1].strip() if 0 < location.line <= len(lines) else ""


# ---- JSON


def numerics_fields(run: Snapshot, timed: Sequence[NumericsRun] = ()) -> Fields | None:
    """Return the verdict, the first op, the kernels and the switches; None if no kernel was judged."""
    numerics = run.numerics
    if numerics is None:
        return None
    return {
        "verdict": numerics.verdict,
        "reason": numerics.reason or None,
        "seconds": numerics.seconds,
        "first": None
        if run.first_op is None
        else {**_first_fields(run.first_op), "culprit": culprit(run, run.first_op) or None},
        "kernels": [_nulls({name: getattr(one, name) for name in KERNEL_KEYS}) for one in run.kernels_judged],
        "not_finite": [
            {**_first_fields(one), "cause": not_finite_reason(one) or None}
            for one in run.first_ops
            if one.kind == "not finite"
        ],
        "growth": growth_fields(run),
        "switches": [{name: getattr(one, name) for name in SWITCH_KEYS} for one in run.switches_tried],
        "eager_bits": _eager_bits(run, timed),
    }


def _eager_bits(run: Snapshot, timed: Sequence[NumericsRun]) -> Fields | None:
    change, found = explanation(run), cost(timed)
    if change is None:
        return None
    return {
        "change": change.name,
        "settings": list(change.settings),
        "ops": list(change.ops),
        "identical": found.identical if found else None,
        "time_ratio": found.ratio if found else None,
        "low": found.low if found else None,
        "high": found.high if found else None,
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
