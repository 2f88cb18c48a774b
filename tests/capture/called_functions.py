"""Functions of tcexplore that a call runs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def functions_of_tcexplore(call: Callable[[], object]) -> dict[str, int]:
    """Return the functions of tcexplore that a call runs, with the number of their calls."""
    ran: Counter[str] = Counter()

    def observe(frame: Any, event: str, _: object) -> None:
        if event == "call" and str(ROOT / "tcexplore") in frame.f_code.co_filename:
            ran[frame.f_code.co_qualname] += 1

    sys.setprofile(observe)
    try:
        call()
    finally:
        sys.setprofile(None)
    return dict(ran)
