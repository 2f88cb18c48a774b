"""The matrix on its key: cells as they come, sorted, applied, added to, gone on with."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tcexplore import events as ev
from tcexplore.ui.screens.modes_screen import MatrixScreen
from tests import fakes
from tests.studies.playing import failed, timed
from tests.ui.stage import Stage, check_screen, stage

SPEEDUPS = {"default": 1.3, "max-autotune": 1.5}


def story(job: ev.Job) -> Sequence[ev.Event]:
    """Eager fails, Inductor is faster, the rest makes no difference."""
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


async def opened(staged: Stage) -> MatrixScreen:
    await staged.press("M")
    screen = staged.app.screen
    assert isinstance(screen, MatrixScreen)
    assert screen.study is not None
    await screen.study.ended()
    await staged.settle()
    return screen


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=str)
async def test_every_cell_and_what_follows(size: tuple[int, int]):
    async with stage(fakes.session(fakes.complete(7)), size) as staged:
        staged.engine.story = story
        screen = await opened(staged)
        rows = (screen.reader.document.row(i).text for i in range(len(screen.reader.document)))
        text = " ".join(" ".join(rows).split())
        assert 'Use torch.compile(…, mode="max-autotune", dynamic=False): 1.50×' in text
        assert "as far as can be told: inductor, max-autotune, dynamic true." in text
        assert "eager, default, dynamic true: InductorError: lowering failed" in text
        check_screen(f"matrix_{size[0]}x{size[1]}", staged)


async def test_it_is_sorted_and_a_row_is_applied():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        staged.engine.story = story
        screen = await opened(staged)
        await staged.press("s", "home", "down")
        row = screen.reader.cursor_row
        assert row is not None
        assert "max-autotune" in row.text
        await staged.press("enter")
        assert staged.engine.asked == ["inductor max-autotune False"]
        assert staged.app.screen is staged.app.main


async def test_what_was_found_is_there_again_and_another_backend_joins_it():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        staged.engine.story = story
        await opened(staged)
        await staged.press("escape")
        screen = await opened(staged)
        assert len(staged.engine.queues) == 1
        await staged.press("slash", *"+ cuda", "enter", "enter")
        assert screen.study is not None
        await screen.study.ended()
        await staged.settle()
        assert [job.config.backend for job in staged.engine.queues[1].jobs] == ["cudagraphs", "cudagraphs"]
        assert len(screen.study.found) == 10


async def test_one_that_was_stopped_goes_on_where_it_was():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        staged.engine.story = lambda job: story(job) if job.run < 4 else ()
        await staged.press("M")
        screen = staged.app.screen
        assert isinstance(screen, MatrixScreen)
        while not (screen.study and len(screen.study.found) == 3):
            await staged.pilot.pause()
        await staged.press("x")
        assert "Use torch" not in staged.screen
        staged.engine.story = story
        await staged.press("home", *["down"] * 4, "enter")
        await screen.study.ended()
        await staged.settle()
        assert [job.config.backend for job in staged.engine.queues[1].jobs][:2] == ["aot_eager", "inductor"]
        assert len(screen.study.found) == 8
