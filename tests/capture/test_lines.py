"""Statements of a kernel have the right op and line, and the hooks do not change torch's results."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.events import Event, FactMissing, Kernel, KernelLine
from tests.capture import constants
from tests.capture.by_hand import models
from tests.capture.compiling import captured, compiled, generated, generated_for_gpu, loss, no_gpu, watching
from tests.capture.statements import linked

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

_NAME = re.compile(r"\b_?tmp\w*\b")
_USED_ELSEWHERE = {5.0151}
"""Constants whose line only makes a tensor: the statement that uses it belongs to another line."""


@cache
def _lines_of_constants() -> dict[str, int]:
    tree = ast.parse(Path(constants.__file__).read_text())
    forward = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "forward")
    floats = [n for n in ast.walk(forward) if isinstance(n, ast.Constant) and isinstance(n.value, float)]
    assert len({n.value for n in floats}) == len(floats)
    return {repr(n.value): n.lineno for n in floats}


@cache
def _events(*, train: bool, gpu: bool) -> list[Event]:
    model, inputs = constants.make()
    return captured(model, inputs, constants.__file__, train=train, gpu=gpu, code_only=True)


def _kernels(events: list[Event], phase: str) -> list[Kernel]:
    return [e for e in events if isinstance(e, Kernel) and e.language != "extern" and e.phase == phase]


CASES = [(train, gpu) for train in (False, True) for gpu in (False, True)]


@pytest.mark.parametrize(("train", "gpu"), CASES)
def test_each_constant_belongs_to_the_line_that_contains_it(train: bool, gpu: bool) -> None:
    events = _events(train=train, gpu=gpu)
    assert [e for e in events if isinstance(e, FactMissing)] == []
    checked = set()
    for phase in ("forward", "backward") if train else ("forward",):
        for kernel in _kernels(events, phase):
            checked |= {(phase, constant) for constant in _check_constants(kernel)}
    assert len([p for p in checked if p[0] == "forward"]) >= 20
    assert len([p for p in checked if p[0] == "backward"]) >= (12 if train else 0)


def _check_constants(kernel: Kernel) -> set[str]:
    """Check the statements that contain or use a constant of the model, and return these constants."""
    lines = {line.n: line for line in kernel.lines}
    holds: dict[str, str] = {}
    constants_checked = set()
    for n, text in enumerate(kernel.source.split("\n"), 1):
        if "for(" in text or "def " in text:
            holds = {}
        names = _NAME.findall(text)
        constant = next(
            (c for c in _lines_of_constants() if re.search(rf"(?<![\w.]){re.escape(c)}(?![\w.])", text)), None
        )
        if constant is not None:
            _check_line(kernel, text, lines.get(n), constant, alone=True)
            constants_checked.add(constant)
            holds.update(dict.fromkeys(names[:1], constant))
            continue
        for name in names[1:]:
            if name in holds and float(holds[name]) not in _USED_ELSEWHERE:
                _check_line(kernel, text, lines.get(n), holds[name], alone=False)
        if names:
            holds.pop(names[0], None)
    return constants_checked


def _check_line(kernel: Kernel, text: str, line: KernelLine | None, constant: str, *, alone: bool) -> None:
    linked_lines = {place.line for place in line.source} if line else set()
    expected = {_lines_of_constants()[constant]}
    assert linked_lines == expected if alone else expected <= linked_lines, (kernel.name, text.strip(), line, expected)


@pytest.mark.parametrize(("train", "gpu"), CASES)
def test_nearly_all_statements_are_linked(train: bool, gpu: bool) -> None:
    kernels = [k for phase in ("forward", "backward") for k in _kernels(_events(train=train, gpu=gpu), phase)]
    assert {k.language for k in kernels} == {"triton" if gpu else "cpp"}
    assert all(k.source_lines for k in kernels)
    good, bad = (sum(map(len, column)) for column in zip(*map(linked, kernels), strict=True))
    assert good / (good + bad) >= 0.95, [(k.name, sorted(linked(k)[1])) for k in kernels]


def test_code_outputs_and_gradients_are_the_same_without_hooks() -> None:
    def run() -> tuple[list[str], list[torch.Tensor]]:
        model, inputs = constants.make()
        output: list[torch.Tensor] = []
        texts = generated(lambda: output.extend(compiled(model, inputs, train=True)))
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        return texts, [*output, *gradients, loss(output)]

    plain, plain_values = run()
    with watching(constants.__file__) as events:
        hooked, hooked_values = run()
    assert any(isinstance(event, Kernel) and event.lines for event in events)
    assert hooked == plain
    assert len(plain) >= 2
    assert all(torch.equal(a, b) for a, b in zip(plain_values, hooked_values, strict=True))


def test_triton_code_is_the_same_without_hooks() -> None:
    model, inputs = constants.make()
    plain, hooked = (generated_for_gpu(model, inputs, file, train=True) for file in (None, constants.__file__))
    assert hooked == plain
    assert len(plain) >= 2
    assert all("@triton.jit" in text for text in plain)
    assert not any("tcexplore" in text for text in hooked)


def test_second_hooks_report_missing_lines_until_the_first_are_removed() -> None:
    model, inputs = models.pointwise, (torch.ones(8), torch.ones(8))

    def missing(events: list[Event]) -> list[str]:
        return [event.reason for event in events if isinstance(event, FactMissing)]

    with no_gpu.stop_after_codegen(), watching(models.__file__) as first:
        with watching(models.__file__) as second:
            compiled(model, inputs, gpu=True)
        compiled(model, inputs, gpu=True)
    assert missing(first) == []
    assert [bool(kernel.lines) for kernel in _kernels(first, "forward")] == [True, True]
    assert [bool(kernel.lines) for kernel in _kernels(second, "forward")] == [False]
    assert len(missing(second)) == 1
    assert "removed" in missing(second)[0]
    third = captured(model, inputs, models.__file__, gpu=True)
    assert missing(third) == []
    assert [bool(kernel.lines) for kernel in _kernels(third, "forward")] == [True]
