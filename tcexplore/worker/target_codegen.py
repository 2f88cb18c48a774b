"""Code for the target, and machine code of kernels, generated in addition to the user's program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING

import torch
import torch._inductor.config as inductor_config

from tcexplore.capture.hooks import Emit, Hooks
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Job, Phase, TargetSkipped
from tcexplore.targets.device_table import TargetError, find_target
from tcexplore.targets.target_names import NATIVE
from tcexplore.worker.event_recorder import EventRecorder

if TYPE_CHECKING:
    from tcexplore.targets.assembler import Assembler
    from tcexplore.targets.device_table import Target
    from tcexplore.targets.graph_recorder import GraphRecorder, UncompiledGraphs
    from tcexplore.worker.kernel_assembly import KernelAssembly

Enter = Callable[[Phase], None]


class TargetCodegen:
    """Generates code while neither the compile nor the timing of the user's code is measured.

    `recorder` has the run's own kernels; `send` gets events that must not be tagged with a target.
    """

    def __init__(self, job: Job, recorder: EventRecorder, send: Emit) -> None:
        self._config = job.config
        self._runnable = job.runnable
        self._retargetable = job.retargetable
        self._recorder = recorder
        self._send = send
        self._graphs: GraphRecorder | None = None
        self._assembly: KernelAssembly | None = None
        self._assembler: Assembler | None = None
        self._lowered: set[str] = set()
        self._uncompiled: UncompiledGraphs | None = None
        self._answers_as_target = False

    def prepare(self) -> None:
        """Start an assembler process if the job has a target. Must be called before hooks are installed."""
        if self._config.target != NATIVE:
            self._assembler = _start_assembler()

    def install(self, hooks: Hooks, user_files: UserFiles) -> None:
        """Record the graphs that are compiled from now on. Raise `TargetError` for an unknown target."""
        if self._config.target != NATIVE:
            self._run_elsewhere(find_target(self._config.target), hooks)
        elif not self._retargetable:
            return
        from tcexplore.targets.device_answers import record_queries
        from tcexplore.targets.graph_recorder import GraphRecorder

        self._graphs = GraphRecorder(self._recorder.emit)
        self._graphs.install(hooks)
        record_queries(hooks, user_files)

    @property
    def uncompiled(self) -> list[str]:
        """Sentences on the graphs that ran uncompiled on this machine."""
        return [] if self._uncompiled is None else self._uncompiled.reasons

    def lacks_target(self, error: Exception) -> bool:
        """Return whether the program failed for lack of a GPU that the target has."""
        if self._config.target == NATIVE or self._answers_as_target:
            return False
        from tcexplore.targets.device_answers import requires_gpu

        return requires_gpu(error)

    def answer_as_target(self, hooks: Hooks, user_files: UserFiles) -> None:
        """Let the program see the target's GPU from now on."""
        from tcexplore.targets.device_answers import answer_as_target

        self._answers_as_target = True
        answer_as_target(hooks, user_files)

    def _run_elsewhere(self, target: Target, hooks: Hooks) -> None:
        """Let the program run on this machine even if parts of it need the target."""
        from tcexplore.targets.device_emulation import interpret_user_kernels
        from tcexplore.targets.graph_recorder import UncompiledGraphs

        interpret_user_kernels(target, hooks)
        self._uncompiled = UncompiledGraphs(hooks)
        self._uncompiled.install()

    def lower(self, enter: Enter) -> None:
        """Generate the target's code for every graph, and start to assemble its kernels."""
        if self._graphs is None:
            return
        self._graphs.close()
        if self._config.target != NATIVE:
            enter("lowering")
            self._lower_or_skip(self._graphs, self._config.target)

    def retarget(self, name: str, enter: Enter) -> None:
        """Generate and assemble code for another target from the recorded graphs, at most once per target."""
        if self._graphs is None or name in self._lowered | {NATIVE}:
            return
        enter("switching")
        if self._lower_or_skip(self._graphs, name) and self._assembly is not None:
            self._assembly.finish()

    def finish(self, enter: Enter) -> None:
        """Wait until all kernels are assembled, since timing comes next."""
        gpu_kernels = self._recorder.gpu_kernels()
        cpp = [kernel for kernel in self._recorder.kernels if kernel.language == "cpp" and self._config.assembly]
        if self._assembly is None and not cpp and not gpu_kernels:
            return
        enter("assembling")
        if self._assembly is not None:
            self._assembly.finish()
        if self._assembler is not None and not self._retargetable:
            self._assembler.close()
        from tcexplore.worker.kernel_assembly import assemble_cpp, assemble_local

        if gpu_kernels:
            assemble_local(gpu_kernels, self._recorder.wrappers, self._send)
        assemble_cpp(cpp, self._send)

    def _lower_or_skip(self, graphs: GraphRecorder, name: str) -> bool:
        """Lower for a target; if that fails, send a `TargetSkipped` and return False."""
        try:
            self._lower(graphs, name)
        except Exception as error:  # noqa: BLE001  a failure loses only the target's code, never the run
            reason = str(error) if isinstance(error, TargetError) else f"{type(error).__name__}: {error}"
            self._send(TargetSkipped(graph="", target=PurePath(name).stem, op="", reason=reason))
            return False
        return True

    def _lower(self, graphs: GraphRecorder, name: str) -> None:
        from tcexplore.targets.assembler import Assembler
        from tcexplore.worker.kernel_assembly import KernelAssembly

        target = find_target(name)
        self._lowered.add(name)
        if self._assembler is None:
            self._assembler = Assembler()
            self._assembler.start()
        self._assembly = KernelAssembly(self._assembler, target, self._send)
        self._recorder.handle_target_kernel = self._assembly.add
        # The recorded graphs don't include the options that the mode gave to the backend.
        with inductor_config.patch(torch._inductor.list_mode_options(self._config.mode, self._config.dynamic)):
            graphs.lower(target)
            if self._runnable:
                self._make_runnable(graphs, target)

    def _make_runnable(self, graphs: GraphRecorder, target: Target) -> None:
        from tcexplore.targets.graph_recorder import runnable_kernels

        for graph in graphs.graphs:
            for script in runnable_kernels(graph, target):
                self._send(script)


def _start_assembler() -> Assembler:
    """Return an assembler process that is ready for the first kernel: a fork, unless this process uses a GPU."""
    from tcexplore.targets.assembler import Assembler
    from tcexplore.worker.kernel_assembly import fork_assembler

    assembler = Assembler() if torch.cuda.is_initialized() else Assembler(fork_assembler)
    assembler.start()
    return assembler
