"""All studies by name: what the command line and the app know of a study before they load its code."""

from __future__ import annotations

from typing import Literal, NamedTuple

StudyName = Literal["modes", "sweep", "recompiles", "bisect", "artifacts", "cold", "fix"]


class StudyEntry(NamedTuple):
    """One study. `tcexplore.studies.NAME.NAME_study` has its `Study` as `STUDY`."""

    name: StudyName
    """Its command, package, help page, and `study` in its JSON."""
    summary: str
    """What it does, for the list of commands and the command palette."""
    label: str = ""
    """Its label in the app's footer; empty for a study that the app opens in another way."""
    rank: int | None = None
    """Its rank in the footer; None for a study that is not listed there."""
    command: bool = True
    """Whether there is a command `tcexplore NAME`."""


STUDIES = (
    StudyEntry("modes", "Compare all modes and backends", "modes", 9),
    StudyEntry("sweep", "Time one dimension of the inputs at several sizes", "sweep", 14),
    StudyEntry("recompiles", "Vary the inputs: recompiles, and how to avoid them", "recompiles", 16),
    StudyEntry("bisect", "Find the compiler stage that crashes or gives a wrong result", "bisect", 15),
    StudyEntry("artifacts", "Save compiled code and load it in a second process", "artifacts"),
    StudyEntry("cold", "Compile with empty caches, then with warm ones", "cold run", 16, command=False),
    StudyEntry("fix", "Try a fix for each graph break and verify it"),
)
