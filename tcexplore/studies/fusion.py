"""The fusion study: what a call would take if Inductor fused what it keeps apart, or kept apart what it fuses."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

from tcexplore import events as ev
from tcexplore.documents.code.fusion_view import explain_refusal
from tcexplore.documents.document import Document, Row, StaticDocument
from tcexplore.documents.prose import BLANK, Column, table, wrapped
from tcexplore.documents.verdicts import VERDICT_STYLES
from tcexplore.events import ChangeTimed, FusionDecision, Job, Kernel, MemoryRates
from tcexplore.events.config import FusionChoice
from tcexplore.quantities import count, duration, size, speedup_range
from tcexplore.report.json_report import failure
from tcexplore.session import Snapshot
from tcexplore.session.fused_kernels import Fusions, between, paired_calls
from tcexplore.session.kernel_facts import measured_time
from tcexplore.studies.kernel_names import kernels_named
from tcexplore.studies.runs import RefusedError, Runs, failure_status, has_ended, timed_out
from tcexplore.studies.study import Announce, Prompt, PromptField, Study, StudyState

OTHER_PROCESSES = 2
"""Other processes in which the two codes are timed, after the first estimate."""

OWN_RUN = "your file as it is"
LISTED = 12
"""Kernels that a message names."""


class Part(NamedTuple):
    """What a name of the user stands for: scheduler nodes of a kernel, by default all."""

    name: str
    kernel: Kernel
    nodes: tuple[str, ...]

    @property
    def graph(self) -> tuple[str, str]:
        """The graph and its phase."""
        return self.kernel.graph, self.kernel.phase


@dataclass(frozen=True, slots=True)
class FusionOptions:
    """One kernel, whose nodes are kept apart, or two parts: kernels, or scheduler nodes such as `op3`."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FusionTrial:
    """The file as it is, and compiled with the choices as far as that is known.

    Kernels that equal layers share have one choice per layer, all of one graph and all fusions or all not.
    """

    choices: tuple[FusionChoice, ...]
    before: Snapshot
    after: Snapshot | None = None

    @property
    def choice(self) -> FusionChoice:
        """The first choice, which stands for all."""
        return self.choices[0]

    @property
    def made(self) -> tuple[FusionChoice, ...] | None:
        """The choices that Inductor made; None until it has scheduled the graph."""
        after = self.after
        if after is None or not _scheduled(after, self.choice):
            return None
        return tuple(choice for choice in self.choices if _joined(after, choice) == choice.together)

    @property
    def applied(self) -> bool | None:
        """Whether Inductor made any of the choices; None until it has scheduled the graph."""
        made = self.made
        return None if made is None else bool(made)

    @property
    def timing(self) -> ChangeTimed | None:
        """The call without and with the choice; None if that was not made."""
        timed = self.after.change_timing if self.after is not None and self.applied else None
        return timed if timed is not None and timed.verdict != "measuring" else None


State = StudyState[FusionOptions, FusionTrial]


class FusionStudy(Study[FusionOptions, FusionTrial]):
    """The newest result has all that is known."""

    name = "fusion"
    title = "fusion"
    examples = ("model.py op2 op5", "model.py k-3f2a91c04")
    description = (
        "Fuse two kernels that Inductor keeps apart, or keep apart what it fuses, and time both: in a separate "
        "process, your file is not changed. What a fusion needs to be correct is still torch's decision."
    )
    timed = True

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("what to fuse, or to keep apart")
        group.add_argument(
            "names", nargs="+", metavar="PART", help="two kernels or scheduler nodes, such as op3: fused if they are "
            "separate, kept apart if they are fused; or one kernel, whose nodes are kept apart. A kernel is named by "
            "its name or its id",
        )  # fmt: skip

    def options(self, given: argparse.Namespace) -> FusionOptions:
        return FusionOptions(_checked(given.names))

    def prompt(self, job: Job, own: Snapshot | None, last: State | None) -> Prompt:  # noqa: ARG002
        """Ask for the parts; the first suggestion is the newest refusal of the run."""
        suggested = last.options.names if last is not None else _suggested(own)
        known = PromptField("Two kernels or scheduler nodes, or one kernel", " ".join(suggested), parse_names)
        return Prompt("Fuse, or keep apart", (known,), NOTE)

    def options_from(self, answers: Sequence[str]) -> FusionOptions:
        return FusionOptions(parse_names(answers[0]))

    async def plan(self, state: State, runs: Runs, announce: Announce) -> AsyncGenerator[FusionTrial, None]:
        """Run the file, then with the choice. A choice that Inductor cannot make is not timed."""
        before = state.own if state.own is not None and _is_of(state.own, state.job) else None
        runs.steps.plan([OWN_RUN, "the choice"] if before is None else ["the choice"])
        if before is None:
            announce(OWN_RUN)
            job = replace(state.job, examine=False, timing_processes=0, profile=True)
            before = (await runs.run(job, state.timeout)).snapshot
            if before.failure is not None:
                raise RefusedError(f"{before.failure.type}: {before.failure.message}")
        trial = FusionTrial(fusion_choices(before, state.options.names), before)
        announce("the choice")
        run = await runs.begin(trial_job(state.job, trial.choices))
        try:
            in_time = await runs.wait(run, lambda now: _scheduled(now, trial.choice), state.timeout)
            trial = replace(trial, after=run.snapshot)
            if in_time and trial.applied:
                yield trial
                in_time = await runs.wait(run, lambda now: replace(trial, after=now).timing is not None, state.timeout)
                yield replace(trial, after=run.snapshot)
                in_time = await runs.wait(run, has_ended, state.timeout)
            last = run.end(None if in_time else timed_out(run.snapshot, state.timeout))
            yield replace(trial, after=last if has_ended(last) else last.apply(ev.Finished(run=last.run)))
        finally:
            runs.release(run)

    def result_key(self, result: FusionTrial) -> tuple[FusionChoice, ...]:
        return result.choices

    def document(self, state: State, width: int = 78) -> Document:
        if not state.results:
            return StaticDocument("", ())
        return StaticDocument("", tuple(_rows(state.results[-1], width)))

    def answer(self, state: State) -> str:
        return _conclusion(state.results[-1]) if state.results else ""

    def result_line(self, result: FusionTrial) -> str:
        return _conclusion(result) if result.timing is not None or result.applied is False else ""

    def fields(self, state: State) -> dict[str, Any]:
        return _fields(state.results[-1]) if state.results else {"choice": None, "error": None}

    def exit_status(self, state: State) -> int:
        trial = state.results[-1] if state.results else None
        return 0 if trial is None or trial.after is None else failure_status(trial.after)


def _is_of(run: Snapshot, job: Job) -> bool:
    """Return whether a run of a model is over and was of this source and configuration.

    A study of a script is of one captured call, which the script's own run is not. Assembly and checks of custom ops,
    which a study leaves out, change nothing.
    """
    wanted = job.config
    config = replace(run.config, region=wanted.region, assembly=wanted.assembly, opcheck=wanted.opcheck)
    same = (run.source, config) == (job.source, wanted)
    return same and run.complete and run.failure is None and not run.is_script


def trial_job(job: Job, choices: tuple[FusionChoice, ...]) -> Job:
    """Return the job that times the file with these choices against the file without them, both compiled."""
    config = replace(job.config, fusion_choices=choices)
    return replace(
        job, config=config, baseline=job.source, baseline_config=job.config, examine=False, profile=False,
        timing_processes=OTHER_PROCESSES,
    )  # fmt: skip


# ---- what the user names


def _checked(names: Sequence[str]) -> tuple[str, ...]:
    """Return one or two names. Raises `ValueError` with a message."""
    if len(names) not in (1, 2):
        raise ValueError("Name one kernel, or two kernels or scheduler nodes.")
    return tuple(names)


def parse_names(text: str) -> tuple[str, ...]:
    """Return one or two names, separated by spaces or a comma. Raises `ValueError` with a message."""
    return _checked(text.replace(",", " ").split())


def _suggested(run: Snapshot | None) -> tuple[str, ...]:
    """Return the parts of the newest decision, preferably of a refusal."""
    decisions = run.code.fusion if run is not None else ()
    decision = next((one for one in decisions if not one.fused), None) or next(iter(decisions), None)
    return () if decision is None else (decision.a, decision.b)


def fusion_choices(run: Snapshot, names: Sequence[str]) -> tuple[FusionChoice, ...]:
    """Return the opposite of what Inductor did with the named parts. Raises `RefusedError` with what there is.

    Two kernels that are called several times have one choice per pair of calls.
    """
    parts = [_part(run, name) for name in names]
    if len(parts) == 1:
        (part,) = parts
        if len(part.nodes) < 2:
            raise RefusedError(f"{part.name} has one scheduler node: nothing in it is fused.")
        return (FusionChoice(False, tuple((node,) for node in part.nodes), *part.graph),)
    first, second = parts
    if first.graph != second.graph:
        raise RefusedError(
            f"{first.name} is in the {first.kernel.phase} of {first.kernel.graph}, {second.name} in the "
            f"{second.kernel.phase} of {second.kernel.graph}: Inductor schedules each graph by itself."
        )
    if set(first.nodes) & set(second.nodes):
        raise RefusedError(f"{first.name} and {second.name} have nodes in common. Name two parts, such as op0 op3.")
    whole = all(part.nodes == part.kernel.scheduler_nodes for part in parts)
    pairs = paired_calls(first.kernel, second.kernel) if whole else ((first.nodes, second.nodes),)
    choices = [FusionChoice(True, pair, *first.graph) for pair in pairs]
    together = not _joined(run, choices[0])
    return tuple(replace(choice, together=together) for choice in choices)


def _part(run: Snapshot, name: str) -> Part:
    for kernel in kernels_named(run, name):
        return Part(name, kernel, kernel.scheduler_nodes)
    wanted = name.split("_")
    for kernel in run.code.kernels:
        nodes = tuple(node for node in kernel.scheduler_nodes if node in wanted)
        if len(nodes) == len(wanted):
            return Part(name, kernel, nodes)
    kernels = [f"{kernel.name} ({', '.join(kernel.scheduler_nodes)})" for kernel in run.code.kernels]
    more = f", and {len(kernels) - LISTED} more" if len(kernels) > LISTED else ""
    raise RefusedError(f"There is no kernel or scheduler node {name}. There are: {', '.join(kernels[:LISTED])}{more}.")


# ---- what Inductor did


def _kernels(run: Snapshot, choice: FusionChoice) -> list[Kernel]:
    """Return the kernels of the graph of a choice."""
    return [kernel for kernel in run.code.kernels if (kernel.graph, kernel.phase) == (choice.graph, choice.phase)]


def _scheduled(run: Snapshot, choice: FusionChoice) -> bool:
    """Return whether the fusions of the graph of a choice are over: the schedule follows all decisions."""
    return any((made.graph, made.phase) == (choice.graph, choice.phase) for made in run.code.schedules)


def _joined(run: Snapshot, choice: FusionChoice) -> bool:
    """Return whether nodes of two parts are fused."""
    return any(decision.fused for decision in _decisions(run, choice))


def _decisions(run: Snapshot, choice: FusionChoice) -> Iterator[FusionDecision]:
    """Yield Inductor's decisions between nodes of different parts."""
    pairs = list(combinations(map(set, choice.parts), 2))
    for decision in run.code.fusion:
        of_graph = (decision.graph, decision.phase) == (choice.graph, choice.phase)
        if of_graph and any(between(decision, pair) for pair in pairs):
            yield decision


def refusal(run: Snapshot, choice: FusionChoice) -> str:
    """Return why the parts are not fused in a run, in plain words."""
    reasons = [decision.reason for decision in _decisions(run, choice) if not decision.fused]
    if not reasons:
        return "the scheduler never compared them: no node of one uses a buffer of the other, or a kernel is in between"
    return explain_refusal(reasons[-1]) or reasons[-1]


# ---- prediction


class Traffic(NamedTuple):
    """The kernels that differ between the two codes, and the bytes that they move."""

    before: tuple[Kernel, ...]
    after: tuple[Kernel, ...]

    @property
    def bytes_before(self) -> int | None:
        return _bytes(self.before)

    @property
    def bytes_after(self) -> int | None:
        return _bytes(self.after)


def _bytes(kernels: Iterable[Kernel]) -> int | None:
    moved = _bytes_moved(kernels)
    return sum(moved) if moved is not None else None


def _bytes_moved(kernels: Iterable[Kernel]) -> tuple[int, int] | None:
    """Return the bytes that kernels read and write; None if those of one are unknown."""
    moved = [(kernel.bytes_read, kernel.bytes_written) for kernel in kernels]
    if (None, None) in moved:
        return None
    return sum(read or 0 for read, _ in moved), sum(written or 0 for _, written in moved)


def traffic(trial: FusionTrial) -> Traffic | None:
    """Return the kernels with nodes of the choices, and those that share nodes with them, on both sides.

    None before Inductor has written those of the trial; if it made no choice, it writes none.
    """
    if trial.after is None or not _kernels(trial.after, trial.choice):
        return None
    nodes = {node for choice in trial.choices for part in choice.parts for node in part}
    both = (_kernels(trial.before, trial.choice), _kernels(trial.after, trial.choice))
    while True:
        sides = [[kernel for kernel in side if not nodes.isdisjoint(kernel.scheduler_nodes)] for side in both]
        reached = nodes.union(*(kernel.scheduler_nodes for side in sides for kernel in side))
        if reached == nodes:
            return Traffic(tuple(sides[0]), tuple(sides[1]))
        nodes = reached


LAUNCH_BOUND = "no estimate from bytes: kernels run for less than 70% of a call, the rest is Python and launches"
MOST_OF_MEMORY = 1.25
"""Factor over the time of plain reads and writes up to which kernels are taken to wait for the memory."""
LEAST_OF_CACHE = 4
"""Sizes of the last cache that a kernel has to move: with less, the next one finds much of it in the cache."""


class Prediction(NamedTuple):
    """The times of a call from the bytes that its kernels move."""

    us: tuple[float, float] | None = None
    """A call now, and the call with the choice, in microseconds."""
    obstacle: str = ""
    """Why there are no times; empty also as long as the facts that they need are missing."""


def predict(trial: FusionTrial, moved: Traffic | None) -> Prediction:
    """Predict a call with the choice from what `traffic` returns of the trial.

    Kernels are taken to need time in proportion to that of plain reads and writes of their bytes. But a fused kernel of
    a GPU holds more values at once, so that fewer of its threads run: if it is slower than plain reads and writes, the
    separate kernels are not taken to be, and if they are faster, it is not. The call now is that of the trial, once it
    is measured.
    """
    timing = trial.before.timing
    if timing is not None and timing.launch_bound:
        return Prediction(obstacle=LAUNCH_BOUND)
    rates = trial.after.memory_rates if trial.after is not None else None
    if timing is None or moved is None or rates is None:
        return Prediction()
    calls = [(_bytes((kernel,)), max(1, len(kernel.calls))) for kernel in moved.before]
    least = min((own / times for own, times in calls if own is not None), default=None)
    if least is not None and rates.cache_bytes is not None and least < LEAST_OF_CACHE * rates.cache_bytes:
        cache = f"the last cache ({size(rates.cache_bytes)})"
        few = f"no estimate from bytes: of the {size(round(least))} of a kernel, {cache} may hold a part"
        return Prediction(obstacle=few)
    plain_before, plain_after = _plain_us(moved.before, rates), _plain_us(moved.after, rates)
    measured = [measured_time(trial.before, kernel) for kernel in moved.before]
    kernels_us = sum(time.us for time in measured if time is not None)
    if not plain_before or plain_after is None or not kernels_us or None in measured:
        return Prediction()
    factor = kernels_us / plain_before
    if factor > MOST_OF_MEMORY:
        return Prediction(
            obstacle=f"no estimate from bytes: the kernels take {factor:.1f}× as long as plain reads and writes of as "
            "many, so they wait for something else"
        )
    if timing.device != "cpu":
        factor = max(1.0, factor) if trial.choice.together else min(1.0, factor)
    kernels_after_us = plain_after * factor
    now_us = trial.timing.before_us if trial.timing is not None else timing.compiled_us
    share = min(1.0, kernels_us / timing.compiled_us)
    return Prediction((now_us, now_us * (1 - share + share * kernels_after_us / kernels_us)))


def _plain_us(kernels: Sequence[Kernel], rates: MemoryRates) -> float | None:
    """Return the time of plain reads and writes of the bytes of kernels; None without any, or if they are unknown."""
    moved = _bytes_moved(kernels) if kernels else None
    if moved is None:
        return None
    read, written = moved
    return 1e6 * (read / rates.read_bytes_per_s + written / rates.written_bytes_per_s)


# ---- document and JSON

NOTE = (
    "Parts that are separate are fused, parts that are fused are kept apart: in a separate process, your file is not "
    "changed. A kernel is named as in the code pane; scheduler nodes, such as op3, are in its fusion view."
)


def _rows(trial: FusionTrial, width: int) -> Iterator[Row]:
    choice = trial.choice
    verb = "Fuse" if choice.together else "Keep apart"
    yield from wrapped(f"{verb} {_named(trial)}, graph {choice.graph} {choice.phase}", width, "heading")
    yield BLANK
    if choice.together:
        yield from wrapped(f"Inductor keeps them apart: {refusal(trial.before, choice)}.", width, lead="now: ")
    else:
        decisions = (one for choice in trial.choices for one in _decisions(trial.before, choice))
        saved = sum(one.bytes_saved or 0 for one in decisions if one.fused)
        known = f", which saves {size(saved)} of memory traffic by its own count" if saved else ""
        yield from wrapped(f"Inductor fuses them{known}.", width, lead="now: ")
    if trial.applied is False:
        yield from wrapped(f"{_conclusion(trial)}.", width, "warn")
        return
    if failed := (trial.after.failure if trial.after is not None else None):
        yield from wrapped(f"{failed.type}: {failed.message}", width, "error", lead="✖ ")
    yield from _figures(trial, width)


def _named(trial: FusionTrial) -> str:
    """Return the parts of the first choice, and how many others there are."""
    named = " and ".join("+".join(part) for part in trial.choice.parts)
    others = len(trial.choices) - 1
    return f"{named}, and {count(others, 'pair')} of calls like them" if others else named


class _Figure(NamedTuple):
    name: str
    now: str
    chosen: str


_FIGURES: tuple[Column[_Figure], ...] = (
    Column("", lambda figure: figure.name, left=True),
    Column("now", lambda figure: figure.now, style="strong"),
    Column("with the choice", lambda figure: figure.chosen, style="strong"),
)


def _figures(trial: FusionTrial, width: int) -> Iterator[Row]:
    moved, timing = traffic(trial), trial.timing
    predicted = predict(trial, moved)
    figures = []
    if moved is not None:
        figures.append(_Figure("kernels", str(len(moved.before)), str(len(moved.after))))
        loops = (_loops(trial.before, moved.before), _loops(trial.after or trial.before, moved.after))
        figures.append(_Figure("groups of fused nodes", *map(str, loops)))
        if moved.bytes_before is not None and moved.bytes_after is not None:
            figures.append(_Figure("bytes moved", size(moved.bytes_before), size(moved.bytes_after)))
    if predicted.us is not None:
        figures.append(_Figure("a call, estimated from bytes", *(duration(us / 1e6) for us in predicted.us)))
    if timing is not None:
        figures.append(_Figure("a call, measured", *(duration(us / 1e6) for us in (timing.before_us, timing.after_us))))
    if figures:
        yield BLANK
        yield from table(_FIGURES, figures)
    if reason := predicted.obstacle:
        yield from wrapped(f"{reason[:1].upper()}{reason[1:]}.", width, "muted")
    yield BLANK
    if timing is not None:
        yield from wrapped(f"{_conclusion(trial)}.", width, VERDICT_STYLES.get(timing.verdict, "muted"))
        if trial.made != trial.choices:
            yield from wrapped(_made(trial), width, "muted")
    elif trial.applied:
        yield from wrapped(f"{_made(trial)} Its code is compiled and timed.", width, "running")


def _made(trial: FusionTrial) -> str:
    made, choices = len(trial.made or ()), len(trial.choices)
    return "Inductor made the choice." if made == choices else f"Inductor made the choice in {made} of {choices} pairs."


def _loops(run: Snapshot, kernels: Iterable[Kernel]) -> int:
    fusions = Fusions(run)
    return sum(len(fusions.fused(kernel).groups) for kernel in kernels)


def _conclusion(trial: FusionTrial) -> str:
    """Return the result in one sentence, without a full stop."""
    choice, timing = trial.choice, trial.timing
    if trial.applied is False and trial.after is not None:
        if choice.together:
            return f"torch cannot fuse them: {refusal(trial.after, choice)}"
        return "torch still fuses them: this kind of fusion is not decided by its heuristics"
    if timing is None:
        return ""
    done = "fused" if choice.together else "apart"
    effect = f"a call is {timing.verdict}"
    if timing.verdict not in ("faster", "slower"):
        effect = "makes no difference" if timing.verdict == "no difference" else "undecided"
    return f"{done}: {effect}, {speedup_range(timing.speedup, timing.low, timing.high)}"


def _fields(trial: FusionTrial) -> dict[str, Any]:
    choice, timing, moved = trial.choice, trial.timing, traffic(trial)
    predicted = predict(trial, moved)
    reason = refusal(trial.before, choice) if choice.together else None
    refused = trial.after is not None and trial.applied is False and choice.together
    return {
        "choice": "together" if choice.together else "apart",
        "parts": [list(part) for part in choice.parts],
        "graph": choice.graph,
        "phase": choice.phase,
        "reason": reason,
        "pairs": len(trial.choices),
        "applied": trial.applied,
        "applied_pairs": len(trial.made) if trial.made is not None else None,
        "refused": refusal(trial.after, choice) if refused and trial.after is not None else None,
        "kernels_before": [kernel.name for kernel in moved.before] if moved is not None else None,
        "kernels_after": [kernel.name for kernel in moved.after] if moved is not None else None,
        "bytes_before": moved.bytes_before if moved is not None else None,
        "bytes_after": moved.bytes_after if moved is not None else None,
        "estimated_us": list(predicted.us) if predicted.us is not None else None,
        "not_estimated": predicted.obstacle or None,
        "before_us": timing.before_us if timing is not None else None,
        "after_us": timing.after_us if timing is not None else None,
        "speedup": timing.speedup if timing is not None else None,
        "ci95": [timing.low, timing.high] if timing is not None else None,
        "verdict": timing.verdict if timing is not None else None,
        "error": failure(trial.after.failure if trial.after is not None else None),
    }


STUDY = FusionStudy()
