"""Rich styles of accuracy verdicts."""

from __future__ import annotations

from tcexplore.documents.timing.accuracy_rows import GOOD

STYLES = {**dict.fromkeys(GOOD, "bold green"), "not judged": "dim", "wrong": "bold red"}
