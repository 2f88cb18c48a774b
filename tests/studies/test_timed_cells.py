"""Cells of a table compile several at once, but each is timed alone, and for longer only if that matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.events.commands import PauseTiming, RunCommand
from tcexplore.studies import timed_cells
from tcexplore.studies.mode_variants import ModesOptions
from tcexplore.studies.runs import Runs
from tcexplore.studies.study import StudyState, load_study, run_study
from tcexplore.studies.timed_cells import is_certain, may_become_certain
from tests.studies.playback import JOB, Playback, timed

OPTIONS = ModesOptions(backends=("inductor",), modes=("default", "lite", "max-autotune"), dynamic=(False,))


Estimates = dict[str, list[ev.TimingEstimate]]
"""What each timing slice of a mode results in."""


class HeldPlayback(Playback):
    """Compiles a job at once, and emits an estimate each time it is resumed."""

    def __init__(self, emit: Callable[[ev.Event], None], log: list[str], estimates: Estimates) -> None:
        super().__init__(emit, lambda _: [ev.PhaseStarted(phase="timing", at=1.0)])
        self._log, self._estimates = log, estimates

    def submit(self, job: ev.Job) -> None:
        assert not job.timing_rests, "the study waits for pairs"
        self._log.append(f"compile {job.config.mode}")
        super().submit(job)

    def send(self, command: RunCommand) -> bool:
        if isinstance(command, PauseTiming) and self.jobs:
            job = self.jobs[-1]
            self._log.append(f"{'pause' if command.paused else 'time'} {job.config.mode}")
            if not command.paused:
                self.emit(replace(self._estimates[job.config.mode].pop(0), run=job.run))
        return super().send(command)


async def run(
    estimates: Estimates, options: ModesOptions = OPTIONS, progress: list[str] | None = None
) -> tuple[list[str], StudyState[ModesOptions, object]]:
    """Return what was done, and the state; `progress` gets the text about the steps whenever a cell begins."""
    log: list[str] = []
    texts = progress if progress is not None else []
    study = load_study("modes")
    state = StudyState[ModesOptions, object](replace(JOB, time_for=1e-6), options, 5.0)
    async with Runs(lambda emit: HeldPlayback(emit, log, estimates)) as runs:
        await run_study(study, state, runs, lambda _: texts.append(runs.steps.text()), lambda _: None)
    return log, state


def wide(speedup: float, low: float, high: float, pairs: int = 15) -> ev.TimingEstimate:
    return replace(timed(speedup, verdict="undecided"), low=low, high=high, pairs=pairs)


async def test_the_most_promising_cell_is_timed_first_then_all_others_compile_and_each_is_timed_alone():
    log, state = await run({"default": [timed(1.5)], "lite": [timed(0.5)], "max-autotune": [timed(1.4)]})
    assert log[:3] == ["compile default", "time default", "pause default"]
    assert sorted(log[3:5]) == ["compile lite", "compile max-autotune"]
    events = log[5:]
    assert sorted(events[::2]) == ["time lite", "time max-autotune"]
    assert [event.replace("time", "pause") for event in events[::2]] == events[1::2]
    assert [result.run.status for result in state.results] == ["ok"] * 3  # type: ignore[attr-defined]


async def test_the_first_cell_has_its_further_processes_when_all_cells_have_a_verdict():
    first = replace(timed(1.5), processes_to_come=2)
    log, _ = await run({"default": [first, timed(1.5)], "lite": [timed(0.5)], "max-autotune": [timed(1.4)]})
    times = [event for event in log if event.startswith("time")]
    assert times[0] == "time default"
    assert times[3:] == ["time default"]


async def test_cells_that_compiled_are_timed_before_others_compile(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timed_cells, "_core_count", lambda: 2)
    modes = ("default", "max-autotune", "reduce-overhead", "a", "b")
    log, _ = await run({mode: [timed(1.5)] for mode in modes}, replace(OPTIONS, modes=modes))
    order = [event for event in log if not event.startswith("pause")]
    assert order[:2] == ["compile default", "time default"]
    halves = [sorted(order[at : at + 2]) for at in range(2, 10, 2)]
    assert halves[:2] == [
        ["compile max-autotune", "compile reduce-overhead"],
        ["time max-autotune", "time reduce-overhead"],
    ]
    assert halves[2:] == [["compile a", "compile b"], ["time a", "time b"]]


async def test_only_undecided_cells_that_may_be_the_fastest_are_timed_again():
    log, _ = await run({
        "default": [timed(1.5)],
        "lite": [wide(1.1, 1.0, 1.2)],
        "max-autotune": [wide(1.6, 1.3, 1.9, 15), wide(1.6, 1.5, 1.7, 16), timed(1.6)],
    })  # fmt: skip
    assert [log.count(f"time {mode}") for mode in OPTIONS.modes] == [1, 1, 3]


async def test_further_slices_are_a_kind_of_step_of_their_own():
    progress: list[str] = []
    unclear = [wide(1.6, 1.3, 1.9, 15), wide(1.6, 1.5, 1.7, 16), timed(1.6)]
    await run({"default": [timed(1.5)], "lite": [timed(0.5)], "max-autotune": unclear}, progress=progress)
    again = [text for text in progress if text.startswith("timing again: ")]
    # Each of the three cells may have three further slices; only one gets some.
    assert [text.partition(" · ")[0] for text in again] == [f"timing again: {n} of at most 9" for n in (0, 1)]


async def test_hopeless_noise_is_not_timed_again():
    log, _ = await run({"default": [wide(1.0, 0.5, 2.0)], "lite": [timed(1.0)], "max-autotune": [timed(1.0)]})
    assert log.count("time default") == 1


def test_a_verdict_is_certain_if_its_interval_is_narrow_or_far_from_1():
    far, near = replace(timed(3.0), low=2.8, high=3.2), replace(timed(1.1), low=1.03, high=1.2)
    assert [is_certain(one) for one in (None, timed(1.5), far, near, wide(1.0, 0.99, 1.01))] == [
        False, True, True, False, False,
    ]  # fmt: skip
    assert [may_become_certain(one) for one in (far, near, wide(1.0, 0.5, 2.0))] == [False, True, False]


async def test_a_script_which_is_not_timed_ends_without_waiting_for_its_timing():
    class Script(Playback):
        """Waits for a resume after it has said that it is not timed."""

        def send(self, command: RunCommand) -> bool:
            if isinstance(command, PauseTiming) and not command.paused and self.jobs:
                self.emit(ev.Finished(run=self.jobs[-1].run))
            return super().send(command)

    study = load_study("modes")
    state = StudyState[ModesOptions, object](replace(JOB, time_for=1.0), OPTIONS, 5.0)
    skipped = ev.TimingSkipped(reason="a script")
    async with Runs(lambda emit: Script(emit, lambda _: [skipped])) as runs:
        await run_study(study, state, runs, lambda _: None, lambda _: None)
    assert [result.run.status for result in state.results] == ["ok"] * 3  # type: ignore[attr-defined]
