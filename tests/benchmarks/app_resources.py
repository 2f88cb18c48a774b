"""What the app costs: while nothing happens, and after many saves with broken ones between.

    python -m tests.benchmarks.app_resources idle [--settle 60]
    python -m tests.benchmarks.app_resources saves [--saves 300]

`idle` waits until a run is complete and its timing rests, then measures 20 s: bytes sent to the terminal, CPU time of
the front end and of all its processes. `saves` saves as soon as the last save is answered; every third save has a
syntax error or raises. It prints memory, file descriptors and processes of the front end, and the processes that are
left after it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.save_to_paint import MODEL, atomic_save, constant
from tests.terminal import Terminal

IDLE_S = 20
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
EMPTY = """
import os
from textual.app import App
class Empty(App):
    def on_ready(self):
        with open("/proc/self/status") as status, open(os.environ["OUT"], "w") as out:
            print(*[line for line in status if line.startswith("VmRSS")], file=out)
        self.exit()
Empty().run()
"""


def session_processes(leader: int) -> dict[int, float]:
    """Return the CPU seconds of each process that `leader` started, directly or not, and of itself."""
    parents, seconds = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            values = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if values[0] != "Z":
            parents[int(folder.name)] = int(values[1])
            seconds[int(folder.name)] = (int(values[11]) + int(values[12])) / TICKS_PER_S
    family = {leader}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    return {pid: seconds[pid] for pid in family if pid in seconds}


def memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def started(folder: Path) -> Terminal:
    file = folder / "model.py"
    file.write_text(MODEL.replace("CONSTANT", constant(0)))
    terminal = Terminal([sys.executable, "-m", "tcexplore", str(file)], columns=130, rows=50, cwd=str(folder))
    terminal.type("2z")  # the graph pane alone on the screen
    return terminal


def read_for(terminal: Terminal, seconds: float) -> int:
    """Read for some seconds; return the number of bytes."""
    before, end = terminal.written, time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        terminal.read_once(left)
    return terminal.written - before


def idle(folder: Path, settle_s: float) -> None:
    """Print what 20 s without any activity cost."""
    with started(folder) as terminal:
        terminal.wait_for(constant(0), 120)
        read_for(terminal, settle_s)
        pid = terminal.process.pid
        before = session_processes(pid)
        size = read_for(terminal, IDLE_S)
        after = session_processes(pid)
    used = {process: seconds - before.get(process, 0.0) for process, seconds in after.items()}
    front, rest = used.pop(pid), sum(used.values())
    print(f"idle for {IDLE_S} s, {settle_s:.0f} s after the first graph, {len(after)} processes")
    print(f"bytes to the terminal   {size:8,}")
    print(f"front end               {front / IDLE_S:8.2%} of a core")
    print(f"all its workers         {rest / IDLE_S:8.2%} of a core")


def edited(number: int) -> tuple[str, str]:
    """Return the text of a save, and what is painted for it."""
    text = MODEL.replace("CONSTANT", constant(number))
    if number % 6 == 3:
        lines = MODEL.splitlines() + ["#"] * number
        return text + "#\n" * number + "broken = = 1\n", f"line {len(lines) + 1}:"
    if number % 6 == 0:
        return f"{text}\nraise ValueError('wrong {number} now')\n", f"wrong {number} now"
    return text, constant(number)


def saves(folder: Path, count: int) -> None:
    """Print how the front end grows with the saves."""
    with started(folder) as terminal:
        terminal.wait_for(constant(0), 120)
        read_for(terminal, 8)
        pid, times = terminal.process.pid, []
        for number in range(1, count + 1):
            terminal.forget()
            text, painted = edited(number)
            saved = atomic_save(folder / "model.py", text)
            times.append(terminal.wait_for(painted, 30) - saved)
            if number % 50 == 0:
                print(f"{number:4} saves: {memory_mb(pid):6.1f} MB, {descriptors(pid)} descriptors, "
                      f"{len(session_processes(pid))} processes", flush=True)  # fmt: skip
        family = session_processes(pid)
        terminal.type("q")
        terminal.wait(10)
        left = [process for process in family if os.path.exists(f"/proc/{process}")]
    print(f"save to paint: median {statistics.median(times) * 1e3:.0f} ms, worst {max(times) * 1e3:.0f} ms")
    print(f"processes left after q: {len(left)}")


def empty_app_mb(folder: Path) -> float:
    """Return the memory of an empty Textual app."""
    out = folder / "out"
    with Terminal([sys.executable, "-c", EMPTY], env={"OUT": str(out)}) as terminal:
        terminal.wait(20)
    return int(out.read_text().split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("idle", "saves"))
    parser.add_argument("--settle", type=float, default=60.0)
    parser.add_argument("--saves", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.part == "idle":
            idle(Path(folder), options.settle)
        else:
            print(f"empty Textual app: {empty_app_mb(Path(folder)):.1f} MB")
            saves(Path(folder), options.saves)


if __name__ == "__main__":
    main()
