"""What following a long script costs the front end: memory, and how far behind the script the screen is.

A script makes 1,000 calls of which 100 compile again with Inductor, then many more warm ones. The real app follows it
in a pseudo-terminal with the time line in view. Printed are the front end's peak memory, and in how many steps the
number of calls grew on the screen. The model is one small layer: each of its compiles takes a second, so the whole
takes some minutes.

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
    """The most memory that a process has had, from `/proc`."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


def followed(warm: int, folder: Path) -> None:
    """One run of the app, until the time line has the whole script."""
    file = folder / "script.py"
    file.write_text(SCRIPT.replace("WARM", str(warm)))
    command = [sys.executable, "-m", "tcexplore", str(file), "--follow", "0"]
    with Terminal(command, columns=160, rows=50, cwd=str(Path(__file__).parents[2])) as terminal:
        terminal.wait_for("Timing", 60)
        print(f"first frame: peak {peak_mib(terminal.process.pid):.0f} MiB")
        terminal.type("6vz")
        seen = painted(terminal)
        first = [at for at, calls in seen if calls <= 1000]
        gaps = [later - at for (at, _), (later, _) in itertools.pairwise(seen)]
        print(f"1,000 calls, 100 recompiles: followed over {first[-1] - first[0]:.0f} s in {len(first)} steps")
        print(f"{seen[-1][1]:,} calls in all: {len(seen)} steps, the longest wait {max(gaps):.1f} s")
        print(f"peak of the front end at the end: {peak_mib(terminal.process.pid):.0f} MiB")
        print(f"bytes to the terminal: {terminal.written:,}")


def painted(terminal: Terminal) -> list[tuple[float, int]]:
    """Each number of calls that the time line showed, with the moment at which it was painted."""
    seen: list[tuple[float, int]] = []
    before = b""
    told = False
    while not DONE.search(before):
        terminal.forget()
        terminal.read(0.1)
        before = before[-400:] + plain(terminal)
        numbers = [int(found.replace(b",", b"")) for found in CALLS.findall(before)]
        if numbers and (not seen or max(numbers) > seen[-1][1]):
            seen.append((time.perf_counter(), max(numbers)))
        if seen and seen[-1][1] >= 1000 and not told:
            told = True
            print(f"peak after 1,000 calls and 100 recompiles: {peak_mib(terminal.process.pid):.0f} MiB")
    return seen


def plain(terminal: Terminal) -> bytes:
    """What was painted since the last time, without escape sequences."""
    return re.sub(rb"\x1b\[[0-?]*[ -/]*[@-~]", b" ", terminal.painted)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--warm", type=int, default=20_000)
    with tempfile.TemporaryDirectory() as made:
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", made)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        followed(parser.parse_args().warm, Path(made))
