"""A changed file beside what it was: the original loaded into the same process, compared, and timed in turn."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

from tcexplore.accuracy.change_comparison import judge_change
from tcexplore.capture.entry.find_entry import find_entry
from tcexplore.capture.entry.varied_calls import resize_calls
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import ChangeChecked, ChangeTimed, Event, Job, TimingEstimate
from tcexplore.timing.workload import Workload
from tcexplore.worker import torch_settings as settings
from tcexplore.worker.dynamo_settings import DynamoSettings
from tcexplore.worker.model_file import ModelFile
from tcexplore.worker.program import Program


class Before:
    """What a job's file was before its change. `loaded` names the modules that were there before the file was run.

    Raises what running the original raises.
    """

    def __init__(self, job: Job, project: UserFiles, loaded: Collection[str], dynamo: DynamoSettings) -> None:
        _forget(project, loaded)
        dynamo.restore()
        settings.seed(job.config.seed)
        original = replace(job, source=job.before or "", overlay=())
        module = ModelFile(original).as_module()
        entry = resize_calls(find_entry(module, original, project), job.config.dim, job.config.sizes)
        self.program = Program(entry, job.config, module)

    def judge(self, now: Program) -> ChangeChecked:
        """Is what it gives the same?"""
        try:
            return judge_change(self.program.subject(), now.subject())
        except Exception as error:
            said = str(error).partition("\n")[0]
            return ChangeChecked(verdict="not judged", reason=f"{type(error).__name__}: {said}")

    def time(self, now: Program, mutates: bool, emit: Callable[[Event], None], time_for: float | None) -> None:
        """Time both compiled, in pairs; emits `ChangeTimed`, as often as there is news."""
        from tcexplore.timing.timing_run import measure

        for call in self.program.entry.calls:
            self.program.call(self.program.compiled, call)
            self.program.restore()
        then, here = self.program.workload(mutates), now.workload(mutates)

        def said(event: Event) -> None:
            if isinstance(event, TimingEstimate):
                emit(_timed(event))

        measure(replace(here, eager=then.compiled, reset=_both(then, here)), said, time_for)


def compare_with_before(before: Before, now: Program, mutates: bool, hooks: Hooks, time_for: float | None) -> None:
    """Emit `ChangeChecked` and `ChangeTimed`; what compiling the original brings to light is not said."""
    emit = hooks.emit
    with hooks.silenced():
        emit(before.judge(now))
        if time_for != 0:
            before.time(now, mutates, emit, time_for)


def _both(one: Workload, other: Workload) -> Callable[[], None] | None:
    resets = [workload.reset for workload in (one, other) if workload.reset is not None]
    return partial(_each, resets) if resets else None


def _each(resets: list[Callable[[], None]]) -> None:
    for reset in resets:
        reset()


def _timed(event: TimingEstimate) -> ChangeTimed:
    return ChangeTimed(
        before_us=event.eager_us,
        after_us=event.compiled_us,
        speedup=event.speedup,
        low=event.low,
        high=event.high,
        verdict=event.verdict,
        pairs=event.pairs,
    )


def _forget(project: UserFiles, loaded: Collection[str]) -> None:
    """Local modules are imported anew: importing them may draw random numbers, and a change may be in one of them."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name not in loaded and file and file.endswith(".py") and project.owns(os.path.abspath(file)):
            del sys.modules[name]
