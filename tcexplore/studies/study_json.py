"""JSON fields that studies share. Schema 3."""

from __future__ import annotations

from typing import Any

from tcexplore import __version__
from tcexplore.documents.locations import display_path
from tcexplore.report.json_report import (
    accuracy_fields,
    configuration,
    environment,
    failure,
    memory_fields,
    timing_fields,
)
from tcexplore.session.economics import RunFigures, economics
from tcexplore.studies.study import Study, StudyState

SCHEMA = 3
"""Incremented whenever a field is removed or its meaning changes."""

Fields = dict[str, Any]


def study_fields(study: Study[Any, Any], state: StudyState[Any, Any]) -> Fields:
    """Return the whole JSON of a study."""
    machine = state.machine
    return {
        "schema": SCHEMA,
        "study": study.name,
        "tcexplore": __version__,
        "torch": machine.torch if machine else None,
        "python": machine.python if machine else None,
        "environment": environment(machine),
        "device": machine.device if machine else None,
        "file": display_path(state.job.file),
        "stopped": state.stopped,
        "budget_s": state.budget_s,
        "skipped": list(state.skipped),
        **study.fields(state),
    }


def run_fields(figures: RunFigures) -> Fields:
    """Return a timed run with its raw samples."""
    run, summary = figures.run, figures.summary
    return {
        "config": configuration(run),
        "status": run.status,
        "error": failure(run.failure),
        "compile_s": figures.compile_s,
        "first_call_s": figures.first_call_s,
        "break_even_calls": economics(run).break_even_calls,
        "timing": timing_fields(run),
        "accuracy": accuracy_fields(run.accuracy),
        "memory": memory_fields(run),
        "breaks": summary.breaks,
        "uncompiled_functions": summary.uncompiled,
        "graphs": summary.graphs,
        "kernels": summary.kernels,
        "extern_kernels": summary.extern,
        "recompiles": summary.recompiles,
    }
