"""Compare reports of programs with torch's own trace: `python -m tests.benchmarks.unseen_programs [NAME...]`.

A name is that of a program or of a folder: `unseen` (many constructs), `stateful` (calls that change state), or
`libraries` (real packages with random weights; programs whose packages are not installed are skipped).
Graphs, graph breaks, recompiles, calls over the limit, guarded entries, and the compiles of each call must be the same
as in a run without tcexplore, and the JSON report must be consistent.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.program_figures import backend_of, differences, figures_of
from tests.report.consistency import inconsistencies

TESTS = Path(__file__).parents[1]
FOLDERS = (TESTS / "benchmarks" / "unseen", TESTS / "worker" / "stateful", TESTS / "benchmarks" / "libraries")
_IMPORT = re.compile(r"^(?:import|from) (\w+)", re.M)


SHARED = "shared_code"
"""Program that compiles one function for two backends. tcexplore names only the entries of the same backend."""


def reported(file: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the figures of tcexplore's report, and its inconsistencies."""
    command = [sys.executable, "-m", "tcexplore", "check", str(file), "--json", "--time-for", "0.3", "--follow", "100"]
    if "torch.compile(" not in file.read_text() and ".compile(" not in file.read_text():
        command += ["--backend", backend_of(file)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        report = json.loads(result.stdout)
    except json.JSONDecodeError:
        return {"error": result.stderr[-300:]}, []
    wrong = inconsistencies(report)
    wrong += [report["error"]["message"]] if report["error"] else []
    if file.stem != SHARED:
        wrong += [f"{r['graph']}: another backend" for r in report["recompiles"] if r["kind"] == "backend"]
    return figures_of(report), wrong


def compare(program: Path, folder: Path) -> bool:
    """Print the differences of one program; return whether there are none."""
    file = folder / f"{program.stem}.py"
    shutil.copy(program, file)
    command = [sys.executable, "-W", "ignore", "-m", "tests.program_figures", str(file)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        print(program.stem, result.stderr[-300:])
        return False
    truth = json.loads(result.stdout.strip().splitlines()[-1])
    figures, problems = reported(file)
    if program.stem == SHARED and _are_parts(figures["causes"], truth["causes"]):
        figures["causes"] = truth["causes"]
    problems += differences(truth, figures)
    shown = {key: value for key, value in truth.items() if key != "conditions"}
    print(program.stem, shown, *(problems or ["ok"]), sep="\n  ", flush=True)
    return not problems


def _are_parts(causes: list[list[str]], expected: list[list[str]]) -> bool:
    """Return whether the causes of each recompile are among those that torch names."""
    pairs = zip(causes, expected, strict=False)
    return len(causes) == len(expected) and all(given and set(given) <= set(named) for given, named in pairs)


def _missing_packages(program: Path) -> list[str]:
    """Return the packages that the program imports and that are not installed."""
    packages = _IMPORT.findall(program.read_text()) if program.parent.name == "libraries" else []
    return sorted({package for package in packages if find_spec(package) is None})


def main(*names: str) -> int:
    """Print the comparison of each program; return the number of programs with a difference."""
    every = [program for folder in FOLDERS for program in sorted(folder.glob("*.txt"))]
    named = [program for program in every if not names or {program.stem, program.parent.name} & set(names)]
    programs = [program for program in named if not _missing_packages(program)]
    with tempfile.TemporaryDirectory() as folder:
        wrong = sum(not compare(program, Path(folder)) for program in programs)
    for program in named:
        if program not in programs:
            print(f"{program.stem} skipped, not installed: {', '.join(_missing_packages(program))}")
    print(f"{wrong} of {len(programs)} programs with differences")
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)
