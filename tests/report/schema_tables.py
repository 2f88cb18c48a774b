"""Tables of docs/report.md, rendered from the JSON Schema of the report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

INTRO = """# The JSON report

`tcexplore check --json FILE` prints one JSON object. Its keys are always the same, in the same order.
The tables below are generated from [its JSON Schema](../tcexplore/report/schema.json) (draft 2020-12), which the
package contains as `tcexplore/report/schema.json`.

- **Version.** `schema` is 2. It increases when a key is removed or changes its meaning. New keys don't increase it, and
  the schema rejects unknown keys: validate a report with the schema of the release that wrote it (`tcexplore`).
- **Units** are part of the key: `_us` microseconds, `_s` seconds, `_bytes` bytes, `_mhz` megahertz, `_w` watts,
  `_c` degrees Celsius. Keys named `seconds`, `us` or `bytes` are in that unit. A `share` is between 0 and 1.
- **Null** is a fact that this run doesn't have. `missing` gives the reason for facts that torch doesn't provide or that
  weren't measured. An empty list or string means that there is none.
- **Compile ids** are torch's: `0/1` is the second graph of frame 0; `!2/5/0` comes from compiled autograd.
- **Line numbers** start at 1. Paths are relative to the working directory for files inside it.
"""


def render(schema: Schema) -> str:
    """Return the whole page."""
    order = list(dict.fromkeys(_reached(schema, schema, set())))
    sections = [INTRO, "## Report\n", _table(schema, schema["$defs"])]
    for name in order:
        definition = schema["$defs"][name]
        sections += [f"## {name}\n", *_description(definition), _table(definition, schema["$defs"])]
    return "\n".join(section.rstrip("\n") + "\n" for section in sections if section)


def _reached(part: Any, schema: Schema, seen: set[str]) -> Iterator[str]:
    """Yield the names of definitions in the order in which the report first uses them."""
    if isinstance(part, list):
        for item in part:
            yield from _reached(item, schema, seen)
    elif isinstance(part, dict):
        if (name := part.get("$ref", "").rpartition("/")[2]) and name not in seen:
            seen.add(name)
            yield name
            yield from _reached(schema["$defs"][name], schema, seen)
        yield from _reached([value for key, value in part.items() if key != "$defs"], schema, seen)


def _description(definition: Schema) -> list[str]:
    return [definition["description"] + "\n"] if "description" in definition else []


def _table(definition: Schema, definitions: Schema) -> str:
    if "properties" not in definition:
        return ""
    rows = ["| key | type | meaning |", "|---|---|---|"]
    for key, value in definition["properties"].items():
        rows.append(f"| `{key}` | {_type(value)} | {_meaning(value, definitions)} |")
    return "\n".join(rows)


def _meaning(value: Schema, definitions: Schema) -> str:
    """Return the description of a key, or else that of the object that it holds."""
    items = value.get("items")
    name = (items if isinstance(items, dict) else value).get("$ref", "").rpartition("/")[2]
    return str(value.get("description") or definitions.get(name, {}).get("description", ""))


def _type(value: Schema) -> str:
    """Return a type as text, with a link to the table of an object."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name})"
    if "anyOf" in value:
        return " or ".join(_type(one) for one in value["anyOf"])
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return ", ".join("null" if one is None else f"`{one}`" for one in value["enum"])
    types = value["type"] if isinstance(value["type"], list) else [value["type"]]
    return " or ".join(_named(kind, value) for kind in types)


def _named(kind: str, value: Schema) -> str:
    if kind == "array" and "prefixItems" in value:
        return "list of " + ", ".join(_type(item) for item in value["prefixItems"])
    if kind == "array":
        return f"list of {_type(value['items'])}"
    if kind == "object" and "properties" in value:
        return "object of " + ", ".join(f"`{key}` ({_type(one)})" for key, one in value["properties"].items())
    if kind == "object":
        return f"map to {_type(value['additionalProperties'])}"
    return kind
