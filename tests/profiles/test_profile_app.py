"""The app on profiles: the panes of the trace with the times of the profile, ranks, and a profile alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from tcexplore.cli.options import TraceChoice
from tcexplore.cli.profile_command import profile_job
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.profile_engine import ProfileEngine
from tests.traces.trace_app import text_of, until


def app_of(choice: TraceChoice) -> ExplorerApp:
    job = profile_job(choice)
    return ExplorerApp(lambda: ProfileEngine(job, choice.rank))


async def show(app: ExplorerApp, pilot: Pilot[int], text: str, *, zoomed: bool = False) -> None:
    """Turn the views of the timing pane until one has a text."""
    for _ in range(8):
        await pilot.press(*(("v",) if zoomed else ("6", "v")))
        await pilot.pause()
        if text in text_of(app):
            return
    pytest.fail(text_of(app))


async def test_the_panes_have_the_times_of_the_profile(profiles: Path):
    app = app_of(TraceChoice((str(profiles / "gpt" / "gpt_train.json"),), trace=str(profiles / "gpt" / "trace")))
    async with app.run_test(size=(160, 50)) as pilot:
        await until(app, pilot, lambda: "34 kernels + 87 extern" in text_of(app))
        await show(app, pilot, "ProfilerStep#1")
        assert "NVIDIA H200" in text_of(app)
        await show(app, pilot, "Lines of one call")


async def test_a_profile_alone_shows_kernels_with_their_times(profiles: Path):
    app = app_of(TraceChoice((str(profiles / "gpt" / "gpt_train.json"),)))
    async with app.run_test(size=(160, 50)) as pilot:
        await until(app, pilot, lambda: "kernels" in text_of(app).split("history")[-1])
        await show(app, pilot, "ProfilerStep#1")
        assert "NOTHING WAS COMPILED" not in text_of(app)
        await pilot.press("5", "z")
        await until(app, pilot, lambda: "triton_per_fused__fused_rms_norm_backward_view_1" in text_of(app))


@pytest.mark.parametrize("rank", [0, 1])
async def test_ranks_are_shown_side_by_side(profiles: Path, rank: int):
    paths = tuple(str(profiles / "gpu" / f"ddp_{known}.json") for known in (0, 1))
    app = app_of(TraceChoice(paths, rank=rank, trace=str(profiles / "gpu" / "t_ddp")))
    async with app.run_test(size=(160, 50)) as pilot:
        await until(app, pilot, lambda: "kernels" in text_of(app).split("history")[-1])
        await pilot.press("6", "z")
        await show(app, pilot, "collectives", zoomed=True)
        await until(app, pilot, lambda: "waits" in text_of(app))
        assert "collectives" in text_of(app)
