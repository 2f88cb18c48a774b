"""`python -m tcexplore.worker.torch_probe`: what this Python's torch can do, as JSON on standard output.

Runs in a process of its own, because it imports torch, and because a broken installation may end it.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from typing import Any

Fields = dict[str, Any]

PROGRAM = "#include <Python.h>\n#include <omp.h>\n#include <vector>\nint threads() { return omp_get_max_threads(); }\n"
"""Needs what Inductor's C++ kernels need: the standard library, OpenMP, Python's headers."""


def torch_found() -> Fields:
    import torch

    return {
        "version": str(torch.__version__),
        "path": os.path.dirname(torch.__file__),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
    }


def triton_found() -> Fields:
    triton = importlib.import_module("triton")
    return {"version": str(triton.__version__), "path": os.path.dirname(str(triton.__file__))}


def compiler_found() -> Fields:
    """The compiler that Inductor would take, and whether it compiles what Inductor would ask of it."""
    from torch._inductor.cpp_builder import get_cpp_compiler

    compiler = get_cpp_compiler()
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "probe.cpp")
        with open(source, "w") as file:
            file.write(PROGRAM)
        command = [compiler, "-shared", "-fPIC", "-fopenmp", f"-I{sysconfig.get_path('include')}", source]
        built = subprocess.run(
            [*command, "-o", os.path.join(folder, "probe.so")], capture_output=True, text=True, check=False
        )
    errors = [line for line in built.stderr.splitlines() if "error" in line]
    return {
        "path": compiler,
        "version": version.partition("\n")[0],
        "compiles": built.returncode == 0,
        "problem": errors[0] if errors else built.stderr.strip()[-300:],
    }


def gpus_found() -> Fields:
    import torch

    if not torch.cuda.is_available():
        return {"gpus": [], "driver": None}
    gpus = [_gpu(index) for index in range(torch.cuda.device_count())]
    return {"gpus": gpus, "driver": _driver()}


def _gpu(index: int) -> Fields:
    import torch

    facts = torch.cuda.get_device_properties(index)
    return {"name": facts.name, "capability": f"{facts.major}.{facts.minor}", "bytes": facts.total_memory}


def _driver() -> str | None:
    """The newest CUDA version that the driver serves, `13.0`, from the driver itself; None where it will not say."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int(0)
    if library.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return None
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


def caches_found() -> list[Fields]:
    from torch._inductor.runtime.cache_dir_utils import cache_dir, triton_cache_dir

    inductor = cache_dir()
    triton = os.environ.get("TRITON_CACHE_DIR") or triton_cache_dir(0)
    return [{"name": name, "path": path, "bytes": _size(path)} for name, path in _distinct(inductor, triton)]


def _distinct(inductor: str, triton: str) -> list[tuple[str, str]]:
    """Inductor keeps Triton's files in a folder of its own cache, unless told otherwise."""
    inside = os.path.realpath(triton).startswith(os.path.realpath(inductor) + os.sep)
    return [("Inductor and Triton", inductor)] if inside else [("Inductor", inductor), ("Triton", triton)]


def _size(folder: str) -> int:
    """Bytes in all files below a folder."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(path, name)).st_size
            except OSError:
                continue  # a cache in use loses files meanwhile
    return total


def choices_found() -> Fields:
    """What `--mode` and `--backend` take with this torch."""
    from tcexplore.worker.compile_choices import backends, modes

    return {"modes": modes(), "backends": backends()}


QUESTIONS: dict[str, Callable[[], Any]] = {
    "torch": torch_found,
    "triton": triton_found,
    "compiler": compiler_found,
    "gpu": gpus_found,
    "caches": caches_found,
    "choices": choices_found,
}


def answers() -> Fields:
    """The answer to each question, or why there is none: `{"error": type, "message": text}`."""
    found: Fields = {"python": sys.version.split()[0], "executable": sys.executable}
    for name, question in QUESTIONS.items():
        try:
            found[name] = question()
        except Exception as error:
            found[name] = {"error": type(error).__name__, "message": str(error).partition("\n")[0]}
    return found


def main() -> None:
    """Print the answers, and keep what torch itself prints away from them."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    json.dump(answers(), answer)
    answer.close()


if __name__ == "__main__":
    main()
