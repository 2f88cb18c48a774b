"""`python -m tests.check`: every check there is, one after another; exits with 1 if any of them failed.

What follows is given to pytest: `python -m tests.check -m "not torch"` leaves the slow lane out.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]

CHECKS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    ("pytest",),
)


def main(arguments: list[str]) -> int:
    """Run the checks; all of them, also after one that failed."""
    failed = []
    for check in CHECKS:
        more = arguments if check == ("pytest",) else []
        started = time.monotonic()
        status = subprocess.run([sys.executable, "-m", *check, *more], cwd=ROOT, check=False).returncode
        verdict = "ok" if status == 0 else f"FAILED ({status})"
        sys.stdout.write(f"== {' '.join(check)}: {verdict}, {time.monotonic() - started:.0f} s\n")
        sys.stdout.flush()
        failed += [check] if status else []
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
