"""Whose a file is, and how the library that a model comes from joins the user's own."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from tcexplore.capture.user_files import UserFiles

LIBRARY = "def forward(x):\n    return helper(x)\n\n\ndef helper(x):\n    raise ValueError\n"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package `lib` with one function, on the path."""
    package = tmp_path / "site-packages" / "lib"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "model.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(package.parent))
    yield package
    for name in [name for name in sys.modules if name.split(".")[0] == "lib"]:
        del sys.modules[name]


def stack_of(function: object) -> traceback.StackSummary:
    try:
        function(1)  # type: ignore[operator]
    except ValueError as error:
        return traceback.extract_tb(error.__traceback__)
    raise AssertionError("nothing was raised")


def test_a_library_is_not_the_persons_until_its_model_is_the_entry(library: Path) -> None:
    import lib.model  # type: ignore[import-not-found]

    project = UserFiles(__file__)
    here = stack_of(lib.model.forward)
    assert [frame.line for frame in project.frames(here)] == [here[0].lineno]
    project.adopt(lib.model.forward)
    assert [frame.line for frame in project.frames(here)] == [here[0].lineno, 2, 6]
    assert project.frames(here)[-1].file == str(library / "model.py")


def test_what_places_point_into_is_said_with_its_text(library: Path) -> None:
    import lib.model

    project = UserFiles(__file__)
    project.adopt(lib.model.forward)
    project.frames(stack_of(lib.model.forward))
    assert project.sources() == ((str(library / "model.py"), LIBRARY),)


def test_an_adopted_library_is_not_watched(library: Path) -> None:
    import lib.model

    before = {name for name in sys.modules if name.split(".")[0] != "lib"}
    project = UserFiles(str(library.parent.parent / "own.py"))
    project.adopt(lib.model.forward)
    assert project.owns(lib.model.__file__)
    assert project.imported(since=before) == ()


@pytest.mark.parametrize("function", [nn.Linear.forward, torch.nn.functional.gelu, json.dumps, len, pytest.main])
def test_torch_python_and_builtins_are_nobodys_own(function: object) -> None:
    project = UserFiles(__file__)
    project.adopt(function)
    assert not project.owns(torch.nn.modules.linear.__file__ or "")
    assert not project.owns(json.__file__)


def test_the_persons_own_function_adopts_nothing() -> None:
    project = UserFiles(__file__)
    project.adopt(stack_of)
    assert not project.owns(pytest.__file__)
