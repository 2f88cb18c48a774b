"""Every statement of a kernel knows its op and its line, and nothing that torch does is changed by finding out."""

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
_MADE_ELSEWHERE = {5.0151}
"""Constants whose line only makes a tensor of them: the statement that uses it is another line's."""


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
    return captured(model, inputs, constants.__file__, train=train, gpu=gpu)


def _kernels(events: list[Event], phase: str) -> list[Kernel]:
    return [e for e in events if isinstance(e, Kernel) and e.language != "extern" and e.phase == phase]


CASES = [(train, gpu) for train in (False, True) for gpu in (False, True)]


@pytest.mark.parametrize(("train", "gpu"), CASES)
def test_each_constant_in_a_kernel_stands_on_the_line_that_has_it(train: bool, gpu: bool) -> None:
    events = _events(train=train, gpu=gpu)
    assert [e for e in events if isinstance(e, FactMissing)] == []
    proven = set()
    for phase in ("forward", "backward") if train else ("forward",):
        for kernel in _kernels(events, phase):
            proven |= {(phase, constant) for constant in _prove(kernel)}
    assert len([p for p in proven if p[0] == "forward"]) >= 20
    assert len([p for p in proven if p[0] == "backward"]) >= (12 if train else 0)


def _prove(kernel: Kernel) -> set[str]:
    """Check the statements with a constant of the model's, and those that use one such; returns the constants."""
    known = {line.n: line for line in kernel.lines}
    holds: dict[str, str] = {}
    found = set()
    for n, text in enumerate(kernel.source.split("\n"), 1):
        if "for(" in text or "def " in text:
            holds = {}
        names = _NAME.findall(text)
        constant = next(
            (c for c in _lines_of_constants() if re.search(rf"(?<![\w.]){re.escape(c)}(?![\w.])", text)), None
        )
        if constant is not None:
            _belongs(kernel, text, known.get(n), constant, alone=True)
            found.add(constant)
            holds.update(dict.fromkeys(names[:1], constant))
            continue
        for name in names[1:]:
            if name in holds and float(holds[name]) not in _MADE_ELSEWHERE:
                _belongs(kernel, text, known.get(n), holds[name], alone=False)
        if names:
            holds.pop(names[0], None)
    return found


def _belongs(kernel: Kernel, text: str, line: KernelLine | None, constant: str, *, alone: bool) -> None:
    found = {place.line for place in line.source} if line else set()
    expected = {_lines_of_constants()[constant]}
    assert found == expected if alone else expected <= found, (kernel.name, text.strip(), found, expected, line)


@pytest.mark.parametrize(("train", "gpu"), CASES)
def test_statements_are_linked(train: bool, gpu: bool) -> None:
    kernels = [k for phase in ("forward", "backward") for k in _kernels(_events(train=train, gpu=gpu), phase)]
    assert {k.language for k in kernels} == {"triton" if gpu else "cpp"}
    assert all(k.source_lines for k in kernels)
    good, bad = (sum(map(len, column)) for column in zip(*map(linked, kernels), strict=True))
    assert good / (good + bad) >= 0.95, [(k.name, sorted(linked(k)[1])) for k in kernels]


def test_code_outputs_and_gradients_are_those_without_hooks() -> None:
    def run() -> tuple[list[str], list[torch.Tensor]]:
        model, inputs = constants.make()
        texts = generated(lambda: compiled(model, inputs, train=True))
        output = torch.compile(model)(*inputs)
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        return texts, [*output, *gradients, loss(output)]

    plain, plain_values = run()
    with watching(constants.__file__) as events:
        hooked, hooked_values = run()
    assert any(isinstance(event, Kernel) and event.lines for event in events)
    assert hooked == plain
    assert len(plain) >= 2
    assert all(torch.equal(a, b) for a, b in zip(plain_values, hooked_values, strict=True))


def test_triton_code_is_that_without_hooks() -> None:
    model, inputs = constants.make()
    plain, hooked = (generated_for_gpu(model, inputs, file, train=True) for file in (None, constants.__file__))
    assert hooked == plain
    assert len(plain) >= 2
    assert all("@triton.jit" in text for text in plain)
    assert not any("tcexplore" in text for text in hooked)


def test_second_hooks_say_that_they_get_no_lines_until_the_first_are_removed() -> None:
    model, inputs = models.pointwise, (torch.ones(8), torch.ones(8))

    def missing(events: list[Event]) -> list[str]:
        return [event.reason for event in events if isinstance(event, FactMissing)]

    with no_gpu.stopping(), watching(models.__file__) as first:
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
