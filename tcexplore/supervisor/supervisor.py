"""Worker pool that keeps workers ready, shares them between run queues, and leaves no process behind.

Also queues for runs in fresh processes: in several environments, or because their first call is to be cold.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from tcexplore.events import Event, Failed, Job, Standby
from tcexplore.events.commands import PauseTiming, RunCommand
from tcexplore.model_python import OWN_PYTHON, ModelPython, StartedWorker
from tcexplore.supervisor.leading_imports import may_run
from tcexplore.supervisor.run_process import RunProcess
from tcexplore.supervisor.run_queue import RunQueue
from tcexplore.supervisor.worker_process import WorkerProcess

STANDBYS = 2
"""Default number of processes kept ready if each primes itself, which takes seconds: saves may come in pairs."""

LONGEST_HOLD_S = 30.0
"""Maximum seconds for which timing waits while workers prepare for later runs."""


class WorkerPool:
    """Starts workers and gives their run processes to the queues that have a job waiting."""

    def __init__(
        self, *, single: bool, once: bool, prime: bool, standbys: int, python: ModelPython, warm_up: bool
    ) -> None:
        self._single = single or once
        self._once = once
        self._prime = prime
        self._standbys = standbys
        self._python = python
        self.warm_up = warm_up
        """Whether the processes that wait for the next job warm up on a CPU."""
        self._workers: list[WorkerProcess] = []
        self._started = 0
        self._restock = True
        """Whether to start workers; False after one could not be started, until the next job."""
        self._queues: list[RunQueue] = []
        self._standby: Standby | None = None
        self._closing = False
        self._hold: asyncio.TimerHandle | None = None
        """Set while workers prepare; fires after `LONGEST_HOLD_S`."""
        self._hold_over = False
        """Whether it fired."""

    def start_first_worker(self, started: StartedWorker | None = None) -> None:
        """Start a worker, whose first run waits only for its own imports, or take the one that is `started`."""
        self._start_worker(prime=False, started=started)

    def _start_worker(self, *, prime: bool, started: StartedWorker | None = None) -> None:
        self._started += 1
        worker = WorkerProcess(
            self._started, self._update, single=self._single, prime=prime, python=self._python, started=started
        )
        self._workers.append(worker)

    async def close(self) -> None:
        """End every process; return when all have ended."""
        self._closing = True
        if self._hold is not None:
            self._hold.cancel()
        for queue in self._queues:
            queue.end()
        await asyncio.gather(*(worker.close() for worker in self._workers))
        await asyncio.gather(*(queue.wait_ended() for queue in self._queues))

    def add_queue(self, queue: RunQueue) -> None:
        """Serve a queue from now on."""
        self._queues.append(queue)
        if self._standby is not None:
            queue.emit(self._standby)

    def remove_queue(self, queue: RunQueue) -> None:
        """Stop serving a queue."""
        if queue in self._queues:
            self._queues.remove(queue)

    def serve(self) -> None:
        """Give waiting jobs to run processes, and start more workers if needed."""
        self._restock = True
        if not self._closing:
            self._assign()

    def _update(self, worker: WorkerProcess) -> None:
        """React to a change of a worker's state."""
        if self._closing:
            return
        if worker.standby is not None:
            self._single = self._single or not worker.fork_server or bool(worker.standby.fork_problem)
            self._announce(worker.standby)
        if worker.failure is not None:
            self._reject(worker.failure)
            worker.failure = None
        if worker.gone:
            self._workers.remove(worker)
        self._assign()

    def _announce(self, standby: Standby) -> None:
        """Tell the queues about the first worker, and about the first primed one."""
        if self._standby is not None and self._standby.primed >= standby.primed:
            return
        self._standby = standby
        for queue in self._queues:
            queue.emit(standby)

    def _assign(self) -> None:
        for queue in self._queues:
            if queue.waiting is not None and (best := self._best_idle(queue)) is not None:
                worker, process = best
                worker.idle.remove(process)
                queue.assign(worker, process)
        self._replenish()
        self._hold_timing()

    def _best_idle(self, queue: RunQueue) -> tuple[WorkerProcess, RunProcess] | None:
        """Return a run process that waits for a job of the queue: a primed one, or else the oldest.

        End those that made other imports than this job's file.
        """
        assert queue.waiting is not None
        kept = [
            (worker, run) for worker in self._workers for run in worker.idle
            if run.for_study == (queue.is_study and self._keeps_for_save(worker))
        ]  # fmt: skip
        for worker, run in kept:
            if not may_run(queue.waiting, run.imports):
                worker.discard(run)
        ready = [(worker, run) for worker, run in kept if run.pid is not None and run in worker.idle]
        return next((pair for pair in ready if pair[1].primed), ready[0] if ready else None)

    def _replenish(self) -> None:
        if self._once or not self._restock:
            return
        servers = [worker for worker in self._workers if worker.serving]
        for worker in servers:
            self._provide(worker)
        if servers:
            return
        ready = any(worker.standby is not None for worker in self._workers)
        wanted = self._standbys if ready and self._single else 1
        for _ in range(wanted - sum(len(worker.idle) for worker in self._workers)):
            if self._would_disturb():
                return
            self._start_worker(prime=self._prime and self._single)

    def _provide(self, worker: WorkerProcess) -> None:
        """Keep processes of a fork server ready, and have it prepare, but not while a run has no graph yet."""
        without_graph = any(queue.without_graph for queue in self._queues)
        waiting = sum(queue.waiting is not None for queue in self._queues)
        kept = self._standbys if worker.self_priming else 1
        if self._keeps_for_save(worker):
            studies = sum(queue.is_study and queue.waiting is not None for queue in self._queues)
            waiting -= studies
            for _ in range(studies - sum(run.for_study for run in worker.idle)):
                worker.open_run(warm_up=False, for_study=True)
        if worker.standby is not None and not (worker.prepare_sent or without_graph or waiting):
            worker.prepare(prime=self._prime)
        while sum(not run.for_study for run in worker.idle) < (waiting if without_graph else kept):
            rehearsal = next((queue.rehearsal for queue in self._queues if queue.rehearsal), None)
            imports = next((queue.next_imports for queue in self._queues if queue.next_imports), None)
            worker.open_run(rehearsal, imports, warm_up=self.warm_up)

    def _keeps_for_save(self, worker: WorkerProcess) -> bool:
        """Return whether the process that waits, and rehearses, is for the next save, and studies get others.

        A process that primes itself is too slow to start for that, and there are several.
        """
        return worker.serving and not worker.self_priming and any(queue.saves for queue in self._queues)

    @property
    def unanswered(self) -> bool:
        """Whether a run has no graph yet, or a job waits for a process."""
        return any(queue.without_graph or queue.waiting is not None for queue in self._queues)

    def _would_disturb(self) -> bool:
        """Return whether to delay one more worker, which occupies a core for seconds.

        No job waits for it, and a run has no graph yet, or another worker is still starting.
        """
        if any(queue.waiting is not None for queue in self._queues) or not self._workers:
            return False
        return any(worker.standby is None for worker in self._workers) or self.unanswered

    def _hold_timing(self) -> None:
        """Let timing wait while workers prepare for later runs, but not longer than `LONGEST_HOLD_S`.

        That of studies also waits while the file's run generates code for a target.
        """
        preparing = any(worker.preparing for worker in self._workers)
        if preparing and self._hold is None:
            self._hold = asyncio.get_running_loop().call_later(LONGEST_HOLD_S, self._resume_timing)
        elif not preparing and self._hold is not None:
            self._hold.cancel()
            self._hold, self._hold_over = None, False
        generating = any(queue.generates_code for queue in self._queues if not queue.is_study)
        for queue in self._queues:
            queue.hold_timing((preparing and not self._hold_over) or (generating and queue.is_study))

    def _resume_timing(self) -> None:
        self._hold_over = True
        self._hold_timing()

    def _reject(self, failure: Failed) -> None:
        """Fail the waiting jobs, and start no worker until the next job."""
        self._restock = False
        for queue in self._queues:
            queue.reject(failure)


class Supervisor(RunQueue):
    """The run queue that owns the worker pool.

    `single` asks for workers that don't fork. With `once` there is only one job, so no other worker is prepared.
    `prime` asks for workers that compile a tiny model before later runs. `standbys` is the number of processes to keep
    ready where each primes itself. `python` runs the workers. Without `warm_up`, the process for the next job only
    waits: that costs less where all cores are busy and jobs follow one another.
    """

    def __init__(
        self,
        emit: Callable[[Event], None],
        *,
        single: bool = False,
        once: bool = False,
        prime: bool = True,
        standbys: int = STANDBYS,
        python: ModelPython = OWN_PYTHON,
        warm_up: bool = True,
    ) -> None:
        self._pool = WorkerPool(
            single=single, once=once, prime=prime, standbys=standbys, python=python, warm_up=warm_up
        )
        super().__init__(self._pool, emit)

    async def start(self, started: StartedWorker | None = None) -> None:
        """Start a worker, unless one is `started`, and return immediately; it emits `Standby` when it is ready."""
        self.start_now(started)

    def start_now(self, started: StartedWorker | None = None) -> None:
        """Start a worker, unless one is `started`; an event loop must be running."""
        self._pool.add_queue(self)
        self._pool.start_first_worker(started)

    def study_queue(self, emit: Callable[[Event], None]) -> RunQueue:
        """Return another queue on the same workers, to be started and closed by the caller."""
        return RunQueue(self._pool, emit, is_study=True)

    async def close(self) -> None:
        """End every process, including those of study queues; return when all have ended."""
        await self._pool.close()


class EnvironmentQueue:
    """Runs each job in a new worker of the environment that `Job.python` names.

    No worker is prepared for a later run: it would disturb the compile and the timing of this one.
    """

    def __init__(self, pythons: Mapping[str, ModelPython], emit: Callable[[Event], None]) -> None:
        self._pythons = pythons
        self._emit = emit
        self._current: Supervisor | None = None
        self._paused = False
        self._closing: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start nothing before the first job."""

    def submit(self, job: Job) -> None:
        """Run this job now and end the previous run."""
        self.end()
        self._current = Supervisor(self._emit, once=True, python=self._pythons[job.python])
        self._current.send(PauseTiming(paused=self._paused))
        self._current.start_now()
        self._current.submit(job)

    def send(self, command: RunCommand) -> bool:
        """Send a command to the current run; return False if no run receives it. A pause also applies to later runs."""
        if isinstance(command, PauseTiming):
            self._paused = command.paused
        return self._current is not None and self._current.send(command)

    def end(self) -> None:
        """End the current run and its worker."""
        if self._current is not None:
            task = asyncio.create_task(self._current.close())
            self._current = None
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """End the current run; return when all processes have ended."""
        self.end()
        await asyncio.gather(*self._closing)


class StudyQueue:
    """Runs the jobs of a study on shared workers, and those that are cold in a new worker each."""

    def __init__(
        self, shared: Callable[[Callable[[Event], None]], RunQueue], python: ModelPython, emit: Callable[[Event], None]
    ) -> None:
        """`shared` makes the queue on the shared workers."""
        self._shared = shared(emit)
        self._cold = EnvironmentQueue({"": python}, emit)
        self._current: RunQueue | EnvironmentQueue = self._shared

    async def start(self) -> None:
        """Register with the shared workers; return immediately."""
        await self._shared.start()

    def submit(self, job: Job) -> None:
        """Run this job and end the previous run."""
        self._current.end()
        self._current = self._cold if job.cold else self._shared
        self._current.submit(job)

    def send(self, command: RunCommand) -> bool:
        """Send a command to the current run; return False if no run receives it. A pause also applies to later runs."""
        received = [queue.send(command) for queue in (self._shared, self._cold)]
        return any(received)

    def end(self) -> None:
        """End the current run."""
        self._current.end()

    async def close(self) -> None:
        """End the current run; return when all processes have ended."""
        await asyncio.gather(self._shared.close(), self._cold.close())
