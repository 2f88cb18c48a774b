"""`python -m tcexplore.worker.torch_probe`: print the capabilities of this Python's torch as JSON.

The doctor runs it in a separate process, since it imports torch and a broken installation may crash it.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from typing import Any

from tcexplore.worker import fork_policy

Fields = dict[str, Any]

PROGRAM = "#include <Python.h>\n#include <omp.h>\n#include <vector>\nint threads() { return omp_get_max_threads(); }\n"
"""A program with the requirements of Inductor's C++ kernels: the standard library, OpenMP and Python's headers."""


def probe_torch() -> Fields:
    import torch

    return {
        "version": str(torch.__version__),
        "path": os.path.dirname(torch.__file__),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
    }


def probe_triton() -> Fields:
    triton = importlib.import_module("triton")
    return {"version": str(triton.__version__), "path": os.path.dirname(str(triton.__file__))}


def probe_compiler() -> Fields:
    """Return the compiler that Inductor would use, and whether it compiles `PROGRAM`."""
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


def probe_processes() -> Fields:
    """Return whether runs can be forked; must come before a probe that initializes CUDA."""
    if not fork_policy.can_fork():
        return {"forks": False, "problem": f"forking is not safe on {sys.platform}"}
    check = fork_policy.NvmlCheck()
    policy = fork_policy.choose_policy(fork_policy.start_probe(), fork_policy.accelerator_initialized)
    check.undo()
    return {"forks": policy.forks, "problem": policy.problem}


def probe_gpus() -> Fields:
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
    """Return the newest CUDA version that the driver supports, such as `13.0`; None if it does not answer."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int(0)
    if library.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return None
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


def probe_caches() -> list[Fields]:
    from torch._inductor.runtime.cache_dir_utils import cache_dir, triton_cache_dir

    inductor = cache_dir()
    triton = os.environ.get("TRITON_CACHE_DIR") or triton_cache_dir(0)
    return [{"name": name, "path": path, "bytes": _size(path)} for name, path in _distinct(inductor, triton)]


def _distinct(inductor: str, triton: str) -> list[tuple[str, str]]:
    """Return the caches, as one if Triton's is inside Inductor's, which is the default."""
    inside = os.path.realpath(triton).startswith(os.path.realpath(inductor) + os.sep)
    return [("Inductor and Triton", inductor)] if inside else [("Inductor", inductor), ("Triton", triton)]


def _size(folder: str) -> int:
    """Return the total size of the files below a folder."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(path, name)).st_size
            except OSError:
                continue  # removed in the meantime
    return total


def probe_choices() -> Fields:
    return {"modes": list_modes(), "backends": list_backends()}


def list_modes() -> list[str]:
    """Return the modes of `torch.compile`."""
    from torch._inductor import list_mode_options

    return list(list_mode_options())


def list_backends() -> list[str]:
    """Return the installed backends of `torch.compile`, and the debugging backends that help to bisect a failure."""
    import torch

    debugging = set(torch.compiler.list_backends(exclude_tags=())) & {
        "eager", "aot_eager", "aot_eager_decomp_partition",
    }  # fmt: skip
    return sorted({*torch.compiler.list_backends(), *debugging})


FEATURES = {
    "nested_compile_region": "torch.compiler:nested_compile_region",
    "nested_graph_breaks": "torch._dynamo.config:nested_graph_breaks",
    "numerics": "torch._inductor.config:numerics",
    "backed_size_oblivious": "torch.fx.experimental._config:backed_size_oblivious",
    "mark_unbacked": "torch._dynamo.decorators:mark_unbacked",
    "guard_filter_fn": "torch.compiler:skip_guard_on_inbuilt_nn_modules_unsafe",
    "precompile_capture": "torch.compiler.precompile:capture",
}
"""Features that not every torch has, each with the symbol that shows it."""


def list_features() -> list[str]:
    """Return the `FEATURES` of this torch."""
    return [feature for feature, symbol in FEATURES.items() if _has(symbol)]


def _has(symbol: str) -> bool:
    module, _, name = symbol.partition(":")
    try:
        return hasattr(importlib.import_module(module), name)
    except ImportError:
        return False


PROBES: dict[str, Callable[[], Any]] = {
    "torch": probe_torch,
    "processes": probe_processes,
    "triton": probe_triton,
    "compiler": probe_compiler,
    "gpu": probe_gpus,
    "caches": probe_caches,
    "choices": probe_choices,
}


def run_probes() -> Fields:
    """Return the result of each probe, or else its failure as `{"error": type, "message": text}`."""
    results: Fields = {"python": sys.version.split()[0], "executable": sys.executable}
    for name, probe in PROBES.items():
        try:
            results[name] = probe()
        except Exception as error:  # noqa: BLE001  a broken installation may raise anything
            results[name] = {"error": type(error).__name__, "message": str(error).partition("\n")[0]}
    return results


def main() -> None:
    """Print the results to standard output, and send everything that torch prints to standard error."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    gc.disable()  # imports make millions of objects that stay
    json.dump(run_probes(), output)
    output.close()
    sys.stderr.flush()
    os._exit(0)  # interpreter shutdown takes a second after an import of torch


if __name__ == "__main__":
    main()
