"""A process ends by its deadline, with its descendants, whatever it waits for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.supervisor.runs import alive, gone

STARTS = """\
import os, signal, subprocess, sys, threading, time
from tcexplore.processes import Deadline, make_temporary_folder
ignores = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
children = []
for options in ({}, {"start_new_session": True}):
    child = subprocess.Popen([sys.executable, "-c", ignores], stdout=subprocess.PIPE, **options)
    child.stdout.readline()
    children.append(child.pid)
print(*children, flush=True)
folder = make_temporary_folder("test")
print(folder, flush=True)
end = Deadline(lambda: print("restored", flush=True), keep=children[:int(sys.argv[1])])
end.begin(7, 0.2)
end.begin(8, 60)
"""
WAITS = {
    "a lock": "lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "a busy loop": "while True: pass",
    "a pipe": "os.read(os.pipe()[0], 1)",
    "a thread that never ends": "threading.Thread(target=time.sleep, args=(600,)).start()",
}


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("name", WAITS)
def test_the_process_ends_with_all_of_its_descendants(name: str):
    command = [sys.executable, "-c", STARTS + WAITS[name], "0"]
    began = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout.splitlines()[2]) == (7, "restored")
    assert time.monotonic() - began < 5
    assert gone({int(pid) for pid in done.stdout.split()[:2]})
    assert not os.path.exists(done.stdout.splitlines()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_kept_process_and_a_cancelled_deadline_go_on():
    command = [sys.executable, "-c", STARTS + WAITS["a lock"], "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.wait(30) == 7
        kept = [int(pid) for pid in process.stdout.readline().split()]
        assert all(map(alive, kept))
        subprocess.run(["kill", "-KILL", *map(str, kept)], check=True)
    program = STARTS + "end.cancel(); time.sleep(1); Deadline().begin(3, 0)\ntime.sleep(60)"
    done = subprocess.run([sys.executable, "-c", program, "0"], capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, "restored" in done.stdout) == (3, False)


LEAVES_AN_ORPHAN = """\
import os, signal, subprocess, sys
from tcexplore.processes import Deadline, adopt_orphans
starts = "import signal, subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=0); "
starts += "child.send_signal(signal.SIGSTOP); print(child.pid, flush=True); input()"
child = subprocess.Popen([sys.executable, "-c", starts], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print(int(child.stdout.readline()), flush=True)
adopt_orphans()
child.kill()
child.wait()
Deadline().begin(7, 0)
os.read(os.pipe()[0], 1)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_stopped_process_of_a_child_that_was_killed_ends_too():
    command = [sys.executable, "-c", LEAVES_AN_ORPHAN]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, timeout=30)
    assert done.returncode == 7
    assert gone({int(done.stdout)})


NEVER_CLEANED_UP = """\
import asyncio, time
from tcexplore.cli.run_once import until_signal

async def work():
    try:
        print("started", flush=True)
        await asyncio.sleep(600)
    finally:
        time.sleep(600)

asyncio.run(until_signal(work(), lambda: print("results", flush=True)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_command_prints_its_results_and_ends_after_a_signal_even_if_it_never_cleans_up():
    with subprocess.Popen([sys.executable, "-c", NEVER_CLEANED_UP], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "results\n"
        assert process.wait(30) == 128 + signal.SIGTERM
