"""A fake supervisor that replays events, for tests of `check`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from tcexplore import events as ev
from tcexplore.cli import main
from tcexplore.model_python import OWN_PYTHON, ModelPython

ENTRY = ev.EntryFound(run=1, name="model", kind="module", rule="`model` and `inputs`", calls=(("f32[4]",),))
BREAK = ev.GraphBreak(run=1, graph="0/0", registry_id="GB0059", kind="print", reason="it prints")
GRAPH = ev.GraphCaptured(run=1, graph="0/0", ops=1, nodes=(), code="")
DONE = ev.Finished(run=1)
THEIRS = ev.Failed(run=1, stage="eager", blame="user", type="ZeroDivisionError", message="division by zero")
OURS = ev.Failed(run=1, stage="inductor", blame="compiler", type="InductorError", message="lowering failed")


class Playback:
    """Replays a story as the events of a job."""

    story: ClassVar[Sequence[ev.Event]] = ()
    second: ClassVar[Sequence[ev.Event] | None] = None
    """Story of the second job; None for the same."""
    python: ClassVar[ModelPython] = OWN_PYTHON
    jobs: ClassVar[list[ev.Job]] = []
    closed: ClassVar[int] = 0

    def __init__(self, emit: Callable[[ev.Event], None], *, once: bool, python: ModelPython) -> None:
        assert once, "a check makes one run, so it prepares no further worker"
        type(self).python = python
        self.emit = emit

    async def start(self) -> None:
        self.emit(ev.Standby(torch="2.13.0", python="3.11.7", device="cpu", seconds=1.0))

    def submit(self, job: ev.Job) -> None:
        self.jobs.append(job)
        again = self.second is not None and len(self.jobs) == 2
        for event in self.second if again else self.story:
            asyncio.get_running_loop().call_soon(self.emit, event)

    def end(self) -> None:
        """End nothing: the story is over or never ends."""

    async def close(self) -> None:
        type(self).closed += 1


Check = Callable[..., int]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text("import torch\n")
    monkeypatch.setitem(sys.modules, "tcexplore.supervisor", SimpleNamespace(Supervisor=Playback))
    monkeypatch.setattr(Playback, "jobs", [])
    monkeypatch.setattr(Playback, "closed", 0)

    def run(
        *story: ev.Event,
        arguments: Sequence[str] = ("model.py",),
        second: Sequence[ev.Event] | None = None,
        command: str = "check",
    ) -> int:
        Playback.jobs.clear()
        monkeypatch.setattr(Playback, "story", story)
        monkeypatch.setattr(Playback, "second", second)
        return main([command, *arguments])

    return run
