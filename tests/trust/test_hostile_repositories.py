"""Repositories that try to execute something before the user trusts them: nothing but the model file may run.

Each case makes a repository whose programs and modules leave a mark in the canary file. The model file does not parse,
so that no worker is needed: what a worker imports is the model's own code.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tcexplore.cli import main
from tcexplore.cli.arguments import parse
from tcexplore.cli.file_argument import BadFileError, python_choice
from tcexplore.environments import _QUERY
from tcexplore.model_python import OWN_PYTHON
from tcexplore.processes import run_bounded
from tests.environments.fake_pythons import script

BROKEN = "import torch\nmodel = = 1\n"
Build = Callable[[Path], None]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new clone as the working folder, and a home folder without any consent."""
    folder, home = tmp_path / "clone", tmp_path / "home"
    (folder / ".git").mkdir(parents=True)
    (folder / "model.py").write_text(BROKEN)
    home.mkdir()
    (home / ".bashrc").write_text("# mine\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.chdir(folder)
    return folder


def canary(folder: Path) -> Path:
    """Return the file that code of the repository would create."""
    return folder.parent / "executed"


def evil(path: Path) -> Path:
    """Make a program that leaves a mark, and answers as a Python with torch."""
    mark = path
    while mark.name != "clone" and mark != mark.parent:
        mark = mark.parent
    answer = "printf '\\ntcexplore:\\n%s\\n%s\\n/x\\n3.12.4\\n2.11.0\\n' $$ \"$0\""
    return script(path, f"#!/bin/sh\ntouch '{mark.parent}/executed'\n{answer}\n")


def environment(folder: Path) -> Path:
    evil(folder / "bin" / "python")
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    return folder


def config(text: str, name: str = "tcexplore.toml") -> Build:
    """Return a builder of a repository with a program and a configuration that names it."""

    def build(folder: Path) -> None:
        evil(folder / "evil")
        environment(folder / "env")
        os.symlink("evil", folder / "link")
        os.symlink(folder.parent / "home", folder / "reports")
        (folder / name).write_text(text.format(folder=folder, home=folder.parent / "home"))

    return build


def environments(*places: str) -> Build:
    def build(folder: Path) -> None:
        for place in places:
            environment(folder / place)

    return build


def linked_environment(folder: Path) -> None:
    os.symlink(environment(folder / "hidden"), folder / ".venv")


def linked_interpreter(folder: Path) -> None:
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "pyvenv.cfg").touch()
    os.symlink(evil(folder / "tool"), folder / ".venv" / "bin" / "python")


def linked_programs(folder: Path) -> None:
    (folder / ".venv").mkdir()
    (folder / ".venv" / "pyvenv.cfg").touch()
    os.symlink(evil(folder / "tools" / "python").parent, folder / ".venv" / "bin")


def second_name(folder: Path) -> None:
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "pyvenv.cfg").touch()
    evil(folder / ".venv" / "bin" / "python3")


def linked_mark(folder: Path) -> None:
    environment(folder / ".venv")
    (folder / "real.cfg").touch()
    (folder / ".venv" / "pyvenv.cfg").unlink()
    os.symlink("../real.cfg", folder / ".venv" / "pyvenv.cfg")


def nested(folder: Path) -> None:
    """Make the model file's folder a submodule with its own environment."""
    inner = folder / "inner"
    inner.mkdir()
    (inner / ".git").write_text("gitdir: ../.git/modules/inner\n")
    environment(inner / ".venv")
    (folder / "model.py").rename(inner / "model.py")
    os.symlink("inner/model.py", folder / "model.py")
    os.chdir(inner)


CASES: dict[str, Build] = {
    "python": config("python = './evil'\n"),
    "python-without-folder": config("python = 'evil'\n"),
    "python-absolute": config("python = '{folder}/evil'\n"),
    "python-outside": config("python = '../clone/evil'\n"),
    "python-link": config("python = './link'\n"),
    "python-environment": config("python = 'env'\n"),
    "python-list": config("python = ['./evil', './link']\n"),
    "python-of-a-command": config("[check]\npython = './evil'\n"),
    "python-of-a-file": config("[[files]]\npattern = '*.py'\npython = './evil'\n"),
    "python-of-a-command-and-a-file": config("[[files]]\npattern = '*.py'\ncheck = {{python = './evil'}}\n"),
    "python-pyproject": config("[tool.tcexplore]\npython = './evil'\n", "pyproject.toml"),
    "python-home": config("python = '~/../clone/evil'\n"),
    "trusts-itself": config("trust = true\npython = './evil'\n"),
    "trusts-itself-in-a-table": config("python = './evil'\n[check]\ntrust = true\n"),
    "editor": config("editor = './evil'\n"),
    "keymap-with-a-command": config("[keymap]\nfix = '!./evil'\n"),
    "theme-with-a-file": config("theme = './evil'\n"),
    "command": config("[run]\ncommand = './evil'\n"),
    "compiler": config("compile-arg = \"options={{'cpp.cxx': './evil'}}\"\n"),
    "compiler-in-a-list": config("compile-arg = [\"options={{'cpp.cxx': ['./evil', 'g++']}}\"]\n"),
    "compiler-as-a-call": config('compile-arg = "options=dict(a=1)"\n'),
    "report-over-a-start-file": config("markdown = '{home}/.bashrc'\n"),
    "report-above": config("sarif = '../home/.bashrc'\n"),
    "report-through-a-link": config("junit = 'reports/.bashrc'\n"),
    "report-in-version-control": config("gitlab = '.git/config'\n"),
    "report-at-home": config("markdown = '~/.bashrc'\n"),
    ".venv": environments(".venv"),
    "venv": environments("venv"),
    "both": environments(".venv", "venv"),
    "linked-environment": linked_environment,
    "linked-interpreter": linked_interpreter,
    "linked-programs": linked_programs,
    "python3-only": second_name,
    "linked-mark": linked_mark,
    "submodule": nested,
}


@pytest.mark.parametrize("name", CASES)
def test_nothing_of_a_new_repository_is_executed(name: str, repository: Path, capsys: pytest.CaptureFixture[str]):
    CASES[name](repository)
    with suppress(SystemExit):  # an invalid configuration
        main(["check", "model.py"])
    assert not canary(repository).exists()
    assert (repository.parent / "home" / ".bashrc").read_text() == "# mine\n"
    error = capsys.readouterr().err
    assert "Traceback" not in error
    if "venv" in name or (name.startswith("python") and name != "python-list"):
        assert "--trust" in error
    with suppress(SystemExit, BadFileError):
        python_choice(parse(["doctor"]), str(repository / "model.py"))
    assert not canary(repository).exists()


MARK = "import os\nopen(os.environ['CANARY'], 'w').close()\nraise SystemExit('executed')\n"
SHADOWS = ("random.py", "signal.py", "json/__init__.py", "tomllib.py", "sitecustomize.py")
"""Modules of the working folder that would replace those of Python or its packages."""

PROGRAMS = {
    "python -m": ([sys.executable, "-m", "tcexplore", "check", "model.py"], SHADOWS[:4]),
    "serve": (OWN_PYTHON.command("tcexplore.__main__", "check", "model.py"), (*SHADOWS[:4], "tcexplore.py")),
    "query of an interpreter": ([sys.executable, "-c", _QUERY], (*SHADOWS[:4], "torch/__init__.py", "re.py", "os.py")),
}
"""Commands that tcexplore or the user starts in the working folder, and the modules that these would find first."""


@pytest.mark.parametrize(
    ("name", "module"), [(name, each) for name, (_, modules) in PROGRAMS.items() for each in modules]
)
def test_modules_of_the_working_folder_are_not_imported(name: str, module: str, repository: Path):
    file = repository / module
    file.parent.mkdir(exist_ok=True)
    file.write_text(MARK)
    root = str(Path(__file__).parents[2])
    variables = {**os.environ, "CANARY": str(canary(repository)), "PYTHONPATH": root}
    done = subprocess.run(PROGRAMS[name][0], cwd=repository, env=variables, capture_output=True, text=True, check=False)
    assert "executed" not in done.stderr
    assert not canary(repository).exists()


def test_the_doctor_imports_nothing_from_the_working_folder(repository: Path):
    """Also with an empty entry in PYTHONPATH, which stands for the working folder."""
    for module in ("random.py", "torch.py", "triton.py"):
        (repository / module).write_text(MARK)
    environment(repository / ".venv")
    root = str(Path(__file__).parents[2])
    variables = {**os.environ, "CANARY": str(canary(repository)), "PYTHONPATH": f"{root}:"}
    program = (
        "import os, sys\nfrom tcexplore.__main__ import main\nfrom tcexplore.cli import doctor_command as doctor\n"
        "doctor.run_trials = lambda *_: ()\ndoctor.probe_machine = lambda python: sys.exit(os.getcwd())\n"
        "main(['doctor'])\n"
    )
    script(repository.parent / "start.py", program)
    done = run_bounded([sys.executable, str(repository.parent / "start.py")], 60, env=variables, cwd=str(repository))
    assert done.errors.decode().strip().endswith("/")
    assert not canary(repository).exists()


def test_an_answer_is_asked_for_once_and_remembered(repository: Path, monkeypatch: pytest.MonkeyPatch):
    environment(repository / ".venv")
    questions: list[str] = []

    def ask(question: str, *, answer: bool) -> bool:
        questions.append(question)
        return answer

    file = str(repository / "model.py")
    for answer in (False, True):
        monkeypatch.setattr(
            "tcexplore.cli.file_argument.terminal_ask", lambda answer=answer: partial(ask, answer=answer)
        )
        choice = python_choice(parse(["check", "model.py"]), file)
        assert choice.python is OWN_PYTHON
        assert choice.skipped[0].untrusted
    assert len(questions) == 1
    assert f"{repository} is opened for the first time" in questions[0]
    assert not canary(repository).exists()
    assert python_choice(parse(["check", "model.py", "--trust"]), file).python.source == str(repository / ".venv")
    assert python_choice(parse(["check", "model.py"]), file).python.source == str(repository / ".venv")
    assert (repository.parent / "home" / "state" / "tcexplore" / "trust.json").stat().st_mode & 0o077 == 0


def test_consent_to_a_repository_is_none_to_one_inside_it_or_above(repository: Path):
    environment(repository / ".venv")
    assert python_choice(parse(["check", "model.py", "--trust"]), str(repository / "model.py")).python.source
    inner = repository / "inner"
    (inner / ".git").mkdir(parents=True)
    environment(inner / ".venv")
    assert python_choice(parse(["check", "model.py"]), str(inner / "model.py")).skipped[0].untrusted
    environment(repository.parent / ".venv")
    (repository.parent / ".git").mkdir()
    assert python_choice(parse(["check", "model.py"]), str(repository.parent / "model.py")).skipped[0].untrusted


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="files of another user")
OTHER = 54_321
"""Number of a user that does not exist."""


@needs_root
@pytest.mark.parametrize("part", ["bin/python", "bin", "", "link"])
def test_an_environment_of_another_user_is_not_run_even_in_a_trusted_folder(part: str, repository: Path):
    folder = environment(repository / ".venv")
    if part == "link":
        (folder / "bin" / "python").rename(folder / "real")
        os.symlink(folder / "real", folder / "bin" / "python")
        os.lchown(folder / "bin" / "python", OTHER, OTHER)
    else:
        os.chown(folder / part, OTHER, OTHER)
    choice = python_choice(parse(["check", "model.py", "--trust"]), str(repository / "model.py"))
    assert choice.python is OWN_PYTHON
    assert f"belongs to user {OTHER}" in choice.skipped[0].reason
    assert not canary(repository).exists()


@needs_root
def test_a_whole_clone_of_another_user_is_run_after_consent(repository: Path):
    environment(repository / ".venv")
    for path in (repository, *repository.rglob("*")):
        os.lchown(path, OTHER, OTHER)
    file = str(repository / "model.py")
    assert python_choice(parse(["check", "model.py"]), file).skipped[0].untrusted
    assert python_choice(parse(["check", "model.py", "--trust"]), file).python.source


@pytest.mark.parametrize("part", ["bin/python", "bin", ""])
def test_an_environment_that_everyone_can_change_is_not_run(part: str, repository: Path):
    folder = environment(repository / ".venv")
    (folder / part).chmod(0o777)
    choice = python_choice(parse(["check", "model.py", "--trust"]), str(repository / "model.py"))
    assert "can be changed by every user" in choice.skipped[0].reason
    assert not canary(repository).exists()


def test_answers_that_others_can_write_do_not_count(repository: Path):
    environment(repository / ".venv")
    file = str(repository / "model.py")
    assert python_choice(parse(["check", "model.py", "--trust"]), file).python.source
    (repository.parent / "home" / "state" / "tcexplore" / "trust.json").chmod(0o666)
    assert python_choice(parse(["check", "model.py"]), file).skipped[0].untrusted
