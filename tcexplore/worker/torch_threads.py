"""How many threads torch uses: as asked for, or as in a program that does not ask."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import torch

from tcexplore.capture.hooks import Emit
from tcexplore.events import FactMissing

_LIBRARY = Path("lib", "libtorch_cpu.so")
_SYMBOL = "MKL_Set_Dynamic"


def use(asked: int | None, own: int, emit: Emit) -> None:
    """Let torch use `asked` threads, else its `own` choice for this machine.

    `torch.set_num_threads` also keeps MKL from using fewer where a call is too small to gain by it: `sin` of 512
    floats then takes twice as long, and thousands of times as long where a core is busy. The user's program has that
    only if it sets the number of threads; if not, MKL gets its choice back.
    """
    torch.set_num_threads(asked or own)
    if not asked and torch.backends.mkl.is_available() and not _fixed_by_the_environment():
        _let_mkl_choose(emit)


def _fixed_by_the_environment() -> bool:
    return os.environ.get("MKL_DYNAMIC", "").strip().lower() in ("false", "0", "no", "n")


def _let_mkl_choose(emit: Emit) -> None:
    try:
        ctypes.CDLL(str(Path(torch.__file__).parent / _LIBRARY)).MKL_Set_Dynamic(1)
    except (OSError, AttributeError) as error:
        reason = f"small operations may use more threads than in a program of their own: {error}"
        emit(FactMissing(fact="MKL's own choice of threads", symbol=_SYMBOL, reason=reason))
