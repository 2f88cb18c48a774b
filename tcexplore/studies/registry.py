"""All studies by name: what the command line and the app know of a study before they load its code."""

from __future__ import annotations

from typing import Literal, NamedTuple

from tcexplore.keymap import ACTIONS

StudyName = Literal[
    "modes", "sweep", "recompiles", "bisect", "numerics", "memory", "artifacts", "cold", "fix", "fusion",
    "counters", "next",
]  # fmt: skip


class StudyEntry(NamedTuple):
    """One study. `tcexplore.studies.NAME` has its `Study` as `STUDY`."""

    name: StudyName
    """Its command, package, help page, and `study` in its JSON."""
    summary: str
    """What it does, for the list of commands and the command palette."""
    command: bool = True
    """Whether there is a command `tcexplore NAME`."""


_TITLES = {action.name: action.help for action in ACTIONS}

STUDIES = (
    StudyEntry("next", _TITLES["next"]),
    StudyEntry("modes", _TITLES["modes"]),
    StudyEntry("sweep", _TITLES["sweep"]),
    StudyEntry("recompiles", _TITLES["recompiles"]),
    StudyEntry("bisect", _TITLES["bisect"]),
    StudyEntry("numerics", _TITLES["numerics"]),
    StudyEntry("memory", _TITLES["memory"]),
    StudyEntry("fusion", _TITLES["fusion"]),
    StudyEntry("counters", _TITLES["counters"]),
    StudyEntry("artifacts", _TITLES["artifacts"]),
    StudyEntry("cold", _TITLES["cold"], command=False),
    StudyEntry("fix", "Try a fix for each graph break and verify it"),
)
"""A study with a key in the app has its row in the table of actions, with the title."""
