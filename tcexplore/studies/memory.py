"""The memory study: what is in use at the peak of a call, and what would lower it, each measured in its own run."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from tcexplore.argument_types import several
from tcexplore.documents.document import Document, Row, Span, StaticDocument
from tcexplore.documents.prose import BLANK, FAILED, Column, heading, table, wrapped
from tcexplore.documents.timing.memory_peak_rows import lifetime_rows, reason_rows
from tcexplore.events import Job
from tcexplore.quantities import duration, size
from tcexplore.report.json_records import fields
from tcexplore.report.json_report import configuration, failure, memory_fields
from tcexplore.session import Snapshot
from tcexplore.session.economics import RunFigures
from tcexplore.session.memory_peak import MemoryPeak, eager_memory_peak, memory_peak, named_peak, why_unexplained
from tcexplore.session.predicted_time import predicted_time_ratio
from tcexplore.session.time_ratio import Range
from tcexplore.studies.runs import Runs, failure_status
from tcexplore.studies.study import RUN_TIMING_S, Announce, Study, StudyState
from tcexplore.studies.study_json import Fields
from tcexplore.studies.study_text import ERROR_MARK

INTENT = (
    "What is in use at the peak of one warm call, beyond weights and inputs. Each change is measured in a process of "
    "its own, and timed there in random pairs with the program as it is."
)
INFERENCE = (
    "Inference saves nothing for a backward, so activation_memory_budget has no effect: its frontier is for training "
    "(--train)."
)

BUDGETS = (0.7, 0.5, 0.3)
"""Default values of `activation_memory_budget` that are tried, besides the one in force."""

BUDGET_SETTING = "torch._functorch.config.activation_memory_budget"

SWITCHES = (
    ("torch._functorch.config.donated_buffer", "donated buffers", True),
    ("torch._inductor.config.inplace_buffers", "in-place buffers", False),
    ("torch._inductor.config.reorder_for_peak_memory", "reordering for peak memory", False),
)
"""Settings that this torch may have: name, what it does, and whether it needs a backward. The other value is tried."""

LEAST = 0.02
"""Smallest change of the peak that counts, as a share."""


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """Options of the study."""

    budgets: tuple[float, ...] = BUDGETS
    switches: bool = True
    """Whether the switches of torch are tried, too."""


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """A setting of a trial; none for the program as it is."""

    name: str = "as it is"
    setting: str = ""
    """Name in torch's configuration."""
    value: str = ""

    @property
    def budget(self) -> float | None:
        """The budget that it sets."""
        return float(self.value) if self.setting == BUDGET_SETTING else None

    def of(self, job: Job) -> Job:
        """Return the job with this change."""
        if not self.setting:
            return job
        settings = (*job.config.settings, f"{self.setting}={self.value}")
        return replace(job, config=replace(job.config, settings=settings))


AS_IT_IS = MemoryChange()


@dataclass(frozen=True, slots=True)
class MemoryRun:
    """A run with one change; that of the program as it is explains the peak."""

    change: MemoryChange
    run: Snapshot

    @property
    def peak(self) -> int | None:
        """Measured bytes at the peak of a compiled call."""
        return self.run.memory.compiled_peak if self.run.memory is not None else None

    @property
    def predicted(self) -> int | None:
        """Bytes at the peak by the partition and the generated code."""
        peak = memory_peak(self.run)
        return peak.bytes if peak is not None else None

    @property
    def saved(self) -> int | None:
        """Bytes that the compiled forward saves for the backward."""
        return self.run.saved_for_backward

    @property
    def recomputed(self) -> int:
        """Forward ops that the backward computes again."""
        return sum(len(part.recomputed) for part in self.run.code.partitions)

    @property
    def in_force(self) -> bool:
        """Whether the compiler saw the setting: the file may set it itself, after this run did."""
        if not self.change.setting or self.run.compiler_state is None:
            return True
        return setting_of(self.run, self.change.setting) == self.change.value


State = StudyState[MemoryOptions, MemoryRun]


def setting_of(run: Snapshot, name: str) -> str | None:
    """Return the value of a setting during the compile; None if this torch has no such setting."""
    state = run.compiler_state
    if state is None:
        return None
    known = dict(state.defaults) | {setting.name: setting.value for setting in state.settings}
    return known.get(name)


def is_training(run: Snapshot) -> bool:
    """Return whether a call has a compiled backward, for which its forward saves activations."""
    return bool(run.code.partitions)


@dataclass(frozen=True, slots=True)
class Trial:
    """A change compared with the program as it is."""

    result: MemoryRun
    peak: float
    """Ratio of the peaks."""
    time: Range | None
    """Ratio of the times of a compiled call, with its interval; None if it is not measured."""

    predicted_time: float | None = None
    """Ratio of the times by the kernels of the trial and the profile of the program as it is; None if unknown."""

    @property
    def lowers(self) -> bool:
        return self.peak <= 1 - LEAST


def trials(results: Sequence[MemoryRun]) -> tuple[Trial, ...]:
    """Return the changes that were measured, in their order."""
    base = results[0] if results else None
    if base is None or not base.peak:
        return ()
    return tuple(
        Trial(result, result.peak / base.peak, _time_ratio(result.run), predicted_time_ratio(base.run, result.run))
        for result in results[1:]
        if result.peak is not None and result.in_force
    )


def _time_ratio(run: Snapshot) -> Range | None:
    """Return the ratio of the compiled times with and without a change, timed in random pairs in one process."""
    timed = run.change_timing
    if timed is None or timed.verdict == "measuring" or timed.low <= 0:
        return None
    return Range(1 / timed.speedup, 1 / timed.high, 1 / timed.low)


def frontier(measured: Sequence[Trial]) -> tuple[Trial, ...]:
    """Return the trials that lower the peak, and of which none other has a lower peak in less time."""
    useful = [trial for trial in measured if trial.lowers and trial.time is not None]

    def beaten(trial: Trial) -> bool:
        return any(
            other.peak <= trial.peak and (other.peak, other.time) != (trial.peak, trial.time)
            and other.time is not None and trial.time is not None and other.time.value <= trial.time.value
            for other in useful
        )  # fmt: skip

    return tuple(sorted((trial for trial in useful if not beaten(trial)), key=lambda trial: -trial.peak))


# ---- sentences


def conclusions(results: Sequence[MemoryRun], *, over: bool = True) -> Iterator[str]:
    """Yield sentences: the peak, what most of it is, and what lowers it at which cost."""
    base = results[0]
    if base.run.failure is not None:
        return
    yield from _peak_sentences(base.run)
    measured = trials(results)
    for trial in frontier(measured):
        yield _sentence(trial)
    if over and measured and not any(trial.lowers for trial in measured):
        yield f"Nothing that was tried lowers the peak by {LEAST:.0%} or more."
    for trial in measured:
        if trial.result.change.budget is None and trial.peak >= 1 + LEAST:
            yield f"{_already(trial.result.change)} {size(_added(results[0], trial))}: without it, the peak is higher."
    if wrong := [trial.result.change.name for trial in measured if RunFigures(trial.result.run).summary.wrong]:
        yield f"{ERROR_MARK}results differ from eager's with: {', '.join(wrong)}"


def _peak_sentences(run: Snapshot) -> Iterator[str]:
    memory, peak = run.memory, memory_peak(run)
    if memory is None or memory.compiled_peak is None:
        return
    eager = f", eager {size(memory.eager_peak)}" if memory.eager_peak is not None else ""
    saved = sum(tensor.bytes for tensor in peak.tensors if tensor.kind == "activation") if peak is not None else 0
    what = f"; {min(1.0, saved / memory.compiled_peak):.0%} of it is saved for the backward" if saved else ""
    yield f"A compiled call needs {size(memory.compiled_peak)} at its peak{eager}{what}."


def _sentence(trial: Trial) -> str:
    change, time = trial.result.change, trial.time
    assert time is not None
    return f"{change.name} lowers the peak by {1 - trial.peak:.0%} to {size(trial.result.peak or 0)} and {_cost(time)}."


UNDECIDED = 1.5
"""Ratio of the ends of an interval from which on it says nothing."""


def _cost(time: Range) -> str:
    ends = f"[{100 * (time.low - 1):+.0f}%, {100 * (time.high - 1):+.0f}%]"
    if time.high > UNDECIDED * time.low:
        return f"changes the time by an unknown amount {ends}: the machine is busy, or the calls are too short"
    if time.low <= 1 <= time.high:
        return f"costs no measurable time {ends}"
    return f"{'costs' if time.value > 1 else 'saves'} {abs(100 * (time.value - 1)):.0f}% of a compiled call {ends}"


def _already(change: MemoryChange) -> str:
    names = {setting: name for setting, name, _ in SWITCHES}
    return f"{names.get(change.setting, change.setting).capitalize()}, which are on, save"


def _added(base: MemoryRun, trial: Trial) -> int:
    return (trial.result.peak or 0) - (base.peak or 0)


# ---- rows


class _Row:
    """A line of the table of trials."""

    def __init__(self, result: MemoryRun, base: MemoryRun, most: int, base_us: float | None, *, active: bool) -> None:
        """`most` is the largest peak, in bytes; `base_us` a call of the program as it is; None if none is timed."""
        self.result, self.base, self.most, self.base_us, self.active = result, base, most, base_us, active
        self.trial = next(iter(trials((base, result))), None) if result is not base else None

    @property
    def predicted_time(self) -> float | None:
        return self.trial.predicted_time if self.trial is not None else None

    @property
    def time(self) -> Range | None:
        return self.trial.time if self.trial is not None else None


LEGEND = (
    "time: of a compiled call, against the program as it is. A lower budget keeps less for the backward, which "
    "computes it again."
)

WIDE = 150
"""Columns from which on the table of trials has all of its columns."""

BAR = 16


def _columns(width: int) -> list[Column[_Row]]:
    columns: list[Column[_Row]] = [
        Column("change", lambda line: line.result.change.name, left=True, always=True),
        Column("peak", lambda line: line.result.peak, size, "strong"),
        Column("", _bar, style="plot.compiled", left=True),
        Column("", lambda line: f"{line.trial.peak - 1:+.0%}" if line.trial else None, style=_change_style),
        Column("time", lambda line: f"{line.time.value - 1:+.0%}" if line.time else _untimed(line)),
        Column("95% interval", lambda line: line.time, _percent_interval, "interval"),
    ]
    if width >= WIDE:
        columns += [
            Column("predicted peak", lambda line: line.result.predicted, size, "muted"),
            Column("predicted", lambda line: line.predicted_time, lambda value: f"{value - 1:+.0%}", "muted"),
            Column("saved", lambda line: line.result.saved, size, "muted"),
            Column("recomputed", lambda line: line.result.recomputed or None, "{} ops".format, "muted"),
            Column("call", _call_time, style="muted"),
        ]
    return columns


def _bar(line: _Row) -> str | None:
    return "█" * max(1, round(BAR * line.result.peak / line.most)) if line.result.peak else None


def _change_style(line: _Row) -> str:
    return "ok" if line.trial is not None and line.trial.lowers else "muted"


def _untimed(line: _Row) -> Span | None:
    if line.active:
        return Span("◐", "running")
    return None if line.result is line.base else Span("·", "dim")


def _percent_interval(time: Range) -> str:
    return f"[{100 * (time.low - 1):+.0f}%, {100 * (time.high - 1):+.0f}%]"


def _call_time(line: _Row) -> str | None:
    timing = line.result.run.change_timing
    us = timing.after_us if timing is not None else line.base_us if line.result is line.base else None
    return duration(us / 1e6) if us is not None else None


def _instead(line: _Row) -> Span | None:
    if line.result.run.failure is not None:
        return FAILED
    return None if line.result.in_force else Span("the file sets it itself", "warn")


def _trial_rows(state: State, width: int) -> Iterator[Row]:
    results = state.results
    base = results[0]
    if len(results) > 1:
        most = max((result.peak or 0 for result in results), default=1) or 1
        active = frozenset() if state.over else state.active
        base_us = next((timed.before_us for result in results if (timed := result.run.change_timing) is not None), None)
        lines = [_Row(result, base, most, base_us, active=result.change in active) for result in results]
        yield heading("What would lower it", "each measured in a run of its own")
        yield from table(_columns(width), lines, instead=_instead)
        if any(line.time for line in lines):
            yield from wrapped(LEGEND, width, "dim")
        for result in results[1:]:
            if result.run.failure is not None:
                yield from wrapped(f"{result.change.name}: {RunFigures(result.run).failure}", width, "error", lead="✖ ")
    if base.run.failure is None and not is_training(base.run):
        yield from wrapped(INFERENCE, width, "muted")


def _sides(run: Snapshot, width: int) -> Iterator[Row]:
    memory = run.memory
    if memory is None:
        return
    named, eager, compiled = named_peak(run), eager_memory_peak(run), memory_peak(run)
    share = _share(memory.eager_peak, eager)
    sides: list[tuple[str, int | None, int | None, int | None, float | None]] = [
        ("eager", memory.eager_peak, memory.saved_for_backward, eager.bytes if eager else None, share),
        ("compiled", memory.compiled_peak, run.saved_for_backward, compiled.bytes if compiled else None,
         named.share if named else None),
    ]  # fmt: skip
    yield from table(
        [
            Column("", lambda side: side[0], left=True),
            Column("peak", lambda side: side[1], size, "strong"),
            Column("saved for backward", lambda side: side[2], size),
            Column("by its tensors", lambda side: side[3], size, "muted"),
            Column("named", lambda side: side[4], "{:.1%}".format, "muted"),
        ],
        sides,
    )
    if why := why_unexplained(run):
        yield from wrapped(f"The tensors at the compiled peak are not known: {why}.", width, "muted")
    if named is not None:
        for tensor in named.scratch:
            if tensor.bytes > LEAST / 2 * named.measured:
                yield from wrapped(f"{size(tensor.bytes)}: {tensor.reason}", width, "muted")
    held = run.peak_allocations
    if held is not None and held.requested is not None and held.reserved is not None:
        text = (
            f"The allocator rounds {size(max(0, held.requested))} up to {size(held.bytes)}, and holds "
            f"{size(held.reserved)} of the device: what is not in use is fragmented, or kept for later calls."
        )
        yield from wrapped(text, width, "muted")
    text = f"Before the call: weights {size(memory.weights)}, inputs {size(memory.inputs)}. Peak: {memory.method}."
    yield from wrapped(text, width, "dim")
    if run.config.region is not None and run.entry is not None:
        notes = " ".join(run.entry.notes)
        yield from wrapped(f"Of a call of {run.entry.name} that the script made. {notes}".rstrip(), width, "dim")


def _share(measured: int | None, peak: MemoryPeak | None) -> float | None:
    return min(1.0, peak.bytes / measured) if measured and peak is not None else None


def _peak_rows(title: str, peak: MemoryPeak | None, unit: str, width: int) -> Iterator[Row]:
    if peak is None or not peak.allocated:
        return
    yield BLANK
    at = f"{peak.phase}, {unit} {peak.step + 1}: {peak.kernel}" if peak.kernel else "the end of the call"
    yield heading(title, at if len(title) + len(at) < width - 4 else "")
    yield from lifetime_rows(peak, width, unit)
    yield from reason_rows(peak, width)


class MemoryStudy(Study[MemoryOptions, MemoryRun]):
    """Results are the run of the program as it is, then one for each change."""

    name = "memory"
    title = "memory"
    examples = ("model.py --train", "model.py --train --budgets 0.8,0.4", "model.py --no-trials --json")
    description = (
        "Show what is in use at the peak of memory, and measure what would lower it: smaller activation budgets, and "
        "switches of torch."
    )
    timed = True
    default_options = MemoryOptions()

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("what to try")
        group.add_argument(
            "--budgets", type=several(_budget), default=BUDGETS, metavar="A,B",
            help="values of activation_memory_budget between 0 and 1 (default: 0.7,0.5,0.3)",
        )  # fmt: skip
        group.add_argument("--no-trials", action="store_true", help="only explain the peak")

    def options(self, given: argparse.Namespace) -> MemoryOptions:
        return MemoryOptions(() if given.no_trials else given.budgets, not given.no_trials)

    async def plan(self, state: State, runs: Runs, announce: Announce) -> AsyncGenerator[MemoryRun, None]:
        """Explain the peak; then measure each change in its own process, in pairs with the program as it is."""
        seconds = state.job.time_for or RUN_TIMING_S
        job = replace(state.job, examine=True, profile=False, time_for=seconds, timing_processes=0)
        runs.steps.plan([AS_IT_IS.name])
        announce(AS_IT_IS.name)
        explained = replace(job, explain_memory=True, profile=bool(state.options.budgets))
        base = MemoryRun(AS_IT_IS, (await runs.run(explained, state.timeout)).snapshot)
        yield base
        if base.peak is None:
            return
        changes = [*_budgets(base.run, state.options), *(_switches(base.run) if state.options.switches else ())]
        runs.steps.plan([change.name for change in changes])
        timed = replace(job, baseline=job.source, baseline_config=job.config)
        for change in changes:
            announce(change.name)
            yield MemoryRun(change, (await runs.run(change.of(timed), state.timeout)).snapshot)

    def result_key(self, result: MemoryRun) -> Hashable:
        return result.change

    def document(self, state: State, width: int = 78) -> Document:
        if not state.results:
            return StaticDocument("", tuple(wrapped(INTENT, width, "muted")))
        base = state.results[0]
        rows: list[Row] = []
        if base.run.failure is not None:
            rows += wrapped(RunFigures(base.run).failure, width, "error", lead="✖ ")
        for index, line in enumerate(conclusions(state.results, over=state.over)):
            rows += wrapped(line, width, "error" if line.startswith(ERROR_MARK) else "" if index else "strong")
        rows += [BLANK, *_sides(base.run, width)]
        if trial_rows := list(_trial_rows(state, width)):
            rows += [BLANK, *trial_rows]
        rows += _peak_rows("At the compiled peak", memory_peak(base.run), "kernel", width)
        rows += _peak_rows("At the eager peak", eager_memory_peak(base.run), "op", width)
        rows += [
            row
            for fact in base.run.missing_facts
            if "memory" in fact.fact or "peak" in fact.fact
            for row in wrapped(f"{fact.fact}: {fact.reason}", width, "warn")
        ]
        return StaticDocument("", (*rows, BLANK, *wrapped(INTENT, width, "dim")))

    def answer(self, state: State) -> str:
        lines = list(conclusions(state.results, over=state.over)) if state.results else []
        return lines[1] if len(lines) > 1 else lines[0] if lines else ""

    def fields(self, state: State) -> Fields:
        base = state.results[0] if state.results else None
        if base is None:
            return {"config": None, "error": None, "training": None, "memory": None, "eager_peak": None,
                    "named": None, "trials": [], "conclusions": []}  # fmt: skip
        measured = {trial.result.change: trial for trial in trials(state.results)}
        return {
            "config": configuration(base.run),
            "error": failure(base.run.failure),
            "training": is_training(base.run),
            "memory": memory_fields(base.run),
            "eager_peak": _eager_fields(base.run),
            "named": _named_fields(base.run),
            "trials": [_trial_fields(result, measured.get(result.change)) for result in state.results],
            "conclusions": list(conclusions(state.results)),
        }

    def exit_status(self, state: State) -> int:
        return failure_status(state.results[0].run) if state.results else 0


def _budgets(run: Snapshot, options: MemoryOptions) -> Iterator[MemoryChange]:
    """Yield the budgets to try, without the one in force; none without a backward."""
    if not is_training(run):
        return
    now = setting_of(run, BUDGET_SETTING)
    for budget in sorted(dict.fromkeys(options.budgets), reverse=True):
        if now is None or float(now) != budget:
            yield MemoryChange(f"activation_memory_budget={budget:g}", BUDGET_SETTING, repr(budget))


def _switches(run: Snapshot) -> Iterator[MemoryChange]:
    """Yield the switches that this torch has, each with the other value."""
    for setting, _, backward in SWITCHES:
        now = setting_of(run, setting)
        if now in ("True", "False") and (is_training(run) or not backward):
            value = str(now == "False")
            yield MemoryChange(f"{setting.rpartition('.')[2]}={value}", setting, value)


def _budget(text: str) -> float:
    """Return a budget. Raises `ValueError`."""
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def _eager_fields(run: Snapshot) -> Fields | None:
    peak = eager_memory_peak(run)
    if peak is None:
        return None
    return {
        "bytes": peak.bytes,
        "position": peak.step,
        "phase": peak.phase,
        "op": peak.kernel,
        "tensors": [fields("live_tensor", tensor) for tensor in peak.tensors],
        "bytes_at_ops": list(peak.history),
    }


def _named_fields(run: Snapshot) -> Fields | None:
    named = named_peak(run)
    if named is None:
        return None
    return {
        "measured_bytes": named.measured,
        "tensor_bytes": named.tensors,
        "scratch": [fields("live_tensor", tensor) for tensor in named.scratch],
        "rounding_bytes": named.rounding,
        "share": named.share,
        "requested_bytes": run.peak_allocations.requested if run.peak_allocations else None,
        "reserved_bytes": run.peak_allocations.reserved if run.peak_allocations else None,
    }


def _trial_fields(result: MemoryRun, trial: Trial | None) -> Fields:
    change, time = result.change, trial.time if trial is not None else None
    timing = result.run.change_timing
    return {
        "change": change.name,
        "setting": change.setting or None,
        "value": change.value or None,
        "in_force": result.in_force,
        "error": failure(result.run.failure),
        "peak_bytes": result.peak,
        "predicted_peak_bytes": result.predicted,
        "peak_ratio": trial.peak if trial is not None else None,
        "saved_for_backward_bytes": result.saved,
        "recomputed_ops": result.recomputed,
        "time_ratio": time.value if time is not None else None,
        "predicted_time_ratio": trial.predicted_time if trial is not None else None,
        "time_ci95": [time.low, time.high] if time is not None else None,
        "call_us": timing.after_us if timing is not None else None,
        "call_us_as_it_is": timing.before_us if timing is not None else None,
        "pairs": timing.pairs if timing is not None else None,
    }


STUDY = MemoryStudy()
