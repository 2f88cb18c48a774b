"""Trials of settings that differ between two runs: with the earlier value, is the difference gone?"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.session.kernel_groups import AlignedRuns, KernelGroup, align_runs, shape
from tcexplore.session.run_difference import RunDifference, SettingDifference, is_threshold, with_trial

Compile = Callable[[ev.Config], Awaitable[Snapshot]]
"""Compiles the program of the later run with another configuration, without timing it."""

_SETTABLE = ("torch._inductor.config.", "torch._dynamo.config.", "torch._functorch.config.")

HUGE = 1 << 62
"""A threshold that nothing reaches."""

ALONE = 3
"""Settings that are tried one by one; more are halved until one is left."""


def assignment(setting: SettingDifference) -> str:
    """Return `torch._inductor.config.max_fusion_size=64`, which gives the later run the value of the earlier one.

    A setting that the earlier torch lacks is switched off. Empty if its value cannot be written.
    """
    before = setting.before
    if before is None and (setting.after == "True" or is_threshold(setting.name, setting.after)):
        before = "False" if setting.after == "True" else str(HUGE)
    written = before is not None and setting.after is not None and "<" not in before and not before.endswith("…")
    return f"{setting.name}={before}" if written and setting.name.startswith(_SETTABLE) else ""


async def try_settings(difference: RunDifference, compile_with: Compile) -> AsyncGenerator[RunDifference, None]:
    """Yield the difference after each trial that confirms the cause of a group of kernels, and at the end."""
    open_groups = [part.group for part in difference.changed if part.group is not None and _may_be_setting(part.cause)]
    settings = [setting for setting in difference.settings if assignment(setting)]
    waiting: list[tuple[list[SettingDifference], list[KernelGroup]]] = [(settings, open_groups)]
    while waiting:
        tried, groups = waiting.pop()
        if not tried or not groups:
            continue
        run = await compile_with(trial_config(difference, tried))
        restored = restored_groups(difference, groups, run) if run.failure is None else []
        if not restored:
            continue
        if len(tried) == 1:
            difference = with_trial(difference, restored, [tried[0].name])
            yield difference
            continue
        parts = (
            [[one] for one in tried] if len(tried) <= ALONE else [tried[: len(tried) // 2], tried[len(tried) // 2 :]]
        )
        difference = with_trial(difference, restored, [one.name for one in tried])
        waiting += [(part, restored) for part in parts]
    yield replace(difference, tried=bool(settings and open_groups))


def _may_be_setting(cause: object) -> bool:
    return getattr(cause, "kind", "") != "program"


def trial_config(difference: RunDifference, tried: Sequence[SettingDifference]) -> ev.Config:
    """Return the configuration of the later run with settings of the earlier one.

    A mode is replaced by its settings, since it would overrule them.
    """
    before, after = difference.before.config, difference.after.config
    values = [assignment(setting) for setting in tried]
    if before.mode == after.mode:
        return replace(after, settings=(*after.settings, *values))
    names = {setting.name for setting in tried}
    rest = [f"{s.name}={s.after}" for s in difference.settings if s.name not in names and assignment(s)]
    return replace(after, mode=before.mode, settings=(*after.settings, *rest, *values))


def restored_groups(difference: RunDifference, groups: Sequence[KernelGroup], trial: Snapshot) -> list[KernelGroup]:
    """Return the groups whose difference is gone in a trial."""
    to_before, to_after = align_runs(difference.before, trial), align_runs(difference.after, trial)
    one_torch = _torch(difference.before) == _torch(trial)
    return [group for group in groups if _is_restored(group, to_before, to_after, one_torch=one_torch)]


def _is_restored(group: KernelGroup, to_before: AlignedRuns, to_after: AlignedRuns, *, one_torch: bool) -> bool:
    if not group.before:
        own = {id(kernel) for kernel in group.after}
        return all(other.kind == "removed" for other in to_after.groups if own & set(map(id, other.before)))
    own = {id(kernel) for kernel in group.before}
    others = [other for other in to_before.groups if own & set(map(id, other.before))]
    if all(other.kind == "same" for other in others):
        return True
    if one_torch or shape(group.before) == shape(group.after):
        return False
    return all(other.kind == "same" or shape(other.before) == shape(other.after) for other in others)


def _torch(run: Snapshot) -> str:
    return run.compiler_state.torch if run.compiler_state is not None else ""
