"""The ladder of layers, rung by rung, and the one to blame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcexplore.documents.document import Row
from tcexplore.documents.document_parts import StaticDocument
from tcexplore.documents.locations import places
from tcexplore.documents.prose import BLANK, row, wrapped
from tcexplore.documents.timing.accuracy_rows import describe_accuracy, format_errors
from tcexplore.studies.bisect.bisect_result import EAGER, BisectStage, BisectStep, culprit
from tcexplore.studies.bisect.bisect_text import unjudged, verdict

INTENT = "Each rung has one layer of the compiler more than the one before it. The first that fails is to blame."

REPRODUCER = "w writes a reproducer: a folder that shows this without tcexplore."


def blame(steps: Sequence[BisectStep], rungs: Sequence[BisectStage], *, over: bool, width: int = 78) -> StaticDocument:
    """The document; `over` tells that no rung more will be tried."""
    return StaticDocument("", (*wrapped(INTENT, width, "muted"), BLANK, *_rungs(steps, rungs, over, width),
                     BLANK, *_verdict(steps, rungs, over, width)))  # fmt: skip


def _rungs(steps: Sequence[BisectStep], rungs: Sequence[BisectStage], over: bool, width: int) -> Iterator[Row]:
    tried = {step.rung: step for step in steps}
    running = next((rung for rung in rungs if rung not in tried), None)
    wide = max(len(rung.layer) for rung in rungs)
    # Eager is seen to in the run of the rung above it.
    under_way = rungs[:2] if not tried else (running,)
    beside = width >= wide + max(len(_adds(rung)) for rung in rungs) + 8
    for rung in rungs:
        mark = _mark(tried.get(rung), under_way=not over and rung in under_way)
        named = (f"  {rung.layer:<{wide}}", "strong" if rung in tried else "muted")
        yield row(mark, named, (f"  {_adds(rung)}" if beside else "", "muted"))
        if not beside:
            yield from wrapped(_adds(rung), width, "muted", indent=5)


def _adds(rung: BisectStage) -> str:
    return f"{rung.backend}: {rung.adds}" if rung.backend else rung.adds


def _mark(step: BisectStep | None, *, under_way: bool) -> tuple[str, str]:
    if step is None:
        return (" ◐", "running") if under_way else (" ·", "dim")
    return (" ✖", "error") if step.fails else (" ✔", "ok")


def _verdict(steps: Sequence[BisectStep], rungs: Sequence[BisectStage], over: bool, width: int) -> Iterator[Row]:
    guilty = culprit(tuple(steps))
    if guilty is None and not over:
        return
    if guilty is None and len(steps) < len(rungs):
        yield from wrapped("Stopped before the last rung: r climbs again.", width, "warn")
        return
    yield from wrapped(verdict(steps), width, "error" if guilty else "ok")
    if said := unjudged(steps):
        yield from wrapped(said, width, "warn")
    if guilty is not None:
        yield from _why(guilty, width)


def _why(guilty: BisectStep, width: int) -> Iterator[Row]:
    failed, accuracy = guilty.failed, guilty.run.accuracy
    if failed is not None:
        at = failed.location
        where = places(guilty.run.file).describe(at)
        yield row((f"  {failed.type}", "error"), (f"  {where}" if where else "", "location"), location=at)
        yield from wrapped(failed.message, width, "strong", indent=2, location=at)
        if guilty.rung is EAGER and failed.hint:
            yield from wrapped(failed.hint, width, "ok", indent=2, lead="try ")
    elif accuracy is not None:
        for said in filter(None, (describe_accuracy(accuracy), format_errors(accuracy))):
            yield from wrapped(said, width, "strong", indent=2)
        for difference in accuracy.differences:
            yield from wrapped(difference, width, "warn", indent=2, lead="! ")
    if guilty.rung is not EAGER:
        yield BLANK
        yield from wrapped(
            "w writes a reproducer: a folder that shows this without tcexplore.", width, "ok", lead="try "
        )
    if failed is not None and failed.traceback:
        yield BLANK
        for line in failed.traceback.splitlines():
            yield row((f"  {line}", "muted"), location=failed.location, copy=line)
