"""Event modules are imported on first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tcexplore import events


def test_event_modules_provide_their_names_and_no_other():
    assert events.GraphBreak.__module__ == "tcexplore.events.dynamo_events"
    assert events.event_types()["GraphBreak"] is events.GraphBreak
    with pytest.raises(AttributeError):
        events.NoSuchEvent  # type: ignore[attr-defined]  # noqa: B018


def test_first_frame_imports_no_event_module():
    script = "import sys, tcexplore.ui.app; print([m for m in sys.modules if m.startswith('tcexplore.events.')])"
    modules = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "events.config" in modules
    assert "events.job" not in modules
    assert "_events" not in modules
