from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tcexplore.timing.timed_machine import OtherProcesses, frequency_governor

TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Return wall and process time, to be set by the test."""
    times = {"wall": 0.0, "own": 0.0}
    monkeypatch.setattr(time, "monotonic", lambda: times["wall"])
    monkeypatch.setattr(time, "process_time", lambda: times["own"])
    return times


def write(stat: Path, busy_s: float, elsewhere_s: float = 0) -> None:
    """Write the CPU seconds of cores 0 and 1 together, and of core 2."""
    user, other = int(busy_s * TICKS), int(elsewhere_s * TICKS)
    rows = [
        f"cpu{core} {ticks} 0 0 123456 0 0 0 0 0 0" for core, ticks in enumerate((user // 2, user - user // 2, other))
    ]
    stat.write_text("\n".join((f"cpu  {user + other} 0 0 123456 0 0 0 0 0 0", *rows, "intr 1 2 3\n")))


def test_the_load_of_others_excludes_this_process(tmp_path: Path, clocks: dict[str, float]):
    stat = tmp_path / "stat"
    write(stat, 100)
    others = OtherProcesses(stat=stat, cores={0, 1})
    assert others.busy_cores() is None, "too early"
    clocks.update(wall=10, own=8)
    write(stat, 100 + 8 + 15)
    assert others.busy_cores() == pytest.approx(1.5, abs=0.01)


BUSY_CHILD = """
import sys, time
while time.process_time() < 0.5:
    pass
print(time.process_time(), flush=True)
sys.stdin.read()
"""


def test_the_load_of_others_excludes_children_of_this_process(tmp_path: Path, clocks: dict[str, float]):
    stat = tmp_path / "stat"
    write(stat, 100)
    others = OtherProcesses(stat=stat, cores={0, 1})
    with subprocess.Popen(
        (sys.executable, "-c", BUSY_CHILD), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        used = float(child.stdout.readline())
        clocks.update(wall=1)
        write(stat, 100 + used + 0.2)
        assert others.busy_cores() == pytest.approx(0.2, abs=0.06), "it runs"
        child.communicate("")
    assert others.busy_cores() == pytest.approx(0.2, abs=0.06), "it has ended"


def test_the_load_of_others_excludes_the_processes_of_the_front_end(tmp_path: Path, clocks: dict[str, float]):
    stat = tmp_path / "stat"
    write(stat, 100)
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY_CHILD!r}])"
    with subprocess.Popen((sys.executable, "-c", parent), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as front_end:
        others = OtherProcesses(front_end.pid, stat, {0, 1})
        assert front_end.stdout is not None
        used = float(front_end.stdout.readline())
        clocks.update(wall=1, own=7)
        write(stat, 100 + used + 0.2)
        assert others.busy_cores() == pytest.approx(0.2, abs=0.1)
        front_end.communicate(b"")


def test_cores_on_which_this_process_may_not_run_do_not_count(tmp_path: Path, clocks: dict[str, float]):
    stat = tmp_path / "stat"
    write(stat, 0)
    others = OtherProcesses(stat=stat, cores={0, 1})
    assert others.cores == 2
    clocks.update(wall=10)
    write(stat, 5, elsewhere_s=10)
    assert others.busy_cores() == pytest.approx(0.5, abs=0.01)


def test_only_the_last_minute_counts(tmp_path: Path, clocks: dict[str, float]):
    stat = tmp_path / "stat"
    write(stat, 0)
    others = OtherProcesses(stat=stat, cores={0, 1})
    clocks.update(wall=100)
    write(stat, 200)
    assert others.busy_cores() == pytest.approx(2, abs=0.01)
    clocks.update(wall=110)
    assert others.busy_cores() == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("content", ["", "cpu0 x y z\n", "cpu7 1 2 3 4 5 6 7 8 9\n", "intr 1 2 3 4 5 6 7 8 9\n"])
def test_without_a_readable_stat_the_load_average_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
):
    stat = tmp_path / "stat"
    stat.write_text(content)
    monkeypatch.setattr(os, "getloadavg", lambda: (3.5, 0, 0))
    assert OtherProcesses(stat=stat, cores={0}).busy_cores() == 2.5


def test_the_governor_is_read_if_available(tmp_path: Path):
    path = tmp_path / "scaling_governor"
    assert frequency_governor(path) == ""
    path.write_text("powersave\n")
    assert frequency_governor(path) == "powersave"
