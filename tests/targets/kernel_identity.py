"""Triton code of models, generated without a GPU, compared with a recording on a GPU."""

from __future__ import annotations

import contextlib
import gc
import gzip
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch._functorch.config as aot_config
import torch._inductor.config as inductor_config
from torch._inductor.graph import GraphLowering

from tests.targets.models import MODELS

KERNEL = re.compile(r"async_compile\.triton\('(\w+)', '''(.*?)''', device_str", re.S)
EXTERN = re.compile(r"\b(?:extern_kernels\.\w+|torch\.ops\.aten\.\w+(?:\.\w+)*)\(")
KINDS = ("inference", "training")


def normalized(source: str) -> str:
    """Return a kernel's source without the hash of the Triton build, which differs between machines."""
    return re.sub(r"'backend_hash': '\w+'", "'backend_hash': ''", source).strip()


def versions() -> dict[str, str]:
    import transformers
    import triton

    return {"torch": torch.__version__, "triton": triton.__version__, "transformers": transformers.__version__}


@contextlib.contextmanager
def generated() -> Iterator[list[str]]:
    """Collect the wrapper modules that Inductor generates while the context is active."""
    codes: list[str] = []
    original = GraphLowering.save_output_code
    GraphLowering.save_output_code = staticmethod(codes.append)
    options = inductor_config.patch(fx_graph_cache=False, **_launcher())
    with options, aot_config.patch(enable_autograd_cache=False):
        try:
            yield codes
        finally:
            GraphLowering.save_output_code = original


def _launcher() -> dict[str, bool]:
    """Return options that select Triton's launcher: torch's static one does not keep the compiled kernel."""
    names = ("use_static_cuda_launcher", "use_static_triton_launcher")
    return {name: False for name in names if hasattr(inductor_config, name)}


def run(name: str, kind: str, device: str, backend: Any = "inductor") -> list[str]:
    """Return the code of one model on `device`: forward, and backward for training."""
    torch._dynamo.reset()
    gc.collect()
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    model = model.to(device).train(kind == "training")
    inputs = tuple(_move(i, device) for i in inputs)
    with generated() as codes, contextlib.nullcontext() if kind == "training" else torch.no_grad():
        output = torch.compile(model, backend=backend)(*inputs)
        if kind == "training" and device != "cpu":
            _loss(output).backward()
    return codes


def _move(value: Any, device: str) -> Any:
    return value.detach().to(device).requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value


def _loss(output: Any) -> torch.Tensor:
    leaves = output.values() if hasattr(output, "values") else output
    tensors = [output] if isinstance(output, torch.Tensor) else list(leaves)
    floats = [
        t.float().mean() for t in tensors if isinstance(t, torch.Tensor) and t.is_floating_point() and t.requires_grad
    ]
    return torch.stack(floats).sum()


def kernels(codes: list[str]) -> list[tuple[str, str]]:
    """Return (name, normalized source) of each Triton kernel in the order of definition."""
    return [(name, normalized(source)) for code in codes for name, source in KERNEL.findall(code)]


def externs(codes: list[str]) -> list[str]:
    """Return the extern kernels in the order of their calls."""
    calls = [line for code in codes for line in code.splitlines() if "def " not in line and not line.startswith("#")]
    return [m.rstrip("(") for line in calls for m in EXTERN.findall(line.partition("#")[0])]


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(file: Path) -> dict[str, Any]:
    """Read a recording, which is gzipped JSON."""
    facts: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    return facts


def without_device(target: Any, emit: Callable[[Any], None] = lambda _: None) -> Callable[..., Any]:
    """Return a backend that lowers each graph for `target`, and then runs it in eager mode."""
    from tcexplore.targets.lowering import lower_graph

    def backend(gm: Any, inputs: Any) -> Any:
        lower_graph(gm, inputs, target, emit)
        return gm.forward

    return backend
