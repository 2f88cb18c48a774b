"""One dimension at several sizes: figures of each size, sizes that recompiled, sizes at which compiling helps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from tcexplore.session.economics import RunFigures, is_faster

Form = Literal["static", "dynamic", "auto"]
STATIC: Final = "static"
DYNAMIC: Final = "dynamic"
AUTO: Final = "auto"

ALL_SIZES: dict[Form, bool | None] = {AUTO: None, DYNAMIC: True}
"""The runs that call all sizes one after another, with the `dynamic` argument of torch.compile."""


@dataclass(frozen=True, slots=True)
class SweepStep:
    """One run of a sweep."""

    form: Form
    size: int
    """The size that is compiled by itself; 0 for a run over all sizes."""
    figures: RunFigures


@dataclass(frozen=True, slots=True)
class Sweep:
    """All finished runs of dimension `dim` at `sizes`."""

    dim: int
    sizes: tuple[int, ...]
    steps: tuple[SweepStep, ...]

    def at(self, form: Form, size: int) -> RunFigures | None:
        """Return the run of a size; None before it is finished."""
        return next((step.figures for step in self.steps if (step.form, step.size) == (form, size)), None)

    def all_sizes(self, form: Form) -> RunFigures | None:
        """Return the run that calls all sizes one after another."""
        return self.at(form, 0)

    def compiled_at(self, form: Form) -> tuple[int, ...]:
        """Return the sizes that compiled in the run over all sizes, in its order; the first one always does."""
        return tuple(dict.fromkeys(size for size, compiles in self._calls(form) if compiles))

    def not_called(self, form: Form) -> tuple[int, ...]:
        """Return the sizes that the run over all sizes did not call, since they fail or it ended before them."""
        called = {size for size, _ in self._calls(form)}
        return tuple(size for size in self.sizes if size not in called)

    @property
    def failing_sizes(self) -> tuple[int, ...]:
        """Return the sizes whose call fails without a compiler."""
        return self.sizes_where(STATIC, fails_in_eager)

    def _calls(self, form: Form) -> Iterator[tuple[int, int]]:
        """Yield the size and the number of compiles of each compiled call in the run over all sizes."""
        figures = self.all_sizes(form)
        if figures is None:
            return
        # The model file may make several calls; each is made at every size.
        sizes = figures.run.config.sizes
        for call in figures.run.calls:
            if call.variant == "compiled":
                yield sizes[call.index % len(sizes)], call.compiles

    def limit_hit(self, form: Form) -> bool:
        """Return whether the run over all sizes hit the recompile limit, and ran eagerly afterwards."""
        figures = self.all_sizes(form)
        return figures is not None and any(recompile.limit_hit for recompile in figures.run.recompiles)

    def helps_from(self, form: Form, faster: Callable[[RunFigures], bool] = is_faster) -> int | None:
        """Return the smallest size such that compiling is `faster` and correct from there up; None without one.

        Sizes that also fail without a compiler do not count.
        """
        smallest = None
        for size in sorted(self.sizes, reverse=True):
            figures = self.at(form, size)
            if figures is None or not is_measured(figures) or fails_in_eager(figures):
                continue
            if not faster(figures):
                break
            smallest = size
        return smallest

    def sizes_where(self, form: Form, holds: Callable[[RunFigures], bool]) -> tuple[int, ...]:
        """Return the sizes for whose run `holds` is true."""
        return tuple(size for size in self.sizes if (figures := self.at(form, size)) is not None and holds(figures))

    def measured(self, form: Form) -> tuple[int, ...]:
        """Return the sizes that are measured in this form."""
        return self.sizes_where(form, is_measured)


def is_measured(figures: RunFigures) -> bool:
    """Return whether a run has failed or its timing is over; the others are compiled but not yet timed."""
    run = figures.run
    timed = run.timing is not None and run.timing.verdict != "measuring"
    return timed or run.failure is not None or bool(run.timing_skipped)


def fails_in_eager(figures: RunFigures) -> bool:
    """Return whether the calls of a run fail without a compiler."""
    return figures.run.failure is not None and figures.run.failure.stage == "eager"
