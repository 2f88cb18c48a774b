"""Studies as JSON: schema 1 of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcexplore import __version__
from tcexplore import events as ev
from tcexplore.documents.locations import display_path
from tcexplore.report import json_results, json_timing
from tcexplore.report.json_report import configuration, failure
from tcexplore.session.run_figures import RunFigures
from tcexplore.studies.modes.modes_result import choice
from tcexplore.studies.modes.modes_text import conclusions

SCHEMA = 1

Fields = dict[str, Any]


def head(study: str, cells: Sequence[RunFigures], machine: ev.Standby | None, stopped: bool) -> Fields:
    """What every study begins with."""
    return {
        "schema": SCHEMA,
        "study": study,
        "tcexplore": __version__,
        "torch": machine.torch if machine else None,
        "python": machine.python if machine else None,
        "device": machine.device if machine else None,
        "file": display_path(cells[0].run.file) if cells else None,
        "stopped": stopped,
    }


def matrix(cells: Sequence[RunFigures], machine: ev.Standby | None, *, stopped: bool) -> Fields:
    """Every cell with its raw samples, and the one to use; null where none is faster."""
    found = choice(cells)
    return {
        **head("compare", cells, machine, stopped),
        "use": configuration(found.take.run) if found else None,
        "conclusions": list(conclusions(cells)),
        "cells": [cell(one) for one in cells],
    }


def cell(found: RunFigures) -> Fields:
    run, summary = found.run, found.summary
    return {
        "config": configuration(run),
        "status": run.status,
        "error": failure(run.failure),
        "compile_s": found.compile_s,
        "first_call_s": found.first_call_s,
        "timing": json_timing.timing(run),
        "accuracy": json_results.accuracy(run.accuracy),
        "memory": json_results.memory(run),
        "breaks": summary.breaks,
        "graphs": summary.graphs,
        "kernels": summary.kernels,
        "extern_kernels": summary.extern,
        "recompiles": len(run.recompiles),
    }
