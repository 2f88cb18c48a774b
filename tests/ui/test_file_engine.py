"""The engine watches one file, and another one from when the user opens it. No worker is started here."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tcexplore import watch
from tcexplore.events import Config, Event, Finished, Job, ModulesImported, TargetLowered
from tcexplore.events.commands import RunCommand
from tcexplore.session.snapshot import start_snapshot
from tcexplore.ui import file_engine
from tcexplore.ui.file_engine import FileEngine


class NoWorkers:
    """A supervisor that runs nothing."""

    def __init__(self, *_: object, **__: object) -> None:
        self.jobs: list[Job] = []

    async def start(self, _started: object) -> None:
        """Start nothing."""

    def submit(self, job: Job) -> None:
        self.jobs.append(job)

    def stop_run(self) -> None:
        """Stop nothing."""

    async def close(self) -> None:
        """Close nothing."""

    def send(self, _: RunCommand) -> bool:
        return True


async def test_the_engine_watches_imported_modules_and_reruns_for_a_target_that_the_run_did_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(file_engine, "Supervisor", NoWorkers)
    watched: list[tuple[str, ...]] = []
    monkeypatch.setattr(watch.Watch, "set_modules", lambda _, files: watched.append(files))
    model = tmp_path / "model.py"
    model.write_text("x = 1\n")
    jobs: list[Job] = []
    engine = FileEngine(str(model), Config())
    await engine.start(lambda item: jobs.append(item) if isinstance(item, Job) else None)
    run = start_snapshot(jobs[-1]).apply(ModulesImported(run=1, files=("/a.py",)))
    for snapshot in (start_snapshot(jobs[-1]), run, run, replace(run, run=7)):
        engine.update(snapshot)
    assert watched == [("/a.py",)]
    lowered = run.apply(TargetLowered(run=1, target="h100", graph="0/0", kernels=1, seconds=0.1))
    for steps, runs in ((lowered, lowered.apply(Finished(run=1))), 1), ((run, run.apply(Finished(run=1))), 2):
        assert engine.retarget("h100", known=False)
        for snapshot in steps:
            engine.update(snapshot)
        assert len(jobs) == runs
    assert jobs[-1].config.target == "h100"
    await engine.close()


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
