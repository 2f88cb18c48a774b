"""How a run compiles: arguments of `torch.compile` and options of the command line."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, get_args

INDUCTOR = "inductor"
"""The only backend that has modes and options."""

FOLLOW_S = 300.0
"""Default time limit of a script in seconds."""

Regions = Literal["whole", "blocks", "nested"]
"""What is compiled: the whole model, each repeated block by itself (`block.compile()`), or the whole model with its
repeated blocks as `torch.compiler.nested_compile_region`, each kind compiled once."""

REGIONS: tuple[Regions, ...] = get_args(Regions)

ANY_REGION = "*"
"""`Config.region` for the first region of a script that is called twice; ignored for any other file."""

Shipping = Literal["cache", "precompile", "aot_compile", "precompile_capture", "aotinductor"]
"""A way to pass compiled code to another process. `cache`: torch's cache artifacts. `precompile`: the same with
Dynamo's code and guards (`caching_precompile`). `aot_compile`: a compiled function in a file. `precompile_capture`: one
call as Python code with its kernels (`torch.compiler.precompile.capture`). `aotinductor`: an exported model in a file.
"""

SHIPPING: tuple[Shipping, ...] = get_args(Shipping)

IN_CACHES: tuple[Shipping, ...] = ("cache", "precompile")
"""Ways by which torch finds the code in its caches when it compiles: also those of a script."""

SKIP_GUARD_EVAL = "skip_guard_eval_unsafe"
"""A guard filter that is an argument of `torch.compiler.set_stance`, not of `torch.compile`."""


@dataclass(frozen=True, slots=True)
class FusionChoice:
    """Whether Inductor fuses scheduler nodes of one graph, where it may: for a trial of what the scheduler refused."""

    together: bool
    """Whether the parts are fused with each other; else no two of them are."""
    parts: tuple[tuple[str, ...], ...]
    """Names of scheduler nodes, such as `op3`."""
    graph: str
    """Compile id, such as `0/0`."""
    phase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Configuration of a run: arguments of `torch.compile` and options of the command line."""

    mode: str = "default"
    backend: str = "inductor"
    dynamic: bool | None = None
    fullgraph: bool = False
    override: tuple[str, ...] = ()
    """Arguments of the file's own calls of `torch.compile` that are replaced by those of this configuration: `mode`,
    `backend`, `dynamic`, `fullgraph`, and `disable`, which compiles nothing."""
    train: bool = False
    grad: bool | None = None
    """Whether a forward run keeps gradients on; None to keep them off unless the model needs them."""
    device: str | None = None
    """Device to move model and inputs to; None leaves them on the device that the file chose."""
    target: str = "native"
    """Device to generate code for: `native`, a name of the device table, or the path of a TOML file."""
    assembly: bool = False
    """Whether C++ kernels are compiled to assembly too, which takes seconds for each."""
    opcheck: bool = False
    """Whether custom ops are tested with `torch.library.opcheck`."""
    inputs: tuple[str, ...] = ()
    """`--input` specifications such as `f32[64,512]` or `mask=bool[64]`."""
    seed: int = 0
    threads: int | None = None
    fuse: bool = True
    """Whether Inductor fuses nodes."""
    fusion_choices: tuple[FusionChoice, ...] = ()
    """Fusions that are made or refused whatever Inductor's heuristics say."""
    dim: int = 0
    sizes: tuple[int, ...] = ()
    """Make each call once per size, with dimension `dim` of its inputs resized to it; empty for no resizing."""
    follow: float = FOLLOW_S
    """Time limit of a script in seconds; 0 for none."""
    step: str | None = None
    """Function, or compiled region, of a script whose call is a step; None to find the steps."""
    no_eager_steps: bool = False
    """Whether a script runs as it is, without steps that run eagerly to time them."""
    region: str | None = None
    """A compiled region of a script, one call of which is captured and then is the program, with its inputs; `*` for
    the first that is called twice. None for the script as it is."""
    no_captured_calls: bool = False
    """Whether no call of a script's regions is kept to compare, time and profile it after the script."""
    repeat: bool = False
    """Whether a script with too few steps for a verdict runs again."""
    vary: tuple[str, ...] = ()
    """`--vary` specifications (`events/input_specs.py`): each call is made for every combination."""
    own_calls_first: bool = False
    """Whether the file's own calls are made before those that `vary` makes of them."""
    mark_dynamic: tuple[str, ...] = ()
    """Dimensions of arguments, such as `x.0`, that are marked with `torch._dynamo.mark_dynamic`."""
    as_tensors: tuple[str, ...] = ()
    """Numeric arguments to pass as tensors."""
    buckets: tuple[str, ...] = ()
    """Sizes such as `x.0=8,16,32`: tensors are padded with zeros to the next of them."""
    regions: Regions = "whole"
    mark_unbacked: tuple[str, ...] = ()
    """Dimensions of arguments, such as `x.0`, that are marked with `torch._dynamo.decorators.mark_unbacked`."""
    guard_filter: str = ""
    """Function of `torch.compiler`, such as `skip_guard_on_globals_unsafe`, that chooses the guards to keep, or
    `SKIP_GUARD_EVAL`; empty for all guards."""
    compile_arguments: tuple[str, ...] = ()
    """Further arguments of `torch.compile`, such as `recompile_limit=4` or `options={'max_autotune': True}`."""
    settings: tuple[str, ...] = ()
    """Values in torch's configuration, such as `torch._dynamo.config.nested_graph_breaks=True`."""
    autocast: str = ""
    """Type such as `bfloat16` in which the calls run under `torch.autocast`; empty for the file's own types."""
    channels_last: bool = False
    """Whether the model and its inputs of four dimensions are converted to `torch.channels_last`."""
    matmul_precision: str = ""
    """Argument of `torch.set_float32_matmul_precision` during the calls; empty for that of the file."""


_OF_COMPILE = ("mode", "backend", "dynamic", "fullgraph")


def with_file_arguments(config: Config, arguments: Iterable[str]) -> Config:
    """Return the configuration of the file's own call of torch.compile, with arguments such as `dynamic=True`.

    What the call does not give has torch's default. A backend that is a function has its name.
    """
    given = dict(text.partition("=")[::2] for text in arguments)
    known = {name: _value(given.pop(name)) for name in _OF_COMPILE if name in given}
    defaults = {name: getattr(Config(), name) for name in _OF_COMPILE}
    further = tuple(f"{name}={value}" for name, value in given.items())
    return replace(config, compile_arguments=further, **{**defaults, **known})


def _value(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
