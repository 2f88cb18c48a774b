"""A folder that reproduces a failure without tcexplore: the user's files, a script, versions, torch's own scripts."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from tcexplore import __version__
from tcexplore.events import Job, Standby
from tcexplore.files import NotWrittenError, create_all, read, require_unused_folder
from tcexplore.session import Snapshot

README = """\
# {failure}

```sh
python repro.py
```

ends with an exception if the failure occurs. Seed {seed}; inputs: {inputs}.

- torch {torch}, Python {python}, {device}
- {system}

{graphs}"""

GRAPHS = """\
torch's own script for each graph that Inductor compiled; `minify` makes it smaller as long as the failure occurs:

```sh
{commands}
```
"""

SCRIPT_HEAD = '''\
"""{failure}

Written by tcexplore {version}. It needs torch and the files in this folder: python repro.py
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
    """Yield the file's own inputs, as (args, kwargs)."""
    inputs = module.inputs() if callable(module.inputs) else module.inputs
    for call in inputs if isinstance(inputs, list) else [inputs]:
        yield ((), dict(call)) if isinstance(call, dict) else (tuple(call), {})


'''

INPUTS_OF_SPECS = '''\
SPECS = {specs!r}


def calls(_):
    """Yield random inputs by shape and dtype, as (args, kwargs)."""
    args, kwargs = [], {{}}
    for spec in SPECS:
        named = re.fullmatch(r"\\s*([A-Za-z_]\\w*)\\s*=(?!=)(.*)", spec, re.DOTALL)
        if named:
            kwargs[named[1]] = value(named[2])
        else:
            args.append(value(spec))
    yield tuple(args), kwargs


def value(spec):
    match = re.fullmatch(r"\\s*([a-z]\\w*)\\s*\\[([\\d\\s,]*)\\]\\s*(?:<\\s*(\\d+)\\s*)?", spec)
    if match is None:
        return ast.literal_eval(spec.strip())
    names = {{name: kind for name, kind in vars(torch).items() if isinstance(kind, torch.dtype)}}
    dtype = ({{short: kind for kind, short in dtype_abbrs.items()}} | names)[match[1]]
    shape = tuple(int(size) for size in match[2].split(",")) if match[2].strip() else ()
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
    return torch.randint(0, int(match[3] or 2), shape).to(dtype)


'''

MAIN = '''\
def results(function, args, kwargs, parameters, loss):
    """Return the results of one call: outputs, and gradients if training."""
    seed()
    if not TRAIN:
        with torch.no_grad():
            return tensors(function(*args, **kwargs))
    output = function(*args, **kwargs)
    loss(output).backward()
    values = tensors(output) + [p.grad.clone() for p in parameters if p.grad is not None]
    for parameter in parameters:
        parameter.grad = None
    return values


def tensors(output):
    return [leaf.detach().clone() for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]


def mean(output):
    return sum(leaf.float().mean() for leaf in tree_leaves(output) if getattr(leaf, "requires_grad", False))


def to_device(value):
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
        args, kwargs = to_device(args), to_device(kwargs)
        eager = results(target, args, kwargs, parameters, loss)
        torch.testing.assert_close(results(compiled, args, kwargs, parameters, loss), eager, equal_nan=True)
    print("no failure: compiled and eager results agree")


main()
'''

UNFUSED = "    torch._inductor.config.max_fusion_size = 1\n"
UNCACHED = "    torch._inductor.config.fx_graph_cache = False\n"


def write_reproducer(
    folder: str, job: Job, run: Snapshot, failure: str, machine: Standby | None, *, force: bool = False
) -> tuple[Path, ...]:
    """Write the reproducer of a failing stage and return the files that were written. Raises `NotWrittenError`.

    With `force`, existing files are overwritten, except for the sources of the run.
    """
    graph_scripts = _graph_scripts(run)
    contents = {
        **_user_files(job, run),
        "repro.py": _script(job, run, failure),
        **graph_scripts,
        "README.md": _readme(run, failure, machine, tuple(graph_scripts)),
    }
    return create_all(folder, contents, force=force, keep=(job.file, *run.modules))


def unused_folder(text: str) -> str:
    """Return the folder if it is new or empty. Raises `ValueError` with a message otherwise."""
    folder = Path(text.strip()).expanduser()
    if not text.strip():
        raise ValueError("Name a folder; it is created if it does not exist.")
    try:
        require_unused_folder(folder)
    except NotWrittenError as error:
        raise ValueError(str(error)) from None
    return str(folder)


def _user_files(job: Job, run: Snapshot) -> dict[str, str | bytes]:
    """Return the model file as it was run, and the local modules that it imported from its folder."""
    folder = os.path.dirname(job.file)
    files: dict[str, str | bytes] = {os.path.basename(job.file): job.source}
    for module in run.modules:
        name = os.path.relpath(module, folder)
        if not name.startswith(os.pardir) and module != job.file:
            files[name] = read(module)
    return files


def _graph_scripts(run: Snapshot) -> dict[str, str]:
    scripts = enumerate(run.graph_scripts)
    return {f"fx_graph_{number}_{script.graph.replace('/', '_')}.py": script.source for number, script in scripts}


def _readme(run: Snapshot, failure: str, machine: Standby | None, graph_scripts: tuple[str, ...]) -> str:
    entry, config = run.entry, run.config
    calls = "; ".join(f"({', '.join(call)})" for call in entry.calls) if entry else "unknown"
    commands = "\n".join(f"python {name} run\npython {name} minify" for name in graph_scripts)
    return README.format(
        failure=failure,
        seed=config.seed,
        inputs=calls,
        torch=machine.torch if machine else "?",
        python=machine.python if machine else platform.python_version(),
        device=machine.device if machine else "?",
        system=platform.platform(),
        graphs=GRAPHS.format(commands=commands) if graph_scripts else "",
    )


def _script(job: Job, run: Snapshot, failure: str) -> str:
    """Return the text of `repro.py`; it ends with an exception if the failure occurs."""
    config, entry = run.config, run.entry
    imports = "import ast\nimport re\n" if config.inputs else ""
    head = SCRIPT_HEAD.format(
        failure=failure, version=__version__, file=os.path.basename(job.file),
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
