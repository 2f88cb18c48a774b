"""Model files whose obvious fix is wrong, and such whose fix is right although it looks like those.

`others` are inputs for which a wrong fix gives another result, outside what the program's own inputs show.
"""

from __future__ import annotations

from textwrap import dedent

HEAD = """\
import itertools
import logging
import random

import torch

log = logging.getLogger(__name__)


"""
TAIL = """

inputs = (torch.randn(8, 8),)
others = [(-torch.randn(8, 8).abs(),), (torch.randn(8, 8).abs(),), (torch.zeros(8, 8),), (torch.ones(8, 8) * 50,)]
"""


def _program(body: str) -> str:
    text = HEAD + dedent(body).strip("\n") + "\n"
    return text if "\ninputs = " in text else text + TAIL


def _module(init: str, forward: str) -> str:
    def block(lines: str) -> str:
        return "\n".join(f"        {line}" for line in dedent(lines).strip("\n").splitlines())

    return (
        "class Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"{block(init)}\n\n    def forward(self, x):\n{block(forward)}\n\n\nmodel = Model()\n"
    )


WRONG = {
    "batch norm in a branch": _module(
        "self.norm = torch.nn.BatchNorm1d(8)",
        """
        y = x.sin()
        if y.sum() > 100:
            return self.norm(y)
        return y
        """,
    ),
    "batch norm in a branch that is taken": _module(
        "self.norm = torch.nn.BatchNorm1d(8)\nself.other = torch.nn.BatchNorm1d(8)",
        """
        if x.sum() > 0:
            return self.norm(x)
        return self.other(x)
        """,
    ),
    "branch that no input reaches": """
        def model(x):
            if x.tanh().sum() > 1e5:
                return x * 2
            return x * 3
    """,
    "where broadcasts": """
        def model(x):
            if x.sum() > 0:
                y = x[:1]
            else:
                y = x
            return y * 2
    """,
    "where broadcasts in the other branch": """
        def model(x):
            y = x.mean(0, keepdim=True)
            if x.sum() > 1e3:
                y = x
            return y.cos()
    """,
    "where changes the dtype": """
        def model(x):
            if x.sum() > 0:
                y = x.double()
            else:
                y = x
            return y * 2
    """,
    "where changes an integer": """
        def model(x):
            n = torch.ones((), dtype=torch.int64)
            if x.sum() > 0:
                n = x.mean()
            return x * 2, n
    """,
    "integer division by zero": """
        def model(x):
            n = (x > 0).sum()
            if n > 0:
                return x.long() // n
            return x.long()
    """,
    "gradient of a root": """
        def model(x):
            if x.min() > 0:
                return x.sqrt()
            return x * 0.5
    """,
    "gradient of a division": """
        def model(x):
            s = x.abs().sum()
            if s > 0:
                return x / s
            return x * 1.0
    """,
    "gradient of a logarithm": """
        def model(x):
            y = x - x.min()
            if y.min() > 1:
                y = y.log()
            return y
    """,
    "index out of bounds": """
        table = torch.arange(4.0)


        def model(x):
            n = (x > 0).sum()
            if n < 4:
                return table[n.view(1)] + x
            return x * 1.0


        inputs = (-torch.ones(8, 8),)
        others = [(torch.ones(8, 8),)]
    """,
    "index out of bounds with select": """
        table = torch.arange(4.0)


        def model(x):
            n = (x > 0).sum().view(1)
            if n.sum() < 4:
                y = table.index_select(0, n)
            else:
                y = x.sum().view(1)
            return y * 2


        inputs = (-torch.ones(8, 8),)
        others = [(torch.ones(8, 8),)]
    """,
    "matrix that is singular": """
        def model(x):
            if torch.linalg.det(x).abs() > 1e-3:
                return torch.linalg.inv(x)
            return x * 1.0


        inputs = (torch.eye(4),)
        others = [(torch.zeros(4, 4),)]
    """,
    "counter in a print": """
        counter = itertools.count()


        def model(x):
            y = x.sin()
            print("call", next(counter))
            return y.cos()
    """,
    "state in the argument of a print": """
        calls = {"n": 0}


        def step():
            calls["n"] += 1
            return calls["n"]


        def model(x):
            y = x.sin()
            print("call", step())
            return y.cos() * calls["n"]
    """,
    "counter of a module in a log call": _module(
        "self.calls = 0",
        """
        y = x.sin()
        log.info("call %d", self.step())
        return y.cos()
        """,
    ).replace("\n\n\nmodel", "\n\n    def step(self):\n        self.calls += 1\n        return self.calls\n\n\nmodel"),
    "list that a print fills": """
        seen = []


        def model(x):
            y = x.sin()
            print("call", seen.append(1))
            return y.cos()
    """,
    "random number in a print": """
        def model(x):
            y = x.sin()
            print("noise", torch.rand(()))
            return y + torch.rand(())
    """,
    "in-place change in a print": """
        def model(x):
            y = x.sin()
            print("doubled", y.mul_(2).shape)
            return y.cos()
    """,
    "dropout in a branch": _module(
        "self.drop = torch.nn.Dropout(0.5)",
        """
        if x.sum() > 1e3:
            return self.drop(x)
        return x * 1.0
        """,
    ),
    "module that counts in a branch": """
        class Counted(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(8, 8)
                self.calls = 0

            def forward(self, x):
                self.calls += 1
                return self.layer(x)


        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.left = Counted()
                self.right = Counted()

            def forward(self, x):
                if x.sum() > 0:
                    return self.left(x)
                return self.right(x)


        model = Model()
    """,
    "buffer written in a branch": """
        class Counted(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(8, 8)
                self.register_buffer("calls", torch.zeros(()))

            def forward(self, x):
                self.calls += 1
                return self.layer(x)


        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.left = Counted()
                self.right = torch.nn.Linear(8, 8)

            def forward(self, x):
                if x.sum() > 0:
                    return self.left(x)
                return self.right(x)


        model = Model()
    """,
    "alias that is written to": """
        def model(x):
            y = x.sin()
            z = y.cos()
            if y.sum() > 0:
                z = y
            z.mul_(2)
            return y + z
    """,
    "view that is written to": """
        def model(x):
            y = x.sin()
            if y.sum() > 0:
                part = y[0]
            else:
                part = y[1]
            part.add_(1)
            return y
    """,
    "random seed of a branch": """
        def model(x):
            y = x.sin()
            if random.random() < 0.5:
                y = y * 2
            return y
    """,
    "disabled for its state": """
        state = {"last": None}


        @torch.compiler.disable
        def remember(x):
            state["last"] = float(x.sum())
            return x


        def model(x):
            return remember(x.sin()).cos()
    """,
    "clock that is returned": """
        import time


        def model(x):
            started = time.perf_counter()
            return x.sin(), started
    """,
    "number that is returned": """
        def model(x):
            n = x.abs().max().item()
            return x / n, n
    """,
    "number that is returned from a branch": """
        def model(x):
            n = 1.0 if x.sum() > 0 else 2.0
            return x * n, n
    """,
    "list that is returned": """
        def model(x):
            return x * 2, x.sum(1).tolist()
    """,
    "number of doubles": """
        def model(x):
            n = float((x.double() * 1e-9).sum()) * 1e9
            return torch.full((2,), n, dtype=torch.float64) + x.double().sum() * 1e8
    """,
    "branch after some calls": _module(
        "self.register_buffer('calls', torch.zeros(()))",
        """
        self.calls += 1
        if self.calls > 1000:
            return x * self.calls
        return x / (self.calls - 1)
        """,
    ),
    "loop that changes a shape": """
        def model(x):
            while x.sum() < 1e4:
                x = torch.cat([x, x * 4])
            return x
    """,
    "loop that changes a dtype": """
        def model(x):
            y = x.abs().half()
            while y.sum() < 1e3:
                y = y.float() * 2
            return y
    """,
    "check that stops": """
        def model(x):
            y = x.sin()
            if y.isnan().any():
                raise ValueError(y)
            if y.sum() > 1e6:
                y = x[0]
            return y
    """,
    "deep copy with a gradient": """
        import copy


        def model(x):
            y = x.sin()
            z = copy.deepcopy(x)
            z.mul_(2)
            return y + z
    """,
    "data shared with an input": """
        def model(x):
            y = x.sin()
            z = x.view(-1)
            z.data = y.flatten() * 2
            return x + 1, z
    """,
    "numpy that rounds": """
        import numpy as np


        def model(x):
            n = np.sum(x.numpy().astype(np.float64))
            return x.double() * float(n)
    """,
    "file that is written": """
        import os


        def model(x):
            y = x.sin()
            os.environ["TCEXPLORE_CALLS"] = str(int(os.environ.get("TCEXPLORE_CALLS", "0")) + 1)
            return y.cos() * int(os.environ["TCEXPLORE_CALLS"])
    """,
    "gradient with a buffer that the call changes, which torch computes from the changed one": _module(
        "self.register_buffer('calls', torch.zeros(()))",
        """
        self.calls += 1
        y = x.sin()
        print("mean")
        return y * self.calls
        """,
    ),
    "class attribute counted in a log call": """
        class Counter:
            calls = 0

            @classmethod
            def step(cls):
                cls.calls += 1
                return cls.calls


        def probe():
            return Counter.calls


        def model(x):
            y = x.sin()
            log.info("call %d", Counter.step())
            return y.cos()
    """,
    "object with slots counted in a log call": """
        class Counter:
            __slots__ = ("calls",)

            def step(self):
                self.calls = getattr(self, "calls", 0) + 1
                return self.calls


        counted = Counter()


        def probe():
            return getattr(counted, "calls", 0)


        def model(x):
            y = x.sin()
            log.info("call %d", counted.step())
            return y.cos()
    """,
    "function attribute counted in a log call": """
        def step():
            step.calls += 1
            return step.calls


        step.calls = 0


        def probe():
            return step.calls


        def model(x):
            y = x.sin()
            log.info("call %d", step())
            return y.cos()
    """,
    "closure counted in a log call": """
        def counter_pair():
            calls = 0

            def step():
                nonlocal calls
                calls += 1
                return calls

            return step, lambda: calls


        step, probe = counter_pair()


        def model(x):
            y = x.sin()
            log.info("call %d", step())
            return y.cos()
    """,
    "array written in a log call": """
        import numpy as np

        history = np.zeros(4)


        def probe():
            return history.tolist()


        def model(x):
            y = x.sin()
            log.info("call %s", np.add(history, 1, out=history))
            return y.cos()
    """,
    "stream that a print writes to": """
        import io

        stream = io.StringIO()


        def probe():
            return len(stream.getvalue())


        def model(x):
            y = x.sin()
            print("call", file=stream)
            return y.cos()
    """,
    "generator of torch in a log call": """
        generator = torch.Generator()


        def probe():
            return generator.get_state().tolist()


        def model(x):
            y = x.sin()
            log.info("noise %s", torch.rand((), generator=generator))
            return y.cos()
    """,
    "generator of numpy in a log call": """
        import numpy as np

        generator = np.random.default_rng(0)


        def probe():
            return str(generator.bit_generator.state)


        def model(x):
            y = x.sin()
            log.info("noise %s", generator.random())
            return y.cos()
    """,
    "iterator advanced in a log call": """
        numbers = iter(range(1000))


        def probe():
            return numbers.__reduce__()


        def model(x):
            y = x.sin()
            log.info("number %d", next(numbers))
            return y.cos()
    """,
    "division by a number that is zero": """
        def model(x):
            return x * (1.0 / x.abs().max().item())
    """,
    "number that is truncated": """
        def model(x):
            n = int(x.abs().sum())
            return x * n
    """,
    "random numbers in a branch": """
        def model(x):
            y = x.sin()
            if y.sum() > 0:
                y = y + torch.rand_like(y)
            return y.cos()
    """,
    "in-place change in a branch": """
        def model(x):
            y = x.sin()
            z = y
            if y.sum() > 0:
                y = y.mul_(2)
            return y.cos() + z
    """,
    "in-place change in a condition": """
        def model(x):
            y = x.sin()
            if y.add_(1).sum() > 64:
                y = y * 2
            return y.cos()
    """,
    "short circuit that prevents a division": """
        def model(x):
            n = (x > 0).sum()
            y = x.sin()
            if n > 0 and (x.numel() // n) > 1:
                y = y * 2
            return y
    """,
    "comparison of what is not a number": """
        def model(x):
            y = x.sin()
            if not x.max() > 0:
                y = x.log()
            return y * 2
    """,
    "maximum as a number in a condition": """
        def model(x):
            n = x.max().item()
            return x * 2 if n == n else x * 3
    """,
}
"""Programs for which at least one fix is proposed, or might be, that changes the behavior."""

RIGHT = {
    "two reached branches": """
        def model(x):
            y = x.sin()
            if y.sum() > 0:
                y = y * 2
            else:
                y = y - 1
            return y.cos()
    """,
    "norm in evaluation": _module(
        "self.left = torch.nn.LayerNorm(8)\nself.right = torch.nn.Linear(8, 8)",
        """
        if x.sum() > 0:
            return self.left(x)
        return self.right(x)
        """,
    ),
    "branch that is reached for large inputs": """
        def model(x):
            if x.abs().max() > 50:
                x = x / 50
            return x.sin()
    """,
    "branch for what is not a number": """
        def model(x):
            y = x.sin()
            if torch.isnan(y).any():
                y = torch.nan_to_num(y)
            return y.cos()
    """,
    "branch on a weight": _module(
        "self.gate = torch.nn.Parameter(torch.ones(()))",
        """
        if self.gate > 0:
            return x * self.gate
        return x - self.gate
        """,
    ),
    "state beside a break": _module(
        "self.register_buffer('calls', torch.zeros(()))",
        """
        self.calls += 1
        y = x.sin()
        print("mean")
        return y + self.calls
        """,
    ),
    "batch norm beside a break": _module(
        "self.norm = torch.nn.BatchNorm1d(8)",
        """
        y = self.norm(x)
        print("mean")
        return y.cos()
        """,
    ),
    "dropout beside a break": _module(
        "self.drop = torch.nn.Dropout(0.5)",
        """
        y = self.drop(x)
        torch._dynamo.graph_break()
        return y.cos()
        """,
    ),
    "random numbers beside a break": """
        def model(x):
            y = x + torch.rand_like(x)
            torch._dynamo.graph_break()
            return y.cos()
    """,
    "in-place change beside a break": """
        def model(x):
            x.add_(1)
            print("done")
            return x.cos()
    """,
    "scale": """
        def model(x):
            return x / x.abs().max().item()
    """,
    "attribute beside a break": _module(
        "self.calls = 0",
        """
        self.calls += 1
        torch._dynamo.graph_break()
        return x * 2
        """,
    ),
    "clamped division": """
        def model(x):
            s = x.abs().sum()
            y = x.sin()
            if s > 10:
                y = y / (s + 1)
            return y
    """,
    "check with a message": """
        def model(x):
            y = x.sin()
            if y.isnan().any():
                raise ValueError("not a number")
            return y.cos()
    """,
    "log call beside state": _module(
        "self.register_buffer('mean', torch.zeros(8))",
        """
        self.mean.lerp_(x.mean(0), 0.1)
        log.info("mean is updated")
        return x - self.mean
        """,
    ),
}
"""Programs whose break has a right fix."""

HOSTILE = {name: _program(body) for name, body in (WRONG | RIGHT).items()}
