"""Following a running job: files that appear, grow, are cut, truncated or replaced."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tcexplore.documents.ranks_view import verdict_rows
from tcexplore.events import RankRow, RanksCompared
from tcexplore.traces import followed_trace, rank_ends
from tcexplore.traces.followed_trace import FollowedTrace, compare_running, ranks_now
from tcexplore.traces.process_stacks import ProcessStack
from tcexplore.traces.process_states import ProcessState, ProgressWatch
from tcexplore.traces.rank_ends import RankEnds
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.follow_engine import FollowEngine
from tests.traces.growing_job import GrowingFile
from tests.traces.trace_app import text_of, until


def compared_now(trace: FollowedTrace, *, over: bool = False) -> RanksCompared:
    return compare_running(trace.ranks, (), ranks_now(trace.ranks, over=over), over=over)


def files_of(finished: Path, folder: Path) -> list[GrowingFile]:
    return [GrowingFile(path, folder) for path in sorted(finished.glob("*.log"), key=lambda p: "rank_1" in p.name)]


def test_a_half_written_record_is_read_once_it_is_complete(traces: Path, tmp_path: Path):
    file = files_of(traces / "same", tmp_path)[0]
    trace = FollowedTrace([str(tmp_path)])
    trace.update()
    assert trace.job is None

    file.write(file.until("dynamo_output_graph"))
    graph = file.records[file.written]
    file.write_bytes(graph[: len(graph) // 2])
    trace.update()
    assert trace.ranks[0].row().graphs == 0
    file.write_bytes(graph[len(graph) // 2 :])
    trace.update()
    assert trace.ranks[0].row().graphs == 1


def test_a_rank_that_compiles_is_named_with_its_work_and_line(traces: Path, tmp_path: Path):
    file = files_of(traces / "same", tmp_path)[0]
    trace = FollowedTrace([str(tmp_path)])
    file.write(file.until("inductor_output_code"))
    trace.update()
    row = trace.ranks[0].row()
    assert (row.phase, row.graph) == ("inductor", "0/0")
    assert row.span
    assert row.span_began is not None
    assert row.place is not None
    assert row.place.file.endswith(".py")


def test_a_truncated_and_a_replaced_file_are_read_from_their_beginning(traces: Path, tmp_path: Path):
    file = files_of(traces / "same", tmp_path)[0]
    trace = FollowedTrace([str(tmp_path)])
    file.write()
    trace.update()
    graphs = trace.ranks[0].row().graphs
    assert graphs

    os.truncate(file.path, 0)
    file.written = 0
    file.write(20)
    trace.update()
    assert trace.ranks[0].row().graphs == 0
    assert "was truncated" in trace.problems[0]

    other = tmp_path / "next"
    other.write_bytes(b"".join(file.records))
    other.replace(file.path)
    trace.update()
    assert trace.ranks[0].row().graphs == graphs
    assert "was replaced" in trace.problems[1]
    os.unlink(file.path)
    trace.update()
    trace.update()
    assert [problem for problem in trace.problems if "is gone" in problem] == [
        f"{file.path} is gone: what was read of it stays."
    ]


def test_files_that_are_no_traces_and_those_beyond_the_limit_are_named(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (source,) = (traces / "same").glob("*_rank_0_*")
    for rank in (10, 2):
        os.link(source, tmp_path / f"dedicated_log_torch_trace_rank_{rank}_x.log")
    (tmp_path / "notes.log").write_text("no trace\n")
    (tmp_path / "begun.log").write_text("V1122 04:06:28.95")
    trace = FollowedTrace([str(tmp_path)])
    trace.update()
    assert trace.problems == [f"{tmp_path}/notes.log holds no records of TORCH_TRACE"]
    monkeypatch.setattr(followed_trace, "MOST_FILES", 3)
    limited = FollowedTrace([str(tmp_path)])
    limited.update()
    assert list(limited.ranks) == [2]
    assert limited.problems[0] == "only the first 3 files are read"


def test_a_rank_that_lags_is_no_difference_until_the_job_is_quiet(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    first, second = files_of(traces / "shape", tmp_path)
    trace = FollowedTrace([str(tmp_path)])
    first.write()
    second.write(60)
    trace.update()
    assert compared_now(trace).divergence is None

    second.write()
    trace.update()
    partial = compared_now(trace)
    assert partial.divergence is None, "rank 0 may still recompile"
    assert "so far" in next(verdict_rows(partial, 78)).text
    monkeypatch.setattr(followed_trace, "QUIET_S", 0.0)
    compared = compared_now(trace)
    assert compared.divergence is not None
    assert compared.divergence.kind == "shape"
    over = compared_now(trace, over=True)
    assert over.divergence == compared.divergence
    assert (partial.partial, compared.partial, over.partial) == (True, False, False)


def follow_a_rank_that_is_behind(traces: Path, folder: Path) -> FollowedTrace:
    """Return a job that has been quiet for a while, of which rank 0 has not compiled the last frame."""
    first, second = files_of(traces / "same", folder)
    first.write(next(number for number, record in enumerate(first.records) if b'"frame_id": 1' in record[:300]))
    second.write()
    trace = FollowedTrace([str(folder)])
    trace.update()
    for rank in trace.ranks.values():
        rank.grown = time.time() - followed_trace.QUIET_S - 4
    return trace


def test_a_rank_that_compiled_less_may_be_late_for_a_while(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    trace = follow_a_rank_that_is_behind(traces, tmp_path)
    late = compared_now(trace)
    assert (late.divergence, late.partial) == (None, True)
    monkeypatch.setattr(followed_trace, "LATE_S", 0.0)
    compared = compared_now(trace)
    assert compared.divergence is not None
    assert compared.divergence.kind == "branch"


@pytest.mark.parametrize(
    ("state", "call", "late"), [("runs", "", True), ("waits", "", True), ("waits", "all_reduce", False)]
)
def test_a_rank_that_holds_up_the_others_is_late_and_differs_in_nothing(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: ProcessState, call: str, late: bool
):
    monkeypatch.setattr(followed_trace, "LATE_S", 0.0)
    trace = follow_a_rank_that_is_behind(traces, tmp_path)
    for number, rank in trace.ranks.items():
        rank.progress = ProgressWatch(0)
        rank.progress.state = "waits" if number else state
        rank.stack = ProcessStack(True, "all_reduce" if number else call, None)
    compared = compared_now(trace)
    assert compared.partial == late
    assert (compared.divergence is None) == late
    if late:
        assert compared.hang is not None
        assert compared.hang.ranks == (0,)
        trace.ranks[0].over = True
        assert compared_now(trace).divergence is not None, "it compiles nothing more"


def test_a_compile_that_only_one_rank_traced_again_is_no_difference_yet(traces: Path, tmp_path: Path):
    first, second = files_of(traces / "branch", tmp_path)
    first.write()
    second.write(second.until("inductor_output_code"))
    trace = FollowedTrace([str(tmp_path)])
    trace.update()
    assert compared_now(trace).divergence is not None
    trace.ranks[0].records.attempts["0/0"] = 1
    assert compared_now(trace).divergence is None, "rank 1 may have to trace it again, too"


def test_a_constant_may_be_the_rank_until_the_guards_are_there(traces: Path, tmp_path: Path):
    edited, folder = tmp_path / "edited", tmp_path / "trace"
    edited.mkdir()
    folder.mkdir()
    for path in (traces / "same").glob("*.log"):
        head, graph, rest = re.split(
            r"(?ms)^(V[^\n]*\{\"dynamo_output_graph\".*?\n)(?=V)", path.read_text(), maxsplit=1
        )
        envelope, _, payload = graph.partition("\n")
        payload = payload.replace("= x + 1;", f"= x + {int('rank_1' in path.name)};")
        body = payload.removeprefix("\t").removesuffix("\n").replace("\n\t", "\n")
        digest = hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
        envelope = re.sub(r'"has_payload": "\w+"', f'"has_payload": "{digest}"', envelope)
        (edited / path.name).write_text(f"{head}{envelope}\n{payload}{rest}")
    first, second = files_of(edited, folder)
    trace = FollowedTrace([str(folder)])
    first.write()
    second.write(second.until("dynamo_cpp_guards_str"))
    trace.update()
    assert compared_now(trace).divergence is None
    second.write()
    trace.update()
    divergence = compared_now(trace).divergence
    assert divergence is not None, "no guard reads the rank"
    assert (divergence.kind, divergence.compile_id) == ("branch", "0/0")


async def test_a_look_at_the_ranks_makes_their_rows_once(traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for file in files_of(traces / "same", tmp_path):
        file.write()
    monkeypatch.setattr(followed_trace, "QUIET_S", 0.0)
    made: list[int] = []
    make = followed_trace.FollowedRank.row

    def counted(rank: followed_trace.FollowedRank) -> RankRow:
        made.append(rank.process.number)
        return make(rank)

    monkeypatch.setattr(followed_trace.FollowedRank, "row", counted)
    engine = FollowEngine(FollowedTrace([str(tmp_path)]), None)
    engine._deliver = lambda _: None
    engine._followed.trace.update()
    await engine._show_new()
    await engine._show_ranks()
    assert engine._followed.comparison is not None
    assert sorted(made) == [0, 1]


async def test_a_rank_that_ended_while_another_one_runs_is_noted(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(rank_ends, "QUIET_S", 0.0)
    for file in files_of(traces / "same", tmp_path):
        file.write()
    trace = FollowedTrace([str(tmp_path)])
    trace.update()
    command = [sys.executable, "-c", "import signal; signal.pause()"]
    processes = [subprocess.Popen(command) for _ in trace.ranks]  # noqa: ASYNC220  started at once
    for rank, process in zip(trace.ranks.values(), processes, strict=True):
        rank.process.pid = process.pid
    ends = RankEnds()
    assert not any(ends.is_over(process.pid) for process in processes)
    assert not ends.note(trace.ranks)
    processes[1].kill()
    processes[1].wait()
    assert ends.is_over(processes[1].pid)
    assert ends.note(trace.ranks) == "Rank 1 has ended; rank 0 still runs."
    processes[0].kill()
    processes[0].wait()
    assert ends.is_over(processes[0].pid)
    assert not ends.note(trace.ranks)
    ends.close()


@asynccontextmanager
async def app_following(folder: Path) -> AsyncIterator[tuple[ExplorerApp, Pilot[int]]]:
    app = ExplorerApp(lambda: FollowEngine(FollowedTrace([str(folder)]), None))
    async with app.run_test(size=(160, 50), notifications=True) as pilot:
        yield app, pilot
        assert app.engine is not None
        await app.engine.close()


async def test_the_app_shows_records_as_the_job_writes_them(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(followed_trace, "QUIET_S", 0.1)
    first, second = files_of(traces / "shape", tmp_path)
    async with app_following(tmp_path) as (app, pilot):
        await until(app, pilot, lambda: "Waiting for TORCH_TRACE records in" in text_of(app))
        assert app.engine is not None
        assert f"  TORCH_TRACE={tmp_path} \\" in app.engine.waiting
        first.write(first.until("dynamo_output_graph"))
        await until(app, pilot, lambda: app.session.newest is not None)
        assert app.session.newest is not None
        assert not app.session.newest.graphs
        first.write(1)
        await until(app, pilot, lambda: app.session.newest is not None and len(app.session.newest.graphs) == 1)
        first.write(5)
        await until(app, pilot, lambda: "◐" in text_of(app))

        await pilot.press("o")
        second.write(second.until("inductor_output_code"))
        await until(app, pilot, lambda: "rank 1" in text_of(app) and "◐ rank 1  0/0" in text_of(app))
        first.write()
        second.write()
        await until(app, pilot, lambda: "SHAPE" in text_of(app))
        await until(app, pilot, lambda: "between compiles" in text_of(app))
