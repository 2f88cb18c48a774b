"""What eager and compiled take in memory, in words."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.events import Memory
from tcexplore.quantities import size


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
