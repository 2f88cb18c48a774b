"""The engine watches one file, and another one from when the user opens it. No worker is started here."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tcexplore.events import Config, Event, Job
from tcexplore.ui import file_engine
from tcexplore.ui.file_engine import FileEngine


class NoWorkers:
    """A supervisor that runs nothing."""

    def __init__(self, *_: object, **__: object) -> None:
        self.jobs: list[Job] = []

    async def start(self) -> None:
        """Start nothing."""

    def submit(self, job: Job) -> None:
        self.jobs.append(job)

    def stop_run(self) -> None:
        """Stop nothing."""

    async def close(self) -> None:
        """Close nothing."""


async def test_another_file_is_run_and_watched_without_the_arguments_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(file_engine, "Supervisor", NoWorkers)
    model, other = tmp_path / "model.py", tmp_path / "other.py"
    model.write_text("x = 1\n")
    other.write_text("y = 1\n")
    jobs: asyncio.Queue[Job] = asyncio.Queue()

    def deliver(item: Job | Event) -> None:
        assert isinstance(item, Job)
        jobs.put_nowait(item)

    engine = FileEngine(str(model), Config(target="h100", inputs=("f32[1]",)), ("--fast",), "net")
    await engine.start(deliver)
    first = await jobs.get()
    engine.open_file(str(other))
    second = await jobs.get()
    assert (first.file, first.argv, first.name) == (str(model), ("--fast",), "net")
    assert (second.file, second.argv, second.name) == (str(other), (), None)
    assert (second.run, second.config) == (2, Config(target="h100"))
    watching = asyncio.create_task(jobs.get())
    for text in ("y = 2\n", "y = 3\n", "y = 4\n", "y = 5\n"):  # a save before the watch has begun is not seen
        model.write_text(f"# {text}")
        other.write_text(text)
        done, _ = await asyncio.wait([watching], timeout=2)
        if done:
            break
    third = watching.result()
    assert (third.file, third.run) == (str(other), 3)
    await engine.close()
