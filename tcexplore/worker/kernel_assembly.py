"""Kernels of a run brought to machine code, beside the run, and where they stand under the target's roof."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable

import torch

from tcexplore.capture.hooks import Emit
from tcexplore.events import Kernel, Wrapper
from tcexplore.events.target_events import KernelAssembled, KernelNotAssembled
from tcexplore.targets.assembler import Assembler
from tcexplore.targets.cpu_assembly import compile_to_assembly
from tcexplore.targets.device_table import Target
from tcexplore.targets.roofline import roofline_point

FIRST = 1
"""Autotuning configurations of a kernel that are assembled: on a device that is absent none is measured, so the first
stands for all."""


class Assembly:
    """Assembles Triton kernels for `target` in a thread of its own, one after the other, as they are handed to it."""

    def __init__(self, assembler: Assembler, target: Target, emit: Emit) -> None:
        self._assembler = assembler
        self._target = target
        self._emit = emit
        self._waiting: queue.SimpleQueue[Kernel | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def take(self, kernel: Kernel) -> None:
        """Say where the kernel stands under the roof; its machine code follows when there is any."""
        tf32 = torch.get_float32_matmul_precision() != "highest"
        if point := roofline_point(kernel, self._target, tf32=tf32):
            self._emit(point)
        if kernel.language != "triton":
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="tcexplore assembling", daemon=True)
            self._thread.start()
        self._waiting.put(kernel)

    def finish(self) -> None:
        """Wait until everything that was handed over is assembled."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (kernel := self._waiting.get()) is not None:
            self._assemble(kernel)

    def _assemble(self, kernel: Kernel) -> None:
        try:
            for event in self._assembler.assemble(kernel, self._target, first=FIRST):
                self._emit(event)
        except Exception as error:
            self._emit(not_assembled(kernel, self._target.key, error))


def assemble_here(kernels: Iterable[Kernel], wrappers: Iterable[Wrapper], emit: Emit) -> None:
    """Say what the GPU in this machine runs of the run's own Triton kernels, and where they stand under its roof."""
    from tcexplore.targets.loaded_kernels import loaded_kernel, local_gpu

    known = local_gpu()
    if known is None:
        return
    device, peaks = known
    tf32 = torch.get_float32_matmul_precision() != "highest"
    paths = {(wrapper.graph, wrapper.phase): wrapper.path for wrapper in wrappers}
    for kernel in kernels:
        if peaks and (point := roofline_point(kernel, device, tf32=tf32)):
            emit(point)
        try:
            if kernel.language == "triton":
                for event in loaded_kernel(kernel, paths.get((kernel.graph, kernel.phase), ""), device):
                    emit(event)
        except Exception as error:
            emit(not_assembled(kernel, kernel.target, error))


def assemble_cpp(kernel: Kernel, emit: Emit) -> None:
    """Say the assembly of a C++ kernel of this machine, or why there is none."""
    try:
        made = compile_to_assembly(kernel.source)
    except Exception as error:
        emit(not_assembled(kernel, kernel.target, error))
        return
    emit(
        KernelAssembled(
            graph=kernel.graph,
            phase=kernel.phase,
            kernel=kernel.name,
            target=kernel.target,
            config="",
            stages=(made.stage,),
            vectors=made.vectors,
        )
    )


def not_assembled(kernel: Kernel, target: str, error: Exception) -> KernelNotAssembled:
    """Why there is no machine code of a kernel."""
    reason = f"{type(error).__name__}: {str(error).strip()[:2000]}"
    return KernelNotAssembled(graph=kernel.graph, phase=kernel.phase, kernel=kernel.name, target=target, reason=reason)
