"""Small programs that break the graph, one kind of break each, as the files of a person: a `model` and `inputs`.

`BREAK` marks each line that breaks. Those in `CURABLE` have a change that removes the break and keeps the results.
"""

from __future__ import annotations

from textwrap import dedent

HEAD = """\
import copy
import logging
import random
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
    return head + dedent(body).strip("\n") + "\n" + TAIL


CURABLE = {
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
    "asked for": """
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

INCURABLE = {
    "random number": """
        def model(x):
            return x * random.random()  # BREAK
    """,
    "file": """
        def model(x):
            y = x.sin()
            file = open(__file__)  # BREAK
            file.close()  # BREAK
            return y.cos()
    """,
    "loop on a tensor": """
        def model(x):
            while x.sum() < 100:  # BREAK
                x = x * 2 + 1
            return x.sin()
    """,
    "seed": """
        def model(x):
            random.seed(0)  # BREAK
            return x.sin()
    """,
}
"""Those that no change of these lines alone removes without changing what the program does."""

PROGRAMS = {name: _program(body) for name, body in (CURABLE | INCURABLE).items()}


def marked(text: str) -> tuple[int, ...]:
    """The lines that break."""
    return tuple(n for n, line in enumerate(text.splitlines(), 1) if line.endswith("# BREAK"))
