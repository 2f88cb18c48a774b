"""Rich styles of accuracy verdicts."""

from __future__ import annotations

from tcexplore.documents.accuracy_text import GOOD

STYLES = {**dict.fromkeys(GOOD, "bold green"), "not judged": "dim", "wrong": "bold red"}
