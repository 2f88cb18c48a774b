"""`--python` on the command line, with fake interpreters."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tcexplore import events as ev
from tcexplore.cli import main
from tcexplore.cli.arguments import parse
from tcexplore.cli.open_command import fake_ranks_command
from tcexplore.model_python import OWN_PYTHON, ModelPython
from tests.cli.conftest import DONE, ENTRY, Check, Playback
from tests.environments.fake_pythons import fake_environment, fake_python
from tests.studies.playback import GRAPH, timed
from tests.studies.playback import Playback as PlayedStudy


def test_the_environment_beside_the_file_runs_it(check: Check, tmp_path: Path):
    environment = fake_environment(tmp_path / ".venv")
    assert check(ENTRY, DONE, arguments=("model.py", "--trust")) == 0
    assert (Playback.python.executable, Playback.python.source) == (
        str(environment / "bin" / "python"), str(environment),
    )  # fmt: skip
    other = fake_python(tmp_path / "python9")
    assert check(ENTRY, DONE, arguments=("model.py", "--python", str(other))) == 0
    assert (Playback.python.executable, Playback.python.source) == (str(other), "--python")


def test_an_environment_without_torch_is_skipped(check: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    fake_environment(tmp_path / ".venv", torch="")
    assert check(ENTRY, DONE, arguments=("model.py", "--trust")) == 0
    assert Playback.python is OWN_PYTHON
    assert capsys.readouterr().err == ""


def test_if_no_python_has_torch_the_reason_is_that_of_the_files_environment(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("tcexplore.cli.file_argument.find_spec", lambda _: None)
    environment = fake_environment(tmp_path / ".venv", torch="")
    assert check(ENTRY, DONE) == 2
    assert f"{environment}: The folder {tmp_path} is not trusted; --trust trusts it" in capsys.readouterr().err
    assert check(ENTRY, DONE, arguments=("model.py", "--trust")) == 2
    error = capsys.readouterr().err
    assert f"{environment}/bin/python (Python 3.12.4) has no torch. Install torch there" in error


MORE = {"export": ["--kernel", "k", "--to", "d"], "recompiles": ["--vary", "x=1,2"], "sweep": ["--sizes", "1,2"]}
"""Required arguments of commands."""


@pytest.mark.parametrize("command", ["", "check", "modes", "bisect", "artifacts", "fix", *MORE])
def test_a_python_that_cannot_run_the_worker_is_an_error_of_the_arguments(
    command: str, check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    del check
    monkeypatch.setattr("tcexplore.cli.dispatch.terminal_problem", lambda: None)
    python = fake_python(tmp_path / "old", python="3.10.4")
    assert main([*filter(None, [command]), "model.py", "--python", str(python), *MORE.get(command, [])]) == 2
    error = capsys.readouterr().err
    assert "is Python 3.10.4; tcexplore needs 3.11 to 3.14." in error
    assert error.count("\n") == 1


def test_the_json_of_a_check_has_the_error(check: Check, capsys: pytest.CaptureFixture[str]):
    assert check(arguments=("model.py", "--json", "--python", "no-such-python")) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["type"], error["blame"]) == ("python", "user")
    assert "no such file, program or conda environment" in error["message"]


def test_modes_compares_two_environments(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    del check
    old, new = fake_environment(tmp_path / "old"), fake_environment(tmp_path / "new", "3.13.1", "2.15.0")
    jobs: list[ev.Job] = []

    def queue(pythons: dict[str, ModelPython], emit: Callable[[ev.Event], None]) -> PlayedStudy:
        assert set(pythons) == {str(old / "bin" / "python"), str(new / "bin" / "python")}
        return PlayedStudy(emit, lambda _: [GRAPH, timed(1.5), ev.Finished()], jobs)

    queues = SimpleNamespace(EnvironmentQueue=queue)
    monkeypatch.setitem(sys.modules, "tcexplore.supervisor.supervisor", queues)
    assert main(["modes", "model.py", "--python", str(new), "--python", str(old), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(run["torch"], run["python_version"], run["graphs"]) for run in report["environments"]] == [
        ("2.15.0", "3.13.1", 1), ("2.11.0", "3.12.4", 1),
    ]  # fmt: skip
    assert [job.python for job in jobs[2:]] == [str(new / "bin" / "python"), str(old / "bin" / "python")]
    assert all(job.config.override == () for job in jobs), "the file's own configuration"


def test_one_environment_cannot_be_compared_with_itself(
    check: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    del check
    environment = fake_environment(tmp_path / "env")
    twice = ["--python", str(environment), "--python", str(environment / "bin" / "python")]
    assert main(["modes", "model.py", *twice]) == 2
    assert "names the same Python twice" in capsys.readouterr().err


def test_only_modes_takes_several(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        parse(["check", "model.py", "--python", "a", "--python", "b"])
    assert "tcexplore modes compares several" in capsys.readouterr().err
    assert parse(["doctor", "--python", "a"]).python == ("a",)


def test_the_doctor_refuses_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    python = fake_python(tmp_path / "python", torch="")
    assert main(["doctor", "--python", str(python)]) == 2
    assert "has no torch" in capsys.readouterr().err


def test_ranks_run_in_the_models_python():
    request = parse(["check", "train.py", "--ranks", "4", "--", "--epochs", "1"])
    command = fake_ranks_command(request, OWN_PYTHON)
    assert command[0] == OWN_PYTHON.executable
    assert command[-5:] == ("--world", "4", "train.py", "--epochs", "1")
    assert "tcexplore.worker.fake_ranks" in command[3]
