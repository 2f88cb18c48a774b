"""The text of arguments of `torch.compile`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcexplore.capture.regions.compile_arguments import LONGEST_VALUE, describe_arguments

DEFAULTS: dict[str, Any] = {"dynamic": None, "fullgraph": False, "backend": "inductor", "options": None}


def keep_all(guards: Sequence[object]) -> list[bool]:
    return [True for _ in guards]


class Hostile:
    """An object whose methods must not be called."""

    def __repr__(self) -> str:
        raise AssertionError

    def __eq__(self, other: object) -> bool:
        raise AssertionError

    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> Any:
        raise AssertionError


def test_only_arguments_with_another_value_than_the_default_are_named():
    given = {"dynamic": False, "fullgraph": False, "backend": "inductor", "recompile_limit": 4}
    assert describe_arguments(given, DEFAULTS) == ("dynamic=False", "recompile_limit=4")


def test_options_show_their_values_and_functions_by_name():
    options = {"guard_filter_fn": keep_all, "max_autotune": True, "sizes": (1, 2)}
    (text,) = describe_arguments({"options": options}, DEFAULTS)
    assert text == "options={'guard_filter_fn': keep_all, 'max_autotune': True, 'sizes': [1, 2]}"


def test_a_value_runs_no_code_and_is_cut():
    assert describe_arguments({"backend": Hostile()}, DEFAULTS) == ("backend=Hostile",)
    (text,) = describe_arguments({"mode": "x" * 500}, DEFAULTS)
    assert len(text) < LONGEST_VALUE + 10
