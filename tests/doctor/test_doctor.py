"""The doctor on simulated machines that lack something, and on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tcexplore.cli import doctor_command
from tcexplore.cli.doctor_command import (
    Finding,
    Section,
    check_caches,
    check_environments,
    check_history,
    check_installation,
    describe_error,
    print_findings,
    probe_machine,
)
from tcexplore.environments import PythonChoice, SkippedPython
from tcexplore.model_python import OWN_PYTHON, ModelPython
from tcexplore.studies.runs import Outcome
from tests import fakes
from tests.environments.fake_pythons import script

HEALTHY: dict[str, Any] = {
    "torch": {"version": "2.13.0+cu130", "path": "/site/torch", "cuda": "13.0", "hip": None},
    "triton": {"version": "3.9.0", "path": "/site/triton"},
    "compiler": {"path": "g++", "version": "g++ 12.2.0", "compiles": True, "problem": ""},
    "processes": {"forks": True, "problem": ""},
    "gpu": {"gpus": [{"name": "H200", "capability": "9.0", "bytes": 150 << 30}], "driver": "13.0"},
    "caches": [{"name": "Inductor", "path": "/tmp/x", "bytes": 2048}],
    "choices": {"modes": ["default"], "backends": ["inductor"]},
}

NO_TORCH = {name: {"error": "ModuleNotFoundError", "message": "No module named 'torch'"} for name in HEALTHY}


def findings_by_name(answers: dict[str, Any]) -> dict[str, Finding]:
    return {finding.name: finding for finding in check_installation(answers).findings}


def test_a_complete_installation_has_only_good_findings():
    assert {finding.state for finding in findings_by_name(HEALTHY).values()} == {"good"}
    assert "H200, 150.0 GiB, capability 9.0" in findings_by_name(HEALTHY)["GPU"].text


def test_without_torch_nothing_else_is_checked():
    findings = findings_by_name(NO_TORCH)
    assert findings["torch"].state == "missing"
    assert f"{sys.executable} -m pip install torch" in findings["torch"].remedy
    assert "C++ compiler" not in findings
    assert doctor_command.run_trials(NO_TORCH) == (Section("Compiling", ()), Section("Facts", ()))
    assert check_caches(NO_TORCH).findings == ()


@pytest.mark.parametrize(
    "compiler",
    [
        {"error": "InvalidCxxCompiler", "message": "No working C++ compiler found"},
        {"path": "c++", "version": "", "compiles": False, "problem": "fatal error: Python.h: No such file"},
    ],
)
def test_a_missing_or_failing_compiler_has_a_remedy(compiler: dict[str, Any]):
    finding = findings_by_name(HEALTHY | {"compiler": compiler})["C++ compiler"]
    assert finding.state == "missing"
    assert "g++" in finding.remedy
    assert (compiler.get("problem") or compiler["message"]) in finding.text


def test_the_models_python_and_skipped_environments_are_listed():
    assert check_environments(PythonChoice(OWN_PYTHON)).findings == ()
    python = ModelPython("/env/bin/python", "/env", "3.12.4", "2.11.0", "/env")
    skipped = SkippedPython("/venv", "VIRTUAL_ENV", "/venv/bin/python (Python 3.11.7) has no torch.")
    used, other = check_environments(PythonChoice(python, (skipped,))).findings
    assert (used.state, used.text) == ("good", "/env/bin/python (/env): Python 3.12.4, torch 2.11.0")
    assert (other.state, other.text) == ("limited", f"VIRTUAL_ENV: {skipped.reason}")
    assert check_installation(HEALTHY, python).title == "Python 3.12.4  /env/bin/python"


def test_no_gpu_and_a_cpu_build_are_distinguished():
    none: dict[str, dict[str, Any]] = {"gpu": {"gpus": [], "driver": None}}
    assert "finds none" in findings_by_name(HEALTHY | none)["GPU"].text
    cpu = HEALTHY["torch"] | {"cuda": None, "version": "2.13.0+cpu"}
    finding = findings_by_name(HEALTHY | none | {"torch": cpu})["GPU"]
    assert (finding.state, "built for the CPU only" in finding.text) == ("limited", True)


def test_runs_that_cannot_be_forked_have_a_reason():
    assert "500 MiB" in findings_by_name(HEALTHY)["runs"].text
    processes = {"processes": {"forks": False, "problem": "a forked process cannot use the GPU: no answer"}}
    finding = findings_by_name(HEALTHY | processes)["runs"]
    assert (finding.state, "since a forked process cannot use the GPU" in finding.text) == ("limited", True)


def test_a_crashed_probe_gives_its_stderr_for_every_answer(tmp_path: Path):
    program = script(tmp_path / "python", "#!/bin/sh\necho 'Segmentation fault' >&2\nkill -SEGV $$\n")
    answers = probe_machine(ModelPython(str(program)))
    assert set(HEALTHY) <= set(answers)
    assert all("Segmentation fault" in (describe_error(answer) or "") for answer in answers.values())


def test_a_failed_trial_has_the_hint_as_remedy():
    finding = doctor_command._result("cpu", Outcome(fakes.failed()))
    assert (finding.state, finding.remedy) == ("missing", fakes.failed().failure.hint)
    good = doctor_command._result("cuda", Outcome(fakes.complete(triton=True)))
    assert (good.state, "triton" in good.text) == ("good", True)


def test_missing_facts_are_listed_once_with_their_symbol():
    finding, other = doctor_command._missing_facts([Outcome(fakes.facts_missing()), Outcome(fakes.facts_missing())])
    assert {finding.name, other.name} == {"kernel lines", "guard latency"}
    assert "CSE.generate" in finding.text
    assert [f.state for f in doctor_command._missing_facts([Outcome(fakes.complete())])] == ["good"]


def test_the_output_ends_with_the_remedies(capsys: pytest.CaptureFixture[str]):
    sections = (Section("Python", (Finding("torch", "missing", "no [/b] module", "install [it]"),)), Section("x", ()))
    print_findings("tcexplore", sections)
    output = capsys.readouterr().out
    assert "✖" in output
    assert "no [/b] module" in output
    assert output.rstrip().endswith("torch: install [it]")


@pytest.mark.torch
def test_the_doctor_runs_on_this_machine():
    done = subprocess.run([sys.executable, "-m", "tcexplore", "doctor"], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert "torch" in done.stdout
    assert "on the CPU" in done.stdout
    assert done.returncode in (0, 3)


def test_the_probe_prints_json_even_if_torch_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "torch.py").write_text("print('hello from an import')\nraise RuntimeError('broken build')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))  # also without an installed tcexplore
    command = [sys.executable, "-P", "-m", "tcexplore.worker.torch_probe"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answers = json.loads(done.stdout)
    assert answers["torch"] == {"error": "RuntimeError", "message": "broken build"}
    assert "hello" in done.stderr


def test_the_history_names_its_folder_or_why_it_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TCEXPLORE_NO_HISTORY", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (finding,) = check_history().findings
    assert finding.state == "good"
    assert finding.text.startswith("0 runs")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    (finding,) = check_history().findings
    assert (finding.state, "XDG_STATE_HOME" in finding.remedy) == ("limited", True)
    monkeypatch.setenv("TCEXPLORE_NO_HISTORY", "1")
    (finding,) = check_history().findings
    assert "TCEXPLORE_NO_HISTORY" in finding.text
