"""All checks of the project: `python -m tests.check`.

`python -m tests.check lint` runs only the linter and the type checker, `python -m tests.check test` only the tests.
Further arguments go to pytest: `python -m tests.check test -m "not torch"` leaves out the tests that need a compiler.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINT = (("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy",))
WORKERS = str(max(2, min(os.cpu_count() or 2, 8)))
PYTEST = ("pytest", "-n", WORKERS, "--dist", "loadfile", "--no-loadscope-reorder")


def main(arguments: list[str]) -> int:
    """Run all checks, even after a failure. Return 1 if any fails."""
    chosen = arguments[0] if arguments and arguments[0] in ("lint", "test") else None
    extra = arguments[1:] if chosen else arguments
    lint = LINT if chosen != "test" else ()
    tests = ((*PYTEST, *extra),) if chosen != "lint" else ()
    with tempfile.TemporaryDirectory(prefix="tests-cache-") as cache:
        # All test processes share one cache, so that each kernel is compiled once.
        environment = {"TORCHINDUCTOR_CACHE_DIR": cache, **os.environ}
        failed = [check for check in (*lint, *tests) if not passes(check, environment)]
    return 1 if failed else 0


def passes(check: tuple[str, ...], environment: dict[str, str]) -> bool:
    """Run one check and print its verdict and duration."""
    started = time.monotonic()
    status = subprocess.run([sys.executable, "-m", *check], cwd=ROOT, env=environment, check=False).returncode
    verdict = "ok" if status == 0 else f"FAILED ({status})"
    sys.stdout.write(f"== {' '.join(check)}: {verdict}, {time.monotonic() - started:.0f} s\n")
    sys.stdout.flush()
    return status == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
