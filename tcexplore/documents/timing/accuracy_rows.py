"""Rows of the timing pane: is the answer still right, and what does it take in memory?"""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents.document import Row
from tcexplore.documents.prose import BLANK, heading, row, wrapped
from tcexplore.events import Accuracy, Memory
from tcexplore.quantities import size
from tcexplore.session import Snapshot
from tcexplore.session.saved_tensors import kept_for_backward

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
    found = snapshot.accuracy
    if found is None:
        return
    yield BLANK
    yield from wrapped(describe_accuracy(found), width, ACCURACY_STYLES.get(found.verdict, "warn"))
    if said := format_errors(found):
        yield from wrapped(said, width)
    for difference in found.differences:
        yield from wrapped(difference, width, "warn", lead="! ")
    if said := describe_comparison(found):
        yield from wrapped(said, width, "muted")
    if found.verdict not in (*GOOD, "not judged"):
        yield from wrapped("Press L to find the compiler layer that causes it.", width, "ok", keys_only=True)


def memory_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """What each side takes; nothing before it is known."""
    found = snapshot.memory
    if found is None:
        return
    yield BLANK
    yield heading("Memory")
    for name, said in memory_figures(found, kept_for_backward(snapshot)):
        if width >= 60:
            yield row((f" {name:<13}", "muted"), said)
        else:
            yield from wrapped(f"{name}: {said}", width)
    yield from wrapped(found.method, width, "muted")
    for note in found.notes:
        yield from wrapped(note, width, "warn", lead="! ")


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


def memory_figures(found: Memory, kept_compiled: int | None) -> Iterator[tuple[str, str]]:
    """Each figure with what it is; `kept_compiled` is what compiled keeps for the backward, None where unknown."""
    if found.eager_peak is not None:
        yield "eager", f"{size(found.eager_peak)} at the peak of a call"
    if found.compiled_peak is not None:
        yield "compiled", f"{size(found.compiled_peak)} at the peak of a call{_share(found)}"
    yield "weights", f"{size(found.weights)}, inputs {size(found.inputs)}"
    if found.saved is not None:
        compiled = f", compiled {size(kept_compiled)}" if kept_compiled is not None else ""
        yield "for backward", f"eager keeps {size(found.saved)}{compiled}"
    if found.compiling_adds is not None:
        grown = f"{size(found.compiling_adds)} more" if found.compiling_adds >= 0 else "nothing more"
        yield "compiling", f"{grown} than before it ({found.compiling_method})"


def _share(found: Memory) -> str:
    if not found.eager_peak or found.compiled_peak is None:
        return ""
    return f", {100 * found.compiled_peak / found.eager_peak:.0f} % of eager"
