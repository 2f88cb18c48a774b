"""Thirty recompiles, three per cause, with random values."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

FACTOR: Any = 1


def scales(x: Tensor, lr: Any = 1.0):
    y = x.sin()
    return y * lr  # the float


def sums(x: Tensor, rows: Any):
    total = x
    for row in rows:  # the list
        total = total + row
    return total


def uses_global(x: Tensor):
    y = x.cos()
    return y * FACTOR  # the global


def closes_over(cell: Any):
    def closure(x: Tensor) -> Tensor:
        y = x.cos()
        return y + cell[0]  # the closure

    return closure


class Counts(torch.nn.Module):
    def __init__(self, start: int = 0) -> None:
        super().__init__()
        self.calls = start

    def forward(self, x: Tensor):
        self.calls += 1  # the counter
        return x * 2


class Holds(torch.nn.Module):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value

    def forward(self, x: Tensor):
        y = x.tan()
        return y - self.value  # the attribute


@dataclass(frozen=True)
class Case:
    """Two calls of a program, the second of which recompiles, and the expected cause."""

    name: str
    program: Any
    first: tuple[Any, ...]
    second: tuple[Any, ...]
    kind: str
    old: str
    new: str
    function: Callable[..., Any]
    line: str
    """Part of the line of `function` that the recompile names."""
    change: Callable[[], None] = lambda: None
    """Runs between the calls."""
    no_grad: bool = False


def all_cases(seed: int = 0) -> list[Case]:
    rng = random.Random(seed)
    return [case for make in _MAKERS for case in (make(rng), make(rng), make(rng))]


def _two(rng: random.Random, low: int = 2, high: int = 60) -> tuple[int, int]:
    one, other = rng.sample(range(low, high), 2)
    return one, other


def _shape(rng: random.Random) -> Case:
    a, b = _two(rng)
    dim = rng.randrange(2)
    first, second = ((a, 5), (b, 5)) if dim == 0 else ((5, a), (5, b))
    return Case(f"shape {a} {b}", scales, (torch.ones(first),), (torch.ones(second),), "size", str(a), str(b), scales,
                "x.sin()")  # fmt: skip


def _dtype(rng: random.Random) -> Case:
    names = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}
    old, new = rng.sample(sorted(names), 2)
    first, second = torch.ones(4, 4, dtype=names[old]), torch.ones(4, 4, dtype=names[new])
    return Case(f"dtype {old} {new}", scales, (first,), (second,), "dtype", old, new, scales, "x.sin()")


def _stride(rng: random.Random) -> Case:
    a, b = _two(rng)
    second = torch.ones(b, a).t()
    return Case(f"stride {a} {b}", scales, (torch.ones(a, b),), (second,), "stride", str(b), "1", scales, "x.sin()")


def _grad_mode(rng: random.Random) -> Case:
    x = torch.ones(*_two(rng))
    return Case(f"grad mode {tuple(x.shape)}", scales, (x,), (x,), "grad mode", "on", "off", scales, "def scales",
                no_grad=True)  # fmt: skip


def _float(rng: random.Random) -> Case:
    old, new = round(rng.random(), 3), round(1 + rng.random(), 3)
    x = torch.ones(4)
    return Case(f"float {old} {new}", scales, (x, old), (x, new), "float", str(old), str(new), scales, "# the float")


def _counter(rng: random.Random) -> Case:
    start = rng.randrange(100)
    x = torch.ones(4)
    return Case(f"counter {start}", Counts(start), (x,), (x,), "int", str(start), str(start + 1), Counts.forward,
                "# the counter")  # fmt: skip


def _length(rng: random.Random) -> Case:
    a, b = _two(rng, 1, 9)
    rows = [[torch.ones(4) * n for n in range(count)] for count in (a, b)]
    return Case(f"list {a} {b}", sums, (torch.ones(4), rows[0]), (torch.ones(4), rows[1]), "length", str(a), str(b),
                sums, "# the list")  # fmt: skip


def _attribute(rng: random.Random) -> Case:
    a, b = _two(rng)
    model = Holds(a)
    x = torch.ones(4)
    return Case(f"attribute {a} {b}", model, (x,), (x,), "int", str(a), str(b), Holds.forward, "# the attribute",
                change=lambda: setattr(model, "value", b))  # fmt: skip


def _global(rng: random.Random) -> Case:
    a, b = _two(rng)
    x = torch.ones(4)
    return Case(f"global {a} {b}", uses_global, (x,), (x,), "int", str(a), str(b), uses_global, "# the global",
                change=lambda: globals().update(FACTOR=b))  # fmt: skip


def _closure(rng: random.Random) -> Case:
    a, b = _two(rng)
    cell = [a]
    program = closes_over(cell)
    x = torch.ones(4)
    return Case(f"closure {a} {b}", program, (x,), (x,), "int", str(a), str(b), program, "# the closure",
                change=lambda: cell.__setitem__(0, b))  # fmt: skip


_MAKERS = (_shape, _dtype, _stride, _grad_mode, _float, _counter, _length, _attribute, _global, _closure)
