"""The function of a script whose call is a step, found by its name in the text."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import pytest

from tcexplore.worker.model_file import STEP_DECORATOR, decorate

SOURCE = """\
import functools
def train(x):
    return x + 1
class Trainer:
    @functools.lru_cache
    def step(self, x):
        return x + 2
    def train(self, x):
        return x + 3
result = train(1), Trainer().step(1), Trainer().train(1)
"""


def run(name: str) -> list[str]:
    """Run the source with a function decorated; return the decorated functions that were called."""
    called: list[str] = []

    def step(function: Callable[..., Any]) -> Callable[..., Any]:
        def observed(*args: Any) -> Any:
            called.append(f"{getattr(function, '__qualname__', function)}")
            return function(*args)

        return observed

    tree = ast.parse(SOURCE)
    decorate(tree, name)
    decorate(tree, name)  # another run of the script
    names: dict[str, Any] = {STEP_DECORATOR: step, "__name__": "__main__"}
    exec(compile(tree, "script.py", "exec"), names)
    assert names["result"] == (2, 3, 4)
    return called


@pytest.mark.parametrize(
    ("name", "called"),
    [("Trainer.step", ["Trainer.step"]), ("Trainer.train", ["Trainer.train"]), ("step", ["Trainer.step"]),
     ("train", ["train"]), ("fit", [])],
)  # fmt: skip
def test_the_named_function_is_decorated(name: str, called: list[str]):
    assert run(name) == called


def test_lines_stay_as_they_are():
    tree = ast.parse(SOURCE)
    decorate(tree, "Trainer.step")
    code = compile(tree, "script.py", "exec")
    (trainer,) = [const for const in code.co_consts if getattr(const, "co_name", "") == "Trainer"]
    lines = {const.co_name: const.co_firstlineno for const in trainer.co_consts if hasattr(const, "co_name")}
    assert lines == {"step": 5, "train": 8}
