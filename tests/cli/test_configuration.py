"""Configuration files: where they are searched, which value applies, and what is refused."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tcexplore.cli import main
from tcexplore.cli.arguments import parse
from tcexplore.cli.configuration import MOST_BYTES, ONE_CALL, ConfigValue, converted, key_lines, project_config
from tcexplore.cli.options import Request
from tcexplore.keymap import use_keymap
from tcexplore.ui.appearance import Appearance

PROJECT = """
[project]
name = "mine"

[tool.tcexplore]
target = "h100"
max-breaks = 3
own = [
    "models",
    "lib",
]

[tool.tcexplore.check]
timeout = 100
max-breaks = 2

[[tool.tcexplore.files]]
pattern = "models/*.py"
max-breaks = 0
input = ["f32[4]"]
train = true
modes.dynamic = [true, "auto"]

[tool.tcexplore.sweep]
sizes = [1, 2, 4]
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a model in a folder and one at its root; it is the working directory."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "models").mkdir()
    for name in ("models/net.py", "net.py"):
        (tmp_path / name).write_text("import torch\n")
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    return tmp_path


def user_file(project: Path, text: str) -> None:
    (project / "home" / "tcexplore").mkdir(parents=True)
    (project / "home" / "tcexplore" / "tcexplore.toml").write_text(text)


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line on stderr of arguments that are refused with 2."""
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
    return err


def test_a_file_sets_options_and_the_command_line_overrides_them(project: Path):
    request = parse(["check", "net.py"])
    assert (request.config.target, request.limits.max_breaks, request.timeout) == ("h100", 2, 100.0)
    assert request.limits.own == (str(project / "models"), str(project / "lib")), "relative to the file"
    request = parse(["check", "net.py", "--target", "l4", "--max-breaks", "9", "--own", "x"])
    assert (request.config.target, request.limits.max_breaks, request.limits.own) == ("l4", 9, ("x",))
    assert parse(["net.py"]).config.target == "h100"


def test_a_pattern_sets_options_of_some_files(project: Path, monkeypatch: pytest.MonkeyPatch):
    request = parse(["check", "models/net.py:model"])
    assert (request.limits.max_breaks, request.config.inputs, request.config.train) == (0, ("f32[4]",), True)
    (project / "tcexplore.toml").write_text("[[files]]\npattern = ['a*.py', 'n*.py']\nseed = 4")
    assert parse(["check", "models/net.py"]).config.seed == 4
    (project / "tcexplore.toml").unlink()
    assert parse(["check", "models/net.py", "--no-train"]).config.train is False
    assert parse(["check", "net.py"]).config.inputs == ()
    assert parse(["modes", "models/net.py"]).study.dynamic == (True, None)
    monkeypatch.chdir(project / "models")
    assert parse(["check", "net.py"]).limits.max_breaks == 0, "the pattern is relative to the file, not to the folder"


def test_a_required_option_may_come_from_a_file(project: Path, capsys: pytest.CaptureFixture[str]):
    assert parse(["sweep", "net.py"]).study.sizes == (1, 2, 4)
    (project / "pyproject.toml").unlink()
    assert "the following arguments are required: --sizes" in refusal(["sweep", "net.py"], capsys)


def test_the_users_file_is_below_the_projects(project: Path):
    user_file(project, 'target = "l4"\nthreads = 3\n[check]\nmax-breaks = 7\n')
    request = parse(["check", "net.py"])
    assert (request.config.target, request.config.threads, request.limits.max_breaks) == ("h100", 3, 2)


def test_the_nearest_file_wins_and_the_root_of_the_repository_ends_the_search(project: Path):
    (project / "models" / "tcexplore.toml").write_text("max-breaks = 5")
    request = parse(["check", "models/net.py"])
    assert (request.limits.max_breaks, request.config.target) == (5, "native")
    (project / "models" / "tcexplore.toml").unlink()
    (project / "models" / ".git").mkdir()
    assert parse(["check", "models/net.py"]).limits.max_breaks is None


def test_a_file_of_its_own_comes_before_pyproject(project: Path):
    (project / "tcexplore.toml").write_text("threads = 1")
    assert (parse(["net.py"]).config.threads, parse(["net.py"]).config.target) == (1, "native")


def test_a_folder_open_to_all_is_searched_only_for_the_files_in_it(project: Path):
    (project / ".git").rmdir()
    project.chmod(0o1777)
    assert parse(["net.py"]).config.target == "h100"
    assert parse(["models/net.py"]).config.target == "native"


@pytest.mark.parametrize("text", ["[tool.other]\n= = =\n", "[tool.other]\ntcexplore = ['*.json']\n= = =\n"])
def test_a_pyproject_without_the_table_may_be_broken(text: str, project: Path):
    (project / "pyproject.toml").write_text(text)
    assert parse(["net.py"]).config.target == "native"


@pytest.mark.parametrize(
    "text",
    [
        "tool.tcexplore.target = 'h200'",
        "[ tool . 'tcexplore' ]\ntarget = 'h200'",
        "[tool]\ntcexplore.target = 'h200'",
        "['tool']\nother = 1\n'tcexplore' = { target = 'h200' }",
    ],
)
def test_the_table_in_a_pyproject_is_found_in_every_notation(text: str, project: Path):
    (project / "pyproject.toml").write_text(text)
    assert parse(["net.py"]).config.target == "h200"


def test_a_pyproject_with_many_tables_takes_linear_time(project: Path):
    (project / "pyproject.toml").write_text("[tool]\n" * 100_000)
    assert parse(["net.py"]).config.target == "native"


def test_options_of_a_study_with_another_meaning_are_set_in_its_table_only(project: Path):
    (project / "tcexplore.toml").write_text("dynamic = true\n[modes]\nmodes = ['lite']\n")
    assert parse(["net.py"]).config.dynamic is True
    assert parse(["modes", "net.py"]).study.dynamic == ()
    assert parse(["modes", "net.py"]).study.modes == ("lite",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max-braeks = 0", "tcexplore.toml:1: unknown key 'max-braeks'. Did you mean 'max-breaks'?"),
        ("max_breaks = 0", "Did you mean 'max-breaks'?"),
        ("\n[chek]\nmax-breaks = 1", "tcexplore.toml:2: unknown key 'chek'. Did you mean 'check'?"),
        ("[check]\n# x\nmax-beaks = 1", "tcexplore.toml:3: unknown key 'max-beaks'. Did you mean 'max-breaks'?"),
        ("[[files]]\npattern = 'x'\ntrian = true", "tcexplore.toml:3: unknown key 'trian'. Did you mean 'train'?"),
        ("[[files]]\ntrain = true", "tcexplore.toml:1: each entry needs a pattern"),
        ("[[files]]\npattern = ['a', 1]", "tcexplore.toml:1: each entry needs a pattern"),
        ("files = 1", "tcexplore.toml:1: write [[files]]"),
        ('max-breaks = "0"', "tcexplore.toml:1: max-breaks is a number: write 0 without quotes."),
        ("max-breaks = -1", "tcexplore.toml:1: max-breaks: -1 is below 0."),
        ("max-breaks = true", "'true' is not an integer"),
        ("max-breaks = [1, 2]", "'1,2' is not an integer"),
        ("max-breaks = 1979-05-27", "is not a text or a number"),
        ("min-cache-hits = 7", "7 is above 1"),
        ("train = 1", "tcexplore.toml:1: train is not true or false."),
        ('dynamic = "maybe"', "'maybe' is not one of true, false, auto"),
        ("device = 3", "device is a text: write '3' with quotes"),
        ("own = [[1]]", "own is not a text"),
        ('target = "v100"', "use one of a100, b200, b300"),
        ("check = 3", "check is not a table of options"),
        ("json = true", "'json' belongs to one call"),
        ('"\\u001b[31m" = 1', "unknown key '\\x1b[31m'"),
        ("a = [[[", "is not valid TOML"),
        (f"threads = {'9' * 5000}", "is not valid TOML"),
        (f"threads = {'[' * 50_000}", "is not valid"),
    ],
)
def test_an_invalid_file_is_refused_with_its_line(
    project: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
):
    (project / "tcexplore.toml").write_text(text)
    line = refusal(["check", "net.py"], capsys)
    assert message in line
    assert "\x1b" not in line


def test_a_hostile_file_gives_one_error(project: Path, capsys: pytest.CaptureFixture[str]):
    file = project / "tcexplore.toml"
    file.write_bytes(b"a = 1\nb = '\xff'\n")
    assert "tcexplore.toml:2: the file is not valid UTF-8." in refusal(["net.py"], capsys)
    file.write_text("# " + "x" * MOST_BYTES)
    assert "is larger than 1 MiB" in refusal(["net.py"], capsys)
    file.unlink()
    file.symlink_to("/dev/zero")
    assert "is not a regular file" in refusal(["net.py"], capsys)
    file.unlink()
    file.symlink_to(file)
    assert "cannot be read: Too many levels of symbolic links" in refusal(["net.py"], capsys)
    file.unlink()
    os.mkfifo(file)
    assert "is not a regular file" in refusal(["net.py"], capsys)
    file.unlink()
    file.mkdir()
    assert "tcexplore.toml" in refusal(["net.py"], capsys)


def explained(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[object, str, object]]:
    assert main(["config", "--json", *arguments]) == 0
    result = json.loads(capsys.readouterr().out)
    return {name: (each["value"], each["source"], each["line"]) for name, each in result["values"].items()}


@pytest.mark.usefixtures("project")
def test_config_explains_where_each_value_is_from(capsys: pytest.CaptureFixture[str]):
    values = explained(["models/net.py", "--threads", "2"], capsys)
    assert values["max-breaks"] == (0, "file", 19)
    assert values["target"] == ("h100", "file", 6)
    assert values["threads"] == (2, "flag", None)
    assert values["check.timeout"] == (100.0, "file", 14)
    assert values["modes.dynamic"] == ([True, None], "file", 22)
    assert values["mode"] == ("default", "default", None)
    assert values["dynamic"] == ("auto", "default", None)
    assert explained(["net.py"], capsys)["check.max-breaks"] == (2, "file", 15)


def test_an_environment_variable_is_between_file_and_command_line(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (project / "tcexplore.toml").write_text("no-history = false")
    assert parse(["net.py"]).history is True
    monkeypatch.setenv("TCEXPLORE_NO_HISTORY", "1")
    assert parse(["net.py"]).history is False
    assert parse(["net.py", "--history"]).history is True
    assert explained(["net.py"], capsys)["no-history"] == (True, "environment", None)
    monkeypatch.setenv("TCEXPLORE_NO_HISTORY", "0")
    assert explained(["net.py"], capsys)["no-history"] == (False, "file", 1)


def test_the_documented_examples_are_valid(project: Path, capsys: pytest.CaptureFixture[str]):
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "configuration.md").read_text()
    examples = re.findall(r"```toml\n(.*?)```", page + (docs / "keys.md").read_text(), re.S)
    assert len(examples) >= 4
    for example in examples:
        (project / "pyproject.toml").write_text(example if "[tool." in example else "")
        (project / "tcexplore.toml").unlink(missing_ok=True)
        (project / "boards").mkdir(exist_ok=True)
        (project / "boards" / "edge.toml").write_text("like = 'l4'")
        if "[tool." not in example:
            (project / "tcexplore.toml").write_text(example)
        assert main(["config"]) == 0, capsys.readouterr().err
    assert {name for name in ONE_CALL if f"`--{name}`" not in page} == {"help", "version"}
    assert "--no-train" not in capsys.readouterr().out


def test_theme_and_keymap_come_from_files_and_options(project: Path, capsys: pytest.CaptureFixture[str]):
    file = project / "tcexplore.toml"
    file.write_text("theme = 'nord'\n[keymap]\npreset = 'vim'\nfix = 'ctrl+a'\n")
    chosen = parse(["net.py"]).appearance
    assert (chosen.theme, chosen.keymap["fix"], chosen.keymap["left"]) == ("nord", "ctrl+a", "left,h")
    assert parse(["net.py", "--keymap", "default", "--theme", "gruvbox"]).appearance == Appearance("gruvbox", {}, {})
    file.write_text("[theme]\nbase = 'nord'\nprimary = 'red'\n")
    assert parse(["open", "trace"]).appearance == Appearance("nord", {"primary": "red"}, {})
    for text, message in (
        ("keymap = 'emacs'", "tcexplore.toml:1: keymap: there is no keymap 'emacs'; use one of default, lazygit, vim."),
        ("[keymap]\n\nfixx = 'a'", "tcexplore.toml:3: fixx: there is no action 'fixx'; did you mean 'fix'?"),
        ("[keymap]\nfix = 'z'", "tcexplore.toml:2: fix: z is the key of 'zoom' and of 'fix'"),
        ("theme = 'drakula'", "tcexplore.toml:1: theme: there is no theme 'drakula'; did you mean 'dracula'?"),
        ("[theme]\nbase = 'x'", "tcexplore.toml:2: base: there is no theme 'x'"),
        ("[theme]\nprimery = 'red'", "did you mean 'primary'?"),
        ("[theme]\nprimary = 'reddish'", "'reddish' is not a color"),
        ("theme = 3", "theme: "),
    ):
        file.write_text(text)
        assert message in refusal(["net.py"], capsys)


def test_targets_of_the_project_are_offered(project: Path, capsys: pytest.CaptureFixture[str]):
    (project / "edge.toml").write_text("like = 'l4'")
    file = project / "tcexplore.toml"
    file.write_text("targets = ['edge.toml']")
    assert parse(["models/net.py"]).appearance.targets == (str(project / "edge.toml"),)
    file.write_text("targets = ['h100']")
    assert "is not a .toml file" in refusal(["net.py"], capsys)
    file.write_text("targets = ['missing.toml']")
    assert "tcexplore.toml:1: targets: " in refusal(["net.py"], capsys)


def test_the_models_python_is_a_path_or_a_name(project: Path):
    parser = argparse.ArgumentParser()
    action = parser.add_argument("--python", action="append", metavar="PATH")
    (project / ".venv").mkdir()
    (project / "tcexplore.toml").write_text("threads = 1")
    file = project_config(str(project))
    assert file is not None
    pythons = {
        text: converted(action, ConfigValue(text, file, ("python",))) for text in (".venv", "env/bin/python", "python3")
    }
    assert pythons == {
        ".venv": [str(project / ".venv")], "env/bin/python": [str(project / "env/bin/python")], "python3": ["python3"],
    }  # fmt: skip


def test_config_lists_actions_and_keys(project: Path, capsys: pytest.CaptureFixture[str]):
    (project / "tcexplore.toml").write_text("keymap = 'lazygit'")
    assert main(["config", "--keys", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["keymap"] == "lazygit"
    assert result["actions"]["next-pane"]["keys"] == ["right", "l", "tab"]
    assert main(["config", "--keys", "--keymap", "vim"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("follow "))
    assert "^]" in line
    use_keymap({})


def test_config_prints_the_files_and_the_values_that_they_set(project: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["config", "models/net.py"]) == 0
    text = capsys.readouterr().out
    assert str(project / "pyproject.toml") in text
    assert '"h100"' in text
    assert "pyproject.toml:6" in text
    assert "seed" not in text
    assert main(["config", "--explain", "models/net.py", "--mode", "lite"]) == 0
    text = capsys.readouterr().out
    assert "command line, --mode" in text
    assert text.count(" default\n") > 30


def test_check_does_not_import_textual_for_a_theme(project: Path):
    (project / "tcexplore.toml").write_text("theme = 'nord'\nkeymap = 'vim'\nmax-breaks = 1")
    code = "import sys\nfrom tcexplore.cli.arguments import parse\nparse(['check', 'net.py'])\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"textual", "torch"} & set(done.stdout.split())


def test_config_checks_every_table(project: Path, capsys: pytest.CaptureFixture[str]):
    (project / "tcexplore.toml").write_text("[modes]\nbakends = ['x']\n")
    assert parse(["net.py"]).command == "app"
    assert main(["config"]) == 2
    assert "tcexplore.toml:2: unknown key 'bakends'. Did you mean 'backends'?" in capsys.readouterr().err


def test_lines_of_keys_are_those_of_the_file():
    text = (
        'a = """\nb = 1\n"""\n[t]  # x\nb = [\n 1,\n 2,\n]\n"c d".e = {f = 1}\n'
        "[[t.g]]\nx = 1\n[[t.g]]\ny = 1\n[t.g.h]\nz = 1"
    )
    tomllib.loads(text)
    assert key_lines(text) == {
        ("a",): 1, ("t",): 4, ("t", "b"): 5, ("t", "c d"): 9, ("t", "c d", "e"): 9, ("t", "c d", "e", "f"): 9,
        ("t", "g", 0): 10, ("t", "g", 0, "x"): 11, ("t", "g", 1): 12, ("t", "g", 1, "y"): 13,
        ("t", "g", 1, "h"): 14, ("t", "g", 1, "h", "z"): 15,
    }  # fmt: skip
    assert key_lines("[t]\r\na = [\r\n1]\r\nb = 1\r\n") == {("t",): 1, ("t", "a"): 2, ("t", "b"): 4}
    assert key_lines("a = [\n" + "1,\n" * 5000 + "]\nb = 1") == {}, "a huge value costs little time"


def test_a_command_line_without_files_is_parsed_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    request = parse(["check", "net.py", "--train"])
    assert isinstance(request, Request)
    assert (request.config.override, request.config.train, request.limits.own) == ((), True, ())
