"""torch's own registry of graph breaks, shipped with it as `torch/_dynamo/graph_break_registry.json`."""

from __future__ import annotations

import json
import os
import re
from functools import cached_property
from typing import Any, NamedTuple

from tcexplore.capture.hooks import Hooks

_EXPRESSION = re.compile(r'^[\w.]+$|^f?"|" \+ ')


class RegistryEntry(NamedTuple):
    """What the registry says of one kind of graph break: its id, and templates of explanation and hints."""

    id: str
    explanation: str
    hints: tuple[str, ...]


class Registry:
    """Looks kinds of graph breaks up, offline; a torch without registry costs the ids, said once."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    @cached_property
    def _by_kind(self) -> dict[str, RegistryEntry]:
        import torch._dynamo

        path = os.path.join(os.path.dirname(torch._dynamo.__file__), "graph_break_registry.json")
        try:
            with open(path, encoding="utf-8") as file:
                registry: dict[str, list[dict[str, Any]]] = json.load(file)
        except (OSError, ValueError) as error:
            self._hooks.report_missing("graph break ids", "torch._dynamo:graph_break_registry.json", str(error))
            return {}
        # A kind may stand under several ids; torch's own links take the last one.
        return {version["Gb_type"]: _entry(id_, versions) for id_, versions in registry.items() for version in versions}

    def entry(self, kind: str) -> RegistryEntry | None:
        """The entry of a `gb_type`; None where the registry does not list it."""
        return self._by_kind.get(kind)

    def link(self, kind: str) -> str:
        """The address of torch's page on a kind, empty where this torch has none."""
        from torch._dynamo import exc

        find = getattr(exc, "get_gbid_documentation_link", None)
        return (find(kind) or "") if find else ""


def _entry(id_: str, versions: list[dict[str, Any]]) -> RegistryEntry:
    """The newest wording, which is the first one, unless its explanation is a Python expression instead of text."""
    texts = [version for version in versions if not _EXPRESSION.search(version["Explanation"])]
    hints = _joined((texts or versions)[0]["Hints"])
    return RegistryEntry(id_, texts[0]["Explanation"] if texts else "", hints)


def _joined(pieces: list[str]) -> tuple[str, ...]:
    """Whole hints: the registry cuts a long one where torch's source breaks the string, after a space."""
    return tuple(filter(None, "".join(p if p.endswith(" ") else p + "\n" for p in pieces).split("\n")))
