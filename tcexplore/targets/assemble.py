"""A Triton kernel's source to machine code for a target, in a process of its own: a crash there costs nothing here."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import IO, Any, Protocol

import platformdirs

from tcexplore.events import Event, Kernel
from tcexplore.events.target_events import KernelAssembled, KernelNotAssembled, Resources, Stage
from tcexplore.targets import disassembler as binary
from tcexplore.targets import resources
from tcexplore.targets.assembly_stages import stage
from tcexplore.targets.device_table import Target

_FILE = "kernel.py"
_ROOT = str(Path(__file__).resolve().parents[2])
ORDER = ("ttir", "ttgir", "llir", "ptx", "amdgcn")


class Process(Protocol):
    """An assembling process, as `subprocess.Popen` is one."""

    @property
    def stdin(self) -> IO[str] | None: ...
    @property
    def stdout(self) -> IO[str] | None: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def terminate(self) -> None: ...
    def wait(self) -> int: ...


def spawned(said: IO[str]) -> Process:
    """A new Python, which has to import torch first; what it says beside its answers goes to `said`."""
    path = os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "tcexplore.targets.assembler"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=said,
        text=True,
        env={**os.environ, **own_cache(), "PYTHONPATH": path},
    )


class Assembler:
    """One assembling process, started when first needed and again after it died. Several threads take turns.

    `start` makes the first process; those after it are new Pythons.
    """

    def __init__(self, start: Callable[[IO[str]], Process] = spawned) -> None:
        self._process: Process | None = None
        self._start = start
        self._turn = threading.Lock()
        self._said: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it lives as long as this does

    def start(self) -> None:
        """Have the process ready ahead of the first kernel."""
        self._started()

    def assemble(self, kernel: Kernel, target: Target, name: str = "", first: int = 100) -> Iterator[Event]:
        """A `KernelAssembled` for each of the `first` autotuning configurations of a Triton kernel, or one
        `KernelNotAssembled`.

        `name` is the kernel's in its source, where that is not `kernel.name`; `target.named` has to be what
        `table.find` knows it by.
        """
        whole, before = _whole(kernel.source)
        answer = self._answer(
            {"source": whole, "name": name or _defined(kernel), "target": target.named, "first": first}
        )
        of: dict[str, Any] = {"graph": kernel.graph, "phase": kernel.phase, "kernel": kernel.name, "target": target.key}
        if "error" in answer:
            yield KernelNotAssembled(reason=answer["error"], **of)
            return
        for made in answer["configs"]:
            stages, taken = machine_code(made, target, _FILE, before)
            yield KernelAssembled(config=made["config"], stages=stages, resources=taken, **of)

    def close(self) -> None:
        """End the process, once it has answered."""
        with self._turn:
            self._end()

    def _end(self) -> None:
        if self._process is not None:
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):  # what it did not read before it ended
                        stream.close()
            self._process.terminate()
            self._process.wait()
            self._process = None

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """What the process says of a kernel. One that ends before it answers may have been ended from outside; only
        when a second one ends too the kernel is at fault."""
        code = 0
        for _ in range(2):
            with self._turn:
                process = self._started()
                if line := _asked(process, json.dumps(request)):
                    answer: dict[str, Any] = json.loads(line)
                    return answer
                self._end()
                code = process.returncode or 0
        return {"error": f"{_ended(code)} over this kernel, twice; {self._last_words()}"}

    def _started(self) -> Process:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = self._start(self._said)
            self._start = spawned
        return self._process

    def _last_words(self) -> str:
        self._said.seek(0)
        lines = self._said.read().strip().splitlines()
        return f"its last words: {lines[-1]}" if lines else "it said nothing"


def _asked(process: Process, request: str) -> str:
    """The process's answer, empty where it ended instead."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(request + "\n")
        process.stdin.flush()
        return process.stdout.readline()
    except OSError:
        return ""


def _ended(code: int) -> str:
    """What became of the process with exit status `code` (negative: a signal)."""
    if code >= 0:
        return f"the process that runs Triton's compiler ended with status {code}"
    number = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    likely = ", most likely because memory ran out," if number == "SIGKILL" else ""
    return f"the process that runs Triton's compiler was ended by {number}{likely}"


def machine_code(
    made: dict[str, Any], target: Target, file: str, before: int
) -> tuple[tuple[Stage, ...], Resources | None]:
    """Stages and resources from what Triton made (`asm` by stage, `cubin` in hex, `metadata`) of a kernel in `file`,
    of which `before` lines stood ahead of the kernel's own. Raises `NoDisassemblerError`, `OSError`."""
    asm: dict[str, str] = made["asm"]
    stages = [stage(name, asm[name], file, before) for name in ORDER if name in asm]
    if target.backend == "hip":
        return tuple(stages), resources.amd(target, made["metadata"], asm.get("amdgcn", ""))
    cubin = bytes.fromhex(made["cubin"])
    code = binary.sass(cubin)
    taken = resources.nvidia(target, binary.usage(cubin), made["metadata"], code)
    return (*stages, stage("sass", code, file, before)), taken


def _whole(source: str) -> tuple[str, int]:
    """A kernel's source as a module of its own, and how many lines were put ahead of it."""
    if "import triton" in source:
        return source, 0
    return _imports() + source, _imports().count("\n")


def own_cache() -> dict[str, str]:
    """An assembling process has a cache of its own: its line information is not Triton's."""
    return {"TRITON_CACHE_DIR": str(Path(platformdirs.user_cache_dir("tcexplore")) / "triton")}


@cache
def _imports() -> str:
    """What Inductor writes at the top of a kernel's module, which the kernel is shown without."""
    from torch._inductor.codegen.triton import TritonKernel

    imports: str = TritonKernel.gen_common_triton_imports()
    return imports.rstrip("\n") + "\n"


def _defined(kernel: Kernel) -> str:
    return kernel.name.partition(":")[0]
