"""Measured figures of a JSON report that must not contradict each other."""

from __future__ import annotations

from typing import Any


def timing_contradictions(report: dict[str, Any]) -> list[str]:
    """Return the measured figures of a report that contradict each other."""
    timing = report["timing"]
    wrong = [*_of_breaks(report)]
    if timing is None or timing["verdict"] == "measuring":
        return wrong
    unit_us = timing["compiled_us"] * timing["calls_per_unit"]
    return [*wrong, *_of_verdict(timing), *_of_parts(report, unit_us), *account_contradictions(report)]


def _of_verdict(timing: dict[str, Any]) -> list[str]:
    (low, high), verdict = timing["ci95"], timing["verdict"]
    checks = {
        "the speedup lies outside its interval": not low <= timing["speedup"] <= high,
        "faster, but the interval contains 1": verdict == "faster" and low <= 1,
        "slower, but the interval contains 1": verdict == "slower" and high >= 1,
        "a verdict for less than 1%": (
            verdict in ("faster", "slower") and max(timing["speedup"], 1 / timing["speedup"]) < 1.01
        ),
        "break-even, but not faster": verdict != "faster" and timing["break_even_calls"] is not None,
        "advice to compile without a verdict": (
            verdict == "undecided" and timing["recommendation"].startswith(("Worth", "Break-even"))
        ),
    }
    return [text for text, applies in checks.items() if applies]


def account_contradictions(report: dict[str, Any]) -> list[str]:
    """Return where two views of one fact differ: the account, the timing, kernels, lines, eager ops."""
    account = report["call_account"]
    if account is None:
        return []
    total, parts = account["total_us"], account["parts"]
    timing = report["timing"]
    lines, rest = report["line_times"], report["line_times_rest"]
    pairs = {
        "parts and the call": (sum(part["us"] for part in parts) + account["rest_us"], total),
        "eager ops": (
            sum(op["total_us"] for op in report["eager_ops"]["ops"]),
            sum(part["us"] for part in parts if part["kind"] == "eager op"),
        ),
    }
    if timing is not None:
        pairs["account and timing"] = (total, timing["compiled_us"])
    if lines or rest:
        pairs["lines and the call"] = (sum(line["compiled_us"] or 0.0 for line in (*lines, *rest)), total)
    for line in lines:
        place = (line["file"], line["line"])
        of_line = sum(part["us"] for part in parts if (part["file"], part["line"]) == place)
        both = sum(one["compiled_us"] or 0.0 for one in lines if (one["file"], one["line"]) == place)
        pairs[f"line {line['line']}"] = (both, of_line)
    for kernel in report["kernels"]:
        if kernel["measured"]:
            key = ("kernel", kernel["graph"], kernel["phase"], kernel["name"])
            own = sum(p["us"] for p in parts if (p["kind"], p["graph"], p["phase"], p["name"]) == key)
            pairs[f"kernel {kernel['name']}"] = (kernel["measured"]["us"], own)
    wrong = [f"{name}: {one} and {other} µs" for name, (one, other) in pairs.items() if not isclose(one, other)]
    outside = [part["name"] for part in parts if not _within(part)]
    return wrong + [f"{name} is outside its interval" for name in outside]


def isclose(one: float, other: float) -> bool:
    """Return whether two views have the same number, but for rounding."""
    return abs(one - other) <= 1e-6 * max(abs(one), abs(other), 1e-3)


def _within(part: dict[str, Any]) -> bool:
    slack = 1e-6 * max(part["us"], 1e-3)
    return bool(part["low_us"] - slack <= part["us"] <= part["high_us"] + slack)


def _of_parts(report: dict[str, Any], unit_us: float) -> list[str]:
    kernels = [(kernel["name"], kernel["measured"]["us"]) for kernel in report["kernels"] if kernel["measured"]]
    return [f"{name} takes {us} µs of {unit_us} µs" for name, us in kernels if us > 1.000001 * unit_us]


def _of_breaks(report: dict[str, Any]) -> list[str]:
    costs = [broken["cost"] for broken in report["breaks"] if broken["cost"]]
    shares = [cost["share"] for cost in costs if cost["basis"] == "gap, at least"]
    return ["breaks cost more than the call"] if sum(share or 0.0 for share in shares) > 1.0001 else []
