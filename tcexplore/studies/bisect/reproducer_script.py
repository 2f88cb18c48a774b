"""The script that shows a fault: the file's entry called eagerly and compiled, and both compared."""

from __future__ import annotations

import os

from tcexplore import __version__
from tcexplore.events import Job
from tcexplore.studies.bisect.bisect_result import BisectStep

HEAD = '''\
"""{what}

Written by tcexplore {version}. It needs torch and the files beside it, nothing else: python repro.py
"""

import importlib.util
import random
import sys
from pathlib import Path

import torch
from torch.utils._pytree import tree_leaves, tree_map

FILE = Path(__file__).resolve().with_name({file!r})
ENTRY = {entry!r}
SEED = {seed}
TRAIN = {train}
DEVICE = {device!r}


def seed():
    random.seed(SEED)
    torch.manual_seed(SEED)


def load():
    sys.path.insert(0, str(FILE.parent))
    spec = importlib.util.spec_from_file_location(FILE.stem, FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[FILE.stem] = module
    spec.loader.exec_module(module)
    return module


'''

INPUTS_OF_FILE = '''\
def calls(module):
    """The file's own inputs, as (args, kwargs)."""
    inputs = module.inputs() if callable(module.inputs) else module.inputs
    for one in inputs if isinstance(inputs, list) else [inputs]:
        yield ((), dict(one)) if isinstance(one, dict) else (tuple(one), {})


'''

INPUTS_OF_SPECS = '''\
SPECS = {specs!r}


def calls(_):
    """Inputs by shape and dtype, drawn from the seed, as (args, kwargs)."""
    args, kwargs = [], {{}}
    for spec in SPECS:
        named = re.fullmatch(r"\\s*([A-Za-z_]\\w*)\\s*=(?!=)(.*)", spec, re.DOTALL)
        if named:
            kwargs[named[1]] = value(named[2])
        else:
            args.append(value(spec))
    yield tuple(args), kwargs


def value(spec):
    found = re.fullmatch(r"\\s*([a-z]\\w*)\\s*\\[([\\d\\s,]*)\\]\\s*(?:<\\s*(\\d+)\\s*)?", spec)
    if found is None:
        return ast.literal_eval(spec.strip())
    names = {{name: kind for name, kind in vars(torch).items() if isinstance(kind, torch.dtype)}}
    dtype = ({{short: kind for kind, short in dtype_abbrs.items()}} | names)[found[1]]
    shape = tuple(int(size) for size in found[2].split(",")) if found[2].strip() else ()
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
    return torch.randint(0, int(found[3] or 2), shape).to(dtype)


'''

MAIN = '''\
def one(function, args, kwargs, parameters, loss):
    """The results of one call: outputs, and the gradients to train."""
    seed()
    if not TRAIN:
        with torch.no_grad():
            return floats(function(*args, **kwargs))
    output = function(*args, **kwargs)
    loss(output).backward()
    results = floats(output) + [p.grad.clone() for p in parameters if p.grad is not None]
    for parameter in parameters:
        parameter.grad = None
    return results


def floats(output):
    return [leaf.detach().clone() for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]


def mean(output):
    return sum(leaf.float().mean() for leaf in tree_leaves(output) if getattr(leaf, "requires_grad", False))


def there(value):
    return tree_map(lambda leaf: leaf.to(DEVICE) if DEVICE and isinstance(leaf, torch.Tensor) else leaf, value)


def main():
    seed()
    module = load()
    target = getattr(module, ENTRY)
    target = target() if isinstance(target, type) else target
    if DEVICE and isinstance(target, torch.nn.Module):
        target = target.to(DEVICE)
    parameters = list(target.parameters()) if isinstance(target, torch.nn.Module) else []
    loss = getattr(module, "loss", mean)
{settings}    compiled = torch.compile(target, {arguments})
    for args, kwargs in calls(module):
        args, kwargs = there(args), there(kwargs)
        eager = one(target, args, kwargs, parameters, loss)
        torch.testing.assert_close(one(compiled, args, kwargs, parameters, loss), eager, equal_nan=True)
    print("no fault: compiled gives what eager gives")


main()
'''

UNFUSED = "    torch._inductor.config.max_fusion_size = 1\n"
UNCACHED = "    torch._inductor.config.fx_graph_cache = False\n"


def script(job: Job, culprit: BisectStep) -> str:
    """The text of `repro.py`; it ends with an exception where the fault shows."""
    config, entry = culprit.run.config, culprit.run.entry
    imports = "import ast\nimport re\n" if config.inputs else ""
    head = HEAD.format(
        what=what(culprit), version=__version__, file=os.path.basename(job.file),
        entry=entry.name if entry else job.name or "model", seed=config.seed, train=config.train, device=config.device,
    ).replace("import importlib.util\n", f"{imports}import importlib.util\n", 1)  # fmt: skip
    if config.inputs:
        pytree = "from torch.utils._pytree"
        head = head.replace(pytree, f"from torch.utils._dtype_abbrs import dtype_abbrs\n{pytree}", 1)
    inputs = INPUTS_OF_SPECS.format(specs=list(config.inputs)) if config.inputs else INPUTS_OF_FILE
    inductor = config.backend == "inductor"
    threads = f"    torch.set_num_threads({config.threads})\n" if config.threads else ""
    settings = threads + (UNCACHED if inductor else "") + ("" if config.fuse else UNFUSED)
    mode = {"mode": config.mode} if inductor else {}
    given = {"backend": config.backend, **mode, "dynamic": config.dynamic, "fullgraph": config.fullgraph}
    arguments = ", ".join(f"{name}={value!r}" for name, value in given.items())
    return head + inputs + MAIN.format(settings=settings, arguments=arguments)


def what(culprit: BisectStep) -> str:
    """The fault in one line."""
    if culprit.failed is not None:
        return f"{culprit.rung.layer}: {culprit.failed.type}: {culprit.failed.message.strip().partition(chr(10))[0]}"
    return f"{culprit.rung.layer}: another result than eager ({culprit.wrong})"
