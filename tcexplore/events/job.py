"""The job of a worker: one run of a file, and how that run compiles."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from tcexplore.events.base import Event

FOLLOW_S = 300.0
"""Default time limit of a script in seconds."""

Regions = Literal["whole", "blocks", "nested"]
"""What is compiled: the whole model, each repeated block by itself (`block.compile()`), or the whole model with its
repeated blocks as `torch.compiler.nested_compile_region`, each kind compiled once."""

REGIONS: tuple[Regions, ...] = get_args(Regions)

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
    dim: int = 0
    sizes: tuple[int, ...] = ()
    """Make each call once per size, with dimension `dim` of its inputs resized to it; empty for no resizing."""
    follow: float = FOLLOW_S
    """Time limit of a script in seconds; 0 for none."""
    vary: tuple[str, ...] = ()
    """`--vary` specifications (`events/input_specs.py`): each call is made for every combination."""
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


Span = tuple[int, int, int, int]
"""First line, its column, last line, and the column after its last character, as in `ast`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchTest:
    """The test of an `if`, a loop or a conditional expression in the file before a change."""

    file: str
    test: Span
    body: Span
    """What runs if the test holds."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Front end to worker: run this file once. `RunCommand`s may follow."""

    run: int
    file: str
    source: str
    """Text that the front end read. Run and panes agree even if the file changes again."""
    name: str | None = None
    argv: tuple[str, ...] = ()
    config: Config = field(default_factory=Config)
    time_for: float | None = None
    """Seconds of timing after the compile; 0 for none, None to continue until the run is ended."""
    passes: int = 1
    """Number of times to make the compiled calls. With more than one pass, nothing else is timed."""
    examine: bool = True
    """Whether to compare results and memory of eager and compiled after the compile."""
    profile: bool = True
    """Whether to profile eager and compiled calls before the timing."""
    graph_scripts: bool = False
    """Whether to emit torch's repro script for each graph of Inductor."""
    runnable: bool = False
    """Whether to emit each Triton kernel for the target as a standalone script."""
    caches: str = ""
    """Folder for torch's compile caches, all of which are then enabled. Empty for torch's own folder, with the caches
    disabled that would skip a compile."""
    cache_dir: str = ""
    """Folder for compiled kernels instead of torch's own, with the caches disabled that would skip a compile."""
    cold: bool = False
    """Whether to run in a new process, whose first call takes as long as in a plain script: it imports the compiler,
    tests the vector instructions of the machine, and collects garbage among all that was imported."""
    save_artifacts: str = ""
    """File to save compiled code to; empty for none."""
    load_artifacts: str = ""
    """File with compiled code to load instead of a compile; empty for none."""
    artifacts: Shipping = "cache"
    """How the code is saved."""
    baseline: str | None = None
    """Text of the file before a change in `source` or `overlay`. Results and compiled times of both are compared,
    instead of timing eager against compiled."""
    baseline_tests: tuple[BranchTest, ...] = ()
    """Tests in the baseline that the change replaces: each must be seen to hold and not to hold."""
    overlay: tuple[tuple[str, str], ...] = ()
    """Paths of local modules, each with a text that replaces its own."""
    recompile_queries: tuple[str, ...] = ()
    """Inputs such as `f32[33,512], True` to check for a recompile after the compile."""
    trace: str = ""
    """The trace that the run was read from, with the rank if there are several; empty for a live run."""
    python: str = ""
    """The interpreter that runs it, in a study of several environments; otherwise empty."""
    retargetable: bool = False
    """Whether a `Retarget` may follow; the run then keeps its graphs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standby(Event):
    """A worker is ready for a job."""

    torch: str
    python: str
    device: str
    """The default device, such as `cpu` or `cuda: NVIDIA H200`."""
    seconds: float
    """Duration of importing and priming."""
    cpu_seconds: float | None = None
    """CPU time of the process until then, which shows the speed of the machine."""
    primed: bool = False
    """Whether the worker has compiled a tiny model, so that its runs start immediately."""
    fork_problem: str = ""
    """Why its runs are not forked, which makes a save wait longer, on a system that can fork."""
    modes: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    """Modes and backends of this torch; empty if it does not list them."""
    environment: str = ""
    """The worker's interpreter, if it is not the one that runs tcexplore. The front end adds it."""
    environment_source: str = ""
    """Where that interpreter is named: `--python`, `VIRTUAL_ENV`, `CONDA_PREFIX`, or a folder."""
    features: tuple[str, ...] = ()
    """Names of optional functions and settings that this torch has, from `torch_probe.FEATURES`."""
