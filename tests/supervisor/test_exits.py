"""Exit statuses and crash tracebacks are explained."""

from __future__ import annotations

import signal

import pytest

from tcexplore.events import Failed, Finished, Job, Location
from tcexplore.supervisor.exits import explain_exit, explain_late_exit, explain_stop

JOB = Job(run=7, file="/home/me/model.py", source="")
CRASH = """\
Fatal Python error: Segmentation fault

Thread 0x00007f0b31c546c0 (most recent call first):
  File "/home/me/model.py", line 99 in elsewhere

Current thread 0x00007f0b64c75b80 (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/home/me/model.py", line 3 in bad
  File "/home/me/model.py", line 4 in <module>
"""


def test_a_crash_in_user_code_has_the_line_of_the_crashed_thread() -> None:
    failed = explain_exit(-signal.SIGSEGV, JOB, CRASH)
    assert (failed.run, failed.blame, failed.type) == (7, "user", "SIGSEGV")
    assert failed.location == Location("/home/me/model.py", 3, "bad")
    assert "segmentation fault" in failed.message
    assert "elsewhere" not in failed.traceback


def test_a_crash_inside_torch_is_attributed_to_the_compiler() -> None:
    crash = CRASH.replace("/usr/lib/python3.11/ctypes/__init__.py", "/site-packages/torch/_inductor/runtime.py")
    assert explain_exit(-signal.SIGSEGV, JOB, crash).blame == "compiler"
    assert explain_exit(-signal.SIGSEGV, JOB, "").blame == "compiler"


@pytest.mark.parametrize(("code", "part"), [(-signal.SIGKILL, "memory"), (0, "status 0"), (4, "status 4"), (-99, "99")])
def test_every_exit_status_has_a_message(code: int, part: str) -> None:
    assert part in explain_exit(code, JOB, "").message


def test_stopping_fails_an_incomplete_run_and_finishes_one_that_is_only_timed() -> None:
    failed = explain_stop("eager", JOB, CRASH)
    assert isinstance(failed, Failed)
    assert (failed.stage, failed.type, failed.location) == ("eager", "Stopped", Location("/home/me/model.py", 3, "bad"))
    assert explain_stop("timing", JOB, CRASH) == Finished(run=7)


def test_an_exit_after_the_compile_costs_one_fact() -> None:
    missing = explain_late_exit(4, "accuracy", JOB)
    assert missing is not None
    assert (missing.run, missing.fact) == (7, "accuracy")
    assert "status 4" in missing.reason
    assert explain_late_exit(4, "dynamo", JOB) is None
    assert explain_late_exit(-signal.SIGSEGV, "timing", JOB) is None
