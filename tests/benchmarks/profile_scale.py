"""A profile of a gigabyte: time until all of it is joined, memory, and the ratio to `json.load` of the same file.

    python -m tests.benchmarks.profile_scale PROFILE.json [--megabytes 1000]

The steps of a real profile are repeated, with times and ids of their own. Each program runs in a new process.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_START = '"traceEvents": ['
_TIME = re.compile(r'"ts": (\d+)\.')
_ID = re.compile(r'"(External id|correlation|id)": (\d+)')
_STEP = re.compile(r"ProfilerStep#(\d+)")

_OURS = """
import gc, mmap, sys
from tcexplore.profiles.generated_code import GeneratedCode
from tcexplore.profiles.profile_join import join
from tcexplore.profiles.profile_run import profile_events
from tcexplore.profiles.profile_table import read_profile
gc.disable()
with open(sys.argv[1], "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
    profile_events(join(read_profile("profile", data), GeneratedCode([], {})))
"""
_JSON = "import json, sys\njson.load(open(sys.argv[1]))"
_REPORT = """
import resource, time
usage = resource.getrusage(resource.RUSAGE_SELF)
import json as _json
print(_json.dumps({"cpu": usage.ru_utime + usage.ru_stime, "memory": usage.ru_maxrss * 1024}))
"""


def write(source: Path, target: Path, size: int) -> int:
    """Repeat the events of a profile until a size; return the number of copies."""
    text = source.read_text()
    start = text.index(_START) + len(_START)
    end = text.rindex("]", 0, text.rindex('"traceName"')) if '"traceName"' in text else text.rindex("]")
    head, body, tail = text[:start], text[start:end], text[end:]
    copies = size // len(body) + 1
    with target.open("w") as file:
        file.write(head)
        for copy in range(copies):
            file.write(("," if copy else "") + shifted(body, copy))
        file.write(tail)
    return copies


def shifted(events: str, copy: int) -> str:
    """Return the events of a copy, with later times and ids and steps of their own."""
    moved = _TIME.sub(lambda match: f'"ts": {int(match[1]) + copy * 40_000}.', events)
    moved = _ID.sub(lambda match: f'"{match[1]}": {int(match[2]) + copy * 10_000}', moved)
    return _STEP.sub(lambda match: f"ProfilerStep#{int(match[1]) + 3 * copy}", moved)


def measure(program: str, path: Path) -> dict[str, float]:
    """Return wall and CPU seconds and the peak of memory in bytes of a program on a file."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program + _REPORT, str(path)], capture_output=True, text=True, check=True
    )
    return {"wall": time.perf_counter() - began, **json.loads(done.stdout)}


def main() -> None:
    """Print the figures of both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("profile", type=Path)
    parser.add_argument("--megabytes", type=int, default=1000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "profile.json")
        copies = write(given.profile, path, given.megabytes * 1_000_000)
        ours, theirs = measure(_OURS, path), measure(_JSON, path)
        print(f"{path.stat().st_size / 1e6:,.0f} MB, the profile {copies} times")
    for name, known in (("joined", ours), ("json.load", theirs)):
        print(f"{name:>10}: {known['wall']:6.1f} s, CPU {known['cpu']:6.1f} s, {known['memory'] / 1e9:.2f} GB")
    print(f"     ratio: CPU {ours['cpu'] / theirs['cpu']:.2f}, memory {ours['memory'] / theirs['memory']:.2f}")


if __name__ == "__main__":
    main()
