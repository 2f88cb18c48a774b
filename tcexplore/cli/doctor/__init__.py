"""`tcexplore doctor`: what this machine can do, and how to install what is missing. Runs torch in other processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from tcexplore import __version__
from tcexplore.cli.doctor.findings import Section, print_findings
from tcexplore.cli.doctor.machine_checks import (
    check_caches,
    check_environments,
    check_history,
    check_installation,
    check_terminal,
    probe_machine,
)
from tcexplore.cli.doctor.trial_compile import run_trials
from tcexplore.cli.error_line import refuse
from tcexplore.cli.file_argument import BadFileError, python_choice
from tcexplore.cli.progress_line import Line, progress
from tcexplore.cli.request import Request
from tcexplore.environments import PythonChoice

EXIT_OK, EXIT_MISSING = 0, 3


def doctor(request: Request) -> int:
    """Print the findings; return 0 if tcexplore has everything it needs, else 3, or 2 for an invalid `--python`.

    Without `--python`, the Python of a file in the current folder is checked, if the user trusts that folder.
    """
    try:
        choice = python_choice(request, os.path.abspath("model.py"))
    except BadFileError as error:
        return refuse(error.sentence, "tcexplore doctor")
    # Neither Python nor torch imports, compiles or configures itself from files in the user's folder.
    os.chdir("/")
    with progress(sys.stderr) as line:
        sections = tuple(examine(line, choice))
    print_findings(f"tcexplore {__version__}", sections)
    missing = any(finding.state == "missing" for section in sections for finding in section.findings)
    return EXIT_MISSING if missing else EXIT_OK


def examine(line: Line, choice: PythonChoice) -> Iterable[Section]:
    """Yield every section in display order, showing the current check in `line`."""
    line.write("querying torch")
    answers = probe_machine(choice.python)
    yield check_environments(choice)
    yield check_installation(answers, choice.python)
    line.write("compiling a small model")
    yield from run_trials(answers, choice.python)
    yield check_caches(answers)
    yield check_history()
    yield check_terminal()
