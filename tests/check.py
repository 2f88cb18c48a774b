"""All checks of the project: `python -m tests.check`.

`python -m tests.check lint` runs only the linter and the type checker, `python -m tests.check test` only the tests.
Further arguments go to pytest: `python -m tests.check test -m "not torch"` leaves out the tests that need a compiler.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINT = (("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy",))
WORKERS = str(max(2, min((os.cpu_count() or 2) + 1, 8)))
"""One more than cores: tests of runs wait for a part of their time."""
PYTEST = ("pytest", "-n", WORKERS, "--dist", "loadfile", "--no-loadscope-reorder")


def main(arguments: list[str]) -> int:
    """Run all checks, even after a failure. Return 1 if any fails."""
    chosen = arguments[0] if arguments and arguments[0] in ("lint", "test") else None
    extra = arguments[1:] if chosen else arguments
    lint = LINT if chosen != "test" else ()
    tests = ((*PYTEST, *extra),) if chosen != "lint" else ()
    with tempfile.TemporaryDirectory(prefix="tests-cache-") as cache, ThreadPoolExecutor(1) as thread:
        environment = environment_of_checks(cache)
        # The linters use one core at a time: run beside the tests, they leave no core idle.
        linted = thread.submit(lambda: [passes(check, environment, quiet=bool(tests)) for check in lint])
        tested = [passes(check, environment) for check in tests]
        return 0 if all([*linted.result(), *tested]) else 1


def environment_of_checks(cache: str) -> dict[str, str]:
    """Return an environment in which test processes share compiled code."""
    shared = {
        "TORCHINDUCTOR_CACHE_DIR": cache,
        "TORCHINDUCTOR_VEC_ISA_OK": "1",  # otherwise, each process tests whether it can load vector code
        "OMP_WAIT_POLICY": "PASSIVE",  # all cores are busy: a spinning thread would take time from another process
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",  # huge pages: fewer page faults in forked processes
    }
    if gold := shutil.which("ld.gold"):  # a quarter of the time of a compile with g++ goes into the slower linker
        linker = Path(cache, "linker", "ld")
        linker.parent.mkdir()
        linker.symlink_to(gold)
        shared["COMPILER_PATH"] = str(linker.parent)
    environment = {**shared, **os.environ}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # a hundred processes import the same modules
    return environment


def passes(check: tuple[str, ...], environment: dict[str, str], *, quiet: bool = False) -> bool:
    """Run one check, and print its verdict and duration; if `quiet`, print its output only at its end."""
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", *check], cwd=ROOT, env=environment, check=False, text=True,
        stdout=subprocess.PIPE if quiet else None, stderr=subprocess.STDOUT if quiet else None,
    )  # fmt: skip
    verdict = "ok" if done.returncode == 0 else f"FAILED ({done.returncode})"
    output = f"\n{done.stdout}" if quiet else ""
    sys.stdout.write(f"{output}== {' '.join(check)}: {verdict}, {time.monotonic() - started:.0f} s\n")
    sys.stdout.flush()
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
