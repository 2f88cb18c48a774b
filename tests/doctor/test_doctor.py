"""The doctor on machines that lack something, and on this one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tcexplore.cli.run_once import Outcome
from tcexplore.doctor import findings_text as show
from tcexplore.doctor import machine_checks as machine
from tcexplore.doctor import probe
from tcexplore.doctor import trial_compile as trial
from tcexplore.doctor.finding import Finding, Section
from tests import fakes

HEALTHY: dict[str, Any] = {
    "torch": {"version": "2.13.0+cu130", "path": "/site/torch", "cuda": "13.0", "hip": None},
    "triton": {"version": "3.9.0", "path": "/site/triton"},
    "compiler": {"path": "g++", "version": "g++ 12.2.0", "compiles": True, "problem": ""},
    "gpu": {"gpus": [{"name": "H200", "capability": "9.0", "bytes": 150 << 30}], "driver": "13.0"},
    "caches": [{"name": "Inductor", "path": "/tmp/x", "bytes": 2048}],
    "choices": {"modes": ["default"], "backends": ["inductor"]},
}

NO_TORCH = {name: {"error": "ModuleNotFoundError", "message": "No module named 'torch'"} for name in HEALTHY}


def found(answers: dict[str, Any]) -> dict[str, Finding]:
    return {finding.name: finding for finding in machine.installed(answers).findings}


def test_all_is_well():
    assert {finding.state for finding in found(HEALTHY).values()} == {"good"}
    assert "H200, 150.0 GiB, capability 9.0" in found(HEALTHY)["GPU"].text


def test_without_torch_that_is_all_there_is_to_say():
    findings = found(NO_TORCH)
    assert findings["torch"].state == "missing"
    assert f"{sys.executable} -m pip install torch" in findings["torch"].remedy
    assert "C++ compiler" not in findings
    assert trial.trials(NO_TORCH) == (Section("Compiling", ()), Section("Facts", ()))
    assert machine.caches(NO_TORCH).findings == ()


@pytest.mark.parametrize(
    "compiler",
    [
        {"error": "InvalidCxxCompiler", "message": "No working C++ compiler found"},
        {"path": "c++", "version": "", "compiles": False, "problem": "fatal error: Python.h: No such file"},
    ],
)
def test_a_compiler_that_is_missing_or_does_not_compile(compiler: dict[str, Any]):
    finding = found(HEALTHY | {"compiler": compiler})["C++ compiler"]
    assert finding.state == "missing"
    assert "g++" in finding.remedy
    assert (compiler.get("problem") or compiler["message"]) in finding.text


def test_no_gpu_is_no_fault_but_told_apart():
    none = {"gpu": {"gpus": [], "driver": None}}
    assert "finds none" in found(HEALTHY | none)["GPU"].text
    cpu = HEALTHY["torch"] | {"cuda": None, "version": "2.13.0+cpu"}
    finding = found(HEALTHY | none | {"torch": cpu})["GPU"]
    assert (finding.state, "built for the CPU only" in finding.text) == ("without", True)


def test_a_probe_that_dies_answers_every_question_with_its_last_words(monkeypatch: pytest.MonkeyPatch):
    def die(*_: object, **__: object) -> None:
        raise subprocess.CalledProcessError(-11, "python", stderr="Segmentation fault")

    monkeypatch.setattr(subprocess, "run", die)
    answers = probe.ask()
    assert set(HEALTHY) <= set(answers)
    assert all("Segmentation fault" in (probe.problem(answer) or "") for answer in answers.values())


def test_a_trial_reports_its_failure_with_the_hint():
    finding = trial._result("cpu", Outcome(fakes.failed()))
    assert (finding.state, finding.remedy) == ("missing", fakes.failed().failure.hint)
    good = trial._result("cuda", Outcome(fakes.complete(triton=True)))
    assert (good.state, "triton" in good.text) == ("good", True)


def test_missing_facts_are_said_once_with_their_symbol():
    finding, other = trial._facts([Outcome(fakes.facts_missing()), Outcome(fakes.facts_missing())])
    assert {finding.name, other.name} == {"kernel lines", "guard latency"}
    assert "CSE.generate" in finding.text
    assert [f.state for f in trial._facts([Outcome(fakes.complete())])] == ["good"]


def test_the_answer_ends_with_what_to_do(capsys: pytest.CaptureFixture[str]):
    sections = (Section("Python", (Finding("torch", "missing", "no [/b] module", "install [it]"),)), Section("x", ()))
    show.print_findings("tcexplore", sections)
    said = capsys.readouterr().out
    assert "✖" in said
    assert "no [/b] module" in said
    assert said.rstrip().endswith("torch: install [it]")


@pytest.mark.torch
def test_on_this_machine():
    done = subprocess.run([sys.executable, "-m", "tcexplore", "doctor"], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert "torch" in done.stdout
    assert "on the CPU" in done.stdout
    assert done.returncode in (0, 3)


def test_what_the_probe_prints_is_json_whatever_torch_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "torch.py").write_text("print('hello from an import')\nraise RuntimeError('broken build')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    command = [sys.executable, "-P", "-m", "tcexplore.worker.torch_probe"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answers = json.loads(done.stdout)
    assert answers["torch"] == {"error": "RuntimeError", "message": "broken build"}
    assert "hello" in done.stderr
