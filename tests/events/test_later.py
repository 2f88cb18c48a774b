"""Names of the vocabulary that are imported when they are asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tcexplore import events


def test_every_name_is_there_and_no_other():
    assert all(getattr(events, name) is not None for name in events.__all__)
    with pytest.raises(AttributeError):
        events.NoSuchEvent  # noqa: B018


def test_the_first_frame_makes_no_record_that_only_a_run_needs():
    seen = "import sys, tcexplore.ui.app; print([m for m in sys.modules if m.startswith('tcexplore.events.')])"
    found = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True).stdout
    assert "events.job" in found
    assert "events.run" not in found
    assert "events.inductor" not in found
