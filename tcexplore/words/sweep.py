"""What follows from a sweep, in sentences; a speed-up as a bar."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.session.sweep import DYNAMIC, STATIC, WALKS, Sweep

BAR = 40
"""Columns of the longest bar."""


def conclusions(swept: Sweep) -> Iterator[str]:
    """From which size on compiling helps, which sizes were compiled again, what failed."""
    for form in (STATIC, DYNAMIC):
        if any(step.form == form and step.size and step.cell.run.timing for step in swept.steps):
            size = swept.helps_from(form)
            done, of = swept.run_at(form), len(swept.sizes)
            far = "" if done == of else f", as far as is known at {done} of {of} sizes"
            said = f"compiling helps from size {size} on" if size else "no size from which on compiling helps"
            yield f"{form}: {said}{far}"
    for form in WALKS:
        if swept.walk(form) is not None:
            yield f"all sizes in turn, dynamic {'auto' if form == 'auto' else 'true'}: {_walked(swept, form)}"
    for step in swept.steps:
        if step.cell.why:
            at = f"size {step.size}" if step.size else "all sizes in turn"
            yield f"✖ {step.form}, {at}: {step.cell.why}"


def _walked(swept: Sweep, form: str) -> str:
    again = swept.compiled_at(form)[1:]
    limit = "; the recompile limit was reached, the rest ran eagerly" if swept.limit_hit(form) else ""
    return (f"compiled again at size {', '.join(map(str, again))}" if again else "never compiled again") + limit


def bar(speedup: float, longest: float, columns: int = BAR) -> str:
    """A speed-up as a bar of so many columns for the `longest`, with a line at 1×."""
    filled, one = round(columns * speedup / longest), round(columns / longest)
    cells = ["█" if column < filled else " " for column in range(columns)]
    return "".join([*cells[:one], "│", *cells[one:]])
