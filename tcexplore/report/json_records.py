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
from functools import cache, lru_cache, partial
from importlib.resources import files
from operator import attrgetter
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
    "compiler_state": lambda state: {"libraries": dict(state.libraries)},
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
    if definition in COMPUTED:
        values = {**COMPUTED[definition](record), **values}
    return _object(definitions()[definition], _renamed(definition), record, values)


def selected_fields(definition: str, record: Any, keys: Iterable[str], values: Fields) -> Fields:
    """Return only some keys of the object of a definition, in its order."""
    steps, wanted = _steps(definitions()[definition], _renamed(definition), record), set(keys)
    return {
        step.key: step.convert(values[step.key] if step.key in values else step.read(record))
        for step in steps
        if step.key in wanted
    }


@cache
def _renamed(definition: str) -> dict[str, str]:
    """Return the fields whose keys have another name, by key."""
    return {key.name: key.field for key in read_definitions()[definition].keys if key.field}


@cache
def definitions() -> dict[str, Any]:
    """Return the definitions of the schema, with the whole report as `report`."""
    schema = json.loads(files("tcexplore.report").joinpath("schema.json").read_text(encoding="utf-8"))
    return {**schema["$defs"], "report": schema}


Convert = Callable[[Any], Any]

_PLAIN = (str, int, bool)
_NUMBER_OR_TEXT = ["integer", "string"]


class _Step(NamedTuple):
    """How one key of an object gets its value."""

    key: str
    read: Convert
    """Returns the field of the record."""
    convert: Convert
    """Brings a value into the form of the schema."""
    kept: tuple[type, ...]
    """Types of values that `convert` leaves as they are: most values of a large report have one of them."""


_known_steps: dict[tuple[int, type], tuple[_Step, ...]] = {}
"""By the identity of the schema, and the class of the record: a large report has a million records of a few classes."""


def _object(schema: Schema, names: Mapping[str, str], record: Any, values: Fields) -> Fields:
    if isinstance(record, tuple) and not hasattr(record, "_fields"):
        values = dict(zip(schema["properties"], record, strict=True))
    made: Fields = {}
    for key, read, convert, kept in _steps(schema, names, record):
        value = values[key] if key in values else read(record)
        made[key] = value if type(value) in kept else convert(value)
    return made


def _steps(schema: Schema, names: Mapping[str, str], record: Any) -> tuple[_Step, ...]:
    kind = id(schema), type(record)
    known = _known_steps.get(kind)
    if known is None:
        known = _known_steps[kind] = tuple(
            _Step(key, _reader(names.get(key, key), form, record), _converter(form), _kept(form))
            for key, form in schema["properties"].items()
        )
    return known


def _kept(schema: Schema) -> tuple[type, ...]:
    if _is_number_or_text(schema):
        return ()
    return _PLAIN if "$ref" in schema or "properties" in schema else (*_PLAIN, type(None))


def _reader(name: str, schema: Schema, record: Any) -> Convert:
    """Return what reads a field of the records of this one's class."""
    if name == "file":
        return _file
    if name in ("line", "function"):
        return lambda each: getattr(_location(each), name, None)
    if not hasattr(record, name):
        name = name.removesuffix(next((unit for unit in UNITS if name.endswith(unit)), ""))
    if not _nullable(schema):
        return attrgetter(name)

    def read(each: Any) -> Any:
        value = getattr(each, name)
        return None if value == "" else value

    return read


def _file(record: Any) -> str | None:
    location = _location(record)
    return cached_display_path(location.file) if location is not None else None


@lru_cache(maxsize=4096)
def cached_display_path(file: str) -> str:
    """Return the display path of a file, kept for one report: it begins with `cached_display_path.cache_clear()`.

    A large report names a few files a million times, and each would ask for the working directory.
    """
    return display_path(file)


def _location(record: Any) -> Location | None:
    """Return the location that a record is or has."""
    if record is None or isinstance(record, Location):
        return record
    location: Location | None = record.location if hasattr(record, "location") else record.frame
    return location


def _converter(schema: Schema) -> Convert:
    """Return what brings a value into the form of a schema. Objects that are complete stay as they are."""
    if "anyOf" in schema:
        whole = _converter(schema["anyOf"][0])
        return lambda value: None if value is None else whole(value)
    if _is_number_or_text(schema):
        return _number_or_text
    inner: Convert
    if "$ref" in schema:
        definition = schema["$ref"].rpartition("/")[2]
        inner = _pair if definition == "pair" else partial(fields, definition)
    elif "properties" in schema:
        inner = partial(_object, schema, {}, values={})
    else:
        inner = _list_converter(schema)

    def convert(value: Any) -> Any:
        return value if type(value) in _PLAIN or isinstance(value, dict) else inner(value)

    return convert


def _list_converter(schema: Schema) -> Convert:
    """Return what converts a list, or a number: one that JSON does not have is None."""
    items = schema.get("items") or {}
    convert: Convert = partial(_items, _converter(items) if items else _untyped)
    if items.get("type") == "string":
        convert = list
    if _is_number_or_text(items):
        convert = _sizes
    nullable = _nullable(schema)

    def list_or_number(value: Any) -> Any:
        if isinstance(value, tuple | list):
            return convert(value)
        return None if nullable and isinstance(value, float) and not math.isfinite(value) else value

    return list_or_number


def _items(convert: Convert, values: Iterable[Any]) -> list[Any]:
    return [convert(value) for value in values]


def _untyped(value: Any) -> Any:
    return [_untyped(item) for item in value] if isinstance(value, tuple | list) else value


def _pair(location: Location) -> list[str | int]:
    return [cached_display_path(location.file), location.line]


def _sizes(texts: Sequence[str]) -> list[int | str]:
    return list(_read_sizes(tuple(texts)))


@lru_cache(maxsize=4096)  # a model has few shapes
def _read_sizes(texts: tuple[str, ...]) -> tuple[int | str, ...]:
    return tuple(map(_number_or_text, texts))


def _number_or_text(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdecimal() else text


def _is_number_or_text(schema: Schema) -> bool:
    return schema.get("type") == _NUMBER_OR_TEXT


def _nullable(schema: Schema) -> bool:
    return "null" in schema.get("type", ()) or None in schema.get("enum", ())
