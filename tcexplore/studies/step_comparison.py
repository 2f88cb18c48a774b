"""At which step, and in which parameter, the compiled run of a script leaves the eager one beyond rounding."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from tcexplore.documents.document import Row
from tcexplore.documents.prose import BLANK, Column, heading, table, wrapped
from tcexplore.events import StepParameters
from tcexplore.fixes.verification import ScriptSteps
from tcexplore.quantities import count
from tcexplore.studies.growth_rows import error_text
from tcexplore.studies.study_json import Fields

FACTOR = 10.0
"""Factor of the difference that rounding makes, from which on the compiled run has left the eager one. The sums that
stand for parameters are right within a quarter, and one perturbed run is a sample."""

LEAST = 2.0**-24
"""Relative difference that rounding to float32 may always make."""

MOST_ROWS = 8

EAGER_RANDOM = "torch._inductor.config.fallback_random=True"
"""Setting with which compiled code draws the random numbers of eager."""

Run = Sequence[StepParameters]


@dataclass(frozen=True, slots=True)
class ParameterDifference:
    """How far a parameter of the compiled run is from that of the eager run after a step."""

    step: int
    name: str
    difference: float
    """Relative to the norm of the parameter."""
    rounding: float
    """The same for eager runs whose ops are perturbed."""

    @property
    def ratio(self) -> float:
        return self.difference / self.rounding


@dataclass(frozen=True, slots=True)
class StepsCompared:
    """The compiled run of a script, compared with the eager one step by step."""

    steps: int
    worst: tuple[ParameterDifference, ...]
    """The parameter with the largest ratio after each step."""
    leaving: tuple[ParameterDifference, ...]
    """Parameters beyond rounding after the first step with any, the largest ratio first."""
    parameters: int

    @property
    def first(self) -> ParameterDifference | None:
        """The first parameter that leaves; None if none does."""
        return self.leaving[0] if self.leaving else None


def compare_steps(compiled: Run, eager: Run, perturbed: Sequence[Run]) -> StepsCompared | None:
    """Compare the runs; None without a step that all of them made."""
    runs = [compiled, eager, *perturbed]
    steps = min(map(len, runs), default=0)
    if not steps or not perturbed or len({tuple(run[0].names) for run in runs}) > 1:
        return None
    worst: list[ParameterDifference] = []
    leaving: tuple[ParameterDifference, ...] = ()
    largest: dict[str, float] = {}
    for index in range(steps):
        differences = _differences(index, compiled, eager, perturbed, largest)
        if not differences:
            return None
        worst.append(max(differences, key=lambda one: one.ratio))
        beyond = [one for one in differences if one.ratio > FACTOR]
        if beyond and not leaving:
            leaving = tuple(sorted(beyond, key=lambda one: one.ratio, reverse=True))
    return StepsCompared(steps, tuple(worst), leaving, len(eager[0].names))


def compare_scripts(before: Run, after: Run, perturbed: Run) -> ScriptSteps:
    """Compare the first steps of a script before and after a change, both compiled; `perturbed` may be empty.

    Beyond rounding is what differs by more than ten times what rounding makes of the script.
    """
    steps = min(len(before), len(after))
    if not steps:
        return ScriptSteps(reason="no step was seen: a step ends when an optimizer has changed its parameters")
    pairs = list(zip(before, after, strict=False))
    losses = [relative(a, b) for one, other in pairs for a, b in zip(one.losses, other.losses, strict=False)]
    result = ScriptSteps(
        steps=steps,
        losses=min(sum(len(one.losses) for one, _ in pairs), sum(len(other.losses) for _, other in pairs)),
        loss_difference=max(losses, default=0.0),
        identical=all(replace(one, seconds=0.0, run=0) == replace(other, seconds=0.0, run=0) for one, other in pairs),
        same_random=all(one.random == other.random for one, other in pairs),
        before_us=_step_us(before),
        after_us=_step_us(after),
    )
    if any(one.names != other.names for one, other in pairs):
        return replace(result, objection="its optimizers have other parameters")
    if any(len(one.losses) != len(other.losses) for one, other in pairs):
        return replace(result, objection="another number of backwards is made in a step")
    if not result.same_random:
        return replace(result, objection="it draws other random numbers")
    compared = compare_steps(after, before, [perturbed]) if perturbed and not result.identical else None
    if compared is not None and compared.first is not None:
        first = compared.first
        far = f"{error_text(first.difference)} off, where rounding explains {error_text(first.rounding)}"
        return replace(result, objection=f"after step {first.step}, {first.name} is {far}")
    return replace(result, judged=result.identical or compared is not None)


def relative(one: float, other: float) -> float:
    """Return the difference of two values, relative to the first; 0 if both are NaN."""
    if one == other or (math.isnan(one) and math.isnan(other)):
        return 0.0
    return abs(one - other) / abs(one) if one and math.isfinite(one) and math.isfinite(other) else math.inf


def _step_us(run: Run) -> float | None:
    """Return the median time of a step, without the first two, which compile and warm up; None if there are no more."""
    times = [step.seconds * 1e6 for step in run[2:]]
    return median(times) if times else None


def _differences(
    index: int, compiled: Run, eager: Run, perturbed: Sequence[Run], largest: dict[str, float]
) -> list[ParameterDifference]:
    """Return the difference of each parameter; `largest` has what rounding made of each one up to this step."""
    exact = _by_name(eager[index])
    for run in perturbed:
        for name, difference in _distances(_by_name(run[index]), exact).items():
            largest[name] = max(largest.get(name, 0.0), difference)
    # A parameter may be lucky in a perturbed run, but not half of them.
    usual = sorted(largest.values())[len(largest) // 2] if largest else 0.0
    return [
        ParameterDifference(eager[index].step, name, difference, max(largest.get(name, 0.0), usual, LEAST))
        for name, difference in _distances(_by_name(compiled[index]), exact).items()
    ]


def _by_name(step: StepParameters) -> dict[str, tuple[float, ...]]:
    return dict(zip(step.names, step.sketches, strict=True))


def _distances(one: Mapping[str, tuple[float, ...]], other: Mapping[str, tuple[float, ...]]) -> dict[str, float]:
    return {name: _distance(one[name], values) for name, values in other.items() if name in one}


def _distance(one: Sequence[float], other: Sequence[float]) -> float:
    if len(one) != len(other):
        return math.inf
    norm = math.hypot(*other)
    return math.dist(one, other) / norm if norm else 0.0


def steps_text(compared: StepsCompared) -> str:
    """Return the result in a sentence."""
    first, steps = compared.first, count(compared.steps, "step")
    if first is None:
        return (
            f"After {steps}, no parameter of {compared.parameters} is further from the eager run than rounding "
            "explains."
        )
    several = len(compared.leaving) > 1
    others = f" and {count(len(compared.leaving) - 1, 'other')} have" if several else " has"
    return (
        f"After step {first.step}, {first.name}{others} left the eager run: {error_text(first.difference)} off, "
        f"where rounding explains {error_text(first.rounding)}."
    )


COLUMNS: tuple[Column[ParameterDifference], ...] = (
    Column("step", lambda one: one.step),
    Column("parameter", lambda one: one.name, left=True, squeezable=True),
    Column("off", lambda one: one.difference, error_text),
    Column("rounding", lambda one: one.rounding, error_text),
    Column(
        "times",
        lambda one: one.ratio,
        lambda value: f"{value:,.1f}" if value < 1e6 else f"{value:.0e}",
        style=lambda one: "error" if one.ratio > FACTOR else "",
    ),
)


def step_rows(compared: StepsCompared, width: int) -> Iterator[Row]:
    """Yield when the compiled run leaves the eager one, and the differences of some steps."""
    yield BLANK
    yield heading("Over steps", "parameters of the compiled run against the eager run")
    yield from wrapped(steps_text(compared), width, "error" if compared.leaving else "ok")
    yield from table(COLUMNS, _some(compared), width=width)
    yield from wrapped(
        "off: norm of the difference, relative to the parameter; the worst parameter of each step. rounding: the same "
        f"for eager runs in which each op's result is one unit in the last place off. Beyond {FACTOR:.0f} times it, "
        "rounding does not explain it. Random numbers are eager's in all runs.",
        width, "dim",
    )  # fmt: skip


def _some(compared: StepsCompared) -> list[ParameterDifference]:
    """Return the first and the last steps, those around the first that leaves, and others evenly between."""
    steps = list(compared.worst)
    if len(steps) <= MOST_ROWS:
        return steps
    chosen = {round(number * (len(steps) - 1) / (MOST_ROWS - 3)) for number in range(MOST_ROWS - 2)}
    if compared.first is not None:
        leaves = next(index for index, one in enumerate(steps) if one.step == compared.first.step)
        chosen |= {leaves, max(leaves - 1, 0)}
    return [steps[index] for index in sorted(chosen)]


def step_fields(compared: StepsCompared | None) -> Fields | None:
    """Return the comparison for the JSON."""
    if compared is None:
        return None
    first = compared.first
    return {
        "steps": compared.steps,
        "parameters": compared.parameters,
        "first": None if first is None else _fields(first),
        "leaving": [_fields(one) for one in compared.leaving],
        "worst": [_fields(one) for one in compared.worst],
    }


def _fields(one: ParameterDifference) -> Fields:
    difference = one.difference if math.isfinite(one.difference) else None
    return {"step": one.step, "parameter": one.name, "difference": difference, "rounding": one.rounding}
