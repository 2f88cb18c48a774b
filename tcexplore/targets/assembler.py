"""Compilation of Triton kernels to machine code in a separate process, so that a crash there is harmless."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import cache
from typing import IO, Any, Protocol

from tcexplore.events import Kernel
from tcexplore.events.run_events import name_exit
from tcexplore.events.target_events import KernelAssembled, KernelNotAssembled
from tcexplore.files import cache_folder
from tcexplore.model_python import OWN_PYTHON
from tcexplore.targets.assembly_stages import machine_code
from tcexplore.targets.device_table import Target

_FILE = "kernel.py"


class AssemblerProcess(Protocol):
    """An assembler process; `subprocess.Popen` conforms to it."""

    @property
    def stdin(self) -> IO[str] | None: ...
    @property
    def stdout(self) -> IO[str] | None: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def terminate(self) -> None: ...
    def wait(self) -> int: ...


def spawn_assembler(log: IO[str]) -> AssemblerProcess:
    """Start a new Python process, which first imports torch; its stderr goes to `log`."""
    return subprocess.Popen(
        OWN_PYTHON.command("tcexplore.targets.assembler_process"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env={**os.environ, **assembler_env()},
    )


def assembler_env() -> dict[str, str]:
    """Return the environment of an assembler process: a separate Triton cache, since its line information differs."""
    return {"TRITON_CACHE_DIR": str(cache_folder() / "triton")}


class Assembler:
    """One assembler process, started on first use and restarted after it died. Threads may share it.

    `start` creates the first process; later ones are new Python processes.
    """

    def __init__(self, start: Callable[[IO[str]], AssemblerProcess] = spawn_assembler) -> None:
        self._process: AssemblerProcess | None = None
        self._start = start
        self._lock = threading.Lock()
        self._log: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with this object

    def start(self) -> None:
        """Start the process ahead of the first kernel."""
        self._running_process()

    def assemble(
        self, kernel: Kernel, target: Target, name: str = "", first: int = 100
    ) -> Iterator[KernelAssembled | KernelNotAssembled]:
        """Yield a `KernelAssembled` for each of the `first` configurations, or one `KernelNotAssembled`.

        `name` is the kernel's name in its source if it differs from `kernel.name`. `find_target` must accept
        `target.reference`.
        """
        source, added_lines = _as_module(kernel.source)
        answer = self._request(
            {"source": source, "name": name or _function_name(kernel), "target": target.reference, "first": first}
        )
        key: dict[str, Any] = {
            "graph": kernel.graph,
            "phase": kernel.phase,
            "kernel": kernel.name,
            "target": target.key,
        }
        if "error" in answer:
            yield KernelNotAssembled(reason=answer["error"], **key)
            return
        for compiled in answer["configs"]:
            made = machine_code(compiled, target, _FILE, added_lines)
            yield KernelAssembled(config=compiled["config"], **made._asdict(), **key)

    def close(self) -> None:
        """End the process after its current answer."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._process is not None:
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):  # unread input is left in the pipe
                        stream.close()
            self._process.terminate()
            self._process.wait()
            self._process = None

    def _request(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return the answer. Try twice: the first process may have been killed from outside."""
        code = 0
        for _ in range(2):
            with self._lock:
                process = self._running_process()
                if line := _exchange(process, json.dumps(request)):
                    answer: dict[str, Any] = json.loads(line)
                    return answer
                self._end()
                code = process.returncode or 0
        cause = " (probably out of memory)" if code == -signal.SIGKILL else ""
        end = f"the Triton compiler process ended with {name_exit(code)}{cause}"
        return {"error": f"{end}, twice, on this kernel; {self._last_log_line()}"}

    def _running_process(self) -> AssemblerProcess:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = self._start(self._log)
            self._start = spawn_assembler
        return self._process

    def _last_log_line(self) -> str:
        self._log.seek(0)
        lines = self._log.read().strip().splitlines()
        return f"last output: {lines[-1]}" if lines else "no output"


def _exchange(process: AssemblerProcess, request: str) -> str:
    """Return the process's answer, or an empty string if it ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(request + "\n")
        process.stdin.flush()
        return process.stdout.readline()
    except OSError:
        return ""


def _as_module(source: str) -> tuple[str, int]:
    """Return a kernel's source as a module, and the number of lines added at its top."""
    if "import triton" in source:
        return source, 0
    return _imports() + source, _imports().count("\n")


@cache
def _imports() -> str:
    """Return the imports at the top of Inductor's kernel modules; the displayed source omits them."""
    from torch._inductor.codegen.triton import TritonKernel

    imports: str = TritonKernel.gen_common_triton_imports()
    return imports.rstrip("\n") + "\n"


def _function_name(kernel: Kernel) -> str:
    """Return the name of the kernel in its source. The wrapper appends numbers to the names of the user's kernels."""
    user_op = kernel.user_op
    return user_op.name if user_op and user_op.kind == "Triton kernel" else kernel.name.partition(":")[0]
