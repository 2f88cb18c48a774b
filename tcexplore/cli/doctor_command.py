"""`tcexplore doctor`: what this machine can do, and how to install what is missing. Runs torch in other processes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.console import Console
from rich.text import Text

from tcexplore import __version__
from tcexplore import events as ev
from tcexplore.cli.configuration import VARIABLES, set_by_environment
from tcexplore.cli.file_argument import BadFileError, python_choice
from tcexplore.cli.options import Request
from tcexplore.cli.run_once import Line, progress, run_once
from tcexplore.cli.terminal import refuse, terminal_problem
from tcexplore.environments import PythonChoice
from tcexplore.events import clean
from tcexplore.files import NotWrittenError, private_folder
from tcexplore.model_python import OWN_PYTHON, ModelPython, install_hint
from tcexplore.processes import NoAnswerError, run_bounded
from tcexplore.quantities import count, duration, size
from tcexplore.run_store import history_folder, stored_files
from tcexplore.studies.runs import Outcome

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


# ---- findings


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


# ---- the installation


PROBE_S = 120.0

COMPILER = (
    "install g++ or clang++ with OpenMP, and Python's headers: "
    "`apt install g++ python3-dev`, `dnf install gcc-c++ python3-devel`, or `brew install llvm libomp`"
)

Answers = dict[str, Any]


def probe_machine(python: ModelPython = OWN_PYTHON) -> Answers:
    """Run `tcexplore.worker.torch_probe` in a separate process; return its answers, or the error for each of them."""
    command, variables = python.command("tcexplore.worker.torch_probe"), python.environment()
    try:
        answer = run_bounded(command, PROBE_S, env=variables)
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


# ---- trial compiles


SOURCE = """\
import torch
from torch import nn


class Trial(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)

    def forward(self, x):
        return torch.relu(self.norm(x)) * 2


model = Trial()
inputs = (torch.randn(8, 16),)
"""

TRIAL_S = 180.0


def run_trials(answers: Answers, python: ModelPython = OWN_PYTHON) -> tuple[Section, Section]:
    """Return the sections on compiling on each device and on facts that are unavailable with this torch."""
    if describe_error(answers["torch"]):
        return Section("Compiling", ()), Section("Facts", ())
    gpus = () if describe_error(answers["gpu"]) else answers["gpu"]["gpus"]
    outcomes = {device: _compile(device, python) for device in ("cpu", *(["cuda"] if gpus else []))}
    results = tuple(_result(device, outcome) for device, outcome in outcomes.items())
    return Section("Compiling a small model", results), Section("Hooks into torch", _missing_facts(outcomes.values()))


def _compile(device: str, python: ModelPython) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trial.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(SOURCE)
        config = ev.Config(device=device, train=True)
        job = ev.Job(run=1, file=path, source=SOURCE, config=config, time_for=0.0)
        return asyncio.run(run_once(job, TRIAL_S, python=python))


def _result(device: str, outcome: Outcome) -> Finding:
    snapshot, name = outcome.snapshot, {"cpu": "on the CPU", "cuda": "on the GPU"}[device]
    if snapshot.failure is not None:
        failed = snapshot.failure
        return Finding(name, "missing", f"{failed.type}: {failed.message.partition(chr(10))[0]}", failed.hint)
    if not snapshot.code.kernels:
        return Finding(name, "missing", "it ran, but no kernel was captured", "see the hooks below")
    languages = sorted({kernel.language for kernel in snapshot.code.kernels})
    seconds = sum(call.seconds for call in snapshot.calls if call.variant == "compiled")
    kernels = f"{count(len(snapshot.code.kernels), 'kernel')} ({', '.join(languages)}) in {duration(seconds)}"
    ready = f", worker ready after {duration(outcome.machine.seconds)}" if outcome.machine else ""
    return Finding(name, "good", f"{kernels}{ready}")


def _missing_facts(outcomes: Iterable[Outcome]) -> tuple[Finding, ...]:
    """Return the facts whose hooks cannot be installed or fail."""
    missing = {(m.fact, m.symbol): m for outcome in outcomes for m in outcome.snapshot.missing_facts}
    if not missing:
        return (Finding("hooks", "good", "all installed; no facts are missing"),)
    return tuple(Finding(m.fact, "limited", f"{m.reason}  [{m.symbol}]") for m in missing.values())
