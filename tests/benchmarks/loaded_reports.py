"""Reports made on a loaded machine must not contradict themselves: `python -m tests.benchmarks.loaded_reports`.

    python -m tests.benchmarks.loaded_reports [--busy 2] [--first 0] [--count 50]

Makes JSON reports of the samples and of the unseen programs while busy processes take the cores, and prints the
contradictory figures of each. A verdict counts as false if it is not `undecided`, since the cores are taken. With
`--busy 0`, the load is that of the machine's other programs, and verdicts are not judged.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.report.consistency import inconsistencies

SAMPLES = Path(__file__).parents[2] / "samples"
UNSEEN = Path(__file__).with_name("unseen")


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Keep this number of cores busy inside the context."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # do not leave them behind
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def programs(folder: Path) -> list[Path]:
    """Return the samples and the unseen programs as model files."""
    files = sorted(SAMPLES.glob("*.py"))
    for text in sorted(UNSEEN.glob("*.txt")):
        files.append(folder / f"{text.stem}.py")
        files[-1].write_text(text.read_text())
    return files


def problems(file: Path, *, loaded: bool) -> list[str]:
    """Return the contradictions in the report of a file; `loaded` if busy processes take the cores."""
    command = [sys.executable, "-m", "tcexplore", "check", str(file), "--json", "--time-for", "0.5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        return [done.stderr[-300:]]
    timing = report["timing"]
    verdict = timing["verdict"] if timing else "no timing"
    print(f"  {verdict}", *(missing["fact"] for missing in report["missing"]), sep=", ")
    false = loaded and verdict not in ("undecided", "no timing")
    return [*inconsistencies(report), *([f"a verdict on a loaded machine: {verdict}"] if false else [])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busy", type=int, default=2)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=50)
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, load(options.busy):
        files = programs(Path(folder))[options.first : options.first + options.count]
        for file in files:
            print(file.stem, flush=True)
            contradictions = problems(file, loaded=options.busy > 0)
            wrong += bool(contradictions)
            print(*(f"  {text}" for text in contradictions), sep="\n", flush=True)
    print(f"{wrong} of {len(files)} reports contradict themselves")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
