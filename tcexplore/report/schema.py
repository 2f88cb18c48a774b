"""The JSON Schema of the report and the page that documents it, from the records and `keys.txt`.

`python -m tcexplore.report.schema` writes `schema.json` beside this module and `docs/report.md`. A field of a record
has a key by itself: its type comes from the annotation, its meaning from the documentation below the field. `keys.txt`
has what a record does not say: the order of the keys, names, values that are not fields, and fields that are left out.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from tcexplore import events, session
from tcexplore.events import Location
from tcexplore.report.json_records import UNITS, Definition, Key, read_definitions

Schema = dict[str, Any]

SCHEMA = Path(__file__).with_name("schema.json")
PAGE = Path(__file__).parents[2] / "docs" / "report.md"

WRITTEN_BY = "Written by `python -m tcexplore.report.schema` from the records and keys.txt. Do not edit."

TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}

STATED_ELSEWHERE = {"run", "rank", "target", "location", "frame"}
"""Fields that the enclosing object contains, or that the keys `file` and `line` hold."""


def build_schema() -> Schema:
    """Return the JSON Schema of the report."""
    records = record_classes()
    definitions = read_definitions()
    names = {records[one.record]: one.name for one in reversed(definitions.values()) if one.record}
    objects = {one.name: _object(one, records.get(one.record), names) for one in definitions.values()}
    pair = _form("(str, int)") | {"description": "A source line: `[file, line]`."}
    return {
        "$comment": WRITTEN_BY,
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Report of tcexplore check --json",
        **objects.pop("report"),
        "$defs": {"pair": pair, **objects},
    }


def record_classes() -> dict[str, type]:
    """Return the classes of events and of the session by name."""
    modules = [
        import_module(f"{package.__name__}.{info.name}")
        for package in (events, session)
        for info in iter_modules(package.__path__)
    ]
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__
    }


def _object(definition: Definition, record: type | None, names: Mapping[type, str]) -> Schema:
    fields = _Fields(record, names)
    properties = {key.name: fields.schema(key) for key in definition.keys}
    listed = {key.field or key.name for key in definition.keys}
    listed |= {name.removesuffix(unit) for name in listed for unit in UNITS} | definition.left_out | STATED_ELSEWHERE
    if record is not None and definition.name != "report":
        properties |= {name: fields.schema(Key(name)) for name in fields.annotations if name not in listed}
    described = {"description": definition.meaning} if definition.meaning else {}
    return {
        "type": "object",
        **described,
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }


class _Fields:
    """The fields of a record: their annotations and documentation."""

    def __init__(self, record: type | None, names: Mapping[type, str]) -> None:
        self._names = names
        self._record = record
        self.annotations = typing.get_type_hints(record) if record is not None else {}
        self._documentation = field_documentation(record) if record is not None else {}

    def schema(self, key: Key) -> Schema:
        """Return the schema of a key."""
        field = self._field(key)
        if key.type:
            form = _form(key.type)
        elif field in self.annotations:
            form = annotation_schema(self.annotations[field], self._names)
        elif key.name in ("file", "line", "function"):
            form = self._location(key.name)
        else:
            raise ValueError(f"keys.txt: {key.name} needs a type: {self._record} has no such field")
        meaning = self._documentation.get(field, "") if key.meaning is None else key.meaning
        return {**form, "description": meaning} if meaning else form

    def _field(self, key: Key) -> str:
        name = key.field or key.name
        shorter = (name.removesuffix(unit) for unit in UNITS if name.endswith(unit))
        return name if name in self.annotations else next((n for n in shorter if n in self.annotations), name)

    def _location(self, part: str) -> Schema:
        """Return the schema of a part of the record's location."""
        at = self.annotations.get("location", self.annotations.get("frame"))
        form = {"type": "integer" if part == "line" else "string"}
        return form if at is Location else nullable(form)


def annotation_schema(annotation: Any, names: Mapping[type, str]) -> Schema:
    """Return the schema of an annotation: a scalar, a location, a record, or a tuple or union of these."""
    arguments, origin = typing.get_args(annotation), typing.get_origin(annotation)
    if isinstance(annotation, type) and annotation.__name__ in TYPES:
        return {"type": TYPES[annotation.__name__]}
    if annotation is Location or annotation in names:
        return {"$ref": f"#/$defs/{'pair' if annotation is Location else names[annotation]}"}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin is tuple and arguments[1:] == (...,):
        return {"type": "array", "items": annotation_schema(arguments[0], names)}
    if origin in (types.UnionType, typing.Union) and len(arguments) == 2 and arguments[1] is type(None):
        return nullable(annotation_schema(arguments[0], names))
    raise TypeError(f"keys.txt must give the type of a key for {annotation}")


def nullable(form: Schema) -> Schema:
    """Return a schema that also allows null."""
    if "enum" in form:
        return {"enum": [*form["enum"], None]}
    if isinstance(form.get("type"), str) and "prefixItems" not in form:
        return {**form, "type": [form["type"], "null"]}
    return {"anyOf": [form, {"type": "null"}]}


def _form(text: str) -> Schema:
    """Return the schema of a type in `keys.txt`: `str?`, `[kernel]`, `{float}`, `(int, int)`, `a | b`, or JSON."""
    if text.startswith('{"'):
        form: Schema = json.loads(text)
        return form
    if text.endswith("?"):
        return nullable(_form(text[:-1]))
    if text in TYPES:
        return {"type": TYPES[text]}
    if text == "int|str":
        return {"type": ["integer", "string"]}
    if " | " in text:
        return {"enum": text.split(" | ")}
    inner = text[1:-1]
    match text[0]:
        case "[":
            return {"type": "array", "items": _form(inner)}
        case "{":
            return {"type": "object", "additionalProperties": _form(inner)}
        case "(":
            items = [_form(item) for item in inner.split(", ")]
            return {"type": "array", "prefixItems": items, "items": False, "minItems": 2, "maxItems": 2}
    return {"$ref": f"#/$defs/{text}"}


def field_documentation(record: type) -> dict[str, str]:
    """Return the documentation of each field, in the terms of JSON."""
    body = ast.parse(textwrap.dedent(inspect.getsource(record))).body[0]
    assert isinstance(body, ast.ClassDef)
    documentation: dict[str, str] = {}
    for field, doc in zip(body.body, body.body[1:], strict=False):
        match field, doc:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                text = re.sub(r"(^|\. )None\b", r"\1Null", " ".join(words.split()))
                documentation[name] = re.sub(r"\bNone\b", "null", text)
    return documentation


def schema_text(schema: Schema) -> str:
    """Return a schema as JSON text with one line for each key of the report."""
    objects = ",\n".join(f'"{name}": {_object_text(form)}' for name, form in schema["$defs"].items())
    whole = _object_text({name: form for name, form in schema.items() if name != "$defs"})
    return f'{whole[:-1]}, "$defs": {{\n{objects}}}}}\n'


def _object_text(form: Schema) -> str:
    keys = ",\n".join(f" {_member(key, value)}" for key, value in form.get("properties", {}).items())
    members = [_member(name, value) for name, value in form.items() if name != "properties"]
    return "{" + ", ".join([*members, f'"properties": {{\n{keys}}}'] if keys else members) + "}"


def _member(name: str, value: object) -> str:
    return f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"


# ---- the page


INTRO = """# The JSON report

`tcexplore check --json FILE` prints one JSON object. Its keys are always the same, in the same order.
The tables below have the content of [its JSON Schema](../tcexplore/report/schema.json) (draft 2020-12), which the
package contains as `tcexplore/report/schema.json`.

- **Version.** `schema` is 3. It increases when a key is removed or changes its meaning. New keys don't increase it, and
  the schema rejects unknown keys: validate a report with the schema of the release that wrote it (`tcexplore`).
- **Units** are part of the key: `_us` microseconds, `_s` seconds, `_bytes` bytes, `_mhz` megahertz, `_w` watts,
  `_c` degrees Celsius. Keys named `seconds`, `us` or `bytes` are in that unit. A `share` is between 0 and 1.
- **Null** is a fact that this run doesn't have. `missing` gives the reason for facts that torch doesn't provide or that
  weren't measured. An empty list or string means that there is none.
- **Stable ids** (`id`: `b-` break, `g-` guard, `k-` kernel, `o-` op, `l-` line, `m-` module, `f-` fix) come from
  content and place, not from line numbers or compile ids. They are the same after an edit of something else, and in the
  app, in `tcexplore ask`, as fingerprints in SARIF, and as anchors in the HTML page.
- **Compile ids** are torch's: `0/1` is the second graph of frame 0; `!2/5/0` comes from compiled autograd.
- **Line numbers** start at 1. Paths are relative to the working directory for files inside it.
"""


def page_text(schema: Schema) -> str:
    """Return the page: groups of keys, each with a table for every kind of object that it is the first to use."""
    definitions, seen = schema["$defs"], set[str]()
    sections = [f"<!-- {WRITTEN_BY} -->\n", INTRO]
    for title, keys in _groups(schema["properties"]):
        sections += [f"## {title}\n", _table(keys, definitions)]
        for name in _used(keys, definitions, seen):
            described = f"{definitions[name]['description']}\n" if "description" in definitions[name] else ""
            sections += [f"### {name}\n", described, _table(definitions[name].get("properties", {}), definitions)]
    return "\n".join(section.rstrip("\n") + "\n" for section in sections if section)


def _groups(keys: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield the keys of the report in groups with their headings."""
    headings = read_definitions()["report"].headings
    starts = [index for index, name in enumerate(keys) if name in headings]
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        group = dict(list(keys.items())[start:end])
        yield headings[next(iter(group))], group


def _used(part: Any, definitions: Schema, seen: set[str]) -> Iterator[str]:
    """Yield the names of definitions in the order in which a part of the schema uses them."""
    if isinstance(part, list):
        for item in part:
            yield from _used(item, definitions, seen)
    elif isinstance(part, dict):
        if (name := _name(part)) and name not in seen:
            seen.add(name)
            yield name
            yield from _used(definitions[name], definitions, seen)
        yield from _used(list(part.values()), definitions, seen)


def _name(form: Schema) -> str:
    """Return the name of the definition that a schema refers to; empty if it is none."""
    return str(form.get("$ref", "")).rpartition("/")[2]


def _table(keys: Schema, definitions: Schema) -> str:
    if not keys:
        return ""
    rows = ["| key | type | meaning |", "|---|---|---|"]
    for key, form in keys.items():
        items = form.get("items")
        of = _name(items if isinstance(items, dict) else form)
        meaning = form.get("description") or definitions.get(of, {}).get("description", "")
        rows.append(f"| `{key}` | {_type(form)} | {meaning} |")
    return "\n".join(rows)


def _type(form: Schema) -> str:
    """Return a type as text, with a link to the table of an object."""
    if name := _name(form):
        return f"[{name}](#{name})"
    if "anyOf" in form:
        return " or ".join(_type(one) for one in form["anyOf"])
    if "const" in form:
        return f"`{form['const']}`"
    if "enum" in form:
        return ", ".join("null" if one is None else f"`{one}`" for one in form["enum"])
    kinds = form["type"] if isinstance(form["type"], list) else [form["type"]]
    return " or ".join(_kind(kind, form) for kind in kinds)


def _kind(kind: str, form: Schema) -> str:
    if kind == "array" and "prefixItems" in form:
        return "list of " + ", ".join(_type(item) for item in form["prefixItems"])
    if kind == "array":
        return f"list of {_type(form['items'])}"
    if kind == "object" and "properties" in form:
        return "object of " + ", ".join(f"`{key}` ({_type(one)})" for key, one in form["properties"].items())
    if kind == "object":
        return f"map to {_type(form['additionalProperties'])}"
    return kind


def main() -> None:
    """Write both files."""
    schema = build_schema()
    SCHEMA.write_text(schema_text(schema), encoding="utf-8")
    PAGE.write_text(page_text(schema), encoding="utf-8")


if __name__ == "__main__":
    main()
