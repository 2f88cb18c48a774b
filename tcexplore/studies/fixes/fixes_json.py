"""Cures of graph breaks as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tcexplore import events as ev
from tcexplore.documents.locations import display_path
from tcexplore.fixes.attempted_fixes import AttemptedFixes
from tcexplore.fixes.verification import Proof
from tcexplore.fixes.verification_text import facts
from tcexplore.report.json_graphs import graph_break
from tcexplore.session import Snapshot
from tcexplore.session.run_figures import RunFigures
from tcexplore.studies.study_json import head

Fields = dict[str, Any]


def cures(
    run: Snapshot, found: Sequence[AttemptedFixes], machine: ev.Standby | None, *, written: Sequence[str], stopped: bool
) -> Fields:
    """Every break with what was tried for it; times are microseconds of one compiled call."""
    return {
        **head("cure", [RunFigures(run)], machine, stopped),
        "breaks": [_treated(treated) for treated in found],
        "written": [display_path(file) for file in written],
    }


def _treated(treated: AttemptedFixes) -> Fields:
    return {
        "number": treated.number,
        "break": graph_break(treated.found),
        "cured": treated.cure is not None,
        "advice": None if treated.cure else treated.advice or None,
        "tried": [_proof(proof) for proof in treated.proofs],
    }


def _proof(proof: Proof) -> Fields:
    judged, timed, cure = proof.after.change_check, proof.after.change_timing, proof.change.cure
    return {
        "cure": cure.name,
        "said": cure.said,
        "otherwise": list(cure.changes),
        "proven": proof.proven,
        "why_not": proof.why or None,
        "file": display_path(proof.change.file),
        "diff": list(proof.change.diff(display_path(proof.change.file))),
        "breaks_before": len(proof.before.breaks),
        "breaks_after": len(proof.after.breaks),
        "uncovered": [graph_break(other) for other in proof.uncovered],
        "results": _plain(judged),
        "speed": _plain(timed),
        "facts": [{"state": fact.state, "text": fact.text} for fact in facts(proof)],
    }


def _plain(event: ev.ChangeChecked | ev.ChangeTimed | None) -> Fields | None:
    if event is None:
        return None
    return {name: value for name, value in asdict(event).items() if name not in ("run", "rank")}
