"""Rows of the timing pane: is the answer still right, and what does it take in memory?"""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents.document import Row
from tcexplore.documents.prose import BLANK, heading, row, wrapped
from tcexplore.events import Accuracy, Memory
from tcexplore.quantities import size
from tcexplore.session import Snapshot
from tcexplore.session.saved_tensors import saved_for_backward

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


ACCURACY_STYLES = {**dict.fromkeys(GOOD, "faster"), "not judged": "muted", "wrong": "slower"}


def accuracy_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """The verdict, its figures, every difference; nothing before it is known."""
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
    if accuracy.verdict not in (*GOOD, "not judged"):
        yield from wrapped("Press L to find the compiler layer that causes it.", width, "ok", keys_only=True)


def memory_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """What each side takes; nothing before it is known."""
    memory = snapshot.memory
    if memory is None:
        return
    yield BLANK
    yield heading("Memory")
    for name, text in memory_figures(memory, saved_for_backward(snapshot)):
        if width >= 60:
            yield row((f" {name:<13}", "muted"), text)
        else:
            yield from wrapped(f"{name}: {text}", width)
    yield from wrapped(memory.method, width, "muted")
    for note in memory.notes:
        yield from wrapped(note, width, "warn", lead="! ")


def describe_accuracy(accuracy: Accuracy) -> str:
    """The verdict and why, without figures."""
    text = ACCURACY_SENTENCES.get(accuracy.verdict, accuracy.verdict)
    if accuracy.verdict == "not judged":
        return f"{text}: {accuracy.reason}" if accuracy.reason else text
    if accuracy.verdict in GOOD or not accuracy.worst:
        return text
    return f"{text}, most of all in {accuracy.worst}"


def format_errors(accuracy: Accuracy) -> str:
    """The errors; empty where there are none."""
    parts = []
    if accuracy.eager_vs_fp64 is not None and accuracy.compiled_vs_fp64 is not None:
        parts.append(
            f"error against float64: eager {format_error(accuracy.eager_vs_fp64)}, compiled {format_error(accuracy.compiled_vs_fp64)}"
        )
    if accuracy.max_abs is not None and accuracy.verdict != "identical":
        parts.append(f"largest difference to eager {format_error(accuracy.max_abs)}")
    return "; ".join(parts)


def describe_comparison(accuracy: Accuracy) -> str:
    """What was compared, and how; empty where nothing was."""
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
        drawn = "compiled again with fallback_random to draw the same" if accuracy.fallback_random else "the same seed"
        parts.append(f"it draws random numbers: {drawn}")
    if accuracy.reason:
        parts.append(f"compared with eager alone, for it cannot be judged against float64: {accuracy.reason}")
    return " · ".join(parts)


def format_error(value: float) -> str:
    """`0`, `2.7e-07`."""
    return f"{value:.2g}"


def memory_figures(memory: Memory, kept_compiled: int | None) -> Iterator[tuple[str, str]]:
    """Each figure with what it is; `kept_compiled` is what compiled keeps for the backward, None where unknown."""
    if memory.eager_peak is not None:
        yield "eager", f"{size(memory.eager_peak)} at the peak of a call"
    if memory.compiled_peak is not None:
        yield "compiled", f"{size(memory.compiled_peak)} at the peak of a call{_share(memory)}"
    yield "weights", f"{size(memory.weights)}, inputs {size(memory.inputs)}"
    if memory.saved_for_backward is not None:
        compiled = f", compiled {size(kept_compiled)}" if kept_compiled is not None else ""
        yield "for backward", f"eager keeps {size(memory.saved_for_backward)}{compiled}"
    if memory.compiling_adds is not None:
        grown = f"{size(memory.compiling_adds)} more" if memory.compiling_adds >= 0 else "nothing more"
        yield "compiling", f"{grown} than before it ({memory.compiling_method})"


def _share(memory: Memory) -> str:
    if not memory.eager_peak or memory.compiled_peak is None:
        return ""
    return f", {100 * memory.compiled_peak / memory.eager_peak:.0f} % of eager"
