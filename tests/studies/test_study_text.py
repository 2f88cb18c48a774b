"""The title line of a study on the screen."""

from __future__ import annotations

from dataclasses import replace

from tcexplore import events as ev
from tcexplore.session.snapshot import start_snapshot
from tcexplore.studies.study import StudyState
from tcexplore.studies.study_text import study_title
from tests.studies.playback import JOB, timed


def test_the_title_says_if_the_file_was_saved_since():
    job = replace(JOB, run=2)
    assert "saved since" not in study_title("fix", job, None, "", 2, 120).text
    assert "the file was saved since: run 3" in study_title("fix", job, None, "", 3, 120).text


def test_the_title_says_how_long_a_step_takes_and_how_much_time_is_left():
    state: StudyState[None, None] = StudyState(JOB, None, 60.0, step="fix 1 of 3", step_began=100.0)

    def title(now: float) -> str:
        return study_title("fix", JOB, state, "", JOB.run, 120, now).text

    assert "◐ fix 1 of 3  for 12 s" in title(112.0)
    assert "for" not in title(100.5)
    state.steps = "0 of 3 · about 40 s left"
    assert "0 of 3 · about 40 s left  ◐ fix 1 of 3" in title(112.0)
    assert "◐ fix 1 of 3  for 12 s" in title(112.0)


def test_the_title_says_what_a_cell_does():
    timing = replace(timed(1.5), processes_to_come=2)
    run = start_snapshot(JOB).apply(ev.PhaseStarted(run=1, phase="timing", at=1.0)).apply(replace(timing, run=1))
    state: StudyState[None, None] = StudyState(JOB, None, 60.0, step="max-autotune", run=run)
    assert "◐ max-autotune  timing, 2 processes to come" in study_title("modes", JOB, state, "", JOB.run, 120).text
