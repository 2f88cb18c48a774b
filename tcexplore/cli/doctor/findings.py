"""Findings of the doctor, and how they are printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.text import Text

FindingState = Literal["good", "missing", "limited"]
"""`missing`: tcexplore needs it; `limited`: tcexplore works without it."""

MARKS: dict[FindingState, tuple[str, str]] = {
    "good": ("✔", "green"),
    "missing": ("✖", "bold red"),
    "limited": ("–", "yellow"),
}
MIN_WIDTH = 20
"""Minimum width of wrapped text."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A capability that this machine has or lacks."""

    name: str
    state: FindingState
    text: str
    remedy: str = ""
    """What to do about it."""


@dataclass(frozen=True, slots=True)
class Section:
    """Findings under one title."""

    title: str
    findings: tuple[Finding, ...]


def print_findings(title: str, sections: Sequence[Section]) -> None:
    """Print all findings, then all remedies. Untrusted text is never markup."""
    console = Console(markup=False, emoji=False, highlight=False)
    console.print(Text(title, "bold"))
    for section in sections:
        if section.findings:
            console.print(Text(), Text(section.title, "bold"), sep="\n")
        width = max((len(finding.name) for finding in section.findings), default=0)
        for finding in section.findings:
            prefix = Text.assemble("  ", MARKS[finding.state], f"  {finding.name:{width}}  ")
            _print_wrapped(console, prefix, Text(finding.text))
    remedies = [finding for section in sections for finding in section.findings if finding.remedy]
    if remedies:
        console.print(Text(), Text("What to do", "bold"), sep="\n")
    for finding in remedies:
        _print_wrapped(console, Text("  "), Text.assemble((f"{finding.name}: ", "bold"), finding.remedy))


def _print_wrapped(console: Console, prefix: Text, text: Text) -> None:
    """Print text after a prefix; continuation lines are indented by the width of the prefix."""
    indent = prefix.cell_len
    for number, line in enumerate(text.wrap(console, max(MIN_WIDTH, console.width - indent))):
        line.rstrip()
        console.print(Text.assemble(Text(" " * indent) if number else prefix, line), no_wrap=True, crop=False)
