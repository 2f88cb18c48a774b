"""`--select`: chosen keys of the JSON report, with the fields that answer most questions.

`breaks` has a few fields of each break, `breaks.*` all of them, `breaks.stack` this one and the id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from tcexplore.report.json_records import Fields, definitions

BRIEF: Mapping[str, tuple[str, ...]] = {
    "breaks": ("id", "file", "line", "reason", "fix", "cost"),
    "kernels": ("id", "name", "graph", "phase", "language", "ops", "bytes_read", "bytes_written", "measured"),
    "next": ("title", "file", "line", "gain", "unit", "measured", "evidence", "code"),
    "guards": ("id", "graph", "kind", "source", "summary", "file", "line"),
    "graphs": ("id", "ops", "file", "line", "function", "module"),
    "aten_graphs": ("graph", "stage", "phase"),
    "recompiles": ("graph", "failed_entry", "reason", "old", "new", "file", "line"),
    "recompile_fixes": ("id", "kind", "name", "dim", "values", "avoids"),
    "modules": ("id", "path", "type", "repeats", "ops", "kernels", "compiled_us"),
    "frames": ("file", "line", "function", "limit_hit"),
    "fusion_decisions": ("graph", "a", "b", "fused", "reason"),
    "wrappers": ("graph", "phase"),
    "passes": ("graph", "name", "nodes_before", "nodes_after"),
    "timing": ("verdict", "speedup", "ci95", "eager_us", "compiled_us", "pairs", "recommendation"),
    "compile_time": ("seconds", "wall_s", "coverage"),
    "call_account": ("total_us", "rest_us", "estimated"),
    "accuracy": ("verdict", "summary"),
}
"""Fields of each key that `--select KEY` prints; other keys are printed whole."""

EVERYTHING = "*"


class BadSelectionError(Exception):
    """A selection names a key or a field that the report does not have."""


class Selected(NamedTuple):
    """One key of the report."""

    key: str
    fields: tuple[str, ...]
    """Fields of its objects; empty for all."""


def parse_selection(text: str) -> tuple[Selected, ...]:
    """Return the keys of a selection such as `breaks,kernels.*,guards.code`. Raises `BadSelectionError`."""
    chosen: dict[str, list[str]] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        key, _, field = part.partition(".")
        _require(key, list(definitions()["report"]["properties"]), "key")
        if field and field != EVERYTHING:
            _require(field, _fields_of(key), f"field of {key}")
        chosen.setdefault(key, []).append(field)
    if not chosen:
        raise BadSelectionError("the selection is empty")
    return tuple(Selected(key, _chosen_fields(key, names)) for key, names in chosen.items())


def selected_report(report: Fields, selection: Sequence[Selected]) -> Fields:
    """Return the chosen part of a report."""
    return {chosen.key: _part(report.get(chosen.key), chosen.fields) for chosen in selection}


def brief(key: str, record: Fields) -> Fields:
    """Return an object of a list of the report with the fields that answer most questions."""
    return _part(record, BRIEF.get(key, ()))  # type: ignore[no-any-return]


def _chosen_fields(key: str, names: Sequence[str]) -> tuple[str, ...]:
    if EVERYTHING in names:
        return ()
    named = [name for name in names if name]
    own = BRIEF.get(key, ()) if "" in names else (("id",) if "id" in _fields_of(key) else ())
    return tuple(dict.fromkeys((*own, *named)))


def _fields_of(key: str) -> list[str]:
    """Return the fields of the objects below a key; empty if it has none."""
    known = definitions()
    for form in _forms(known["report"]["properties"][key]):
        if "$ref" in form:
            return list(known[form["$ref"].rpartition("/")[2]]["properties"])
    return []


def _forms(form: Fields) -> Iterator[Fields]:
    yield form
    yield form.get("items") or {}
    yield from form.get("anyOf", ())


def _require(name: str, known: Sequence[str], noun: str) -> None:
    if name not in known:
        nearest = get_close_matches(name, known, 1)
        raise BadSelectionError(f"{name!r} is no {noun}" + (f"; did you mean {nearest[0]!r}?" if nearest else ""))


def _part(value: Any, fields: tuple[str, ...]) -> Any:
    if not fields:
        return value
    if isinstance(value, list):
        return [_part(item, fields) for item in value]
    return {name: value[name] for name in fields if name in value} if isinstance(value, dict) else value
