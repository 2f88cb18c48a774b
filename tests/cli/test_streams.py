"""Standard streams that are closed, or take no more text."""

from __future__ import annotations

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
