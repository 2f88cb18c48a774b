"""The app on a trace: panes of a rank, the ranks screen, another rank, the diff of two ranks."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tcexplore.session.next_steps import next_steps
from tcexplore.traces.forked_run import ForkedRun
from tcexplore.traces.trace_inputs import trace_inputs
from tcexplore.traces.trace_job import TraceJob, open_inputs
from tcexplore.traces.trace_run import TraceRun
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.screens.ranks_screen import RanksScreen
from tcexplore.ui.trace_engine import TraceEngine
from tests.supervisor.runs import descendants
from tests.traces.trace_app import text_of, until


@asynccontextmanager
async def app_on(
    folder: Path, rank: int | None = None, before: TraceJob | None = None, *, forked: bool = False
) -> AsyncIterator[tuple[ExplorerApp, Pilot[int]]]:
    opened = open_inputs(trace_inputs([str(folder)]), whole=False)
    job = opened.jobs[0]
    reading = ForkedRun(job.process(rank), 1, len(job.ranks)) if forked else None
    app = ExplorerApp(lambda: TraceEngine(job, rank, opened.problems, before, forked=reading))
    async with app.run_test(size=(160, 50), notifications=True) as pilot:
        try:
            yield app, pilot
        finally:
            assert app.engine is not None
            await app.engine.close()


async def ranks_compared(app: ExplorerApp, pilot: Pilot[int], runs: int) -> None:
    """Wait until this many ranks are read and the comparison is there."""

    def compared() -> bool:
        newest = app.session.newest
        return newest is not None and newest.run == runs and newest.complete and newest.rank_comparison is not None

    await until(app, pilot, compared)


async def test_a_trace_fills_the_panes_and_its_ranks_can_be_opened_and_diffed(traces: Path):
    async with app_on(traces / "shape") as (app, pilot):
        await ranks_compared(app, pilot, 1)
        panes = text_of(app)
        assert "rank 0 of 2" in panes
        assert "torch 2.13.0" in panes
        assert "x = self.linear(x)" in panes
        assert "SHAPE" in panes
        assert "ranks 0 and 1 first differ" in panes
        assert "o ranks" in panes
        assert "h fix" not in panes
        assert "M modes" not in panes

        await pilot.press("o")
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, RanksScreen)
        assert "SHAPE" in text_of(app)
        assert "Rank 1 recompiles: Dimension 0" in text_of(app)
        assert "recompiles, as 0/1" in text_of(app)
        rows = [screen.reader.document.row(n).fold for n in range(len(screen.reader.document))]
        screen.reader.move_to(rows.index("rank 1"))
        await pilot.press("enter")
        await ranks_compared(app, pilot, 2)
        assert "rank 1 of 2" in text_of(app)
        assert len(app.session.runs[-1].graphs) == 3

        await pilot.press("d")
        await pilot.pause()
        assert "rank 1 of 2 of seeded.py  with rank 0 of 2" in text_of(app)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
async def test_another_process_reads_the_first_rank(traces: Path):
    others = descendants(os.getpid())
    sessions = []
    for forked in (False, True):
        async with app_on(traces / "shape", rank=1, forked=forked) as (app, pilot):
            await ranks_compared(app, pilot, 1)
            sessions.append(app.session.newest)
            assert "rank 1 of 2" in text_of(app)
            assert "torch 2.13.0" in text_of(app)
            assert isinstance(app.engine, TraceEngine)
            assert app.engine.load(0)
            await ranks_compared(app, pilot, 2)
            assert "rank 0 of 2" in text_of(app)
    one, other = sessions
    assert one is not None
    assert other is not None
    assert replace(other, began=one.began) == one
    assert not descendants(os.getpid()) - others


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
async def test_the_process_that_reads_is_ended_with_the_app(traces: Path, monkeypatch: pytest.MonkeyPatch):
    others = descendants(os.getpid())
    monkeypatch.setattr(TraceRun, "end", lambda _: time.sleep(600))
    async with app_on(traces / "shape", forked=True) as (app, pilot):
        await until(app, pilot, lambda: app.session.newest is not None and bool(app.session.newest.graphs))
        assert descendants(os.getpid()) - others
        assert "◐ reading the trace" in text_of(app)
    assert not descendants(os.getpid()) - others


async def test_a_diff_reads_the_rank_that_differs(traces: Path):
    async with app_on(traces / "branch") as (app, pilot):
        await ranks_compared(app, pilot, 1)
        await pilot.press("d")
        await ranks_compared(app, pilot, 2)
        assert "rank 1 of 2 of seeded.py  with rank 0 of 2" in text_of(app)


async def test_a_trace_can_be_diffed_with_another_one(traces: Path):
    before = open_inputs(trace_inputs([str(traces / "same")]), whole=False).jobs[0]
    async with app_on(traces / "branch", rank=1, before=before) as (app, pilot):
        await ranks_compared(app, pilot, 2)
        await pilot.press("d")
        await pilot.pause()
        text = text_of(app)
        assert "rank 1 of 2 of seeded.py  with before, rank 1 of 2" in text
        assert "cos" in text


async def test_a_trace_cannot_be_run(traces: Path):
    async with app_on(traces / "same") as (app, pilot):
        await ranks_compared(app, pilot, 1)
        for key in ("r", "T", "S", "h"):
            await pilot.press(key)
            await pilot.pause()
            assert "cannot be run" in " ".join(note.message for note in app._notifications), key
            app.clear_notifications()


async def test_the_fix_of_a_break_is_proposed_and_not_tried(traces: Path):
    async with app_on(traces / "breaks") as (app, pilot):
        await ranks_compared(app, pilot, 1)
        await until(app, pilot, lambda: "fix: print after the graph" in text_of(app))
        await pilot.press("3", "z")
        await until(app, pilot, lambda: "fix: print after the graph, not verified" in text_of(app))
        assert "not verified yet" not in text_of(app)
        newest = app.session.newest
        assert newest is not None
        (step,) = next_steps(newest)
        assert (step.action, step.trial) == ("fix_break", None)
        assert step.fix is not None
        assert step.fix.code.startswith("torch._dynamo")
