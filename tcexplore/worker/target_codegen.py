"""What a run does beside the user's program: code for the target, and machine code of its kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING

import torch
import torch._inductor.config as inductor_config

from tcexplore.capture.hooks import Emit, Hooks
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import AtenGraph, Event, Job, Kernel, TargetSkipped, Wrapper
from tcexplore.targets.device_table import TargetError, find_target
from tcexplore.targets.target_names import NATIVE
from tcexplore.targets.target_tag import tag_events

if TYPE_CHECKING:
    from tcexplore.targets.assembler import Assembler
    from tcexplore.targets.device_table import Target
    from tcexplore.targets.graph_recorder import GraphRecorder
    from tcexplore.worker.kernel_assembly import Assembly


class TargetCodegen:
    """`emit` is for all that watches the run: it also hands every kernel on to be assembled.

    Nothing of this is done while the user's code is compiled or timed: that is measured.
    """

    def __init__(self, job: Job, emit: Emit) -> None:
        self.emit = tag_events(self._pass_on)
        self._config = job.config
        self._runnable = job.runnable
        self._switchable = job.switchable
        self._emit = emit
        self._companion: GraphRecorder | None = None
        self._assembly: Assembly | None = None
        self._assembler: Assembler | None = None
        self._lowered: set[str] = set()
        self._cpp: list[Kernel] = []
        self._here: list[Kernel] = []
        self._on_gpu: set[tuple[str, str]] = set()
        self._wrappers: list[Wrapper] = []

    def get_ready(self) -> None:
        """Have an assembling process wait where a target is asked for; before anything is installed."""
        if self._config.target != NATIVE:
            self._assembler = _ready()

    def install(self, hooks: Hooks, project: UserFiles) -> None:
        """Keep the graphs that are compiled from here on. Raises `TargetError` for a target that there is not."""
        if self._config.target != NATIVE:
            find_target(self._config.target)
        elif not self._switchable:
            return
        from tcexplore.targets import device_queries
        from tcexplore.targets.graph_recorder import GraphRecorder

        self._companion = GraphRecorder(self.emit)
        self._companion.install(hooks)
        device_queries.install(hooks, project)

    def lower(self, enter: Callable[[str], None]) -> None:
        """Generate the target's code of every graph, in the phase `lowering`; its kernels are assembled meanwhile."""
        if self._companion is None:
            return
        self._companion.close()
        if self._config.target != NATIVE:
            enter("lowering")
            self._lower(self._companion, self._config.target)

    def switch(self, name: str, enter: Callable[[str], None]) -> None:
        """Generate the code for another target and assemble it, in the phase `switching`, of the graphs that are there.

        A target that was lowered before is not lowered again.
        """
        if self._companion is None or name in self._lowered | {NATIVE}:
            return
        enter("switching")
        try:
            self._lower(self._companion, name)
        except TargetError as error:
            self._emit(TargetSkipped(graph="", target=PurePath(name).stem, op="", reason=str(error)))
            return
        if self._assembly is not None:
            self._assembly.finish()

    def _lower(self, companion: GraphRecorder, name: str) -> None:
        from tcexplore.targets.assembler import Assembler
        from tcexplore.worker.kernel_assembly import Assembly

        target = find_target(name)
        self._lowered.add(name)
        if self._assembler is None:
            self._assembler = Assembler()
            self._assembler.start()
        self._assembly = Assembly(self._assembler, target, self._emit)
        # What the backend was told with the mode stands in no graph.
        with inductor_config.patch(torch._inductor.list_mode_options(self._config.mode, self._config.dynamic)):
            companion.lower(target)
            if self._runnable:
                self._make_runnable(companion, target)

    def _make_runnable(self, companion: GraphRecorder, target: Target) -> None:
        from tcexplore.targets.graph_recorder import runnable_kernels

        for captured in companion.graphs:
            for made in runnable_kernels(captured, target):
                self._emit(made)

    def finish(self, enter: Callable[[str], None]) -> None:
        """Wait for what is being assembled, in the phase `assembling`: what follows is timed."""
        if self._assembly is None and not self._cpp and not self._here:
            return
        enter("assembling")
        if self._assembly is not None:
            self._assembly.finish()
        if self._assembler is not None and not self._switchable:
            self._assembler.close()
        if self._here:
            from tcexplore.worker.kernel_assembly import assemble_here

            assemble_here(self._here, self._wrappers, self._emit)
        if self._cpp:
            from tcexplore.worker.kernel_assembly import assemble_cpp

            for kernel in self._cpp:
                assemble_cpp(kernel, self._emit)
            self._cpp = []

    def _pass_on(self, event: Event) -> None:
        self._emit(event)
        if isinstance(event, Wrapper) and event.target == NATIVE:
            self._wrappers.append(event)
        elif isinstance(event, Kernel) and event.target != NATIVE:
            if self._assembly is not None:
                self._assembly.take(event)
        elif isinstance(event, Kernel):
            if self._runs_on_gpu(event):
                self._here.append(event)
            if event.language == "cpp" and self._config.assembly:
                self._cpp.append(event)
        elif isinstance(event, AtenGraph) and event.target == NATIVE and _on_gpu(event):
            self._on_gpu.add((event.graph, event.phase))

    def _runs_on_gpu(self, kernel: Kernel) -> bool:
        """Whether a kernel of the run itself is the GPU's: a library's is where its graph has a tensor there."""
        known = (kernel.graph, kernel.phase) in self._on_gpu
        return kernel.language == "triton" or (kernel.language == "extern" and known)


def _on_gpu(graph: AtenGraph) -> bool:
    return any((node.device or "").startswith("cuda") for node in graph.nodes)


def _ready() -> Assembler:
    """An assembling process that is there when the first kernel is: a fork of this one, unless a GPU is in use here."""
    from tcexplore.targets.assembler import Assembler
    from tcexplore.worker.forked_assembler import forked

    assembler = Assembler() if torch.cuda.is_initialized() else Assembler(forked)
    assembler.start()
    return assembler
