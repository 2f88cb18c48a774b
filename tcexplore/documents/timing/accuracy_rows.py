"""Rows of the timing pane about accuracy and memory."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents.document import Row
from tcexplore.documents.prose import BLANK, heading, row, wrapped
from tcexplore.events import Accuracy, Memory
from tcexplore.keymap import hint
from tcexplore.quantities import size
from tcexplore.session import Snapshot

ACCURACY_SENTENCES = {
    "not judged": "results not compared",
    "identical": "compiled and eager results are bit-identical",
    "as accurate as eager": "compiled is as accurate as eager",
    "close to eager": "compiled is close to eager",
    "less accurate than eager": "compiled is less accurate than eager",
    "not close to eager": "compiled differs from eager by more than torch.testing tolerates",
    "wrong": "compiled results are wrong: they differ from eager",
}

FAITHFUL_VERDICTS = ("identical", "as accurate as eager", "close to eager")
"""Verdicts that need no attention."""


ACCURACY_STYLES = {**dict.fromkeys(FAITHFUL_VERDICTS, "faster"), "not judged": "muted", "wrong": "slower"}


def accuracy_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield the verdict, the errors and every difference, once they are known."""
    accuracy = snapshot.accuracy
    if accuracy is None:
        return
    yield BLANK
    yield from wrapped(describe_accuracy(accuracy), width, ACCURACY_STYLES.get(accuracy.verdict, "warn"))
    if text := format_errors(accuracy):
        yield from wrapped(text, width)
    for difference in accuracy.differences:
        yield from wrapped(difference, width, "warn", lead="! ")
    if text := describe_comparison(accuracy):
        yield from wrapped(text, width, "muted")
    if accuracy.verdict not in (*FAITHFUL_VERDICTS, "not judged"):
        text = f"Press {hint('numerics')} to find the first op that causes it, {hint('bisect')} the compiler stage."
        yield from wrapped(text, width, "ok", keys_only=True)
    elif accuracy.verdict not in ("identical", "not judged"):
        text = f"Press {hint('numerics')} to see which op differs first, and why."
        yield from wrapped(text, width, "muted", keys_only=True)


def memory_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield the memory of each side, once it is known."""
    memory = snapshot.memory
    if memory is None:
        return
    yield BLANK
    yield heading("Memory")
    for name, text in memory_figures(memory, snapshot.saved_for_backward):
        if width >= 60:
            yield row((f" {name:<13}", "muted"), text)
        else:
            yield from wrapped(f"{name}: {text}", width)
    yield from wrapped(memory.method, width, "muted")
    for note in memory.notes:
        yield from wrapped(note, width, "warn", lead="! ")


def describe_accuracy(accuracy: Accuracy) -> str:
    """Return the verdict and its reason, without figures."""
    text = ACCURACY_SENTENCES.get(accuracy.verdict, accuracy.verdict)
    if accuracy.verdict == "not judged":
        return f"{text}: {accuracy.reason}" if accuracy.reason else text
    if accuracy.verdict in FAITHFUL_VERDICTS or not accuracy.worst:
        return text
    return f"{text}, most in {accuracy.worst}"


def format_errors(accuracy: Accuracy) -> str:
    """Return the errors, empty if there are none."""
    parts = []
    if accuracy.eager_vs_fp64 is not None and accuracy.compiled_vs_fp64 is not None:
        errors = format_error(accuracy.eager_vs_fp64), format_error(accuracy.compiled_vs_fp64)
        parts.append("relative error vs. float64: eager {}, compiled {}".format(*errors))
        if accuracy.rounded_error is not None:
            parts[-1] += f", eager with other roundings {format_error(accuracy.rounded_error)}"
        elif accuracy.allowed_error is not None and accuracy.compiled_vs_fp64 > accuracy.eager_vs_fp64:
            parts[-1] += f" (rounding in another order explains up to {format_error(accuracy.allowed_error)})"
    elif accuracy.rounded_error is not None:
        parts.append(f"eager with other roundings differs by {format_error(accuracy.rounded_error)}")
    if accuracy.max_abs is not None and accuracy.verdict != "identical":
        parts.append(f"largest absolute difference from eager {format_error(accuracy.max_abs)}")
    return "; ".join(parts)


def describe_comparison(accuracy: Accuracy) -> str:
    """Return what was compared and how, empty if nothing was."""
    if not accuracy.calls:
        return ""
    parts = ["compared: outputs and gradients" if accuracy.train else "compared: outputs"]
    if accuracy.total_calls > 1:
        parts.append(
            f"{accuracy.calls} of {accuracy.total_calls} calls"
            if accuracy.calls < accuracy.total_calls
            else f"all {accuracy.total_calls} calls"
        )
    if accuracy.random:
        drawn = "recompiled with fallback_random" if accuracy.fallback_random else "same seed"
        parts.append(f"random numbers: {drawn}")
    if accuracy.reason:
        parts.append(f"compared with eager only, no float64 reference: {accuracy.reason}")
    return " · ".join(parts)


def format_error(value: float) -> str:
    """Return `0`, `2.7e-07`."""
    return f"{value:.2g}"


def memory_figures(memory: Memory, saved_compiled: int | None) -> Iterator[tuple[str, str]]:
    """Yield each figure with its name; `saved_compiled` is what compiled saves for the backward, None if unknown."""
    if memory.eager_peak is not None:
        yield "eager", f"{size(memory.eager_peak)} peak"
    if memory.compiled_peak is not None:
        yield "compiled", f"{size(memory.compiled_peak)} peak{_share(memory)}"
    yield "weights", f"{size(memory.weights)}, inputs {size(memory.inputs)}"
    if memory.saved_for_backward is not None:
        compiled = f", compiled {size(saved_compiled)}" if saved_compiled is not None else ""
        yield "for backward", f"eager saves {size(memory.saved_for_backward)}{compiled}"
    if memory.compiling_adds is not None:
        grown = f"adds {size(memory.compiling_adds)}" if memory.compiling_adds >= 0 else "adds nothing"
        yield "compiling", f"{grown} ({memory.compiling_method})"


def _share(memory: Memory) -> str:
    if not memory.eager_peak or memory.compiled_peak is None:
        return ""
    return f", {100 * memory.compiled_peak / memory.eager_peak:.0f}% of eager"
