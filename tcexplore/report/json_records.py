"""Records as the JSON objects that `schema.json` defines: a new field gets its key when the schema is written.

A key holds the field of its name, or of its name without the unit: `at_s` holds `at`. `keys.txt` lists the keys with
another name, `COMPUTED` the values that are not a field. The keys `file`, `line` and `function` hold the location of a
record. The schema gives the order of the keys and the form of the values. An empty text is null if the key allows null.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from tcexplore.documents.code.fusion_view import explain_refusal
from tcexplore.documents.locations import display_path
from tcexplore.documents.timing.accuracy_rows import describe_accuracy
from tcexplore.events import Location
from tcexplore.session.bytecode_steps import bytecode_steps

Fields = dict[str, Any]
Schema = Mapping[str, Any]

MOST_STEPS = 100
"""Steps of a rewritten function."""

UNITS = ("_us", "_s", "_bytes", "_mhz", "_w", "_c")
"""Endings of keys that the names of their fields may lack."""

_SECTION = re.compile(r"\[(?P<name>\w+)\](?: (?P<record>\w+))?(?: · (?P<meaning>.+))?")
_KEY = re.compile(r"(?P<name>\w+)(?:=(?P<field>\w+))?(?: <(?P<type>.+?)>)?(?: · (?P<meaning>.*))?")


class Key(NamedTuple):
    """A line of `keys.txt`. What is empty comes from the field of the record."""

    name: str
    field: str = ""
    type: str = ""
    meaning: str | None = None


class Definition(NamedTuple):
    """A section of `keys.txt`: one kind of object in the report."""

    name: str
    record: str
    """Name of the class; empty for an object that is not one record."""
    meaning: str
    keys: Sequence[Key]
    left_out: frozenset[str]
    """Fields of the record without a key."""
    headings: dict[str, str]
    """Headings on the page, by the key that they precede."""


@cache
def read_definitions() -> dict[str, Definition]:
    """Return the sections of `keys.txt` by name."""
    read: dict[str, Definition] = {}
    text = files("tcexplore.report").joinpath("keys.txt").read_text("utf-8")
    for section in re.split(r"\n+(?=\[)", text)[1:]:
        head, *lines = section.strip().split("\n")
        keys: list[Key] = []
        left_out, headings, heading = set[str](), dict[str, str](), ""
        for line in lines:
            if line.startswith("# "):
                heading = line[2:]
                continue
            if heading:
                headings[line.split()[0].partition("=")[0]], heading = heading, ""
            if line.startswith("-"):
                left_out.update(line[1:].split())
            elif re.fullmatch(r"[\w ]+", line):
                keys += map(Key, line.split())
            elif match := _KEY.fullmatch(line):
                keys.append(Key(match["name"], match["field"] or "", match["type"] or "", match["meaning"]))
            else:
                raise ValueError(f"keys.txt: {line!r} is not a key")
        match = _SECTION.fullmatch(head)
        assert match is not None, head
        name = match["name"]
        read[name] = Definition(
            name, match["record"] or "", match["meaning"] or "", keys, frozenset(left_out), headings
        )
    return read


COMPUTED: dict[str, Callable[[Any], Fields]] = {
    "accuracy": lambda accuracy: {"summary": describe_accuracy(accuracy)},
    "frame": lambda frame: {"at_limit": "error" if frame.error_at_limit else "eager"},
    "fusion_decision": lambda decision: {"explanation": explain_refusal(decision.reason) or None},
    "loop": lambda loop: {"vector_bits": loop.width or None, "lanes": loop.lanes or None},
    "memory_returned": lambda returned: {"ci95": (returned.low, returned.high)},
    "region_compile": lambda mark: {
        "capture_reason": mark.capture_reason,  # null: no backward; empty: without a reason
        "failed_guards": [recompile.failed_guard for recompile in mark.causes],
    },
    "resources": lambda resources: {"instruction_mix": dict(resources.mix)},
    "rewritten_function": lambda function: {
        "steps": bytecode_steps(function)[:MOST_STEPS],
        "instructions": len(function.instructions) + function.dropped,
    },
    "bytecode_step": lambda step: {
        "line": step.line,
        "resumes": step.resumes.code_name or None if step.resumes else None,
    },
    "script_end": lambda end: {"timed_out": end.time_limit is not None},
    "step_tried": lambda tried: {"ci95": None if tried.speedup is None else (tried.low, tried.high)},
    "timed_process": lambda process: {"ci95": (process.low, process.high)},
    "zero_one": lambda fixed: {"name": fixed.source.name, "kind": fixed.source.kind, "dim": fixed.source.dim},
}
"""Values of a record that are not simply a field, by definition."""


def fields(definition: str, record: Any, **values: Any) -> Fields:
    """Return a record as the object of a definition. `values` replace its fields, or add to them."""
    computed = COMPUTED[definition](record) if definition in COMPUTED else {}
    return _object(record, definitions()[definition], _renamed(definition), {**computed, **values})


def selected_fields(definition: str, record: Any, keys: Iterable[str], values: Fields) -> Fields:
    """Return only some keys of the object of a definition, in its order."""
    schema, wanted = definitions()[definition], set(keys)
    properties = {key: form for key, form in schema["properties"].items() if key in wanted}
    return _object(record, {**schema, "properties": properties}, _renamed(definition), values)


@cache
def _renamed(definition: str) -> dict[str, str]:
    """Return the fields whose keys have another name, by key."""
    return {key.name: key.field for key in read_definitions()[definition].keys if key.field}


@cache
def definitions() -> dict[str, Any]:
    """Return the definitions of the schema, with the whole report as `report`."""
    schema = json.loads(files("tcexplore.report").joinpath("schema.json").read_text(encoding="utf-8"))
    return {**schema["$defs"], "report": schema}


def _object(record: Any, schema: Schema, names: Mapping[str, str], computed: Fields) -> Fields:
    properties: dict[str, Schema] = schema["properties"]
    if isinstance(record, tuple) and not hasattr(record, "_fields"):
        computed = dict(zip(properties, record, strict=True))
    return {
        key: _json(computed[key] if key in computed else _field(record, names.get(key, key), form), form)
        for key, form in properties.items()
    }


def _field(record: Any, name: str, schema: Schema) -> Any:
    if name in ("file", "line", "function"):
        location = _location(record)
        if location is None:
            return None
        return display_path(location.file) if name == "file" else getattr(location, name)
    if not hasattr(record, name):
        name = name.removesuffix(next(unit for unit in UNITS if name.endswith(unit)))
    value = getattr(record, name)
    return None if value == "" and _nullable(schema) else value


def _location(record: Any) -> Location | None:
    """Return the location that a record is or has."""
    if record is None or isinstance(record, Location):
        return record
    location: Location | None = record.location if hasattr(record, "location") else record.frame
    return location


_PLAIN = (str, int, bool)
_NUMBER_OR_TEXT = ["integer", "string"]


def _json(value: Any, schema: Schema) -> Any:
    """Return a value in the form that its schema describes. Objects that are complete stay as they are."""
    if type(value) in _PLAIN and schema.get("type") != _NUMBER_OR_TEXT:  # most values of a large report
        return value
    if "anyOf" in schema:
        return None if value is None else _json(value, schema["anyOf"][0])
    if isinstance(value, dict):
        return value
    if "$ref" in schema:
        definition = schema["$ref"].rpartition("/")[2]
        return [display_path(value.file), value.line] if definition == "pair" else fields(definition, value)
    if "properties" in schema:
        return _object(value, schema, {}, {})
    if isinstance(value, tuple | list):
        return [_json(item, schema.get("items") or {}) for item in value]
    return _scalar(value, schema)


def _scalar(value: Any, schema: Schema) -> Any:
    """Return a number or text. A number that JSON does not have is None."""
    if schema.get("type") == _NUMBER_OR_TEXT:
        return int(value) if value.lstrip("-").isdecimal() else value
    infinite = isinstance(value, float) and not math.isfinite(value)
    return None if infinite and _nullable(schema) else value


def _nullable(schema: Schema) -> bool:
    return "null" in schema.get("type", ()) or None in schema.get("enum", ())
