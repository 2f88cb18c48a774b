"""Small model files with one kind of graph break each.

`# BREAK` marks each line that breaks. `FIXABLE` programs have a change that removes the break and keeps the results.
"""

from __future__ import annotations

from textwrap import dedent

HEAD = """\
import contextlib
import copy
import io
import json
import logging
import os
import random
import threading
import time
import warnings
import zlib

import torch

log = logging.getLogger(__name__)


"""
TAIL = """

inputs = (torch.randn(8, 8),)
"""


def _program(body: str, head: str = HEAD) -> str:
    text = head + dedent(body).strip("\n") + "\n"
    return text if "\ninputs = " in text else text + TAIL


FIXABLE = {
    "print": """
        def model(x):
            y = x.sin()
            print("mean", y.mean())  # BREAK
            return y.cos()
    """,
    "logging": """
        def model(x):
            y = x.sin()
            log.warning("shape %s", y.shape)  # BREAK
            return y.cos()
    """,
    "warning": """
        def model(x):
            y = x.sin()
            warnings.warn("careful", stacklevel=1)  # BREAK
            return y.cos()
    """,
    "item": """
        def model(x):
            scale = x.abs().max().item()  # BREAK
            return x / scale
    """,
    "float": """
        def model(x):
            scale = float(x.abs().max())  # BREAK
            return x / scale
    """,
    "int": """
        def model(x):
            n = int(x.abs().max())  # BREAK
            return x * n
    """,
    "tolist": """
        def model(x):
            first = x.sum(1).tolist()  # BREAK
            return x * first[0] + first[1]
    """,
    "branch with a return": """
        def model(x):
            if x.sum() > 0:  # BREAK
                return x * 2
            return x - 1
    """,
    "branch with an assignment": """
        def model(x):
            y = x.sin()
            if y.sum() > 0:  # BREAK
                y = y * 2
            else:
                y = y - 1
            return y.cos()
    """,
    "branch on an item": """
        def model(x):
            y = x.sin()
            if torch.isnan(y).any().item():  # BREAK
                y = torch.nan_to_num(y)
            return y.cos()
    """,
    "conditional expression": """
        def model(x):
            y = x * 2 if torch.allclose(x, x * 2) else x - 1  # BREAK
            return y.cos()
    """,
    "nonzero": """
        def model(x):
            return x * torch.nonzero(x > 0).sum()  # BREAK
    """,
    "boolean mask": """
        def model(x):
            return x * x[x > 0].mean()  # BREAK
    """,
    "assertion": """
        def model(x):
            y = x.sin()
            assert torch.isfinite(y).all(), f"not finite, of shape {y.shape}"  # BREAK
            return y.cos()
    """,
    "check that raises": """
        def model(x):
            y = x.sin()
            if torch.isnan(y).any():  # BREAK
                raise ValueError("not a number")
            return y.cos()
    """,
    "explicit break": """
        def model(x):
            y = x.sin()
            torch._dynamo.graph_break()  # BREAK
            return y.cos()
    """,
    "disabled": """
        @torch.compiler.disable
        def apart(x):
            return x.relu()


        def model(x):
            return apart(x.sin()) + 1  # BREAK
    """,
    "clock": """
        def model(x):
            started = time.perf_counter()  # BREAK
            y = x.sin()
            took = time.perf_counter() - started  # BREAK
            return y.cos() + 0 * took
    """,
    "deep copy": """
        def model(x):
            y = copy.deepcopy(x)  # BREAK
            return y.sin()
    """,
    "data": """
        def model(x):
            y = x.sin()
            y.data = y.data * 2  # BREAK
            return y.cos()
    """,
    "checksum": """
        def model(x):
            y = x.sin()
            return y * (zlib.crc32(b"abc") % 7)  # BREAK
    """,
    "numpy": """
        import numpy as np


        def model(x):
            y = x.sin()
            norm = float(np.linalg.norm(y.numpy()))  # BREAK
            return y * norm
    """,
    "elif": """
        def model(x):
            if x.sum() > 10:  # BREAK
                y = x * 2
            elif x.sum() > 0:  # BREAK
                y = x * 3
            else:
                y = x - 1
            return y.cos()
    """,
    "branch with several names": """
        def model(x):
            a = x.sin()
            b = x.cos()
            if a.sum() > 0 and b.mean() < 10:  # BREAK
                a = a * 2
                b = b + 1
            return a + b
    """,
    "branch between modules": """
        class Chosen(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.left = torch.nn.Linear(8, 8)
                self.right = torch.nn.Linear(8, 8)

            def forward(self, x):
                if x.sum() > 0:  # BREAK
                    return self.left(x)
                return self.right(x)


        model = Chosen()
    """,
    "branch in a try": """
        def model(x):
            try:
                y = x.sin()
                if y.sum() > 0:  # BREAK
                    y = y * 2
            except RuntimeError:
                y = x
            return y.cos()
    """,
    "loop on a tensor": """
        def model(x):
            while x.sum() < 100:  # BREAK
                x = x * 2 + 1
            return x.sin()
    """,
    "loop on a tensor with a count": """
        def model(x):
            n = torch.zeros((), dtype=torch.int64)
            y = x.abs()
            while y.max() < 100:  # BREAK
                y = y * 2
                n = n + 1
            return y.sin() * n
    """,
    "file": """
        def model(x):
            y = x.sin()
            with open(__file__) as file:  # BREAK
                n = len(file.read())
            return y * n
    """,
    "file in a call": """
        def model(x):
            y = x.sin()
            n = len(open(__file__).read())  # BREAK
            return y * n
    """,
    "is there a file": """
        def model(x):
            y = x.sin()
            if os.path.exists("/no/such/file"):  # BREAK
                y = y + 1
            return y.cos()
    """,
    "redirected output": """
        def model(x):
            with contextlib.redirect_stdout(io.StringIO()):  # BREAK
                y = x.sin()
            return y.cos()
    """,
    "gradient inside": """
        def model(x):
            with torch.enable_grad():
                y = (x.sin() ** 2).sum()
                (gradient,) = torch.autograd.grad(y, x)  # BREAK
            return gradient


        inputs = (torch.randn(8, 8, requires_grad=True),)
    """,
    "tolist in a loop": """
        def model(x):
            y = x.sin()
            for n in (x > 0).sum(1).tolist():  # BREAK
                y = y + n
            return y.cos()
    """,
    "print in a try": """
        def model(x):
            try:
                y = x.sin()
                print("inside")  # BREAK
                return y.cos()
            except ValueError:
                return x
    """,
    "print in a loop": """
        def model(x):
            for n in range(3):
                x = x.sin()
                print("round", n)  # BREAK
            return x.cos()
    """,
    "print in a with": """
        class Scope:
            def __enter__(self):
                return self

            def __exit__(self, *_):
                return False


        def model(x):
            with Scope():
                y = x.sin()
                print("inside")  # BREAK
                return y.cos()
    """,
}

NOT_FIXABLE = {
    "random number": """
        def model(x):
            return x * random.random()  # BREAK
    """,
    "random number of another kind": """
        def model(x):
            return x * random.gauss(0.0, 1.0)  # BREAK
    """,
    "branch on a random number": """
        def model(x):
            if random.random() < 0.5:  # BREAK
                x = x + 1
            return x.sin()
    """,
    "file that stays open": """
        def model(x):
            y = x.sin()
            file = open(__file__)  # BREAK
            file.close()  # BREAK
            return y.cos()
    """,
    "loop that does more": """
        def model(x):
            seen = []
            while x.sum() < 100:  # BREAK
                x = x * 2 + 1
                seen.append(x)
            return x.sin() + len(seen)
    """,
    "lock": """
        lock = threading.Lock()


        def model(x):
            with lock:  # BREAK
                y = x.sin()
            return y.cos()
    """,
    "numpy without a counterpart": """
        import numpy as np


        def model(x):
            y = x.sin()
            return y + torch.from_numpy(np.interp(y.numpy(), [0.0, 1.0], [0.0, 2.0]))  # BREAK
    """,
    "number as a key": """
        def model(x):
            seen = {}
            seen[int(x.argmax())] = 1  # BREAK
            return x * len(seen)
    """,
    "seed": """
        def model(x):
            random.seed(0)  # BREAK
            return x.sin()
    """,
}
"""Programs without a change that removes the break and keeps the behavior; and the random number, which Inductor reads
wrongly before torch 2.15, so that its fix is not verified there."""

PROGRAMS = {name: _program(body) for name, body in (FIXABLE | NOT_FIXABLE).items()}


def marked(text: str) -> tuple[int, ...]:
    """Return the numbers of the lines that break."""
    return tuple(n for n, line in enumerate(text.splitlines(), 1) if line.endswith("# BREAK"))
