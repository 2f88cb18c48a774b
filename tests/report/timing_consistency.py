"""Measured figures of a JSON report that must not contradict each other."""

from __future__ import annotations

from typing import Any

from tcexplore.events.result_events import MARK_US
from tcexplore.events.timing_events import MAX_DISAGREEMENT

NO_ADVICE = ("break_even_calls", "net_s", "saved_us_per_call")


def timing_contradictions(report: dict[str, Any]) -> list[str]:
    """Return the measured figures of a report that contradict each other."""
    timing = report["timing"]
    wrong = [*_of_breaks(report)]
    if timing is None or timing["verdict"] == "measuring":
        return wrong
    unit_us = timing["compiled_us"] * timing["calls_per_unit"]
    return [*wrong, *_of_verdict(timing), *_of_profile(report, unit_us), *_of_parts(report, unit_us)]


def _of_verdict(timing: dict[str, Any]) -> list[str]:
    (low, high), verdict = timing["ci95"], timing["verdict"]
    checks = {
        "the speedup lies outside its interval": not low <= timing["speedup"] <= high,
        "faster, but the interval contains 1": verdict == "faster" and low <= 1,
        "slower, but the interval contains 1": verdict == "slower" and high >= 1,
        "a verdict above a noise floor of 20%": timing["noise_floor"] > 0.2 and verdict != "undecided",
        "advice without a verdict": verdict == "undecided" and any(timing[key] is not None for key in NO_ADVICE),
        "break-even, but not faster": verdict != "faster" and timing["break_even_calls"] is not None,
        "advice to compile without a verdict": (
            verdict == "undecided" and timing["recommendation"].startswith(("Worth", "Break-even"))
        ),
    }
    return [text for text, applies in checks.items() if applies]


def _of_profile(report: dict[str, Any], unit_us: float) -> list[str]:
    profile = report["call_profile"]
    if profile is None:
        return []
    device_us = profile["device_busy_us"]
    marks = sum(part["count"] for part in profile["parts"])
    least_us = profile["total_us"] - MARK_US * marks if device_us is None else device_us
    long = least_us > (1 + MAX_DISAGREEMENT) * unit_us
    short = device_us is None and profile["total_us"] < (1 - MAX_DISAGREEMENT) * unit_us
    return ["profile and timing differ by more than 30%"] if long or short else []


def _of_parts(report: dict[str, Any], unit_us: float) -> list[str]:
    kernels = [(kernel["name"], kernel["measured"]["us"]) for kernel in report["kernels"] if kernel["measured"]]
    known = [broken for broken in report["breaks"] if broken["cost"] and not broken["cost"]["contradicted"]]
    costs = [(broken["reason"], broken["cost"]["us"]) for broken in known]
    return [f"{name} takes {us} µs of {unit_us} µs" for name, us in (*kernels, *costs) if us > unit_us]


def _of_breaks(report: dict[str, Any]) -> list[str]:
    costs = [broken["cost"] for broken in report["breaks"] if broken["cost"]]
    shares = [cost["share"] for cost in costs if cost["basis"] == "gap, at least"]
    return ["breaks cost more than the call"] if sum(share or 0.0 for share in shares) > 1.0001 else []
