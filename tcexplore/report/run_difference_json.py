"""The difference of two runs as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tcexplore import events as ev
from tcexplore.documents.locations import display_path
from tcexplore.session.run_difference import Cause, PartDifference, RunDifference
from tcexplore.session.snapshot import Snapshot
from tcexplore.session.stable_ids import StableIds

Fields = dict[str, Any]


def difference_fields(difference: RunDifference) -> Fields:
    """Return totals, parts, settings and libraries. Times are in µs; null: not measured."""
    ids = StableIds(difference.before), StableIds(difference.after)
    total = difference.total_us or (None, None)
    runs = difference.before, difference.after
    return {
        **{side: _run(run, us) for side, run, us in zip(("before", "after"), runs, total, strict=True)},
        "attributed_share": difference.attributed_share,
        "excluded_share": difference.excluded_share,
        "parts": [_part(part, ids) for part in difference.parts],
        "settings": [
            {"name": s.name, "before": s.before, "after": s.after, "default_changed": s.default_changed}
            for s in difference.settings
        ],
        "settings_tried": difference.tried,
        "libraries": [{"name": name, "before": old, "after": new} for name, old, new in difference.libraries],
    }  # fmt: skip


def _run(run: Snapshot, us: float | None) -> Fields:
    return {
        "file": display_path(run.file), "torch": run.compiler_state.torch if run.compiler_state else None,
        "mode": run.config.mode, "trace": run.trace or None, "call_us": us, "kernels": len(run.code.kernels),
    }  # fmt: skip


def _part(part: PartDifference, ids: tuple[StableIds, StableIds]) -> Fields:
    group = part.group
    return {
        "name": part.name,
        "change": group.kind if group else None,
        "kernels_before": _kernels(group.before, ids[0]) if group else [],
        "kernels_after": _kernels(group.after, ids[1]) if group else [],
        "source_lines": [[display_path(place.file), place.line] for place in group.locations] if group else [],
        "before_us": part.before_us,
        "after_us": part.after_us,
        "us": part.us,
        "interval": None if part.low_us is None else [part.low_us, part.high_us],
        "noise": part.is_noise,
        "cause": _cause(part.cause),
    }


def _kernels(kernels: Iterable[ev.Kernel], ids: StableIds) -> list[Fields]:
    return [{"id": ids.kernel(kernel), "name": kernel.name, "ops": list(kernel.ops)} for kernel in kernels]


def _cause(cause: Cause | None) -> Fields | None:
    if cause is None:
        return None
    return {
        "kind": cause.kind, "name": cause.name, "text": cause.text, "basis": cause.basis,
        "through": _cause(cause.through),
    }  # fmt: skip
