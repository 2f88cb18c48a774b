"""The findings, printed: what there is, and at the end what to do."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from tcexplore.doctor.finding import Finding, Section
from tcexplore.report.text.layout import columns, indented

MARKS = {"good": ("✔", "green"), "missing": ("✖", "bold red"), "without": ("–", "yellow")}


def print_findings(title: str, sections: Sequence[Section]) -> None:
    """Print everything that was found; untrusted text is never markup."""
    console = Console(markup=False, emoji=False, highlight=False)
    console.print(Text(title, "bold"))
    for section in sections:
        if section.findings:
            console.print(Text(), Text(section.title, "bold"), *columns(map(_row, section.findings)), sep="\n")
    remedies = [finding for section in sections for finding in section.findings if finding.remedy]
    if remedies:
        console.print(Text(), Text("What to do", "bold"), sep="\n")
    for finding in remedies:
        console.print(indented(Text.assemble((f"{finding.name}: ", "bold"), finding.remedy)))


def _row(finding: Finding) -> tuple[Text, Text, Text]:
    mark, style = MARKS[finding.state]
    return Text(mark, style), Text(finding.name), Text(finding.text)
