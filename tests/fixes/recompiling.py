"""Small model files that recompile, for the changes that might avoid it."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent


def _file(body: str, inputs: str) -> str:
    return f"import torch\n\n\n{dedent(body).strip()}\n\n\ninputs = [{inputs}]\n"


def _function(signature: str, result: str, inputs: str) -> str:
    return _file(f"def model({signature}):\n    return {result}", inputs)


def _module(state: str, forward: str, inputs: str, signature: str = "x") -> str:
    lines = "\n".join(f"        {line}" for line in forward.split("; "))
    created = "\n".join(f"        {line}" for line in state.split("; "))
    return _file(
        f"class Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n{created}\n\n"
        f"    def forward(self, {signature}):\n{lines}\n\n\nmodel = Net()",
        inputs,
    )


def _calls(template: str, *values: tuple[object, ...]) -> str:
    return ", ".join(template.format(*each) for each in values)


def _sized(shape: str, *sizes: int) -> str:
    return ", ".join(f"(torch.randn({shape.format(n=n)}),)" for n in sizes)


ROWS = _sized("{n}, 8", 4, 5, 6)
SAME = "(torch.randn(4, 8),), (torch.randn(4, 8),), (torch.randn(4, 8),), (torch.randn(4, 8),)"

MASKED, TWO = "(torch.randn({0}, 8), torch.ones({0}))", "(torch.randn({}, 8), torch.randn({}, 8))"
FLOATS = "(torch.randn(4), {}, {})"
INTS = "(torch.randn(4), 3), (torch.randn(4), 4), (torch.randn(4), 5)"

PROGRAMS: Mapping[str, str] = {
    "rows": _function("x", "x.sin()", ROWS),
    "columns": _function("x", "x.sin()", _sized("8, {n}", 4, 5, 6)),
    "rows and columns": _function("x", "x.sin()", _sized("{n}, {n} + 3", 4, 5, 6)),
    "rows and columns apart": _function("x", "x.sin()", _calls("(torch.randn({}, {}),)", (4, 8), (5, 8), (5, 9))),
    "square": _function("x", "x @ x", _sized("{n}, {n}", 4, 5, 6)),
    "two equal sizes": _function("x, y", "x + y", _calls(TWO, (4, 4), (5, 5), (6, 6))),
    "mask": _function("x, mask", "x * mask.unsqueeze(-1)", _calls(MASKED, (4,), (5,), (6,))),
    "two free sizes": _function("x, y", "x.sum() + y.sum()", _calls(TWO, (4, 7), (5, 7), (5, 9))),
    "size one": _function("x", "x.sin()", _sized("{n}, 8", 4, 5, 1)),
    "starts at one": _function("x", "x.sin()", _sized("{n}, 8", 1, 2, 3)),
    "float": _function("x, lr", "x * lr", ", ".join(f"(torch.randn(4), {lr})" for lr in (0.1, 0.2, 0.3))),
    "float and rows": _function("x, lr", "x * lr", _calls("(torch.randn({}, 8), {})", (4, 0.1), (5, 0.2), (6, 0.3))),
    "two floats": _function("x, a, b", "x * a + b", _calls(FLOATS, (0.1, 1.5), (0.2, 1.5), (0.2, 2.5))),
    "int": _function("x, n", "x * n", INTS),
    "int that branches": _function("x, n", "x * 2 if n > 4 else x.cos()", INTS),
    "condition on a size": _function("x", "x * 2 if x.shape[0] > 5 else x.cos()", _sized("{n}, 8", 4, 5, 6, 7)),
    "specialized size": _function("x", "x.view(2, -1) if x.shape[0] == 6 else x", _sized("{n}, 8", 4, 5, 6)),
    "dtype": _function("x", "x.sin()", "(torch.randn(4),), (torch.randn(4).double(),)"),
    "dtype and rows": _function("x", "x.sin()", f"{ROWS}, (torch.randn(5, 8).double(),)"),
    "string": _function("x, how", "x.sin() if how == 'a' else x.cos()", "(torch.randn(4), 'a'), (torch.randn(4), 'b')"),
    "strides": _function("x", "x.sin()", "(torch.randn(4, 6),), (torch.randn(6, 4).t(),)"),
    "counter": _module("self.step = 0", "self.step += 1; return x * self.step", SAME),
    "counter and rows": _module("self.step = 0", "self.step += 1; return x * self.step", _sized("{n}, 8", 4, 5, 6, 7)),
    "counter that branches": _module(
        "self.step = 0", "self.step += 1; return x * 2 if self.step > 2 else x.cos()", SAME
    ),
    "float attribute": _module("self.decay = 1.0", "self.decay *= 0.5; return x * self.decay", SAME),
    "float attribute and rows": _module(
        "self.decay = 1.0", "self.decay *= 0.5; return x * self.decay", _sized("{n}, 8", 4, 5, 6, 7)
    ),
    "attribute as a range": _module("self.n = 0", "self.n += 1; return sum((x * i for i in range(self.n)), x)", SAME),
    "counter and float": _module(
        "self.step = 0", "self.step += 1; return x * self.step * lr",
        ", ".join(f"(torch.randn(4, 8), {lr})" for lr in (0.1, 0.2, 0.3, 0.4)), "x, lr",
    ),
    "nested attribute": _file(
        """
        class Inner(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.seen = 0

            def forward(self, x):
                self.seen += 1
                return x + self.seen


        class Outer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner()

            def forward(self, x):
                return self.inner(x).sin()


        model = Outer()
        """,
        SAME,
    ),
    "attribute of a layer in a container": _file(
        """
        class Counts(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.seen = 0

            def forward(self, x):
                self.seen += 1
                return x + self.seen


        model = torch.nn.Sequential(torch.nn.Linear(8, 8), Counts())
        """,
        SAME,
    ),
    "after a break": _file(
        """
        def model(x):
            y = x.sin()
            torch._dynamo.graph_break()
            return y.cos()
        """,
        ROWS,
    ),
    "linear": _module("self.l = torch.nn.Linear(8, 8)", "return self.l(x).relu()", _sized("{n}, 8", 4, 5, 6)),
    "attention mask": _module(
        "self.l = torch.nn.Linear(8, 8)", "return self.l(x) * mask.unsqueeze(-1) + ids.unsqueeze(-1)",
        ", ".join(f"(torch.randn(2, {n}, 8), torch.ones(2, {n}), torch.arange({n}).expand(2, {n}))" for n in (4, 5, 6)),
        "x, mask, ids",
    ),
    "default": _function("x, scale=1.0", "x * scale", _sized("{n}", 4, 5, 6)),
}  # fmt: skip
