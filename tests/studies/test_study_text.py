"""The title line of a study on the screen."""

from __future__ import annotations

from dataclasses import replace

from tcexplore.studies.study_text import study_title
from tests.studies.playback import JOB


def test_the_title_says_if_the_file_was_saved_since():
    job = replace(JOB, run=2)
    assert "saved since" not in study_title("fix", job, None, "", 2, 120).text
    assert "the file was saved since: run 3" in study_title("fix", job, None, "", 3, 120).text
