"""The bisect study as a document: a row for each compiler stage, and the first one that fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcexplore.documents.document import Row, StaticDocument
from tcexplore.documents.locations import places
from tcexplore.documents.prose import BLANK, row, wrapped
from tcexplore.documents.timing.accuracy_rows import describe_accuracy, format_errors
from tcexplore.keymap import hint
from tcexplore.studies.bisect.bisect_result import EAGER, BisectStage, BisectStep, first_failure, unexercised

INTENT = "Each step adds one compiler stage; the first failure identifies the stage."
NO_FAILURE = "No stage fails: the file compiles, and its results are as good as eager's."
NO_FAILURE_OF_SCRIPT = (
    "No stage crashes: the script ends without an error with each. Its results were not compared: a script has no "
    "eager form. For wrong results, let the script check them itself, or put model and inputs in a file."
)
USER_CODE_FAILS = "It fails without a compiler: the error is in your code or its inputs."
NOTHING_COMPILED = "No compiler stage was exercised: no graph was captured. The breaks of the file show why."
REPRODUCER = "{} writes a reproducer: a folder that shows the failure without tcexplore"


def bisect_document(
    steps: Sequence[BisectStep], stages: Sequence[BisectStage], *, over: bool, written: str = "", width: int = 78
) -> StaticDocument:
    """Return the document; `over` is whether no further stage will be tried, `written` the reproducer's folder."""
    rows = [*wrapped(INTENT, width, "muted"), BLANK, *_stages(steps, stages, over, width), BLANK]
    failing = first_failure(steps)
    if failing is not None or over:
        rows += _verdict(steps, stages, width)
    if failing is not None:
        rows += _failure(failing, written, width)
    return StaticDocument("", tuple(rows))


def _stages(steps: Sequence[BisectStep], stages: Sequence[BisectStage], over: bool, width: int) -> Iterator[Row]:
    tried, idle = {step.stage: step for step in steps}, unexercised(steps)
    next_stage = next((stage for stage in stages if stage not in tried), None)
    name_width = max(len(stage.name) for stage in stages)
    # The first compiled run includes eager.
    under_way = () if over else stages[:2] if not tried else (next_stage,)
    one_line = width >= name_width + max(len(_adds(stage)) for stage in stages) + 8
    for stage in stages:
        mark = (" –", "warn") if stage in idle else _mark(tried.get(stage), stage in under_way)
        name = (f"  {stage.name:<{name_width}}", "strong" if stage in tried else "muted")
        yield row(mark, name, (f"  {_adds(stage)}" if one_line else "", "muted"))
        if not one_line:
            yield from wrapped(_adds(stage), width, "muted", indent=5)
        if stage in idle:
            yield from wrapped(f"not exercised: {idle[stage]}", width, "warn", indent=5)


def _adds(stage: BisectStage) -> str:
    return f"{stage.backend}: {stage.adds}" if stage.backend else stage.adds


def _mark(step: BisectStep | None, under_way: bool) -> tuple[str, str]:
    if step is None:
        return (" ◐", "running") if under_way else (" ·", "dim")
    return (" ✖", "error") if step.fails else (" ✔", "ok")


def _verdict(steps: Sequence[BisectStep], stages: Sequence[BisectStage], width: int) -> Iterator[Row]:
    failing = first_failure(steps)
    if failing is not None:
        stage = failing.stage
        text = USER_CODE_FAILS if stage is EAGER else f"First failing stage: {stage.name}. All stages before it work."
        yield from wrapped(text, width, "error")
        return
    if len(steps) < len(stages):
        yield from wrapped("Stopped before the last stage.", width, "warn")
        return
    if steps[-1].run.is_script:
        yield from wrapped(NO_FAILURE_OF_SCRIPT, width, "warn")
        return
    idle = unexercised(steps)
    if len(idle) == len(steps) - 1:
        yield from wrapped(NOTHING_COMPILED, width, "warn")
        return
    yield from wrapped(NO_FAILURE, width, "ok")
    if idle:
        names = "; ".join(f"{stage.name} ({reason})" for stage, reason in idle.items())
        yield from wrapped(f"This says nothing about stages that were not exercised: {names}.", width, "warn")
    accuracies = (step.run.accuracy for step in steps)
    not_judged = next((one for one in accuracies if one is not None and one.verdict == "not judged"), None)
    if not_judged is not None:
        yield from wrapped(f"But {describe_accuracy(not_judged)}.", width, "warn")


def _failure(step: BisectStep, written: str, width: int) -> Iterator[Row]:
    failed, accuracy = step.failed, step.run.accuracy
    if failed is not None:
        at = failed.location
        place = places(step.run.file).describe(at)
        yield row((f"  {failed.type}", "error"), (f"  {place}" if place else "", "location"), location=at)
        yield from wrapped(failed.message, width, "strong", indent=2, location=at)
        if step.stage is EAGER and failed.hint:
            yield from wrapped(failed.hint, width, "ok", indent=2, lead="try ")
    elif accuracy is not None:
        for line in filter(None, (describe_accuracy(accuracy), format_errors(accuracy))):
            yield from wrapped(line, width, "strong", indent=2)
        for difference in accuracy.differences:
            yield from wrapped(difference, width, "warn", indent=2, lead="! ")
    if written:
        yield row((f" reproducer: python {written.rstrip('/')}/repro.py", "ok"))
    elif step.stage is not EAGER:
        yield BLANK
        yield from wrapped(REPRODUCER.format(hint("bisect-write-reproducer")), width, "ok", keys_only=True)
    if failed is not None and failed.traceback:
        yield BLANK
        for line in failed.traceback.splitlines():
            yield row((f"  {line}", "muted"), location=failed.location, copy=line)
