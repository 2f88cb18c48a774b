"""Worker pool that keeps workers ready, shares them between run queues, and leaves no process behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tcexplore.events import Event, Failed, Standby
from tcexplore.supervisor.run_process import FULL_SPEED_S
from tcexplore.supervisor.run_queue import RunQueue
from tcexplore.supervisor.worker_process import WorkerProcess

STANDBYS = 2
"""Number of workers kept ready if each serves one run: starting one takes seconds, and saves may come in pairs."""


class WorkerPool:
    """Starts workers and gives their run processes to the queues that have a job waiting."""

    def __init__(self, *, single: bool = False, once: bool = False) -> None:
        self._single = single
        self._once = once
        self._workers: list[WorkerProcess] = []
        self._started = 0
        self._restock = True
        """Whether to start workers; False after one could not be started, until the next job."""
        self._queues: list[RunQueue] = []
        self._standby: Standby | None = None
        self._announced: set[int] = set()
        self._closing = False
        self._retry: asyncio.TimerHandle | None = None

    def start_first_worker(self) -> None:
        """Start a worker for the first job only, whose run waits only for its own imports."""
        self._start_worker(single=True, prime=False)

    def _start_worker(self, *, single: bool, prime: bool) -> None:
        self._started += 1
        self._workers.append(WorkerProcess(self._started, self._update, single=single, prime=prime))

    async def close(self) -> None:
        """End every process; return when all have ended."""
        self._closing = True
        if self._retry is not None:
            self._retry.cancel()
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
        if worker.standby is not None and worker.number not in self._announced:
            self._announced.add(worker.number)
            self._standby = worker.standby
            for queue in self._queues:
                queue.emit(worker.standby)
        if worker.failure is not None:
            self._reject(worker.failure)
            worker.failure = None
        if worker.gone:
            self._workers.remove(worker)
        self._assign()

    def _assign(self) -> None:
        for worker in self._workers:
            queue = next((queue for queue in self._queues if queue.waiting is not None), None)
            if queue is not None and worker.idle_process is not None and worker.idle_process.ready:
                process, worker.idle_process = worker.idle_process, None
                queue.assign(worker, process)
        self._replenish()

    def _replenish(self) -> None:
        if self._once or not self._restock:
            return
        fork_servers = [worker for worker in self._workers if worker.fork_server and not worker.gone]
        for worker in fork_servers:
            if worker.idle_process is None:
                worker.open_run()
        ready = any(worker.standby is not None for worker in self._workers)
        wanted = STANDBYS if ready and not fork_servers else 1
        for _ in range(wanted - sum(worker.idle_process is not None for worker in self._workers)):
            if self._would_disturb():
                self._replenish_later()
                return
            self._start_worker(single=self._single, prime=True)

    def _would_disturb(self) -> bool:
        """Return whether to delay one more worker, which occupies a core for seconds.

        No job waits for it, and a run has no graph yet or is being timed, or another worker is still starting.
        """
        if any(queue.waiting is not None for queue in self._queues) or not self._workers:
            return False
        starting = any(worker.standby is None for worker in self._workers)
        return starting or any(queue.timing or queue.unanswered for queue in self._queues)

    def _replenish_later(self) -> None:
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(FULL_SPEED_S, self._retry_now)

    def _retry_now(self) -> None:
        self._retry = None
        if not self._closing:
            self._assign()

    def _reject(self, failure: Failed) -> None:
        """Fail the waiting jobs, and start no worker until the next job."""
        self._restock = False
        for queue in self._queues:
            queue.reject(failure)


class Supervisor(RunQueue):
    """The run queue that owns the worker pool.

    `single` asks for workers that don't fork. With `once` there is only one job, so no other worker is prepared.
    """

    def __init__(self, emit: Callable[[Event], None], *, single: bool = False, once: bool = False) -> None:
        self._pool = WorkerPool(single=single, once=once)
        super().__init__(self._pool, emit)

    async def start(self) -> None:
        """Start a worker and return immediately; it emits `Standby` when it is ready."""
        await super().start()
        self._pool.start_first_worker()

    def study_queue(self, emit: Callable[[Event], None]) -> RunQueue:
        """Return another queue on the same workers, to be started and closed by the caller."""
        return RunQueue(self._pool, emit)

    async def close(self) -> None:
        """End every process, including those of study queues; return when all have ended."""
        await self._pool.close()
