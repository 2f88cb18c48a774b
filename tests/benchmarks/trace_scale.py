"""Time and memory to open large traces: one file, and many ranks; beside tlparse, if `--tlparse PATH` names it.

`python -m tests.benchmarks.trace_scale TRACE [--megabytes 1000] [--ranks 64] [--tlparse PATH]` repeats the trace files
in TRACE with other compile ids until they have the size, in a temporary folder. Each figure is of a new process.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

CHECKSUM = re.compile(rb'"has_payload": "\w+"')
FRAME = re.compile(rb'"frame_id": (\d+)')
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

_HARNESS = """
import os, sys, time
path = sys.argv[1]
began = time.perf_counter()
{code}
seconds = time.perf_counter() - began
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
own = int(status["RssAnon"].split()[0]) / 1024
print(seconds, own, int(status["VmHWM"].split()[0]) / 1024)
"""


def multiplied(data: bytes, size: int) -> Iterator[bytes]:
    """Yield copies of a trace with other frame numbers, `size` bytes in all. Interned strings keep their numbers."""
    records = RECORD.split(data)
    frames = 1 + max((int(number) for number in FRAME.findall(data)), default=0)
    copy, written = 0, 0
    while written < size:
        shift = copy * frames

        def renumber(match: re.Match[bytes], shift: int = shift) -> bytes:
            return b'"frame_id": ' + str(int(match[1]) + shift).encode()

        text = b"".join(
            FRAME.sub(renumber, record, count=1) for record in records if not (copy and b'{"str"' in record[:90])
        )
        yield text
        written += len(text)
        copy += 1


def of_rank(data: bytes, rank: int) -> bytes:
    """Return a trace of rank 0 as that of another rank on another device, with the checksums of its payloads."""
    device = b"cuda:%d" % (rank % 8)
    records = []
    for record in RECORD.split(data):
        head, newline, payload = record.replace(b'"rank": 0', b'"rank": %d' % rank, 1).partition(b"\n")
        if b"cuda:0" in payload:
            payload = payload.replace(b"cuda:0", device)
            body = payload.removesuffix(b"\n").removeprefix(b"\t").replace(b"\n\t", b"\n")
            digest = hashlib.md5(body, usedforsecurity=False).hexdigest().encode()
            head = CHECKSUM.sub(b'"has_payload": "' + digest + b'"', head)
        records.append(head + newline + payload)
    return b"".join(records)


def measure(name: str, path: Path) -> tuple[float, float, float]:
    """Return seconds, and megabytes of its own and in all at the peak."""
    done = subprocess.run(
        [sys.executable, "-c", _HARNESS.format(code=_SCRIPTS[name]), str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    seconds, own, peak = map(float, done.stdout.split())
    return seconds, own, peak


def measure_tlparse(program: str, path: Path, out: Path) -> tuple[float, float]:
    """Return seconds and peak megabytes of tlparse."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [program, str(path), "-o", str(out), "--no-browser", "--overwrite"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    peak = 0.0
    while process.poll() is None:
        try:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        except OSError:
            break
        peak = max([peak, *(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))])
        time.sleep(0.05)
    process.wait()
    return time.perf_counter() - began, peak


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("trace", type=Path)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--tlparse")
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
        for rank in range(given.ranks):
            text = b"".join(multiplied(of_rank(source, rank), size // given.ranks))
            (many / f"dedicated_log_torch_trace_rank_{rank}_x.log").write_bytes(text)
        print(f"one file of {file.stat().st_size / 1e6:.0f} MB")
        for name in ("first screen", "full index"):
            seconds, own, peak = measure(name, one)
            print(f"  {name:<28}{seconds:7.2f} s  {own:6.0f} MB of its own, {peak:.0f} MB with the mapped file")
        if given.tlparse:
            seconds, peak = measure_tlparse(given.tlparse, file, Path(temporary, "out"))
            print(f"  {'tlparse, whole':<28}{seconds:7.2f} s  {peak:6.0f} MB")
        print(f"{given.ranks} ranks, {sum(path.stat().st_size for path in many.iterdir()) / 1e6:.0f} MB")
        for name in ("first screen", "verdict on divergence", "all panes of the first rank"):
            seconds, own, peak = measure(name, many)
            print(f"  {name:<28}{seconds:7.2f} s  {own:6.0f} MB of its own, {peak:.0f} MB with the mapped files")


if __name__ == "__main__":
    main()
