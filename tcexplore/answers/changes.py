"""What differs between two reports: parts by their ids, and times with their intervals."""

from __future__ import annotations

from collections.abc import Sequence

from tcexplore.answers.answer import Fields

_NAMED = {
    "breaks": ("file", "line", "reason"),
    "kernels": ("name", "ops", "graph"),
    "guards": ("graph", "source", "kind"),
}
"""Parts that are compared, with the fields that describe one."""


def report_changes(before: Fields, after: Fields) -> tuple[Fields, dict[str, list[Fields]]]:
    """Return the facts and lists of what changed from one report to another. Structural guards are only counted."""
    lists: dict[str, list[Fields]] = {}
    for key, names in _NAMED.items():
        for verb, (old, new) in {"removed": (before, after), "added": (after, before)}.items():
            known = {part["id"] for part in new[key]}
            gone = (part for part in old[key] if part["id"] not in known and not part.get("structural"))
            parts = [{"id": part["id"], **{name: part[name] for name in names}} for part in gone]
            if parts:
                lists[f"{verb}_{key}"] = parts
    changed = _changed_code(before["kernels"], after["kernels"])
    if changed:
        lists["changed_kernels"] = changed
    counts = {key: _count(before[key], after[key]) for key in ("graphs", "breaks", "kernels", "guards", "recompiles")}
    facts: Fields = {name: text for name, text in counts.items() if text}
    if not facts and not lists:
        facts["same"] = "graphs, breaks, guards and kernels are the same"
    if speed := _speed(before["timing"], after["timing"]):
        facts["compiled_call"] = speed
    return facts, lists


def _count(before: Sequence[Fields], after: Sequence[Fields]) -> str:
    return f"{len(before)} → {len(after)}" if len(before) != len(after) else ""


def _changed_code(before: Sequence[Fields], after: Sequence[Fields]) -> list[Fields]:
    """Return the kernels of the same ops and lines whose traffic or FLOPs differ."""
    known = {kernel["id"]: kernel for kernel in before}
    changed = []
    for kernel in after:
        old = known.get(kernel["id"])
        figures = {name: f"{old[name]} → {kernel[name]}" for name in ("bytes_read", "bytes_written", "flops")
                   if old is not None and old[name] != kernel[name]}  # fmt: skip
        if figures:
            changed.append({"id": kernel["id"], "name": kernel["name"], **figures})
    return changed


def _speed(before: Fields | None, after: Fields | None) -> Fields | None:
    """Return the speedups over eager of both runs; None if one was not timed."""
    if before is None or after is None:
        return None
    return {
        "speedup_before": before["speedup"], "interval_before": before["ci95"], "speedup_after": after["speedup"],
        "interval_after": after["ci95"],
        "differs": not (before["ci95"][0] <= after["ci95"][1] and after["ci95"][0] <= before["ci95"][1]),
    }  # fmt: skip
