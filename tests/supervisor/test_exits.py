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


@pytest.mark.parametrize(
    ("out_of_memory", "part"), [(True, "because memory ran out"), (False, "not because memory ran out")]
)
def test_sigkill_names_memory_only_if_the_system_killed_a_process_for_it(out_of_memory: bool, part: str) -> None:
    assert f" {part}" in explain_exit(-signal.SIGKILL, JOB, "", out_of_memory).message


def test_stopping_fails_an_incomplete_run_and_finishes_one_with_only_optional_stages_left() -> None:
    failed = explain_stop("eager", JOB, CRASH, optional=False)
    assert isinstance(failed, Failed)
    assert (failed.stage, failed.type, failed.location) == ("eager", "Stopped", Location("/home/me/model.py", 3, "bad"))
    assert explain_stop("accuracy", JOB, CRASH, optional=True) == Finished(run=7)


LATE = {
    "exit": (4, "", "the program ended its own process with status 4, and with it all later steps"),
    "broken": (70, "", "the program replaced parts of Python that tcexplore needs"),
    "crash": (
        -signal.SIGSEGV,
        CRASH,
        "the process crashed with a segmentation fault, which ended all later steps (model.py, line 3)",
    ),
    "crash in torch": (
        -signal.SIGSEGV,
        "",
        "the process crashed with a segmentation fault in the compiler, which ended all later steps",
    ),
    "no memory": (
        -signal.SIGKILL,
        "",
        "the process was killed by SIGKILL: by itself, by another process, or because memory ran out, which ended all "
        "later steps",
    ),
    "hang": (
        1,
        f"Timeout (0:00:11)!\n{CRASH.partition('Current ')[0]}",
        "native code did not end within the time limit; the process was ended, and with it all later steps"
        " (model.py, line 99)",
    ),
}


@pytest.mark.parametrize("name", LATE)
def test_an_exit_after_the_compile_costs_one_fact(name: str) -> None:
    code, crash, reason = LATE[name]
    missing = explain_late_exit(code, "accuracy", JOB, crash)
    assert (missing.run, missing.fact, missing.reason) == (7, "accuracy", reason)
