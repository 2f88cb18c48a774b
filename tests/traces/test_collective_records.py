"""Collectives that have not finished, from torch's flight recorder of NCCL."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tcexplore.events import Location
from tcexplore.traces import collective_records
from tcexplore.traces.collective_records import (
    FILES,
    PIPE,
    CollectiveWatch,
    PendingCollective,
    first_unfinished,
    recorder_variables,
    told_apart,
)
from tcexplore.traces.followed_trace import FollowedTrace
from tcexplore.traces.hangs import find_hang
from tcexplore.traces.process_states import ProgressWatch
from tcexplore.traces.trace_sources import TraceSources

BEGAN = 1_795_828_539.0


def entry(number: int, **fields: Any) -> dict[str, Any]:
    """Return an entry as torch 2.11 wrote it for DDP on two H200, where rank 1 had stopped working."""
    return {
        "frames": [], "record_id": number, "pg_id": 0, "process_group": ("0", "default_pg"),
        "thread_name": "pt_autograd_0", "collective_seq_id": number + 1, "p2p_seq_id": 0,
        "profiling_name": "nccl:all_reduce", "time_created_ns": int((BEGAN + number / 1e3) * 1e9),
        "input_sizes": [[4196352]], "input_dtypes": ["Float"], "state": "scheduled", "is_p2p": False, **fields,
    }  # fmt: skip


def recorded(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"version": "2.10", "pg_config": {}, "entries": list(entries)}


FRAMES = [
    {
        "name": "all_reduce",
        "filename": "/lib/site-packages/torch/distributed/distributed_c10d.py",
        "line": 3,
    },
    {"name": "step", "filename": "/me/train.py", "line": 27},
]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (recorded(entry(2), entry(1)), ("all_reduce [4196352]", BEGAN + 0.001, None)),
        (recorded(entry(1, state="completed"), entry(2, frames=FRAMES)), ("all_reduce [4196352]", BEGAN + 0.002, 27)),
        (
            recorded(entry(1, profiling_name="nccl:_all_gather_base", input_sizes=[[512, 512]])),
            ("all_gather_into_tensor [512, 512]", BEGAN + 0.001, None),
        ),
        (recorded(entry(1, profiling_name="nccl:all_to_all")), ("all_to_all", BEGAN + 0.001, None)),
        (recorded(entry(1, profiling_name="nccl:recv 0<-1")), ("recv 0<-1", BEGAN + 0.001, None)),
        (recorded(entry(1, state="completed")), None),
        (recorded(), None),
        ({"entries": [3, {"state": None, "time_created_ns": "x", "frames": 1}]}, None),
        (None, None),
    ],
    ids=[
        "oldest",
        "line",
        "public name",
        "sizes that may differ",
        "pipeline",
        "complete",
        "none",
        "damaged",
        "unreadable",
    ],
)
def test_what_a_rank_waits_for_is_its_oldest_collective(content: Any, expected: tuple[str, float, int | None] | None):
    pending = first_unfinished(content, TraceSources())
    if expected is None:
        assert pending is None
        return
    assert pending is not None
    line = pending.place.line if pending.place is not None else None
    assert (pending.name, pending.began, line) == pytest.approx(expected)


RECORDER = """
import os, pickle, select, sys
pipe, target, content, times = sys.argv[1:]
os.mkfifo(pipe)
reader = os.open(pipe, os.O_RDWR)  # with a writer of its own, it has no end
print("ready", flush=True)
for number, seconds in enumerate(map(float, times.split(","))):
    select.select([reader], [], [])
    os.read(reader, 10)
    with open(target, "wb") as file:
        file.write(bytes.fromhex(content))
    os.utime(target, (seconds, seconds))
    print("written", flush=True)
sys.stdin.read()
"""


class FixedTime:
    """The clock of a watch whose requests are all older than the answers."""

    def time(self) -> float:
        return BEGAN


class Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("harm",)


@pytest.mark.parametrize(
    ("content", "seconds", "name"),
    [
        (recorded(entry(1)), (6.0, 9.0), "all_reduce [4196352]"),
        (recorded(entry(1)), (6.0, 7.0), None),
        (recorded(entry(1)), (1.0, 4.0), None),
        (recorded(entry(1, extra=Harmful())), (6.0, 9.0), None),
    ],
    ids=["waits", "may still finish", "young", "with a call"],
)
def test_a_running_process_is_asked_until_it_is_clear_that_it_waits(
    content: Any, seconds: tuple[float, float], name: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(collective_records, "time", FixedTime())
    variables = recorder_variables(str(tmp_path), {})
    pipe, target = f"{variables[PIPE]}3.pipe", f"{variables[FILES[0]]}3"
    times = ",".join(str(BEGAN + each) for each in seconds)
    command = [sys.executable, "-c", RECORDER, pipe, target, pickle.dumps(content).hex(), times]
    with subprocess.Popen(
        command, env={**os.environ, **variables, "RANK": "3"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        watch = CollectiveWatch()
        assert process.stdout.readline() == "ready\n"
        assert watch.may_be_asked(process.pid)
        for _ in seconds:
            assert watch.update(process.pid, TraceSources(), again=True) is None, "one answer does not tell"
            assert process.stdout.readline() == "written\n"
        pending = watch.update(process.pid, TraceSources())
        assert (pending.name if pending is not None else None) == name
        assert process.stdin is not None
        process.stdin.close()
    assert not Path("harm").exists()


def test_a_process_without_the_variables_is_not_asked() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], env={}, stdin=subprocess.PIPE) as process:
        watch = CollectiveWatch()
        assert not watch.may_be_asked(process.pid)
        assert watch.update(process.pid, TraceSources()) is None
        assert process.stdin is not None
        process.stdin.write(b"\n")


@pytest.mark.parametrize("name", FILES)
def test_the_users_own_variables_stay(name: str) -> None:
    own = {PIPE: "/mine/pipe", name: "/mine/file"}
    assert set(recorder_variables("/job", own)) == {collective_records.ONLY_UNFINISHED}


def test_a_rank_that_looks_busy_waits_for_the_one_that_has_not_come(traces: Path) -> None:
    now = BEGAN + 60
    trace = FollowedTrace([str(traces / "same")])
    trace.update()
    for rank in trace.ranks.values():
        rank.grown, rank.progress = BEGAN - 10, ProgressWatch(0)
        rank.progress.state, rank.progress.since = "runs", now
    assert find_hang([rank.row() for rank in trace.ranks.values()], now) is None
    place = Location("/me/train.py", 27, "step")
    trace.ranks[0].collective = PendingCollective("all_reduce [8]", BEGAN, place)
    hang = find_hang([rank.row() for rank in trace.ranks.values()], now)
    assert hang is not None
    assert (hang.kind, hang.ranks, hang.waiting, hang.waiting_since) == ("not reached", (1,), (0,), BEGAN)
    assert (hang.call, hang.location) == ("all_reduce [8]", place)


def test_ranks_that_made_another_number_of_calls_are_told_apart() -> None:
    alike = {rank: PendingCollective("all_reduce [8]", BEGAN, None, "0", 7) for rank in range(3)}
    assert told_apart(alike) == alike
    later = {**alike, 1: alike[1]._replace(number=8)}
    names = {rank: collective.name for rank, collective in told_apart(later).items()}
    assert names[0] == "all_reduce [8], collective 7 of its group"
    assert names[1] == "all_reduce [8], collective 8 of its group"
    other_group = {**alike, 1: alike[1]._replace(number=8, group="1")}
    assert told_apart(other_group) == other_group
