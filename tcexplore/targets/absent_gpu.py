"""The C++ side of a GPU that is absent: compiled once per torch into the user's cache, swapped in for a lowering."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import platformdirs
import torch

SOURCE = Path(__file__).with_name("device.cpp")


class NoCompilerError(RuntimeError):
    """The C++ part could not be built; the message says why and what to do."""


@contextlib.contextmanager
def device(cudnn: int) -> Iterator[None]:
    """While inside, torch's C++ believes in one CUDA device with this cuDNN version (`91900`; 0 for none).

    For one thread at a time: nothing in it may touch real CUDA. Raises `NoCompilerError`.
    """
    library = _library()
    library.tcexplore_enter(ctypes.c_long(cudnn))
    try:
        yield
    finally:
        library.tcexplore_leave()


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(_built()))
    library.tcexplore_guard()
    return library


def _built() -> Path:
    key = hashlib.sha256(SOURCE.read_bytes() + repr((torch.__version__, torch.__file__)).encode()).hexdigest()[:16]
    target = Path(platformdirs.user_cache_dir("tcexplore")) / f"device-{key}.so"
    if target.exists():
        return target
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")
    if compiler is None:
        raise NoCompilerError("code for a GPU that is not here needs a C++ compiler once: install g++ or set CXX")
    root = Path(torch.__file__).parent
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / target.name
        command = [compiler, "-O1", "-fPIC", "-shared", "-std=c++20", f"-I{root / 'include'}", str(SOURCE),
                   "-o", str(made), f"-L{root / 'lib'}", "-lc10", "-ltorch_cpu"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoCompilerError(f"{compiler} failed on {SOURCE.name}: {done.stderr.strip()[:2000]}")
        made.rename(target)
    return target
