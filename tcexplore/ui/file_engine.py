"""The user's file, watched, and run in a worker on every save."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

from tcexplore.events import Config, Event, Failed, Finished, Job, ModulesImported, TargetLowered, TargetSkipped
from tcexplore.events.commands import RecompileQuery
from tcexplore.session.code import target_of
from tcexplore.studies.study_runs import Emit, Runner
from tcexplore.supervisor import Supervisor
from tcexplore.ui.engine import Deliver
from tcexplore.watch import Watch, look


class FileEngine:
    """Runs `file` (`name` in it, if given) with `config`; `argv` is what a script finds in `sys.argv[1:]`."""

    def __init__(self, file: str, config: Config, argv: tuple[str, ...] = (), name: str | None = None) -> None:
        self._file = os.path.abspath(file)
        self._config = config
        self._argv = argv
        self._name = name
        self._run = 0
        self._due = False
        self._questions = 0
        self._asked = ""
        """The target that the run under way was asked for and has said nothing of."""
        self._holds = 0
        self.job: Job | None = None
        self._watching: asyncio.Task[None] | None = None
        self._supervisor = Supervisor(self._heard)

    async def start(self, deliver: Deliver) -> None:
        """Begin with a first run; from then on every save begins one."""
        self._deliver = deliver
        self._watch = Watch(self._file)
        await self._supervisor.start()
        self.rerun()
        self._watching = asyncio.create_task(self._follow())

    def rerun(self) -> None:
        """Run the file as it is now; one that cannot be read becomes a run that failed."""
        self._due = False
        self._asked = ""
        self._run += 1
        now = look(self._file)
        job = Job(
            run=self._run, file=self._file, source=now.text or "", name=self._name, argv=self._argv,
            config=self._config, switchable=True,
        )  # fmt: skip
        self.job = job
        self._deliver(job)
        if now.text is not None:
            self._supervisor.submit(job)
            return
        self._supervisor.stop_run()
        self._deliver(
            Failed(run=self._run, stage="file", blame="user", type="unreadable", message=now.problem, hint=now.hint)
        )

    def stop_run(self) -> None:
        """End the run that is under way."""
        self._supervisor.stop_run()

    def configure(self, mode: str, backend: str, dynamic: bool | None) -> None:
        """Run the file with these arguments of `torch.compile` from now on, and at once."""
        self._config = replace(self._config, mode=mode, backend=backend, dynamic=dynamic)
        self.rerun()

    def hold(self, held: bool) -> None:
        """Pause the timing of the file's runs, or go on with it once nobody else wants it paused."""
        self._holds += 1 if held else -1
        self._supervisor.hold(self._holds > 0)

    def beside(self, emit: Emit) -> Runner:
        """A lane of the supervisor's own: its workers are ready, and end with the app."""
        return self._supervisor.beside(emit)

    def ask(self, inputs: tuple[str, ...], region: int | None = None) -> bool:
        """Ask the process of the file's run, which still holds what it compiled."""
        self._questions += 1
        return self._supervisor.ask(RecompileQuery(number=self._questions, inputs=inputs, region=region))

    def retarget(self, target: str, *, known: bool) -> bool:
        """Later runs are for `target`; unless its code is `known`, the run that is alive makes it, else a new one."""
        self._config = replace(self._config, target=target)
        if known:
            return True
        if not self._supervisor.switch(target):
            self.rerun()
            return False
        self._asked = target_of(self._config)
        return True

    async def close(self) -> None:
        """Stop watching, end every process."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self._supervisor.close()

    def _heard(self, event: Event) -> None:
        if isinstance(event, ModulesImported) and event.run == self._run:
            self._watch.follow(event.files)
        self._deliver(event)
        if isinstance(event, TargetLowered | TargetSkipped) and event.target == self._asked:
            self._asked = ""
        elif isinstance(event, Finished) and self._asked:
            # The order came too late for that run.
            self.rerun()

    async def _follow(self) -> None:
        async for _ in self._watch.changes():
            # Files that changed together (a checkout) make one run.
            if not self._due:
                self._due = True
                asyncio.get_running_loop().call_soon(self.rerun)
