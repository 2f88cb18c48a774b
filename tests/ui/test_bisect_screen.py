"""The bisect screen: stages are marked, the failing one is named, and a reproducer overwrites nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tcexplore import events as ev
from tcexplore.documents.output_view import output_document
from tcexplore.documents.timing.accuracy_rows import accuracy_rows
from tcexplore.session import Snapshot
from tcexplore.ui.screens.bisect_screen import BisectScreen
from tests import fakes
from tests.studies.playback import GRAPH, JOB, failed
from tests.ui.app_under_test import AppUnderTest, check_screen, run_app

GOOD = ev.Accuracy(verdict="as accurate as eager", calls=1, total_calls=1)
WRONG = ev.Accuracy(verdict="wrong", max_abs=3.5, worst="output[0]", calls=1, total_calls=1)


def lowering(job: ev.Job) -> Sequence[ev.Event]:
    """Return a failure for Inductor only."""
    return [failed("no lowering for aten.foo")] if job.config.backend == "inductor" else [GRAPH, GOOD, ev.Finished()]


def wrong(job: ev.Job) -> Sequence[ev.Event]:
    """Return a wrong result for Inductor only."""
    return [GRAPH, WRONG if job.config.backend == "inductor" else GOOD, ev.Finished()]


async def opened(ui: AppUnderTest) -> BisectScreen:
    await ui.press("S", "L")
    return await ui.study_ended(BisectScreen)


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=str)
async def test_the_first_failing_stage_is_named(size: tuple[int, int]):
    async with run_app(fakes.session(fakes.complete(7)), size) as ui:
        ui.engine.story = lowering
        await opened(ui)
        check_screen(f"bisect_{size[0]}x{size[1]}", ui)


async def test_stages_are_marked_as_they_run():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.engine.story = lambda job: lowering(job) if job.run == 1 else ()
        await ui.press("S", "L")
        await ui.until(lambda: "✔  Dynamo" in ui.screen)
        assert "◐  AOTAutograd" in ui.screen
        await ui.press("x")
        assert "Stopped before the last stage" in ui.screen


async def test_without_a_failure_there_is_nothing_to_reproduce():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.engine.story = lambda _: [GRAPH, GOOD, ev.Finished()]
        await opened(ui)
        assert "No stage fails" in ui.screen
        await ui.press("w")
        assert "nothing to reproduce" in ui.notifications[-1]


async def test_the_reproducer_is_written_to_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.engine.job = ev.Job(run=1, file=str(tmp_path / "model.py"), source=JOB.source)
        ui.engine.story = wrong
        await opened(ui)
        await ui.press("w", "enter")
        written = {path.name for path in (tmp_path / "model-repro").iterdir()}
        assert {"model.py", "repro.py", "README.md"} <= written
        assert "python model-repro/repro.py" in ui.notifications[-1]
        await ui.press("w")
        assert "model-repro2" in ui.screen
        await ui.press("backspace", *"model-repro", "enter")
        assert "already exists" in ui.screen


def test_bisecting_is_suggested_for_crashes_and_wrong_results():
    crashed = fakes.complete(7).apply(ev.Failed(run=7, stage="inductor", blame="compiler", type="E", message="no"))
    assert "Press S L" in text(output_document(crashed).row(i).text for i in range(len(output_document(crashed))))
    off = fakes.complete(7).apply(ev.Accuracy(run=7, verdict="wrong"))
    assert "S L the compiler stage" in text(row.text for row in accuracy_rows(off, 78))
    good: Snapshot = fakes.complete(7)
    assert "S L" not in text(row.text for row in accuracy_rows(good, 78))


def text(rows: Iterable[str]) -> str:
    return "\n".join(rows)
