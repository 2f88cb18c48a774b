"""Library functions that Dynamo compiles separately, after a break, belong to the user's line that calls them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.events import GraphCaptured, Kernel
from tests.capture.compiling import captured

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

LIBRARY = """
import torch

def inner(x):
    y = torch.sin(x) * 2
    torch._dynamo.graph_break()
    return torch.cos(y) + 1
"""

MODEL = """
import library

def model(x):
    y = library.inner(x)
    return y * 3
"""


def _imported(path: Path, text: str) -> Any:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None, path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_part_of_the_library_belongs_to_the_line_that_calls_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = _imported(tmp_path / "site-packages" / "library.py", LIBRARY)
    monkeypatch.setitem(sys.modules, "library", library)
    file = tmp_path / "model.py"
    inputs = (torch.randn(8, requires_grad=True),)
    events = captured(_imported(file, MODEL).model, inputs, str(file), train=True, code_only=True)
    kernel_lines = {
        (line.file, line.line, kernel.phase)
        for kernel in events
        if isinstance(kernel, Kernel)
        for line in kernel.source_lines
    }
    assert kernel_lines == {(str(file), line, phase) for line in (5, 6) for phase in ("forward", "backward")}
    assert all(kernel.source_lines for kernel in events if isinstance(kernel, Kernel))
    graphs = [event for event in events if isinstance(event, GraphCaptured)]
    assert [{n.location.line for n in g.nodes if n.location} for g in graphs] == [{5}, {5}, {6}]
