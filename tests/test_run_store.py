"""Runs survive the end of the app: private, bounded, and never at the expense of a later start."""

from __future__ import annotations

import json
import os
import re
import stat
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tcexplore import run_store
from tcexplore.files import NotWrittenError
from tcexplore.run_store import RunStore, UnreadableRunError, read_run
from tcexplore.session import Session, Snapshot, summarize
from tcexplore.session.snapshot import end_snapshot
from tests import fakes

NOON = 1_700_000_000.0


def stored_file(root: Path) -> Path:
    (path,) = root.rglob("*.run")
    return path


def test_a_run_is_read_as_it_was_with_its_time_as_its_name(tmp_path: Path):
    run = replace(fakes.complete(7), began=NOON)
    store = RunStore("/project/model.py", tmp_path)
    store.write(run)
    (stored,) = store.runs().runs
    assert stored.summary == replace(summarize(end_snapshot(run)), run=-1, past=stored.summary.past)
    assert read_run(stored) == replace(end_snapshot(run), run=-1, past=stored.summary.past)
    assert read_run(stored).label == f"run of {stored.summary.past}"
    assert RunStore("/project/other.py", tmp_path).runs().runs == ()


def test_only_the_user_can_read_a_stored_run(tmp_path: Path):
    RunStore("/m.py", tmp_path / "state").write(fakes.complete(1))
    path = stored_file(tmp_path)
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent, path.parent.parent)]
    assert modes == [0o600, 0o700, 0o700]


def test_the_oldest_runs_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run_store, "MOST_RUNS", 3)
    store = RunStore("/m.py", tmp_path)
    for run in range(1, 6):
        store.write(replace(fakes.one_graph(run), began=NOON + 60 * run, source=f"# {run}"))
    assert [read_run(stored).source for stored in store.runs().runs] == ["# 3", "# 4", "# 5"]
    monkeypatch.setattr(run_store, "MOST_BYTES_IN_ALL", 2 * stored_size(store) + 500)
    RunStore("/other.py", tmp_path).write(replace(fakes.one_graph(1), began=NOON + 600))
    assert [read_run(stored).source for stored in store.runs().runs] == ["# 5"]


def stored_size(store: RunStore) -> int:
    return max(os.path.getsize(stored.file) for stored in store.runs().runs)


def test_a_run_that_would_displace_all_others_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run_store, "MOST_BYTES", 400)
    RunStore("/m.py", tmp_path).write(fakes.complete(1))
    assert list(tmp_path.rglob("*.run")) == []


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def newer(data: bytes) -> bytes:
    head, body = data.split(b"\n", 1)
    return json.dumps(json.loads(head) | {"format": run_store.FORMAT + 1}).encode() + b"\n" + body


HEAD_DAMAGES: tuple[Callable[[bytes], bytes], ...] = (
    newer, lambda _: b"", lambda _: b"{", lambda _: b"[" * 100_000, lambda _: b"\x00" * 1000, lambda data: data[40:],
    lambda data: data.replace(b'"began": 1', b'"began": 1e300, "x": 1'),
)  # fmt: skip
BODY_DAMAGES: tuple[Callable[[bytes], bytes], ...] = (
    cut, lambda data: data[:-1], lambda data: data[:-4] + b"\0\0\0\0",
    lambda data: data.split(b"\n", 1)[0] + b"\n" + zlib.compress(b'{"$":"Snapshot","run":1}'),
    lambda data: data.split(b"\n", 1)[0] + b"\n" + zlib.compress(b'{"$":"Job","run":1,"file":"","source":""}'),
)  # fmt: skip


@pytest.mark.parametrize("damage", HEAD_DAMAGES)
def test_a_damaged_or_newer_file_is_counted_and_the_others_are_listed(tmp_path: Path, damage: Callable[[bytes], bytes]):
    store = RunStore("/m.py", tmp_path)
    store.write(replace(fakes.one_graph(1), began=NOON))
    path = stored_file(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    store.write(replace(fakes.one_graph(2), began=NOON + 60))
    runs = store.runs()
    assert (len(runs.runs), runs.unreadable) == (1, 1)


@pytest.mark.parametrize("damage", BODY_DAMAGES)
def test_a_damaged_snapshot_is_refused_with_a_reason(tmp_path: Path, damage: Callable[[bytes], bytes]):
    store = RunStore("/m.py", tmp_path)
    store.write(replace(fakes.one_graph(1), began=NOON))
    path = stored_file(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    (stored,) = store.runs().runs
    with pytest.raises(UnreadableRunError, match="damaged"):
        read_run(stored)


def test_links_and_a_run_that_another_app_removed_are_not_read(tmp_path: Path):
    store = RunStore("/m.py", tmp_path)
    store.write(fakes.one_graph(1))
    (stored,) = store.runs().runs
    path = Path(stored.file)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert store.runs().runs == ()
    path.unlink()
    with pytest.raises(UnreadableRunError, match="No such file"):
        read_run(stored)


def test_a_folder_that_cannot_be_written_is_an_error_with_a_reason(tmp_path: Path):
    (tmp_path / "file").write_text("")
    store = RunStore("/m.py", tmp_path / "file" / "history")
    assert store.runs().runs == ()
    with pytest.raises(NotWrittenError, match="cannot be written"):
        store.write(fakes.one_graph(1))


def test_times_name_the_day_as_far_as_needed_and_are_unique():
    day = 86_400
    times = [NOON - 400 * day, NOON - 30 * day, NOON - day, NOON - day + 0.5, NOON]
    years, month, yesterday, again, today = run_store._time_texts(times, NOON)
    assert years.startswith("2022-")
    assert month.startswith("Oct ")
    assert yesterday[:4].isascii()
    assert again == f"{yesterday}:20"
    assert len(today) == 5


def stepped(session: Session, by: int) -> int:
    assert session.shown is not None
    return session.number_at(session.shown.run, by)


def test_stored_runs_come_before_those_of_this_start(tmp_path: Path):
    store = RunStore("/m.py", tmp_path)
    for number in (1, 2):
        store.write(replace(fakes.complete(number), began=NOON + number))
    session = fakes.session(fakes.complete(1)).with_stored(store.runs().runs)
    assert [summary.run for summary in session.summaries] == [-2, -1, 1]
    assert (stepped(session, -1), stepped(session, -9), stepped(session, 1)) == (-1, -2, 1)
    assert session.go_to(-1) is session
    stored = session.stored(-1)
    assert stored is not None
    shown = session.unpacked(read_run(stored)).go_to(-1)
    run = shown.shown
    assert isinstance(run, Snapshot)
    assert run.past
    assert shown.stored(-1) is None
    assert shown.go_to(1).pinned is None


def test_text_of_a_stored_run_is_cleaned(tmp_path: Path):
    store = RunStore("/m.py", tmp_path)
    store.write(replace(fakes.one_graph(1), began=NOON))
    path = stored_file(tmp_path)
    head, body = path.read_bytes().split(b"\n", 1)
    snapshot = json.loads(zlib.decompress(body)) | {"source": "\x1b]52;c;aGk=\x07", "file": "\x9b31m"}
    path.write_bytes(
        head.replace(b'"error": ""', b'"error": "\\u001b[31m"') + b"\n" + zlib.compress(json.dumps(snapshot).encode())
    )
    (stored,) = store.runs().runs
    run = read_run(stored)
    assert stored.summary.error == "␛[31m"
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", run.source + run.file)
