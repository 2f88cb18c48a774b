"""Measured figures that contradict the timing; a run leaves them out or marks them, with the reason."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tcexplore import events as ev

PROFILE = "call profile and kernel times"
KERNELS = "times of kernels longer than the call"
SYMBOL = "torch.profiler:profile"


class Measured(NamedTuple):
    """The measured figures of a run; the names are those of the fields of `Snapshot`."""

    timing: ev.TimingEstimate | None
    call_profile: ev.CallProfiled | None
    kernel_times: tuple[ev.KernelTimed, ...]
    break_costs: ev.BreakCosts | None
    lines_timed: ev.LinesTimed | None
    missing_facts: tuple[ev.FactMissing, ...]


def add_measured(
    measured: Measured,
    event: ev.TimingEstimate | ev.CallProfiled | ev.KernelTimed | ev.BreakCosts | ev.LinesTimed,
) -> Measured:
    """Return the figures with a new one, without those that contradict the timing; costs of breaks stay, marked.

    A profile replaces an earlier one with its kernel times. Kernel times of a profile that is left out are, too.
    """
    if isinstance(event, ev.TimingEstimate):
        measured = measured._replace(timing=event)
    elif isinstance(event, ev.CallProfiled):
        first = measured.call_profile is None and not _has_reason(measured, PROFILE)
        measured = _without_reasons(measured, PROFILE, KERNELS)._replace(
            call_profile=event, kernel_times=measured.kernel_times if first else ()
        )
    elif isinstance(event, ev.BreakCosts):
        measured = measured._replace(break_costs=event)
    elif isinstance(event, ev.LinesTimed):
        measured = _without_reasons(measured, ev.RunFact.LINE_TIMES)._replace(lines_timed=event)
    elif not _has_reason(measured, PROFILE):
        measured = measured._replace(kernel_times=(*measured.kernel_times, event))
    timing = measured.timing
    return measured if timing is None or timing.verdict == "measuring" else _without_contradictions(measured, timing)


def _without_contradictions(measured: Measured, timing: ev.TimingEstimate) -> Measured:
    profile, costs = measured.call_profile, measured.break_costs
    if profile is not None and not profile.agrees_with(timing):
        us = profile.total_us if profile.device_busy_us is None else profile.device_busy_us
        measured = _leave_out(measured, PROFILE, _reason("profiled", us, timing))
        measured = measured._replace(call_profile=None, kernel_times=())
    if costs is not None:
        # They stay, with the contradiction: breaks whose costs vanish would change their order.
        contradicted = (
            "" if costs.agrees_with(timing) else _describe("measured with its breaks", costs.total_us, timing)
        )
        measured = measured._replace(break_costs=replace(costs, contradicted=contradicted))
    lines = measured.lines_timed
    if lines is not None and not lines.agrees_with(timing):
        measured = _leave_out(measured, ev.RunFact.LINE_TIMES, _line_reason(lines, timing))._replace(lines_timed=None)
    if longer := [kernel for kernel in measured.kernel_times if kernel.us > timing.unit_us]:
        reason = f"left out: {longer[0].kernel} took {longer[0].us:,.1f} µs, {_timed(timing)}"
        measured = _leave_out(measured, KERNELS, reason)
        kept = tuple(kernel for kernel in measured.kernel_times if kernel not in longer)
        measured = measured._replace(kernel_times=kept)
    return measured


def _reason(how: str, us: float, timing: ev.TimingEstimate) -> str:
    return f"left out: {_describe(how, us, timing)}"


def _describe(how: str, us: float, timing: ev.TimingEstimate) -> str:
    unit = "a call" if timing.calls == 1 else f"{timing.calls} calls"
    return f"{unit} {how} took {us:,.1f} µs, {_timed(timing)}"


def _line_reason(lines: ev.LinesTimed, timing: ev.TimingEstimate) -> str:
    then = " and ".join(f"{us:,.1f}" for us in (lines.eager_us, lines.compiled_us) if us is not None)
    now = f"{timing.eager_us:,.1f} and {timing.compiled_us:,.1f}"
    return f"left out: lines are parts of calls of {then} µs, but eager and compiled calls took {now} µs later"


def _timed(timing: ev.TimingEstimate) -> str:
    return f"but {timing.unit_us:,.1f} µs when timed"


def _leave_out(measured: Measured, fact: str, reason: str) -> Measured:
    missing = ev.FactMissing(fact=fact, symbol=SYMBOL, reason=reason)
    return measured._replace(missing_facts=(*_without_reasons(measured, fact).missing_facts, missing))


def _has_reason(measured: Measured, fact: str) -> bool:
    return any(missing.fact == fact for missing in measured.missing_facts)


def _without_reasons(measured: Measured, *facts: str) -> Measured:
    others = tuple(missing for missing in measured.missing_facts if missing.fact not in facts)
    return measured._replace(missing_facts=others)
