"""A sweep as JSON."""

from __future__ import annotations

from typing import Any

from tcexplore import events as ev
from tcexplore.studies.study_json import cell, head
from tcexplore.studies.sweep.sweep_result import DYNAMIC, STATIC, WALKS, Sweep
from tcexplore.studies.sweep.sweep_text import conclusions

Fields = dict[str, Any]


def sweep(swept: Sweep, machine: ev.Standby | None, *, stopped: bool) -> Fields:
    """Every size in both forms with its raw samples; null where there is no run (yet)."""
    return {
        **head("sweep", [step.cell for step in swept.steps], machine, stopped),
        "dim": swept.dim,
        "sizes": [_size(swept, size) for size in swept.sizes],
        "walks": {form: _walk(swept, form) for form in WALKS},
        "helps_from": {form: swept.helps_from(form) for form in (STATIC, DYNAMIC)},
        "conclusions": list(conclusions(swept)),
    }


def _size(swept: Sweep, size: int) -> Fields:
    found = {form: swept.at(form, size) for form in (STATIC, DYNAMIC)}
    return {"size": size, **{form: None if at is None else cell(at) for form, at in found.items()}}


def _walk(swept: Sweep, form: str) -> Fields | None:
    walk = swept.walk(form)
    if walk is None:
        return None
    compiled, limit = list(swept.compiled_at(form)), swept.limit_hit(form)
    return {**cell(walk), "compiled_at": compiled, "recompiled_at": compiled[1:], "limit_hit": limit}
