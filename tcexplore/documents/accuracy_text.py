"""Whether compiled is still right, in a sentence."""

from __future__ import annotations

from tcexplore.events import Accuracy

ACCURACY_SENTENCES = {
    "not judged": "the results were not compared",
    "identical": "compiled gives what eager gives, to the last bit",
    "as accurate as eager": "compiled is as accurate as eager",
    "close to eager": "compiled is close to eager",
    "less accurate than eager": "compiled is less accurate than eager",
    "not close to eager": "compiled is further from eager than torch.testing accepts",
    "wrong": "compiled gives something else than eager",
}

GOOD = ("identical", "as accurate as eager", "close to eager")
"""Verdicts that leave nothing to look into."""


def describe_accuracy(found: Accuracy) -> str:
    """The verdict and why, without figures."""
    said = ACCURACY_SENTENCES.get(found.verdict, found.verdict)
    if found.verdict == "not judged":
        return f"{said}: {found.reason}" if found.reason else said
    if found.verdict in GOOD or not found.worst:
        return said
    return f"{said}, most of all in {found.worst}"


def format_errors(found: Accuracy) -> str:
    """The errors; empty where there are none."""
    said = []
    if found.eager_vs_fp64 is not None and found.compiled_vs_fp64 is not None:
        said.append(
            f"error against float64: eager {format_error(found.eager_vs_fp64)}, compiled {format_error(found.compiled_vs_fp64)}"
        )
    if found.max_abs is not None and found.verdict != "identical":
        said.append(f"largest difference to eager {format_error(found.max_abs)}")
    return "; ".join(said)


def describe_comparison(found: Accuracy) -> str:
    """What was compared, and how; empty where nothing was."""
    if not found.calls:
        return ""
    said = ["compared: outputs and gradients" if found.train else "compared: outputs"]
    if found.of > 1:
        said.append(f"{found.calls} of {found.of} calls" if found.calls < found.of else f"all {found.of} calls")
    if found.random:
        drawn = "compiled again with fallback_random to draw the same" if found.fallback_random else "the same seed"
        said.append(f"it draws random numbers: {drawn}")
    if found.reason:
        said.append(f"compared with eager alone, for it cannot be judged against float64: {found.reason}")
    return " · ".join(said)


def format_error(value: float) -> str:
    """`0`, `2.7e-07`."""
    return f"{value:.2g}"
