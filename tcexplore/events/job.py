"""The job of a worker: one run of a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tcexplore.events.config import Config, Shipping

Span = tuple[int, int, int, int]
"""First line, its column, last line, and the column after its last character, as in `ast`."""


StepSide = Literal["compiled", "eager", "perturbed"]
"""How a script runs whose parameters are recorded. `perturbed`: eager, each op's result changed by one unit in the last
place at random."""


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
    timing_rests: bool = True
    """Whether timing mostly rests after its first seconds; in a study, which pauses it, it does not."""
    timing_processes: int = 4
    """Other processes to time on a CPU after this run's own, if its process can be forked; 0 for none."""
    passes: int = 1
    """Number of times to make the compiled calls. With more than one pass, nothing else is timed."""
    examine: bool = True
    """Whether to compare results and memory of eager and compiled after the compile."""
    explain_memory: bool = False
    """Whether to record what is in use at the peak of memory of an eager and a compiled call; needs `examine`."""
    structure_only: bool = False
    """Whether to end after the compiled calls, and only generate code: no eager call, measurement or comparison."""
    profile: bool = True
    """Whether to profile eager and compiled calls after the timing."""
    numerics: bool = False
    """Whether to judge the numerics of each kernel after the compile."""
    numerics_folder: str = ""
    """Folder for the inputs of the kernel that is wrong or differs; empty for none."""
    step_side: StepSide | None = None
    """How a script runs whose parameters are recorded after each step, instead of being timed; None to time it."""
    steps: int = 0
    """Steps after which such a script ends."""
    steps_for: float = 0.0
    """Seconds after its first step until such a script ends, but not before its third step; 0 for no limit."""
    counted_kernels: tuple[str, ...] = ()
    """Names of Triton kernels whose hardware counters are read: the file runs once more, under Nsight Compute."""
    marked_call: bool = False
    """Whether to end with one more compiled call between the marks of CUDA's profiler API, for the profiler that
    launched this process."""
    eager_ops: tuple[str, ...] = ()
    """Ops such as `aten.sum.dim_IntList` for which Inductor calls eager's kernel instead of generating code."""
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
    baseline_config: Config | None = None
    """Configuration of `baseline`; None for that of the job."""
    baseline_tests: tuple[BranchTest, ...] = ()
    """Tests in the baseline that the change replaces: each must be seen to hold and not to hold."""
    overlay: tuple[tuple[str, str], ...] = ()
    """Paths of local modules, each with a text that replaces its own."""
    recompile_queries: tuple[str, ...] = ()
    """Inputs such as `f32[33,512], True` to check for a recompile after the compile."""
    try_recompile_fixes: bool = False
    """Whether changes that might avoid its recompiles are tried in copies of the process."""
    trace: str = ""
    """The trace that the run was read from, with the rank if there are several; empty for a live run."""
    python: str = ""
    """The interpreter that runs it, in a study of several environments; otherwise empty."""
    retargetable: bool = False
    """Whether a `Retarget` may follow; the run then keeps its graphs."""
