"""The ladder as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcexplore import events as ev
from tcexplore.report import json_results
from tcexplore.report.json_report import configuration, failure
from tcexplore.session.run_figures import RunFigures
from tcexplore.studies.bisect.bisect_result import BisectStep, culprit
from tcexplore.studies.study_json import head

Fields = dict[str, Any]


def blame(steps: Sequence[BisectStep], machine: ev.Standby | None, *, written: str, stopped: bool) -> Fields:
    """Every rung that was tried; `layer` is the one to blame, null where none is."""
    guilty = culprit(tuple(steps))
    return {
        **head("blame", [RunFigures(step.run) for step in steps], machine, stopped),
        "layer": guilty.rung.layer if guilty else None,
        "reproducer": written or None,
        "rungs": [_rung(step) for step in steps],
    }


def _rung(step: BisectStep) -> Fields:
    return {
        "layer": step.rung.layer,
        "adds": step.rung.adds,
        "config": configuration(step.run) if step.rung.backend else None,
        "fails": step.fails,
        "error": failure(step.failed),
        "accuracy": json_results.accuracy(step.run.accuracy) if step.rung.backend else None,
    }
