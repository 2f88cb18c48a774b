"""Compiles something small in a real worker: tells more than any list of what is installed."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterable

from tcexplore import events as ev
from tcexplore.cli.run_once import Outcome, run_once
from tcexplore.doctor.finding import Finding, Section
from tcexplore.doctor.probe import Answers, problem
from tcexplore.quantities import count, duration

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

PATIENCE_S = 180.0


def trials(answers: Answers) -> tuple[Section, Section]:
    """The sections on compiling, on each device there is, and on the facts that this torch does not give."""
    if problem(answers["torch"]):
        return Section("Compiling", ()), Section("Facts", ())
    gpus = () if problem(answers["gpu"]) else answers["gpu"]["gpus"]
    outcomes = {device: _compile(device) for device in ("cpu", *(["cuda"] if gpus else []))}
    compiling = tuple(_result(device, outcome) for device, outcome in outcomes.items())
    return Section("Compiling a small model", compiling), Section(
        "Facts that this torch does not give", _facts(outcomes.values())
    )


def _compile(device: str) -> Outcome:
    from tcexplore.supervisor import Supervisor

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trial.py")
        with open(path, "w") as file:
            file.write(SOURCE)
        config = ev.Config(device=device, train=True)
        job = ev.Job(run=1, file=path, source=SOURCE, config=config, time_for=0.0)
        return asyncio.run(run_once(job, PATIENCE_S, Supervisor))


def _result(device: str, outcome: Outcome) -> Finding:
    snapshot, name = outcome.snapshot, {"cpu": "on the CPU", "cuda": "on the GPU"}[device]
    if snapshot.failure is not None:
        failed = snapshot.failure
        return Finding(name, "missing", f"{failed.type}: {failed.message.partition(chr(10))[0]}", failed.hint)
    if not snapshot.code.kernels:
        return Finding(name, "missing", "it ran, but no kernel was seen", "the facts below say why")
    languages = sorted({kernel.language for kernel in snapshot.code.kernels})
    seconds = sum(call.seconds for call in snapshot.calls if call.variant == "compiled")
    made = f"{count(len(snapshot.code.kernels), 'kernel')} ({', '.join(languages)}) in {duration(seconds)}"
    ready = f", worker ready after {duration(outcome.machine.seconds)}" if outcome.machine else ""
    return Finding(name, "good", f"{made}{ready}")


def _facts(outcomes: Iterable[Outcome]) -> tuple[Finding, ...]:
    """What the hooks found no place for, or could not read."""
    missing = {(m.fact, m.symbol): m for outcome in outcomes for m in outcome.snapshot.missing_facts}
    if not missing:
        return (Finding("hooks", "good", "every hook found its place, and no fact is missing"),)
    return tuple(Finding(m.fact, "without", f"{m.reason}  [{m.symbol}]") for m in missing.values())
