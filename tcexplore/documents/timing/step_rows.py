"""The steps of a script: what a step is, how much of it is compiled, what each region gains, and what the rest is."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents.document import Row
from tcexplore.documents.locations import places
from tcexplore.documents.prose import BLANK, row, wrapped
from tcexplore.documents.verdicts import MARKS, VERDICT_STYLES
from tcexplore.events import StepRegion, StepsTimed
from tcexplore.quantities import count, duration, rounded
from tcexplore.session import Snapshot
from tcexplore.session.economics import economics, script_steps
from tcexplore.session.links import line_links, region_path, region_title

RANDOM = (
    "A region draws random numbers, such as for dropout. Eager and compiled code draw different ones, so the steps "
    "after an eager one differ from those of the script alone; --no-eager-steps leaves it as it is"
)

VARYING = "The shapes of the inputs differ from step to step: eager and compiled steps of equal size are compared"


def step_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield the rows about the steps of a script, if any are known."""
    steps = snapshot.steps
    if steps is None:
        return
    yield BLANK
    yield row((" STEPS OF THE SCRIPT", "heading"))
    yield from wrapped(describe_step(steps), width)
    yield from wrapped(describe_counts(steps), width, "muted")
    for note in step_notes(steps):
        yield from wrapped(note, width, "warn", lead="! ")
    if text := pays_in_this_run(snapshot):
        yield from wrapped(text, width, "strong")
    if text := epochs(snapshot):
        yield from wrapped(text, width)
    yield from _parts(snapshot, steps, width)


def describe_step(steps: StepsTimed) -> str:
    """Return what a step is."""
    if steps.border == "optimizer":
        return f"A step is all between two updates by {steps.step}: data, forward, loss, backward, optimizer."
    if steps.border == "function":
        return f"A step is a call of {steps.step}."
    return f"A step is all from one call of {steps.step} to the next." if steps.step else "No step is found so far."


def describe_counts(steps: StepsTimed) -> str:
    """Return how many steps were observed, as a sum, and how many of them ran eagerly."""
    irregular = f"{steps.irregular} with other calls or sizes" if steps.irregular else ""
    addends = [
        f"{number:,} {what}" for number, what in ((steps.warm_up, "to warm up"), (steps.timed, "timed")) if number
    ]
    others = steps.steps - steps.warm_up - steps.timed
    if steps.timed and others > 0:
        why = f"{irregular}, the rest " if irregular else ""
        addends.append(f"{others:,} not timed ({why}after a switch, profiled or disturbed)")
    elif irregular:
        addends.append(irregular)
    observed = f"{count(steps.steps, 'step')} observed"
    parts = [f"{observed}: {', '.join(addends)}" if addends else observed]
    if steps.eager:
        parts.append(f"{steps.eager:,} of them eagerly")
    if steps.repeats:
        parts.append(f"the script ran {steps.repeats + 1} times")
    return " · ".join(parts)


def step_notes(steps: StepsTimed) -> Iterator[str]:
    """Yield what limits the timing of the steps."""
    if steps.stopped:
        yield f"Steps are not alternated: {steps.stopped}"
    if steps.random:
        yield RANDOM
    if steps.varying:
        yield VARYING


def pays_in_this_run(snapshot: Snapshot) -> str:
    """Return that the script has fewer steps than the break-even point; empty if it has more, or has not ended."""
    number, needed = script_steps(snapshot), economics(snapshot).break_even_calls
    if number is None or not needed or number >= needed:
        return ""
    return f"This script has about {count(number, 'step')}: compiling most likely makes it take longer."


def epochs(snapshot: Snapshot) -> str:
    """Return the break-even point in epochs; empty if it, or the length of an epoch, is unknown."""
    steps, calls = snapshot.steps, economics(snapshot).break_even_calls
    if steps is None or not calls or not steps.steps_per_epoch:
        return ""
    number = calls / steps.steps_per_epoch
    length = f"{rounded(round(steps.steps_per_epoch))} steps each"
    return (
        f"Break-even after {number:.1f} epochs of {length}"
        if number >= 1
        else f"Break-even in the first epoch: {length}"
    )


def _parts(snapshot: Snapshot, steps: StepsTimed, width: int) -> Iterator[Row]:
    timing = snapshot.timing
    compiled = [region.share for region in steps.regions if region.share is not None]
    if compiled:
        yield from wrapped(f"{sum(compiled):.0%} of a compiled step runs in compiled graphs:", width, "strong")
    for region in steps.regions:
        yield from _region(snapshot, region, width, alone=len(steps.regions) > 1)
    if steps.rest and timing is not None:
        yield from wrapped("the rest of it:", width, "muted")
        for part in steps.rest:
            yield row((f" {part.share:>4.0%} {duration(part.us / 1e6):>9}  ", "muted"), part.name)


def _region(snapshot: Snapshot, region: StepRegion, width: int, *, alone: bool) -> Iterator[Row]:
    created = next((known for known in snapshot.regions if known.region == region.region), None)
    at = created.location if created is not None else None
    path = region_path(snapshot, region.region)
    name = region_title(created, path) if created is not None else f"region {region.region}"
    where = places(snapshot.file).describe(at)
    share = "" if region.share is None else f"{region.share:.0%}"
    times = "" if region.calls == 1 else f" ×{region.calls:g}"
    yield row((f" {share:>4}  ", "strong"), (name, "title"), (times, ""), (f"  {where}", "muted"),
              links=line_links(at), location=at)  # fmt: skip
    if alone and region.speedup is not None and region.eager_us and region.compiled_us:
        times = f"  {duration(region.eager_us / 1e6)} → {duration(region.compiled_us / 1e6)} a step"
        verdict = f"{region.speedup:.2f}× {MARKS.get(region.verdict, ' ')}"
        yield row(("       eager alone ", "muted"), (verdict, VERDICT_STYLES.get(region.verdict, "muted")),
                  (f"  [{region.low or 0:.2f}, {region.high or 0:.2f}]", "interval"),
                  (times if width >= 60 else "", "muted"))  # fmt: skip
