"""Records that are read after all others, by several processes: the run is the same as that of one process."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.session.snapshot import start_snapshot
from tcexplore.traces import later_records
from tcexplore.traces.forked_run import ForkedRun
from tcexplore.traces.inductor_records import GraphRecords
from tcexplore.traces.trace_inputs import trace_inputs
from tcexplore.traces.trace_job import TraceJob, open_inputs
from tcexplore.traces.trace_run import RunReader, TraceRun, read_snapshot

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")


def job_of(folder: Path) -> TraceJob:
    return open_inputs(trace_inputs([str(folder)])).jobs[0]


def snapshots(folder: Path) -> list[Snapshot]:
    job = job_of(folder)
    return [read_snapshot(TraceRun(process, 1, len(job.ranks))) for process in job.ranks]


@pytest.fixture
def three_processes(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let three processes read even a small trace."""
    monkeypatch.setattr(later_records, "shares", lambda: 3)
    monkeypatch.setattr(later_records, "LEAST_BYTES", 0)
    return os.getpid()


@pytest.fixture(params=["same", "breaks", "cache", "ddp", "fsdp", "pieces"])
def folder(traces: Path, request: pytest.FixtureRequest) -> Path:
    name: str = request.param
    return traces / name


def test_several_processes_read_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch):
    alone = snapshots(folder)
    monkeypatch.setattr(later_records, "LEAST_BYTES", 0)
    for count in (2, 5):
        monkeypatch.setattr(later_records, "shares", lambda count=count: count)
        assert snapshots(folder) == alone
    assert any(graph.nodes for run in alone for graph in run.code.aten_graphs)
    assert any(run.code.kernels for run in alone)


def test_a_growing_trace_tells_the_same(folder: Path):
    job = job_of(folder)
    run = TraceRun(job.ranks[0], 1, len(job.ranks), growing=True)
    snapshot = start_snapshot(run.start())
    for events in (*run.new_events(last=True), run.end()):
        snapshot = snapshot.apply_all(event for event in events if not isinstance(event, ev.PhaseStarted))
    assert replace(snapshot, sources=()) == replace(snapshots(folder)[0], sources=())


def test_what_an_ended_process_has_not_read_is_read_here(
    traces: Path, three_processes: int, monkeypatch: pytest.MonkeyPatch
):
    alone = snapshots(traces / "same")  # by processes that do not end
    read = GraphRecords.read_post_grad

    def fail(self: GraphRecords, *arguments: object) -> None:
        if os.getpid() != three_processes:
            os._exit(3)
        read(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(GraphRecords, "read_post_grad", fail)
    assert snapshots(traces / "same") == alone


def test_a_forked_run_is_the_same(traces: Path):
    job = job_of(traces / "same")
    run = TraceRun(job.ranks[0], 1, len(job.ranks))
    alone, machine = read_snapshot(run), run.machine
    forked: RunReader = ForkedRun(job.ranks[0], 1, len(job.ranks))
    assert read_snapshot(forked) == alone
    assert forked.machine == machine is not None


def test_a_forked_run_that_is_killed_ends_with_the_reason(traces: Path, monkeypatch: pytest.MonkeyPatch):
    job = job_of(traces / "same")
    monkeypatch.setattr(TraceRun, "end", lambda _: os._exit(7))
    forked = ForkedRun(job.ranks[0], 1, len(job.ranks))
    snapshot = read_snapshot(forked)
    assert snapshot.complete
    assert snapshot.graphs
    assert [missing.reason for missing in snapshot.missing_facts if missing.fact == "the rest of the trace"] == [
        "a forked process ended with status 7"
    ]


def test_a_run_whose_process_never_began_is_read_here(traces: Path, monkeypatch: pytest.MonkeyPatch):
    job = job_of(traces / "same")
    alone, own, start = snapshots(traces / "same")[0], os.getpid(), TraceRun.start

    def failing(run: TraceRun) -> ev.Job:
        if os.getpid() != own:
            os._exit(9)
        return start(run)

    monkeypatch.setattr(TraceRun, "start", failing)
    forked = ForkedRun(job.ranks[0], 1, len(job.ranks))
    assert read_snapshot(forked) == alone
    assert forked.machine is not None
