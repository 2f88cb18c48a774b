"""What is installed: torch, triton, a C++ compiler, a GPU, and what the caches hold."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from tcexplore.doctor.finding import Finding, Section
from tcexplore.doctor.probe import Answers, problem
from tcexplore.quantities import size

COMPILER = (
    "install g++ or clang++ with OpenMP, and Python's headers: "
    "`apt install g++ python3-dev`, `dnf install gcc-c++ python3-devel`, or `brew install llvm libomp`"
)


def installed(answers: Answers) -> Section:
    """The section on what is installed."""
    findings = (_torch(answers), _triton(answers), _compiler(answers), *_gpu(answers), _choices(answers))
    return Section(f"Python {sys.version.split()[0]}  {sys.executable}", tuple(f for f in findings if f))


def _torch(answers: Answers) -> Finding:
    said, found = problem(answers["torch"]), answers["torch"]
    if said:
        install = f"{sys.executable} -m pip install torch"
        return Finding("torch", "missing", said, f"install it for this Python: `{install}`")
    return Finding("torch", "good", f"{found['version']}  {found['path']}")


def _triton(answers: Answers) -> Finding:
    said, found = problem(answers["triton"]), answers["triton"]
    if said:
        remedy = f"`{sys.executable} -m pip install triton` (Linux only)"
        return Finding("triton", "without", f"{said}; kernels for a GPU need it", remedy)
    return Finding("triton", "good", str(found["version"]))


def _compiler(answers: Answers) -> Finding | None:
    if problem(answers["torch"]):
        return None
    said, found = problem(answers["compiler"]), answers["compiler"]
    if said:
        return Finding("C++ compiler", "missing", f"none that torch finds ({said})", COMPILER)
    if not found["compiles"]:
        text = f"{found['path']} does not build a program with OpenMP and Python's headers: {found['problem']}"
        return Finding("C++ compiler", "missing", text, COMPILER)
    return Finding("C++ compiler", "good", f"{found['path']}: {found['version']}, with OpenMP and Python's headers")


def _gpu(answers: Answers) -> Iterable[Finding]:
    if problem(answers["torch"]):
        return
    said, found, torch = problem(answers["gpu"]), answers["gpu"], answers["torch"]
    if said:
        yield Finding("GPU", "without", said)
    elif not found["gpus"]:
        yield _no_gpu(torch)
    else:
        for gpu in found["gpus"]:
            facts = f"{gpu['name']}, {size(gpu['bytes'])}, capability {gpu['capability']}"
            driver = f", driver for {found['driver']}" if found["driver"] else ""
            yield Finding("GPU", "good", f"{facts}; torch for CUDA {torch['cuda']}{driver}")


def _no_gpu(torch: Answers) -> Finding:
    if torch["cuda"] is None and torch["hip"] is None:
        remedy = "on a machine with a GPU, install a torch built for it instead of this one"
        return Finding("GPU", "without", f"torch {torch['version']} is built for the CPU only", remedy)
    return Finding(
        "GPU", "without", "torch finds none", "if the machine has one, `nvidia-smi` tells whether its driver works"
    )


def _choices(answers: Answers) -> Finding | None:
    if problem(answers["choices"]):
        return None
    choices = answers["choices"]
    modes, backends = ", ".join(choices["modes"]), ", ".join(choices["backends"])
    return Finding("choices", "good", f"--mode {modes}; --backend {backends}")


def caches(answers: Answers) -> Section:
    """The section on the compiler's caches."""
    if said := problem(answers["caches"]):
        return Section("Caches", (Finding("caches", "without", said),) if not problem(answers["torch"]) else ())
    return Section(
        "Caches",
        tuple(Finding(c["name"], "good", f"{size(c['bytes'])}  {c['path']}") for c in answers["caches"]),
    )
