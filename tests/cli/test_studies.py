"""Studies from arguments to exit status, with a supervisor that plays back events."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from tcexplore import events as ev
from tcexplore.cli import main
from tests.files.checksums import tree_checksum
from tests.studies.playback import GRAPH, Playback, failed, timed

Story = Callable[[ev.Job], Sequence[ev.Event]]
Study = Callable[..., int]


class PlaybackPool:
    """A supervisor whose queues play back events."""

    def __init__(self, story: Story) -> None:
        self._story = story

    async def start(self) -> None:
        """Start nothing."""

    def study_queue(self, emit: Callable[[ev.Event], None]) -> Playback:
        return Playback(emit, self._story)

    async def close(self) -> None:
        """End nothing."""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text("import torch\n")

    def run(story: Story, *arguments: str) -> int:
        supervisor = SimpleNamespace(Supervisor=lambda *_, **__: PlaybackPool(story))
        monkeypatch.setitem(sys.modules, "tcexplore.supervisor", supervisor)
        queues = SimpleNamespace(StudyQueue=lambda shared, _python, emit: shared(emit))
        monkeypatch.setitem(sys.modules, "tcexplore.supervisor.supervisor", queues)
        return main(list(arguments))

    return run


def good(_: ev.Job) -> list[ev.Event]:
    return [GRAPH, timed(1.5), ev.Accuracy(verdict="identical"), ev.Finished()]


def test_modes_prints_a_row_for_each_run(study: Study, capsys: pytest.CaptureFixture[str]):
    assert study(good, "modes", "model.py", "--modes", "default", "--dynamic", "false") == 0
    out, err = capsys.readouterr()
    assert out.count("1.50× ▲") == 3
    assert "Use torch.compile(…" in out
    assert [line.split(" · ", 2)[2] for line in err.splitlines()] == [
        f"{name}, default, dynamic false: faster, 1.50× [1.49, 1.51]" for name in ("inductor", "eager", "aot_eager")
    ], "results are logged as they come"


def test_ctrl_c_keeps_the_results(study: Study, capsys: pytest.CaptureFixture[str]):
    def story(job: ev.Job) -> list[ev.Event]:
        if job.run < 3:
            return good(job)
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)
        return []

    assert study(story, "modes", "model.py", "--json") == 130
    report = json.loads(capsys.readouterr().out)
    assert (report["stopped"], len(report["runs"])) == (True, 2)


def test_a_study_without_a_successful_run_fails(study: Study):
    assert study(lambda _: [failed()], "modes", "model.py") == 3
    assert study(lambda _: [failed()], "sweep", "model.py", "--sizes", "1,2") == 3


def test_sweep_prints_json(study: Study, capsys: pytest.CaptureFixture[str]):
    assert study(good, "sweep", "model.py", "--sizes", "1,2", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["helps_from"] == {"static": 1, "dynamic": 1}


@pytest.mark.parametrize(
    ("backend", "status", "verdict"),
    [
        ("", 0, "No stage fails"),
        ("aot_eager", 1, "First failing stage: AOTAutograd"),
        ("inductor", 1, "First failing stage: Inductor's"),
    ],
)
def test_bisect_names_the_failing_stage(
    study: Study, capsys: pytest.CaptureFixture[str], tmp_path: Path, backend: str, status: int, verdict: str
):
    def story(job: ev.Job) -> list[ev.Event]:
        return [failed()] if job.config.backend == backend else good(job)

    assert study(story, "bisect", "model.py", "--repro", "repro") == status
    assert verdict in capsys.readouterr().out
    assert (tmp_path / "repro" / "repro.py").exists() == bool(backend)


def test_a_reproducer_overwrites_nothing_without_force_and_never_the_model_file(
    study: Study, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    def story(job: ev.Job) -> list[ev.Event]:
        return [failed()] if job.config.backend == "inductor" else good(job)

    (tmp_path / "model.py").write_bytes(b"\xef\xbb\xbfimport torch\r\n")
    (tmp_path / "repro").mkdir()
    (tmp_path / "repro" / "README.md").write_text("theirs\n")
    before = tree_checksum(tmp_path)
    for folder in (".", "repro", "model.py"):
        with pytest.raises(SystemExit) as exit_:
            study(story, "bisect", "model.py", "--repro", folder)
        assert exit_.value.code == 2
        assert "already exists" in capsys.readouterr().err
    assert study(story, "bisect", "model.py", "--repro", ".", "--force") == 1
    assert "model.py is a source of this run" in capsys.readouterr().err
    for command in (["fix"], ["bisect"], ["modes"], ["sweep", "--sizes", "1"]):
        study(good, command[0], "model.py", *command[1:])
    assert tree_checksum(tmp_path) == before
    assert study(story, "bisect", "model.py", "--repro", "repro", "--force") == 1
    assert (tmp_path / "repro" / "README.md").read_text() != "theirs\n"


def test_a_missing_file_is_reported_at_once(study: Study, capsys: pytest.CaptureFixture[str]):
    for command in (["modes"], ["sweep", "--sizes", "1"], ["bisect"], ["fix"]):
        assert study(good, *command, "gone.py") == 2
        assert capsys.readouterr().err == "tcexplore: gone.py does not exist.\n"
