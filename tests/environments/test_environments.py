"""Which Python runs the model file, and why another can't."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tcexplore import environments
from tcexplore.documents.configurations import format_torch
from tcexplore.environments import PythonNotUsableError, candidates, choose_python, named_python, parse_version
from tcexplore.events import Standby
from tcexplore.model_python import OWN_PYTHON
from tcexplore.trust import Consent
from tests.environments.fake_pythons import fake_environment, fake_python, script

TRUSTED = Consent(given=True)


def test_an_option_may_name_an_interpreter_or_an_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    environment = fake_environment(tmp_path / "env")
    program = environment / "bin" / "python"
    for path in (str(program), str(environment)):
        python = named_python(path)
        assert (python.executable, python.prefix, python.source) == (str(program), str(environment), "--python")
        assert python.label == "Python 3.12.4, torch 2.11.0"
    fake_python(tmp_path / "programs" / "python9")
    monkeypatch.setenv("PATH", str(tmp_path / "programs"), prepend=os.pathsep)
    assert named_python("python9").executable == str(tmp_path / "programs" / "python9")


def test_an_option_may_name_a_conda_environment(tmp_path: Path):
    environment = fake_environment(tmp_path / "conda" / "envs" / "vision")
    python = named_python("vision", {"CONDA_EXE": str(tmp_path / "conda" / "bin" / "conda")})
    assert os.path.samefile(python.executable, environment / "bin" / "python")


CANNOT_RUN = {
    "missing": ("", "no such file"),
    "folder": ("", "no bin/python"),
    "data": ("not a program", "permission denied"),
    "crash": ("#!/bin/sh\necho 'cannot load libpython' >&2\nexit 127\n", "(status 127): cannot load libpython"),
    "echo": ("#!/bin/sh\necho hello\n", "not a working Python"),
    "killed": ("#!/bin/sh\nkill -9 $$\n", "status -9"),
}


@pytest.mark.parametrize("name", CANNOT_RUN)
def test_a_program_that_is_no_working_python_has_one_reason(name: str, tmp_path: Path):
    text, reason = CANNOT_RUN[name]
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    elif text:
        script(path, text)
    if name == "data":
        path.chmod(0o644)
    with pytest.raises(PythonNotUsableError, match=r"^[^\n]*$") as caught:
        named_python(str(path))
    assert reason in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("python", "torch", "reason"),
    [
        ("3.10.12", "2.13.0", "is Python 3.10.12; tcexplore needs 3.11 to 3.14"),
        ("3.12.4", "", "has no torch"),
        ("3.12.4", "2.6.0+cu124", "has torch 2.6.0+cu124; tcexplore needs 2.11 to 2.15"),
        ("3.12.4", "2.16.0.dev20270101", "needs 2.11 to 2.15"),
        ("3.12.4", "?", "has torch ?"),
    ],
)
def test_an_unsupported_version_is_named(python: str, torch: str, reason: str, tmp_path: Path):
    program = fake_python(tmp_path / "python", python, torch)
    with pytest.raises(PythonNotUsableError) as caught:
        named_python(str(program))
    assert reason in str(caught.value)


def test_an_interpreter_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(environments, "ANSWER_S", 0.2)
    program = script(tmp_path / "python", "#!/bin/sh\nsleep 60 & sleep 60\n")
    with pytest.raises(PythonNotUsableError, match=r"no answer within 0\.2 s"):
        named_python(str(program))


FLOODS = {
    "stdout": "#!/bin/sh\nexec yes\n",
    "stderr": "#!/bin/sh\nexec yes >&2\n",
    "in the background": "#!/bin/sh\nyes &\n",
}


@pytest.mark.parametrize("name", FLOODS)
def test_an_interpreter_that_floods_its_output_is_ended(name: str, tmp_path: Path):
    program = script(tmp_path / "python", FLOODS[name])
    with pytest.raises(PythonNotUsableError, match=r"writes more than 1,024 KiB"):
        named_python(str(program))


def test_an_interpreter_that_ends_but_leaves_its_pipes_open_is_not_waited_for(tmp_path: Path):
    program = script(tmp_path / "python", "#!/bin/sh\nsetsid sleep 60 &\necho done\n")
    began = time.monotonic()
    with pytest.raises(PythonNotUsableError, match=r"not a working Python \(status 0\): done"):
        named_python(str(program))
    assert time.monotonic() - began < 5


def test_a_wrapper_that_waits_for_another_process_is_left_out(tmp_path: Path):
    wrapped = fake_python(tmp_path / "real")
    wrapper = script(tmp_path / "wrapper", f'#!/bin/sh\n"{wrapped}" "$@"\n')
    assert named_python(str(wrapper)).executable == str(wrapped)
    direct = script(tmp_path / "direct", f'#!/bin/sh\nexec "{wrapped}" "$@"\n')
    assert named_python(str(direct)).executable == str(direct)


def test_the_active_environment_comes_before_one_beside_the_file(tmp_path: Path):
    file = tmp_path / "repo" / "models" / "net.py"
    file.parent.mkdir(parents=True)
    (tmp_path / "repo" / ".git").touch()
    near, above = fake_environment(file.parent / "venv"), fake_environment(tmp_path / "repo" / ".venv")
    fake_environment(tmp_path / ".venv")  # outside of the repository
    active, conda = str(fake_environment(tmp_path / "active")), str(fake_environment(tmp_path / "conda"))
    variables = {"VIRTUAL_ENV": active, "CONDA_PREFIX": conda}
    assert list(candidates(str(file), variables)) == [
        (active, "VIRTUAL_ENV"), (conda, "CONDA_PREFIX"), (str(near), str(near)), (str(above), str(above)),
    ]  # fmt: skip
    assert choose_python(str(file), variables).python.source == "VIRTUAL_ENV"
    assert choose_python(str(file), {}, TRUSTED).python.source == str(near)


def test_outside_of_a_repository_and_of_home_only_the_files_folder_is_searched(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    fake_environment(tmp_path / ".venv")
    assert list(candidates(str(tmp_path / "folder" / "net.py"), {})) == []


def test_environments_that_cannot_run_the_worker_are_skipped_with_the_reason(tmp_path: Path):
    empty, old = fake_environment(tmp_path / "empty", torch=""), fake_environment(tmp_path / "old", python="3.9.1")
    good = fake_environment(tmp_path / "project" / ".venv")
    variables = {"VIRTUAL_ENV": str(empty), "CONDA_PREFIX": str(old)}
    choice = choose_python(str(tmp_path / "project" / "net.py"), variables, TRUSTED)
    assert choice.python.executable == str(good / "bin" / "python")
    assert [(skipped.source, skipped.path) for skipped in choice.skipped] == [
        ("VIRTUAL_ENV", str(empty)), ("CONDA_PREFIX", str(old)),
    ]  # fmt: skip
    assert "has no torch" in choice.skipped[0].reason
    assert "Python 3.9.1" in choice.skipped[1].reason


def test_without_an_environment_the_python_of_tcexplore_runs_the_file(tmp_path: Path):
    assert choose_python(str(tmp_path / "net.py"), {}).python is OWN_PYTHON
    assert choose_python(str(tmp_path / "net.py"), {"VIRTUAL_ENV": sys.prefix}).python is OWN_PYTHON


def test_an_own_environment_without_torch_gives_way_to_one_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(environments, "find_spec", lambda _: None)
    environment = fake_environment(tmp_path / ".venv")
    choice = choose_python(str(tmp_path / "net.py"), {"VIRTUAL_ENV": sys.prefix}, TRUSTED)
    assert choice.python.source == str(environment)
    assert choice.skipped[0].reason == f"{sys.executable} has no torch."


def test_processes_of_an_environment_have_its_variables_and_programs(tmp_path: Path):
    python = named_python(str(fake_environment(tmp_path / "env")))
    inherited = {"PATH": "/usr/bin", "VIRTUAL_ENV": "/front", "PYTHONHOME": "/front", "CONDA_PREFIX": "/c", "HOME": "/"}
    assert python.environment(inherited) == {
        "PATH": f"{tmp_path / 'env' / 'bin'}:/usr/bin", "VIRTUAL_ENV": str(tmp_path / "env"), "HOME": "/",
    }  # fmt: skip
    assert OWN_PYTHON.environment(inherited) == inherited


def test_screens_and_reports_name_the_environment():
    own = Standby(torch="2.13.0", python="3.11.7", device="cpu", seconds=1.0)
    assert format_torch(own) == "torch 2.13.0"
    named = replace(own, environment="/env/bin/python", environment_source="--python")
    assert format_torch(named) == "torch 2.13.0, Python 3.11.7 (/env/bin/python)"
    assert format_torch(replace(named, environment_source="/env")) == "torch 2.13.0, Python 3.11.7 (/env)"


def test_versions_are_compared_as_numbers():
    assert parse_version("2.13.0+cu130") == (2, 13, 0)
    assert parse_version("2.9.1") < parse_version("2.13.0a0+git12")
    assert parse_version("unknown") == ()
