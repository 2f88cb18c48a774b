"""Keys of `schema.json` from the fields of the records, so that a new field needs no edit of the schema.

A key that the schema has stays as it is. A field without a key gets one: its type from the annotation, its description
from the documentation of the field.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import textwrap
import types
import typing
from collections.abc import Mapping
from typing import Any

from tcexplore.events import Location
from tcexplore.report import json_records

Schema = dict[str, Any]

WIDTH = 120

SCALARS = {int: "integer", float: "number", str: "string", bool: "boolean"}

STATED_ELSEWHERE = {"run", "rank", "target", "location", "frame"}
"""Fields that the enclosing object contains, or that the keys `file` and `line` hold."""

WITHOUT_KEY = {
    "CacheEntry": {"causes"},
    "CallAccount": {"calls", "profile"},
    "CallPart": {"kind", "name", "graph", "phase", "device", "functions", "replayed"},
    "CallProfiled": {
        "total_us",
        "repeats",
        "parts",
        "plain_us",
        "device_busy_us",
        "eager_device_busy_us",
        "launch_gaps_us",
        "device_tasks",
        "launches",
        "replays",
        "replayed_tasks",
    },
    "Config": {"override", "assembly", "opcheck", "follow", "mark_dynamic", "as_tensors", "buckets"},
    "MemoryReturned": {"low", "high"},
    "TimedProcess": {"low", "high"},
    "FrameEntries": {"free_entries", "isolated", "error_at_limit"},
    "Guard": {"name"},
    "Hunk": {"above", "below"},
    "Kernel": {"fusion"},
    "KernelCall": {"ops", "scheduler_nodes", "flops", "bytes_saved", "dtypes"},
    "KernelResources": {"mix"},
    "KernelStage": {"name"},
    "LineTraffic": {"unknown"},
    "RecompileAnswer": {"number"},
    "RooflinePoint": {"graph", "phase", "kernel", "peaks", "l2_bytes"},
    "Specialization": {"value", "reason", "user_code"},
    "Symbol": {"user_code"},
    "TimingEstimate": {"low", "high", "pairs_taken"},
    "Wrapper": {"path"},
    "ZeroOneSpecialization": {"source"},
}
"""Fields that the report leaves out or contains in another form, by class."""


def complete(schema: Schema, records: Mapping[str, set[type]]) -> Schema:
    """Return the schema with a key for every field of the record classes, given by the names of their definitions."""
    definitions = dict(schema["$defs"])
    names = {record: name for name, classes in records.items() for record in classes}
    for name, record in ((name, record) for name, classes in records.items() for record in classes):
        definition = definitions[name]
        keys = {field: _key(record, field, names) for field in _fields_without_key(name, definition, record)}
        properties = {**definition["properties"], **keys}
        definitions[name] = {**definition, "properties": properties, "required": list(properties)}
    return {**schema, "$defs": definitions}


def text(value: Any, indent: int = 0, column: int = 0) -> str:
    """Return a schema as JSON text: one line for what fits into one, filled lines for a list of names."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or column + len(line) < WIDTH:
        return line
    inner = " " * (indent + 1)
    if isinstance(value, list) and all(isinstance(item, str) and " " not in item for item in value):
        lines = textwrap.wrap(line[1:-1], WIDTH - len(inner), break_on_hyphens=False)
        return "[\n" + "\n".join(inner + names for names in lines) + f"\n{inner[1:]}]"
    if isinstance(value, list):
        items, opening, closing = [text(item, indent + 1, indent + 1) for item in value], "[", "]"
    else:
        labels = {f"{json.dumps(key)}: ": item for key, item in value.items()}
        items = [label + text(item, indent + 1, indent + 1 + len(label)) for label, item in labels.items()]
        opening, closing = "{", "}"
    return opening + "\n" + ",\n".join(inner + item for item in items) + f"\n{inner[1:]}{closing}"


def _fields_without_key(name: str, definition: Schema, record: type) -> list[str]:
    renamed = json_records.FIELDS.get(name, {})
    held = {renamed.get(key, key) for key in definition["properties"]}
    held |= {key.removesuffix(unit) for key in held for unit in json_records.UNITS}
    held |= STATED_ELSEWHERE | WITHOUT_KEY.get(record.__name__, set())
    return [field.name for field in dataclasses.fields(record) if field.name not in held]


def _key(record: type, field: str, names: Mapping[type, str]) -> Schema:
    """Return the schema of a field, whose type must be one of JSON's, or a record with a definition."""
    form = _form(typing.get_type_hints(record)[field], names)
    description = _documentation(record).get(field)
    return {**form, "description": description} if description else form


def _form(annotation: Any, names: Mapping[type, str]) -> Schema:
    arguments = typing.get_args(annotation)
    origin = typing.get_origin(annotation)
    if annotation in SCALARS:
        return {"type": SCALARS[annotation]}
    if annotation is Location or annotation in names:
        return {"$ref": f"#/$defs/{'pair' if annotation is Location else names[annotation]}"}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin is tuple and arguments[1:] == (...,):
        return {"type": "array", "items": _form(arguments[0], names)}
    if origin in (types.UnionType, typing.Union) and len(arguments) == 2 and arguments[1] is type(None):
        return _nullable(_form(arguments[0], names))
    raise TypeError(f"write the key of {annotation} into schema.json by hand")


def _nullable(form: Schema) -> Schema:
    if "enum" in form:
        return {"enum": [*form["enum"], None]}
    if set(form) == {"type"}:
        return {"type": [form["type"], "null"]}
    return {"anyOf": [form, {"type": "null"}]}


def _documentation(record: type) -> dict[str, str]:
    """Return the documentation of each field."""
    body = ast.parse(textwrap.dedent(inspect.getsource(record))).body[0]
    assert isinstance(body, ast.ClassDef)
    documentation: dict[str, str] = {}
    for field, doc in zip(body.body, body.body[1:], strict=False):
        match field, doc:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                documentation[name] = " ".join(words.split())
    return documentation
