"""Cells of a table: compiled several at once, then timed one at a time, the ones that matter for longer."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.session.compile_time import compile_time
from tcexplore.session.economics import DECIDED
from tcexplore.studies.progress import BudgetSpentError, StudyProgress
from tcexplore.studies.runs import Runs, StudyRun, has_ended, timed_out
from tcexplore.studies.study import Announce, StudyState

COMPILING, TIMING, AGAIN = "compiling", "timing", "timing again"
"""The kinds of steps; `AGAIN` are further slices of cells that matter."""

MAX_AT_ONCE = 4
"""Compiles at once; each also starts C++ compilers."""

SLICES = 4
"""How often a cell that matters is timed again."""

TURNS = 6
"""Slices of each cell if the times of cells are compared with each other."""

NARROW = 1.04
"""Ratio of the ends of an interval that is narrow enough."""
FAR = 3.0
"""Distance of a speedup from 1, in widths of its interval, from which on more pairs don't change the verdict."""

HOPELESS = 1.6
"""Ratio of the ends of an interval after a slice that further slices would not narrow enough."""

FREE_SHARE = 0.25
"""Share of the memory that stays free: a compiled cell waits in its process until it is timed."""

PROCESSES = 2
"""Other processes in which a cell that matters is timed; a cell that is clearly not the best is timed in one."""

LONGEST_S = 3600.0
"""`Job.time_for` of a cell; the study ends its timing."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One configuration."""

    key: Hashable
    name: str
    job: ev.Job
    """Timed if its `time_for` is not 0."""


@dataclass(frozen=True, slots=True)
class CellUpdate:
    """Facts about a cell so far: its status is `running` until it has been timed."""

    cell: Cell
    run: Snapshot


@dataclass(slots=True)
class _Held:
    """A compiled cell that waits in its process."""

    cell: Cell
    run: StudyRun
    slices: int = 0


Matters = Callable[[dict[Hashable, Snapshot]], set[Hashable]]
"""Given all cells by key, returns the keys of those that should be timed for longer."""


def is_certain(timing: ev.TimingEstimate | None) -> bool:
    """Return whether more timing would not change a verdict: `is_clear`, and of all processes to time."""
    return timing is not None and not timing.processes_to_come and is_clear(timing)


def is_clear(timing: ev.TimingEstimate | None) -> bool:
    """Return whether more pairs would not change a verdict: its interval is narrow, or far from 1."""
    if timing is None or timing.verdict not in DECIDED:
        return False
    width = math.log(timing.high / timing.low) if timing.low > 0 else math.inf
    return width <= math.log(NARROW) or abs(math.log(timing.speedup)) >= FAR * width


def may_become_certain(timing: ev.TimingEstimate) -> bool:
    """Return whether another slice could decide: the verdict is not certain, but the noise is not hopeless."""
    return not is_certain(timing) and 0 < timing.high <= HOPELESS * timing.low


def compiles_at_once(machine: ev.Standby | None) -> int:
    """Return how many cells compile at once: one on a GPU, whose kernels are autotuned by timing them."""
    if machine is not None and machine.device != "cpu":
        return 1
    return max(1, min(MAX_AT_ONCE, _core_count()))


def _core_count() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def memory_is_free() -> bool:
    """Return whether another process may stay alive; True if the system does not report its memory."""
    with suppress(OSError, ValueError, KeyError):
        limit, used = Path("/sys/fs/cgroup/memory.max").read_text(), Path("/sys/fs/cgroup/memory.current").read_text()
        if limit.strip() != "max" and int(used) > (1 - FREE_SHARE) * int(limit):
            return False
    with suppress(OSError, ValueError, KeyError):
        lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
        sizes = {name: int(amount) for name, amount, *_ in lines}
        return sizes["MemAvailable:"] > FREE_SHARE * sizes["MemTotal:"]
    return True


def _slice_name(cell: Cell, number: int) -> str:
    return f"{cell.name}, slice {number}"


def plan_cells(steps: StudyProgress, cells: Sequence[Cell], state: StudyState[Any, Any]) -> None:
    """Add the steps of cells. Each might compile for as long as the model file's own run did."""
    compile_s = compile_time(state.own).seconds if state.own is not None else None
    steps.plan([cell.name for cell in cells], COMPILING, compile_s or None)
    steps.plan([cell.name for cell in cells if cell.job.time_for], TIMING, state.job.time_for or 0.0)


class TimedCells:
    """Runs cells and yields what is known of each as it comes.

    Several cells are compiled at once. Each of them is then timed while nothing else runs, until its verdict is clear
    or a slice of seconds is over, and waits in its process while the next ones compile. In the end, those that matter
    get up to `SLICES` slices, until they are certain.

    With `goes_on`, the first cell compiles alone and is timed, and the others follow if `goes_on` is true of its run.

    With `in_turn`, times of different cells can be compared: each compiles alone, and once all are compiled, each gets
    `TURNS` whole slices, in turn with the others.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        state: StudyState[Any, Any],
        runs: Runs,
        announce: Announce,
        matters: Matters = set,
        *,
        in_turn: bool = False,
        goes_on: Callable[[Snapshot], bool] | None = None,
        known: Mapping[Any, Snapshot] | None = None,
    ) -> None:
        """`known` are the cells of earlier batches, with which `matters` compares."""
        self._waiting = list(reversed(cells))
        self._cells = cells
        self._state = state
        self._announce = announce
        self._runs = runs
        self._limit_s = state.timeout
        self._slice_s = state.job.time_for or 0.0
        self._matters = matters
        self._in_turn = in_turn
        self._goes_on = goes_on
        self._held: list[_Held] = []
        self._known: dict[Hashable, Snapshot] = dict(known or {})
        self._updates: asyncio.Queue[CellUpdate | None] = asyncio.Queue()

    async def results(self) -> AsyncGenerator[CellUpdate, None]:
        """Run all cells. Raises `BudgetSpentError`."""
        plan_cells(self._runs.steps, self._cells, self._state)
        work = asyncio.create_task(self._work(), name="timed cells")
        try:
            while (update := await self._updates.get()) is not None:
                yield update
            await work
        finally:
            work.cancel()
            await asyncio.wait({work})

    async def _work(self) -> None:
        try:
            at_once = 1 if self._in_turn else compiles_at_once(await self._runs.machine(self._limit_s))
            if self._goes_on is not None:
                await self._compile_some(1)
                await self._time_new()
                if not self._goes_on(self._known[self._cells[0].key]):
                    self._waiting.clear()
                if not self._waiting or not memory_is_free():
                    await self._time_again()
            while self._waiting:
                await (self._compile_all() if self._in_turn else self._compile_some(at_once))
                await self._time_new()
                if not self._waiting or at_once == 1 or not memory_is_free():
                    await self._time_again()
        finally:
            for held in self._held:
                self._runs.release(held.run)
            self._updates.put_nowait(None)

    # ---- compile

    async def _compile_some(self, at_once: int) -> None:
        """Compile some cells, at once."""
        self._runs.steps.begin(COMPILING)
        cells = [self._waiting.pop() for _ in range(min(at_once, len(self._waiting)))]
        lanes = [asyncio.create_task(self._compile(cell)) for cell in cells]
        try:
            await asyncio.gather(*lanes)
        finally:
            for lane in lanes:
                lane.cancel()
            await asyncio.wait(lanes)

    async def _compile_all(self) -> None:
        """Compile one cell after another, as long as there is memory for the processes that wait."""
        await self._compile_some(1)
        while self._waiting and memory_is_free() and not self._rest_is_for_timing():
            await self._compile_some(1)

    def _rest_is_for_timing(self) -> bool:
        """Return whether the rest of a budget is needed to time what is compiled."""
        return self._runs.steps.budget_left_s < 2 * self._slice_s * len(self._held)

    async def _compile(self, cell: Cell) -> None:
        timed = bool(cell.job.time_for)
        job = cell.job
        if timed:
            job = replace(job, time_for=LONGEST_S, timing_rests=False, timing_processes=PROCESSES)
        run = await self._runs.begin(job, hold=timed)
        self._begin(cell)
        try:
            in_time = await self._runs.wait(run, lambda now: timed and _may_be_timed(now), self._limit_s)
            if in_time and run.snapshot.timing_skipped:
                run.resume()
                in_time = await self._runs.wait(run, has_ended, self._limit_s)
        except (BudgetSpentError, asyncio.CancelledError):
            self._runs.release(run)
            raise
        finally:
            self._state.active -= {cell.key}
        self._runs.steps.finish(cell.name, COMPILING)
        if in_time and not has_ended(run.snapshot):
            self._held.append(_Held(cell, run))
            self._publish(cell, run.snapshot)
            return
        self._runs.steps.finish(cell.name, TIMING)
        self._publish(cell, run.end(None if in_time else timed_out(run.snapshot, self._limit_s)))
        self._runs.release(run)

    # ---- time

    async def _time_new(self) -> None:
        """Time every cell that was compiled since the last one was timed."""
        self._runs.steps.begin(TIMING)
        for held in self._held:
            if not held.slices:
                await self._time(held)

    async def _time_again(self) -> None:
        """Time the cells that matter again, and end all processes."""
        left = [_slice_name(held.cell, n) for held in self._held for n in range(held.slices + 1, self._most + 1)]
        self._runs.steps.plan(left, AGAIN, self._slice_s, optional=True)
        self._runs.steps.begin(AGAIN)
        while (again := self._again()) is not None:
            await self._time(again)
            self._runs.steps.finish(_slice_name(again.cell, again.slices), AGAIN)
        self._runs.steps.end(AGAIN)
        while self._held:
            self._runs.release(self._held.pop().run)

    @property
    def _most(self) -> int:
        """How often a cell is timed at most."""
        return TURNS if self._in_turn else SLICES

    def _again(self) -> _Held | None:
        """Return the cell that was timed least of those that matter."""
        matter = self._matters(self._known)
        candidates = [held for held in self._held if held.slices < self._most and held.cell.key in matter]
        candidates = [held for held in candidates if not has_ended(held.run.snapshot)]
        return min(candidates, key=lambda held: held.slices, default=None)

    async def _time(self, held: _Held) -> None:
        held.slices += 1
        cell, run = held.cell, held.run
        # Slow calls need longer for their first verdict.
        loop, pairs = asyncio.get_running_loop(), _pairs(run.snapshot)
        self._begin(cell, ", again for a narrower interval" * (held.slices > 1))
        run.resume()
        until = loop.time() + self._slice_s

        def is_timed(now: Snapshot) -> bool:
            enough = is_clear if held.slices == 1 else is_certain
            if not self._in_turn and enough(now.timing):
                return True
            return loop.time() >= until and _pairs(now) > pairs

        try:
            in_time = await self._runs.wait(run, is_timed, self._limit_s)
        except BudgetSpentError:
            now = run.snapshot
            if now.timing is not None:
                self._publish(cell, now.apply(ev.Finished(run=now.run)))
            raise
        finally:
            self._state.active -= {cell.key}
        run.pause()
        self._runs.steps.finish(cell.name, TIMING)
        now = run.snapshot
        last = ev.Finished(run=now.run) if in_time or now.timing else timed_out(now, self._limit_s)
        self._publish(cell, now if has_ended(now) else now.apply(last))
        await asyncio.sleep(_pair_s(now))

    def _begin(self, cell: Cell, again: str = "") -> None:
        self._state.active |= {cell.key}
        active = [other.name for other in self._cells if other.key in self._state.active]
        self._announce("; ".join(active) + again)

    def _publish(self, cell: Cell, run: Snapshot) -> None:
        self._known[cell.key] = run
        self._updates.put_nowait(CellUpdate(cell, run))


STOPPED, BUDGET_SPENT = "the study was stopped", "the budget was spent"
"""Why a run is not timed although it could be."""


def settled(run: Snapshot, *, stopped: bool) -> Snapshot:
    """Return a run as it is when its study is over: one that still waits for its timing is not timed."""
    if has_ended(run):
        return run
    reason = STOPPED if stopped else BUDGET_SPENT
    return run.apply(ev.TimingSkipped(run=run.run, reason=reason)).apply(ev.Finished(run=run.run))


def _may_be_timed(run: Snapshot) -> bool:
    """Return whether a run waits for its timing, or will not be timed, as a script."""
    return run.phase == "timing" or bool(run.timing_skipped)


def _pairs(run: Snapshot) -> int:
    """Return the number of pairs behind a verdict; 0 before there is one."""
    return run.timing.pairs if run.timing is not None and run.timing.verdict != "measuring" else 0


def _pair_s(run: Snapshot) -> float:
    """Return the seconds of one pair, which a paused run still finishes."""
    timing = run.timing
    if timing is None:
        return 0.0
    return (timing.eager_us * timing.block + timing.compiled_us * timing.block_compiled) / 1e6
