"""Settings that differ are tried: halved until one is left that brings the earlier kernels back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.session.code import Code
from tcexplore.session.run_difference import RunDifference, SettingDifference, run_difference
from tcexplore.studies.setting_trials import assignment, try_settings
from tcexplore.targets.target_names import NATIVE

NAMES = [f"torch._inductor.config.setting_{letter}" for letter in "abcdefgh"]
CAUSE = NAMES[5]


def run(source: str, value: str, config: ev.Config | None = None) -> Snapshot:
    kernel = ev.Kernel(graph="0/0", phase="forward", name="k", language="cpp", source=source, ops=("aten.mul",))
    state = ev.CompilerState(torch="2.13.0", defaults=tuple((name, value) for name in NAMES))
    return Snapshot(run=1, file="/m.py", source="", config=config or ev.Config(), compiler_state=state,
                    codes=(Code(target=NATIVE, kernels=(kernel,)),))  # fmt: skip


async def tried(cause: str, modes: Sequence[str] = ("default", "default")) -> tuple[RunDifference, list[ev.Config]]:
    configs: list[ev.Config] = []

    async def compile_with(config: ev.Config) -> Snapshot:
        configs.append(config)
        return run("one" if f"{cause}=1" in config.settings else "other", "2", config)

    earlier, later = (ev.Config(mode=mode) for mode in modes)
    difference = run_difference(run("one", "1", earlier), run("other", "2", later))
    async for result in try_settings(difference, compile_with):
        difference = result
    return difference, configs


async def test_one_of_eight_settings_is_found_by_halving() -> None:
    difference, configs = await tried(CAUSE)
    (part,) = difference.changed
    assert part.cause is not None
    assert (part.cause.kind, part.cause.name, part.cause.basis) == ("setting", CAUSE, "trial")
    assert part.cause.text == f"default {CAUSE}: 1 → 2"
    assert len(configs) <= 1 + 2 * 3


async def test_without_a_setting_that_brings_the_kernels_back_one_trial_is_enough() -> None:
    difference, configs = await tried("torch._inductor.config.other")
    assert len(configs) == 1
    assert difference.tried
    assert all(part.cause is None or part.cause.kind != "setting" for part in difference.changed)


async def test_a_mode_is_replaced_by_its_settings() -> None:
    difference, configs = await tried(CAUSE, ("default", "max-autotune"))
    assert {config.mode for config in configs} == {"default"}
    assert all(len(config.settings) == len(NAMES) for config in configs)
    (part,) = difference.changed
    assert part.cause is not None
    assert part.cause.name == CAUSE


def test_what_cannot_be_written_is_not_tried() -> None:
    setting = SettingDifference("torch._inductor.config.post_grad_custom_post_pass", "<model.f>", "<model.g>")
    assert assignment(setting) == ""
    assert assignment(setting._replace(name="torch.get_default_dtype()", before="1", after="2")) == ""
    new = SettingDifference("torch._inductor.config.new", None, "True")
    assert assignment(new) == "torch._inductor.config.new=False"
    threshold = SettingDifference("torch._inductor.config.new_threshold", None, "64")
    assert assignment(threshold) == f"torch._inductor.config.new_threshold={1 << 62}"


async def test_an_edited_program_is_not_tried() -> None:
    later = replace(run("other", "2"), source="edited")
    node = ev.FxNode(name="mul", op="call_function", target="mul", args="x, 2")
    graphs = [(ev.GraphCaptured(graph="0/0", ops=1, nodes=(replace(node, args=args),), code=""),)
              for args in ("x, 2", "x, 3")]  # fmt: skip
    lowered = ev.AtenGraph(graph="0/0", stage="post_grad", phase="forward", nodes=(
        ev.FxNode(name="mul", op="call_function", target="aten.mul.Tensor", origins=("mul",)),
    ))  # fmt: skip
    sides = []
    for side, graph in zip((run("one", "1"), later), graphs, strict=True):
        kernel = replace(side.code.kernels[0], nodes=("mul",))
        code = Code(target=NATIVE, kernels=(kernel,), aten_graphs=(lowered,))
        sides.append(replace(side, graphs=graph, codes=(code,)))

    async def compile_with(_: ev.Config) -> Snapshot:
        raise AssertionError("a trial of an edited program")

    difference = run_difference(*sides)
    assert [part.cause.kind for part in difference.changed if part.cause] == ["program"]
    assert [result.tried async for result in try_settings(difference, compile_with)] == [False]
