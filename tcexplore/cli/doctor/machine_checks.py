"""Checks of the installation: torch, triton, a C++ compiler, a GPU, the compiler's caches, the terminal."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable
from typing import Any

from tcexplore.bounded_process import NoAnswerError, run_bounded
from tcexplore.cli.configuration.config_values import VARIABLES, set_by_environment
from tcexplore.cli.doctor.findings import Finding, Section
from tcexplore.cli.explore_command import terminal_problem
from tcexplore.environments import PythonChoice
from tcexplore.events import clean
from tcexplore.files import NotWrittenError, private_folder
from tcexplore.model_python import OWN_PYTHON, ModelPython, install_hint
from tcexplore.quantities import count, size
from tcexplore.run_store import history_folder, stored_files

TIMEOUT_S = 120.0

COMPILER = (
    "install g++ or clang++ with OpenMP, and Python's headers: "
    "`apt install g++ python3-dev`, `dnf install gcc-c++ python3-devel`, or `brew install llvm libomp`"
)

Answers = dict[str, Any]


def probe_machine(python: ModelPython = OWN_PYTHON) -> Answers:
    """Run `tcexplore.worker.torch_probe` in a separate process; return its answers, or the error for each of them."""
    command, variables = python.command("tcexplore.worker.torch_probe"), python.environment()
    try:
        answer = run_bounded(command, TIMEOUT_S, env=variables)
        if answer.status:
            reason = answer.errors.decode("utf-8", "replace").strip()[-200:]
            return _failed_probe("crash", f"it exited with status {answer.status}: {clean(reason)}")
        answers = json.loads(answer.output)
    except NoAnswerError as error:
        return _failed_probe("no answer", f"it {error}")
    except (OSError, ValueError, RecursionError) as error:
        return _failed_probe(type(error).__name__, str(error))
    if not isinstance(answers, dict) or not _failed_probe("", "").keys() <= answers.keys():
        return _failed_probe("no answer", "its output is not the probe's")
    return answers


def _failed_probe(error: str, message: str) -> Answers:
    reason = {"error": error, "message": message}
    return dict.fromkeys(("torch", "processes", "triton", "compiler", "gpu", "caches", "choices"), reason)


def describe_error(answer: Any) -> str | None:
    """Return the error of an answer, or None if there is none."""
    if isinstance(answer, dict) and "error" in answer:
        return f"{answer['error']}: {answer['message']}"
    return None


def check_environments(choice: PythonChoice) -> Section:
    """Return the section on the model's Python; empty if it is the one that runs tcexplore."""
    chosen, skipped = choice.python, choice.skipped
    findings = [Finding("skipped", "limited", f"{other.source}: {other.reason}") for other in skipped]
    if not chosen.own:
        findings.insert(0, Finding("used", "good", f"{chosen.executable} ({chosen.source}): {chosen.label}"))
    return Section("The model's Python", tuple(findings)) if findings else Section("", ())


def check_installation(answers: Answers, python: ModelPython = OWN_PYTHON) -> Section:
    """Return the section on installed software."""
    executable = python.executable
    findings = (
        _torch(answers, executable), _triton(answers, executable), _compiler(answers), *_gpu(answers),
        _processes(answers), _choices(answers),
    )  # fmt: skip
    return Section(f"Python {python.version or sys.version.split()[0]}  {executable}", tuple(f for f in findings if f))


def _torch(answers: Answers, executable: str) -> Finding:
    torch = answers["torch"]
    if error := describe_error(torch):
        return Finding("torch", "missing", error, install_hint(executable))
    return Finding("torch", "good", f"{torch['version']}  {torch['path']}")


def _triton(answers: Answers, executable: str) -> Finding:
    triton = answers["triton"]
    if error := describe_error(triton):
        remedy = f"`{executable} -m pip install triton` (Linux only)"
        return Finding("triton", "limited", f"{error}; needed for GPU kernels", remedy)
    return Finding("triton", "good", str(triton["version"]))


def _compiler(answers: Answers) -> Finding | None:
    if describe_error(answers["torch"]):
        return None
    compiler = answers["compiler"]
    if error := describe_error(compiler):
        return Finding("C++ compiler", "missing", f"torch finds none ({error})", COMPILER)
    if not compiler["compiles"]:
        text = f"{compiler['path']} can't compile with OpenMP and Python's headers: {compiler['problem']}"
        return Finding("C++ compiler", "missing", text, COMPILER)
    text = f"{compiler['path']}: {compiler['version']}, with OpenMP and Python's headers"
    return Finding("C++ compiler", "good", text)


def _gpu(answers: Answers) -> Iterable[Finding]:
    if describe_error(answers["torch"]):
        return
    probe, torch = answers["gpu"], answers["torch"]
    if error := describe_error(probe):
        yield Finding("GPU", "limited", error)
    elif not probe["gpus"]:
        yield _no_gpu(torch)
    else:
        for gpu in probe["gpus"]:
            facts = f"{gpu['name']}, {size(gpu['bytes'])}, capability {gpu['capability']}"
            driver = f", driver for {probe['driver']}" if probe["driver"] else ""
            yield Finding("GPU", "good", f"{facts}; torch for CUDA {torch['cuda']}{driver}")


def _no_gpu(torch: Answers) -> Finding:
    if torch["cuda"] is None and torch["hip"] is None:
        remedy = "on a machine with a GPU, install a torch build for it"
        return Finding("GPU", "limited", f"torch {torch['version']} is built for the CPU only", remedy)
    return Finding("GPU", "limited", "torch finds none", "if the machine has one, check its driver with `nvidia-smi`")


def _processes(answers: Answers) -> Finding | None:
    if describe_error(answers["torch"]):
        return None
    processes, gpu = answers["processes"], answers["gpu"]
    problem = describe_error(processes) or processes["problem"]
    if problem:
        return Finding("runs", "limited", f"each starts a process that imports torch, since {problem}")
    text = "forked from a process that has imported torch"
    if not describe_error(gpu) and gpu["gpus"]:
        text += "; each process kept ready holds a GPU context of about 500 MiB (--standbys N, default 2)"
    return Finding("runs", "good", text)


def _choices(answers: Answers) -> Finding | None:
    if describe_error(answers["choices"]):
        return None
    choices = answers["choices"]
    modes, backends = ", ".join(choices["modes"]), ", ".join(choices["backends"])
    return Finding("choices", "good", f"--mode {modes}; --backend {backends}")


def check_caches(answers: Answers) -> Section:
    """Return the section on the compiler's caches."""
    if error := describe_error(answers["caches"]):
        findings = () if describe_error(answers["torch"]) else (Finding("caches", "limited", error),)
        return Section("Caches", findings)
    return Section(
        "Caches",
        tuple(Finding(c["name"], "good", f"{size(c['bytes'])}  {c['path']}") for c in answers["caches"]),
    )


def check_history() -> Section:
    """Return the section on the history of runs that the app keeps on disk."""
    folder = history_folder()
    if set_by_environment(option := "no-history"):
        return Section("History", (Finding("runs", "limited", f"not kept, since {VARIABLES[option]} is set"),))
    try:
        private_folder(folder)
        paths = stored_files(folder)
        text = f"{count(len(paths), 'run')}, {size(sum(path.stat().st_size for path in paths))}  {folder}"
    except (NotWrittenError, OSError) as error:
        remedy = "make the folder writable, or set XDG_STATE_HOME to one that is"
        return Section("History", (Finding("runs", "limited", f"not kept: {error}", remedy),))
    return Section("History", (Finding("runs", "good", text),))


# ---- terminal


FULL_SIZE = (140, 40)
"""Minimum columns and rows to show all panes at once."""


def check_terminal() -> Section:
    """Return the section on the terminal."""
    reason = terminal_problem()
    if reason is not None:
        text = f"{reason}: tcexplore prints a report instead of opening its panes"
        return Section("Terminal", (Finding("screen", "limited", text),))
    return Section("Terminal", (_size(), _colors(), _encoding(), _clipboard()))


def _size() -> Finding:
    columns, rows = shutil.get_terminal_size()
    text = f"{columns} columns, {rows} rows"
    if columns >= FULL_SIZE[0] and rows >= FULL_SIZE[1]:
        return Finding("size", "good", f"{text}: all panes visible")
    larger = "{} × {}".format(*FULL_SIZE)
    return Finding("size", "limited", f"{text}: one pane at a time", f"all panes are visible from {larger}")


def _colors() -> Finding:
    from rich.console import Console

    system = Console(file=sys.stderr).color_system
    text = {"truecolor": "16 million", "256": "256", "standard": "16"}.get(system or "", "none")
    if system == "truecolor":
        return Finding("colors", "good", text)
    remedy = "if the terminal supports more colors, `export COLORTERM=truecolor`"
    return Finding("colors", "limited", f"{text} (TERM={os.environ.get('TERM', '')})", remedy)


def _encoding() -> Finding:
    encoding = (sys.stdout.encoding or "").lower()
    if encoding.replace("-", "") == "utf8":
        return Finding("text", "good", "UTF-8")
    return Finding("text", "missing", f"{encoding}: can't display lines and symbols", "`export LC_ALL=C.UTF-8`")


def _clipboard() -> Finding:
    """Return how copying works: no terminal tells, and tmux forwards the sequence only if configured."""
    text = "copying uses OSC 52; terminals can't be queried for support"
    remedy = "in tmux, `set -g set-clipboard on` enables it" if os.environ.get("TMUX") else ""
    return Finding("clipboard", "limited", text, remedy)
