"""Rich styles of timing verdicts."""

from __future__ import annotations

VERDICTS = {
    "faster": "bold green",
    "slower": "bold red",
    "no difference": "bold",
    "undecided": "bold",
    "measuring": "dim",
}
