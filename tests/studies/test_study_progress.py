"""Progress of a study: steps done, time left, and what a spent budget left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tcexplore import events as ev
from tcexplore.session.snapshot import start_snapshot
from tcexplore.studies.mode_variants import ModesOptions
from tcexplore.studies.progress import StudyProgress
from tcexplore.studies.study import StudyState
from tcexplore.studies.timed_cells import Cell, plan_cells
from tests.studies.playback import JOB, json_of, played, printed, timed


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_time_left_follows_from_the_steps_that_are_done():
    clock = Clock()
    progress = StudyProgress(clock=clock)
    progress.start()
    assert progress.text() == ""
    progress.plan("abcd")
    assert progress.text() == "0 of 4", "nothing is known of the time"
    clock.now = 10.0
    progress.finish("a")
    assert progress.text() == "1 of 4 · about 30 s left"
    progress.finish("a")
    progress.finish("unplanned")
    progress.plan("ae", "timing", guess_s=200.0)
    assert progress.text() == "1 of 4 · about 7 min left"
    for name in "bcd":
        progress.finish(name)
    progress.begin("timing")
    assert progress.text() == "timing: 0 of 2 · about 7 min left"
    for name in "ae":
        progress.finish(name, "timing")
    assert progress.text() == "timing: 2 of 2"


def test_steps_that_may_be_done_are_counted_as_at_most_so_many_and_are_never_left_out():
    clock = Clock()
    progress = StudyProgress(clock=clock)
    progress.start()
    progress.plan("abcd", "again", guess_s=10.0, optional=True)
    progress.begin("again")
    assert progress.text() == "again: 0 of at most 4 · about 40 s left"
    clock.now = 6.0
    progress.finish("a", "again")
    assert (progress.text(), progress.skipped) == ("again: 1 of at most 4 · about 18 s left", ())
    progress.end("again")
    assert progress.text() == "again: 1 of at most 1"


def test_the_time_left_counts_down_within_a_step_and_does_not_jump_at_its_end():
    clock = Clock()
    progress = StudyProgress(clock=clock)
    progress.start()
    progress.plan("abcd", guess_s=10.0)
    progress.begin()
    left = []
    for now in (0.0, 4.0, 9.0, 12.0):
        clock.now = now
        left.append(progress.left_s)
    assert left == [40.0, 36.0, 31.0, 30.0], "a step that takes longer than expected is about to end"
    progress.finish("a")
    assert progress.left_s == 36.0


def test_a_study_of_the_app_knows_from_the_run_of_the_file_how_long_it_takes():
    job = replace(JOB, time_for=1.0)
    compiled = ev.PhaseTimed(run=1, name="compile_fx", seconds=12.0, graph="0/0", depth=0, at=0.0)
    for own, left_s in ((None, None), (start_snapshot(job).apply(compiled), 2 * 12.0 + 2 * 1.0)):
        progress = StudyProgress(clock=Clock())
        cells = [Cell(name, name, job) for name in "ab"]
        plan_cells(progress, cells, StudyState[Any, Any](job, None, own=own))
        assert progress.left_s == left_s


def test_no_more_time_is_left_than_the_budget_has():
    clock = Clock()
    progress = StudyProgress(20.0, clock)
    progress.start()
    progress.plan("abc")
    clock.now = 15.0
    progress.finish("a")
    assert (progress.left_s, progress.skipped) == (5.0, ("b", "c"))
    clock.now = 21.0
    assert progress.budget_left_s == 0.0


async def test_a_spent_budget_names_what_was_left_out():
    clock = Clock()

    def story(job: ev.Job) -> list[ev.Event]:
        if job.config.backend == "inductor":
            return [timed(2.0), ev.Finished()]
        clock.now = 9.99
        return []

    options, job = ModesOptions(modes=("default",), dynamic=(False,)), replace(JOB, time_for=1.0)
    state, _ = await played("modes", story, options, job, timeout=60.0, budget_s=10.0, clock=clock)
    left_out = [f"{name}, default, dynamic false (compiling)" for name in ("eager", "aot_eager")]
    assert list(state.skipped) == left_out
    report = " ".join(printed("modes", state).split())
    assert f"The budget of 10 s was spent before: {'; '.join(left_out)}." in report
    fields = json_of("modes", state)
    assert (fields["budget_s"], fields["skipped"], len(fields["runs"])) == (10.0, left_out, 1)
