"""The text of arguments of `torch.compile`."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from tcexplore.capture.compile_overrides import LONGEST_VALUE, CompileOverrides, describe_arguments, parse_argument
from tcexplore.capture.entry import EntryError
from tcexplore.capture.hooks import Hooks
from tcexplore.events import Config

SHAPES = tuple(
    name for name in ("shapes_spec", "dynamic_shapes") if name in inspect.signature(torch.compile).parameters
)
"""The argument for specifications of shapes that this torch has."""

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


def test_text_becomes_the_value_of_an_argument():
    known = ("dynamic", "name", "recompile_limit", "options")
    assert parse_argument("recompile_limit=4", known) == ("recompile_limit", 4)
    assert parse_argument("options={'max_autotune': True}", known) == ("options", {"max_autotune": True})
    assert parse_argument("name=block", known) == parse_argument("name='block'", known) == ("name", "block")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recompile_limt=4", "no argument 'recompile_limt'"),
        ("recompile_limit=four", "not a Python literal"),
        ("shapes_spec={'x': ['batch']}", "no argument 'shapes_spec'"),
    ],
)
def test_an_invalid_argument_is_an_error_of_the_arguments(text: str, message: str):
    with pytest.raises(EntryError, match=message) as raised:
        parse_argument(text, ("name", "recompile_limit"))
    assert raised.value.stage == "arguments"
    assert raised.value.hint


@pytest.mark.skipif(not SHAPES, reason="this torch has no specification of shapes")
def test_a_specification_of_shapes_is_read_from_text():
    name, spec = parse_argument(
        "shapes_spec={'x': ['batch', None], 'y': TensorSpec([ShapeVar('batch') * 2, 8])}", SHAPES
    )
    assert (name,) == SHAPES
    batch, static = spec["x"]
    assert (type(batch).__name__, static) == ("ShapeVar", None)
    assert str(batch * 2) == str(spec["y"][0]), "a name is one variable"
    number = parse_argument("dynamic_shapes={'n': 'count'}", SHAPES)[1]["n"]
    assert (type(number).__name__, number.name) == ("IntVar", "count")
    assert parse_argument(f"{name}={{'*args': [['n']]}}", SHAPES)[1]["*args"][0][0].name == "n"
    for value in ("{'x': ['b']", "{'x': TensorSpec(['b'])}", "__import__('os')", "{'x': (1).real}", "max(1)"):
        with pytest.raises(EntryError):
            parse_argument(f"shapes_spec={value}", SHAPES)


def test_a_value_runs_no_code_and_is_cut():
    assert describe_arguments({"backend": Hostile()}, DEFAULTS) == ("backend=Hostile",)
    (text,) = describe_arguments({"mode": "x" * 500}, DEFAULTS)
    assert len(text) < LONGEST_VALUE + 10


def test_another_configuration_takes_over(monkeypatch: pytest.MonkeyPatch):
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(torch, "compile", lambda _, **arguments: calls.append(arguments))
    hooks, overrides = Hooks(lambda _: None), CompileOverrides(Config(mode="max-autotune", override=("mode",)))
    overrides.install(hooks)
    torch.compile(torch.sin)
    overrides.use(Config())
    torch.compile(torch.sin)
    hooks.remove()
    assert calls == [{"mode": "max-autotune"}, {}], "the file before a change keeps its own arguments"
