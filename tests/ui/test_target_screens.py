"""Choosing a target, and one kernel on two targets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tcexplore.events import Kernel, KernelAssembled
from tcexplore.session import Snapshot
from tcexplore.ui.appearance import Appearance
from tcexplore.ui.screens.target_screens import TargetDiffScreen, TargetScreen
from tests import fakes
from tests.snapshots import gpu
from tests.ui.app_under_test import check_screen, run_app

SIZES = pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=str)


def on_two() -> Snapshot:
    """Return a run with code for l4, which is in view, and for mi300x, which has one more kernel."""
    snapshot = gpu.run()
    for kernel in snapshot.code.kernels:
        snapshot = snapshot.apply(replace(kernel, target="mi300x", source=kernel.source.replace("256", "512")))
    alone = replace(snapshot.code.kernels[-1], name="triton_poi_fused_cos_1", ops=("aten.cos",), target="mi300x")
    assert isinstance(alone, Kernel)
    assembled = snapshot.code.assembled[0]
    assert isinstance(assembled, KernelAssembled)
    stages = tuple(replace(stage, name="amdgcn") for stage in assembled.stages if stage.name == "sass")
    snapshot = snapshot.apply(alone)
    return snapshot.apply(replace(assembled, target="mi300x", stages=stages))


@SIZES
async def test_the_list_of_devices(size: tuple[int, int]):
    async with run_app(fakes.session(on_two()), size) as ui:
        await ui.press("T")
        assert isinstance(ui.app.screen, TargetScreen)
        check_screen(f"target_{size[0]}x{size[1]}", ui)


async def test_the_cursor_stays_below_the_head_of_the_list():
    async with run_app(fakes.session(on_two())) as ui:
        await ui.press("T", "down", "enter", "T", "home", "enter")
        assert not isinstance(ui.app.screen, TargetScreen)
        assert ui.engine.requests[-1] == "retarget native known"


async def test_the_frame_names_the_target_under_the_cursor():
    """The dot in the list marks the target in view, and the cursor is a color."""
    async with run_app(fakes.session(on_two())) as ui:
        await ui.press("T")
        shown = []
        for key in ("home", "down", "end"):
            await ui.press(key)
            shown.append(str(ui.app.screen.query_one("Vertical").border_subtitle))
        assert shown == ["⏎ native", "⏎ a100", ""]


async def test_a_target_with_code_is_shown_at_once():
    async with run_app(fakes.session(on_two())) as ui:
        await ui.press("T", "down", "enter")
        assert ui.app.screen is ui.app.main
        assert ui.engine.requests == ["retarget mi300x known"]
        assert "for mi300x" in str(ui.pane("code").border_title)
        assert "code for mi300x" in ui.screen
        await ui.press("T", "home", "enter")
        assert ui.engine.requests[-1] == "retarget native known"
        assert "cpp_fused_relu_0" in ui.screen


async def test_the_view_of_a_device_is_left_with_its_target():
    async with run_app(fakes.session(on_two())) as ui:
        ui.app.main.show_view("code", "device")
        await ui.press("T", "down", "enter")
        assert ui.pane("code").view.name == "device"
        await ui.press("T", "home", "enter")
        assert ui.pane("code").view.name == "kernels"


async def test_code_for_another_target_is_requested_and_awaited():
    running = replace(on_two(), status="running", phase="timing")
    async with run_app(fakes.session(running)) as ui:
        await ui.press("T", "up", "enter")
        assert ui.engine.requests == ["retarget h200"]
        assert "◐ h200: lowering, 0 of 1 graph" in ui.screen
        assert "lowering for another target: h200" in "".join(
            ui.view("code").document.row(i).text for i in range(len(ui.view("code").document))
        )
        assert ui.app.session.shown is not None
        assert ui.app.session.shown.complete, "what is known of the run stays in view"


async def test_a_message_says_that_a_new_run_generates_the_code():
    async with run_app(fakes.session(on_two())) as ui:
        ui.engine.alive = False
        await ui.press("T", "up", "enter")
        assert "Run 1 has ended" in ui.notifications[-1]


@SIZES
async def test_a_kernel_on_two_targets(size: tuple[int, int]):
    async with run_app(fakes.session(on_two()), size) as ui:
        await ui.press("5", "S", "K")
        screen = ui.app.screen
        assert isinstance(screen, TargetDiffScreen)
        check_screen(f"target_diff_{size[0]}x{size[1]}", ui)
        await ui.press("V")
        assert "[SASS / AMDGCN]" in ui.screen
        await ui.press("tab")
        assert "Only mi300x has this kernel." in ui.screen
        assert "On l4 its ops are in triton_poi_fused_relu_0" in " ".join(ui.screen.split())
        await ui.press("]")
        assert "l4 │ native" in ui.screen
        await ui.press("q")
        assert ui.app.screen is ui.app.main


async def test_one_target_is_not_enough_to_compare():
    async with run_app(fakes.session(fakes.complete(7))) as ui:
        await ui.press("5", "S", "K")
        assert "choose another with T" in ui.notifications[-1]


async def test_targets_of_the_configuration_are_in_the_list(tmp_path: Path):
    own = tmp_path / "edge.toml"
    own.write_text('like = "l4"')
    async with run_app(fakes.session(fakes.complete(7)), appearance=Appearance(targets=(str(own),))) as ui:
        await ui.press("T")
        assert "edge" in ui.screen
