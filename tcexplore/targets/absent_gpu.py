"""C++ hooks that make torch see a CUDA device during a lowering; compiled once per torch version."""

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

import torch

from tcexplore.files import cache_folder

SOURCE = Path(__file__).with_name("device.cpp")


class NoCompilerError(RuntimeError):
    """The C++ hooks cannot be built; the message gives the reason and the remedy."""


@contextlib.contextmanager
def pretend_cuda_device(cudnn: int) -> Iterator[None]:
    """Make torch's C++ code report one CUDA device with this cuDNN version (`91900`; 0 for none).

    Only one thread may use this at a time, and it must not touch real CUDA. Raises `NoCompilerError`.
    """
    library = _library()
    library.tcexplore_enter(ctypes.c_long(cudnn))
    try:
        yield
    finally:
        library.tcexplore_leave()


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(_build()))
    library.tcexplore_guard()
    return library


def _build() -> Path:
    key = hashlib.sha256(SOURCE.read_bytes() + repr((torch.__version__, torch.__file__)).encode()).hexdigest()[:16]
    target = cache_folder() / f"device-{key}.so"
    if target.exists():
        return target
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")
    if compiler is None:
        raise NoCompilerError("generating code for an absent GPU needs a C++ compiler: install g++ or set CXX")
    root = Path(torch.__file__).parent
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        output = Path(folder) / target.name
        command = [compiler, "-O1", "-fPIC", "-shared", "-std=c++20", f"-I{root / 'include'}", str(SOURCE),
                   "-o", str(output), f"-L{root / 'lib'}", "-lc10", "-ltorch_cpu"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoCompilerError(f"{compiler} failed on {SOURCE.name}: {done.stderr.strip()[:2000]}")
        output.rename(target)
    return target
