"""The app on profiles: the panes of the trace with the times of the profile, ranks, and a profile alone."""

from __future__ import annotations

from pathlib import Path

from textual.pilot import Pilot

from tcexplore.cli.options import TraceChoice
from tcexplore.cli.profile_command import profile_job
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.profile_engine import ProfileEngine
from tests.traces.trace_app import text_of, until


def app_of(choice: TraceChoice) -> ExplorerApp:
    job = profile_job(choice)
    return ExplorerApp(lambda: ProfileEngine(job, choice.rank))


def has_profile(app: ExplorerApp, *, ranks: bool = False) -> bool:
    run = app.session.newest
    return run is not None and run.profile is not None and (run.profiled_ranks is not None or not ranks)


async def show(app: ExplorerApp, pilot: Pilot[int], view: str, text: str) -> None:
    """Turn the timing pane to a view, and wait for a text in it."""
    await until(app, pilot, lambda: has_profile(app))
    await pilot.press("6", "z")
    for _ in range(10):
        if f"[{view}]" in text_of(app):
            break
        await pilot.press("v")
        await pilot.pause()
    await until(app, pilot, lambda: text in text_of(app))


async def test_the_panes_have_the_times_of_the_profile(profiles: Path):
    app = app_of(TraceChoice((str(profiles / "gpt" / "gpt_train.json"),), trace=str(profiles / "gpt" / "trace")))
    async with app.run_test(size=(160, 50)) as pilot:
        await show(app, pilot, "timing", "ProfilerStep#1")
        assert "NVIDIA H200" in text_of(app)
        await show(app, pilot, "lines", "Lines of one call")


async def test_a_profile_alone_shows_kernels_with_their_times(profiles: Path):
    app = app_of(TraceChoice((str(profiles / "gpt" / "gpt_train.json"),)))
    async with app.run_test(size=(160, 50)) as pilot:
        await show(app, pilot, "timing", "ProfilerStep#1")
        assert "NOTHING WAS COMPILED" not in text_of(app)
        await pilot.press("5")
        await until(app, pilot, lambda: "triton_per_fused__fused_rms_norm_backward_view_1" in text_of(app))


async def test_ranks_are_shown_side_by_side(profiles: Path):
    paths = tuple(str(profiles / "gpu" / f"ddp_{known}.json") for known in (0, 1))
    app = app_of(TraceChoice(paths, rank=1, trace=str(profiles / "gpu" / "t_ddp")))
    async with app.run_test(size=(160, 50)) as pilot:
        await until(app, pilot, lambda: has_profile(app, ranks=True))
        await show(app, pilot, "timing", "collectives")
        assert "waits" in text_of(app)


async def test_the_timeline_is_zoomed_and_followed_with_keys(profiles: Path):
    app = app_of(TraceChoice((str(profiles / "gpt" / "gpt_train.json"),), trace=str(profiles / "gpt" / "trace")))
    async with app.run_test(size=(100, 40)) as pilot:
        await show(app, pilot, "timeline", "host-bound")
        await pilot.press(*["down"] * 9, "right")
        await pilot.press("+", "+")
        await until(app, pilot, lambda: "2.52 ms of it" in text_of(app))
        await pilot.press("-", "-")
        await until(app, pilot, lambda: "of it" not in text_of(app))
        await pilot.press("slash", *"403", "enter")
        await pilot.press("enter")
        await until(app, pilot, lambda: "[1 Source]" in text_of(app))
