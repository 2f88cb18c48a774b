"""Ownership of files, and adoption of the library that defines the model."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Iterator
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


def stack_of(function: Callable[[int], object]) -> traceback.StackSummary:
    try:
        function(1)
    except ValueError as error:
        return traceback.extract_tb(error.__traceback__)
    raise AssertionError("nothing was raised")


def test_an_adopted_library_counts_as_user_code(library: Path) -> None:
    import lib.model  # type: ignore[import-not-found]

    user_files = UserFiles(__file__)
    stack = stack_of(lib.model.forward)
    assert [frame.line for frame in user_files.frames(stack)] == [stack[0].lineno]
    user_files.adopt(lib.model.forward)
    assert [frame.line for frame in user_files.frames(stack)] == [stack[0].lineno, 2, 6]
    assert user_files.frames(stack)[-1].file == str(library / "model.py")


def test_sources_are_the_files_of_locations(library: Path) -> None:
    import lib.model

    user_files = UserFiles(__file__)
    user_files.adopt(lib.model.forward)
    user_files.frames(stack_of(lib.model.forward))
    assert user_files.sources() == ((str(library / "model.py"), LIBRARY),)


def test_an_adopted_library_is_not_among_imported_files(library: Path) -> None:
    import lib.model

    before = {name for name in sys.modules if name.split(".")[0] != "lib"}
    user_files = UserFiles(str(library.parent.parent / "own.py"))
    user_files.adopt(lib.model.forward)
    assert user_files.owns(lib.model.__file__)
    assert user_files.imported(since=before) == ()


@pytest.mark.parametrize("function", [nn.Linear.forward, torch.nn.functional.gelu, json.dumps, len, pytest.main])
def test_torch_python_and_builtins_are_never_adopted(function: object) -> None:
    user_files = UserFiles(__file__)
    user_files.adopt(function)
    assert not user_files.owns(torch.nn.modules.linear.__file__ or "")
    assert not user_files.owns(json.__file__)


def test_a_user_function_adopts_no_library() -> None:
    user_files = UserFiles(__file__)
    user_files.adopt(stack_of)
    assert not user_files.owns(pytest.__file__)


@pytest.mark.usefixtures("library")
def test_a_stack_without_the_user_has_the_frames_of_libraries() -> None:
    import lib.model

    user_files = UserFiles(__file__)
    stack = stack_of(lib.model.forward)
    assert [frame.line for frame in user_files.frames(stack, libraries=True)] == [stack[0].lineno]
    inside = [frame for frame in stack if frame.filename != __file__]
    assert [frame.line for frame in user_files.frames(inside, libraries=True)] == [2, 6]
    assert user_files.frames(inside) == ()
    assert not user_files.owns(lib.model.__file__)
    torch_frame = traceback.FrameSummary(nn.modules.linear.__file__ or "", 125, "forward")
    assert user_files.frames([torch_frame], libraries=True) == ()
