"""torch's registry of graph breaks, which torch installs as `torch/_dynamo/graph_break_registry.json`."""

from __future__ import annotations

import functools
import json
import os
import re
from typing import Any, NamedTuple

_EXPRESSION = re.compile(r'^[\w.]+$|^f?"|" \+ ')


class RegistryEntry(NamedTuple):
    """The registry's id, explanation and hints for one kind of graph break."""

    id: str
    explanation: str
    hints: tuple[str, ...]


@functools.cache  # a process that forks runs parses it once for all of them
def read_registry(torch_folder: str) -> dict[str, RegistryEntry]:
    """Return the entries by `gb_type`. Raise OSError or ValueError if the file is not readable."""
    path = os.path.join(torch_folder, "_dynamo", "graph_break_registry.json")
    with open(path, encoding="utf-8") as file:
        registry: dict[str, list[dict[str, Any]]] = json.load(file)
    # A kind may have several ids; torch's own links use the last one.
    return {version["Gb_type"]: _entry(id_, versions) for id_, versions in registry.items() for version in versions}


def _entry(id_: str, versions: list[dict[str, Any]]) -> RegistryEntry:
    """Return the newest version, which comes first, unless its explanation is a Python expression."""
    readable = [version for version in versions if not _EXPRESSION.search(version["Explanation"])]
    hints = _join_hints((readable or versions)[0]["Hints"])
    return RegistryEntry(id_, readable[0]["Explanation"] if readable else "", hints)


def _join_hints(pieces: list[str]) -> tuple[str, ...]:
    """Return whole hints: the registry cuts a long hint after a space, where torch's source breaks the string."""
    return tuple(filter(None, "".join(p if p.endswith(" ") else p + "\n" for p in pieces).split("\n")))
