"""`tcexplore doctor`: what this machine can do, and what to install for what is missing. No torch in this process."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from tcexplore import __version__
from tcexplore.cli.progress_line import Line, progress
from tcexplore.doctor.finding import Finding, Section
from tcexplore.doctor.findings_text import print_findings
from tcexplore.doctor.machine_checks import caches, installed
from tcexplore.doctor.probe import ask
from tcexplore.doctor.terminal_check import screen
from tcexplore.doctor.trial_compile import trials

__all__ = ["Finding", "Section", "doctor", "examine"]

HEALTHY, LACKING = 0, 3


def doctor() -> int:
    """Print the findings; returns 0 when nothing is missing that tcexplore needs, else 3."""
    with progress(sys.stderr) as line:
        sections = tuple(examine(line))
    print_findings(f"tcexplore {__version__}", sections)
    missing = any(finding.state == "missing" for section in sections for finding in section.findings)
    return LACKING if missing else HEALTHY


def examine(line: Line) -> Iterable[Section]:
    """Every section, in the order of the answer; `line` says what is being looked at."""
    line.write("asking torch")
    answers = ask()
    yield installed(answers)
    line.write("compiling a small model")
    yield from trials(answers)
    yield caches(answers)
    yield screen()
