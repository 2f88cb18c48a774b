"""The modes screen: rows are sorted, used for the file, added and continued."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tcexplore import events as ev
from tcexplore.ui.screens.modes_screen import ModesScreen
from tests import fakes
from tests.studies.playback import failed, timed
from tests.ui.app_under_test import AppUnderTest, check_screen, run_app

SPEEDUPS = {"default": 1.3, "max-autotune": 1.5}


def story(job: ev.Job) -> Sequence[ev.Event]:
    """Return a failure for eager, a speedup for Inductor, no difference for the rest."""
    config = job.config
    if config.backend == "eager":
        return [failed()]
    speedup = SPEEDUPS[config.mode] - 0.005 * bool(config.dynamic) if config.backend == "inductor" else 1.0
    return [
        ev.CallMade(index=0, variant="compiled", seconds=2.5, compiles=1),
        ev.PhaseTimed(name="dynamo", seconds=1.5 * speedup, graph="0/0", depth=0), timed(speedup),
        ev.Memory(device="cpu", method="", weights=0, inputs=0, compiled_peak=2048),
        ev.Accuracy(verdict="as accurate as eager", max_abs=1e-7, calls=1, total_calls=1), ev.Finished(),
    ]  # fmt: skip


def backends(ui: AppUnderTest, first: int) -> list[str]:
    """Return the backends of all jobs of the queues from number `first` on."""
    return [job.config.backend for queue in ui.engine.queues[first:] for job in queue.jobs]


async def opened(ui: AppUnderTest) -> ModesScreen:
    await ui.press("S", "M")
    return await ui.study_ended(ModesScreen)


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=str)
async def test_every_run_has_a_row_and_one_is_recommended(size: tuple[int, int]):
    async with run_app(fakes.session(fakes.complete(7)), size) as ui:
        ui.engine.story = story
        screen = await opened(ui)
        rows = (screen.reader.document.row(i).text for i in range(len(screen.reader.document)))
        text = " ".join(" ".join(rows).split())
        assert 'Use torch.compile(…, mode="max-autotune"): 1.50×' in text
        assert "eager, default, dynamic auto: InductorError: lowering failed" in text
        title = next(line for line in ui.screen.splitlines() if line.startswith(" modes"))
        assert 'Use torch.compile(…, mode="max-autotune"' in title, "also where the table hides the end"
        check_screen(f"modes_{size[0]}x{size[1]}", ui)


async def test_s_sorts_and_enter_takes_over_a_mode():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.engine.story = story
        screen = await opened(ui)
        await ui.press("s", "home", "down")
        row = screen.reader.cursor_row
        assert row is not None
        assert "max-autotune" in row.text
        await ui.press("enter")
        assert ui.engine.requests == ["inductor max-autotune None"]
        assert ui.app.screen is ui.app.main


async def test_reopening_shows_the_results_and_enter_adds_a_backend():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.engine.story = story
        await opened(ui)
        await ui.press("escape")
        await ui.press("S", "M")
        screen = ui.app.screen
        assert isinstance(screen, ModesScreen)
        queues = len(ui.engine.queues)
        await ui.press("slash", *"+ cuda", "enter", "enter")
        await ui.study_ended(ModesScreen)
        assert backends(ui, queues) == ["cudagraphs"]
        assert screen.state is not None
        assert len(screen.state.results) == 6


async def test_a_stopped_study_continues():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        ui.engine.story = lambda job: story(job) if job.run < 4 else ()
        await ui.press("S", "M")
        screen = ui.app.screen
        assert isinstance(screen, ModesScreen)
        await ui.until(lambda: bool(screen.state and len(screen.state.results) == 3))
        await ui.press("x")
        assert "Use torch" not in ui.screen
        ui.engine.story, queues = story, len(ui.engine.queues)
        await ui.press("home", *["down"] * 4, "enter")
        await ui.study_ended(ModesScreen)
        assert sorted(backends(ui, queues)) == ["aot_eager", "eager"]
        assert len(screen.state.results) == 5
