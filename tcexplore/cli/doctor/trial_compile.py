"""Trial compilation of a small model in a real worker process, on each device."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterable

from tcexplore import events as ev
from tcexplore.cli.doctor.findings import Finding, Section
from tcexplore.cli.doctor.machine_checks import Answers, describe_error
from tcexplore.cli.run_once import run_once
from tcexplore.model_python import OWN_PYTHON, ModelPython
from tcexplore.quantities import count, duration
from tcexplore.studies.study_runs import Outcome

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

TIMEOUT_S = 180.0


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
        return asyncio.run(run_once(job, TIMEOUT_S, python=python))


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
