"""Memory of the front end while it follows a long script, and the delay of the screen.

A script makes 1,000 calls, of which 100 recompile with Inductor, then many more warm calls. The app follows it in a
pseudo-terminal with the timeline in view. The benchmark prints the front end's peak memory, and the number of steps in
which the number of calls grew on the screen. The model is one small layer; each compile takes a second, so the
benchmark takes some minutes.

Run: python -m tests.benchmarks.script_memory [--warm 20000]
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import sys
import tempfile
import time
from pathlib import Path

from tests.terminal import Terminal

SCRIPT = """\
import torch

torch._dynamo.config.recompile_limit = 200

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(16, 16)

    def forward(self, x, name):
        return self.fc(x).relu() * len(name)

block = torch.compile(Block())
x = torch.randn(8, 16)
with torch.no_grad():
    for call in range(1000):
        block(x, "n" * (1 + min(call // 9, 100)))
    for call in range(WARM):
        block(x, "n" * 101)
"""

DONE = re.compile(rb"script\s+ran\s+for")
CALLS = re.compile(rb"([\d,]+)\s+calls")


def peak_mib(pid: int) -> float:
    """Return the peak memory of a process, from `/proc`."""
    status = Path(f"/proc/{pid}/status").read_text()
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert peak is not None
    return int(peak[1]) / 1024


def follow_script(warm: int, folder: Path) -> None:
    """Run the app until the timeline shows the whole script."""
    file = folder / "script.py"
    file.write_text(SCRIPT.replace("WARM", str(warm)))
    command = [sys.executable, "-m", "tcexplore", str(file), "--follow", "0"]
    with Terminal(command, columns=160, rows=50, cwd=str(Path(__file__).parents[2])) as terminal:
        terminal.wait_for("Timing", 60)
        print(f"first frame: peak {peak_mib(terminal.process.pid):.0f} MiB")
        terminal.type("6vz")
        updates = call_updates(terminal)
        first = [at for at, calls in updates if calls <= 1000]
        gaps = [later - at for (at, _), (later, _) in itertools.pairwise(updates)]
        print(f"1,000 calls, 100 recompiles: followed over {first[-1] - first[0]:.0f} s in {len(first)} steps")
        print(f"{updates[-1][1]:,} calls in total: {len(updates)} steps, the longest wait {max(gaps):.1f} s")
        print(f"peak of the front end at the end: {peak_mib(terminal.process.pid):.0f} MiB")
        print(f"bytes to the terminal: {terminal.written:,}")


def call_updates(terminal: Terminal) -> list[tuple[float, int]]:
    """Return each number of calls that the timeline showed, with the time at which it appeared."""
    updates: list[tuple[float, int]] = []
    text = b""
    printed = False
    while not DONE.search(text):
        terminal.forget()
        terminal.read(0.1)
        text = text[-400:] + plain_text(terminal)
        numbers = [int(number.replace(b",", b"")) for number in CALLS.findall(text)]
        if numbers and (not updates or max(numbers) > updates[-1][1]):
            updates.append((time.perf_counter(), max(numbers)))
        if updates and updates[-1][1] >= 1000 and not printed:
            printed = True
            print(f"peak after 1,000 calls and 100 recompiles: {peak_mib(terminal.process.pid):.0f} MiB")
    return updates


def plain_text(terminal: Terminal) -> bytes:
    """Return the text painted since the last call, without escape sequences."""
    return re.sub(rb"\x1b\[[0-?]*[ -/]*[@-~]", b" ", terminal.painted)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--warm", type=int, default=20_000)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", folder)
        sys.stdout.reconfigure(line_buffering=True)
        follow_script(parser.parse_args().warm, Path(folder))
