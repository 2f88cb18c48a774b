"""Load the original of a changed file into the same process, and compare the results and times of both."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tcexplore.accuracy.change_comparison import compare_change
from tcexplore.accuracy.configuration_comparison import compare_configurations
from tcexplore.capture.hooks import Emit, Hooks
from tcexplore.capture.python_state import PythonState
from tcexplore.capture.user_files import UserFiles
from tcexplore.capture.varied_calls import resize_calls, vary_calls
from tcexplore.events import ChangeChecked, ChangeTimed, Config, Event, Job, TimingEstimate
from tcexplore.timing.workload import Workload
from tcexplore.worker import process_setup
from tcexplore.worker.model_file import ModelFile
from tcexplore.worker.precision import autocast_dtype
from tcexplore.worker.program import Program, user_state
from tcexplore.worker.script_entry import load_entry
from tcexplore.worker.torch_settings import DynamoSettings, exchange_settings, seed

if TYPE_CHECKING:
    import torch

    from tcexplore.timing.timing_run import OtherProcesses

MakeProcesses = Callable[[Program, Workload], "OtherProcesses | None"]
"""Returns the processes in which a workload of a program is timed beside this one."""


class Baseline:
    """The program of a job's file before the change.

    `loaded` are the names of modules imported before the file ran. Exceptions of the original propagate.
    """

    def __init__(self, job: Job, user_files: UserFiles, loaded: Collection[str], dynamo: DynamoSettings) -> None:
        self._changed_settings = DynamoSettings()
        _forget_modules(user_files, loaded)
        dynamo.restore()
        config = job.baseline_config or job.config
        seed(config.seed)
        if job.baseline_config is not None:
            exchange_settings(job.config, config)
        self._changed_config = job.config if job.baseline_config is not None else None
        original = replace(job, source=job.baseline or "", overlay=(), config=config)
        module, entry = load_entry(ModelFile(original), user_files)
        entry = resize_calls(entry, config.dim, config.sizes)
        self.program = Program(vary_calls(entry, config), config, module)
        self._state = user_state(self.program.module, module, user_files, loaded)
        if entry.context is not None:
            self._state.detach()
        self._tests = job.baseline_tests
        self._settings = DynamoSettings()

    def compare(self, changed: Program, state: PythonState | None, emit: Emit) -> ChangeChecked:
        """Compare the changed program, whose Python state after its import is given, with the original.

        Emit `ChangeCompared` on the way.
        """
        self.program.grad = changed.grad
        if self._changed_config is not None:
            return self._compare_configurations(changed, self._changed_config)
        after = replace(changed.subject(state), compile_for_mode=changed.compile_for_mode)
        # The changed program may be compiled again.
        self._changed_settings.restore()
        try:
            return compare_change(self.program.subject(self._state), after, self._tests, emit)
        except Exception as error:  # noqa: BLE001  the calls run user code; a failure costs the comparison only
            reason = str(error).partition("\n")[0]
            return ChangeChecked(verdict="not judged", reason=f"{type(error).__name__}: {reason}")
        finally:
            self._settings.restore()

    def _compare_configurations(self, changed: Program, config: Config) -> ChangeChecked:
        """Compare the outputs of both configurations, on the same calls."""
        if len(self.program.entry.calls) != len(changed.entry.calls) or config.sizes:
            return ChangeChecked(verdict="not judged", reason="the calls have other inputs")
        try:
            return compare_configurations(self.program.subject(), changed.subject(), autocast_dtype(config))
        except Exception as error:  # noqa: BLE001  the calls run user code; a failure costs the comparison only
            reason = str(error).partition("\n")[0]
            return ChangeChecked(verdict="not judged", reason=f"{type(error).__name__}: {reason}")

    def workload(self, changed: Program, mutates: bool) -> Workload:
        """Compile the original, and return both programs compiled, as the two sides of a timing."""
        for call in self.program.entry.calls:
            self.program.call(self.program.compiled, call)
            self.program.restore()
        before, after = self.program.workload(mutates), changed.workload(mutates)
        return replace(after, eager=before.compiled, reset=_reset_both(before, after))

    def time(
        self, changed: Program, mutates: bool, emit: Emit, time_for: float | None, processes: MakeProcesses
    ) -> None:
        """Time both programs compiled, in pairs, and emit a `ChangeTimed` for every new estimate."""
        from tcexplore.timing.timing_run import measure_timing

        def emit_timed(event: Event) -> None:
            if isinstance(event, TimingEstimate):
                emit(_to_change_timed(event))

        workload = self.workload(changed, mutates)
        if self._changed_config is not None and self._changed_config.fusion_choices:
            _emit_memory_rates(changed.device, emit)
        others = processes(changed, workload)
        measure_timing(workload, emit_timed, time_for, others=others, front_end=process_setup.front_end)


def compare_with_baseline(
    baseline: Baseline,
    changed: Program,
    state: PythonState | None,
    mutates: bool,
    hooks: Hooks,
    time_for: float | None,
    processes: MakeProcesses,
) -> None:
    """Emit `ChangeCompared`, `ChangeChecked` and `ChangeTimed`, without the events of compiling the original."""
    emit = hooks.emit
    with hooks.silenced():
        emit(baseline.compare(changed, state, emit))
        if time_for != 0:
            baseline.time(changed, mutates, emit, time_for, processes)


def _emit_memory_rates(device: torch.device, emit: Emit) -> None:
    """Emit what the estimate of a fusion from its bytes needs."""
    from tcexplore.timing.memory_rates import measure_memory_rates

    rates = measure_memory_rates(device)
    if rates is not None:
        emit(rates)


def _reset_both(before: Workload, after: Workload) -> Callable[[], None] | None:
    resets = [workload.reset for workload in (before, after) if workload.reset is not None]
    return partial(_call_each, resets) if resets else None


def _call_each(resets: list[Callable[[], None]]) -> None:
    for reset in resets:
        reset()


def _to_change_timed(event: TimingEstimate) -> ChangeTimed:
    return ChangeTimed(
        before_us=event.eager_us,
        after_us=event.compiled_us,
        speedup=event.speedup,
        low=event.low,
        high=event.high,
        verdict=event.verdict,
        pairs=event.pairs,
        processes=len(event.processes),
        cores=event.cores,
        busy_cores=event.busy_cores,
    )


def _forget_modules(user_files: UserFiles, loaded: Collection[str]) -> None:
    """Unload local modules so that they are reimported: they may have changed or draw random numbers."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name not in loaded and file and file.endswith(".py") and user_files.owns(os.path.abspath(file)):
            del sys.modules[name]
