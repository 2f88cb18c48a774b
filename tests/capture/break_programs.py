"""Programs that break the graph, one per kind of break, and some that only appear to break it."""

from __future__ import annotations

import contextlib
import random
import zlib
from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor


def prints(x: Tensor):
    y = x.sin()
    print("hello")  # noqa: T201
    return y.cos()


def takes_an_item(x: Tensor):
    y = x.sin()
    value = y.sum().item()
    return y * value


def makes_a_list_of_a_tensor(x: Tensor):
    values = x.sin().tolist()
    return x.cos() + len(values)


def branches_on_a_tensor(x: Tensor):
    y = x.sin()
    if y.sum() > 0:
        return y.cos()
    return y - 1


def loops_on_a_tensor(x: Tensor):
    while x.sum() < 100:
        x = x * 2 + 1
    return x.sin()


def requests_a_break(x: Tensor):
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos()


@torch.compiler.disable
def disabled(x: Tensor):
    return x + 1


def calls_a_disabled_function(x: Tensor):
    y = x.sin()
    y = disabled(y)
    return y.cos()


def calls_a_c_extension(x: Tensor):
    y = x.sin()
    zlib.crc32(b"abc")
    return y.cos()


def opens_a_file(x: Tensor):
    y = x.sin()
    file = open(__file__)  # noqa: SIM115
    file.close()
    return y.cos()


def selects_by_values(x: Tensor):
    return x[x > 0].sum()


def calls_backward(x: Tensor):
    (x * x.new_ones(4, requires_grad=True)).sum().backward()
    return x.cos()


def breaks_in_try(x: Tensor):
    try:
        y = x.sin()
        print("in try")  # noqa: T201
        return y.cos()
    except ValueError:
        return x


@contextlib.contextmanager
def scope() -> Iterator[None]:
    yield


class Scope:
    def __enter__(self) -> Scope:
        return self

    def __exit__(self, *_: object) -> Literal[False]:
        return False


def breaks_in_with(x: Tensor):
    with Scope():
        y = x.sin()
        print("in with")  # noqa: T201
        return y.cos()


def breaks_in_a_loop(x: Tensor):
    for _ in range(3):
        x = x.sin()
        print("in a loop")  # noqa: T201
    return x.cos()


def breaks_at_its_end(x: Tensor):
    y = x * 2
    print("end")  # noqa: T201
    return y


def breaks_twice(x: Tensor):
    y = x.sin()
    print("first")  # noqa: T201
    y = y.cos()
    print("second")  # noqa: T201
    return y.tan()


def breaks_twice_in_a_line(x: Tensor):
    return x.sum().item() + x.mean().item()


def helper(x: Tensor):
    y = x + 1
    print("helper")  # noqa: T201
    return y * 2


def calls_helper(x: Tensor):
    y = x.sin()
    z = helper(y)
    return z.cos()


def calls_helper_twice(x: Tensor):
    y = helper(x.sin())
    z = helper(y.cos())
    return z.sin()


def calls_helper_in_a_loop(x: Tensor):
    for _ in range(3):
        x = helper(x)
    return x.sin()


class TwoMethods(torch.nn.Module):
    def first(self, x: Tensor):
        print("first")  # noqa: T201
        return x + 1

    def second(self, x: Tensor):
        print("second")  # noqa: T201
        return x + 2

    def forward(self, x: Tensor):
        return self.second(self.first(x.sin()))


def appends_to_a_list(x: Tensor):
    rows = []
    for n in range(3):
        rows.append(x + n)  # noqa: PERF401
    return torch.stack(rows)


def catches_its_own_exception(x: Tensor):
    try:
        raise ValueError("mine")
    except ValueError:
        return x.cos()


def generated(x: Tensor):
    for n in range(3):
        yield x + n


def consumes_a_generator(x: Tensor):
    return sum(generated(x.sin())).cos()


def seeds(x: Tensor):
    y = x.sin()
    random.seed(3)
    return y.cos()


def raises(x: Tensor):
    y = x.sin()
    raise ZeroDivisionError("user error")
    return y


def passes_through(x: Tensor):
    return x
