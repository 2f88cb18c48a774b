"""`python -m tests.fixes.independent ORIGINAL CHANGED`: compare two model files without tcexplore.

The original runs eagerly, the changed file compiled, each from a fresh import, on `inputs` and `others` in turn. Prints
the differences in outputs, gradients, buffers, attributes and globals as JSON. A function `probe` of the file returns
state that is stored elsewhere.
"""

from __future__ import annotations

import importlib.util
import json
import math
import random
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from io import StringIO
from typing import Any

import torch
from torch.utils import _pytree as pytree

MODES = ("inference", "training", "evaluation")


def load(file: str) -> Any:
    """Import a file afresh, with everything seeded."""
    random.seed(0)
    torch.manual_seed(0)
    spec = importlib.util.spec_from_file_location("compared", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["compared"] = module
    spec.loader.exec_module(module)
    return module


def results(file: str, mode: str, *, compiled: bool) -> Iterator[dict[str, Any]]:
    """Yield what each call leaves behind."""
    torch._dynamo.reset()
    module = load(file)
    model = module.model
    if isinstance(model, torch.nn.Module) and mode != "inference":
        model.train(mode == "training")
    function = torch.compile(model, backend="aot_eager") if compiled else model
    for call in (module.inputs, *getattr(module, "others", ())):
        random.seed(1)
        torch.manual_seed(1)
        yield one_call(module, model, function, call, gradients=mode != "inference")


def one_call(module: Any, model: Any, function: Any, call: Any, *, gradients: bool) -> dict[str, Any]:
    """Return the values after one call by name."""
    leaves = [tensor.detach().clone().requires_grad_(gradients) for tensor in call]
    arguments = [leaf.clone() for leaf in leaves]
    values: dict[str, Any] = {}
    with torch.set_grad_enabled(gradients), redirect_stdout(StringIO()):
        try:
            output = function(*arguments)
        except Exception as error:  # noqa: BLE001  both files may fail in any way
            return {"error": isinstance(error, Exception)}
        values["output"] = output
        flat = [x for x in pytree.tree_leaves(output) if isinstance(x, torch.Tensor) and x.requires_grad]
        if gradients and flat:
            with suppress(RuntimeError):
                sum((x.double() * torch.arange(x.numel()).view(x.shape).cos()).sum() for x in flat).backward()
    values["inputs"], values["gradients"] = arguments, [leaf.grad for leaf in leaves]
    if isinstance(model, torch.nn.Module):
        values["state"] = dict(model.state_dict())
        values["parameters"] = {name: p.grad for name, p in model.named_parameters()}
        values["attributes"] = {f"{n}.{k}": v for n, m in model.named_modules() for k, v in vars(m).items()
                                if isinstance(v, int | float) and not k.startswith("_")}  # fmt: skip
        model.zero_grad()
    own = {k: v for k, v in vars(module).items() if not k.startswith("_") and k != "others"}
    values["globals"] = {k: repr(v) for k, v in own.items() if isinstance(v, int | float | dict | list)}
    values["counter"] = repr(getattr(module, "counter", None))
    values["probe"] = repr(module.probe()) if hasattr(module, "probe") else None
    values["random"] = (random.getstate(), torch.get_rng_state())
    copied: dict[str, Any] = pytree.tree_map(lambda x: x.detach().clone() if isinstance(x, torch.Tensor) else x, values)
    return copied


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, tensors up to rounding. A gradient that does not exist is zero."""
    if (one is None) != (other is None):
        existing = one if other is None else other
        return isinstance(existing, torch.Tensor) and not existing.any()
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        alike = one.shape == other.shape and one.dtype == other.dtype
        return alike and bool(torch.allclose(one, other, 1e-3, 1e-5, equal_nan=True))
    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor):
        return False
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-3) or (math.isnan(one) and math.isnan(other))
    return type(one) is type(other) and bool(one == other)


def differences(original: str, changed: str) -> Iterator[str]:
    """Yield every difference."""
    raising: dict[int, bool] = {}
    for mode in MODES:
        sides = (results(original, mode, compiled=False), results(changed, mode, compiled=True))
        for number, (before, after) in enumerate(zip(*map(list, sides), strict=True)):
            raising.setdefault(number, "error" in before)
            if "error" in before and not raising[number]:
                continue  # the original can be called in inference mode only
            if "globals" in before and "globals" in after:  # a fix may add some of its own
                after["globals"] = {name: after["globals"].get(name) for name in before["globals"]}
            for name in before.keys() | after.keys():
                one, other = (pytree.tree_leaves(side.get(name)) for side in (before, after))
                if len(one) != len(other) or not all(map(same, one, other)):
                    yield f"{mode}, call {number}: {name}"


if __name__ == "__main__":
    print(json.dumps(sorted(set(differences(*sys.argv[1:3])))))  # noqa: T201
