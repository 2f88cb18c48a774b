"""Differences between two ranks outside of any compile: versions, settings, global state."""

from __future__ import annotations

import json
import re
from typing import Any, Literal, NamedTuple

from tcexplore import events as ev
from tcexplore.events.rank_events import DivergenceKind
from tcexplore.traces.guard_records import guard_checks
from tcexplore.traces.rank_fingerprint import RankFingerprint, settings
from tcexplore.traces.rank_normalization import normalize

_UNSTABLE_SETTING = re.compile(
    r"dir\b|_dir$|path|cache_key|file|debug_dir|compile_threads|worker|pipe|rank|_save_config_ignore|log|profile"
)
"""Names of settings that differ between machines or ranks without an effect on the code."""

_UNSTABLE_VARIABLE = re.compile(r"TORCH_TRACE|ELASTIC|DIR$|PATH|FILE|RANK|LOGS|COMPILE_THREADS")
"""Names of environment variables that may differ between ranks."""

_LIBRARIES = ("torch", "CUDA", "Python", "Triton")


Alone = Literal["", "mine", "other"]


class Difference(NamedTuple):
    """Where two ranks differ first."""

    kind: DivergenceKind
    graph: str
    """Empty if the difference is not in one compile."""
    detail: str
    mine: str
    other: str
    my_line: ev.Location | None = None
    other_line: ev.Location | None = None
    alone: Alone = ""
    """The rank that is the one side of which `detail` tells."""
    order: int = 0
    """Position of the compile, for choosing the first of several differences."""
    setting: str = ""
    """Name of the setting or environment variable that differs."""
    before: ev.Location | None = None
    """The line of the last op that both graphs have."""
    condition_line: ev.Location | None = None
    """The user's line of the condition by which the ranks go apart, if it is known."""
    condition: str = ""
    """The condition as the user wrote it."""
    my_values: tuple[str, ...] = ()
    """What the condition read on this side and not on the other one, by the guards of its line."""
    other_values: tuple[str, ...] = ()
    constants_only: bool = False
    """Whether a node has other constants, but calls the same function on the same values."""


def environment_difference(mine: RankFingerprint, other: RankFingerprint) -> Difference | None:
    """Return the first difference of versions, settings or global state, with the line that causes it."""
    checks = (check(mine, other) for check in (_versions, _variables, _settings, _global_state))
    difference = next((difference for difference in checks if difference is not None), None)
    if difference is None:
        return None
    my_line, other_line = (_cause(side, difference.setting) for side in (mine, other))
    return difference._replace(my_line=my_line or other_line, other_line=other_line or my_line)


def _cause(side: RankFingerprint, setting: str) -> ev.Location | None:
    """Return the line of the main file that names a setting, else that of the first compile, which it affects."""
    main = side.sources.main
    pattern = re.compile(rf"\b(?:set_)?{re.escape(setting)}\b")
    for number, line in enumerate(side.sources.text(main).split("\n") if setting and main else (), 1):
        code = line.partition("#")[0]
        if pattern.search(code) and ("=" in code or "(" in code):
            return ev.Location(main, number, "")
    return next((place for graph in side.graphs if (place := side.user_line(graph)) is not None), None)


def _versions(mine: RankFingerprint, other: RankFingerprint) -> Difference | None:
    for name in _LIBRARIES:
        a, b = mine.versions.get(name), other.versions.get(name)
        if a and b and a != b:
            return Difference(
                "library version", "", f"the ranks run different versions of {name}", f"{name} {a}", f"{name} {b}"
            )
    return None


def stable_variables(side: RankFingerprint) -> dict[str, str]:
    """Return the environment variables that should be equal on all ranks."""
    return {
        name: value
        for name, value in side.environment.items()
        if "/" not in value and not _UNSTABLE_VARIABLE.search(name)
    }


def _variables(mine: RankFingerprint, other: RankFingerprint) -> Difference | None:
    """Compare torch's environment variables, unless they name a place, a rank or a part of the launcher."""
    if not mine.environment or not other.environment:
        return None
    variables, others = stable_variables(mine), stable_variables(other)
    for name in sorted({**variables, **others}):
        a, b = variables.get(name), others.get(name)
        if a != b:
            texts = tuple(f"{name}={value}" if value is not None else f"{name} is not set" for value in (a, b))
            detail = f"the environment variable {name} differs"
            return Difference("environment", "", detail, texts[0], texts[1], setting=name)
    gpus = mine.versions.get("GPU"), other.versions.get("GPU")
    if gpus[0] and gpus[1] and gpus[0] != gpus[1]:
        return Difference("environment", "", "the ranks run on different GPUs", gpus[0], gpus[1])
    return None


def _settings(mine: RankFingerprint, other: RankFingerprint) -> Difference | None:
    for name, text in mine.configs.items():
        other_text = other.configs.get(name)
        if other_text is None or other_text == text:
            continue
        others = dict(settings(other_text))
        for key, value in settings(text):
            differs = key in others and others[key] != value and not _UNSTABLE_SETTING.search(key)
            if differs and normalize(_short(value)) != normalize(_short(others[key])):
                full = f"torch.{_MODULES[name]}.config.{key}" if name in _MODULES else f"{name}.{key}"
                return Difference(
                    "config", "", f"{full} differs", f"{key} = {_short(value)}", f"{key} = {_short(others[key])}",
                    setting=key,
                )  # fmt: skip
    return None


_MODULES = {"dynamo_config": "_dynamo", "inductor_config": "_inductor", "functorch_config": "_functorch"}

_OWN_STATE = ("grad_mode", "autocast_state", "torch_function", "torch_function_all_disabled")
"""Parts of torch's global state that the program sets around a call, not the environment."""


def _short(value: Any) -> str:
    text = ev.clean(json.dumps(value))
    return text if len(text) <= 80 else text[:79] + "…"


def _global_state(mine: RankFingerprint, other: RankFingerprint) -> Difference | None:
    """Compare the global state in the guards of the first compile that both have."""
    for graph in mine.graphs:
        states = [_state_of(side, graph) for side in (mine, other)]
        if states[0] and states[1]:
            for key, value in states[0].items():
                if key not in _OWN_STATE and key in states[1] and states[1][key] != value:
                    return Difference(
                        "environment", graph, f"torch's global setting {key} differs",
                        f"{key} = {_short(value)}", f"{key} = {_short(states[1][key])}", setting=key,
                    )  # fmt: skip
            return None
    return None


def _state_of(side: RankFingerprint, graph: str) -> dict[str, Any]:
    for item in side.of(graph, "dynamo_cpp_guards_str"):
        for check in guard_checks(side.payload(item)):
            if check.kind == "GLOBAL_STATE":
                try:
                    state = json.loads(check.code.split(" against ", 1)[1])
                except (IndexError, ValueError):
                    return {}
                return state if isinstance(state, dict) else {}
    return {}
