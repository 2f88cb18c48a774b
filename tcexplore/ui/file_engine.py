"""Watch the model file, and run it in a worker on every save."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

from tcexplore.events import Config, Failed, Job
from tcexplore.events.commands import PauseTiming, Retarget, RunCommand
from tcexplore.model_python import OWN_PYTHON, ModelPython, StartedWorker
from tcexplore.session import Snapshot
from tcexplore.session.code import target_of
from tcexplore.studies.runs import Emit, Runner
from tcexplore.supervisor import STANDBYS, Supervisor
from tcexplore.supervisor.supervisor import StudyQueue
from tcexplore.ui.engine import Deliver, Engine
from tcexplore.watch import Watch, read_file


class FileEngine(Engine):
    """Runs `file` (`name` in it, if given) with `config`; a script finds `argv` in `sys.argv[1:]`.

    `standbys` is the number of processes to keep ready where each prepares itself. The first of `pythons` runs
    the file; studies may compare it with the others. `worker` is a process of it that has been started.
    """

    def __init__(
        self,
        file: str,
        config: Config,
        argv: tuple[str, ...] = (),
        name: str | None = None,
        standbys: int = STANDBYS,
        pythons: tuple[ModelPython, ...] = (OWN_PYTHON,),
        worker: StartedWorker | None = None,
    ) -> None:
        super().__init__()
        self._file = os.path.abspath(file)
        self._config = config
        self._argv = argv
        self._name = name
        self._standbys = standbys
        self.pythons = pythons
        self._worker = worker
        self.structure_only = False
        """Whether the next runs are for their structure only."""
        self._run = 0
        self._run_due = False
        self._pauses = 0
        self._pending_target = ""
        """The target of the last `Retarget` that the current run has not handled."""
        self._modules: tuple[str, ...] = ()
        """The modules that are watched."""
        self._watching: asyncio.Task[None] | None = None

    async def start(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._queue = Supervisor(deliver, standbys=self._standbys, python=self.pythons[0])
        await self._queue.start(self._worker)
        self._watch_file()

    def rerun(self) -> bool:
        self._model = read_file(self._file)
        self._begin_run()
        return True

    def stop_run(self) -> None:
        self._queue.stop_run()

    def configure(self, mode: str, backend: str, dynamic: bool | None, further: tuple[str, ...] | None = None) -> None:
        override = ("mode", "backend", "dynamic")
        further = self._config.compile_arguments if further is None else further
        self._config = replace(
            self._config, mode=mode, backend=backend, dynamic=dynamic, override=override, compile_arguments=further
        )
        self.rerun()

    def compile_name(self, name: str | None) -> None:
        self._name = name
        self.rerun()

    def open_file(self, file: str, target: str = "") -> None:
        self._file, self._argv, self._name = os.path.abspath(file), (), None
        self._config = replace(self._config, inputs=(), vary=(), target=target or self._config.target)
        if self._watching is not None:
            self._watching.cancel()
        self._watch_file()

    def _watch_file(self) -> None:
        """Run the file, and run it again whenever it changes."""
        self._model = read_file(self._file)
        self._watch, self._modules = Watch(self._file, self._model), ()
        self._begin_run()
        self._watching = asyncio.create_task(self._run_on_change())

    def retarget(self, target: str, *, known: bool) -> bool:
        self._config = replace(self._config, target=target)
        if known:
            return True
        if not self._queue.send(Retarget(target=target)):
            self.rerun()
            return False
        self._pending_target = target_of(self._config)
        return True

    def send(self, command: RunCommand) -> bool:
        if isinstance(command, PauseTiming):
            self._pauses += 1 if command.paused else -1
            command = PauseTiming(paused=self._pauses > 0)
        return self._queue.send(command)

    def study_queue(self, emit: Emit) -> Runner:
        return StudyQueue(self._queue.study_queue, self.pythons[0], emit)

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self._queue.close()

    def _begin_run(self) -> None:
        """Run the model file as last read; if it cannot be read, deliver a failed run."""
        self._run_due = False
        self._pending_target = ""
        self._run += 1
        model = self._model
        job = Job(
            run=self._run, file=self._file, source=model.text or "", name=self._name, argv=self._argv,
            config=self._config, retargetable=True, structure_only=self.structure_only,
        )  # fmt: skip
        self.job = job
        self._deliver(job)
        if model.text is not None:
            self._queue.submit(job)
            return
        self._queue.stop_run()
        self._deliver(
            Failed(run=self._run, stage="file", blame="user", type="unreadable", message=model.problem, hint=model.hint)
        )

    def update(self, run: Snapshot) -> None:
        """Watch the modules that the newest run imported; rerun if it ended before it took a `Retarget`."""
        if run.run != self._run:
            return
        if run.modules is not self._modules and (run.modules or run.complete):
            self._modules = run.modules
            self._watch.set_modules(run.modules)
        code = run.code_for(self._pending_target)
        if code.lowered or code.not_lowered:
            self._pending_target = ""
        elif self._pending_target and run.status == "ok":
            self.rerun()

    async def _run_on_change(self) -> None:
        async for change in self._watch.changes():
            if change.path == self._file:
                self._model = change
            # Files that change together, as in a checkout, make one run.
            if not self._run_due:
                self._run_due = True
                asyncio.get_running_loop().call_soon(self._begin_run)
