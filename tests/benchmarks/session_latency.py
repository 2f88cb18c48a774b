"""Time from an edit to the answer in a warm session: `python -m tests.benchmarks.session_latency [FILE]`.

A session is started, the file is edited ten times, and after each edit `tcexplore ask FILE breaks` is timed: the whole
command, from its start to its end. Compared with the same question without a session, which starts a worker, and with
a plain script that compiles and runs the program. Also printed: the time of `ask` without an edit, and the load of the
machine, since all of these grow with it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

SAMPLES = Path(__file__).parents[2] / "samples"
EDITS = 10

PLAIN = """
import runpy, sys, torch
known = runpy.run_path(sys.argv[1])
with torch.no_grad():
    torch.compile(known["model"])(*known["inputs"])
"""


def timed(*command: str) -> float:
    """Return the seconds that a command takes. It must succeed."""
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return time.perf_counter() - start


def edit(file: Path, number: int) -> None:
    """Change what is compiled: another constant in the first line that returns something."""
    text = (SAMPLES / file.name).read_text()
    lines = text.splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if line.lstrip().startswith("return "))
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    lines.insert(at, f"{indent}_ = torch.full((), {number}.0)\n")
    file.write_text("".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sample", nargs="?", default="fusion.py")
    given = parser.parse_args()
    program = (sys.executable, "-m", "tcexplore")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, given.sample)
        shutil.copy(SAMPLES / given.sample, file)
        session = subprocess.Popen((*program, "serve-session", str(file)), stderr=subprocess.PIPE, text=True)
        try:
            assert session.stderr is not None
            session.stderr.readline()  # it answers
            timed(*program, "ask", str(file), "breaks")
            edit(file, 0)
            timed(*program, "ask", str(file), "breaks")  # the first process that was forked for a save
            warm, again = [], []
            for number in range(1, EDITS + 1):
                time.sleep(3)  # as between two edits
                edit(file, number)
                warm.append(timed(*program, "ask", str(file), "breaks"))
                again.append(timed(*program, "ask", str(file), "breaks"))
        finally:
            session.terminate()
            session.wait()
        cold = [timed(*program, "ask", str(file), "breaks", "--no-session") for _ in range(3)]
        plain = [timed(sys.executable, "-c", PLAIN, str(file)) for _ in range(3)]
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    print(f"edit to answer      {median(warm):6.2f} s  [{min(warm):.2f}, {max(warm):.2f}], {EDITS} edits")
    print(f"answer, no edit     {median(again):6.2f} s")
    print(f"without a session   {median(cold):6.2f} s  {median(cold) / median(warm):.1f} times as long")
    print(f"a plain script      {median(plain):6.2f} s  {median(plain) / median(warm):.1f} times as long")
    print(f"load                {load:6.1f} for each core")


if __name__ == "__main__":
    main()
