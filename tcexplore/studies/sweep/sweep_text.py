"""What follows from a sweep, in sentences; a speed-up as a bar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tcexplore.documents.timing.accuracy_rows import describe_accuracy
from tcexplore.documents.verdict_marks import format_outcome
from tcexplore.events import TimingEstimate
from tcexplore.session.run_figures import is_faster, may_be_faster
from tcexplore.studies.load_text import uneven
from tcexplore.studies.sweep.sweep_result import DYNAMIC, STATIC, WALKS, Sweep, SweepStep

BAR = 40
"""Columns of the longest bar."""


MOST_UNKNOWN = 2.0
"""A speed-up up to which a bar that is undecided has room."""

FAILED = "✖ "
"""What a sentence about something wrong begins with."""


def conclusions(swept: Sweep) -> Iterator[str]:
    """From which size on compiling helps, which sizes were compiled again, what failed."""
    for form in (STATIC, DYNAMIC):
        if any(step.form == form and step.size and step.cell.run.timing for step in swept.steps):
            yield f"{form}: {_helps(swept, form)}"
    for form in WALKS:
        if swept.walk(form) is not None:
            yield f"all sizes in turn, dynamic {'auto' if form == 'auto' else 'true'}: {_walked(swept, form)}"
    for step in swept.steps:
        at = named(step.form, step.size)
        if step.cell.failure:
            yield f"{FAILED}{at}: {step.cell.failure}"
        elif step.cell.run.accuracy is not None and step.cell.summary.wrong:
            yield f"{FAILED}{at}: {describe_accuracy(step.cell.run.accuracy)}"
    for size in swept.sizes:
        if warning := uneven(filter(None, (swept.at(STATIC, size), swept.at(DYNAMIC, size))), f" at size {size}"):
            yield warning
            return


def named(form: str, size: int) -> str:
    """`static, size 64`."""
    return f"{form}, {f'size {size}' if size else 'all sizes in turn'}"


def result(step: SweepStep) -> str:
    """What one run came to, in a line."""
    return f"{named(step.form, step.size)}: {format_outcome(step.cell)}"


def _helps(swept: Sweep, form: str) -> str:
    """From which size on compiling helps, or at which; what is not known is said to be so."""
    size, some, unknown = (
        swept.helps_from(form),
        swept.sizes_where(form, is_faster),
        swept.sizes_where(form, may_be_faster),
    )
    if size is not None:
        said = f"compiling helps from size {size} on"
    elif some:
        rest = swept.sizes_where(form, lambda cell: not (is_faster(cell) or may_be_faster(cell)))
        worse = tuple(size for size in rest if size > min(some))
        said = f"compiling helps at size {_listed(some)}" + (f", but not at {_listed(worse)}" if worse else "")
    else:
        said = "compiling helps at no size"
    open_at = f"; too noisy to tell at size {_listed(unknown)}" if unknown else ""
    done, of = swept.run_at(form), len(swept.sizes)
    return said + open_at + ("" if done == of else f", as far as is known at {done} of {of} sizes")


def _listed(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes))


def _walked(swept: Sweep, form: str) -> str:
    again = swept.compiled_at(form)[1:]
    limit = "; the recompile limit was reached, the rest ran eagerly" if swept.limit_hit(form) else ""
    return (f"compiled again at size {_listed(again)}" if again else "never compiled again") + limit


def longest(timings: Iterable[TimingEstimate]) -> float:
    """The speed-up that the longest bar stands for; what is undecided may be anything, and is cut there."""
    return max([1.0, *(timing.speedup if _known(timing) else min(timing.high, MOST_UNKNOWN) for timing in timings)])


def _known(timing: TimingEstimate) -> bool:
    return timing.verdict in ("faster", "slower", "no difference")


def bar(timing: TimingEstimate, longest: float, columns: int = BAR) -> str:
    """A speed-up as a bar of so many columns for the `longest`, with a line at 1×; a shade where it is undecided, over
    all that it may be."""
    known = _known(timing)
    first, last = (0.0, timing.speedup) if known else (timing.low, timing.high)
    begin, end, one = (round(columns * at / longest) for at in (first, last, 1.0))
    cells = [("█" if known else "░") if begin <= column < end else " " for column in range(columns)]
    return "".join([*cells[:one], "│", *cells[one:]])
