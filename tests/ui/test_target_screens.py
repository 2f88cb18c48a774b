"""Choosing a target, and one kernel on two targets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore.events import Kernel, KernelAssembled
from tcexplore.session import Snapshot
from tcexplore.ui.screens.target_diff_screen import TargetDiffScreen
from tcexplore.ui.screens.target_screen import TargetScreen
from tests import fakes
from tests.snapshots import gpu
from tests.ui.stage import check_screen, stage

SIZES = pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=str)


def on_two() -> Snapshot:
    """Return a run with code for l4, which is in view, and for mi300x, which has one more kernel."""
    snapshot = gpu.run()
    for kernel in snapshot.code.kernels:
        snapshot = snapshot.apply(replace(kernel, target="mi300x", source=kernel.source.replace("256", "512")))
    alone = replace(snapshot.code.kernels[-1], name="triton_poi_fused_cos_1", ops=("aten.cos",), target="mi300x")
    assert isinstance(alone, Kernel)
    made = snapshot.code.assembled[0]
    assert isinstance(made, KernelAssembled)
    stages = tuple(replace(stage, name="amdgcn") for stage in made.stages if stage.name == "sass")
    snapshot = snapshot.apply(alone)
    return snapshot.apply(replace(made, target="mi300x", stages=stages))


@SIZES
async def test_the_list_of_devices(size: tuple[int, int]):
    async with stage(fakes.session(on_two()), size) as staged:
        await staged.press("T")
        assert isinstance(staged.app.screen, TargetScreen)
        check_screen(f"target_{size[0]}x{size[1]}", staged)


async def test_a_target_with_code_is_shown_at_once():
    async with stage(fakes.session(on_two())) as staged:
        await staged.press("T", "down", "enter")
        assert staged.app.screen is staged.app.main
        assert staged.engine.asked == ["retarget mi300x known"]
        assert "for mi300x" in str(staged.pane("code").border_title)
        assert "code for mi300x" in staged.screen
        await staged.press("T", "home", "down", "enter")
        assert staged.engine.asked[-1] == "retarget native known"
        assert "cpp_fused_relu_0" in staged.screen


async def test_code_for_another_target_is_requested_and_awaited():
    running = replace(on_two(), status="running", phase="timing")
    async with stage(fakes.session(running)) as staged:
        await staged.press("T", "up", "enter")
        assert staged.engine.asked == ["retarget h200"]
        assert "◐ h200: lowering, 0 of 1 graph" in staged.screen
        assert "lowering for another target: h200" in "".join(
            staged.view("code").document.row(i).text for i in range(len(staged.view("code").document))
        )
        assert staged.app.session.shown is not None
        assert staged.app.session.shown.complete, "what is known of the run stays in view"


async def test_the_user_is_told_that_a_new_run_generates_the_code():
    async with stage(fakes.session(on_two())) as staged:
        staged.engine.alive = False
        await staged.press("T", "up", "enter")
        assert "Run 1 has ended" in staged.said[-1]


@SIZES
async def test_a_kernel_on_two_targets(size: tuple[int, int]):
    async with stage(fakes.session(on_two()), size) as staged:
        await staged.press("5", "K")
        screen = staged.app.screen
        assert isinstance(screen, TargetDiffScreen)
        check_screen(f"target_diff_{size[0]}x{size[1]}", staged)
        await staged.press("V")
        assert "[SASS / AMDGCN]" in staged.screen
        await staged.press("tab")
        assert "Only mi300x has this kernel." in staged.screen
        assert "On l4 its ops are in triton_poi_fused_relu_0" in " ".join(staged.screen.split())
        await staged.press("]")
        assert "l4 │ native" in staged.screen
        await staged.press("escape")
        assert staged.app.screen is staged.app.main


async def test_one_target_is_not_enough_to_compare():
    async with stage(fakes.session(fakes.complete(7))) as staged:
        await staged.press("5", "K")
        assert "choose another with T" in staged.said[-1]
