"""Standard streams that are closed, or take no more text."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

RUN = f"{sys.executable} -m tcexplore"


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_a_report_that_cannot_be_printed_is_an_error_in_one_line():
    command = "from tcexplore.cli import dispatch; dispatch._COMMANDS['doctor'] = lambda _: print('x' * 9999) or 0\n"
    code = f"import sys; {command}from tcexplore.cli import main; sys.exit(main(['doctor']))"
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" > /dev/full', sys.executable, code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == ("tcexplore: the report cannot be written to standard output: No space left on device\n")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(closed: str):
    done = subprocess.run(["sh", "-c", f"{RUN} --version {closed}"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_terminal_that_was_closed_before_the_app_began_ends_it(tmp_path: Path):
    (tmp_path / "m.py").write_text("x = 1\n")
    code = "import os, sys; os.read(int(sys.argv[1]), 1); from tcexplore.cli import main; sys.exit(main(['m.py']))"
    master, slave = pty.openpty()
    closed, close = os.pipe()
    command = [sys.executable, "-c", code, str(closed)]
    app = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, cwd=tmp_path, pass_fds=[closed])
    os.close(slave)
    os.close(master)
    os.write(close, b"x")
    assert app.wait(60) == 129
    os.close(closed)
    os.close(close)


@pytest.mark.parametrize("locale", ["C", "POSIX"])
def test_json_is_printed_in_an_ascii_locale(tmp_path: Path, locale: str):
    (tmp_path / "model.py").write_text("x = = 'é'\n", encoding="utf-8")
    variables = {**os.environ, "LC_ALL": locale, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "tcexplore", "check", "model.py", "--json"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, check=False)
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["type"] == "SyntaxError"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [(("--target", "edge.toml"), "edge.toml"), (("--github",), "SyntaxError"), (("--sarif", "/dev/null"), "/dev/null")],
)
def test_a_removed_working_folder_is_no_traceback(tmp_path: Path, arguments: tuple[str, ...], text: str):
    (tmp_path / "model.py").write_text("x = =\n")
    (tmp_path / "removed").mkdir()
    command = [sys.executable, "-m", "tcexplore", "check", str(tmp_path / "model.py"), *arguments]
    program = 'rmdir ../removed; exec "$@"'
    done = subprocess.run(
        ["sh", "-c", program, "sh", *command], cwd=tmp_path / "removed", capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert text in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
