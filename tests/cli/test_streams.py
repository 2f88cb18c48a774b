"""Standard streams that are closed, or take no more text."""

from __future__ import annotations

import subprocess
import sys

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
