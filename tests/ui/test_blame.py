"""The ladder on its key: rungs light up, the layer is named, the reproducer is written and overwrites nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tcexplore import events as ev
from tcexplore.documents.output_view import output_document
from tcexplore.documents.timing.accuracy_rows import accuracy_rows
from tcexplore.session import Snapshot
from tcexplore.ui.screens.bisect_screen import BlameScreen
from tests import fakes
from tests.studies.playing import JOB, failed
from tests.ui.stage import Stage, check_screen, stage

GOOD = ev.Accuracy(verdict="as accurate as eager", calls=1, total_calls=1)
WRONG = ev.Accuracy(verdict="wrong", max_abs=3.5, worst="output[0]", calls=1, total_calls=1)


def lowering(job: ev.Job) -> Sequence[ev.Event]:
    """Inductor fails, whatever lies below works."""
    return [failed("no lowering for aten.foo")] if job.config.backend == "inductor" else [GOOD, ev.Finished()]


def wrong(job: ev.Job) -> Sequence[ev.Event]:
    """Inductor computes something else."""
    return [WRONG if job.config.backend == "inductor" else GOOD, ev.Finished()]


async def opened(staged: Stage) -> BlameScreen:
    await staged.press("L")
    screen = staged.app.screen
    assert isinstance(screen, BlameScreen)
    assert screen.study is not None
    await screen.study.ended()
    await staged.settle()
    return screen


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=str)
async def test_the_first_rung_that_fails_names_the_layer(size: tuple[int, int]):
    async with stage(fakes.session(fakes.complete(7)), size) as staged:
        staged.engine.story = lowering
        await opened(staged)
        check_screen(f"ladder_{size[0]}x{size[1]}", staged)


async def test_rungs_light_up_as_they_are_climbed():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        staged.engine.story = lambda job: lowering(job) if job.run == 1 else ()
        await staged.press("L")
        while "✔  Dynamo" not in staged.screen:
            await staged.pilot.pause()
        assert "◐  AOTAutograd" in staged.screen
        await staged.press("x")
        assert "Stopped before the last rung" in staged.screen


async def test_nobody_to_blame_and_nothing_to_reproduce():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        staged.engine.story = lambda _: [GOOD, ev.Finished()]
        await opened(staged)
        assert "No layer is to blame" in staged.screen
        await staged.press("w")
        assert "nothing to reproduce" in staged.said[-1]


async def test_the_reproducer_is_written_where_nothing_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    async with stage(fakes.session(fakes.complete(7))) as staged:
        staged.engine.job = ev.Job(run=1, file=str(tmp_path / "model.py"), source=JOB.source)
        staged.engine.story = wrong
        await opened(staged)
        await staged.press("w", "enter")
        written = {path.name for path in (tmp_path / "model-repro").iterdir()}
        assert {"model.py", "repro.py", "README.md"} <= written
        assert "python model-repro/repro.py" in staged.said[-1]
        await staged.press("w")
        assert "model-repro2" in staged.screen
        await staged.press("backspace", *"model-repro", "enter")
        assert "is there already" in staged.screen


def test_it_is_offered_where_it_helps():
    crashed = fakes.complete(7).apply(ev.Failed(run=7, stage="inductor", blame="compiler", type="E", message="no"))
    assert "Press L to find" in text(output_document(crashed).row(i).text for i in range(len(output_document(crashed))))
    off = fakes.complete(7).apply(ev.Accuracy(run=7, verdict="wrong"))
    assert "Press L to find" in text(row.text for row in accuracy_rows(off, 78))
    good: Snapshot = fakes.complete(7)
    assert "Press L to find" not in text(row.text for row in accuracy_rows(good, 78))


def text(rows: Iterable[str]) -> str:
    return "\n".join(rows)
