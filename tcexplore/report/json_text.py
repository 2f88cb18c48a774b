"""The report as JSON text: a line for each key, and for each object in a list.

Python's encoder is ten times as fast without indentation, which takes minutes for a large trace.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def json_lines(report: dict[str, Any]) -> Iterator[str]:
    """Yield the text of an object piece by piece; the last piece ends the line."""
    yield "{"
    separator = "\n"
    for key, value in report.items():
        yield f"{separator} {json.dumps(key)}: "
        separator = ",\n"
        if isinstance(value, list | tuple) and value and isinstance(value[0], dict):
            yield "["
            yield from (f"{',' if number else ''}\n  {json.dumps(item)}" for number, item in enumerate(value))
            yield "\n ]"
        else:
            yield json.dumps(value)
    yield "\n}\n"
