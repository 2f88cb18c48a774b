"""A script that runs one kernel without tcexplore."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from tcexplore.events import KernelReproducer

SCRIPT = '''\
"""{title}

It needs torch and inputs.pt, which has the inputs that the kernel really got: python repro.py
"""

from pathlib import Path

import torch
from torch import device, inf, nan


class Kernel(torch.nn.Module):
{forward}

inputs = torch.load(Path(__file__).with_name("inputs.pt"))
kernel = Kernel()


def widened(value):
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


with torch.no_grad():
    eager = kernel(*inputs)
    compiled = torch.compile(kernel, fullgraph=True)(*[x.clone() if isinstance(x, torch.Tensor) else x for x in inputs])
for number, (one, other) in enumerate(zip(eager, compiled)):
    differing = int(((one != other) & ~((one != one) & (other != other))).sum())
    largest = float((widened(one) - widened(other)).abs().nan_to_num().max()) if one.is_floating_point() else 0.0
    print(f"output {{number}}: {{differing}} of {{one.numel()}} elements differ from eager, at most by {{largest:.3g}}")
'''

INPUTS = "inputs.pt"


def kernel_reproducer(kernel: str, graph: GraphModule, inputs: Sequence[Any], folder: str) -> KernelReproducer:
    """Write the inputs of a kernel to a folder, and return its script."""
    path = os.path.join(folder, INPUTS)
    torch.save([value.clone() if isinstance(value, torch.Tensor) else value for value in inputs], path)
    forward = re.sub(r"(?m)^(?=.)", "    ", str(graph.code).strip())
    source = SCRIPT.format(
        title=f"The nodes of the kernel {kernel}, compiled alone and compared with eager.", forward=forward
    )
    return KernelReproducer(kernel=kernel, source=source, inputs=path)
