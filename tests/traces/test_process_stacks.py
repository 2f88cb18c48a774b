"""What a silent rank does, from its Python stack."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tcexplore import events as ev
from tcexplore.documents.ranks_view import ranks_screen_document
from tcexplore.events.rank_events import RankRow, RanksCompared
from tcexplore.session.snapshot import start_snapshot
from tcexplore.traces.process_stacks import StackWatch, holds_open, stack_of
from tcexplore.traces.trace_sources import TraceSources

SLEEPER = """\
import sys, time

def exchange():
    print("ready", flush=True)
    time.sleep(60)

file = open(sys.argv[1])
exchange()
"""


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds the file `trace` open and sleeps in a function."""
    (tmp_path / "trace").touch()
    (tmp_path / "train.py").write_text(SLEEPER)
    command = [sys.executable, str(tmp_path / "train.py"), str(tmp_path / "trace")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_silent_process_is_named_with_its_line(sleeper: subprocess.Popen[bytes], tmp_path: Path):
    watch = StackWatch()
    stack = watch.read(sleeper.pid, str(tmp_path / "trace"), TraceSources())
    if watch.note:
        pytest.skip(watch.note)
    assert stack is not None
    assert stack.waits
    assert stack.place == ev.Location(str(tmp_path / "train.py"), 5, "exchange")
    assert sleeper.poll() is None


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_that_does_not_write_the_trace_is_not_read(sleeper: subprocess.Popen[bytes], tmp_path: Path):
    (tmp_path / "other").touch()
    assert holds_open(sleeper.pid, str(tmp_path / "trace"))
    assert not holds_open(sleeper.pid, str(tmp_path / "other"))
    assert StackWatch().read(sleeper.pid, str(tmp_path / "other"), TraceSources()) is None


def frame(name: str, file: str, line: int) -> dict[str, Any]:
    return {"name": name, "filename": file, "line": line}


def test_the_collective_is_the_line_of_the_generated_module(tmp_path: Path):
    module = tmp_path / "torchinductor_me" / "module.py"
    module.parent.mkdir()
    module.write_text("\n    buf1 = torch.ops._c10d_functional.wait_tensor.default(buf0)\n")
    python = "/venv/lib/python3.11/site-packages/torch/_ops.py"
    frames = [frame("__call__", python, 1), frame("call", str(module), 2), frame("step", "/me/train.py", 9)]
    threads = [{"os_thread_id": 8, "frames": []}, {"os_thread_id": 7, "active": False, "frames": frames}]
    stack = stack_of(threads, 7, TraceSources())
    call = "torch.ops._c10d_functional.wait_tensor.default(buf0)"
    assert stack is not None
    assert stack[:3] == (True, call, ev.Location("/me/train.py", 9, "step"))
    assert [place.function for place in stack.frames] == ["__call__", "call", "step"]

    started = "    buf0 = torch.ops._c10d_functional.all_reduce_.default(buf3, 'sum', '0')\n"
    module.write_text(f"{started}    buf1 = torch.ops._c10d_functional.wait_tensor.default(buf0)\n")
    stack = stack_of(threads, 7, TraceSources())
    assert stack is not None
    assert stack.call == "all_reduce"

    library = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
    threads[1]["frames"] = [frame("barrier", library, 5), frame("<module>", "/me/train.py", 3)]
    stack = stack_of(threads, 7, TraceSources())
    assert stack is not None
    assert stack.call == "barrier"


def test_stacks_are_read_less_and_less_often():
    watch = StackWatch()
    now = time.time()
    assert not watch.due(1, now)
    assert watch.due(1, now - 5)
    assert not watch.due(1, now - 5)
    assert watch.due(1, now - 4)  # there was a new record


def test_each_silent_rank_is_shown_with_what_it_does():
    now = time.time()
    at = ev.Location("/me/train.py", 9, "step")
    rows = (
        RankRow(rank=0, last_record=now - 50, waits=True, call="barrier", place=at),
        RankRow(rank=1, last_record=now - 50, waits=False, place=at),
        RankRow(rank=2, last_record=now - 50),
        RankRow(rank=3),
    )
    snapshot = start_snapshot(ev.Job(run=1, file="/me/train.py", source="", trace="rank 0"))
    document = ranks_screen_document(snapshot, RanksCompared(rows=rows), (), frozenset(), 100)
    lines = [document.row(number).text for number in range(len(document))]
    assert any("rank 0  waits in barrier  50" in line and "train.py:9 step" in line for line in lines)
    assert any("rank 1  runs  50" in line for line in lines)
    assert any("rank 2  no record for 50" in line for line in lines)
    assert not any("rank 3 " in line for line in lines[6:])


def test_a_rank_that_makes_progress_does_not_wait_if_its_main_thread_rests_for_a_moment():
    now = time.time()
    at = ev.Location("/me/train.py", 9, "step")
    rank = RankRow(rank=0, last_record=now - 50, state="runs", since=now - 4, waits=True, call="backward", place=at)
    snapshot = start_snapshot(ev.Job(run=1, file="/me/train.py", source="", trace="rank 0"))
    document = ranks_screen_document(snapshot, RanksCompared(rows=(rank,)), (), frozenset(), 100)
    assert any(
        line.endswith("rank 0  runs in backward  /me/train.py:9 step")
        for line in (document.row(number).text for number in range(len(document)))
    )
