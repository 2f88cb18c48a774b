"""What torch measured before it chose, in words."""

from __future__ import annotations

from tcexplore import events as ev
from tcexplore.quantities import count, duration
from tcexplore.session import Snapshot

TUNING_KINDS = {
    "configurations": "configurations of a Triton kernel, measured at its first launch",
    "coordinate descent": "coordinate descent, step by step from the best configuration",
    "algorithms": "algorithms: templates against library calls, measured while compiling",
}


def name_subject(tuned: ev.Tuned) -> str:
    """What was tuned: the kernel, or the op with the sizes of its inputs."""
    if tuned.kernel:
        return tuned.kernel
    sizes = f" of {', '.join(tuned.sizes)}" if tuned.sizes else ""
    return f"{tuned.op}{sizes}"


def summarize_choices(tuned: ev.Tuned) -> str:
    """`4 measured of 5, the fastest 3.10 µs, 1.25× faster than the next`."""
    measured = [choice.us for choice in tuned.choices if choice.us is not None]
    left = len(tuned.choices) - len(measured)
    said = [f"{count(len(measured), 'choice')} measured" + (f", {left} left out" if left else "")]
    if measured:
        said.append(f"the fastest {duration(min(measured) / 1e6)}, the slowest {duration(max(measured) / 1e6)}")
    externs = [choice.us for choice in tuned.choices if choice.kind == "extern" and choice.us is not None]
    templates = [choice.us for choice in tuned.choices if choice.kind == "template" and choice.us is not None]
    if externs and templates:
        ratio = min(externs) / min(templates)
        word = "faster" if ratio > 1 else "slower"
        said.append(f"the best template {max(ratio, 1 / ratio):.2f}× {word} than the best library call")
    return ", ".join(said)


def find_tuned_kernel(snapshot: Snapshot, tuned: ev.Tuned) -> ev.Kernel | None:
    """The kernel that was made of what was tuned; None where none is known by its name or its node."""
    mine = (
        k for k in snapshot.code.kernels if k.target == "native" and k.graph == tuned.graph and k.phase == tuned.phase
    )
    if tuned.kernel:
        return next((kernel for kernel in mine if kernel.name == tuned.kernel), None)
    return next((kernel for kernel in mine if tuned.node and tuned.node in kernel.nodes), None)
