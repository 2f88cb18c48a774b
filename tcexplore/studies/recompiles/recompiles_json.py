"""The recompile study as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from tcexplore import events as ev
from tcexplore.report.json_report import configuration, failure
from tcexplore.session.compile_time import CompiledCall, compiled_calls
from tcexplore.studies.recompiles.recompiles_result import PASSES, VariantRun
from tcexplore.studies.study_json import Fields


def recompiles_fields(vary: Sequence[str], results: Sequence[VariantRun]) -> Fields:
    """Return all variants with all calls, the unchanged calls first."""
    return {"passes": PASSES, "vary": list(vary), "variants": [_variant(result) for result in results]}


def _variant(result: VariantRun) -> Fields:
    config = result.run.config
    return {
        "variant": result.variant.name,
        "code": result.variant.code or None,
        "note": result.variant.note or None,
        "config": {
            **configuration(result.run),
            "mark_dynamic": list(config.mark_dynamic),
            "as_tensors": list(config.as_tensors),
            "buckets": list(config.buckets),
        },
        "error": failure(result.run.failure),
        "calls": result.calls,
        "recompiles": result.recompiles,
        "limit_hit_at_call": result.limit_hit_at,
        "first_pass_s": result.first_pass_s,
        "warm_call_us": result.warm_call_us,
        "eager_call_us": result.eager_call_us,
        "padding": _padding(result.run.padding_check),
        "compiled_calls": [_call(call) for call in compiled_calls(result.run)],
    }


def _padding(judged: ev.PaddingChecked | None) -> Fields | None:
    if judged is None:
        return None
    return {
        "verdict": judged.verdict, "calls": judged.calls, "max_abs": judged.max_abs, "reason": judged.reason or None,
    }  # fmt: skip


def _call(call: CompiledCall) -> Fields:
    return {
        "call": call.number,
        "kind": call.kind,
        "seconds": call.seconds,
        "failed_guards": [recompile.failed_guard for recompile in call.causes],
        "old": [recompile.old for recompile in call.causes],
        "new": [recompile.new for recompile in call.causes],
    }
