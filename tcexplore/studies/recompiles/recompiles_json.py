"""A storm of recompiles as JSON: schema 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcexplore import events as ev
from tcexplore.report.json_report import configuration, failure
from tcexplore.session.call_strip import CompiledCall, compiled_calls
from tcexplore.session.run_figures import RunFigures
from tcexplore.studies.recompiles.recompiles_result import PASSES, Trial
from tcexplore.studies.study_json import head

Fields = dict[str, Any]


def storm(trials: Sequence[Trial], machine: ev.Standby | None, *, stopped: bool) -> Fields:
    """Every trial with every call, the storm itself first."""
    return {
        **head("storm", [RunFigures(trial.run) for trial in trials], machine, stopped),
        "passes": PASSES,
        "vary": list(trials[0].run.config.vary) if trials else [],
        "trials": [_trial(trial) for trial in trials],
    }


def _trial(trial: Trial) -> Fields:
    config = trial.run.config
    return {
        "treatment": trial.treatment.name,
        "write": trial.treatment.write or None,
        "note": trial.treatment.note or None,
        "config": {
            **configuration(trial.run),
            "mark_dynamic": list(config.mark_dynamic),
            "as_tensors": list(config.as_tensors),
            "buckets": list(config.buckets),
        },
        "error": failure(trial.run.failure),
        "calls": trial.calls,
        "recompiles": trial.recompiles,
        "limit_reached_at_call": trial.gave_up_at,
        "all_calls_once_s": trial.total_s,
        "steady_call_us": trial.steady_us,
        "eager_call_us": trial.eager_us,
        "padding": _padding(trial.run.padding_check),
        "made": [_made(made) for made in compiled_calls(trial.run)],
    }


def _padding(judged: ev.PaddingChecked | None) -> Fields | None:
    if judged is None:
        return None
    return {
        "verdict": judged.verdict, "calls": judged.calls, "max_abs": judged.max_abs, "reason": judged.reason or None,
    }  # fmt: skip


def _made(made: CompiledCall) -> Fields:
    return {
        "call": made.number,
        "what": made.kind,
        "seconds": made.seconds,
        "failed_guards": [again.failed_guard for again in made.causes],
        "old": [again.old for again in made.causes],
        "new": [again.new for again in made.causes],
    }
