"""Time and memory to open large traces: one file, and many ranks; beside tlparse, if `--tlparse PATH` names it.

`python -m tests.benchmarks.trace_scale TRACE [--megabytes 1000] [--ranks 64] [--tlparse PATH]` repeats the trace files
in TRACE with other compile ids until they have the size, in a temporary folder. Each figure is of a new process with
its children: time, CPU time, and the memory of its own at the peak.

`--whole` measures only what is as complete as tlparse's output: the whole JSON, all records as files, and the app on a
terminal of 160×50 until nothing changes any more, each with the CPU time over that of tlparse.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

CHECKSUM = re.compile(rb'"has_payload": "\w+"')
FRAME = re.compile(rb'"frame_id": (\d+)')
SHAPE = re.compile(rb'"[fib]\d+\[([\d, ]+)\]')
RECORD = re.compile(rb"^(?=[VIWE]\d{4} \d\d:)", re.M)

_SCRIPTS = {
    "first screen": """
from tcexplore.traces.trace_inputs import trace_inputs
from tcexplore.traces.trace_job import open_inputs
from tcexplore.traces.trace_run import TraceRun
job = open_inputs(trace_inputs([path]), whole=False).jobs[0]
run = TraceRun(job.ranks[0], 1, len(job.ranks))
run.start(), next(run.batches())
""",
    "full index": """
from tcexplore.traces.trace_inputs import trace_inputs
from tcexplore.traces.trace_job import open_inputs
job = open_inputs(trace_inputs([path])).jobs[0]
""",
    "verdict on divergence": """
from tcexplore.traces.rank_comparison import compare_ranks
from tcexplore.traces.trace_inputs import trace_inputs
from tcexplore.traces.trace_job import open_inputs
compared = compare_ranks(open_inputs(trace_inputs([path])).jobs[0])
assert compared.divergence is None, compared.divergence
""",
    "all panes of the first rank": """
from tcexplore.traces.trace_inputs import trace_inputs
from tcexplore.traces.trace_job import open_inputs
from tcexplore.traces.trace_run import TraceRun, read_snapshot
job = open_inputs(trace_inputs([path])).jobs[0]
read_snapshot(TraceRun(job.ranks[0], 1, len(job.ranks)))
""",
}
"""What is timed, as code with the variable `path`."""

_WHOLE = {
    "whole JSON": """
import sys
from tcexplore.cli import main
sys.stdout = open(os.path.join(out, "report.json"), "w")
main(["open", path, "--json"])
sys.stdout.close()
""",
    "all records as files": """
from tcexplore.cli import main
main(["open", path, "--records", os.path.join(out, "records")])
""",
    "complete app": """
import asyncio
from tcexplore.traces.forked_run import fork_run
from tcexplore.traces.trace_inputs import trace_inputs
from tcexplore.traces.trace_job import open_inputs
opened = open_inputs(trace_inputs([path]), whole=False)
forked = fork_run(opened.jobs[0], None)
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.background_task import start_gc
from tcexplore.ui.trace_engine import TraceEngine
app = ExplorerApp(lambda: TraceEngine(opened.jobs[0], None, opened.problems, forked=forked))
async def until_complete():
    async with app.run_test(size=(160, 50)) as pilot:
        start_gc()
        while (run := app.session.newest) is None or not run.graphs:
            await asyncio.sleep(0.02)
        print("first graph", time.perf_counter() - began)
        while run is None or not run.complete or run.rank_comparison is None:
            await asyncio.sleep(0.05)
            run = app.session.newest
        await app.engine.close()
        panes = app.screen_stack[0].grid.panes.values()
        await pilot.pause()
        while any(not pane._background.is_idle for pane in panes):
            await asyncio.sleep(0.05)
        await pilot.pause()
asyncio.run(until_complete())
""",
}
"""The same for what shows or writes everything; `out` is an empty folder."""

_HARNESS = """
import os, sys, time
path, out = sys.argv[1:]
began = time.perf_counter()
{code}
seconds = time.perf_counter() - began
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
own = int(status["RssAnon"].split()[0]) / 1024
print("FIGURES", seconds, sum(os.times()[:4]), own, int(status["VmHWM"].split()[0]) / 1024, file=sys.stderr)
"""


class Figures(NamedTuple):
    """What a process needed with its children."""

    seconds: float
    cpu_s: float
    own_mb: float
    """Memory without mapped files, at the peak of all processes together."""
    peak_mb: float
    """Resident memory of the process at its peak."""

    def __str__(self) -> str:
        memory = f"{self.own_mb:6.0f} MB of its own, {self.peak_mb:.0f} MB"
        return f"{self.seconds:7.2f} s, CPU {self.cpu_s:6.2f} s, {memory}"


def multiplied(data: bytes, size: int) -> Iterator[bytes]:
    """Yield copies of a trace with other frame numbers, and another size in all graphs, `size` bytes in all.

    Interned strings keep their numbers.
    """
    records = RECORD.split(data)
    sizes = Counter(number for shape in SHAPE.findall(data) for number in shape.split(b", "))
    graph_size = re.compile(rb"(?<![\w.:])" + sizes.most_common(1)[0][0] + rb"(?![\w.:])") if sizes else None
    frames = 1 + max((int(number) for number in FRAME.findall(data)), default=0)
    copy, written = 0, 0
    while written < size:
        shift = copy * frames

        def renumber(match: re.Match[bytes], shift: int = shift) -> bytes:
            return b'"frame_id": ' + str(int(match[1]) + shift).encode()

        kept = (record for record in records if not (copy and b'{"str"' in record[:90]))
        if copy and graph_size is not None:
            own = b"%d" % (1000 + copy)
            kept = (with_payload(record, substitution(graph_size, own)) for record in kept)
        text = b"".join(FRAME.sub(renumber, record, count=1) for record in kept)
        yield text
        written += len(text)
        copy += 1


def with_payload(record: bytes, edit: Callable[[bytes], bytes]) -> bytes:
    """Return a record with its payload edited, and the checksum of it."""
    head, newline, payload = record.partition(b"\n")
    edited = edit(payload)
    if edited != payload:
        body = edited.removesuffix(b"\n").removeprefix(b"\t").replace(b"\n\t", b"\n")
        digest = hashlib.md5(body, usedforsecurity=False).hexdigest().encode()
        head = CHECKSUM.sub(b'"has_payload": "' + digest + b'"', head)
    return head + newline + edited


def substitution(pattern: re.Pattern[bytes], replacement: bytes) -> Callable[[bytes], bytes]:
    return lambda text: pattern.sub(replacement, text)


def of_rank(data: bytes, rank: int) -> bytes:
    """Return a trace of rank 0 as that of another rank on another device, with the checksums of its payloads."""
    device = b"cuda:%d" % (rank % 8)
    records = []
    for record in RECORD.split(data):
        ranked = record.replace(b'"rank": 0', b'"rank": %d' % rank, 1)
        records.append(with_payload(ranked, lambda payload: payload.replace(b"cuda:0", device)))
    return b"".join(records)


def measure(code: str, *arguments: Path) -> Figures:
    """Run code in a new process."""
    command = [sys.executable, "-c", _HARNESS.format(code=code), *map(str, arguments)]
    environment = {**os.environ, "TCEXPLORE_NO_HISTORY": "1"}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, env=environment)
        own = watched(process)
        errors.seek(0)
        text = errors.read()
    if process.returncode:
        raise SystemExit(text)
    seconds, cpu, last, peak = map(float, text.rpartition("FIGURES ")[2].split())
    return Figures(seconds, cpu, max(own, last), peak)


def watched(process: subprocess.Popen[bytes]) -> float:
    """Wait for a process; return the most megabytes that it and its children had of their own.

    Pages that a child shares with its parent count once.
    """
    most = 0.0
    while process.poll() is None:
        pids, total = [process.pid], 0.0
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{process.pid}/task"):
                pids += map(int, Path(f"/proc/{process.pid}/task/{thread}/children").read_text().split())
        for pid in pids:
            with suppress(OSError, StopIteration):
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                total += next(int(line.split()[1]) for line in lines if line.startswith("Pss_Anon")) / 1024
        most = max(most, total)
        time.sleep(0.1)
    return most


def measure_tlparse(program: str, path: Path, out: Path) -> Figures:
    """Run tlparse."""
    before, began = os.times(), time.perf_counter()
    process = subprocess.Popen(
        [program, str(path), "-o", str(out), "--no-browser", "--overwrite"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    own = watched(process)
    seconds, after = time.perf_counter() - began, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Figures(seconds, cpu, own, own)


def print_figures(name: str, figures: Figures, other: Figures | None = None) -> None:
    """Print the figures of a process, over those of tlparse if they are known."""
    over = ""
    if other is not None:
        ratios = (a / b for a, b in zip(figures[:3], other[:3], strict=True))
        over = "; over tlparse: time {:.2f}, CPU {:.2f}, memory {:.2f}".format(*ratios)
    print(f"  {name:<28}{figures}{over}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("trace", type=Path)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--tlparse")
    parser.add_argument("--whole", action="store_true")
    given = parser.parse_args()
    source = next(path for path in sorted(given.trace.iterdir()) if "rank_0" in path.name).read_bytes()
    size = given.megabytes * 1_000_000
    with tempfile.TemporaryDirectory() as temporary:
        one, many = Path(temporary, "one"), Path(temporary, "many")
        one.mkdir()
        many.mkdir()
        file = one / "dedicated_log_torch_trace_x.log"
        with file.open("wb") as stream:
            stream.writelines(multiplied(source, size))
        print(f"one file of {file.stat().st_size / 1e6:.0f} MB")
        other = None
        if given.tlparse:
            other = measure_tlparse(given.tlparse, file, Path(temporary, "tlparse"))
            print_figures("tlparse, whole", other)
            shutil.rmtree(Path(temporary, "tlparse"))
        if given.whole:
            for name, code in _WHOLE.items():
                with tempfile.TemporaryDirectory() as out:
                    print_figures(name, measure(code, one, Path(out)), other)
            return
        for name in ("first screen", "full index"):
            print_figures(name, measure(_SCRIPTS[name], one, many), other)
        for rank in range(given.ranks):
            text = b"".join(multiplied(of_rank(source, rank), size // given.ranks))
            (many / f"dedicated_log_torch_trace_rank_{rank}_x.log").write_bytes(text)
        print(f"{given.ranks} ranks, {sum(path.stat().st_size for path in many.iterdir()) / 1e6:.0f} MB")
        for name in ("first screen", "verdict on divergence", "all panes of the first rank"):
            print_figures(name, measure(_SCRIPTS[name], many, one))


if __name__ == "__main__":
    main()
