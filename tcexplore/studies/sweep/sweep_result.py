"""One dimension at several sizes: what each size gives, which ones made it compile again, from where it helps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tcexplore.session.run_figures import RunFigures, is_faster

STATIC, DYNAMIC = "static", "dynamic"
WALKS = {"auto": None, "dynamic": True}
"""Runs that call every size in turn, and what they give to torch.compile as `dynamic`."""


@dataclass(frozen=True, slots=True)
class SweepStep:
    """One run of a sweep. `form` is `static` or `dynamic`, compiled for one `size`; or one of `WALKS` with size 0."""

    form: str
    size: int
    cell: RunFigures


@dataclass(frozen=True, slots=True)
class Sweep:
    """All steps so far, of dimension `dim` at `sizes`."""

    dim: int
    sizes: tuple[int, ...]
    steps: tuple[SweepStep, ...]

    def at(self, form: str, size: int) -> RunFigures | None:
        """What was measured for a size in a form, None before it was."""
        return next((s.cell for s in self.steps if (s.form, s.size) == (form, size)), None)

    def walk(self, form: str) -> RunFigures | None:
        """The run that calls every size in turn."""
        return self.at(form, 0)

    def compiled_at(self, form: str) -> tuple[int, ...]:
        """Sizes at which a walk compiled something, in its order: the first, and those that made it compile again."""
        walk = self.walk(form)
        calls = [] if walk is None else [call for call in walk.run.calls if call.variant == "compiled"]
        # Every call of the file is made at each size in turn.
        return tuple(dict.fromkeys(self.sizes[call.index % len(self.sizes)] for call in calls if call.compiles))

    def limit_hit(self, form: str) -> bool:
        """Whether a walk came to the recompile limit, and ran eagerly from there on."""
        walk = self.walk(form)
        return walk is not None and any(again.limit_hit for again in walk.run.recompiles)

    def helps_from(self, form: str) -> int | None:
        """The smallest size from which on compiling is faster, and right, at every size that was run; None where there
        is none."""
        helps = None
        for size in sorted(self.sizes, reverse=True):
            cell = self.at(form, size)
            if cell is not None and not is_faster(cell):
                break
            helps = size if cell is not None else helps
        return helps

    def sizes_where(self, form: str, holds: Callable[[RunFigures], bool]) -> tuple[int, ...]:
        """The sizes whose run in that form is one of which `holds` is true."""
        return tuple(size for size in self.sizes if (cell := self.at(form, size)) is not None and holds(cell))

    def run_at(self, form: str) -> int:
        """At how many of the sizes that form was run."""
        return sum(self.at(form, size) is not None for size in self.sizes)
