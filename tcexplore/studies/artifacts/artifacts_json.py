"""State dict and compile artifacts as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcexplore import events as ev
from tcexplore.report.json_report import failure
from tcexplore.report.json_state import state
from tcexplore.session import Snapshot
from tcexplore.session.run_figures import RunFigures
from tcexplore.studies.artifacts.artifacts_result import shipped
from tcexplore.studies.artifacts.artifacts_text import CPP_COMPILER
from tcexplore.studies.study_json import head

Fields = dict[str, Any]


def ship(runs: Sequence[Snapshot], machine: ev.Standby | None, *, stopped: bool) -> Fields:
    """Schema 1 of the study; null where a run was not made (yet)."""
    found = shipped(runs)
    saved = found.made.artifacts_saved if found else None
    return {
        **head("ship", [RunFigures(run) for run in runs], machine, stopped),
        "state_dict": state(found.made.state_keys if found else None),
        "saved_bytes": saved.bytes if saved else None,
        "saved_kinds": dict(saved.kinds) if saved else None,
        "made": _run(found.made) if found else None,
        "loaded": _run(found.loaded) if found and found.loaded else None,
        "hits": found.hits if found and found.loaded else None,
        "first_call_spared_s": found.spared_s if found else None,
    }


def _run(run: Snapshot) -> Fields:
    cell, loaded = RunFigures(run), run.artifacts_loaded
    return {
        "error": failure(run.failure),
        "first_call_s": cell.first_call_s,
        "compile_s": cell.compile_s,
        "loading_s": loaded.seconds if loaded else None,
        "caches": [{"cache": used.cache, "outcome": used.outcome, "reason": used.reason} for used in run.cache_lookups],
        "cpp_compiler_s": sum(span.seconds for span in run.phase_times if span.name == CPP_COMPILER),
    }
